//! A router whose addresses need a lease.

use super::*;

/// A backup that needs a lease, and hears first that no node has it.
fn bench() -> Bench {
    let mut bench = Bench::new(settings());
    assert_eq!(bench.tell(Input::Lease(Lease::Awaited)), "");
    assert_eq!(
        bench.tell(Input::Startup(Start::Fresh)),
        "remove 100, lease Wait, initialize > backup: started"
    );
    assert_eq!(bench.pass(2 * DOWN), "", "it waits for a word of healthd");
    assert_eq!(bench.tell(Input::Lease(Lease::Free)), "");
    bench
}

fn own(bench: &Bench, time: Duration, preempting: u8) -> Lease {
    Lease::Own {
        until: bench.now + time,
        preempting,
    }
}

/// A holder whose lease ends two intervals later.
fn holder() -> Bench {
    let mut bench = bench();
    assert_eq!(bench.wait_out(), "lease Ask { preempts: false }");
    assert_eq!(bench.until_deadline_or_none(), None, "it has asked");
    let lease = own(&bench, millis(2_000), 0);
    let said = bench.tell(Input::Lease(lease));
    assert_eq!(
        said,
        "add 100, send 254, announce 100 x5, backup > active: has the lease"
    );
    bench
}

#[test]
fn it_asks_after_a_part_of_its_skew_time_and_is_active_once_it_has_the_lease() {
    holder();
}

#[test]
fn a_process_has_the_lease_that_the_one_before_has_left() {
    let mut bench = Bench::new(settings());
    bench.tell(Input::Lease(Lease::Awaited));
    bench.tell(Input::Startup(Start::Fresh));
    let lease = own(&bench, millis(900), 0);
    let said = bench.tell(Input::Lease(lease));
    assert!(said.starts_with("add 100, send 254"), "{said}");
    assert!(said.contains("lease Ask { preempts: false }"), "{said}");
    assert!(said.ends_with("backup > active: has the lease"), "{said}");
}

#[test]
fn a_lease_that_it_has_given_up_is_not_its_own_again() {
    let mut bench = holder();
    bench.tell(Input::Lease(Lease::Other { priority: 50 }));
    // The answer to a call of before.
    let late = own(&bench, millis(900), 0);
    assert_eq!(bench.tell(Input::Lease(late)), "");
    assert_eq!(bench.pass(millis(2_000)), "");
}

#[test]
fn it_ends_with_its_lease_and_says_nothing() {
    let mut bench = holder();
    let said = bench.pass(millis(3_000));
    assert!(
        said.ends_with(": reset 100, remove 100, lease Drop, active > backup: its lease has ended"),
        "{said}"
    );
}

#[test]
fn it_stays_while_its_lease_is_renewed_whatever_it_hears() {
    let mut bench = holder();
    for _ in 0..20 {
        let lease = own(&bench, millis(2_000), 0);
        assert_eq!(bench.tell(Input::Lease(lease)), "");
        bench.hear(HIGHER, 255);
        bench.hear(HIGHER, 0);
        bench.pass(millis(500));
    }
    let status = bench.machine.status();
    assert_eq!(status.state, State::Active);
    assert_eq!(
        (status.counters.overruled, status.counters.become_master),
        (40, 1)
    );
}

#[test]
fn it_ends_at_once_when_another_has_the_lease() {
    let mut bench = holder();
    assert_eq!(
        bench.tell(Input::Lease(Lease::Other { priority: 50 })),
        "reset 100, remove 100, lease Drop, active > backup: its lease has ended"
    );
}

#[test]
fn it_gives_the_lease_to_a_higher_priority_and_the_addresses_when_they_are_announced() {
    let mut bench = holder();
    let lease = own(&bench, millis(9_000), 0);
    bench.tell(Input::Lease(lease));
    // Long enough for the last word of a competitor to have come.
    bench.pass(millis(4_000));
    let lease = own(&bench, millis(2_000), 200);
    assert_eq!(bench.tell(Input::Lease(lease)), "lease Drop");
    assert_eq!(bench.pass(millis(200)), "");
    bench.hear(HIGHER, 254);
    bench.claimed(100);
    let said = bench.pass(millis(300));
    assert!(said.contains("reset 100, remove 100"), "{said}");
    assert!(said.contains("has a higher priority"), "{said}");
}

#[test]
fn a_backup_preempts_a_lower_priority_only() {
    let mut bench = bench();
    let higher = Lease::Other { priority: 200 };
    assert_eq!(bench.tell(Input::Lease(higher)), "");
    // It is to be the next.
    assert_eq!(bench.wait_out(), "lease Ask { preempts: false }");
    assert_eq!(bench.until_deadline_or_none(), None);
    bench.tell(Input::Lease(Lease::Other { priority: 50 }));
    assert_eq!(bench.wait_out(), "lease Ask { preempts: true }");
}

#[test]
fn no_advertisement_makes_a_backup_active_or_keeps_it_from_it() {
    let mut bench = bench();
    bench.hear(HIGHER, 255);
    bench.hear(HIGHER, 0);
    assert_eq!(bench.wait_out(), "lease Ask { preempts: false }");
    assert_eq!(bench.pass(3 * DOWN), "", "it has no lease");
}

#[test]
fn advertisements_decide_again_where_healthds_are_away() {
    let mut bench = bench();
    assert_eq!(bench.tell(Input::Lease(Lease::Unneeded)), "");
    let said = bench.pass(2 * DOWN);
    assert!(
        said.contains("backup > active: no active router was heard"),
        "{said}"
    );
    assert!(
        said.contains("lease Ask { preempts: false }"),
        "a healthd that returns has to know of the holder: {said}"
    );
    // Leases decide again: it stays while it waits for the answer.
    assert_eq!(bench.tell(Input::Lease(Lease::Free)), "");
    assert_eq!(bench.machine.state(), State::Active);
    assert!(bench.pass(millis(7_000)).contains("its lease has ended"));
}

#[test]
fn a_holder_whose_healthds_are_away_goes_on_by_advertisements_before_any_other() {
    let mut bench = holder();
    let said = bench.pass(millis(2_001));
    assert!(said.ends_with("its lease has ended"), "{said}");
    // No healthd answers: it waits for a node that has the lease by now, and no longer.
    bench.tell(Input::Lease(Lease::Unneeded));
    assert_eq!(bench.pass(millis(1_400)), "");
    let said = bench.pass(millis(101));
    assert!(
        said.contains("backup > active: no active router was heard"),
        "{said}"
    );
}
