//! The cache on disk: written at intervals and at the end, read at the start, and read again when another process of this
//! server has written it, as the one that this one replaces does when it ends.
//!
//! ```text
//! predecessor ──writes when it ends──► file ──inotify──► successor: adds what it does not know
//! ```
//!
//! An answer is used after a restart only if the forward table of that time and the one of now believe the same servers for
//! its names.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ::config::dns_recursor;
use api::dns_recursor::CacheFile as Report;
use daemon::clock;
use daemon::directory::{Change, Directory};
use daemon::disk::Stamp;
use daemon::latest::Latest;
use dns_cache::archive::{self, Archive, Head, Zone};
use dns_cache::cache::Cache;
use dns_cache::key;
use dns_cache::message::Message;
use dns_front::local::Local;
use dns_resolve::forward::{DnssecMode, Mode, Route, Table};
use dns_validate::Anchors;
use dns_wire::{Name, Type};
use durable::Rights;
use parking_lot::Mutex;
use tokio::task::JoinHandle;

use crate::clock::Clock;
use crate::server::Snapshot;

/// A cache file that is written and read while the server runs.
#[derive(Debug)]
pub struct FollowedFile {
    file: Arc<CacheFile>,
    task: JoinHandle<()>,
}

impl FollowedFile {
    /// Reads the file of a configuration, if it has one, and follows it from then on.
    ///
    /// # Errors
    /// When the runtime ends.
    pub async fn start(
        config: &dns_recursor::Cache,
        cache: &Arc<Cache>,
        clock: Clock,
        cell: &Arc<Latest<Snapshot>>,
        writer: u64,
    ) -> io::Result<Option<Self>> {
        let Some(file) = CacheFile::of(config, cache, clock, cell, writer) else {
            return Ok(None);
        };
        let loaded = Arc::clone(&file);
        tokio::task::spawn_blocking(move || loaded.load()).await?;
        let task = file.follow(*config.write_every);
        Ok(Some(Self { file, task }))
    }

    /// The state of the file.
    #[must_use]
    pub fn report(&self) -> Report {
        self.file.report()
    }

    /// Stops to write at intervals.
    pub fn stop(&self) {
        self.task.abort();
    }

    /// Writes the file a last time.
    pub fn save(&self) {
        self.file.save();
    }
}

/// The file of a cache.
#[derive(Debug)]
struct CacheFile {
    path: PathBuf,
    largest: u64,
    cache: Arc<Cache>,
    clock: Clock,
    cell: Arc<Latest<Snapshot>>,
    /// The number that this process writes into its files.
    writer: u64,
    report: Mutex<Report>,
    /// The state of the file that was read last.
    read: Mutex<Stamp>,
    /// The count of stored messages at the last write; `None` when the file is not this process's. Locked while it is
    /// written: two writes at a time would share a temporary file.
    written_at: Mutex<Option<u64>>,
}

impl CacheFile {
    /// The file of a configuration, if it has one.
    fn of(
        config: &dns_recursor::Cache,
        cache: &Arc<Cache>,
        clock: Clock,
        cell: &Arc<Latest<Snapshot>>,
        writer: u64,
    ) -> Option<Arc<Self>> {
        let octets = config.size.0.saturating_add(config.negative_size.0);
        let entries = config.entries.saturating_add(config.negative_entries);
        let entries = u64::try_from(entries).unwrap_or(u64::MAX);
        let path = config.file.clone()?;
        Some(Arc::new(Self {
            report: Mutex::new(Report {
                path: path.display().to_string(),
                ..Report::default()
            }),
            path,
            largest: archive::largest(octets, entries),
            cache: Arc::clone(cache),
            clock,
            cell: Arc::clone(cell),
            writer,
            read: Mutex::new(Stamp::default()),
            written_at: Mutex::new(None),
        }))
    }

    fn report(&self) -> Report {
        let mut report = self.report.lock().clone();
        let age = |at: u64| clock::since_1970().as_secs().saturating_sub(at);
        report.written_seconds_ago = report.written_seconds_ago.map(age);
        report
    }

