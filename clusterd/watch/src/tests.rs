use std::time::{Duration, Instant};

use cluster::{Meta, Namespace, Object};
use cluster_objects::ObjectError;
use cluster_objects::answer::{Event, Page, Refusal};
use random::Random;

use crate::machine::{Action, Failure, Input, Machine, Note, Request, RequestKind, Settings};

const SECOND: Duration = Duration::from_secs(1);

/// A machine, its time, and what it has asked for.
struct Bench {
    machine: Machine,
    now: Instant,
    sent: Vec<Request>,
    notes: Vec<Note>,
    changes: Vec<Action>,
    cancelled: Vec<u64>,
    n_credentials: usize,
}

impl Bench {
    fn new(addresses: usize, variants: usize) -> Self {
        Self::of_kind(addresses, variants, false)
    }

    fn of_kind(addresses: usize, variants: usize, is_optional: bool) -> Self {
        #[expect(clippy::disallowed_methods, reason = "only differences count")]
        let now = Instant::now();
        let settings = Settings {
            addresses,
            variants,
            is_optional,
            page: 500,
            watch: Duration::from_secs(30),
            most: 10_000,
        };
        let mut bench = Self {
            machine: Machine::new(settings, Random::new([7; 16]), now),
            now,
            sent: Vec::new(),
            notes: Vec::new(),
            changes: Vec::new(),
            cancelled: Vec::new(),
            n_credentials: 0,
        };
        bench.pass(Duration::ZERO);
        bench
    }

    /// A machine that watches from version 1000 on.
    fn watching(addresses: usize) -> Self {
        let mut bench = Self::new(addresses, 1);
        bench.give(page("1000", &["a", "b"]));
        bench.give(Input::Opened);
        assert!(bench.machine.is_open());
        bench
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.machine.handle_time(self.now);
        self.collect();
    }

    /// Passes time up to each deadline, until the time is over.
    fn pass_in_steps(&mut self, time: Duration) {
        let end = self.now + time;
        while self.machine.next_deadline() <= end {
            let step = self
                .machine
                .next_deadline()
                .saturating_duration_since(self.now);
            self.pass(step.max(Duration::from_millis(1)));
        }
        self.pass(end.saturating_duration_since(self.now));
    }

    /// Answers the last request.
    fn give(&mut self, input: Input) {
        let id = self.last().id;
        self.give_to(id, input);
    }

    fn give_to(&mut self, id: u64, input: Input) {
        self.machine.handle(id, input, self.now);
        self.collect();
    }

    fn collect(&mut self) {
        while let Some(action) = self.machine.poll() {
            match action {
                Action::Send(request) => self.sent.push(request),
                Action::Cancel(id) => self.cancelled.push(id),
                Action::ReadCredentials => self.n_credentials += 1,
                Action::Note(note) => self.notes.push(note),
                change => self.changes.push(change),
            }
        }
    }

    /// The last request that is no look at the version.
    fn last(&self) -> Request {
        let mut sent = self.sent.iter().rev();
        let last = sent.find(|request| !is_look(&request.kind));
        last.cloned().expect("a request")
    }

    fn n_sent(&self) -> usize {
        self.sent.iter().filter(|it| !is_look(&it.kind)).count()
    }

    fn has_noted(&self, wanted: impl Fn(&Note) -> bool) -> bool {
        self.notes.iter().any(wanted)
    }
}

fn namespace(name: &str) -> Object {
    Object::Namespace(Namespace {
        meta: Meta {
            name: name.to_owned(),
            ..Meta::default()
        },
    })
}

fn page(version: &str, names: &[&str]) -> Input {
    Input::Page(Page {
        version: version.to_owned(),
        objects: names.iter().map(|name| namespace(name)).collect(),
        ..Page::default()
    })
}

fn refused(code: u16, seconds: Option<u64>) -> Input {
    Input::Failed(Failure::Refused(Refusal {
        code,
        retry_after: seconds.map(Duration::from_secs),
        ..Refusal::default()
    }))
}

