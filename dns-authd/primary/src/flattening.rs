//! Makes the flattened versions of zones (`dns_flatten`), for secondaries that cannot run LUA records.
//!
//! ```text
//! Latest<Snapshot> ─► thread: dns_flatten::Flattening ─► publisher ─► Latest<Snapshot> ─► NOTIFY, transfers
//!                       ├─► NAME.history.flattened: the serials that may be in use
//!                       └─► NAME.history.flattened-versions: the versions, for incremental transfers behind a restart
//! ```
//!
//! Two processes must not give one serial to different records: while another process serves, this one makes no version.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use daemon::clock;
use daemon::latest::Latest;
use daemon::run::Predecessor;
use dns_answer::Snapshot;
use dns_answer::live::LiveSets;
use dns_answer::table::Served;
use dns_flatten::{Draft, Flat, Flattening, Pace, Serials, Step};
use dns_history::{Limits, file_name};
use dns_views::ZoneId;
use dns_zone::Zone;
use durable::Rights;

use crate::histories::{self, FORMAT};
use crate::now;

/// How long to wait for the end of another process. One whose end does not show is not waited for any longer.
const OVERLAP: Duration = Duration::from_secs(15);
/// The time between attempts to write serials to a disk that fails.
const RETRY: Duration = Duration::from_secs(5);

/// How versions are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How often.
    pub pace: Pace,
    /// The bounds of the versions before that are kept for incremental transfers.
    pub limits: Limits,
    /// The directory that keeps the serials.
    pub directory: Option<PathBuf>,
}

/// The counts of versions.
#[derive(Debug, Default)]
pub struct Counts {
    /// Those that were made.
    pub made: AtomicU64,
    /// The changes that had to wait, since versions had followed each other too fast.
    pub delayed: AtomicU64,
}

/// Takes the versions of zones, and `None` for a zone that is flattened no more; `false` at the end of the publisher.
pub type Take = Box<dyn FnMut(ZoneId, Option<Arc<Flat>>) -> bool + Send>;

/// Starts the thread.
///
/// # Errors
/// When the system has no thread for it.
pub fn start(
    cell: &Arc<Latest<Snapshot>>,
    settings: &Arc<Latest<Settings>>,
    predecessor: &Predecessor,
    counts: &Arc<Counts>,
    take: Take,
) -> io::Result<()> {
    let (wake, wakes) = sync_channel(1);
    let follower = Follower {
        cell: Arc::clone(cell),
        settings: Arc::clone(settings),
        may_make: Arc::default(),
        counts: Arc::clone(counts),
        take,
        zones: HashMap::new(),
        known: HashMap::new(),
        signed: BTreeSet::new(),
    };
    // A wake that does not fit is one that is not seen yet.
    let waker = |wake: &SyncSender<()>| {
        let wake = wake.clone();
        move || _ = wake.try_send(())
    };
    cell.on_publish(waker(&wake));
    settings.on_publish(waker(&wake));
    let (may_make, predecessor) = (Arc::clone(&follower.may_make), predecessor.clone());
    let waker = waker(&wake);
    tokio::spawn(async move {
        if tokio::time::timeout(OVERLAP, predecessor.end())
            .await
            .is_err()
        {
            tracing::warn!(
                "The end of another dns-authd does not show; flattened versions of zones are made all the same"
            );
        }
        may_make.store(true, Ordering::Release);
        waker();
    });
    thread::Builder::new()
        .name("zone-flatten".to_owned())
        .spawn(move || follower.run(&wakes))?;
    Ok(())
}

struct Follower {
    cell: Arc<Latest<Snapshot>>,
    settings: Arc<Latest<Settings>>,
    /// Whether no other process makes versions.
    may_make: Arc<AtomicBool>,
    counts: Arc<Counts>,
    take: Take,
    zones: HashMap<ZoneId, Followed>,
    /// Whether zones without LUA records had some when they were first seen.
    known: HashMap<ZoneId, bool>,
    /// The signed zones that the log has named.
    signed: BTreeSet<ZoneId>,
}

