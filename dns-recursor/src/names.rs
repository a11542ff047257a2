//! The names of the configuration, and the files with further names and rules: read at the start and on a reload, and read
//! again when they change.
//!
//! ```text
//! configuration ─┐
//! hosts files ───┼─► Names ─► threads that answer, the resolver
//! policy files ──┤
//! healthd ───────┘ addresses that are down
//! ```

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use api::dns_recursor::{NameFile, Names as Report};
use config_text::{Problem, counted};
use daemon::clock;
use daemon::config::Problems;
use daemon::directory::{Change, Event, Queue};
use daemon::disk::{self, Stamp};
use daemon::latest::Latest;
use dns_names::hosts::{self, Hosts};
use dns_names::names::{Given, HostsOptions, NameTable};
use dns_names::policy::{PolicyZone, Rule};
use dns_names::{Names, list, zone};
use dns_wire::Name;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// The time that a burst of changes has to end in.
const SETTLE: Duration = Duration::from_millis(100);
/// The interval of looks at files whose directory cannot be watched, or whose change was missed.
const LOOK: Duration = Duration::from_secs(10);

/// The names of a configuration, and the files with further ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamePlan {
    /// The names of the configuration itself.
    pub given: Vec<Given>,
    /// The hosts files.
    pub hosts: Vec<PathBuf>,
    /// The options of their names.
    pub options: HostsOptions,
    /// The response policies.
    pub policies: Vec<PolicyFile>,
    /// Whether names of one label have no addresses.
    pub domain_needed: bool,
}

impl Default for NamePlan {
    fn default() -> Self {
        Self {
            given: Vec::new(),
            hosts: Vec::new(),
            options: HostsOptions {
                ttl: 60,
                has_reverse: true,
            },
            policies: Vec::new(),
            domain_needed: false,
        }
    }
}

/// The file of a response policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyFile {
    /// Its path.
    pub path: PathBuf,
    /// The zone in it; none for a list of names.
    pub zone: Option<Name>,
    /// The rule for each of its names, if the configuration has one.
    pub fixed: Option<Rule>,
}

/// The content of the files of a plan.
#[derive(Debug, Default)]
pub struct Contents {
    files: Vec<ReadFile>,
}

/// A file as it was read last.
#[derive(Debug)]
struct ReadFile {
    path: PathBuf,
    stamp: Stamp,
    content: Content,
    /// When it was read, in seconds since 1970.
    read_at: u64,
    /// The reason why it was not read again.
    problem: Option<String>,
}

#[derive(Debug)]
enum Content {
    Hosts(Hosts),
    Policy {
        file: PolicyFile,
        zone: Arc<PolicyZone>,
    },
}

impl Contents {
    /// Reads the files of a plan. A hosts file that is not there has no names.
    ///
    /// # Errors
    /// All problems of response policies: without its rules this server answers what its operator has forbidden.
    pub fn read(plan: &NamePlan) -> Result<Self, Problems> {
        let mut problems = Problems::default();
        let mut files = Vec::new();
        for path in &plan.hosts {
            // Its state before it is read: a change after that is seen.
            let stamp = Stamp::of(path);
            let (content, problem) = match read_hosts(path) {
                Ok(content) => (content, None),
                Err(error) => (Hosts::default(), Some(error.to_string())),
            };
            files.push(ReadFile::new(path, stamp, Content::Hosts(content), problem));
        }
        for file in &plan.policies {
            let stamp = Stamp::of(&file.path);
            match read_policy(file) {
                Ok(zone) => {
                    let (file, path) = (file.clone(), &file.path);
                    let zone = Arc::new(zone);
                    files.push(ReadFile::new(
                        path,
                        stamp,
                        Content::Policy { file, zone },
                        None,
                    ));
                }
                Err(found) => found.into_iter().for_each(|problem| problems.push(problem)),
            }
        }
        match problems.0.is_empty() {
            true => Ok(Self { files }),
            false => Err(problems),
        }
    }

    fn names(&self, plan: &NamePlan, down: &Arc<BTreeSet<SocketAddr>>) -> Names {
        let hosts = self.files.iter().filter_map(|file| match &file.content {
            Content::Hosts(hosts) => Some(hosts),
            Content::Policy { .. } => None,
        });
        let policies = self.files.iter().filter_map(|file| match &file.content {
            Content::Hosts(_) => None,
            Content::Policy { zone, .. } => Some(Arc::clone(zone)),
        });
        Names {
            table: Arc::new(NameTable::new(&plan.given, hosts, plan.options)),
            policies: policies.collect(),
            down: Arc::clone(down),
            domain_needed: plan.domain_needed,
        }
    }
}

