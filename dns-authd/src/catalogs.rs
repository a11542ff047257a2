//! Catalog zones (RFC 9432): serves the zones that catalogs list, and writes the catalogs of this server.
//!
//! ```text
//! Latest<Snapshot> ─► dns_catalog::Catalog ─► dns_catalog::assign ─► configuration with members ─► publisher, secondaries
//!                                                     └─► NAME.members: the list that the next start begins with
//! configuration ─► dns_catalog::render ─► the file of a catalog ─► publisher
//! ```
//!
//! A catalog that is broken, expired or held back changes nothing: the zones of its last good version stay.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, TrySendError};
use std::sync::{Arc, Weak};
use std::time::Duration;

use api::dns_authd::Catalog as View;
use config_text::counted;
use daemon::clock;
use daemon::latest::Latest;
use daemon::readiness::Readiness;
use dns_answer::Snapshot;
use dns_catalog::{Catalog, Known, Members, assign};
use dns_wire::Name;
use dns_zone::Zone;
use durable::Rights;
use tokio::sync::{Mutex, oneshot};

use crate::config::Config;
use crate::config::catalogs::{Catalog as Declared, Consumer, MEMBER, Role};
use crate::publisher::{Command, Plan};
use crate::secondary;

/// The time between attempts to reach a publisher with a full queue.
const RETRY: Duration = Duration::from_millis(5);
/// The most zones of one change that are logged one by one.
const LOGGED: usize = 20;
/// The most conflicts of a catalog that a reason on `/readyz` names.
const NAMED: usize = 3;
/// The most conflicts of a catalog that the status names.
const SHOWN: usize = 20;
/// The longest file of a list of members, or of a catalog that is written.
const MAX_FILE: u64 = 256 << 20;

/// The states of the catalogs, in the order of the configuration.
pub type Views = Vec<View>;

/// The running part.
#[derive(Clone, Debug)]
pub struct Handle {
    follower: Arc<Follower>,
}

#[derive(Debug)]
struct Follower {
    cell: Arc<Latest<Snapshot>>,
    publisher: SyncSender<Command>,
    secondaries: secondary::Handle,
    readiness: Readiness,
    views: Arc<Latest<Views>>,
    /// Held while a change is carried out, so that changes follow each other.
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The configuration without members.
    base: Config,
    members: Members,
    catalogs: BTreeMap<Name, Followed>,
}

/// A catalog that is read.
#[derive(Debug, Default)]
struct Followed {
    /// The version of the last look.
    seen: Option<Weak<Zone>>,
    /// The last version that was not broken.
    catalog: Option<Arc<Catalog>>,
    /// Why the newest version is broken.
    error: Option<String>,
    /// The zones that it lists and does not get, in words.
    conflicts: Vec<String>,
}

/// Starts to follow catalogs. `members` are those that the configuration of the publisher has already.
#[must_use]
pub fn start(
    (cell, publisher): (&Arc<Latest<Snapshot>>, SyncSender<Command>),
    secondaries: &secondary::Handle,
    readiness: &Readiness,
    (base, members): (Config, Members),
) -> Handle {
    let mut state = State {
        base,
        members,
        catalogs: BTreeMap::new(),
    };
    state.declare();
    let follower = Arc::new(Follower {
        cell: Arc::clone(cell),
        publisher,
        secondaries: secondaries.clone(),
        readiness: readiness.clone(),
        views: Latest::new(state.views()),
        state: Mutex::new(state),
    });
    let its = Arc::clone(&follower);
    tokio::spawn(async move {
        let mut snapshots = its.cell.reader();
        loop {
            its.look().await;
            snapshots.changed().await;
        }
    });
    Handle { follower }
}

impl Handle {
    /// The states of the catalogs.
    #[must_use]
    pub fn views(&self) -> &Arc<Latest<Views>> {
        &self.follower.views
    }