/// A zone that is flattened.
struct Followed {
    flattening: Flattening,
    serials: Serials,
    /// The zone and the live sets of the last look, which need no other one until the time is due.
    seen: Option<(Arc<Zone>, Arc<LiveSets>)>,
    due: Option<Instant>,
    n_partial: usize,
}

impl Follower {
    fn run(mut self, wakes: &Receiver<()>) {
        while let Ok(due) = self.look() {
            let woken = match due {
                None => wakes.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(due) => wakes.recv_timeout(due.saturating_duration_since(clock::now())),
            };
            if woken == Err(RecvTimeoutError::Disconnected) {
                return;
            }
        }
    }

    /// Makes the versions that are due; says when to look again. Fails at the end of the publisher.
    fn look(&mut self) -> Result<Option<Instant>, Ended> {
        if !self.may_make.load(Ordering::Acquire) {
            return Ok(None);
        }
        let snapshot = self.cell.current();
        let forms = &snapshot.settings.forms;
        let mut due: Option<Instant> = None;
        for served in snapshot.zones() {
            let id = &served.id();
            // The data of an expired zone may come back: its versions continue then.
            let Some(zone) = served.zone.as_ref().filter(|_| served.parts.is_none()) else {
                continue;
            };
            let is_live = !zone.live_sets().is_empty() || self.was_flattened(id);
            if !is_live || !forms.flatten_any(&id.apex) || !self.may_flatten(id, zone) {
                if self.zones.remove(id).is_some() || served.live.flat().is_some() {
                    self.pass_on(id, None)?;
                }
                continue;
            }
            let next = self.follow(zone, served)?;
            due = [due, next].into_iter().flatten().min();
        }
        let is_served = |id: &ZoneId| snapshot.zone(id).is_some();
        self.zones.retain(|id, _| is_served(id));
        self.known.retain(|id, _| is_served(id));
        Ok(due)
    }

    /// Whether secondaries know a zone by the serials of flattened versions. They are higher than its own, also when its last LUA
    /// record is gone.
    fn was_flattened(&mut self, id: &ZoneId) -> bool {
        if self.zones.contains_key(id) {
            return true;
        }
        if let Some(was) = self.known.get(id) {
            return *was;
        }
        let file = file(&self.settings.current(), id);
        let was = file.is_some_and(|file| file.exists());
        self.known.insert(id.clone(), was);
        was
    }

    /// Whether a zone can be flattened: the signatures of a signed one would not fit.
    fn may_flatten(&mut self, id: &ZoneId, zone: &Zone) -> bool {
        if !zone.is_signed() {
            self.signed.remove(id);
            return true;
        }
        if self.signed.insert(id.clone()) {
            tracing::warn!(zone = %id, "Zone is signed and has LUA records: it cannot be flattened, its secondaries get no transfer");
        }
        false
    }

