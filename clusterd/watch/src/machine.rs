//! The machine of one kind.

use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use cluster::{Key, Object};
use cluster_objects::ObjectError;
use cluster_objects::answer::{Event, Page, Refusal};
use random::Random;
use retry::Backoff;

use crate::addresses::Addresses;
use crate::state::{Next, Partial, Phase, RequestId, number};

/// Until the answer of a list begins and ends, page by page; and until that of a watch begins.
const ANSWER: Duration = Duration::from_secs(30);
/// How long after its own time limit a watch may end: later, it is silent.
const GRACE: Duration = Duration::from_secs(5);
/// How long the first events of a watch may take, unless the last list took longer than half of it. Servers before 1.27
/// ignore the wish, and never send the end mark.
const INITIAL: Duration = Duration::from_secs(10);
/// How long lists are read page by page after the first events of a watch have failed.
const WITHOUT_INITIAL: Duration = Duration::from_secs(3600);
/// Between two looks at the newest version, which a restored etcd sets back; a watch from the future is silent.
const CHECK: Duration = Duration::from_secs(300);
/// Before a look that has failed is tried again.
const CHECK_AGAIN: Duration = Duration::from_secs(30);
/// Between two looks while a version is suspected to have gone back.
const SUSPECTED: Duration = Duration::from_secs(3);
/// How long every look has to find an older version until it is believed: an API server may be behind another one.
const BELIEVED: Duration = Duration::from_secs(15);
/// After this time without a list, the next watch begins with one, which finds a change that a watch has lost.
const AUDIT: Duration = Duration::from_secs(900);
/// A watch that ends sooner than this without a word has failed, and the next attempt waits.
const EARLY: Duration = Duration::from_secs(1);
/// How often in a row a cluster says that it does not know an optional kind, until that is believed.
const ABSENT: u32 = 3;
/// The rest after it has said so.
const ABSENT_REST: Duration = Duration::from_secs(20);
/// Before a list after a refused version; longer when it comes again without progress.
const FIRST_RELIST: Duration = Duration::from_millis(200);
/// The longest of these waits.
const LONGEST_RELIST: Duration = Duration::from_secs(30);
/// The part of a watch's time that is drawn: the watches of all nodes and kinds do not end together.
const SPREAD: f64 = 0.25;

/// The settings of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How many addresses the API has.
    pub addresses: usize,
    /// How many versions of the API have the kind.
    pub variants: usize,
    /// Whether a cluster may lack the kind: then it has no objects of it.
    pub is_optional: bool,
    /// Objects of one page.
    pub page: usize,
    /// How long a watch lasts before the server ends it. A silent one is noticed 5 s later.
    pub watch: Duration,
    /// The most objects of a list that are kept.
    pub most: usize,
}

/// The answers of the API, piece by piece.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// A page of a list.
    Page(Page),
    /// The answer to a watch has begun.
    Opened,
    /// An event of a watch.
    Event(Event),
    /// The answer to a watch has ended as it should.
    Ended,
    /// The request has failed.
    Failed(Failure),
}

/// Why a request has failed.
#[derive(Clone, Debug, PartialEq)]
pub enum Failure {
    /// The server says no.
    Refused(Refusal),
    /// There is no connection, or it broke, or the answer makes no sense.
    Broken(String),
}

/// A request to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its number; its answer is passed in with it.
    pub id: u64,
    /// The place of the address in the list of addresses.
    pub address: usize,
    /// The version of the API that has the kind, counted from the newest.
    pub variant: usize,
    /// The kind of request.
    pub kind: RequestKind,
}

/// A kind of request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// A page of the newest list.
    List {
        /// Objects of the page.
        limit: usize,
        /// The token of the page; none for the first.
        next: Option<String>,
    },
    /// The changes after a version.
    Watch {
        /// The version.
        version: String,
        /// When the server ends it.
        timeout: Duration,
    },
    /// The newest objects and their changes.
    Initial {
        /// When the server ends it.
        timeout: Duration,
    },
}

/// A task for the shell.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Send a request.
    Send(Request),
    /// Nothing more is wanted of a request.
    Cancel(u64),
    /// These objects are there, and no others but those that cannot be read.
    Replace {
        /// The objects.
        objects: Vec<Object>,
        /// The objects that cannot be read.
        kept: BTreeSet<Key>,
    },
    /// An object is new or other than before.
    Put(Object),
    /// An object is gone.
    Delete(Key),
    /// Read the credentials again.
    ReadCredentials,
    /// Something for log and metrics.
    Note(Note),
}

