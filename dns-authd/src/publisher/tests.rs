//! Zones that change, break and come back.

use std::fs;
use std::path::Path;

use dns_answer::table::Table;
use dns_answer::testing::{client, decode, query, zone_at};
use dns_answer::{Client, NoPrograms, Responder, Transport, Verdict};
use dns_wire::Name;
use peer_bind::NamedConf;
use proto::health::Liveness;
use tempfile::TempDir;

use super::*;
use dns_zone::Guard;

mod cluster;
mod loads;
mod rollbacks;
mod updates;
mod versions;

const GOOD: &str = "$TTL 60\n@ SOA a b 1 2 3 4 60\n NS a\na A 192.0.2.1\n";
const BROKEN: &str = "$TTL 60\n@ SOA a b 2 2 3 4 60\n NS a\na A 300.0.2.1\n";

/// A directory of zones.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, text: &str) {
        // A new file each time: its stamp differs however fast tests are.
        let staged = self.0.path().join("staged");
        fs::write(&staged, text).unwrap();
        fs::rename(staged, self.0.path().join(name)).unwrap();
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

struct Desk {
    folder: Folder,
    cell: Arc<Latest<Snapshot>>,
    reports: Arc<Latest<Reports>>,
    readiness: Readiness,
    directories: watch::Receiver<BTreeSet<PathBuf>>,
    publisher: Handle,
}

fn plan(folder: &Folder, zones: &[&str]) -> Plan {
    let list: String = zones
        .iter()
        .map(|name| format!("zone \"{name}\" {{ type master; file \"{name}zone\"; }};\n"))
        .collect();
    let directory = folder.path().display();
    let text = format!("options {{ directory \"{directory}\"; }};\n{list}");
    let NamedConf { zones, views, .. } = peer_bind::parse_bytes(text.as_bytes()).unwrap();
    Plan {
        views,
        origins: Origins::default(),
        kubernetes: None,
        zones: Zones {
            declared: zones,
            options: Arc::default(),
            guard: Guard {
                serial_must_rise: false,
                largest_loss: 100,
            },
            quiet: Duration::ZERO,
        },
        lua: Arc::default(),
        answers: Settings::default(),
        history: Keeping::of(&::config::dns_authd::History::default()),
        is_successor: false,
    }
}

/// What a publisher without healthd works with, and the directories that it states.
fn channels() -> (Channels, watch::Receiver<BTreeSet<PathBuf>>) {
    let (sender, directories) = watch::channel(BTreeSet::new());
    let channels = Channels {
        cell: Latest::new(Snapshot {
            table: Table::new(Seed(1), &[]),
            views: dns_answer::ViewTables::default(),
            settings: Settings::default(),
        }),
        reports: Latest::new(Reports::default()),
        link: Link::default(),
        nodes: Latest::new(NodeLists::default()),
        readiness: Readiness::new(),
        directories: sender,
        histories: Histories::default(),
    };
    (channels, directories)
}

/// Histories are kept beside the zones, and serials have to rise.
fn keeps_histories(plan: &mut Plan) {
    let file = plan.zones.declared[0].file.clone().unwrap();
    plan.history.directory = Some(file.with_file_name("history"));
    plan.zones.guard.serial_must_rise = true;
}

impl Desk {
    fn open(files: &[(&str, &str)]) -> Self {
        Self::open_with(files, |_| {})
    }

    fn open_with(files: &[(&str, &str)], set: impl FnOnce(&mut Plan)) -> Self {
        let (desk, loaded) = Self::begin(files, set, &load());
        loaded.blocking_recv().unwrap();
        desk
    }

