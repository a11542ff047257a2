//! Faults that come and go, and settings that are edited.

use super::*;

#[test]
fn unknown_peers_keep_a_router_from_being_active() {
    let nobody = RouterSettings {
        peers: Peers::Unicast(Vec::new()),
        ..settings()
    };
    let mut bench = Bench::new(nobody);
    assert_eq!(
        bench.tell(Input::Startup(Start::Fresh)),
        "remove 100, initialize > fault: the peers are unknown"
    );
    assert_eq!(
        bench.edit(|settings| settings.peers = Peers::Unicast(vec![ip(LOWER)])),
        "fault > backup: faults cleared"
    );
    bench.wait_out();
    assert_eq!(
        bench.edit(|settings| settings.peers = Peers::Unicast(Vec::new())),
        format!("{RELEASE}, active > fault: the peers are unknown")
    );
}

#[test]
fn every_fault_has_to_clear() {
    let mut bench = Bench::failed(settings());
    assert_eq!(bench.tell(Input::FaultFound(Fault::Kernel)), "");
    assert_eq!(bench.tell(Input::FaultCleared(Fault::Link)), "");
    assert_eq!(bench.machine.status().faults, [Fault::Kernel]);
    assert_eq!(
        bench.tell(Input::FaultCleared(Fault::Kernel)),
        "fault > backup: faults cleared"
    );
    assert_eq!(bench.until_deadline(), DOWN);
}

#[test]
fn a_dead_link_is_not_spoken_to() {
    let mut bench = Bench::active(settings());
    assert_eq!(
        bench.tell(Input::FaultFound(Fault::Link)),
        "reset 100, remove 100, active > fault: the link is down"
    );
    let mut bench = Bench::active(settings());
    assert_eq!(
        bench.tell(Input::Eligibility(Eligibility::Unable)),
        format!("{RELEASE}, active > fault: the proxy cannot serve")
    );
}

#[test]
fn edited_addresses_come_and_go_and_the_others_stay() {
    let mut bench = Bench::active(settings());
    assert_eq!(
        bench.edit(|settings| settings.addresses.push(address(101))),
        "send 100, add 101, announce 101 x5"
    );
    assert_eq!(
        bench.edit(|settings| settings.addresses = vec![address(101), address(102)]),
        "send 100, reset 100, remove 100, add 102, announce 102 x5"
    );
    assert_eq!(bench.machine.state(), State::Active);
}

#[test]
fn an_edit_does_not_move_the_address() {
    let changes: [&dyn Fn(&mut RouterSettings); 6] = [
        &|settings| settings.priority = 50,
        &|settings| settings.interval = millis(200),
        &|settings| settings.peers = Peers::Unicast(vec![ip(LOWER)]),
        &|settings| settings.version = Version::V2,
        &|settings| settings.preempt = Preempt::Never,
        &|settings| settings.announce.count = 1,
    ];
    for change in changes {
        let mut bench = Bench::active(settings());
        let said = bench.edit(change);
        assert!(said == "send 100" || said == "send 50", "{said}");
        assert_eq!(bench.machine.state(), State::Active);
        assert!(bench.until_deadline() <= bench.machine.settings().interval);

        let mut bench = Bench::backup(settings());
        bench.hear(HIGHER, 200);
        assert_eq!(bench.edit(change), "");
        assert_eq!(bench.machine.state(), State::Backup);
    }
}

#[test]
fn a_shorter_interval_is_not_taken_for_a_pause() {
    let mut bench = Bench::backup(settings());
    bench.pass(millis(3_000));
    bench.edit(|settings| settings.interval = millis(100));
    assert!(bench.wait_out().starts_with(TAKEOVER));
}

#[test]
fn another_router_begins_when_this_one_has_let_go() {
    let mut bench = Bench::active(settings());
    assert_eq!(
        bench.edit(|settings| settings.router_id = 52),
        format!(
            "{RELEASE}, active > initialize: stopped, \
             remove 100, initialize > backup: started"
        )
    );
    assert_eq!(bench.until_deadline(), DOWN);
}

#[test]
fn another_source_is_told_at_once() {
    let mut bench = Bench::active(settings());
    assert_eq!(bench.tell(Input::Source(Some(ip(LOWER)))), "send 100");
    assert_eq!(bench.tell(Input::Source(Some(ip(LOWER)))), "");
    assert_eq!(
        bench.tell(Input::Source(None)),
        "reset 100, remove 100, active > fault: the interface has no address"
    );
}

#[test]
fn counts_are_kept() {
    let mut bench = Bench::active(settings());
    bench.hear(HIGHER, 200);
    bench.tell(Input::Shutdown(Departure::Release));
    let counters = bench.machine.status().counters;
    assert_eq!(counters.become_master, 1);
    assert_eq!(counters.release_master, 1);
    assert_eq!(counters.advert_rcvd, 1);
    // One at the takeover, six since, one last.
    assert_eq!(counters.advert_sent, 8);
    assert_eq!(counters.pri_zero_sent, 0);
}