/// Something for log and metrics.
#[derive(Clone, Debug, PartialEq)]
pub enum Note {
    /// A whole list was read.
    Listed {
        /// How many objects it has.
        objects: usize,
        /// How long it took.
        took: Duration,
    },
    /// The version that the watch would continue from is too old.
    Expired,
    /// The server does not answer, refuses, or its answers are torn. The address is the one that failed.
    Failed {
        /// The place of the address.
        address: usize,
        /// Why.
        reason: String,
    },
    /// The API answers again, or another address does.
    Answers {
        /// The place of the address.
        address: usize,
    },
    /// A watch was silent for longer than it should have lasted.
    Silent,
    /// The newest version is older than one that was seen before.
    WentBack {
        /// The version that was seen.
        seen: u64,
        /// The newest one.
        newest: u64,
    },
    /// The older version is believed: etcd was restored.
    Restored,
    /// The first events of a watch did not come as wished; lists are read page by page for a while.
    WithoutInitial(String),
    /// The API has the kind in another version.
    Variant(usize),
    /// An object cannot be read.
    Bad(ObjectError),
    /// An event of an unknown type.
    Unknown(String),
}

/// A look at the newest version beside a watch.
#[derive(Clone, Copy, Debug)]
struct Check {
    request: RequestId,
    deadline: Instant,
}

/// The machine.
#[derive(Debug)]
pub struct Machine {
    settings: Settings,
    addresses: Addresses,
    random: Random,
    phase: Phase,
    check: Option<Check>,
    next_check: Instant,
    /// The version that a watch continues from; empty before the first list.
    version: String,
    /// The newest version that was ever seen, as a number.
    seen: u64,
    /// Since when every look has found an older version than that.
    suspected: Option<Instant>,
    /// When the last list was read, and how long it took.
    listed: Option<(Instant, Duration)>,
    /// Whether the server sends lists as first events.
    has_initial: bool,
    without_initial_until: Option<Instant>,
    variant: usize,
    /// Refusals in a row, of each sort.
    n_expired: u32,
    n_unauthorized: u32,
    n_not_found: usize,
    /// How often in a row the cluster did not know an optional kind.
    n_absent: u32,
    /// Whether the last attempt has failed.
    is_failing: bool,
    last_request: RequestId,
    actions: VecDeque<Action>,
}

impl Machine {
    /// A machine that will list at once.
    #[must_use]
    pub fn new(settings: Settings, random: Random, now: Instant) -> Self {
        Self {
            addresses: Addresses::new(settings.addresses),
            settings,
            random,
            phase: Phase::Waiting {
                until: now,
                then: Next::List,
            },
            check: None,
            next_check: now + CHECK,
            version: String::new(),
            seen: 0,
            suspected: None,
            listed: None,
            has_initial: false,
            without_initial_until: None,
            variant: 0,
            n_expired: 0,
            n_unauthorized: 0,
            n_not_found: 0,
            n_absent: 0,
            is_failing: true,
            last_request: 0,
            actions: VecDeque::new(),
        }
    }

    /// Says whether the server sends lists as first events of a watch, by its version.
    pub const fn set_initial(&mut self, has_initial: bool) {
        self.has_initial = has_initial;
    }

    /// Begins again at once: credentials or addresses are others.
    pub fn restart(&mut self, addresses: usize, now: Instant) {
        self.cancel();
        self.settings.addresses = addresses;
        self.addresses = Addresses::new(addresses);
        let then = match self.version.is_empty() {
            true => Next::List,
            false => Next::Watch,
        };
        self.wait(now, then);
        self.handle_time(now);
    }

    /// Does what is due at this time.
    pub fn handle_time(&mut self, now: Instant) {
        self.handle_phase_time(now);
        // After a failure, ask the next address at once.
        if matches!(&self.phase, Phase::Waiting { until, .. } if *until <= now) {
            self.handle_phase_time(now);
        }
        self.handle_check_time(now);
    }