    /// Adopts another configuration; returns a line for the log when its zones are loaded.
    pub async fn adopt(&self, config: Config) -> String {
        write_catalogs(&config);
        let mut state = self.follower.state.lock().await;
        let before: Vec<Name> = state.catalogs.keys().cloned().collect();
        state.base = config;
        state.declare();
        for name in before {
            if !state.catalogs.contains_key(&name) {
                self.follower.readiness.set_reason(reason_key(&name), None);
            }
        }
        let summary = self.follower.settle(&mut state, true).await;
        drop(state);
        // Versions that other bounds had refused.
        self.follower.look().await;
        summary
    }
}

impl Follower {
    /// Reads the catalogs that have changed.
    async fn look(&self) {
        let mut state = self.state.lock().await;
        let snapshot = self.cell.current();
        let mut has_changed = false;
        let mut has_looked = false;
        let consumers: Vec<(Name, usize)> = state
            .consumers()
            .map(|(declared, consumer)| (declared.name.clone(), consumer.most))
            .collect();
        for (name, most) in consumers {
            let served = snapshot.table.zone(&name);
            // An expired catalog says nothing, and neither does one that is not there yet.
            let Some(zone) = served.and_then(|served| served.zone.clone()) else {
                continue;
            };
            let Some(followed) = state.catalogs.get_mut(&name) else {
                continue;
            };
            if followed.has_seen(&zone) {
                continue;
            }
            has_looked = true;
            followed.seen = Some(Arc::downgrade(&zone));
            let (read, serial) = (read(Arc::clone(&zone), most).await, zone.soa().serial);
            has_changed |= followed.take(&name, serial, read);
        }
        if has_changed {
            self.settle(&mut state, false).await;
        } else if has_looked {
            self.publish(&state);
        }
    }

    /// Says which zones are members, and has them served. `is_other` says that the configuration is another one; the answer is then
    /// a line for the log.
    async fn settle(&self, state: &mut State, is_other: bool) -> String {
        let assigned = state.assign();
        state.make_directories();
        state.note(&assigned.conflicts);
        log_changes(&state.members, &assigned.members);
        let mut summary = String::new();
        if !assigned.reset.is_empty() {
            // Data of a former zone of the same name must not come back (RFC 9432 §5.4): it goes first.
            let mut kept = assigned.members.clone();
            kept.retain(|zone, _| !assigned.reset.contains(zone));
            self.apply(&state.base.with_members(&kept)).await;
            state.sweep(&kept);
        }
        if is_other || state.members != assigned.members {
            summary = self
                .apply(&state.base.with_members(&assigned.members))
                .await;
            state.members = assigned.members;
        }
        state.keep();
        state.sweep(&state.members);
        self.publish(state);
        summary
    }

    /// Has the publisher and the part for secondary zones adopt a configuration.
    async fn apply(&self, config: &Config) -> String {
        let (done, summary) = oneshot::channel();
        let mut command = Command::Configure(Box::new(Plan::of(config)), done);
        loop {
            match self.publisher.try_send(command) {
                Ok(()) => break,
                Err(TrySendError::Full(returned)) => command = returned,
                Err(TrySendError::Disconnected(_)) => {
                    return "the zone publisher has ended".to_owned();
                }
            }
            tokio::time::sleep(RETRY).await;
        }
        let summary = summary.await.unwrap_or_default();
        // The publisher has their zones now.
        self.secondaries.configure(secondary::plan(config)).await;
        summary
    }

    fn publish(&self, state: &State) {
        for (name, followed) in &state.catalogs {
            self.readiness
                .set_reason(reason_key(name), followed.trouble());
        }
        self.views.publish_if_changed(state.views());
    }
}

impl State {
    fn consumers(&self) -> impl Iterator<Item = (&Declared, &Consumer)> {
        let catalogs = self.base.catalogs.iter();
        catalogs.filter_map(|catalog| Some((catalog, catalog.consumer()?)))
    }

