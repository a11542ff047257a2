//! The histories of all zones: in memory for transfers and operators, and on disk, where a thread of its own keeps them.
//!
//! ```text
//! publisher ─► Histories ─► transfers, zone history, zone diff
//!     │
//!     └─► Writer ─► NAME.history   (zone-history)
//! ```
//!
//! ```text
//! file  =  "outpost-dns-authd-state\n"  version (u32)  CRC-32C of the rest (u32)  history (dns_history::encoding)
//! ```

use std::collections::HashMap;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};

use ::config::dns_authd::History as Settings;
use dns_history::{History, Limits, file_name};
use dns_wire::Name;
use dns_zone::Zone;
use durable::Rights;
use durable::state::Format;
use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;

/// The form of a file.
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
    pub fn file(&self, zone: &Name) -> Option<PathBuf> {
        Some(self.directory.as_ref()?.join(file_name(zone)))
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

//--- In memory

/// The histories of the zones in service.
#[derive(Clone, Debug, Default)]
pub struct Histories(Arc<Mutex<HashMap<Name, Followed>>>);

/// A history, and the zone that it leads to.
#[derive(Clone, Debug)]
struct Followed {
    history: History,
    zone: Weak<Zone>,
}

impl Histories {
    /// The history of this version of a zone; `None` while it is of another.
    #[must_use]
    pub fn of(&self, zone: &Arc<Zone>) -> Option<History> {
        let kept = self.0.lock();
        let kept = kept.get(zone.apex())?;
        let is_its = std::ptr::eq(kept.zone.as_ptr(), Arc::as_ptr(zone));
        is_its.then(|| kept.history.clone())
    }

    /// Takes the history of a zone.
    pub fn set(&self, zone: &Arc<Zone>, history: &History) {
        let kept = Followed {
            history: history.clone(),
            zone: Arc::downgrade(zone),
        };
        self.0.lock().insert(zone.apex().clone(), kept);
    }

    /// Forgets a zone.
    pub fn remove(&self, zone: &Name) {
        self.0.lock().remove(zone);
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
                while let Some((file, order)) = next(&its) {
                    carry_out(&file, order);
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

fn carry_out(file: &Path, order: Order) {
    let Order {
        zone,
        history,
        done,
    } = order;
    let written = match history.is_empty() {
        true => durable::remove(file),
        false => {
            let octets = FORMAT.encode(&history.encode(&zone));
            fs::create_dir_all(durable::directory_of(file)).and_then(|()| {
                durable::replace(file, Rights::new(0o640), |to| to.write_all(&octets))
            })
        }
    };
    let written = written.map_err(|error| format!("cannot write {}: {error}", file.display()));
    if let Err(error) = &written {
        tracing::warn!(%zone, error, "History of the zone is not kept");
    }
    for done in done {
        drop(done.send(written.clone()));
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
        let file = keeping.file(&name).unwrap();
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
        // The end writes what waits.
        writer.write(file.clone(), &name, &history, None);
        drop(writer);
        assert_eq!(read(&file, &name), history);
        let writer = Writer::start().unwrap();
        writer.write(file.clone(), &name, &History::default(), None);
        drop(writer);
        assert!(!file.exists(), "a history of nothing has no file");
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
        histories.set(&two, &history());
        assert!(histories.of(&one).is_none());
        assert_eq!(histories.of(&two), Some(history()));
        histories.remove(two.apex());
        assert!(histories.of(&two).is_none());
    }
}
