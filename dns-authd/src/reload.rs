//! Notices changes of zone files: at once by inotify, and by a check at intervals.
//!
//! Watches directories, not files: editors and configuration managers replace files, and a mounted
//! ConfigMap swaps a link beside them. An event names a file and says whether its writer is done with it; the
//! publisher looks at the files it has read, and takes those that are complete.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::SyncSender;
use std::thread;
use std::time::{Duration, Instant};

use daemon::clock;
use daemon::directory::{Change, Event, Queue};
use tokio::sync::watch;

use crate::publisher::{Command, Events};

/// Changes this close together cause one check: writing a file is several events.
const SETTLE: Duration = Duration::from_millis(100);
/// The pause before a busy publisher gets the command again.
const AGAIN: Duration = Duration::from_millis(250);
/// The interval at which watches are renewed, for directories that were replaced.
const RENEW: Duration = Duration::from_secs(60);

/// The ways of noticing changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// The interval of checks; `None` is never.
    pub interval: Option<Duration>,
    /// Whether changes are noticed at once.
    pub notify: bool,
}

/// Sends [`Command::Look`] when files may have changed, from a thread that ends with the senders.
pub fn watch(
    pace: watch::Receiver<Pace>,
    directories: watch::Receiver<BTreeSet<PathBuf>>,
    commands: SyncSender<Command>,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let _within = runtime.enter();
    let begun = clock::now();
    let mut lookout = Lookout {
        pace,
        directories,
        commands,
        looked: begun,
        renewed: begun,
        is_due: false,
        events: Events::default(),
        watches: Watches::new()
            .inspect_err(|error| {
                tracing::warn!(%error, "Changes of zone files are not noticed at once");
            })
            .ok(),
    };
    thread::Builder::new()
        .name("zone-watch".to_owned())
        .spawn(move || {
            runtime.block_on(async {
                lookout.set_watches();
                while lookout.turn().await {}
            });
        })?;
    Ok(())
}

/// The thread.
struct Lookout {
    pace: watch::Receiver<Pace>,
    directories: watch::Receiver<BTreeSet<PathBuf>>,
    commands: SyncSender<Command>,
    looked: Instant,
    renewed: Instant,
    /// Whether a check is due that the publisher has not been sent yet.
    is_due: bool,
    /// Events that the publisher has not been sent yet.
    events: Events,
    watches: Option<Watches>,
}

impl Lookout {
    /// Waits for an event or a deadline, and does what is due; `false` when the thread must end.
    async fn turn(&mut self) -> bool {
        let due = self.due();
        let changed = tokio::select! {
            events = next_events(self.watches.as_ref()) => {
                if let Some(events) = events {
                    self.is_due = true;
                    self.events.merge(events);
                }
                Ok(false)
            }
            changed = self.pace.changed() => changed.map(|()| true),
            changed = self.directories.changed() => changed.map(|()| true),
            () = until(due) => Ok(false),
        };
        match changed {
            Ok(false) => {}
            Ok(true) => self.set_watches(),
            Err(_) => return false,
        }
        let now = clock::now();
        if now.duration_since(self.renewed) >= RENEW {
            self.renewed = now;
            self.is_due |= self.watches.as_mut().is_some_and(Watches::renew);
        }
        let interval = self.pace.borrow().interval;
        self.is_due |= interval.is_some_and(|interval| now.duration_since(self.looked) >= interval);
        if self.is_due {
            // A publisher that is too busy now gets the command on the next turn.
            match self.commands.try_send(Command::Look(self.events.clone())) {
                Ok(()) => {
                    self.looked = now;
                    self.is_due = false;
                    self.events = Events::default();
                }
                Err(_) => tracing::debug!("Zone publisher is busy"),
            }
        }
        true
    }

    /// The time of the next check or renewal; `None` is never.
    fn due(&self) -> Option<Instant> {
        if self.is_due {
            return Some(clock::now() + AGAIN);
        }
        let renew = self.watches.as_ref().filter(|it| !it.watched.is_empty());
        let renew = renew.map(|_| self.renewed + RENEW);
        let look = self.pace.borrow().interval.map(|it| self.looked + it);
        [renew, look].into_iter().flatten().min()
    }

