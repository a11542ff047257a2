//! Loads that take their time, while everything else happens.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

use super::*;

const HEALTHY: &str = "live LUA A \"ifportup(443, {'192.0.2.5','192.0.2.6'})\"\n";

/// Lets the loads of one zone wait until the test lets them continue.
struct Gate {
    /// Gets a message when a load waits, after it has read the files.
    waiting: Receiver<()>,
    /// Each message lets one load continue.
    open: Sender<()>,
}

/// A way to load that makes this zone wait.
fn gated(name: &'static str) -> (Load, Gate) {
    let (waits, waiting) = channel();
    let (open, opened) = channel();
    let (waits, opened) = (Mutex::new(waits), Mutex::new(opened));
    let load = move |order: Order| {
        let is_it = order.declared.name == name.parse().unwrap();
        let done = loader::carry_out(order);
        if is_it {
            waits.lock().unwrap().send(()).unwrap();
            // The end of a test is the end of its loads.
            let _opened = opened.lock().unwrap().recv();
        }
        done
    };
    (Arc::new(load), Gate { waiting, open })
}

fn nothing(_: &mut Plan) {}

fn state(desk: &Desk, name: &str) -> State {
    desk.sync();
    desk.report(name).state
}

#[test]
fn each_zone_answers_when_it_is_loaded_and_the_others_say_that_they_are_not() {
    let (load, gate) = gated("big.test.");
    let files = [("big.test.", GOOD), ("a.test.", GOOD), ("b.test.", BROKEN)];
    let (desk, mut loaded) = Desk::begin(&files, nothing, &load);
    gate.waiting.recv().unwrap();
    wait("the small zone is served", || {
        desk.ask("a.a.test.") == (0, vec![1])
    });
    wait("the broken one is known", || {
        state(&desk, "b.test.") == State::Failed
    });
    assert_eq!(desk.ask("a.big.test.").0, 2);
    assert_eq!(desk.ask("a.c.test.").0, 5);
    assert_eq!(state(&desk, "big.test."), State::Loading);
    assert_eq!(desk.reports.current().loads.running, ["big.test."]);
    let details = desk.readiness.details();
    let named = "loading zones: big.test.: queries for their names get SERVFAIL";
    assert!(details.contains(&named.to_owned()), "{details:?}");
    assert!(loaded.try_recv().is_err());

    gate.open.send(()).unwrap();
    let summary = loaded.blocking_recv().unwrap();
    assert_eq!(summary, "2 of 3 zones, 1 with broken files, 0 targets");
    assert_eq!(desk.ask("a.big.test."), (0, vec![1]));
    assert_eq!(desk.readiness.details().len(), 1);
    assert!(desk.reports.current().loads.running.is_empty());
    desk.publisher.stop();
}

#[test]
fn a_reload_is_answered_with_the_outcome_of_a_load_that_began_after_it() {
    let (load, gate) = gated("big.test.");
    let (desk, loaded) = Desk::begin(&[("big.test.", GOOD), ("a.test.", GOOD)], nothing, &load);
    gate.open.send(()).unwrap();
    loaded.blocking_recv().unwrap();
    gate.waiting.recv().unwrap();

    let reload = |name: Option<&str>| {
        let (done, outcome) = oneshot::channel();
        let name = name.map(|name| name.parse().unwrap());
        desk.publisher.send(Command::Reload(name, done)).unwrap();
        outcome
    };
    let mut first = reload(Some("big.test."));
    gate.waiting.recv().unwrap();
    // The load that waits has read the file before it breaks.
    desk.folder.write("big.test.zone", BROKEN);
    let mut second = reload(Some("big.test."));
    let mut all = reload(None);
    // Other zones are loaded meanwhile.
    desk.folder
        .write("a.test.zone", &GOOD.replace("192.0.2.1", "192.0.2.7"));
    assert_eq!(desk.reload(Some("a.test.")).unwrap()[0].result, Ok((1, 3)));
    assert_eq!(desk.ask("a.a.test."), (0, vec![7]));
    assert!(first.try_recv().is_err());

    gate.open.send(()).unwrap();
    let outcomes = first.blocking_recv().unwrap().unwrap();
    assert_eq!(outcomes[0].result, Ok((1, 3)));
    gate.waiting.recv().unwrap();
    assert!(second.try_recv().is_err() && all.try_recv().is_err());
    gate.open.send(()).unwrap();
    let outcomes = second.blocking_recv().unwrap().unwrap();
    assert!(matches!(outcomes[0].result, Err(NotLoaded::Broken(_))));
    let outcomes = all.blocking_recv().unwrap().unwrap();
    assert_eq!(outcomes.len(), 2);
    assert!(matches!(outcomes[0].result, Err(NotLoaded::Broken(_))));
    assert_eq!(outcomes[1].result, Ok((1, 3)));
    // The last good version stays, and nothing else is loaded.
    assert_eq!(desk.ask("a.big.test."), (0, vec![1]));
    assert!(gate.waiting.try_recv().is_err());
    desk.publisher.stop();
}