    /// Makes the version of a zone if it is due; says when to look again.
    fn follow(&mut self, zone: &Arc<Zone>, served: &Served) -> Result<Option<Instant>, Ended> {
        let settings = self.settings.current();
        let (id, at) = (&served.id(), clock::now());
        let followed = self
            .zones
            .entry(id.clone())
            .or_insert_with(|| Followed::new(&settings, id, zone));
        let is_seen = followed
            .seen
            .as_ref()
            .is_some_and(|(its, live)| Arc::ptr_eq(its, zone) && Arc::ptr_eq(live, &served.live));
        if is_seen && followed.due.is_none_or(|due| due > at) {
            return Ok(followed.due);
        }
        followed.seen = Some((Arc::clone(zone), Arc::clone(&served.live)));
        let given = served.live.given();
        match followed.flattening.step(zone, &given, settings.pace, at) {
            Step::Current => {
                followed.due = None;
                let flat = followed.flattening.flat().cloned();
                let is_served = flat.as_ref().zip(served.live.flat());
                let is_served = is_served.is_some_and(|(a, b)| Arc::ptr_eq(a, b));
                if !is_served {
                    // The zone was declared again.
                    self.pass_on(id, flat)?;
                }
                Ok(None)
            }
            Step::At(due) => {
                if followed.due.is_none() && followed.flattening.flat().is_some() {
                    self.counts.delayed.fetch_add(1, Ordering::Relaxed);
                }
                followed.due = Some(due);
                let flat = followed.flattening.flat().cloned();
                if served.live.flat().is_none() && flat.is_some() {
                    // That of the process before, until there is a newer one.
                    self.pass_on(id, flat)?;
                }
                Ok(Some(due))
            }
            Step::Make(draft) => match followed.make(draft, (id, zone), &settings, at) {
                Ok(flat) => {
                    self.counts.made.fetch_add(1, Ordering::Relaxed);
                    self.pass_on(id, flat)?;
                    Ok(None)
                }
                Err(error) => {
                    tracing::error!(zone = %id, error, "Flattened version of the zone is not made, its secondaries keep the one before");
                    followed.due = Some(at + RETRY);
                    Ok(followed.due)
                }
            },
        }
    }

    fn pass_on(&mut self, id: &ZoneId, flat: Option<Arc<Flat>>) -> Result<(), Ended> {
        match (self.take)(id.clone(), flat) {
            true => Ok(()),
            false => Err(Ended),
        }
    }
}

/// The publisher has ended.
#[derive(Debug)]
struct Ended;

impl Followed {
    fn new(settings: &Settings, id: &ZoneId, zone: &Arc<Zone>) -> Self {
        let mut flattening = Flattening::default();
        if let Some(flat) = restored(settings, id, zone) {
            flattening.begin_with(flat);
        }
        let file = file(settings, id);
        Self {
            flattening,
            serials: Serials::behind(file.and_then(|file| read(&file, id))),
            seen: None,
            due: None,
            n_partial: 0,
        }
    }

    /// Makes a version. Its serial is on disk by then.
    fn make(
        &mut self,
        draft: Draft,
        (id, zone): (&ZoneId, &Zone),
        settings: &Settings,
        at: Instant,
    ) -> Result<Option<Arc<Flat>>, String> {
        let serial = self.serials.next(zone.soa().serial);
        if let Some(to) = self.serials.must_reserve(serial) {
            let file = file(settings, id).ok_or("there is no [history] directory")?;
            let written = write(&file, id, to);
            written.map_err(|error| format!("cannot write {}: {error}", file.display()))?;
            self.serials.reserve(to);
        }
        self.serials.take(serial);
        self.due = None;
        let kept = (now(), settings.limits);
        let flat = self.flattening.make(draft, serial, at, kept).cloned();
        // Before it is published: the next process must not continue an older one.
        keep(settings, id, flat.as_deref());
        if let Some(flat) = &flat {
            let change = flat.history().changes().next_back();
            let change = change.filter(|change| change.to.serial() == serial);
            let (removed, added) = change.map_or((0, 0), |it| (it.removed.len(), it.added.len()));
            let records = flat.n_records();
            tracing::info!(zone = %id, serial, records, removed, added, "Flattened version of the zone is made");
            let n_partial = flat.n_partial();
            if n_partial != self.n_partial && n_partial > 0 {
                tracing::warn!(zone = %id, sets = n_partial, "LUA records that read the query are left out of the flattened zone");
            }
            self.n_partial = n_partial;
        }
        Ok(flat)
    }
}

//--- On disk

/// The file of a zone's serials.
fn file(settings: &Settings, zone: &ZoneId) -> Option<PathBuf> {
    let name = format!("{}.flattened", file_name(&zone.apex));
    Some(zone.directory(settings.directory.as_ref()?).join(name))
}

