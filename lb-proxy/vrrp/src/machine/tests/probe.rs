//! Who has the addresses and does not advertise them.

use super::*;

#[test]
fn a_router_asks_while_it_listens_and_loses_no_time_by_it() {
    let mut settings = settings();
    settings.probe = true;
    let mut bench = Bench::new(settings);
    assert_eq!(
        bench.tell(Input::Startup(Start::Fresh)),
        "remove 100, initialize > backup: started, probe 100"
    );
    assert_eq!(
        bench.pass(DOWN),
        format!(
            "902: probe 100 | 1804: probe 100 | 3609: {TAKEOVER}, backup > active: no active router was heard"
        )
    );
}

#[test]
fn a_holder_that_advertises_is_explained() {
    let mut bench = Bench::asking(settings());
    bench.claimed(100);
    assert_eq!(bench.hear(HIGHER, 200), "");
    assert_eq!(bench.pass(millis(3_000)), "");
    // Nor is anything asked when it is gone: that would cost time.
    bench.claimed(100);
    assert!(bench.wait_out().starts_with(TAKEOVER));
}

#[test]
fn a_holder_that_does_not_advertise_is_reported_and_waited_for() {
    let mut bench = Bench::asking(settings());
    bench.pass(millis(2_000));
    assert_eq!(bench.claimed(100), "");
    assert_eq!(bench.wait_out(), "report AddressTaken, probe 100");
    assert_eq!(bench.machine.status().counters.duplicates, 1);
    assert_eq!(bench.until_deadline(), millis(1_000));
    bench.claimed(100);
    // Reported once a minute.
    assert_eq!(bench.wait_out(), "probe 100");
    // It does not answer any more.
    assert!(bench.wait_out().starts_with(TAKEOVER));
}

#[test]
fn an_answer_that_is_older_than_the_last_question_does_not_count() {
    let mut bench = Bench::asking(settings());
    bench.claimed(100);
    bench.pass(millis(3_600));
    assert!(bench.wait_out().starts_with(TAKEOVER));
}

#[test]
fn a_holder_that_stays_is_not_waited_for_for_ever() {
    let mut bench = Bench::asking(settings());
    bench.pass(millis(2_000));
    let mut waits = 0;
    let taken = loop {
        bench.claimed(100);
        let said = bench.wait_out();
        if said.contains("add 100") {
            break said;
        }
        waits += 1;
    };
    assert_eq!(waits, 3);
    assert!(taken.starts_with("report AddressTaken, add 100"), "{taken}");
}

#[test]
fn nothing_is_asked_after_a_fault_nor_by_an_owner() {
    let mut bench = Bench::asking(settings());
    bench.tell(Input::FaultFound(Fault::Link));
    assert_eq!(
        bench.tell(Input::FaultCleared(Fault::Link)),
        "fault > backup: faults cleared"
    );
    let mut settings = settings();
    settings.probe = true;
    settings.priority = 255;
    let mut bench = Bench::new(settings);
    assert!(!bench.tell(Input::Startup(Start::Fresh)).contains("probe"));
}