    fn handle_phase_time(&mut self, now: Instant) {
        match &self.phase {
            Phase::Waiting { until, then } if *until <= now => match then {
                Next::List => self.list(now),
                Next::Watch => self.watch(now),
            },
            Phase::Listing { deadline, .. } if *deadline <= now => {
                self.cancel();
                self.fail("the list does not come".to_owned(), None, now);
            }
            Phase::Initial { deadline, .. } if *deadline <= now => {
                self.cancel();
                self.without_initial("the end mark does not come", now);
            }
            Phase::Watching { deadline, .. } if *deadline <= now => {
                self.cancel();
                self.note(Note::Silent);
                self.fail("the watch is silent".to_owned(), None, now);
            }
            _ => {}
        }
    }

    /// When [`handle_time`](Self::handle_time) has something to do next.
    #[must_use]
    pub fn next_deadline(&self) -> Instant {
        let phase = match &self.phase {
            Phase::Waiting { until, .. } => *until,
            Phase::Listing { deadline, .. }
            | Phase::Initial { deadline, .. }
            | Phase::Watching { deadline, .. } => *deadline,
        };
        let check = self.check.map(|check| check.deadline);
        let check = check.or_else(|| self.is_open().then_some(self.next_check));
        check.map_or(phase, |check| check.min(phase))
    }

    /// Takes in an answer to a request; one to a request that was cancelled is ignored.
    pub fn handle(&mut self, request: u64, input: Input, now: Instant) {
        let is_check = self.check.is_some_and(|check| check.request == request);
        match &self.phase {
            _ if is_check => self.handle_check(input, now),
            Phase::Listing { request: own, .. } if *own == request => {
                self.handle_list(input, now);
            }
            Phase::Initial { request: own, .. } if *own == request => {
                self.handle_initial(input, now);
            }
            Phase::Watching { request: own, .. } if *own == request => {
                self.handle_watch(input, now);
            }
            _ => {}
        }
        // A wait may be over as soon as it has begun.
        self.handle_time(now);
    }

    /// The next thing to be done.
    pub fn poll(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// The place of the address in use.
    #[must_use]
    pub const fn address(&self) -> usize {
        self.addresses.current()
    }

    /// How many addresses there are.
    #[must_use]
    pub const fn addresses(&self) -> usize {
        self.settings.addresses
    }

    /// Whether the last attempt has failed.
    #[must_use]
    pub const fn is_failing(&self) -> bool {
        self.is_failing
    }

    /// Whether a watch is open: the server has begun to answer.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Watching { is_open: true, .. })
    }

    /// The version that a watch continues from; empty before the first list.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    //--- Requests

    fn list(&mut self, now: Instant) {
        // Another address has to confirm an older version.
        if self.suspected.is_none() {
            self.addresses.choose(now);
        }
        if self.uses_initial(now) {
            let half = self.listed.map_or(Duration::ZERO, |(_, took)| took);
            let deadline = now + INITIAL.max(half.saturating_mul(2));
            let timeout = self.settings.watch;
            let request = self.send(RequestKind::Initial { timeout });
            self.phase = Phase::Initial {
                request,
                begun: now,
                list: Partial::default(),
                deadline,
            };
            return;
        }
        let request = self.send_page(None);
        self.phase = Phase::Listing {
            request,
            begun: now,
            list: Partial::default(),
            deadline: now + ANSWER,
        };
    }

    fn uses_initial(&self, now: Instant) -> bool {
        self.has_initial && self.without_initial_until.is_none_or(|until| until <= now)
    }

    fn send_page(&mut self, next: Option<String>) -> RequestId {
        let limit = self.settings.page;
        self.send(RequestKind::List { limit, next })
    }

    /// Continues from the known version, or with a list when the last one was long ago.
    fn watch(&mut self, now: Instant) {
        let is_audit = |(at, _): (Instant, Duration)| now.saturating_duration_since(at) >= AUDIT;
        if self.version.is_empty() || self.listed.is_none_or(is_audit) {
            return self.list(now);
        }
        self.addresses.choose(now);
        let cut = self.random.unit() * SPREAD;
        // Whole seconds, as the API counts them.
        let timeout = self.settings.watch.mul_f64(1.0 - cut).as_secs().max(1);
        let timeout = Duration::from_secs(timeout);
        let version = self.version.clone();
        let request = self.send(RequestKind::Watch { version, timeout });
        self.phase = Phase::Watching {
            request,
            begun: now,
            ends: now + timeout,
            deadline: now + ANSWER.min(timeout + GRACE),
            is_open: false,
            has_heard: false,
        };
    }