    /// Takes the catalogs of the configuration. Those that stay are looked at again.
    fn declare(&mut self) {
        let mut before = std::mem::take(&mut self.catalogs);
        let names = self.consumers().map(|(declared, _)| declared.name.clone());
        let catalogs = names.map(|name| {
            let followed = before.remove(&name).unwrap_or_default();
            let followed = Followed {
                seen: None,
                ..followed
            };
            (name, followed)
        });
        self.catalogs = catalogs.collect();
    }

    fn assign(&self) -> dns_catalog::Assigned {
        let known: Vec<Known<'_>> = self
            .consumers()
            .map(|(declared, _)| Known {
                name: &declared.name,
                catalog: self
                    .catalogs
                    .get(&declared.name)
                    .and_then(|followed| followed.catalog.as_deref()),
            })
            .collect();
        let declared = self.base.zones.declared.iter();
        // The zones of views are beside those of catalogs.
        let declared = declared.filter(|zone| zone.view.is_none());
        let declared = declared.map(|zone| &zone.name);
        let cluster = self.base.kubernetes.iter();
        let of_cluster = cluster.flat_map(|options| options.apexes());
        let configured: HashSet<&Name> = declared.chain(of_cluster).collect();
        assign(&self.members, &known, &|zone| configured.contains(zone))
    }

    /// Notes the conflicts of each catalog, and logs those that are new.
    fn note(&mut self, conflicts: &[dns_catalog::Conflict]) {
        for (name, followed) in &mut self.catalogs {
            let its = conflicts.iter().filter(|one| one.catalog == *name);
            let its: Vec<String> = its.map(ToString::to_string).collect();
            let before: BTreeSet<&String> = followed.conflicts.iter().collect();
            let new = its.iter().filter(|one| !before.contains(one));
            for conflict in new.take(LOGGED) {
                tracing::warn!(catalog = %name, conflict, "Zone of a catalog is not served from it");
            }
            followed.conflicts = its;
        }
    }

    /// Makes the directories of members, which are watched from the first one on.
    fn make_directories(&self) {
        for (declared, consumer) in self.consumers() {
            if let Err(error) = fs::create_dir_all(&consumer.directory) {
                let (catalog, directory) = (&declared.name, consumer.directory.display());
                tracing::error!(%catalog, %directory, %error, "Directory of the catalog's zones cannot be made");
            }
        }
    }

    /// Writes the lists of members, so that the next start serves them at once.
    fn keep(&self) {
        for (declared, consumer) in self.consumers() {
            let mut its = self.members.clone();
            its.retain(|_, member| member.catalog == declared.name);
            let (path, text) = (declared.ledger(consumer), dns_catalog::encode(&its));
            if read_text(&path).ok().as_deref() == Some(text.as_str()) {
                continue;
            }
            let written = durable::write(&path, Rights::new(0o640), text.as_bytes());
            if let Err(error) = written {
                let error = format!("{error:#}");
                let (catalog, path) = (&declared.name, path.display());
                tracing::warn!(%catalog, %path, error, "List of the catalog's zones is not kept");
            }
        }
    }

    /// Removes the files of zones that are no members. A directory whose catalogs are not all known yet is left alone.
    fn sweep(&self, members: &Members) {
        let mut directories: BTreeMap<&Path, bool> = BTreeMap::new();
        let mut kept: HashSet<PathBuf> = HashSet::new();
        for (declared, consumer) in self.consumers() {
            let followed = self.catalogs.get(&declared.name);
            let is_known = followed.is_some_and(|followed| followed.catalog.is_some());
            *directories.entry(&consumer.directory).or_insert(true) &= is_known;
            let its = members.iter().filter(|(_, it)| it.catalog == declared.name);
            kept.extend(its.map(|(zone, member)| Declared::file_of(consumer, zone, member)));
        }
        for (directory, _) in directories.iter().filter(|(_, is_known)| **is_known) {
            sweep(directory, &kept);
        }
    }

