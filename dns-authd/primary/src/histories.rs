//! The histories of all zones: in memory for transfers and operators, and on disk, where a thread of its own keeps them.
//!
//! ```text
//! publisher ─► Histories ─► transfers, zone history, zone diff
//!     │
//!     └─► Writer ─► NAME.history   (zone-history)
//! ```
//!
//! ```text
//! file   =  "outpost-dns-authd-state\n"  2 (u32)  frame of a history  frame of a change*      (dns_history::encoding)
//! frame  =  length (u32)  CRC-32C of the octets (u32)  octets
//! ```
//!
//! A change that an update has made is added at the end of the file, so that what it costs does not grow with the history. The file is written
//! again when the changes have become as long as the history before them. A last frame that is not whole was never acknowledged,
//! and counts as not there. Files of version 1 are read too: `1 (u32)  CRC-32C of the rest (u32)  history`.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};

use ::config::dns_authd::History as Settings;
use dns_history::{Change, History, Limits, Version, file_name};
use dns_views::{ViewName, ZoneId};
use dns_wire::Name;
use dns_zone::Zone;
use durable::Rights;
use durable::state::Format;
use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;

/// The version of files that changes can be added to.
const WITH_CHANGES: u32 = 2;
/// The changes behind a history may take this much, however short it is.
const MIN_ADDED: u64 = 64 << 10;
/// The most files that are kept open for further changes.
const MAX_OPEN: usize = 64;

/// The form of a file of version 1, and of other files beside it.
pub(crate) const FORMAT: Format = Format {
    service: "dns-authd",
    version: 1,
    checksum: crc32c::crc32c,
    max_size: 1 << 30,
};

/// The directory of histories, and their bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keeping {
    /// The directory; without one they last until the end of the process.
    pub directory: Option<PathBuf>,
    /// The bounds of each.
    pub limits: Limits,
}

impl Keeping {
    /// The settings of a configuration.
    #[must_use]
    pub fn of(settings: &Settings) -> Self {
        Self {
            directory: settings.directory.clone(),
            limits: Limits {
                versions: settings.versions.get(),
                octets: usize::try_from(settings.size.0).unwrap_or(usize::MAX),
            },
        }
    }

    /// The file of a zone.
    #[must_use]
    pub fn file(&self, zone: &ZoneId) -> Option<PathBuf> {
        let directory = zone.directory(self.directory.as_ref()?);
        Some(directory.join(file_name(&zone.apex)))
    }
}

/// Reads the history that a file keeps of a zone. One that is damaged, or of another version of dns-authd, counts as none:
/// secondaries then transfer the zone as a whole once.
#[must_use]
pub fn read(file: &Path, zone: &Name) -> History {
    let read = || -> Result<Option<History>, String> {
        let octets = match fs::metadata(file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Ok(metadata) if metadata.len() > FORMAT.max_size => {
                return Err("it is too large".to_owned());
            }
            _ => fs::read(file).map_err(|error| error.to_string())?,
        };
        if let Some(frames) = octets.strip_prefix(head().as_slice()) {
            return with_changes(frames, zone).map(Some);
        }
        let content = FORMAT.content(&octets).map_err(|error| error.to_string())?;
        let history = History::decode(content, zone).map_err(|error| error.to_string())?;
        Ok(Some(history))
    };
    match read() {
        Ok(history) => history.unwrap_or_default(),
        Err(error) => {
            let file = file.display();
            tracing::warn!(%zone, %file, error, "History of the zone cannot be read and is dropped");
            History::default()
        }
    }
}

/// The beginning of a file of version 2.
fn head() -> Vec<u8> {
    let mut head = FORMAT.magic();
    head.extend(WITH_CHANGES.to_be_bytes());
    head
}

/// Adds octets with their length and checksum.
fn push_frame(out: &mut Vec<u8>, octets: &[u8]) -> io::Result<()> {
    let length = u32::try_from(octets.len()).map_err(|_| io::ErrorKind::FileTooLarge)?;
    out.extend(length.to_be_bytes());
    out.extend(crc32c::crc32c(octets).to_be_bytes());
    out.extend(octets);
    Ok(())
}