    fn send(&mut self, kind: RequestKind) -> RequestId {
        self.last_request += 1;
        let id = self.last_request;
        self.actions.push_back(Action::Send(Request {
            id,
            address: self.addresses.current(),
            variant: self.variant,
            kind,
        }));
        id
    }

    /// Ends every request.
    fn cancel(&mut self) {
        let running = match &self.phase {
            Phase::Waiting { .. } => None,
            Phase::Listing { request, .. }
            | Phase::Initial { request, .. }
            | Phase::Watching { request, .. } => Some(*request),
        };
        let check = self.check.take().map(|check| check.request);
        for id in running.into_iter().chain(check) {
            self.actions.push_back(Action::Cancel(id));
        }
    }

    fn wait(&mut self, until: Instant, then: Next) {
        self.phase = Phase::Waiting { until, then };
    }

    fn note(&mut self, note: Note) {
        self.actions.push_back(Action::Note(note));
    }

    //--- Lists

    fn handle_list(&mut self, input: Input, now: Instant) {
        let page = match input {
            Input::Page(page) => page,
            Input::Failed(failure) => return self.handle_failure(failure, now),
            Input::Opened | Input::Event(_) | Input::Ended => {
                self.cancel();
                return self.fail("the list ends early".to_owned(), None, now);
            }
        };
        let Phase::Listing { list, .. } = &mut self.phase else {
            return;
        };
        for object in page.objects {
            if list.objects.len() < self.settings.most {
                list.put(object);
            }
        }
        for error in page.bad {
            list.bad(&error);
            self.actions.push_back(Action::Note(Note::Bad(error)));
        }
        // Every page has the first one's version.
        if list.version.is_empty() {
            list.version = page.version;
        }
        match page.next {
            None => self.finish_list(now),
            Some(token) => {
                let next = self.send_page(Some(token));
                if let Phase::Listing {
                    request, deadline, ..
                } = &mut self.phase
                {
                    *request = next;
                    *deadline = now + ANSWER;
                }
            }
        }
    }

    /// Everything of a list has come: it counts, unless it is older than what was seen.
    fn finish_list(&mut self, now: Instant) {
        let (Phase::Listing { list, begun, .. } | Phase::Initial { list, begun, .. }) =
            &mut self.phase
        else {
            return;
        };
        let took = now.saturating_duration_since(*begun);
        let list = std::mem::take(list);
        if self.compare(&list.version, now) == Compared::Older {
            self.cancel();
            self.addresses.turn();
            return self.wait(now + SUSPECTED, Next::List);
        }
        self.answers();
        self.n_expired = 0;
        self.version = list.version;
        self.seen = number(&self.version).unwrap_or(self.seen);
        self.listed = Some((now, took));
        self.next_check = now + CHECK;
        let objects: Vec<Object> = list.objects.into_values().collect();
        self.note(Note::Listed {
            objects: objects.len(),
            took,
        });
        let kept = list.bad;
        self.actions.push_back(Action::Replace { objects, kept });
        if let Phase::Initial { request, begun, .. } = self.phase {
            // The same answer continues as a watch.
            let ends = begun + self.settings.watch;
            self.phase = Phase::Watching {
                request,
                begun,
                ends,
                deadline: ends + GRACE,
                is_open: true,
                has_heard: true,
            };
        } else {
            self.watch(now);
        }
    }

    fn handle_initial(&mut self, input: Input, now: Instant) {
        let event = match input {
            Input::Event(event) => event,
            Input::Opened => return,
            Input::Failed(Failure::Refused(refusal)) if matches!(refusal.code, 400 | 422) => {
                self.cancel();
                return self.without_initial(&refusal.to_string(), now);
            }
            Input::Failed(failure) => return self.handle_failure(failure, now),
            Input::Ended | Input::Page(_) => {
                self.cancel();
                return self.without_initial("the watch has ended before the end mark", now);
            }
        };
        let Phase::Initial { list, .. } = &mut self.phase else {
            return;
        };
        match event {
            Event::Put { object, .. } if list.objects.len() < self.settings.most => {
                list.put(object);
            }
            Event::Put { .. } => {}
            Event::Delete { key, .. } => list.delete(&key),
            Event::Bad { error, .. } => {
                list.bad(&error);
                self.note(Note::Bad(error));
            }
            Event::Bookmark {
                version,
                initial_end: true,
            } => {
                list.version = version;
                self.finish_list(now);
            }
            Event::Bookmark { .. } => {}
            Event::Refused(refusal) => self.handle_failure(Failure::Refused(refusal), now),
            Event::Unknown(name) => self.note(Note::Unknown(name)),
        }
    }

