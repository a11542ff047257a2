//! Updates, beside loads of files and rollbacks.

use dns_update::{Entry, Grant, Update};
use dns_wire::{Class, Rcode, Type, rdata};

use super::*;
use dns_primary::histories;

/// A zone whose file has these addresses.
fn zone(serial: u32, more: &str) -> String {
    format!("$TTL 60\n@ SOA a b {serial} 2 3 4 60\n NS a\na A 192.0.2.1\n{more}")
}

fn open() -> Desk {
    Desk::open_with(&[("a.test.", &zone(1, ""))], keeps_histories)
}

fn name() -> Name {
    "a.test.".parse().unwrap()
}

/// An entry, written `CLASS OWNER TYPE [DATA]`.
fn entry(text: &str) -> Entry {
    let mut words = text.splitn(4, ' ');
    let mut word = || words.next().unwrap_or_default();
    let class: Class = word().parse().unwrap();
    let owner = Name::parse_relative(word(), &name()).unwrap();
    let rtype: Type = word().parse().unwrap();
    let rdata = match word() {
        "" => Vec::new(),
        data => rdata::from_text(rtype, data, &name()).unwrap(),
    };
    Entry {
        owner,
        rtype,
        class,
        ttl: if class == Class::IN { 60 } else { 0 },
        rdata,
    }
}

fn send(desk: &Desk, zone: &Name, changes: &[&str]) -> oneshot::Receiver<Rcode> {
    let key: Name = "key.".parse().unwrap();
    let grant = Grant {
        key: key.clone(),
        names: Vec::new(),
        types: vec![Type::A, Type::TXT],
    };
    let asked = Asked {
        zone: zone.clone().into(),
        update: Update {
            zone: zone.clone(),
            prerequisites: Vec::new(),
            changes: changes.iter().map(|text| entry(text)).collect(),
        },
        grants: [grant].into(),
        key,
        peer: "192.0.2.9:53".parse().unwrap(),
    };
    let (done, rcode) = oneshot::channel();
    let command = Command::Update(Box::new(asked), done);
    desk.publisher.send(command).unwrap();
    rcode
}

fn update(desk: &Desk, changes: &[&str]) -> Rcode {
    send(desk, &name(), changes).blocking_recv().unwrap()
}

fn serial(desk: &Desk) -> u32 {
    desk.report("a.test.").serial
}

fn kept(desk: &Desk) -> dns_history::History {
    histories::read(&desk.folder.path().join("history/a.test.history"), &name())
}

/// Another server on the same files.
fn again(desk: Desk, more: impl FnOnce(&mut Plan)) -> Desk {
    let text = fs::read_to_string(desk.folder.path().join("a.test.zone")).unwrap();
    let history = desk.folder.path().join("history");
    desk.publisher.stop();
    let next = Desk::open_with(&[("a.test.", &text)], |plan| {
        keeps_histories(plan);
        let to = plan.history.directory.clone().unwrap();
        fs::create_dir_all(&to).unwrap();
        for file in fs::read_dir(history).unwrap() {
            let file = file.unwrap();
            fs::copy(file.path(), to.join(file.file_name())).unwrap();
        }
        more(plan);
    });
    drop(desk.folder);
    next
}

#[test]
fn an_update_is_served_and_on_disk_when_its_client_hears_of_it() {
    let desk = open();
    assert_eq!(update(&desk, &["IN x A 192.0.2.7"]), Rcode::NOERROR);
    assert_eq!((desk.ask("x.a.test."), serial(&desk)), ((0, vec![7]), 2));
    assert_eq!(
        kept(&desk).newest().map(dns_history::Version::serial),
        Some(2)
    );
    let updates = desk.report("a.test.").updates().unwrap();
    assert_eq!((updates.file, updates.removed, updates.added), (1, 0, 1));
    // What changes nothing makes no version.
    assert_eq!(update(&desk, &["IN x A 192.0.2.7"]), Rcode::NOERROR);
    assert_eq!(serial(&desk), 2);
    assert_eq!(update(&desk, &["IN x MX 1 a"]), Rcode::REFUSED);
    let other = send(&desk, &"other.test.".parse().unwrap(), &[]);
    assert_eq!(other.blocking_recv(), Ok(Rcode::NOTAUTH));
    // After a restart it is there again, with its serial, and the one after that.
    let desk = again(desk, |_| {});
    assert_eq!((desk.ask("x.a.test."), serial(&desk)), ((0, vec![7]), 2));
    assert_eq!(update(&desk, &["ANY x A"]), Rcode::NOERROR);
    assert_eq!((desk.ask("x.a.test.").0, serial(&desk)), (3, 3));
    let desk = again(desk, |_| {});
    assert_eq!((desk.ask("x.a.test.").0, serial(&desk)), (3, 3));
    desk.publisher.stop();
}