    fn views(&self) -> Views {
        let catalogs = self.base.catalogs.iter();
        let views = catalogs.map(|declared| match &declared.role {
            Role::Producer(listed) => View {
                name: declared.name.to_string(),
                is_read: false,
                members: listed.len(),
                conflicts: Vec::new(),
                n_conflicts: 0,
                error: None,
            },
            Role::Consumer(_) => {
                let mut members = self.members.values();
                let members = members.by_ref().filter(|it| it.catalog == declared.name);
                let members = members.count();
                let followed = self.catalogs.get(&declared.name);
                let conflicts = followed
                    .map(|it| it.conflicts.as_slice())
                    .unwrap_or_default();
                View {
                    name: declared.name.to_string(),
                    is_read: true,
                    members,
                    conflicts: conflicts.iter().take(SHOWN).cloned().collect(),
                    n_conflicts: conflicts.len(),
                    error: followed.and_then(|followed| followed.error.clone()),
                }
            }
        });
        views.collect()
    }
}

impl Followed {
    /// Whether this is the version of the last look.
    fn has_seen(&self, zone: &Arc<Zone>) -> bool {
        let seen = self.seen.as_ref().map(Weak::as_ptr);
        seen == Some(Arc::as_ptr(zone))
    }

    /// Takes a version; returns whether it lists other zones than the one before.
    fn take(&mut self, name: &Name, serial: u32, read: Result<Catalog, String>) -> bool {
        match read {
            Ok(catalog) => {
                if self.error.take().is_some() {
                    tracing::info!(catalog = %name, serial, "Catalog is not broken any more");
                }
                let is_same = self.catalog.as_deref() == Some(&catalog);
                self.catalog = Some(Arc::new(catalog));
                !is_same
            }
            Err(error) => {
                tracing::error!(catalog = %name, serial, error, "Catalog is broken, its zones stay as they are");
                self.error = Some(format!("serial {serial}: {error}"));
                false
            }
        }
    }

    /// The trouble with it, in a line.
    fn trouble(&self) -> Option<String> {
        if let Some(error) = &self.error {
            return Some(format!("it is broken, its zones stay as they are: {error}"));
        }
        let n_more = self.conflicts.len().saturating_sub(NAMED);
        let named: Vec<&str> = self
            .conflicts
            .iter()
            .take(NAMED)
            .map(String::as_str)
            .collect();
        let more = match n_more {
            0 => String::new(),
            _ => format!("; and {n_more} more"),
        };
        (!named.is_empty()).then(|| format!("{}{more}", named.join("; ")))
    }
}

fn reason_key(catalog: &Name) -> String {
    format!("catalog {catalog}")
}

/// Reads a version of a catalog. A large one takes a while.
async fn read(zone: Arc<Zone>, most: usize) -> Result<Catalog, String> {
    let reading = tokio::task::spawn_blocking(move || {
        let records = zone.plain_records();
        let records = records
            .iter()
            .map(|(owner, rtype, _, rdata)| (owner, *rtype, rdata.as_slice()));
        Catalog::read(zone.apex(), records, most).map_err(|broken| broken.to_string())
    });
    reading
        .await
        .unwrap_or_else(|_| Err("it cannot be read".to_owned()))
}

fn log_changes(before: &Members, after: &Members) {
    let added = after.iter().filter(|(zone, _)| !before.contains_key(*zone));
    let gone = before.iter().filter(|(zone, _)| !after.contains_key(*zone));
    let moved = after.iter().filter(|(zone, member)| {
        let was = before.get(*zone);
        was.is_some_and(|was| was.catalog != member.catalog || was.id != member.id)
    });
    let (n_added, n_gone, n_moved) = (
        added.clone().count(),
        gone.clone().count(),
        moved.clone().count(),
    );
    if n_added + n_gone + n_moved == 0 {
        return;
    }
    for (zone, member) in added.take(LOGGED) {
        tracing::info!(%zone, catalog = %member.catalog, "Catalog adds the zone");
    }
    for (zone, member) in gone.take(LOGGED) {
        tracing::info!(%zone, catalog = %member.catalog, "Catalog lists the zone no more, it goes with its data");
    }
    for (zone, member) in moved.take(LOGGED) {
        tracing::info!(%zone, catalog = %member.catalog, "Zone of a catalog belongs to another one, or begins again");
    }
    let zones = counted(after.len(), "zone");
    tracing::info!(
        added = n_added,
        gone = n_gone,
        moved = n_moved,
        "Catalogs list {zones}"
    );
}

