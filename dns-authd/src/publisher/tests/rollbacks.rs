//! The way back to older versions, beside loads of files.

#![expect(
    clippy::unwrap_in_result,
    clippy::panic_in_result_fn,
    reason = "helpers of tests, whose results are compared"
)]

use super::*;
use dns_primary::histories;

/// A zone whose addresses end with its serial.
fn zone(serial: u32) -> String {
    format!(
        "$TTL 60\n@ SOA a b {serial} 2 3 4 60\n NS a\na A 192.0.2.{serial}\nn{serial} A 192.0.2.1\n"
    )
}

fn open() -> Desk {
    Desk::open_with(&[("a.test.", &zone(1))], keeps_histories)
}

fn name() -> Name {
    "a.test.".parse().unwrap()
}

fn ask_back(desk: &Desk, serial: u32) -> oneshot::Receiver<Result<RolledBack, NotRolledBack>> {
    let (done, outcome) = oneshot::channel();
    let command = Command::Rollback(name().into(), serial, done);
    desk.publisher.send(command).unwrap();
    outcome
}

/// Rolls back; the serial that is published.
fn back(desk: &Desk, serial: u32) -> Result<u32, NotRolledBack> {
    let RolledBack { outcome, written } = ask_back(desk, serial).blocking_recv().unwrap()?;
    assert_eq!(written.blocking_recv().unwrap(), Ok(()));
    Ok(outcome.result.unwrap().0)
}

#[test]
fn a_zone_goes_back_and_forth_until_its_file_changes() {
    let desk = open();
    for serial in 2..=4 {
        desk.load("a.test.", &zone(serial)).unwrap();
    }
    assert_eq!(back(&desk, 2), Ok(5));
    assert_eq!(desk.ask("a.a.test."), (0, vec![2]));
    assert_eq!(desk.ask("n4.a.test.").0, 3, "NXDOMAIN");
    let rollback = desk.report("a.test.").rollback.clone().unwrap();
    assert_eq!((rollback.to, rollback.file), (2, 4));
    // The same file again, however it is written.
    assert_eq!(desk.load("a.test.", &zone(4)).unwrap().0, 5);
    assert_eq!(
        desk.load("a.test.", &format!("; the same\n{}", zone(4)))
            .unwrap()
            .0,
        5
    );
    assert_eq!(back(&desk, 4), Ok(6), "forth, to the version of the file");
    assert_eq!(desk.ask("a.a.test."), (0, vec![4]));
    assert_eq!(
        back(&desk, 2),
        Ok(7),
        "the version that was rolled back from"
    );
    let file = desk.folder.path().join("history/a.test.history");
    let kept = histories::read(&file, &name());
    assert_eq!(kept.newest().map(dns_history::Version::serial), Some(7));
    assert_eq!(kept.rollback().map(|rollback| rollback.to), Some(2));
    desk.load("a.test.", &zone(8)).unwrap();
    assert_eq!(desk.report("a.test.").rollback, None);
    assert_eq!(desk.ask("a.a.test."), (0, vec![8]));
    desk.publisher.stop();
    let kept = histories::read(&file, &name());
    assert_eq!(kept.newest().map(dns_history::Version::serial), Some(8));
    assert_eq!(kept.rollback(), None);
}

#[test]
fn a_new_version_beside_a_rollback_is_judged_by_what_is_served() {
    let desk = open();
    desk.load("a.test.", &zone(2)).unwrap();
    assert_eq!(back(&desk, 1), Ok(3));
    assert!(matches!(
        desk.load("a.test.", &zone(3)),
        Err(NotLoaded::Held(_))
    ));
    assert_eq!(desk.ask("a.a.test."), (0, vec![1]));
    assert!(
        matches!(back(&desk, 2), Err(NotRolledBack::Refused(_))),
        "held back"
    );
    let (done, outcome) = oneshot::channel();
    desk.publisher
        .send(Command::Accept(name().into(), done))
        .unwrap();
    outcome.blocking_recv().unwrap().unwrap();
    assert_eq!(desk.ask("a.a.test."), (0, vec![3]));
    assert_eq!(desk.report("a.test.").rollback, None);
    desk.publisher.stop();
}

#[test]
fn what_cannot_be_rolled_back_says_why() {
    let desk = open();
    desk.load("a.test.", &zone(2)).unwrap();
    let refusal = |serial| match back(&desk, serial) {
        Err(NotRolledBack::Refused(why)) => why,
        other => panic!("{other:?}"),
    };
    assert!(refusal(7).contains("serial 7"), "{}", refusal(7));
    assert!(refusal(2).contains("in service"), "{}", refusal(2));
    let (done, outcome) = oneshot::channel();
    let none = "none.test.".parse().unwrap();
    desk.publisher
        .send(Command::Rollback(none, 1, done))
        .unwrap();
    let outcome = outcome.blocking_recv().unwrap();
    assert!(matches!(outcome, Err(NotRolledBack::NoSuchZone)));
    // Two at once: one of them is carried out, and nobody is told that both were.
    desk.load("a.test.", &zone(3)).unwrap();
    let (first, second) = (ask_back(&desk, 1), ask_back(&desk, 2));
    let results = [first, second].map(|one| one.blocking_recv().unwrap().is_ok());
    let to = desk
        .report("a.test.")
        .rollback
        .clone()
        .map(|rollback| rollback.to);
    assert!(results[1], "{results:?}");
    assert_eq!(to, Some(2));
    desk.publisher.stop();
}