#[test]
fn many_updates_at_once_are_each_carried_out_as_a_whole_or_not_at_all() {
    let desk = open();
    let all: Vec<_> = (0..200)
        .map(|n| {
            let good = format!("IN n{n} A 192.0.2.{}", n % 250);
            match n % 3 {
                0 => send(&desk, &name(), &[&good, "IN n MX 1 a"]),
                _ => send(&desk, &name(), &[&good]),
            }
        })
        .collect();
    for (n, rcode) in all.into_iter().enumerate() {
        let (expected, found) = match n % 3 {
            0 => (Rcode::REFUSED, 3),
            _ => (Rcode::NOERROR, 0),
        };
        assert_eq!(rcode.blocking_recv(), Ok(expected), "{n}");
        assert_eq!(desk.ask(&format!("n{n}.a.test.")).0, found, "{n}");
    }
    let kept = kept(&desk);
    assert_eq!(kept.updates().map(|updates| updates.added.len()), Some(133));
    assert_eq!(
        kept.newest().map(dns_history::Version::serial),
        Some(serial(&desk))
    );
    desk.publisher.stop();
}

#[test]
fn an_edited_file_and_the_updates_are_served_together() {
    let desk = open();
    assert_eq!(
        update(&desk, &["IN x A 192.0.2.7", "ANY a A", "IN a A 192.0.2.2"]),
        Rcode::NOERROR
    );
    // The same file is no news.
    assert_eq!(desk.load("a.test.", &zone(1, "")).unwrap().0, 2);
    // Another one needs no higher serial: the zone's rises.
    for (number, expected) in [(1, 3), (2, 4), (9, 9), (3, 10)] {
        let text = zone(number, &format!("file{expected} A 192.0.2.9\n"));
        assert_eq!(desk.load("a.test.", &text).unwrap().0, expected, "{number}");
        assert_eq!(desk.ask(&format!("file{expected}.a.test.")).0, 0);
        assert_eq!(desk.ask("x.a.test."), (0, vec![7]));
        assert_eq!(desk.ask("a.a.test."), (0, vec![2]));
    }
    assert!(matches!(
        desk.load("a.test.", BROKEN),
        Err(NotLoaded::Broken(_))
    ));
    assert_eq!(update(&desk, &["IN y A 192.0.2.8"]), Rcode::NOERROR);
    // Edited while no server runs.
    desk.folder
        .write("a.test.zone", &zone(4, "last A 192.0.2.9\n"));
    let desk = again(desk, |_| {});
    assert_eq!(serial(&desk), 12);
    for name in ["x.a.test.", "y.a.test.", "last.a.test."] {
        assert_eq!(desk.ask(name).0, 0, "{name}");
    }
    assert_eq!(desk.ask("file10.a.test.").0, 3);
    // A file that has all of it ends the updates.
    let text = zone(20, "last A 192.0.2.9\nx A 192.0.2.7\ny A 192.0.2.8\n");
    desk.load("a.test.", &text.replace("192.0.2.1\n", "192.0.2.2\n"))
        .unwrap();
    assert_eq!(
        (serial(&desk), desk.report("a.test.").updates()),
        (20, None)
    );
    desk.publisher.stop();
}

#[test]
fn a_zone_that_is_written_into_its_file_has_no_updates_left() {
    let desk = open();
    let sync = || {
        let (done, zone) = oneshot::channel();
        desk.publisher
            .send(Command::Sync(name().into(), done))
            .unwrap();
        zone.blocking_recv().unwrap()
    };
    assert!(
        matches!(sync(), Err(NotSynced::Refused(_))),
        "nothing to write"
    );
    assert_eq!(update(&desk, &["IN x A 192.0.2.7"]), Rcode::NOERROR);
    let (zone, file) = sync().unwrap();
    // One more, between the writing and the reading.
    assert_eq!(update(&desk, &["IN y A 192.0.2.8"]), Rcode::NOERROR);
    let text = dns_zone::text::master_file(&zone, std::iter::empty());
    crate::load::write_back(&text, &file).unwrap();
    assert!(
        matches!(sync(), Err(NotSynced::Refused(_))),
        "the file has changed"
    );
    let (done, outcome) = oneshot::channel();
    desk.publisher
        .send(Command::Reload(Some(name().into()), done))
        .unwrap();
    outcome.blocking_recv().unwrap().unwrap();
    assert_eq!((serial(&desk), desk.ask("y.a.test.")), (3, (0, vec![8])));
    let updates = desk.report("a.test.").updates().unwrap();
    assert_eq!((updates.file, updates.added), (2, 1));
    desk.publisher.stop();
}