//--- On disk

/// Prepares a start: writes the catalogs of this server, and adds the zones that catalogs had added before, so that they are served
/// before the catalogs are read. Returns the whole configuration; and the one without these zones, with them.
#[must_use]
pub fn begin(base: Config) -> (Config, (Config, Members)) {
    write_catalogs(&base);
    let members = members(&base);
    (base.with_members(&members), (base, members))
}

/// The members that the last process had.
fn members(config: &Config) -> Members {
    let mut members = Members::new();
    for declared in &config.catalogs {
        let Some(consumer) = declared.consumer() else {
            continue;
        };
        let path = declared.ledger(consumer);
        let decoded = match read_text(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => Err(error.to_string()),
            Ok(text) => dns_catalog::decode(&text).map_err(|error| error.to_string()),
        };
        match decoded {
            Ok(mut its) => {
                its.retain(|zone, member| {
                    let mut configured = config.zones.declared.iter();
                    member.catalog == declared.name && !configured.any(|it| it.name == *zone)
                });
                its.retain(|zone, _| !members.contains_key(zone));
                members.append(&mut its);
            }
            Err(error) => {
                let (catalog, path) = (&declared.name, path.display());
                tracing::error!(%catalog, %path, error, "List of the catalog's zones cannot be read: they are served when the catalog is");
            }
        }
    }
    members
}

/// Writes the catalogs of this server whose zones are others than their files say.
fn write_catalogs(config: &Config) {
    for declared in &config.catalogs {
        let Role::Producer(listed) = &declared.role else {
            continue;
        };
        let path = &declared.file;
        let before = match read_text(path) {
            Ok(text) => Some(text),
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    tracing::warn!(catalog = %declared.name, path = %path.display(), %error, "File of the catalog cannot be read");
                }
                None
            }
        };
        let rendered = dns_catalog::render(&declared.name, listed, before.as_deref(), seconds());
        let written = match rendered {
            Ok(None) => continue,
            Ok(Some(text)) => durable::write(path, Rights::PUBLIC, text.as_bytes())
                .map_err(|error| format!("{error:#}")),
            Err(error) => Err(error.to_string()),
        };
        let (catalog, path) = (&declared.name, path.display());
        match written {
            Ok(()) => {
                tracing::info!(%catalog, %path, zones = listed.len(), "Catalog is written");
            }
            Err(error) => {
                tracing::error!(%catalog, %path, error, "Catalog is not written, it stays as it was");
            }
        }
    }
}

/// Removes the files of members in a directory, all but these.
fn sweep(directory: &Path, kept: &HashSet<PathBuf>) {
    let Ok(entries) = fs::read_dir(directory) else {
        return;
    };
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        // `NAME.member`, and `NAME.member.checked` beside it.
        let is_stamp = path.extension() == Some(OsStr::new("checked"));
        let zone = match is_stamp {
            true => path.with_extension(""),
            false => path.clone(),
        };
        if zone.extension() != Some(OsStr::new(MEMBER)) || kept.contains(&zone) {
            continue;
        }
        if let Err(error) = durable::remove(&path) {
            tracing::warn!(path = %path.display(), %error, "File of a zone that has gone stays");
        }
    }
}

fn read_text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let file = fs::File::open(path)?;
    file.take(MAX_FILE).read_to_string(&mut text)?;
    Ok(text)
}

/// The seconds since 1970, as serials count them.
fn seconds() -> u32 {
    let seconds = clock::since_1970().as_secs();
    // RFC 1982: a serial begins again at 0.
    u32::try_from(seconds & u64::from(u32::MAX)).unwrap_or(0)
}