    /// The first events of a watch are of no use here: the list is read page by page, at once.
    fn without_initial(&mut self, reason: &str, now: Instant) {
        self.without_initial_until = Some(now + WITHOUT_INITIAL);
        self.note(Note::WithoutInitial(reason.to_owned()));
        self.list(now);
    }

    //--- Watches

    fn handle_watch(&mut self, input: Input, now: Instant) {
        match input {
            Input::Opened => self.opened(),
            Input::Event(event) => self.handle_event(event, now),
            Input::Ended => self.ended(now),
            Input::Failed(failure) => self.handle_failure(failure, now),
            Input::Page(_) => {
                self.cancel();
                self.fail("a list came in place of a watch".to_owned(), None, now);
            }
        }
    }

    /// The answer has begun; from here on the watch is silent only after its own end.
    fn opened(&mut self) {
        self.n_absent = 0;
        if let Phase::Watching {
            ends,
            deadline,
            is_open,
            ..
        } = &mut self.phase
        {
            *deadline = *ends + GRACE;
            *is_open = true;
        }
    }

    fn handle_event(&mut self, event: Event, now: Instant) {
        self.opened();
        if let Event::Refused(refusal) = event {
            return self.handle_failure(Failure::Refused(refusal), now);
        }
        if let Phase::Watching { has_heard, .. } = &mut self.phase {
            *has_heard = true;
        }
        self.answers();
        self.n_expired = 0;
        let version = match event {
            Event::Put { object, version } => {
                self.actions.push_back(Action::Put(object));
                version
            }
            Event::Delete { key, version } => {
                self.actions.push_back(Action::Delete(key));
                version
            }
            Event::Bookmark { version, .. } => version,
            Event::Bad { error, version } => {
                self.note(Note::Bad(error));
                version
            }
            Event::Unknown(name) => {
                self.note(Note::Unknown(name));
                return;
            }
            Event::Refused(_) => return,
        };
        self.advance(version);
    }

    /// A watch continues from the newest version that it has sent. One that is older, or none, is never taken.
    fn advance(&mut self, version: String) {
        match (number(&version), number(&self.version)) {
            (Some(new), Some(old)) if new < old => {}
            (Some(new), _) => {
                self.seen = self.seen.max(new);
                self.version = version;
            }
            (None, _) if !version.is_empty() => self.version = version,
            (None, _) => {}
        }
    }

    fn ended(&mut self, now: Instant) {
        let Phase::Watching {
            begun,
            ends,
            has_heard,
            ..
        } = self.phase
        else {
            return;
        };
        self.cancel();
        // A server ends a watch a little before its time.
        let is_due = now + GRACE >= ends;
        if is_due || has_heard {
            self.answers();
        }
        if !is_due {
            // A server that has gone may come back with another history.
            self.next_check = now;
        }
        if now.saturating_duration_since(begun) >= EARLY {
            return self.watch(now);
        }
        let wait = EARLY.mul_f64(1.0 - SPREAD * self.random.unit());
        self.wait(now + wait, Next::Watch);
    }

    //--- Failures

    fn handle_failure(&mut self, failure: Failure, now: Instant) {
        self.cancel();
        let refusal = match failure {
            Failure::Broken(reason) => return self.fail(reason, None, now),
            Failure::Refused(refusal) => refusal,
        };
        if refusal.is_expired() {
            return self.expired(now);
        }
        let reason = refusal.to_string();
        match refusal.code {
            401 => {
                self.n_unauthorized = self.n_unauthorized.saturating_add(1);
                self.actions.push_back(Action::ReadCredentials);
                // The token may have been replaced since it was read: one attempt at once.
                match self.n_unauthorized {
                    1 => self.again(now),
                    _ => self.fail(reason, None, now),
                }
            }
            404 => {
                self.n_not_found += 1;
                let variants = self.settings.variants.max(1);
                self.variant = (self.variant + 1) % variants;
                // clusterd asks again and again for an optional kind that the cluster lacks: that is no news.
                if variants > 1 || !self.settings.is_optional {
                    self.note(Note::Variant(self.variant));
                }
                // Versions are the kind's own, whichever version of the API shows it.
                match self.n_not_found < variants {
                    true => self.wait(now, Next::List),
                    false if self.settings.is_optional => self.absent(now),
                    false => {
                        self.n_not_found = 0;
                        self.fail(reason, None, now);
                    }
                }
            }
            _ => {
                if refusal.code == 504 {
                    // A version of the future is one that this server has not reached, or will never reach.
                    self.next_check = now;
                }
                self.fail(reason, refusal.retry_after, now);
            }
        }
    }