/// The last serial that may be in use.
fn read(file: &Path, zone: &ZoneId) -> Option<u32> {
    let octets = match fs::read(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => Err(error.to_string()),
        Ok(octets) => Ok(octets),
    };
    let serial = octets.and_then(|octets| {
        let content = FORMAT.content(&octets).map_err(|error| error.to_string())?;
        let (serial, name) = content.split_first_chunk().ok_or("it is too short")?;
        match zone.apex.to_lowercase().as_wire() == name {
            true => Ok(u32::from_be_bytes(*serial)),
            false => Err("it is of another zone".to_owned()),
        }
    });
    match serial {
        Ok(serial) => Some(serial),
        Err(error) => {
            let file = file.display();
            tracing::error!(%zone, %file, error, "Serials of the flattened zone cannot be read: secondaries may have to transfer the zone again");
            None
        }
    }
}

fn write(file: &Path, zone: &ZoneId, serial: u32) -> io::Result<()> {
    let mut content = serial.to_be_bytes().to_vec();
    content.extend_from_slice(zone.apex.to_lowercase().as_wire());
    let octets = FORMAT.encode(&content);
    fs::create_dir_all(durable::directory_of(file))?;
    durable::replace(file, Rights::new(0o640), |to| to.write_all(&octets))
}

/// The file of a zone's flattened versions.
fn versions_file(settings: &Settings, zone: &ZoneId) -> Option<PathBuf> {
    let name = format!("{}.flattened-versions", file_name(&zone.apex));
    Some(zone.directory(settings.directory.as_ref()?).join(name))
}

/// Writes a flattened version with those before it, for the next process. Without the disk there is none: secondaries then transfer
/// the zone as a whole once.
fn keep(settings: &Settings, zone: &ZoneId, flat: Option<&Flat>) {
    let kept = flat.and_then(Flat::kept);
    let (Some(file), Some(kept)) = (versions_file(settings, zone), kept) else {
        return;
    };
    let octets = FORMAT.encode(&kept.encode(&zone.apex));
    let written = fs::create_dir_all(durable::directory_of(&file))
        .and_then(|()| durable::replace(&file, Rights::new(0o640), |to| to.write_all(&octets)));
    if let Err(error) = written {
        let removed = durable::remove(&file);
        let file = file.display();
        tracing::warn!(%zone, %file, %error, "Flattened versions of the zone are not kept");
        if let Err(error) = removed {
            tracing::error!(%zone, %file, %error, "The file of older ones cannot be removed; remove it before the next start");
        }
    }
}

/// The last flattened version that a file keeps of this version of a zone.
fn restored(settings: &Settings, id: &ZoneId, zone: &Arc<Zone>) -> Option<Flat> {
    let file = versions_file(settings, id)?;
    let kept = histories::read(&file, zone.apex());
    if kept.is_empty() {
        return None;
    }
    let flat = Flat::restored(zone, kept);
    if flat.is_none() {
        tracing::info!(zone = %id, "Zone has changed while no server ran: secondaries transfer its flattened version as a whole once");
    }
    flat
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serials_are_read_as_they_were_written_and_only_for_their_zone() {
        let directory = tempfile::tempdir().unwrap();
        let settings = Settings {
            pace: Pace {
                interval: Duration::ZERO,
                per_minute: 60,
            },
            limits: Limits {
                versions: 1,
                octets: 999,
            },
            directory: Some(directory.path().join("new")),
        };
        let (zone, other): (ZoneId, ZoneId) = ("Example.".parse().unwrap(), "b.".parse().unwrap());
        let file = file(&settings, &zone).unwrap();
        assert!(file.ends_with("example.history.flattened"));
        assert_eq!(read(&file, &zone), None);
        write(&file, &zone, 0x8000_0001).unwrap();
        assert_eq!(read(&file, &"EXAMPLE.".parse().unwrap()), Some(0x8000_0001));
        assert_eq!(read(&file, &other), None);
        fs::write(&file, "damaged").unwrap();
        assert_eq!(read(&file, &zone), None);
    }
}