impl ReadFile {
    fn new(path: &Path, stamp: Stamp, content: Content, problem: Option<String>) -> Self {
        let file = Self {
            path: path.to_owned(),
            stamp,
            content,
            read_at: clock::since_1970().as_secs(),
            problem,
        };
        if let Some(error) = &file.problem {
            tracing::warn!(path = %path.display(), error, "Hosts file cannot be read");
        }
        file
    }

    /// Reads it again if it has changed; true when that is so. A file with a problem changes nothing.
    fn refresh(&mut self) -> bool {
        let stamp = Stamp::of(&self.path);
        if stamp == std::mem::replace(&mut self.stamp, stamp) {
            return false;
        }
        let path = self.path.display();
        let read = match &self.content {
            Content::Hosts(_) => read_hosts(&self.path)
                .map(Content::Hosts)
                .map_err(|error| error.to_string()),
            Content::Policy { file, .. } => read_policy(file)
                .map(|zone| Content::Policy {
                    file: file.clone(),
                    zone: Arc::new(zone),
                })
                .map_err(|problems| {
                    let first = problems.first().map(ToString::to_string);
                    first.unwrap_or_default()
                }),
        };
        match read {
            Ok(content) => {
                self.content = content;
                self.problem = None;
                self.read_at = clock::since_1970().as_secs();
                tracing::info!(%path, "File with names read: {}", counted(self.len(), "entry"));
                true
            }
            Err(error) => {
                tracing::warn!(%path, error, "File with names cannot be read: its last content stays");
                self.problem = Some(error);
                false
            }
        }
    }

    fn len(&self) -> usize {
        match &self.content {
            Content::Hosts(hosts) => hosts.lines.len(),
            Content::Policy { zone, .. } => zone.len(),
        }
    }

    fn report(&self) -> NameFile {
        let (is_policy, left_out) = match &self.content {
            Content::Hosts(hosts) => (false, hosts.n_problems),
            Content::Policy { zone, .. } => (true, zone.n_left_out),
        };
        NameFile {
            path: self.path.display().to_string(),
            is_policy,
            entries: self.len(),
            left_out,
            read_at: self.read_at,
            problem: self.problem.clone(),
        }
    }
}

/// Reads a hosts file, and logs its lines that are wrong. One that is not there is empty.
fn read_hosts(path: &Path) -> io::Result<Hosts> {
    let text = match disk::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            tracing::info!(path = %path.display(), "Hosts file is not there");
            return Ok(Hosts::default());
        }
        read => read?,
    };
    let hosts = hosts::parse(path, &text);
    log_left_out(path, hosts.n_problems, hosts.problems.first());
    Ok(hosts)
}

fn read_policy(file: &PolicyFile) -> Result<PolicyZone, Vec<Problem>> {
    let path = &file.path;
    let wrong = |error: io::Error| vec![Problem::new(format!("{}: {error}", path.display()))];
    let text = disk::read(path).map_err(wrong)?;
    match &file.zone {
        Some(apex) => {
            let zone = zone::parse(path, apex, &text, file.fixed.as_ref())?;
            log_left_out(path, zone.n_left_out, None);
            Ok(zone)
        }
        None => {
            let rule = file.fixed.clone().unwrap_or(Rule::NxDomain);
            let (zone, problems) =
                list::parse(path, &text, &rule).map_err(|problem| vec![problem])?;
            log_left_out(path, zone.n_left_out, problems.first());
            Ok(zone)
        }
    }
}

fn log_left_out(path: &Path, n_left_out: usize, first: Option<&Problem>) {
    if n_left_out > 0 {
        let first = first.map(ToString::to_string);
        tracing::warn!(
            path = %path.display(),
            count = n_left_out,
            first,
            "Entries of a file with names are left out"
        );
    }
}

//--- While the server runs

/// The names of a running server. The task that follows their files ends when this is dropped.
#[derive(Debug)]
pub struct FollowedNames {
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

/// The names, for healthd and the views.
#[derive(Debug)]
pub struct Shared {
    cell: Arc<Latest<Names>>,
    state: Mutex<State>,
    adopted: Notify,
}

#[derive(Debug)]
struct State {
    plan: NamePlan,
    contents: Contents,
    down: Arc<BTreeSet<SocketAddr>>,
}

impl FollowedNames {
    /// Publishes the names of a plan, and follows its files.
    #[must_use]
    pub fn start(plan: NamePlan, contents: Contents) -> Self {
        let down = Arc::default();
        let shared = Arc::new(Shared {
            cell: Latest::new(contents.names(&plan, &down)),
            state: Mutex::new(State {
                plan,
                contents,
                down,
            }),
            adopted: Notify::new(),
        });
        let task = tokio::spawn(follow(Arc::clone(&shared)));
        Self { shared, task }
    }