/// The octets of the first frame; `None` at the end, or where no whole frame is.
fn next_frame<'o>(rest: &mut &'o [u8]) -> Option<&'o [u8]> {
    let (length, behind) = rest.split_first_chunk()?;
    let (sum, behind) = behind.split_first_chunk()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    let (octets, behind) = behind.split_at_checked(length)?;
    if crc32c::crc32c(octets) != u32::from_be_bytes(*sum) {
        return None;
    }
    *rest = behind;
    Some(octets)
}

/// The history of these frames.
fn with_changes(mut frames: &[u8], zone: &Name) -> Result<History, String> {
    let first = next_frame(&mut frames).ok_or("it is damaged")?;
    let mut history = History::decode(first, zone).map_err(|error| error.to_string())?;
    while let Some(change) = next_frame(&mut frames) {
        let followed = history.follow(change, zone);
        followed.map_err(|error| error.to_string())?;
    }
    if !frames.is_empty() {
        tracing::warn!(%zone, octets = frames.len(), "History of the zone ends with octets that are no whole update: one that was being written when the machine stopped, or damage");
    }
    Ok(history)
}

//--- In memory

/// The histories of the zones in service.
#[derive(Clone, Debug, Default)]
pub struct Histories(Arc<Mutex<HashMap<Name, Vec<Followed>>>>);

/// A history, and the zone that it leads to. Several views may have a zone of one name.
#[derive(Clone, Debug)]
struct Followed {
    view: Option<ViewName>,
    history: History,
    zone: Weak<Zone>,
}

impl Histories {
    /// The history of this version of a zone; `None` while it is of another.
    #[must_use]
    pub fn of(&self, zone: &Arc<Zone>) -> Option<History> {
        let kept = self.0.lock();
        let mut of_name = kept.get(zone.apex())?.iter();
        let its = of_name.find(|kept| std::ptr::eq(kept.zone.as_ptr(), Arc::as_ptr(zone)));
        its.map(|kept| kept.history.clone())
    }

    /// Takes the history of a zone of this view.
    pub fn set(&self, view: Option<&ViewName>, zone: &Arc<Zone>, history: &History) {
        let followed = Followed {
            view: view.cloned(),
            history: history.clone(),
            zone: Arc::downgrade(zone),
        };
        let mut kept = self.0.lock();
        let of_name = kept.entry(zone.apex().clone()).or_default();
        of_name.retain(|kept| kept.view.as_ref() != view);
        of_name.push(followed);
    }

    /// Forgets a zone.
    pub fn remove(&self, zone: &ZoneId) {
        let mut kept = self.0.lock();
        let Some(of_name) = kept.get_mut(&zone.apex) else {
            return;
        };
        of_name.retain(|kept| kept.view != zone.view);
        if of_name.is_empty() {
            kept.remove(&zone.apex);
        }
    }
}

//--- On disk

/// The result of a write.
pub type Written = Result<(), String>;

