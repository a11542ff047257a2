//! Updates while a worker carries them out.

use std::net::SocketAddr;
use std::sync::Arc;

use daemon::clock;
use dns_history::{History, Making};
use dns_update::{Grant, Next, Refusal, Update};
use dns_views::ZoneId;
use dns_wire::hash::Seed;
use dns_wire::{Name, Rcode, Session};
use dns_zone::parse::Options;
use dns_zone::{Guard, Zone};
use peer_bind::ZoneDecl;
use tokio::sync::oneshot;

use super::steps::{Step, TOO_MANY_UPDATES};
use dns_primary::histories::{Keeping, Orders};

/// An update of a client.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The zone.
    pub zone: ZoneId,
    /// The update.
    pub update: Update,
    /// The grants of its zone.
    pub grants: Arc<[Grant]>,
    /// The key that it is signed with.
    pub key: Name,
    /// The client.
    pub peer: SocketAddr,
}

impl Asked {
    /// An update with the grants of its zone.
    #[must_use]
    pub fn new(
        (zone, update): (ZoneId, Update),
        grants: Arc<[Grant]>,
        session: &Session,
        peer: SocketAddr,
    ) -> Self {
        Self {
            zone,
            update,
            grants,
            key: session.key().name().clone(),
            peer,
        }
    }
}

/// An update that waits, and the one who gets the code of the response.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) asked: Arc<Asked>,
    pub(super) done: oneshot::Sender<Rcode>,
}

/// Updates to carry out.
#[derive(Debug)]
pub(super) struct Updating {
    /// The version in service.
    pub(super) served: Arc<Zone>,
    /// Its history.
    pub(super) history: History,
    /// The updates, in their order.
    pub(super) asked: Vec<Arc<Asked>>,
    /// The rules for new versions.
    pub(super) guard: Guard,
    /// How histories are kept.
    pub(super) keeping: Keeping,
    /// How master files are read.
    pub(super) options: Arc<Options>,
    /// The seed by which names are hashed.
    pub(super) seed: Seed,
    /// Has the history written.
    pub(super) orders: Orders,
}

/// The result of each update.
type Results = Vec<Result<(), Refusal>>;

/// Carries out updates; the next version, if there is one, is on disk when this returns.
pub(super) fn carry_out(
    declared: &ZoneDecl,
    updating: &Updating,
    has_programs: bool,
) -> (Results, Option<(Zone, Step)>) {
    let making = Making {
        name: &declared.name,
        path: declared.file.as_deref(),
        options: &updating.options,
        has_programs,
        seed: updating.seed,
    };
    let asked = updating.asked.iter().map(|asked| {
        let grants = asked.grants.iter().filter(|grant| grant.key == asked.key);
        (&asked.update, grants.collect::<Vec<&Grant>>())
    });
    let asked: Vec<_> = asked.collect();
    let mut make = |soa, records| making.zone(soa, records);
    let (results, next) = dns_update::apply_all(&updating.served, &asked, &mut make);
    let Some(next) = next else {
        return (results, None);
    };
    let kept = judge(&next, updating).and_then(|history| {
        let file = updating.keeping.file(&declared.id());
        let file = file.ok_or("no [history] directory is set")?;
        updating.orders.write_now(file, &declared.name, &history)?;
        Ok(history)
    });
    match kept {
        Ok(history) => {
            let step = Step::Apart(Arc::clone(&updating.served), history);
            (results, Some((next.zone, step)))
        }
        Err(why) => {
            let failed = results
                .into_iter()
                .map(|result| result.and_then(|()| Err(Refusal::failure(&why))));
            (failed.collect(), None)
        }
    }
}

/// The history behind a version that updates have made, unless that version is doubtful.
fn judge(next: &Next, updating: &Updating) -> Result<History, String> {
    let zones = (&*updating.served, &next.zone);
    if let Some(doubt) = updating.guard.doubt_of_update(zones.0, zones.1) {
        return Err(doubt.to_string());
    }
    let step = next.step.as_ref();
    let step = step.map(|it| (&it.soa, &*it.removed, &*it.added));
    let (now, limits) = (clock::since_1970().as_secs(), updating.keeping.limits);
    let history = updating.history.updated(zones, step, now, limits);
    history.map_err(|_| TOO_MANY_UPDATES.to_owned())
}