    /// The cluster does not know the kind. An API server that starts may not know it yet: it has to say so several times.
    fn absent(&mut self, now: Instant) {
        self.answers();
        self.n_absent = self.n_absent.saturating_add(1);
        if self.n_absent == ABSENT {
            self.actions.push_back(Action::Replace {
                objects: Vec::new(),
                kept: BTreeSet::new(),
            });
        }
        self.n_not_found = 0;
        self.wait(now + ABSENT_REST, Next::List);
    }

    /// The version or the token is too old: the machine lists again, and keeps all objects until then.
    fn expired(&mut self, now: Instant) {
        self.note(Note::Expired);
        self.n_expired = self.n_expired.saturating_add(1);
        let backoff = Backoff::new(FIRST_RELIST, LONGEST_RELIST);
        let wait = backoff.after(self.n_expired, self.random.unit());
        self.wait(now + wait, Next::List);
    }

    /// The address has failed: ask the next one at once, and when all have failed, the first that has rested.
    fn fail(&mut self, reason: String, asked: Option<Duration>, now: Instant) {
        self.is_failing = true;
        let address = self.addresses.current();
        self.note(Note::Failed { address, reason });
        let at = self.addresses.failed(asked, now, &mut self.random);
        self.again(at);
        self.next_check = self.next_check.min(now);
    }

    /// Continues at this time where the failure came.
    fn again(&mut self, at: Instant) {
        let is_list = matches!(
            self.phase,
            Phase::Listing { .. }
                | Phase::Initial { .. }
                | Phase::Waiting {
                    then: Next::List,
                    ..
                }
        );
        let then = match is_list || self.version.is_empty() {
            true => Next::List,
            false => Next::Watch,
        };
        self.wait(at, then);
    }

    /// The address in use has answered as it should.
    fn answers(&mut self) {
        self.addresses.succeeded();
        self.n_unauthorized = 0;
        self.n_not_found = 0;
        if std::mem::take(&mut self.is_failing) {
            let address = self.addresses.current();
            self.note(Note::Answers { address });
        }
    }

    //--- Versions that go back

    fn handle_check_time(&mut self, now: Instant) {
        match self.check {
            Some(check) if check.deadline <= now => {
                self.check = None;
                self.actions.push_back(Action::Cancel(check.request));
                self.next_check = now + SUSPECTED;
            }
            None if self.is_open() && self.next_check <= now => {
                let request = self.send(RequestKind::List {
                    limit: 1,
                    next: None,
                });
                self.check = Some(Check {
                    request,
                    deadline: now + ANSWER,
                });
            }
            _ => {}
        }
    }

    fn handle_check(&mut self, input: Input, now: Instant) {
        self.check = None;
        let Input::Page(page) = input else {
            // The watch itself will say what is wrong.
            self.next_check = now + CHECK_AGAIN;
            return;
        };
        self.next_check = now + CHECK;
        match self.compare(&page.version, now) {
            Compared::Newest => {}
            Compared::Older => self.next_check = now + SUSPECTED,
            Compared::Restored => {
                self.cancel();
                self.list(now);
            }
        }
    }

    /// Compares the version of a list with the newest that was seen. An older one is believed when every look has found an
    /// older one for so long that etcd must have been restored.
    fn compare(&mut self, version: &str, now: Instant) -> Compared {
        let newest = number(version).filter(|newest| *newest < self.seen);
        let Some(newest) = newest else {
            self.suspected = None;
            return Compared::Newest;
        };
        match self.suspected {
            None => {
                self.suspected = Some(now);
                let seen = self.seen;
                self.note(Note::WentBack { seen, newest });
                Compared::Older
            }
            Some(since) if now.saturating_duration_since(since) < BELIEVED => Compared::Older,
            Some(_) => {
                self.suspected = None;
                self.seen = newest;
                self.note(Note::Restored);
                Compared::Restored
            }
        }
    }
}

/// How a version compares with the newest that was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compared {
    Newest,
    Older,
    Restored,
}
