//! New versions of zones: incomplete files, and versions that are held back.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::symlink;

use super::*;
use crate::reload::{self, Pace};

/// A pause that no test waits for.
const LONG: Duration = Duration::from_hours(1);
const STRICT: Guard = Guard {
    serial_must_rise: true,
    largest_loss: 50,
};

/// A zone of this serial with `n` addresses that end in `last`.
fn zone(serial: u32, n: usize, last: u8) -> String {
    let names: String = (0..n).map(|n| format!("n{n} A 192.0.2.{last}\n")).collect();
    format!("$TTL 60\n@ SOA a b {serial} 2 3 4 60\n NS a\na A 192.0.2.{last}\n{names}")
}

//--- Incomplete files

/// A publisher whose directories are watched, and that takes no file only because time passes.
fn watched(files: &[(&str, &str)]) -> (Desk, watch::Sender<Pace>) {
    let desk = Desk::open_with(files, |plan| plan.zones.quiet = LONG);
    let (pace, paces) = watch::channel(Pace {
        interval: None,
        notify: true,
    });
    let directories = desk.directories.clone();
    reload::watch(paces, directories, desk.publisher.sender()).unwrap();
    // Only an event of a watch that is in place says that this file is complete.
    let (name, text) = files[0];
    let before = desk.report(name).n_loads;
    wait("the directory is watched", || {
        desk.folder.write(&format!("{name}zone"), text);
        thread::sleep(Duration::from_millis(200));
        desk.report(name).n_loads > before
    });
    (desk, pace)
}

/// Writes a new version with a pause in which the neighbour's file is replaced: the names behind the pause stay
/// in service all the time.
fn write_slowly(desk: &Desk, mut file: File, serial: u32, last: u8) {
    let text = zone(serial, 500, last);
    // Whole lines, so that the start is a zone too.
    let at = text.match_indices('\n').nth(8).unwrap().0 + 1;
    let (start, rest) = text.split_at(at);
    file.write_all(start.as_bytes()).unwrap();
    file.flush().unwrap();
    desk.folder.write("b.test.zone", &zone(serial, 1, last));
    wait("the neighbour is served", || {
        desk.ask("a.b.test.") == (0, vec![last])
    });
    assert_eq!(desk.ask("n499.a.test."), (0, vec![last - 1]));
    assert_eq!(desk.report("a.test.").serial, serial - 1);
    file.write_all(rest.as_bytes()).unwrap();
    drop(file);
    wait("the whole file is served", || {
        desk.ask("n499.a.test.") == (0, vec![last])
    });
}

#[test]
fn a_file_that_is_being_written_is_not_taken_because_a_neighbour_was_closed() {
    let (first, neighbour) = (zone(1, 500, 1), zone(1, 1, 1));
    let (desk, _pace) = watched(&[("a.test.", &first), ("b.test.", &neighbour)]);
    let path = desk.folder.path().join("a.test.zone");
    // In place.
    let file = File::create(&path).unwrap();
    write_slowly(&desk, file, 2, 2);
    // Unlinked and created, as tar and some editors do.
    fs::remove_file(&path).unwrap();
    let file = File::create_new(&path).unwrap();
    write_slowly(&desk, file, 3, 3);
    // Moved into its place.
    desk.folder.write("a.test.zone", &zone(4, 500, 4));
    wait("the moved file is served", || {
        desk.ask("n499.a.test.") == (0, vec![4])
    });
    desk.publisher.stop();
}

#[test]
fn a_link_that_is_swapped_takes_what_is_behind_it() {
    let (desk, _pace) = watched(&[("a.test.", &zone(1, 1, 1))]);
    let folder = desk.folder.path().to_owned();
    let version = |name: &str, last: u8| {
        fs::create_dir(folder.join(name)).unwrap();
        let file = folder.join(name).join("a.test.zone");
        fs::write(file, zone(u32::from(last), 1, last)).unwrap();
        symlink(name, folder.join("..next")).unwrap();
        fs::rename(folder.join("..next"), folder.join("..data")).unwrap();
    };
    // The first time, the file becomes a link.
    version("..1", 2);
    symlink("..data/a.test.zone", folder.join("link")).unwrap();
    fs::rename(folder.join("link"), folder.join("a.test.zone")).unwrap();
    wait("the first version is served", || {
        desk.ask("a.a.test.") == (0, vec![2])
    });
    version("..2", 3);
    wait("the second version is served", || {
        desk.ask("a.a.test.") == (0, vec![3])
    });
    desk.publisher.stop();
}

#[test]
fn a_configuration_is_adopted_without_the_files_that_are_open() {
    let desk = Desk::open(&[("a.test.", &zone(1, 9, 1)), ("b.test.", &zone(1, 9, 1))]);
    for name in ["a.test.zone", "b.test.zone"] {
        desk.folder.write(name, &zone(2, 0, 2));
    }
    let open = Events {
        open: [desk.folder.path().join("a.test.zone")].into(),
        ..Events::default()
    };
    let mut slow = plan(&desk.folder, &["a.test.", "b.test."]);
    slow.zones.quiet = LONG;
    let adopt = |plan: &Plan| {
        let (done, summary) = oneshot::channel();
        let command = Command::Configure(Box::new(plan.clone()), done);
        desk.publisher.send(command).unwrap();
        summary.blocking_recv().unwrap();
    };
    desk.folder.write("b.test.zone", &zone(1, 9, 1));
    desk.look();
    desk.folder.write("a.test.zone", &zone(1, 9, 1));
    desk.look();
    adopt(&slow);
    for name in ["a.test.zone", "b.test.zone"] {
        desk.folder.write(name, &zone(2, 0, 2));
    }
    desk.publisher.send(Command::Look(open)).unwrap();
    adopt(&slow);
    assert_eq!(desk.ask("n8.a.test."), (0, vec![1]));
    assert_eq!(desk.ask("a.b.test."), (0, vec![2]));
    desk.publisher.stop();
}

