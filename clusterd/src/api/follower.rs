//! The follower of one kind: it holds the machine, carries out its requests, and changes the picture.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Instant;

use cluster::Kind;
use cluster_client::access::Access;
use cluster_client::request::{self, ApiError, escaped};
use cluster_objects::answer;
use cluster_watch::{Action, Failure, Input, Machine, Note, Request, RequestKind, Settings};
use daemon::clock;
use daemon::latest::Reader;
use parking_lot::Mutex;
use random::Random;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::settings::ApiSettings;
use super::{Shared, seconds_since};
use crate::publisher::Publisher;

/// Answers that wait for the machine; a request beyond them waits, and so does the server.
const INBOX: usize = 64;
/// The longest page: 500 slices of 100 endpoints have 14 MB.
const MAX_PAGE: usize = 64 << 20;
/// Items of a page beyond which it is no page: servers may ignore the limit.
const MAX_ITEMS: usize = 200_000;

/// How a kind is followed, for the status.
#[derive(Clone, Debug)]
pub struct Progress {
    /// The kind.
    pub kind: Kind,
    /// Whether a watch is open.
    pub watching: bool,
    /// The place of the address in use.
    pub address: usize,
    /// The version that the watch has reached.
    pub version: String,
    /// When the API last sent anything of the kind.
    pub heard: Option<Instant>,
    /// How often a whole list was read.
    pub lists: u64,
    /// Why the last attempt failed.
    pub problem: Option<String>,
}

impl Progress {
    pub(super) const fn new(kind: Kind) -> Self {
        Self {
            kind,
            watching: false,
            address: 0,
            version: String::new(),
            heard: None,
            lists: 0,
            problem: None,
        }
    }

    /// Seconds since the API last sent anything of the kind.
    #[must_use]
    pub fn heard_seconds_ago(&self) -> Option<f64> {
        self.heard.map(seconds_since)
    }
}

/// The follower.
pub(super) struct Follower {
    kind: Kind,
    machine: Machine,
    shared: Arc<Shared>,
    access: Reader<Result<Access, String>>,
    publisher: Publisher,
    progress: Arc<Mutex<Progress>>,
    requests: BTreeMap<u64, JoinHandle<()>>,
    sender: mpsc::Sender<(u64, Input)>,
    inbox: mpsc::Receiver<(u64, Input)>,
}

impl Follower {
    pub(super) fn new(
        shared: Arc<Shared>,
        progress: Arc<Mutex<Progress>>,
        publisher: Publisher,
        settings: &ApiSettings,
        most: usize,
    ) -> Self {
        let kind = progress.lock().kind;
        let access = shared.access();
        let settings = Settings {
            addresses: n_addresses(access.shared().as_ref()),
            variants: versions(kind).len(),
            is_optional: kind.is_optional(),
            page: settings.page,
            watch: settings.watch,
            // More than the picture has room for, so that it counts what it leaves out.
            most: most.saturating_mul(2),
        };
        let (sender, inbox) = mpsc::channel(INBOX);
        Self {
            kind,
            machine: Machine::new(settings, Random::new(seed(kind)), clock::now()),
            access,
            shared,
            publisher,
            progress,
            requests: BTreeMap::new(),
            sender,
            inbox,
        }
    }

    pub(super) async fn run(mut self) {
        loop {
            self.machine.set_initial(self.shared.has_initial());
            self.machine.handle_time(clock::now());
            self.act();
            let deadline = self.machine.next_deadline();
            tokio::select! {
                Some((request, input)) = self.inbox.recv() => self.take(request, input),
                () = self.access.changed() => self.take_access(),
                () = tokio::time::sleep_until(deadline.into()) => {}
            }
        }
    }

    fn take(&mut self, request: u64, input: Input) {
        self.shared.counters.input(self.kind, &input);
        if !matches!(input, Input::Failed(_)) {
            self.progress.lock().heard = Some(clock::now());
        }
        self.machine.handle(request, input, clock::now());
        self.act();
    }

    /// Other credentials serve the requests from here on; a machine that fails tries them at once.
    fn take_access(&mut self) {
        let addresses = n_addresses(self.access.shared().as_ref());
        if self.machine.is_failing() || addresses != self.machine.addresses() {
            self.machine.restart(addresses, clock::now());
        }
    }

    fn act(&mut self) {
        while let Some(action) = self.machine.poll() {
            match action {
                Action::Send(request) => self.send(request),
                Action::Cancel(id) => {
                    if let Some(task) = self.requests.remove(&id) {
                        task.abort();
                    }
                }
                Action::Replace { objects, kept } => {
                    self.progress.lock().lists += 1;
                    self.publisher
                        .change(|picture| picture.replace(self.kind, objects, &kept));
                }
                Action::Put(object) => self.publisher.change(|picture| picture.put(object)),
                Action::Delete(key) => self.publisher.change(|picture| picture.delete(&key)),
                Action::ReadCredentials => self.shared.refused.notify_one(),
                Action::Note(note) => self.note(note),
            }
        }
        let mut progress = self.progress.lock();
        progress.watching = self.machine.is_open();
        progress.address = self.machine.address();
        self.machine.version().clone_into(&mut progress.version);
    }