#[test]
fn what_cannot_be_updated_says_so_and_stays_as_it_was() {
    let desk = open();
    let many: String = (0..100).map(|n| format!("m{n} A 192.0.2.9\n")).collect();
    desk.load("a.test.", &zone(2, &many)).unwrap();
    assert_eq!(update(&desk, &["IN x A 192.0.2.7"]), Rcode::NOERROR);
    // Rolled back, until the files change.
    let (done, outcome) = oneshot::channel();
    desk.publisher
        .send(Command::Rollback(name().into(), 2, done))
        .unwrap();
    outcome.blocking_recv().unwrap().unwrap();
    assert_eq!(update(&desk, &["IN y A 192.0.2.7"]), Rcode::REFUSED);
    desk.load("a.test.", &zone(9, &many)).unwrap();
    // A loss that is no accident of a few records.
    let desk = again(desk, |plan| plan.zones.guard.largest_loss = 50);
    let removals: Vec<String> = (0..65).map(|n| format!("ANY m{n} A")).collect();
    let removals: Vec<&str> = removals.iter().map(String::as_str).collect();
    assert_eq!(update(&desk, &removals), Rcode::SERVFAIL);
    assert_eq!(update(&desk, &removals[..40]), Rcode::NOERROR);
    // More than is kept.
    let desk = again(desk, |plan| plan.history.limits.octets = 4000);
    let texts: Vec<String> = (0..20)
        .map(|n| format!("IN t{n} TXT \"{}\"", "x".repeat(200)))
        .collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let before = serial(&desk);
    assert_eq!(update(&desk, &texts), Rcode::SERVFAIL);
    // A disk that takes nothing.
    let history = desk.folder.path().join("history");
    fs::remove_dir_all(&history).unwrap();
    fs::write(&history, "in the way").unwrap();
    assert_eq!(update(&desk, &["IN z A 192.0.2.7"]), Rcode::SERVFAIL);
    assert_eq!((serial(&desk), desk.ask("z.a.test.").0), (before, 3));
    desk.publisher.stop();
}

#[test]
fn a_version_that_is_held_back_is_judged_again_behind_an_update() {
    let desk = Desk::open_with(
        &[(
            "a.test.",
            &zone(5, "b A 192.0.2.2\nc A 192.0.2.3\nd A 192.0.2.4\n"),
        )],
        |plan| {
            keeps_histories(plan);
            plan.zones.guard.largest_loss = 30;
        },
    );
    assert!(matches!(
        desk.load("a.test.", &zone(6, "")),
        Err(NotLoaded::Held(_))
    ));
    assert_eq!(update(&desk, &["IN x A 192.0.2.7"]), Rcode::NOERROR);
    wait("it is held back again", || {
        desk.report("a.test.").held.is_some()
    });
    let (done, outcome) = oneshot::channel();
    desk.publisher
        .send(Command::Accept(name().into(), done))
        .unwrap();
    outcome.blocking_recv().unwrap().unwrap();
    assert_eq!(
        desk.ask("x.a.test."),
        (0, vec![7]),
        "the update is not lost"
    );
    assert_eq!((desk.ask("b.a.test.").0, serial(&desk)), (3, 7));
    desk.publisher.stop();
}

#[test]
fn an_edit_of_the_file_while_two_processes_run_loses_no_update_of_the_first_one() {
    let old = open();
    let history = old.folder.path().join("history");
    // The second process reads the files and histories of the first one, and does not know what comes later.
    let new = Desk::open_with(&[], |plan| {
        *plan = super::plan(&old.folder, &["a.test."]);
        keeps_histories(plan);
        plan.history.directory = Some(history.clone());
        plan.answers.grants = Arc::new(HashMap::from([(name().into(), Arc::from([]))]));
        plan.is_successor = true;
    });
    assert_eq!(update(&old, &["IN x A 192.0.2.7"]), Rcode::NOERROR);
    // The file is edited; the first process takes the edit, and then the second one.
    old.load("a.test.", &zone(2, "edited A 192.0.2.8\n"))
        .unwrap();
    assert_eq!(old.ask("edited.a.test."), (0, vec![8]));
    assert_eq!(update(&old, &["IN y A 192.0.2.9"]), Rcode::NOERROR);
    let (done, outcomes) = oneshot::channel();
    let reload = Command::Reload(Some(name().into()), done);
    new.publisher.send(reload).unwrap();
    assert!(outcomes.blocking_recv().unwrap().unwrap()[0].result.is_ok());
    assert_eq!(new.ask("edited.a.test."), (0, vec![8]));
    old.publisher.stop();
    let (done, renewed) = oneshot::channel();
    new.publisher.send(Command::Renew(done)).unwrap();
    renewed.blocking_recv().unwrap();
    for (owner, last) in [("x", 7), ("edited", 8), ("y", 9)] {
        let answer = new.ask(&format!("{owner}.a.test."));
        assert_eq!(answer, (0, vec![last]), "{owner}");
    }
    // The next one has them too.
    assert_eq!(update(&new, &["IN z A 192.0.2.10"]), Rcode::NOERROR);
    new.publisher.stop();
    let kept = histories::read(&history.join("a.test.history"), &name());
    let updates = kept.updates().unwrap();
    assert_eq!(updates.added.len(), 3, "{updates:?}");
}