//--- Held versions

fn strict(text: &str) -> Desk {
    Desk::open_with(&[("a.test.", text)], |plan| plan.zones.guard = STRICT)
}

#[expect(clippy::unwrap_in_result, reason = "a test that cannot go on fails")]
fn accept(desk: &Desk, name: &str) -> Result<Outcome, NotHeld> {
    let (done, outcome) = oneshot::channel();
    let command = Command::Accept(name.parse().unwrap(), done);
    desk.publisher.send(command).unwrap();
    outcome.blocking_recv().unwrap()
}

#[test]
fn a_doubtful_version_waits_until_it_is_accepted() {
    for (text, reason) in [
        (zone(7, 9, 2), "its serial is 7 as before"),
        (zone(6, 9, 2), "its serial 6 is lower than 7"),
        (zone(8, 0, 2), "it has 3 of 12 records"),
    ] {
        let desk = strict(&zone(7, 9, 1));
        desk.folder.write("a.test.zone", &text);
        desk.look();
        assert_eq!(desk.ask("n8.a.test."), (0, vec![1]), "{reason}");
        let report = desk.report("a.test.");
        assert_eq!((report.state, report.serial), (State::Held, 7));
        let held = report.held.as_ref().unwrap();
        assert!(held.reasons[0].contains(reason), "{held:?}");
        let details = desk.readiness.details();
        assert!(details[0].contains("zone accept a.test."), "{details:?}");
        assert!(desk.readiness.is_ready());
        // A reload is no acceptance.
        let outcomes = desk.reload(Some("a.test.")).unwrap();
        assert_eq!(outcomes[0].result, Err(NotLoaded::Held(held.clone())));

        let outcome = accept(&desk, "A.test.").unwrap();
        assert!(outcome.result.is_ok(), "{outcome:?}");
        assert_eq!(desk.ask("a.a.test."), (0, vec![2]));
        assert_eq!(desk.report("a.test.").state, State::Loaded);
        assert!(desk.readiness.details().is_empty());
        assert_eq!(accept(&desk, "a.test."), Err(NotHeld::Nothing));
        assert_eq!(accept(&desk, "b.test."), Err(NotHeld::NoSuchZone));
        desk.publisher.stop();
    }
}

#[test]
fn a_later_version_without_doubts_ends_the_wait() {
    let desk = strict(&zone(7, 9, 1));
    desk.folder.write("a.test.zone", &zone(7, 9, 2));
    desk.look();
    assert_eq!(desk.report("a.test.").state, State::Held);
    desk.folder.write("a.test.zone", &zone(8, 9, 3));
    desk.look();
    assert_eq!(desk.ask("a.a.test."), (0, vec![3]));
    assert_eq!(accept(&desk, "a.test."), Err(NotHeld::Nothing));
    // The old data again: nothing differs.
    desk.folder.write("a.test.zone", &zone(8, 9, 4));
    desk.look();
    assert_eq!(desk.report("a.test.").state, State::Held);
    desk.folder.write("a.test.zone", &zone(8, 9, 3));
    desk.look();
    assert_eq!(desk.report("a.test.").state, State::Loaded);
    desk.publisher.stop();
}

#[test]
fn a_file_that_breaks_replaces_the_version_that_waits() {
    let desk = strict(&zone(7, 9, 1));
    desk.folder.write("a.test.zone", &zone(7, 9, 2));
    desk.look();
    desk.folder.write("a.test.zone", BROKEN);
    desk.look();
    assert_eq!(desk.report("a.test.").state, State::Stale);
    assert_eq!(accept(&desk, "a.test."), Err(NotHeld::Nothing));
    assert_eq!(desk.ask("n8.a.test."), (0, vec![1]));
    desk.publisher.stop();
}

#[test]
fn a_serial_that_may_stay_is_named_when_secondaries_would_keep_the_old_data() {
    let desk = Desk::open_with(&[("a.test.", &zone(5, 1, 1))], |_| {});
    for (serial, last, expected) in [
        (5, 1, None),
        (5, 2, Some("its serial is 5 as before")),
        (4, 3, Some("its serial 4 is lower than 5")),
        (6, 4, None),
    ] {
        desk.load("a.test.", &zone(serial, 1, last)).unwrap();
        assert_eq!(desk.ask("n0.a.test."), (0, vec![last]), "it is served");
        let warnings = desk.report("a.test.").warnings.clone();
        let is_named = |part: &&str| warnings.iter().any(|warning| warning.contains(*part));
        assert_eq!(warnings.is_empty(), expected.is_none(), "{warnings:?}");
        assert!(expected.iter().all(is_named), "{warnings:?}");
    }
    desk.publisher.stop();
}