    /// Writes a zone into its file, and has it loaded: its serial and the number of its records.
    #[expect(clippy::unwrap_in_result, reason = "the result is that of the load")]
    fn load(&self, zone: &str, text: &str) -> Result<(u32, usize), NotLoaded> {
        self.folder.write(&format!("{zone}zone"), text);
        let (done, outcomes) = oneshot::channel();
        let command = Command::Reload(Some(zone.parse().unwrap()), done);
        self.publisher.send(command).unwrap();
        let outcomes = outcomes.blocking_recv().unwrap().unwrap();
        outcomes[0].result.clone()
    }

    /// A publisher whose zones still load.
    fn begin(
        files: &[(&str, &str)],
        set: impl FnOnce(&mut Plan),
        load: &Load,
    ) -> (Self, oneshot::Receiver<String>) {
        let folder = Folder::new();
        for (name, text) in files {
            folder.write(&format!("{name}zone"), text);
        }
        let names: Vec<&str> = files.iter().map(|(name, _)| *name).collect();
        let mut plan = plan(&folder, &names);
        set(&mut plan);
        let (channels, directories) = channels();
        let cell = Arc::clone(&channels.cell);
        let reports = Arc::clone(&channels.reports);
        let readiness = channels.readiness.clone();
        let (begun, has_begun) = oneshot::channel();
        let (loaded, summary) = oneshot::channel();
        let starting = Starting { begun, loaded };
        let publisher = Handle::start_with(channels, plan, Seed(1), starting, load).unwrap();
        has_begun.blocking_recv().unwrap();
        let desk = Self {
            folder,
            cell,
            reports,
            readiness,
            directories,
            publisher,
        };
        (desk, summary)
    }

    fn configure(&self, zones: &[&str]) -> String {
        let (done, summary) = oneshot::channel();
        let plan = Box::new(plan(&self.folder, zones));
        self.publisher.send(Command::Configure(plan, done)).unwrap();
        summary.blocking_recv().unwrap()
    }

    #[expect(clippy::unwrap_in_result, reason = "a test that cannot go on fails")]
    fn reload(&self, name: Option<&str>) -> Result<Vec<Outcome>, NoSuchZone> {
        let (done, outcome) = oneshot::channel();
        let name = name.map(|name| name.parse().unwrap());
        self.publisher.send(Command::Reload(name, done)).unwrap();
        outcome.blocking_recv().unwrap()
    }

    /// Looks, and waits until what has changed is loaded.
    fn look(&self) {
        self.publisher
            .send(Command::Look(Events::default()))
            .unwrap();
        self.sync();
        wait("nothing is loaded any more", || {
            let loads = &self.reports.current().loads;
            loads.running.is_empty() && loads.waiting == 0
        });
    }

    /// Waits until earlier commands are carried out, and what has changed is published.
    fn sync(&self) {
        assert!(self.reload(Some("none.")).is_err());
    }

    fn ask(&self, name: &str) -> (u16, Vec<u8>) {
        let mut out = [0; 512];
        let message = query(&name.parse().unwrap(), dns_wire::Type::A);
        let hasty = Client {
            can_wait: false,
            ..client(Transport::Udp)
        };
        let mut responder = Responder::new(NoPrograms, 1);
        let verdict = responder.respond(&self.cell.current(), &message, &hasty, &mut out);
        let Verdict::Reply(length) = verdict else {
            panic!("{verdict:?}");
        };
        let response = decode(&out[..length]);
        let last = response.answer.iter().map(|line| *line.3.last().unwrap());
        (response.rcode, last.collect())
    }

    fn report(&self, name: &str) -> Arc<ZoneReport> {
        let reports = self.reports.current();
        let name: ZoneId = name.parse().unwrap();
        Arc::clone(reports.zones.iter().find(|zone| zone.name == name).unwrap())
    }
}

