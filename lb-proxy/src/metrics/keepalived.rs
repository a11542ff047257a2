//! `keepalived_exporter`'s names, with its labels and meaning. It shows counts under names without
//! `_total`, so that they are gauges here.

use std::fmt;

use daemon::metrics::{Labels, Page, float, labels};
use vrrp::machine::{Counters, State};
use vrrp::packet::Refusal;
use vrrp_net::status::RouterStatus;

/// A count of a virtual router.
type Of = fn(&Counters) -> u64;

pub(super) fn encode(page: &mut Page<'_, '_>, routers: &[RouterStatus]) -> fmt::Result {
    if routers.is_empty() {
        return Ok(());
    }
    page.gauge("keepalived_up", "Virtual routers run", 1.0)?;
    let states = routers
        .iter()
        .map(|router| (names(router), number(router.machine.state)));
    let help = "0 INIT, 1 BACKUP, 2 MASTER, 3 FAULT";
    page.gauges("keepalived_vrrp_state", help, states.collect())?;
    let counters: [(&str, &str, Of); 6] = [
        ("advert_rcvd", "Advertisements received", |c| c.advert_rcvd),
        ("advert_sent", "Advertisements sent", |c| c.advert_sent),
        ("become_master", "Times it became active", |c| {
            c.become_master
        }),
        ("release_master", "Times it ceased to be active", |c| {
            c.release_master
        }),
        (
            "pri_zero_rcvd",
            "Advertisements of priority 0 received",
            |c| c.pri_zero_rcvd,
        ),
        ("pri_zero_sent", "Advertisements of priority 0 sent", |c| {
            c.pri_zero_sent
        }),
    ];
    for (name, help, of) in counters {
        family(page, name, help, routers, of)?;
    }
    for refusal in Refusal::ALL {
        let of = |counters: &Counters| counters.refused(refusal);
        family(
            page,
            refusal.metric(),
            &format!("Refused: {refusal}"),
            routers,
            of,
        )?;
    }
    Ok(())
}

fn family(
    page: &mut Page<'_, '_>,
    name: &str,
    help: &str,
    routers: &[RouterStatus],
    of: impl Fn(&Counters) -> u64,
) -> fmt::Result {
    let values = routers.iter().map(|router| {
        let count = of(&router.machine.counters);
        (names(router), float(count))
    });
    page.gauges(&format!("keepalived_vrrp_{name}"), help, values.collect())
}

fn names(router: &RouterStatus) -> Labels {
    let settings = &router.machine.settings;
    labels(&[
        ("name", &*settings.name),
        ("intf", &*settings.interface),
        ("vrid", &settings.router_id.to_string()),
        ("state", router.machine.state.keepalived()),
    ])
}

/// As keepalived numbers them.
fn number(state: State) -> f64 {
    match state {
        State::Initialize => 0.0,
        State::Backup => 1.0,
        State::Active => 2.0,
        State::Fault => 3.0,
    }
}