    /// Adds the entries of the file that the cache does not have. A file that is not there or damaged adds none.
    fn load(&self) {
        let stamp = Stamp::of(&self.path);
        if stamp == std::mem::replace(&mut *self.read.lock(), stamp) {
            return;
        }
        match self.read() {
            Ok(Some(archive)) => self.add(archive),
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(path = %self.path.display(), %error, "Cache file not used");
                self.report.lock().problem = Some(error.to_string());
            }
        }
    }

    fn read(&self) -> io::Result<Option<Archive>> {
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut octets = Vec::new();
        file.take(self.largest.saturating_add(1))
            .read_to_end(&mut octets)?;
        if u64::try_from(octets.len()).unwrap_or(u64::MAX) > self.largest {
            return Err(io::Error::other("larger than the cache"));
        }
        let archive = Archive::read(&octets).map_err(io::Error::other)?;
        Ok((archive.head.writer != self.writer).then_some(archive))
    }

    fn add(&self, archive: Archive) {
        // Another process has written over the file: it lacks what only this one knows.
        *self.written_at.lock() = None;
        let snapshot = self.cell.current();
        let view = &snapshot.view;
        // The file does not have the anchors; with others, answers are validated again when their TTL has passed.
        let anchors = Anchors::clone(view.table.anchors());
        let before = table(&archive.head.zones).with_anchors(anchors);
        let passed = clock::since_1970().checked_sub(archive.head.written);
        if passed.is_none() {
            tracing::warn!(
                path = %self.path.display(),
                "The clock is behind the cache file: its answers are used as stale ones only"
            );
        }
        let n_entries = archive.len();
        let now = self.clock.now();
        let holds = |message: &_| still_holds(message, &before, &view.table, &view.local);
        let n_restored = archive.restore(&self.cache, now, passed, holds);
        tracing::info!(
            path = %self.path.display(),
            entries = n_entries,
            restored = n_restored,
            "Cache file read"
        );
        let mut report = self.report.lock();
        report.restored += n_restored;
        report.problem = None;
    }

    /// Writes the cache: to another file first, so that a power cut leaves the old one or the new one.
    fn save(&self) {
        let n_stores = self.cache.n_stores();
        let mut written_at = self.written_at.lock();
        if *written_at == Some(n_stores) {
            // Nothing has been learned since: the disk rests.
            return;
        }
        let saved = self.write();
        *written_at = saved.is_ok().then_some(n_stores);
        drop(written_at);
        let mut report = self.report.lock();
        match saved {
            Ok(n_entries) => {
                tracing::debug!(path = %self.path.display(), entries = n_entries, "Cache file written");
                report.written_seconds_ago = Some(clock::since_1970().as_secs());
                report.entries = n_entries;
                report.problem = None;
            }
            Err(error) => {
                let problem = format!("cannot be written: {error}");
                // Said once, not at every interval.
                if report.problem.as_ref() != Some(&problem) {
                    tracing::warn!(path = %self.path.display(), %error, "Cache file cannot be written");
                }
                report.problem = Some(problem);
            }
        }
    }

    fn write(&self) -> io::Result<u64> {
        // The successor may write at the same time.
        let new = format!(".{}.{:016x}", self.name().to_string_lossy(), self.writer);
        durable::replace_by(&new, &self.path, Rights::PRIVATE, |file| {
            self.write_to(file)
        })
    }

    fn write_to(&self, file: &mut File) -> io::Result<u64> {
        let snapshot = self.cell.current();
        let zones = snapshot.view.table.routes().map(|route| Zone {
            name: route.zone.clone(),
            is_recursive: route.mode == Mode::Recursive,
            trusts_ad: route.trust_ad,
            validates: route.validates(),
        });
        file.write_all(&archive::head(&Head {
            written: clock::since_1970(),
            writer: self.writer,
            zones: zones.collect(),
        }))?;
        let mut n_entries = 0;
        let mut octets = Vec::new();
        for part in 0..self.cache.n_parts() {
            octets.clear();
            n_entries += archive::entries(&self.cache, part, self.clock.now(), &mut octets);
            file.write_all(&octets)?;
        }
        file.write_all(&archive::end(n_entries))?;
        Ok(n_entries)
    }

    fn name(&self) -> &OsStr {
        self.path.file_name().unwrap_or_default()
    }

    /// Writes the file at intervals, and reads it when another process has written it, until the task is aborted.
    fn follow(self: &Arc<Self>, interval: Duration) -> JoinHandle<()> {
        let file = Arc::clone(self);
        tokio::spawn(async move {
            let watch = match Directory::watch(durable::directory_of(&file.path)) {
                Ok(watch) => Some(watch),
                Err(error) => {
                    tracing::warn!(path = %file.path.display(), %error, "Cache file cannot be watched");
                    None
                }
            };
            let name = file.name().to_owned();
            // The first time at once: the file may have been written after it was read and before it was watched.
            let mut is_due = false;
            loop {
                let file = Arc::clone(&file);
                let work = move || match is_due {
                    true => file.save(),
                    false => file.load(),
                };
                if tokio::task::spawn_blocking(work).await.is_err() {
                    tracing::error!("The thread of the cache file has panicked");
                }
                is_due = tokio::select! {
                    () = tokio::time::sleep(interval) => true,
                    () = is_replaced(watch.as_ref(), &name) => false,
                };
            }
        })
    }
}

/// Waits until a file of this name is put into the directory.
async fn is_replaced(watch: Option<&Directory>, name: &OsStr) {
    let Some(watch) = watch else {
        return std::future::pending().await;
    };
    loop {
        let Ok(changes) = watch.changes(Duration::ZERO).await else {
            return std::future::pending().await;
        };
        if changes.files.get(name) == Some(&Change::Complete) {
            return;
        }
    }
}

/// The forward table that a file was written with, as far as it decides which answers are believed.
fn table(zones: &[Zone]) -> Table {
    Table::new(zones.iter().map(|zone| {
        let mode = match zone.is_recursive {
            true => Mode::Recursive,
            false => Mode::Authoritative,
        };
        let mut route = Route::new(zone.name.clone(), mode, Vec::new());
        route.trust_ad = zone.trusts_ad;
        if zone.validates {
            route.dnssec = DnssecMode::Validate;
        }
        route
    }))
}

/// Whether an answer from before a reload or a restart holds after it: the same upstreams still speak for the question,
/// and for each name of the alias chain.
#[must_use]
pub fn still_holds(message: &Message, before: &Table, after: &Table, local: &Local) -> bool {
    let question = message.question();
    let holds = |name: &[u8], rtype: Type| match (before.find(name, rtype), after.find(name, rtype))
    {
        (Some(old), Some(new)) => {
            let is_judged_alike = || {
                let owner = Name::from_wire(name);
                owner.is_ok_and(|(owner, _)| after.anchors().judges_as(before.anchors(), &owner))
            };
            new.is_like(old)
                && !local.covers(name, after)
                && (!new.validates() || is_judged_alike())
        }
        _ => false,
    };
    let name = question
        .get(..question.len().saturating_sub(4))
        .unwrap_or_default();
    let mut owners = message.owners();
    holds(name, key::qtype(question))
        && owners.all(|owner| holds(owner.to_lowercase().as_wire(), Type::A))
}