fn wait(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..3_000 {
        if is_so() {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("{what}");
}

#[test]
fn a_broken_file_keeps_the_zone_until_it_is_mended() {
    let desk = Desk::open(&[("a.test.", GOOD)]);
    assert_eq!(desk.ask("a.a.test."), (0, vec![1]));
    desk.folder.write("a.test.zone", BROKEN);
    desk.look();
    assert_eq!(desk.ask("a.a.test."), (0, vec![1]));
    let report = desk.report("a.test.");
    assert_eq!(
        (report.state, report.serial, report.n_refused),
        (State::Stale, 1, 1)
    );
    assert!(report.problems[0].contains("a.test.zone:4:"), "{report:?}");
    assert!(desk.readiness.details()[0].contains("zone a.test."));
    assert!(desk.readiness.is_ready());

    // Looking again does not load again what has not changed.
    desk.look();
    assert_eq!(desk.report("a.test.").n_refused, 1);
    desk.folder
        .write("a.test.zone", &GOOD.replace("192.0.2.1", "192.0.2.7"));
    desk.look();
    assert_eq!(desk.ask("a.a.test."), (0, vec![7]));
    assert_eq!(desk.report("a.test.").state, State::Loaded);
    assert!(desk.readiness.details().is_empty());
    fs::remove_file(desk.folder.path().join("a.test.zone")).unwrap();
    desk.look();
    assert_eq!(desk.ask("a.a.test."), (0, vec![7]));
    assert_eq!(desk.report("a.test.").state, State::Stale);
    desk.publisher.stop();
}

#[test]
fn a_record_of_an_unknown_type_is_left_out_of_its_zone_and_reported() {
    let text = format!("{GOOD}b ALIAS www.example.net.\nc TYPE65280 \\# 1 07\n");
    let desk = Desk::open(&[("a.test.", &text)]);
    assert_eq!(desk.ask("a.a.test."), (0, vec![1]));
    let report = desk.report("a.test.");
    assert_eq!((report.state, report.records), (State::Loaded, 4));
    assert_eq!(report.left_out.count, 1);
    let named = report.left_out.first[0].to_string();
    assert!(named.contains("a.test.zone:5:3: `ALIAS`"), "{named}");
    desk.publisher.stop();
}

#[test]
fn a_zone_broken_from_the_start_fails_and_leaves_the_others_alone() {
    let desk = Desk::open(&[("a.test.", BROKEN), ("b.test.", GOOD)]);
    assert_eq!(desk.ask("a.a.test.").0, 2);
    assert_eq!(desk.ask("a.b.test."), (0, vec![1]));
    assert!(desk.readiness.is_ready());
    desk.folder.write("a.test.zone", GOOD);
    desk.look();
    assert_eq!(desk.ask("a.a.test."), (0, vec![1]));
    desk.publisher.stop();
}

#[test]
fn a_server_without_any_zone_loaded_is_not_ready() {
    let desk = Desk::open(&[("a.test.", BROKEN)]);
    assert!(!desk.readiness.is_ready());
    desk.folder.write("a.test.zone", GOOD);
    let outcomes = desk.reload(None).unwrap();
    assert_eq!(outcomes[0].result, Ok((1, 3)));
    assert!(desk.readiness.is_ready());
    desk.publisher.stop();
}

#[test]
fn a_zone_is_loaded_again_when_it_is_asked_for() {
    let desk = Desk::open(&[("a.test.", GOOD), ("b.test.", GOOD)]);
    let before = desk.cell.current();
    assert_eq!(desk.reload(Some("c.test.")), Err(NoSuchZone));
    assert_eq!(desk.reload(Some("A.TEST.")).unwrap().len(), 1);
    let after = desk.cell.current();
    let zone = |snapshot: &Snapshot, place: usize| {
        Arc::clone(
            snapshot
                .table
                .zones()
                .get(place)
                .unwrap()
                .zone
                .as_ref()
                .unwrap(),
        )
    };
    assert!(!Arc::ptr_eq(&zone(&before, 0), &zone(&after, 0)));
    assert!(Arc::ptr_eq(&zone(&before, 1), &zone(&after, 1)));
    desk.folder.write("b.test.zone", BROKEN);
    let outcomes = desk.reload(Some("b.test.")).unwrap();
    let Err(NotLoaded::Broken(problems)) = &outcomes[0].result else {
        panic!("{outcomes:?}");
    };
    assert!(problems[0].contains(":4:"));
    desk.publisher.stop();
}

#[test]
fn another_configuration_adds_and_takes_away_zones_and_keeps_the_rest() {
    let desk = Desk::open(&[("a.test.", GOOD), ("b.test.", GOOD)]);
    let kept = zone_at(&desk.cell.current(), 1);
    desk.folder.write("c.test.zone", GOOD);
    let summary = desk.configure(&["b.test.", "c.test."]);
    assert_eq!(summary, "2 zones, 0 targets");
    assert_eq!(desk.ask("a.a.test.").0, 5);
    assert_eq!(desk.ask("a.c.test."), (0, vec![1]));
    let same = zone_at(&desk.cell.current(), 0);
    assert!(Arc::ptr_eq(&kept, &same));
    assert_eq!(
        *desk.directories.borrow(),
        [desk.folder.path().to_owned()].into()
    );
    desk.publisher.stop();
}

#[test]
fn a_zone_that_another_file_is_declared_for_is_listed_with_it() {
    let desk = Desk::open(&[("a.test.", GOOD)]);
    let moved = |file: &str, text: &str| {
        desk.folder.write(file, text);
        let mut plan = plan(&desk.folder, &["a.test."]);
        plan.zones.declared[0].file = Some(desk.folder.path().join(file));
        let (done, summary) = oneshot::channel();
        let command = Command::Configure(Box::new(plan), done);
        desk.publisher.send(command).unwrap();
        summary.blocking_recv().unwrap();
        desk.report("a.test.")
    };
    for (file, text, state) in [
        ("other", GOOD, State::Loaded),
        ("broken", BROKEN, State::Stale),
    ] {
        let report = moved(file, text);
        assert_eq!(report.state, state);
        assert_eq!(report.file, Some(desk.folder.path().join(file)));
    }
    desk.publisher.stop();
}

/// A publisher in this thread, its commands, and the zones of its files.
fn publisher(folder: &Folder, zones: &[&str], load: &Load) -> (Publisher, Receiver<Command>) {
    let (commands, queue) = sync_channel(QUEUE);
    let limits = loader::limits();
    let workers = Workers::start(limits.at_once, load, &commands).unwrap();
    let plan = plan(folder, zones);
    let loads = LoadQueue::new(limits);
    let mut publisher = Publisher::new(
        channels().0,
        plan.clone(),
        Seed(1),
        loads,
        (workers, Writer::start().unwrap()),
    );
    publisher.configure(plan, Pending::Summary(oneshot::channel().0));
    (publisher, queue)
}

#[test]
fn targets_that_are_first_named_when_others_are_down_are_watched() {
    let text = format!(
        "{GOOD}live LUA A \"ifportup(443, ifportup(80, {{{{'192.0.2.5'}},{{'192.0.2.6'}}}}, {{selector='all'}}))\"\n"
    );
    let folder = Folder::new();
    folder.write("a.test.zone", &text);
    let (mut publisher, queue) = publisher(&folder, &["a.test."], &load());
    publisher.take_command(queue.recv().unwrap());
    let watched = |publisher: &Publisher| {
        let targets = publisher.watched.keys();
        let mut addresses: Vec<String> = targets.map(|it| it.target.address.to_string()).collect();
        addresses.sort();
        addresses
    };
    let before = watched(&publisher);
    assert_eq!(before, ["192.0.2.5:443", "192.0.2.5:80", "192.0.2.6:80"]);
    let first = publisher.watched.keys();
    let first = first.filter(|it| it.target.address.to_string() == "192.0.2.5:80");
    let state = |liveness| proto::health::TargetStatus {
        liveness,
        ..Default::default()
    };
    let down = first.map(|it| (it.target.clone(), state(Liveness::Down)));
    publisher.take_health(Arc::new(Health {
        generation: 1,
        targets: down.collect(),
        ..Health::default()
    }));
    let generation = |publisher: &Publisher| {
        let current = publisher.channels.cell.current();
        let told = current.settings.chaos.last();
        told.map(|(name, text)| format!("{name} {text}"))
    };
    let told = generation(&publisher);
    assert_eq!(told.as_deref(), Some("generation.outpost. 1"));
    let after = watched(&publisher);
    assert!(after.contains(&"192.0.2.6:443".to_owned()), "{after:?}");
    assert_eq!(publisher.channels.reports.current().n_targets, after.len());
    // A generation in which none of its targets has changed is told all the same.
    let later = Health {
        generation: 2,
        ..Health::clone(&publisher.health)
    };
    publisher.take_health(Arc::new(later));
    let told = generation(&publisher);
    assert_eq!(told.as_deref(), Some("generation.outpost. 2"));
}

#[test]
fn answers_by_own_probes_say_so_and_last_as_short_as_may_be_until_healthd_is_back() {
    let text = format!("{GOOD}live 60 LUA A \"ifportup(443, {{'192.0.2.5'}})\"\n");
    let folder = Folder::new();
    folder.write("a.test.zone", &text);
    let (mut publisher, queue) = publisher(&folder, &["a.test."], &load());
    publisher.take_command(queue.recv().unwrap());
    let target = publisher.watched.keys().next().unwrap().target.clone();
    let status = proto::health::TargetStatus {
        liveness: Liveness::Up,
        ..Default::default()
    };
    let mut take = |generation, stands_in| {
        publisher.take_health(Arc::new(Health {
            generation,
            targets: [(target.clone(), status.clone())].into(),
            stands_in,
            ..Health::default()
        }));
        let current = publisher.channels.cell.current();
        let served = current.table.zones().get(0).unwrap();
        let answer = served.live.get(0).unwrap();
        let told = current.settings.chaos.last();
        let generation = told.map(|(_, text)| text.clone());
        (answer.stands_in, answer.ttl, generation)
    };
    // An interval of 2 s and one more result.
    assert_eq!(take(7, false), (false, 2, Some("7".to_owned())));
    assert_eq!(take(0, true), (true, 1, None));
    assert_eq!(take(9, false), (false, 2, Some("9".to_owned())));
}

#[test]
fn included_files_are_looked_at_too() {
    let text = GOOD.replace("a A 192.0.2.1", "$INCLUDE more");
    let desk = Desk::open(&[("a.test.", &text)]);
    // The include is missing at first.
    assert_eq!(desk.ask("a.a.test.").0, 2);
    desk.folder.write("more", "a A 192.0.2.3\n");
    desk.look();
    assert_eq!(desk.ask("a.a.test."), (0, vec![3]));
    desk.folder.write("more", "a A 192.0.2.4\n");
    desk.look();
    assert_eq!(desk.ask("a.a.test."), (0, vec![4]));
    desk.publisher.stop();
}

#[test]
fn the_end_of_a_wait_is_published() {
    let text = format!("{GOOD}live LUA A \"ifportup(443, {{'192.0.2.5'}})\"\n");
    let desk = Desk::open(&[("a.test.", &text)]);
    let hold = || {
        desk.cell
            .current()
            .table
            .zones()
            .get(0)
            .unwrap()
            .live
            .get(0)
            .unwrap()
            .hold
    };
    assert!(hold());
    let zone = "a.test.".parse().unwrap();
    desk.publisher
        .send(Command::EndWait { zone, set: 0 })
        .unwrap();
    desk.sync();
    assert!(!hold());
    assert_eq!(desk.reports.current().n_targets, 1);
    assert_eq!(desk.ask("live.a.test."), (0, vec![5]));
    desk.publisher.stop();
}