/// The thread that keeps histories on disk. Its end writes what waits.
#[derive(Debug)]
pub struct Writer {
    waiting: Arc<(Mutex<Waiting>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

/// Has histories written, from other threads than the owner of the writer.
#[derive(Clone, Debug)]
pub struct Orders(Arc<(Mutex<Waiting>, Condvar)>);

/// The writes that wait for the thread: the newest history of each zone alone.
#[derive(Debug, Default)]
struct Waiting {
    orders: HashMap<PathBuf, Order>,
    is_ended: bool,
}

#[derive(Debug)]
struct Order {
    zone: Name,
    history: History,
    /// Those who wait for its end.
    done: Vec<oneshot::Sender<Written>>,
}

impl Writer {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system has no thread for it.
    pub fn start() -> io::Result<Self> {
        let waiting = Arc::<(Mutex<Waiting>, Condvar)>::default();
        let its = Arc::clone(&waiting);
        let thread = thread::Builder::new()
            .name("zone-history".to_owned())
            .spawn(move || {
                let mut files = Files::default();
                while let Some((file, order)) = next(&its) {
                    files.carry_out(&file, order);
                }
            })?;
        Ok(Self {
            waiting,
            thread: Some(thread),
        })
    }

    /// The same for other threads.
    #[must_use]
    pub fn orders(&self) -> Orders {
        Orders(Arc::clone(&self.waiting))
    }

    /// Has the history of a zone written to its file. `done` gets the result.
    pub fn write(
        &self,
        file: PathBuf,
        zone: &Name,
        history: &History,
        done: Option<oneshot::Sender<Written>>,
    ) {
        self.orders().write(file, zone, history, done);
    }
}

impl Orders {
    /// Writes the history of a zone to its file, and waits until it is on disk.
    ///
    /// # Errors
    /// When it is not.
    pub fn write_now(&self, file: PathBuf, zone: &Name, history: &History) -> Written {
        let (done, written) = oneshot::channel();
        self.write(file, zone, history, Some(done));
        let written = written.blocking_recv();
        written.unwrap_or_else(|_| Err("the server is ending".to_owned()))
    }

    fn write(
        &self,
        file: PathBuf,
        zone: &Name,
        history: &History,
        done: Option<oneshot::Sender<Written>>,
    ) {
        let (waiting, wake) = &*self.0;
        let mut waiting = waiting.lock();
        if waiting.is_ended {
            return;
        }
        let before = waiting.orders.remove(&file);
        let done_before = before.into_iter().flat_map(|order| order.done);
        let order = Order {
            zone: zone.clone(),
            history: history.clone(),
            done: done_before.chain(done).collect(),
        };
        waiting.orders.insert(file, order);
        wake.notify_one();
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let (waiting, wake) = &*self.waiting;
        waiting.lock().is_ended = true;
        wake.notify_one();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("The thread that keeps histories has panicked");
        }
    }
}

/// The next order; `None` at the end.
fn next((waiting, wake): &(Mutex<Waiting>, Condvar)) -> Option<(PathBuf, Order)> {
    let mut waiting = waiting.lock();
    loop {
        let file = waiting.orders.keys().next().cloned();
        if let Some(order) = file.and_then(|file| waiting.orders.remove_entry(&file)) {
            return Some(order);
        }
        if waiting.is_ended {
            return None;
        }
        wake.wait(&mut waiting);
    }
}

/// The files that may get further changes.
#[derive(Default)]
struct Files(HashMap<PathBuf, Open>);

/// A file that may get further changes.
struct Open {
    file: File,
    /// The version that it leads to, and that of the zone's files.
    newest: Version,
    laid_over: Version,
    /// The octets of the history, and those of the changes behind it.
    whole: u64,
    added: u64,
}

impl Files {
    fn carry_out(&mut self, file: &Path, order: Order) {
        let Order {
            zone,
            history,
            done,
        } = order;
        let written = self.write(file, &zone, &history);
        let written = written.map_err(|error| format!("cannot write {}: {error}", file.display()));
        if let Err(error) = &written {
            tracing::warn!(%zone, error, "History of the zone is not kept");
        }
        for done in done {
            drop(done.send(written.clone()));
        }
    }

    fn write(&mut self, path: &Path, zone: &Name, history: &History) -> io::Result<()> {
        // After a failure the file is written again.
        let open = self.0.remove(path);
        if history.is_empty() {
            return durable::remove(path);
        }
        let more = open.and_then(|open| Some((open.further(history)?, open)));
        let open = match more {
            Some((changes, mut open)) => {
                open.add(&changes)?;
                Some(open)
            }
            None => Open::new(path, zone, history)?,
        };
        if let Some(open) = open {
            if self.0.len() >= MAX_OPEN {
                self.0.clear();
            }
            self.0.insert(path.to_owned(), open);
        }
        Ok(())
    }
}

impl Open {
    /// Writes a history; `None` if it has no updates, to which further ones could be added.
    fn new(path: &Path, zone: &Name, history: &History) -> io::Result<Option<Self>> {
        let mut octets = head();
        push_frame(&mut octets, &history.encode(zone))?;
        fs::create_dir_all(durable::directory_of(path))?;
        let file = durable::replace(path, Rights::new(0o640), |to| {
            to.write_all(&octets)?;
            to.try_clone()
        })?;
        let versions = history.newest().cloned().zip(history.set_aside().cloned());
        let versions = versions.filter(|_| history.has_updates());
        Ok(versions.map(|(newest, laid_over)| Self {
            file,
            newest,
            laid_over,
            whole: octets.len() as u64,
            added: 0,
        }))
    }

    /// The changes that lead from what the file has to this history; `None` if it is to be written again.
    fn further(&self, history: &History) -> Option<Vec<Arc<Change>>> {
        // An operator or another process may have removed the file, or put another one in its place.
        let is_there = self
            .file
            .metadata()
            .is_ok_and(|metadata| metadata.nlink() > 0);
        let is_short = self.added < self.whole.max(MIN_ADDED);
        let further = history.updates_behind(&self.newest, &self.laid_over);
        further.filter(|_| is_there && is_short)
    }