    /// The names.
    #[must_use]
    pub fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    /// Publishes the names of another plan, and follows its files instead.
    pub fn adopt(&self, plan: NamePlan, contents: Contents) {
        let mut state = self.shared.state.lock();
        state.plan = plan;
        state.contents = contents;
        self.shared.publish(&state);
        drop(state);
        self.shared.adopted.notify_one();
    }
}

impl Drop for FollowedNames {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Shared {
    /// The names, for threads that answer.
    #[must_use]
    pub fn cell(&self) -> Arc<Latest<Names>> {
        Arc::clone(&self.cell)
    }

    /// Takes the probed addresses that are down.
    pub fn set_down(&self, down: BTreeSet<SocketAddr>) {
        let mut state = self.state.lock();
        if *state.down == down {
            return;
        }
        for address in down.difference(&state.down) {
            tracing::info!(%address, "Address is left out of names: it is down");
        }
        for address in state.down.difference(&down) {
            tracing::info!(%address, "Address is in names again");
        }
        state.down = Arc::new(down);
        let names = Names {
            down: Arc::clone(&state.down),
            ..Names::clone(&self.cell.current())
        };
        self.cell.publish(names);
    }

    /// The state of names and files; none when the configuration has no names.
    #[must_use]
    pub fn report(&self) -> Option<Report> {
        let state = self.state.lock();
        if state.plan == NamePlan::default() {
            return None;
        }
        let names = self.cell.current();
        let [given, hosts] = names.table.counts();
        Some(Report {
            given,
            hosts,
            files: state.contents.files.iter().map(ReadFile::report).collect(),
            down: state.down.iter().map(ToString::to_string).collect(),
        })
    }

    fn publish(&self, state: &State) {
        self.cell
            .publish(state.contents.names(&state.plan, &state.down));
    }

    /// Reads the files that have changed.
    fn refresh(&self) {
        let mut state = self.state.lock();
        let files = state.contents.files.iter_mut();
        let n_changed = files
            .filter_map(|file| file.refresh().then_some(()))
            .count();
        if n_changed > 0 {
            self.publish(&state);
        }
    }

    fn directories(&self) -> BTreeSet<PathBuf> {
        let state = self.state.lock();
        let files = state.contents.files.iter();
        let directory = |file: &ReadFile| durable::directory_of(&file.path).to_owned();
        files.map(directory).collect()
    }
}

/// Reads files again when they change, until the task is aborted.
async fn follow(shared: Arc<Shared>) {
    loop {
        let directories = shared.directories();
        if directories.is_empty() {
            shared.adopted.notified().await;
            continue;
        }
        let queue = watch(&directories);
        loop {
            // First of all: a file may have changed after it was read and before it was watched.
            let refreshed = Arc::clone(&shared);
            if tokio::task::spawn_blocking(move || refreshed.refresh())
                .await
                .is_err()
            {
                tracing::error!("The thread that reads files with names has panicked");
            }
            let is_same = tokio::select! {
                () = shared.adopted.notified() => false,
                is_same = changed(queue.as_ref()) => is_same,
                () = tokio::time::sleep(LOOK) => true,
            };
            if !is_same {
                break;
            }
        }
    }
}

/// Watches directories; those that cannot be watched are looked at from time to time.
fn watch(directories: &BTreeSet<PathBuf>) -> Option<Queue> {
    let queue = match Queue::new() {
        Ok(queue) => queue,
        Err(error) => {
            tracing::warn!(%error, "Files with names cannot be watched");
            return None;
        }
    };
    for directory in directories {
        if let Err(error) = queue.add(directory) {
            tracing::debug!(path = %directory.display(), %error, "Directory cannot be watched");
        }
    }
    Some(queue)
}

/// Waits until a file of the directories may be another; false when a directory is.
async fn changed(queue: Option<&Queue>) -> bool {
    let Some(queue) = queue else {
        return std::future::pending().await;
    };
    let (mut is_changed, mut is_moved) = (false, false);
    while !is_changed && !is_moved {
        let note = |event: Event<'_>| match event {
            Event::File {
                change: Change::Open,
                is_created,
                ..
            } => is_changed |= is_created,
            Event::File { .. } => is_changed = true,
            Event::Moved | Event::Overflow => is_moved = true,
        };
        if queue.wait(SETTLE, note).await.is_err() {
            return std::future::pending().await;
        }
    }
    !is_moved
}

#[cfg(test)]
mod tests;