fn bookmark(version: &str) -> Input {
    Input::Event(Event::Bookmark {
        version: version.to_owned(),
        initial_end: false,
    })
}

fn broken() -> Input {
    Input::Failed(Failure::Broken("reset".to_owned()))
}

const fn is_look(kind: &RequestKind) -> bool {
    matches!(kind, RequestKind::List { limit: 1, .. })
}

const fn is_list(kind: &RequestKind) -> bool {
    matches!(
        kind,
        RequestKind::List {
            next: None,
            limit: 2..
        }
    )
}

#[test]
fn a_list_counts_when_its_last_page_has_come() {
    let mut bench = Bench::new(1, 1);
    let more = |names: &[&str]| match page("1000", names) {
        Input::Page(page) => Input::Page(Page {
            next: Some("token".to_owned()),
            ..page
        }),
        other => other,
    };
    bench.give(more(&["a"]));
    assert!(bench.changes.is_empty());
    assert!(
        matches!(bench.last().kind, RequestKind::List { next: Some(token), .. } if token == "token")
    );
    bench.give(refused(410, None));
    assert!(bench.changes.is_empty(), "half a list");
    bench.pass(SECOND);
    assert!(is_list(&bench.last().kind), "from the beginning");
    bench.give(more(&["a"]));
    bench.give(page("1000", &["b"]));
    match bench.changes.as_slice() {
        [Action::Replace { objects, .. }] => assert_eq!(objects.len(), 2),
        other => panic!("{other:?}"),
    }
    assert!(matches!(bench.last().kind, RequestKind::Watch { version, .. } if version == "1000"));
}

#[test]
fn a_watch_continues_from_the_last_version() {
    let mut bench = Bench::watching(1);
    bench.give(Input::Event(Event::Put {
        object: namespace("c"),
        version: "1002".to_owned(),
    }));
    bench.give(bookmark("1007"));
    bench.give(bookmark("1005"));
    bench.pass(Duration::from_secs(29));
    bench.give(Input::Ended);
    assert!(matches!(bench.last().kind, RequestKind::Watch { version, .. } if version == "1007"));
    assert_eq!(bench.changes.len(), 2);
}

#[test]
fn a_silent_watch_is_noticed_five_seconds_after_its_end() {
    let mut bench = Bench::watching(2);
    let RequestKind::Watch { timeout, .. } = bench.last().kind else {
        panic!("{:?}", bench.last());
    };
    let first = bench.last();
    bench.pass(timeout + Duration::from_secs(4));
    assert!(bench.cancelled.is_empty());
    bench.pass(SECOND);
    assert!(bench.cancelled.contains(&first.id));
    assert!(bench.has_noted(|note| *note == Note::Silent));
    // At once at the other address, from the same version.
    let next = bench.last();
    assert_eq!(next.address, 1);
    assert!(matches!(next.kind, RequestKind::Watch { version, .. } if version == "1000"));
}

#[test]
fn an_answer_that_does_not_begin_is_given_up() {
    let mut bench = Bench::new(1, 1);
    bench.give(page("1000", &[]));
    let watch = bench.last();
    bench.pass(Duration::from_secs(30));
    assert!(bench.cancelled.contains(&watch.id));
    let mut bench = Bench::new(1, 1);
    bench.pass(Duration::from_secs(30));
    assert!(bench.has_noted(|note| matches!(note, Note::Failed { .. })));
}

#[test]
fn an_expired_version_has_one_list_and_the_objects_stay() {
    for event in [true, false] {
        let mut bench = Bench::watching(1);
        let expired = Refusal {
            code: 410,
            ..Refusal::default()
        };
        bench.give(match event {
            true => Input::Event(Event::Refused(expired)),
            false => Input::Failed(Failure::Refused(expired)),
        });
        bench.pass(SECOND);
        assert!(is_list(&bench.last().kind));
        bench.give(page("2000", &["b"]));
        bench.give(Input::Opened);
        let n_lists = bench.sent.iter().filter(|request| is_list(&request.kind));
        assert_eq!(n_lists.count(), 2);
        assert_eq!(bench.changes.len(), 2, "nothing in between");
        assert!(!bench.machine.is_failing());
    }
}

