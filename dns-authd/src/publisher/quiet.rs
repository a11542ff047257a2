//! Decides whether changed files are complete.
//!
//! A file is complete when its writer has closed it, or moved it into its place, and it has not changed since;
//! or when its size and time have been the same for a while. The close of another file says nothing.
//!
//! Opens nothing and reads no clock: the time is an argument.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use daemon::disk::Stamp;

/// The most files with events between two looks. Beyond it, events count as lost: neighbours of zone files may be
/// any number.
const MAX_EVENTS: usize = 100_000;

/// Events in the directories of zone files since the last look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Events {
    /// Files that were closed after writing or moved into their places, with their states then.
    pub closed: HashMap<PathBuf, Stamp>,
    /// Files that were created or changed and not closed since.
    pub open: HashSet<PathBuf>,
    /// Whether events were lost.
    pub lost: bool,
}

impl Events {
    /// Notes that a file is complete now.
    pub fn close(&mut self, path: PathBuf) {
        self.open.remove(&path);
        let stamp = Stamp::of(&path);
        self.closed.insert(path, stamp);
        self.bound();
    }

    /// Notes that a file is being written.
    pub fn open(&mut self, path: PathBuf) {
        self.closed.remove(&path);
        self.open.insert(path);
        self.bound();
    }

    fn bound(&mut self) {
        if self.closed.len() + self.open.len() > MAX_EVENTS {
            self.closed.clear();
            self.open.clear();
            self.lost = true;
        }
    }

    /// Adds later events.
    pub fn merge(&mut self, later: Self) {
        for path in later.open {
            self.open(path);
        }
        for (path, stamp) in later.closed {
            self.open.remove(&path);
            self.closed.insert(path, stamp);
        }
        self.bound();
        self.lost |= later.lost;
    }
}

/// The files that are changing.
#[derive(Debug, Default)]
pub(super) struct Quiet {
    /// The state of a file when its writer closed it.
    closed: HashMap<PathBuf, Stamp>,
    /// Files whose writer has not closed them yet.
    open: HashSet<PathBuf>,
    /// The last seen state of a changed file, and the time since when it has been the same.
    seen: HashMap<PathBuf, (Stamp, Instant)>,
}

impl Quiet {
    /// Takes events; those of files that no zone has are dropped. `link` yields the files that are reached
    /// through a symbolic link at a path.
    pub(super) fn note(
        &mut self,
        events: Events,
        is_ours: impl Fn(&Path) -> bool,
        link: impl Fn(&Path) -> Vec<(PathBuf, Stamp)>,
    ) {
        if events.lost {
            self.closed.clear();
            self.open.clear();
        }
        for (path, stamp) in events.closed {
            for (file, stamp) in link(&path) {
                self.close(file, stamp);
            }
            if is_ours(&path) {
                self.close(path, stamp);
            }
        }
        for path in events.open.into_iter().filter(|path| is_ours(path)) {
            self.closed.remove(&path);
            self.open.insert(path);
        }
    }

    fn close(&mut self, path: PathBuf, stamp: Stamp) {
        self.open.remove(&path);
        self.closed.insert(path, stamp);
    }

    /// Whether a changed file, now in the state `stamp`, is complete. Without events of its own it is once it
    /// has been the same for `pause`.
    pub(super) fn is_complete(
        &mut self,
        path: &Path,
        stamp: Stamp,
        (now, pause): (Instant, Duration),
    ) -> bool {
        if self.closed.get(path) == Some(&stamp) {
            return true;
        }
        let seen = self.seen.entry(path.to_owned()).or_insert((stamp, now));
        if seen.0 != stamp {
            *seen = (stamp, now);
        }
        now.duration_since(seen.1) >= pause
    }

    /// Whether a writer has the file open, as far as events tell.
    pub(super) fn is_open(&self, path: &Path) -> bool {
        self.open.contains(path)
    }

    /// Forgets the state of a file that was read; a later state stays.
    pub(super) fn read(&mut self, path: &Path, stamp: Stamp) {
        if self.closed.get(path) == Some(&stamp) {
            self.closed.remove(path);
        }
        if self.seen.get(path).is_some_and(|(seen, _)| *seen == stamp) {
            self.seen.remove(path);
        }
    }