    fn send(&mut self, request: Request) {
        self.requests.retain(|_, task| !task.is_finished());
        let (id, kind, sender) = (request.id, self.kind, self.sender.clone());
        let access = self.access.shared();
        let task = tokio::spawn(async move {
            let failure = match access.as_ref() {
                Ok(access) => carry_out(access, kind, &request, &sender).await.err(),
                Err(problem) => Some(Failure::Broken(problem.clone())),
            };
            if let Some(failure) = failure {
                // The follower has gone when there is no room for it.
                drop(sender.send((id, Input::Failed(failure))).await);
            }
        });
        self.requests.insert(id, task);
    }

    fn address(&self, place: usize) -> String {
        let access = self.access.shared();
        let addresses = access
            .as_ref()
            .as_ref()
            .ok()
            .map(|access| &access.addresses);
        let address = addresses.and_then(|addresses| addresses.get(place));
        address.map(ToString::to_string).unwrap_or_default()
    }

    fn note(&self, note: Note) {
        let kind = self.kind;
        self.shared.counters.note(kind, &note);
        match note {
            Note::Listed { objects, took } => {
                let seconds = took.as_secs_f64();
                tracing::debug!(%kind, objects, seconds, "Objects are listed");
            }
            Note::Expired => {
                tracing::info!(%kind, "The version of the watch is too old; the objects are listed again");
            }
            Note::Failed { address, reason } => {
                let address = self.address(address);
                let mut progress = self.progress.lock();
                if progress.problem.as_ref() != Some(&reason) {
                    tracing::warn!(%kind, address, reason, "The API server fails");
                }
                progress.problem = Some(reason);
            }
            Note::Answers { address } => {
                let address = self.address(address);
                self.progress.lock().problem = None;
                tracing::info!(%kind, address, "The API server answers");
            }
            Note::Silent => tracing::warn!(%kind, "The watch was silent for too long"),
            Note::WentBack { seen, newest } => {
                tracing::warn!(%kind, seen, newest, "The newest version is older than one that was seen");
            }
            Note::Restored => {
                tracing::warn!(%kind, "The older version is taken up: etcd was restored");
            }
            Note::WithoutInitial(reason) => {
                tracing::info!(%kind, reason, "Objects are listed page by page");
            }
            Note::Variant(variant) => {
                let path = path(kind, variant);
                tracing::info!(%kind, path, "The kind was not found; another version of the API is tried");
            }
            Note::Bad(error) => tracing::warn!(%error, "An object is left as it was"),
            Note::Unknown(name) => tracing::warn!(%kind, name, "The type of an event is unknown"),
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        for task in self.requests.values() {
            task.abort();
        }
    }
}

fn n_addresses(access: &Result<Access, String>) -> usize {
    access.as_ref().map_or(1, |access| access.addresses.len())
}

/// The standard library seeds this hasher from the system, differently in each process.
fn seed(kind: Kind) -> [u8; 16] {
    let random = RandomState::new();
    let halves = [0, 1].map(|half: u8| u128::from(random.hash_one((kind, half))));
    let [high, low] = halves;
    ((high << 64) | low).to_be_bytes()
}

//--- Requests

/// The versions of a kind's API group, the newest first.
const fn versions(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Node | Kind::Namespace | Kind::Service => &["v1"],
        Kind::EndpointSlice => &["v1", "v1beta1"],
        Kind::Dns => &["v1"],
    }
}

/// The path of a kind in a version of its group.
fn path(kind: Kind, variant: usize) -> String {
    let version = versions(kind).get(variant).copied().unwrap_or_default();
    match (kind.group(), kind.resource()) {
        ("", resource) => format!("/api/{version}/{resource}"),
        (group, resource) => format!("/apis/{group}/{version}/{resource}"),
    }
}

fn target(kind: Kind, request: &Request) -> String {
    let path = path(kind, request.variant);
    // A role that names an object grants no other form of request for it.
    let only = kind.only().map_or_else(String::new, |name| {
        format!(
            "fieldSelector={}&",
            escaped(&format!("metadata.name={name}"))
        )
    });
    let watch = |timeout: &std::time::Duration| {
        let seconds = timeout.as_secs();
        format!("{path}?{only}watch=1&allowWatchBookmarks=true&timeoutSeconds={seconds}")
    };
    match &request.kind {
        RequestKind::List { limit, next: None } => format!("{path}?{only}limit={limit}"),
        RequestKind::List {
            limit,
            next: Some(token),
        } => format!("{path}?{only}limit={limit}&continue={}", escaped(token)),
        RequestKind::Watch { version, timeout } => {
            format!("{}&resourceVersion={}", watch(timeout), escaped(version))
        }
        RequestKind::Initial { timeout } => format!(
            "{}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
            watch(timeout)
        ),
    }
}