#[test]
fn versions_that_expire_again_and_again_are_listed_ever_more_slowly() {
    let mut bench = Bench::watching(1);
    let mut waits = Vec::new();
    for _ in 0..12 {
        // The list itself is expired: no progress.
        bench.give(refused(410, None));
        let begun = bench.now;
        while !is_list(&bench.last().kind)
            || bench.machine.next_deadline() < bench.now + SECOND * 29
        {
            let before = bench.sent.len();
            let step = bench
                .machine
                .next_deadline()
                .saturating_duration_since(bench.now);
            bench.pass(step);
            if bench.sent.len() > before {
                break;
            }
        }
        waits.push(bench.now.duration_since(begun));
    }
    assert!(waits[0] <= Duration::from_millis(200), "{waits:?}");
    assert!(waits[11] >= Duration::from_secs(20) && waits[11] <= Duration::from_secs(30));
}

#[test]
fn the_next_address_is_asked_at_once_and_the_own_one_again_later() {
    let mut bench = Bench::watching(3);
    bench.give(broken());
    assert_eq!(bench.last().address, 1);
    bench.give(broken());
    assert_eq!(bench.last().address, 2);
    bench.give(Input::Opened);
    bench.give(bookmark("1001"));
    let look = bench
        .sent
        .iter()
        .rev()
        .find(|request| is_look(&request.kind));
    assert!(
        look.is_some(),
        "a server that comes back may have another history"
    );
    bench.pass(Duration::from_secs(29));
    bench.give(Input::Ended);
    assert_eq!(bench.last().address, 0, "it has rested");
}

#[test]
fn a_wait_that_a_server_asks_for_is_bounded() {
    let mut bench = Bench::new(1, 1);
    bench.give(refused(429, Some(3600)));
    let wait = bench.machine.next_deadline().duration_since(bench.now);
    assert_eq!(wait, Duration::from_secs(60));
    let mut bench = Bench::new(1, 1);
    bench.give(refused(429, Some(5)));
    let wait = bench.machine.next_deadline().duration_since(bench.now);
    assert_eq!(wait, Duration::from_secs(5));
    let mut bench = Bench::new(2, 1);
    bench.give(refused(429, Some(5)));
    assert_eq!(bench.last().address, 1, "another address need not wait");
}

#[test]
fn a_refused_token_is_read_again_and_tried_once() {
    let mut bench = Bench::watching(1);
    bench.give(refused(401, None));
    assert_eq!(bench.n_credentials, 1);
    assert!(matches!(bench.last().kind, RequestKind::Watch { .. }));
    let n_sent = bench.n_sent();
    bench.give(refused(401, None));
    assert_eq!((bench.n_credentials, bench.n_sent()), (2, n_sent));
    assert!(bench.machine.is_failing());
    bench.pass(SECOND);
    assert_eq!(bench.n_sent(), n_sent + 1);
}

#[test]
fn a_kind_that_is_not_found_is_looked_for_in_the_other_version() {
    let mut bench = Bench::new(1, 2);
    assert_eq!(bench.last().variant, 0);
    bench.give(refused(404, None));
    assert_eq!(bench.last().variant, 1);
    bench.give(page("1000", &["a"]));
    assert_eq!(bench.last().variant, 1);
    // An upgrade takes the version away.
    bench.give(refused(404, None));
    assert_eq!(bench.last().variant, 0);
    let n_sent = bench.n_sent();
    bench.give(refused(404, None));
    assert_eq!(bench.n_sent(), n_sent, "nowhere: it waits");
}