    /// Forgets a file that no zone has any more.
    pub(super) fn forget(&mut self, path: &Path) {
        self.closed.remove(path);
        self.open.remove(path);
        self.seen.remove(path);
    }

    /// When the next file will have been the same for `pause`. Files for which that was so at the time of the
    /// last look were seen to be then.
    pub(super) fn due(&self, pause: Duration, looked: Instant) -> Option<Instant> {
        let due = self.seen.values().map(|(_, since)| *since + pause);
        due.filter(|due| *due > looked).min()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const PAUSE: Duration = Duration::from_secs(10);

    /// Some states of a file.
    fn stamps(n: usize) -> Vec<Stamp> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let of = |length: usize| {
            fs::write(&path, "x".repeat(length)).unwrap();
            Stamp::of(&path)
        };
        (1..=n).map(of).collect()
    }

    fn start() -> Instant {
        daemon::clock::now()
    }

    fn closed(path: &str, stamp: Stamp) -> Events {
        Events {
            closed: [(path.into(), stamp)].into(),
            ..Events::default()
        }
    }

    fn open(path: &str) -> Events {
        Events {
            open: [path.into()].into(),
            ..Events::default()
        }
    }

    fn note(quiet: &mut Quiet, events: Events) {
        quiet.note(events, |_| true, |_| Vec::new());
    }

    #[test]
    fn a_file_is_complete_in_the_state_in_which_it_was_closed() {
        let [a, b] = stamps(2)[..] else { panic!() };
        let (path, now) = (Path::new("z"), start());
        let mut quiet = Quiet::default();
        note(&mut quiet, closed("other", a));
        assert!(!quiet.is_complete(path, a, (now, PAUSE)));
        note(&mut quiet, closed("z", a));
        assert!(quiet.is_complete(path, a, (now, PAUSE)));
        // Another writer has begun.
        assert!(!quiet.is_complete(path, b, (now, PAUSE)));
        note(&mut quiet, open("z"));
        assert!(!quiet.is_complete(path, a, (now, PAUSE)));
        assert!(quiet.is_open(path));
        note(&mut quiet, closed("z", b));
        assert!(quiet.is_complete(path, b, (now, PAUSE)));
        assert!(!quiet.is_open(path));
    }

    #[test]
    fn a_file_without_events_is_complete_when_it_has_been_the_same_for_the_pause() {
        let [a, b] = stamps(2)[..] else { panic!() };
        let (path, t) = (Path::new("z"), start());
        let mut quiet = Quiet::default();
        assert!(!quiet.is_complete(path, a, (t, PAUSE)));
        assert!(!quiet.is_complete(path, b, (t + PAUSE, PAUSE)));
        assert_eq!(quiet.due(PAUSE, t), Some(t + PAUSE + PAUSE));
        assert!(quiet.is_complete(path, b, (t + PAUSE + PAUSE, PAUSE)));
        // It was seen to be complete, and is not read yet.
        assert_eq!(quiet.due(PAUSE, t + PAUSE + PAUSE), None);
        quiet.read(path, a);
        assert_eq!(quiet.due(PAUSE, t), Some(t + PAUSE + PAUSE));
        quiet.read(path, b);
        assert_eq!(quiet.due(PAUSE, t), None);
    }

    #[test]
    fn lost_events_leave_only_the_pause() {
        let a = stamps(1)[0];
        let (path, t) = (Path::new("z"), start());
        let mut quiet = Quiet::default();
        note(&mut quiet, closed("z", a));
        note(
            &mut quiet,
            Events {
                lost: true,
                ..Events::default()
            },
        );
        assert!(!quiet.is_complete(path, a, (t, PAUSE)));
    }

    #[test]
    fn a_link_that_is_moved_into_its_place_completes_what_is_behind_it() {
        let [a, b] = stamps(2)[..] else { panic!() };
        let (path, t) = (Path::new("z"), start());
        let mut quiet = Quiet::default();
        let link = |at: &Path| match at == Path::new("..data") {
            true => vec![(PathBuf::from("z"), b)],
            false => Vec::new(),
        };
        quiet.note(closed("..data", a), |path| path == Path::new("z"), link);
        assert!(quiet.is_complete(path, b, (t, PAUSE)));
        assert!(quiet.closed.len() == 1);
    }
}