    /// Adds changes; they are on disk when this returns. A failure leaves none of them.
    fn add(&mut self, changes: &[Arc<Change>]) -> io::Result<()> {
        let mut octets = Vec::new();
        for change in changes {
            push_frame(&mut octets, &change.encode())?;
        }
        let written = self
            .file
            .write_all(&octets)
            .and_then(|()| self.file.sync_data());
        if let Err(error) = written {
            // The first error tells more than one of this.
            drop(self.file.set_len(self.whole + self.added));
            drop(self.file.sync_data());
            return Err(error);
        }
        self.added += octets.len() as u64;
        if let Some(last) = changes.last() {
            self.newest.clone_from(&last.to);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use dns_answer::testing::{records, snapshot, zone_at};
    use dns_history::Change;

    use super::*;

    fn zone(serial: u32) -> Arc<Zone> {
        let text = format!("example. 60 SOA a. b. {serial} 2 3 4 5\nexample. 60 NS ns.example.\n");
        zone_at(&snapshot("example.", &records(&text)), 0)
    }

    fn history() -> History {
        let limits = Limits {
            versions: 9,
            octets: 9999,
        };
        let change = Change::between(&zone(1), &zone(2), 0, 9999).unwrap();
        let mut history = History::default();
        history.push(Arc::new(change.unwrap()), limits);
        history
    }

    #[test]
    fn what_is_written_is_read_and_what_is_damaged_is_dropped() {
        let directory = tempfile::tempdir().unwrap();
        let keeping = Keeping {
            directory: Some(directory.path().join("new")),
            limits: Limits {
                versions: 9,
                octets: 9999,
            },
        };
        let name: Name = "example.".parse().unwrap();
        let file = keeping.file(&name.clone().into()).unwrap();
        assert!(read(&file, &name).is_empty());
        let history = history();
        let writer = Writer::start().unwrap();
        let (done, written) = oneshot::channel();
        writer.write(file.clone(), &name, &history, Some(done));
        assert_eq!(written.blocking_recv().unwrap(), Ok(()));
        assert_eq!(read(&file, &name), history);
        assert!(read(&file, &"other.".parse().unwrap()).is_empty());
        let mut octets = fs::read(&file).unwrap();
        *octets.last_mut().unwrap() ^= 1;
        fs::write(&file, &octets).unwrap();
        assert!(read(&file, &name).is_empty());
        // As it was written before there were changes behind it.
        fs::write(&file, FORMAT.encode(&history.encode(&name))).unwrap();
        assert_eq!(read(&file, &name), history);
        // The end writes what waits.
        writer.write(file.clone(), &name, &history, None);
        drop(writer);
        assert_eq!(read(&file, &name), history);
        let writer = Writer::start().unwrap();
        writer.write(file.clone(), &name, &History::default(), None);
        drop(writer);
        assert!(!file.exists(), "a history of nothing has no file");
    }

    /// The histories of a zone with ever more updates.
    fn updated(n: u32) -> Vec<History> {
        let limits = Limits {
            versions: 5,
            octets: 99_999,
        };
        let mut history = History::default();
        let next = (1..=n).map(|serial| {
            let change = Change::between(&zone(serial), &zone(serial + 1), 0, 9999).unwrap();
            history.update(Arc::new(change.unwrap()), limits);
            history.clone()
        });
        next.collect()
    }

    fn written(files: &mut Files, file: &Path, history: &History) -> u64 {
        let name: Name = "example.".parse().unwrap();
        files.write(file, &name, history).unwrap();
        let mut again = read(file, &name);
        // The bounds are the reader's to keep.
        again.keep_within(Limits {
            versions: history.changes().len(),
            octets: usize::MAX,
        });
        assert_eq!(again, *history);
        fs::metadata(file).unwrap().ino()
    }

    #[test]
    fn an_update_is_added_to_its_file_while_it_follows() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("new/history");
        let mut files = Files::default();
        let all = updated(9);
        let first = written(&mut files, &file, &all[0]);
        assert_eq!(written(&mut files, &file, &all[1]), first);
        // Some were not written alone.
        assert_eq!(written(&mut files, &file, &all[4]), first);
        // Back to an earlier one, the same again, and a history that is no update.
        let anew = written(&mut files, &file, &all[3]);
        assert_ne!(anew, first);
        assert_eq!(written(&mut files, &file, &all[4]), anew);
        let mut other = all[4].clone();
        other.return_to_files();
        let anew = written(&mut files, &file, &other);
        assert_ne!(written(&mut files, &file, &all[5]), anew);
        // Of another file, and behind a file that is gone.
        let mut other = all[6].clone();
        other.lay_over(Some(Arc::clone(all[6].changes().last().unwrap())));
        written(&mut files, &file, &other);
        fs::remove_file(&file).unwrap();
        written(&mut files, &file, &all[8]);
        files
            .write(&file, &"example.".parse().unwrap(), &History::default())
            .unwrap();
        assert!(!file.exists());
    }

    #[test]
    fn changes_do_not_add_up_without_end() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("history");
        let name: Name = "example.".parse().unwrap();
        let mut files = Files::default();
        let (mut sizes, mut n_anew, mut before) = (Vec::new(), 0, 0);
        for history in updated(1500) {
            files.write(&file, &name, &history).unwrap();
            let metadata = fs::metadata(&file).unwrap();
            n_anew += u32::from(metadata.ino() != before);
            before = metadata.ino();
            sizes.push(metadata.len());
        }
        let largest = sizes.iter().max().copied().unwrap();
        assert!(largest < 3 * MIN_ADDED, "{largest}");
        assert!((2..20).contains(&n_anew), "{n_anew}");
    }