#[test]
fn a_zone_that_is_declared_otherwise_while_it_loads_is_never_served_from_the_other_file() {
    let (load, gate) = gated("big.test.");
    let (desk, loaded) = Desk::begin(&[("big.test.", GOOD)], nothing, &load);
    gate.waiting.recv().unwrap();
    desk.folder
        .write("other", &GOOD.replace("192.0.2.1", "192.0.2.9"));
    let mut plan = plan(&desk.folder, &["big.test."]);
    plan.zones.declared[0].file = Some(desk.folder.path().join("other"));
    let (done, summary) = oneshot::channel();
    let command = Command::Configure(Box::new(plan), done);
    desk.publisher.send(command).unwrap();
    desk.sync();
    gate.open.send(()).unwrap();
    gate.waiting.recv().unwrap();
    assert_eq!(desk.ask("a.big.test.").0, 2);
    gate.open.send(()).unwrap();
    assert_eq!(summary.blocking_recv().unwrap(), "1 zone, 0 targets");
    loaded.blocking_recv().unwrap();
    assert_eq!(desk.ask("a.big.test."), (0, vec![9]));
    desk.publisher.stop();
}

#[test]
fn a_zone_that_is_no_longer_declared_is_not_waited_for() {
    let (load, gate) = gated("big.test.");
    let files = [("big.test.", GOOD), ("a.test.", GOOD)];
    let (desk, loaded) = Desk::begin(&files, nothing, &load);
    gate.waiting.recv().unwrap();
    let (done, outcome) = oneshot::channel();
    let name = "big.test.".parse().unwrap();
    desk.publisher
        .send(Command::Reload(Some(name), done))
        .unwrap();
    wait("the other zone is served", || {
        desk.ask("a.a.test.") == (0, vec![1])
    });
    assert_eq!(desk.configure(&["a.test."]), "1 zone, 0 targets");
    assert_eq!(outcome.blocking_recv().unwrap(), Err(NoSuchZone));
    assert_eq!(loaded.blocking_recv().unwrap(), "1 zone, 0 targets");
    gate.open.send(()).unwrap();
    desk.look();
    assert_eq!(desk.ask("a.big.test.").0, 5);
    assert!(desk.readiness.details().is_empty());
    desk.publisher.stop();
}

#[test]
fn a_file_that_changes_while_it_is_read_is_read_again() {
    let (load, gate) = gated("big.test.");
    let (desk, loaded) = Desk::begin(&[("big.test.", GOOD)], nothing, &load);
    gate.waiting.recv().unwrap();
    desk.folder
        .write("big.test.zone", &GOOD.replace("192.0.2.1", "192.0.2.4"));
    // Neither looking nor another configuration queues a load that is of no use.
    desk.publisher
        .send(Command::Look(Events::default()))
        .unwrap();
    desk.configure(&["big.test."]);
    assert_eq!(desk.reports.current().loads.waiting, 0);
    gate.open.send(()).unwrap();
    loaded.blocking_recv().unwrap();
    gate.waiting.recv().unwrap();
    assert_eq!(desk.ask("a.big.test."), (0, vec![1]));
    gate.open.send(()).unwrap();
    wait("the change is served", || {
        desk.ask("a.big.test.") == (0, vec![4])
    });
    desk.look();
    assert!(gate.waiting.try_recv().is_err());
    desk.publisher.stop();
}

#[test]
fn a_version_that_is_accepted_while_a_later_one_loads_is_what_that_is_compared_with() {
    let (load, gate) = gated("a.test.");
    let strict = |plan: &mut Plan| plan.zones.guard.serial_must_rise = true;
    let text = |last: u8| GOOD.replace("192.0.2.1", &format!("192.0.2.{last}"));
    let (desk, loaded) = Desk::begin(&[("a.test.", GOOD)], strict, &load);
    gate.open.send(()).unwrap();
    loaded.blocking_recv().unwrap();
    gate.open.send(()).unwrap();
    desk.folder.write("a.test.zone", &text(2));
    desk.look();
    assert_eq!(desk.report("a.test.").state, State::Held);
    gate.waiting.recv().unwrap();
    gate.waiting.recv().unwrap();

    // The old data comes back: compared with what is served, nothing differs.
    desk.folder.write("a.test.zone", GOOD);
    desk.publisher
        .send(Command::Look(Events::default()))
        .unwrap();
    gate.waiting.recv().unwrap();
    let (done, outcome) = oneshot::channel();
    let command = Command::Accept("a.test.".parse().unwrap(), done);
    desk.publisher.send(command).unwrap();
    assert!(outcome.blocking_recv().unwrap().is_ok());
    assert_eq!(desk.ask("a.a.test."), (0, vec![2]));
    gate.open.send(()).unwrap();
    gate.open.send(()).unwrap();
    desk.look();
    // Compared with the accepted version it does.
    assert_eq!(desk.report("a.test.").state, State::Held);
    assert_eq!(desk.ask("a.a.test."), (0, vec![2]));
    desk.publisher.stop();
}

