//! Known leap seconds, read again periodically in a thread of its own: updates of the system replace their files, while the
//! time is kept for years.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::Duration;

use crate::leap_file;
use crate::system::clock;
use crate::system::timer::Waker;
use time_model::settings::LeapSettings;
use timekeeper::LeapSecond;

/// How often: some kilobytes, long before a leap second comes.
const AGAIN: Duration = Duration::from_secs(3600);

/// A table of leap seconds, oldest first.
pub(super) type Table = Vec<LeapSecond>;

/// Looks for other leap seconds; not where no file is named. The thread ends when this goes.
#[derive(Debug, Default)]
pub(super) struct Leaps {
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    tables: Receiver<Table>,
    /// Ends the thread when it goes.
    _stop: SyncSender<()>,
}

impl Leaps {
    /// Reads the leap seconds, and starts to watch the files; a change wakes the loop. Returns no table when files are named
    /// that have none at the moment: the earlier table stays valid.
    pub(super) fn start(settings: &LeapSettings, waker: &Arc<Waker>) -> (Self, Option<Table>) {
        Self::start_with(settings, waker, AGAIN)
    }

    fn start_with(
        settings: &LeapSettings,
        waker: &Arc<Waker>,
        again: Duration,
    ) -> (Self, Option<Table>) {
        let mut known = Known::default();
        known.read(settings);
        let table = known.table.clone();
        if settings.time_zone.is_none() && settings.list.is_none() {
            return (Self::default(), Some(table));
        }
        let table = (!table.is_empty()).then_some(table);
        let (tables, taken) = mpsc::sync_channel(1);
        let (stop, stopped) = mpsc::sync_channel(0);
        let (settings, waker) = (settings.clone(), Arc::clone(waker));
        let watch = move || {
            while stopped.recv_timeout(again) == Err(RecvTimeoutError::Timeout) {
                if known.read(&settings) && tables.send(known.table.clone()).is_ok() {
                    waker.wake();
                }
            }
        };
        let thread = thread::Builder::new().name("leaps".to_owned()).spawn(watch);
        if let Err(error) = thread {
            tracing::error!(%error, "Cannot start a thread for leap seconds");
            return (Self::default(), table);
        }
        let running = Running {
            tables: taken,
            _stop: stop,
        };
        (
            Self {
                running: Some(running),
            },
            table,
        )
    }

    /// Other leap seconds, if there are some.
    pub(super) fn table(&self) -> Option<Table> {
        self.running.as_ref()?.tables.try_recv().ok()
    }
}

/// The table that was read last.
#[derive(Debug, Default)]
struct Known {
    table: Table,
    warnings: Vec<String>,
}

impl Known {
    /// Reads again; returns whether the table has changed. Reports a problem once. Files that are missing or broken leave the
    /// table as it was.
    fn read(&mut self, settings: &LeapSettings) -> bool {
        let (table, warnings) = leap_file::read(settings, clock::wall());
        if warnings != self.warnings {
            for warning in &warnings {
                tracing::warn!(warning, "The leap second file has a problem");
            }
            self.warnings = warnings;
        }
        if table.is_empty() || table == self.table {
            return false;
        }
        self.table = table;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_is_another_one_is_read_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("leap-seconds.list");
        let new = directory.path().join("new");
        let put = |text: &str| {
            std::fs::write(&new, text).unwrap();
            std::fs::rename(&new, &path).unwrap();
        };
        put("3550089600 35\n");
        let settings = LeapSettings {
            list: Some(path.clone()),
            ..LeapSettings::default()
        };
        let waker = Arc::new(Waker::new().unwrap());
        let often = Duration::from_millis(1);
        let (leaps, table) = Leaps::start_with(&settings, &waker, often);
        assert_eq!(table.map(|table| table.len()), Some(1));
        // Broken, gone, and there again with one more.
        put("x\n");
        std::fs::remove_file(&path).unwrap();
        put("3550089600 35\n3644697600 36\n");
        let running = leaps.running.as_ref().unwrap();
        assert_eq!(running.tables.recv().unwrap().len(), 2);
        put("3550089600 35\n3644697600 36\n3692217600 37\n");
        assert_eq!(running.tables.recv().unwrap().len(), 3);
        assert_eq!(leaps.table(), None, "it is told once");
    }

    #[test]
    fn nothing_is_read_that_is_not_named() {
        let waker = Arc::new(Waker::new().unwrap());
        let (leaps, table) = Leaps::start(&LeapSettings::default(), &waker);
        assert!(leaps.running.is_none());
        assert_eq!(table, Some(Vec::new()), "what was known is so no more");
    }

    #[test]
    fn files_that_cannot_be_read_just_now_make_nothing_unknown() {
        let settings = LeapSettings {
            list: Some("/no/such/list".into()),
            ..LeapSettings::default()
        };
        let waker = Arc::new(Waker::new().unwrap());
        let (leaps, table) = Leaps::start(&settings, &waker);
        assert!(leaps.running.is_some(), "it is looked for again");
        assert_eq!(table, None);
    }
}