    #[test]
    fn a_file_that_ends_within_an_update_has_those_before_it() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("history");
        let name: Name = "example.".parse().unwrap();
        let mut files = Files::default();
        let all = updated(3);
        let mut ends = Vec::new();
        for history in &all {
            files.write(&file, &name, history).unwrap();
            ends.push(fs::metadata(&file).unwrap().len());
        }
        let octets = fs::read(&file).unwrap();
        for cut in 0..octets.len() {
            fs::write(&file, &octets[..cut]).unwrap();
            let n_whole = ends.iter().filter(|end| **end <= cut as u64).count();
            let expected = all
                .get(n_whole.wrapping_sub(1))
                .cloned()
                .unwrap_or_default();
            assert_eq!(read(&file, &name), expected, "{cut}");
        }
        // Damage in the last is an end too; whatever follows damage is not read.
        for at in usize::try_from(ends[0]).unwrap()..octets.len() {
            let mut damaged = octets.clone();
            damaged[at] ^= 0x10;
            fs::write(&file, &damaged).unwrap();
            let n_whole = ends.iter().filter(|end| **end <= at as u64).count();
            assert_eq!(read(&file, &name), all[n_whole - 1], "{at}");
        }
    }

    #[test]
    fn a_write_that_fails_says_so() {
        let directory = tempfile::tempdir().unwrap();
        let blocked = directory.path().join("file");
        fs::write(&blocked, "").unwrap();
        let name: Name = "example.".parse().unwrap();
        let writer = Writer::start().unwrap();
        let (done, written) = oneshot::channel();
        writer.write(blocked.join("history"), &name, &history(), Some(done));
        assert!(written.blocking_recv().unwrap().is_err());
    }

    #[test]
    fn every_zone_has_a_file_of_its_own() {
        let of = |name: &str| file_name(&name.parse().unwrap());
        assert_eq!(of("Example.COM."), "example.com.history");
        assert_eq!(of("."), "history");
        assert_eq!(of("a\\.b.c."), "a%2Eb.c.history");
        assert_eq!(
            of("0/25.2.0.192.in-addr.arpa."),
            "0%2F25.2.0.192.in-addr.arpa.history"
        );
    }

    #[test]
    fn a_history_is_that_of_one_version() {
        let histories = Histories::default();
        let (one, two) = (zone(1), zone(2));
        let id = |text: &str| text.parse::<ZoneId>().unwrap();
        histories.set(None, &two, &history());
        assert!(histories.of(&one).is_none());
        assert_eq!(histories.of(&two), Some(history()));
        // Another view has a zone of the same name.
        let office = id("example..office");
        histories.set(office.view.as_ref(), &one, &History::default());
        assert_eq!(histories.of(&one), Some(History::default()));
        assert_eq!(histories.of(&two), Some(history()));
        histories.remove(&id("example"));
        assert!(histories.of(&two).is_none());
        assert!(histories.of(&one).is_some());
        histories.remove(&office);
        assert!(histories.of(&one).is_none());
    }
}