    fn set_watches(&mut self) {
        let Pace { notify, .. } = *self.pace.borrow_and_update();
        let directories = self.directories.borrow_and_update();
        let nothing = BTreeSet::new();
        let wanted = match notify {
            true => &*directories,
            false => &nothing,
        };
        // No event tells of a change after a file was read and before its directory was watched.
        self.is_due |= self
            .watches
            .as_mut()
            .is_some_and(|watches| watches.set(wanted));
    }
}

/// Waits for events; without watches, forever.
async fn next_events(watches: Option<&Watches>) -> Option<Events> {
    match watches {
        Some(watches) => watches.wait().await,
        None => std::future::pending().await,
    }
}

/// Waits until the deadline; without one, forever.
async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}

/// The directories that are watched.
struct Watches {
    queue: Queue,
    watched: BTreeMap<PathBuf, Option<i32>>,
}

impl Watches {
    fn new() -> io::Result<Self> {
        Ok(Self {
            queue: Queue::new()?,
            watched: BTreeMap::new(),
        })
    }

    /// Waits for an event, and for the quiet after it; returns all events until then. Cancel safe.
    ///
    /// A file that was written again before its state was read here is open in a later event; one that is
    /// written after that is in another state when the publisher looks.
    async fn wait(&self) -> Option<Events> {
        let mut events = Events::default();
        let waited = self
            .queue
            .wait(SETTLE, |event| self.note(event, &mut events));
        match waited.await {
            Ok(()) => Some(events),
            Err(error) => {
                tracing::warn!(%error, "Cannot watch zone files for changes");
                tokio::time::sleep(RENEW).await;
                None
            }
        }
    }

    /// Takes up an event, for each directory that its watch stands for.
    fn note(&self, event: Event<'_>, into: &mut Events) {
        let (watch, name, is_created, change) = match event {
            Event::File {
                watch,
                name,
                is_created,
                change,
            } => (watch, name, is_created, change),
            Event::Overflow => return into.lost = true,
            // Watches are renewed at intervals.
            Event::Moved => return,
        };
        for directory in self.directories_of(watch) {
            let path = directory.join(name);
            match change {
                Change::Complete => into.close(path),
                // A link has no writer.
                Change::Open if is_created && path.is_symlink() => into.close(path),
                Change::Open => into.open(path),
                Change::Gone => {}
            }
        }
    }

    /// The directories of a watch, as the publisher names files in them.
    fn directories_of(&self, number: i32) -> impl Iterator<Item = &Path> {
        let is_it = move |it: &Option<i32>| *it == Some(number);
        let watched = self.watched.iter().filter(move |(_, it)| is_it(it));
        watched.map(|(path, _)| match path.as_os_str() == "." {
            true => Path::new(""),
            false => path.as_path(),
        })
    }

    /// Watches exactly these directories; returns whether there is a new one among them.
    fn set(&mut self, directories: &BTreeSet<PathBuf>) -> bool {
        let old = std::mem::take(&mut self.watched);
        for (path, number) in old {
            match number {
                _ if directories.contains(&path) => {
                    self.watched.insert(path, number);
                }
                Some(number) => self.queue.remove(number),
                None => {}
            }
        }
        let mut has_new = false;
        for path in directories {
            if !self.watched.contains_key(path) {
                has_new = true;
                let number = self.add(path);
                if number.is_none() {
                    tracing::warn!(
                        directory = %path.display(),
                        "Directory cannot be watched; its files are checked at intervals"
                    );
                }
                self.watched.insert(path.clone(), number);
            }
        }
        has_new
    }

    /// Watches replaced directories again. Returns whether there was any: the watch number of the others
    /// stays the same.
    fn renew(&mut self) -> bool {
        let mut has_new = false;
        let paths: Vec<PathBuf> = self.watched.keys().cloned().collect();
        for path in paths {
            let number = self.add(&path);
            has_new |= self.watched.insert(path, number) != Some(number);
        }
        has_new
    }

    fn add(&self, path: &Path) -> Option<i32> {
        self.queue.add(path).ok()
    }
}