#[test]
fn a_publisher_sleeps_while_a_zone_loads() {
    let (load, gate) = gated("big.test.");
    let folder = Folder::new();
    folder.write("big.test.zone", GOOD);
    gate.open.send(()).unwrap();
    let (mut publisher, queue) = publisher(&folder, &["big.test."], &load);
    publisher.take_command(queue.recv().unwrap());
    gate.waiting.recv().unwrap();
    // A changed file that no event tells of is complete when it has been the same for a while.
    publisher.plan.zones.quiet = Duration::from_nanos(1);
    folder.write("big.test.zone", BROKEN);
    while publisher.loads.is_idle() {
        publisher.look(Events::default());
    }
    gate.waiting.recv().unwrap();
    publisher.look(Events::default());
    publisher.publish();
    publisher.retired.clear();
    assert_eq!(publisher.timeout(), None);
    gate.open.send(()).unwrap();
    publisher.take_command(queue.recv().unwrap());
    assert!(publisher.loads.is_idle());
}

//--- Liveness

/// A snapshot in which the targets on 192.0.2.LAST are in these states.
fn health(publisher: &Publisher, generation: u64, states: &[(u8, Liveness)]) -> Arc<Health> {
    let states: BTreeMap<String, Liveness> = states
        .iter()
        .map(|(last, liveness)| (format!("192.0.2.{last}:443"), *liveness))
        .collect();
    let known = publisher.watched.keys().filter_map(|watched| {
        let liveness = *states.get(&watched.target.address.to_string())?;
        let status = proto::health::TargetStatus {
            liveness,
            ..Default::default()
        };
        Some((watched.target.clone(), status))
    });
    Arc::new(Health {
        generation,
        targets: known.collect(),
        ..Health::default()
    })
}

fn members(publisher: &Publisher, place: usize) -> Vec<String> {
    let snapshot = publisher.channels.cell.current();
    let served = snapshot.table.zones().get(place).unwrap();
    served.live.get(0).unwrap().members()
}

#[test]
fn an_answer_follows_liveness_while_its_own_zone_and_others_load() {
    use Liveness::{Down, Up};

    let (load, gate) = gated("big.test.");
    let folder = Folder::new();
    let text = format!("{GOOD}{HEALTHY}");
    folder.write("a.test.zone", &text);
    folder.write("big.test.zone", &text);
    let (mut publisher, queue) = publisher(&folder, &["a.test.", "big.test."], &load);
    gate.waiting.recv().unwrap();
    publisher.take_command(queue.recv().unwrap());
    publisher.publish();
    assert_eq!(members(&publisher, 0).len(), 2);

    for (generation, states, expected) in [
        (1, [(5, Up), (6, Down)], "192.0.2.5"),
        (2, [(5, Down), (6, Up)], "192.0.2.6"),
    ] {
        let new = health(&publisher, generation, &states);
        publisher.take_health(new);
        assert_eq!(members(&publisher, 0), [expected]);
        assert_eq!(publisher.loads.running().count(), 1, "it still loads");
    }
    // The zone that was evaluated before these changes is published with them.
    gate.open.send(()).unwrap();
    publisher.take_command(queue.recv().unwrap());
    assert_eq!(members(&publisher, 1), ["192.0.2.6"]);
    assert!(publisher.loads.is_idle());
}

#[test]
fn a_change_of_liveness_touches_its_own_zones_only() {
    let folder = Folder::new();
    let names: Vec<String> = (0..200).map(|n| format!("z{n}.test.")).collect();
    for (n, name) in names.iter().enumerate() {
        let last = if n == 150 { "192.0.2.9" } else { "192.0.2.5" };
        let live = HEALTHY.replace("192.0.2.5", last);
        folder.write(&format!("{name}zone"), &format!("{GOOD}{live}"));
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (mut publisher, queue) = publisher(&folder, &names, &load());
    while !publisher.loads.is_idle() {
        publisher.take_command(queue.recv().unwrap());
    }
    let before = publisher.channels.cell.current();
    let reports = publisher.channels.reports.current();
    let new = health(&publisher, 1, &[(9, Liveness::Up)]);
    publisher.take_health(new);
    let after = publisher.channels.cell.current();
    for place in 0..200 {
        let is_same = Arc::ptr_eq(
            before.table.zones().get(place).unwrap(),
            after.table.zones().get(place).unwrap(),
        );
        let reported = publisher.channels.reports.current();
        let is_reported = !Arc::ptr_eq(
            reports.zones.get(place).unwrap(),
            reported.zones.get(place).unwrap(),
        );
        assert_eq!(
            (is_same, is_reported),
            (place != 150, place == 150),
            "{place}"
        );
    }
}