/// Carries out a request; its answer goes to the follower.
async fn carry_out(
    access: &Access,
    kind: Kind,
    request: &Request,
    sender: &mpsc::Sender<(u64, Input)>,
) -> Result<(), Failure> {
    let Some(address) = access.addresses.get(request.address) else {
        return Err(Failure::Broken("there is no such address".to_owned()));
    };
    let path = target(kind, request);
    let give = async |input| {
        let given = sender.send((request.id, input)).await;
        given.map_err(|_| Failure::Broken("the follower has gone".to_owned()))
    };
    if matches!(request.kind, RequestKind::List { .. }) {
        let body = request::get(access, address, &path, MAX_PAGE).await;
        let body = body.map_err(failure)?;
        let page = tokio::task::spawn_blocking(move || answer::page(kind, &body, MAX_ITEMS)).await;
        let page = page.map_err(|error| Failure::Broken(error.to_string()))?;
        let page = page.map_err(|error| Failure::Broken(error.to_string()))?;
        return give(Input::Page(page)).await;
    }
    let mut lines = request::open(access, address, &path)
        .await
        .map_err(failure)?;
    give(Input::Opened).await?;
    while let Some(line) = lines.line().await.map_err(failure)? {
        let event = answer::event(kind, &line);
        let event = event.map_err(|error| Failure::Broken(error.to_string()))?;
        give(Input::Event(event)).await?;
    }
    give(Input::Ended).await
}

fn failure(error: ApiError) -> Failure {
    match error {
        ApiError::Refused(refusal) => Failure::Refused(refusal),
        other => Failure::Broken(daemon::exit::chain(&other)),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn requests_are_written_as_the_api_reads_them() {
        let of = |kind, variant, request| {
            let request = Request {
                id: 1,
                address: 0,
                variant,
                kind: request,
            };
            target(kind, &request)
        };
        let next = Some("a b+/=".to_owned());
        assert_eq!(
            of(Kind::Node, 0, RequestKind::List { limit: 500, next }),
            "/api/v1/nodes?limit=500&continue=a%20b%2B%2F%3D"
        );
        let timeout = Duration::from_secs(27);
        let version = "1000".to_owned();
        assert_eq!(
            of(
                Kind::EndpointSlice,
                1,
                RequestKind::Watch { version, timeout }
            ),
            "/apis/discovery.k8s.io/v1beta1/endpointslices?watch=1&allowWatchBookmarks=true&timeoutSeconds=27&resourceVersion=1000"
        );
        assert_eq!(
            of(Kind::Service, 0, RequestKind::Initial { timeout }),
            "/api/v1/services?watch=1&allowWatchBookmarks=true&timeoutSeconds=27&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
        );
    }
    /// The verb, group and resource that the API server authorizes a request by (k8s.io/apiserver, `RequestInfo`).
    fn authorized(target: &str) -> (&'static str, String, String) {
        let (path, query) = target.split_once('?').unwrap();
        let verb = match query.split('&').any(|pair| pair == "watch=1") {
            true => "watch",
            false => "list",
        };
        let parts: Vec<&str> = path.split('/').skip(1).collect();
        let (group, resource) = match parts.as_slice() {
            ["api", "v1", resource] => ("", *resource),
            ["apis", group, _, resource] => (*group, *resource),
            _ => panic!("{path}"),
        };
        (verb, group.to_owned(), resource.to_owned())
    }

    #[test]
    fn the_role_grants_every_request_and_nothing_else() {
        use std::collections::BTreeSet;
        let timeout = Duration::from_secs(27);
        let mut asked = BTreeSet::new();
        for kind in Kind::ALL {
            for variant in 0..versions(kind).len() {
                let (next, version) = (Some("a".to_owned()), "1".to_owned());
                for request in [
                    RequestKind::List {
                        limit: 1,
                        next: None,
                    },
                    RequestKind::List { limit: 500, next },
                    RequestKind::Watch { version, timeout },
                    RequestKind::Initial { timeout },
                ] {
                    let request = Request {
                        id: 1,
                        address: 0,
                        variant,
                        kind: request,
                    };
                    asked.insert(authorized(&target(kind, &request)));
                }
            }
        }
        // `outpost` renders its ClusterRole from the same constants.
        let granted: BTreeSet<_> = Kind::ALL
            .into_iter()
            .flat_map(|kind| {
                let of = move |verb| (verb, kind.group().to_owned(), kind.resource().to_owned());
                Kind::VERBS.into_iter().map(of)
            })
            .collect();
        assert_eq!(asked, granted);
    }
}