#[test]
fn a_cluster_that_lacks_an_optional_kind_has_to_say_so_several_times() {
    let mut bench = Bench::of_kind(1, 1, true);
    bench.give(page("1000", &["a"]));
    bench.give(Input::Opened);
    bench.changes.clear();
    // The kind goes, or an API server that starts does not know it yet.
    bench.give(refused(404, None));
    let n_notes = bench.notes.len();
    for n_said in 1..6 {
        let is_gone = bench
            .changes
            .iter()
            .any(|change| matches!(change, Action::Replace { objects, .. } if objects.is_empty()));
        assert_eq!(is_gone, n_said >= 3, "{n_said}");
        assert!(!bench.machine.is_failing());
        bench.pass_in_steps(Duration::from_secs(20));
        assert!(is_list(&bench.last().kind));
        bench.give(refused(404, None));
    }
    assert_eq!(bench.changes.len(), 1, "it is said once");
    assert_eq!(bench.notes.len(), n_notes, "and is no news");
    // It comes back.
    bench.pass_in_steps(Duration::from_secs(20));
    bench.give(page("2000", &["a"]));
    assert_eq!(bench.changes.len(), 2);
}

#[test]
fn a_restored_etcd_is_seen_by_the_version_of_a_list() {
    let mut bench = Bench::watching(1);
    bench.give(bookmark("5000"));
    // The server restarts with the restored etcd. It takes a watch from the future, and says nothing.
    bench.pass(Duration::from_secs(10));
    bench.give(Input::Ended);
    bench.give(Input::Opened);
    let restored = bench.now;
    let mut n_looks = 0;
    while !is_list(&bench.last().kind) {
        let look = bench.sent.last().cloned().expect("a request");
        assert!(is_look(&look.kind), "{look:?}");
        n_looks += 1;
        bench.give_to(look.id, page("3000", &["a"]));
        if !is_list(&bench.last().kind) {
            bench.pass(Duration::from_secs(3));
        }
    }
    assert_eq!(
        (n_looks, bench.now.duration_since(restored)),
        (6, SECOND * 15)
    );
    bench.give(page("3001", &["a"]));
    assert!(bench.has_noted(|note| *note == Note::Restored));
    assert_eq!(bench.machine.version(), "3001");
    match bench.changes.last() {
        Some(Action::Replace { objects, .. }) => assert_eq!(objects.len(), 1),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_version_is_looked_at_every_five_minutes() {
    let mut bench = Bench::watching(1);
    for _ in 0..20 {
        bench.pass(Duration::from_secs(20));
        bench.give(bookmark("1001"));
        bench.give(Input::Ended);
        bench.give(Input::Opened);
        if bench.sent.iter().any(|request| is_look(&request.kind)) {
            return;
        }
    }
    panic!("no look in 400 seconds");
}

#[test]
fn a_server_that_is_behind_takes_nothing_back() {
    let mut bench = Bench::watching(2);
    bench.give(bookmark("5000"));
    bench.give(refused(410, None));
    bench.pass(SECOND);
    bench.give(page("4990", &["a"]));
    assert_eq!(bench.changes.len(), 1, "older than what was seen");
    bench.pass(Duration::from_secs(3));
    assert_eq!(bench.last().address, 1, "another address has to confirm it");
    bench.give(page("5001", &["a", "b", "c"]));
    assert_eq!(bench.changes.len(), 2);
    assert!(!bench.has_noted(|note| *note == Note::Restored));
}

#[test]
fn first_events_are_a_list() {
    let mut bench = Bench::new(1, 1);
    bench.give(page("1000", &["a"]));
    bench.machine.set_initial(true);
    bench.give(refused(410, None));
    bench.pass(SECOND);
    let request = bench.last();
    assert!(matches!(request.kind, RequestKind::Initial { .. }));
    for name in ["a", "b"] {
        bench.give(Input::Event(Event::Put {
            object: namespace(name),
            version: "7".to_owned(),
        }));
    }
    assert_eq!(bench.changes.len(), 1);
    bench.give(Input::Event(Event::Bookmark {
        version: "2000".to_owned(),
        initial_end: true,
    }));
    assert_eq!(bench.changes.len(), 2);
    assert!(bench.machine.is_open());
    bench.give(Input::Event(Event::Delete {
        key: namespace("a").key(),
        version: "2001".to_owned(),
    }));
    assert_eq!((bench.changes.len(), bench.machine.version()), (3, "2001"));
    assert_eq!(bench.last().id, request.id, "the same answer continues");
}

#[test]
fn servers_without_first_events_are_listed_for_an_hour() {
    let inputs = [None, Some(refused(422, None)), Some(Input::Ended)];
    for input in inputs {
        let mut bench = Bench::new(1, 1);
        bench.machine.set_initial(true);
        bench.give(broken());
        bench.pass(SECOND);
        assert!(matches!(bench.last().kind, RequestKind::Initial { .. }));
        match input {
            Some(input) => bench.give(input),
            None => bench.pass(Duration::from_secs(10)),
        }
        assert!(is_list(&bench.last().kind));
        assert!(bench.has_noted(|note| matches!(note, Note::WithoutInitial(_))));
        bench.give(page("1000", &["a"]));
        bench.give(refused(410, None));
        bench.pass(SECOND);
        assert!(is_list(&bench.last().kind));
        bench.pass(Duration::from_secs(3600));
        bench.pass(Duration::from_secs(60));
        assert!(matches!(bench.last().kind, RequestKind::Initial { .. }));
    }
}

#[test]
fn an_object_that_cannot_be_read_stays_as_it_was() {
    let error = ObjectError {
        key: Some(namespace("bad").key()),
        name: "namespace bad".to_owned(),
        problem: "no name".to_owned(),
    };
    let mut bench = Bench::new(1, 1);
    bench.give(Input::Page(Page {
        version: "1000".to_owned(),
        bad: vec![error.clone()],
        ..Page::default()
    }));
    match bench.changes.as_slice() {
        [Action::Replace { kept, .. }] => assert_eq!(kept.len(), 1),
        other => panic!("{other:?}"),
    }
    bench.give(Input::Event(Event::Bad {
        error: error.clone(),
        version: "1001".to_owned(),
    }));
    assert_eq!((bench.changes.len(), bench.machine.version()), (1, "1001"));
    assert!(bench.has_noted(|note| *note == Note::Bad(error.clone())));
}

#[test]
fn an_audit_lists_again() {
    let mut bench = Bench::watching(1);
    for _ in 0..60 {
        let watch = bench
            .sent
            .iter()
            .rev()
            .find(|it| matches!(it.kind, RequestKind::Watch { .. }));
        let watch = watch.map_or(0, |request| request.id);
        bench.pass(Duration::from_secs(20));
        bench.give_to(watch, bookmark("1001"));
        bench.give_to(watch, Input::Ended);
        if matches!(bench.last().kind, RequestKind::List { limit: 500, .. }) {
            return;
        }
    }
    panic!("no audit in 20 minutes");
}

#[test]
fn a_watch_that_closes_at_once_is_not_opened_at_once_again() {
    for word in [false, true] {
        let mut bench = Bench::watching(1);
        let n_sent = bench.n_sent();
        if word {
            bench.give(bookmark("1001"));
        }
        bench.give(Input::Ended);
        assert_eq!(bench.n_sent(), n_sent);
        bench.pass_in_steps(SECOND);
        assert!(bench.n_sent() > n_sent);
    }
}

#[test]
fn other_credentials_are_tried_at_once() {
    let mut bench = Bench::watching(1);
    bench.give(refused(403, None));
    let n_sent = bench.n_sent();
    bench.machine.restart(2, bench.now);
    bench.collect();
    assert_eq!(bench.n_sent(), n_sent + 1);
    assert!(matches!(bench.last().kind, RequestKind::Watch { version, .. } if version == "1000"));
}
