//! Writes files in a thread of its own: a slow disk does not hold the time up.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::{self, JoinHandle};

use crate::drift_file;
use crate::logs::{self, Log};
use crate::state_file::StateFile;
use ntp::engine::Record;
use time_model::settings::{LogSettings, Settings};
use time_model::time::UnixTime;
use timekeeper::{Drift, SavedState};

/// Lines that wait for the disk. When the disk is slower, lines are lost, and timekeeping continues.
const QUEUE: usize = 1024;
/// Mode of a log directory that has to be made: others have no business there.
const DIRECTORY_MODE: u32 = 0o750;

/// Something to write.
#[derive(Debug)]
enum Work {
    Drift(PathBuf, Drift),
    SavedState(StateFile, SavedState),
    Line(PathBuf, Log, String),
}

/// The handle of the file writer. Without drift file and logs there is no thread.
#[derive(Debug, Default)]
pub(super) struct FileWriter {
    drift_file: Option<PathBuf>,
    directory: Option<PathBuf>,
    logs: LogSettings,
    thread: Option<(SyncSender<Work>, JoinHandle<()>)>,
}

impl FileWriter {
    pub(super) fn new(settings: &Settings) -> Self {
        let mut file_writer = Self {
            drift_file: settings.clock.drift_file.clone(),
            directory: settings.logs.directory.clone(),
            logs: settings.logs.clone(),
            thread: None,
        };
        if file_writer.drift_file.is_some() || file_writer.directory.is_some() {
            let (sender, work) = mpsc::sync_channel(QUEUE);
            let banner = settings.logs.banner;
            let thread = thread::Builder::new()
                .name("file-writer".to_owned())
                .spawn(move || write_all(&work, banner));
            match thread {
                Ok(thread) => file_writer.thread = Some((sender, thread)),
                Err(error) => tracing::error!(%error, "Cannot start a thread for logs"),
            }
        }
        file_writer
    }

    /// Keeps the frequency.
    pub(super) fn save(&self, drift: Drift) {
        if let Some(path) = &self.drift_file {
            self.send(Work::Drift(path.clone(), drift));
        }
    }

    /// Leaves this to a successor.
    pub(super) fn leave(&self, file: StateFile, state: SavedState) {
        self.send(Work::SavedState(file, state));
    }

    /// Writes a line of a log, if it is wanted.
    pub(super) fn record(&self, record: &Record, now: UnixTime) {
        let Some(directory) = &self.directory else {
            return;
        };
        let record = logs::line(record, &self.logs, now);
        if let Some((log, line)) = record {
            self.send(Work::Line(directory.join(log.file()), log, line));
        }
    }

    fn send(&self, work: Work) {
        if let Some((sender, _)) = &self.thread
            && sender.try_send(work).is_err()
        {
            tracing::warn!("The disk is too slow for logs; a line is lost");
        }
    }

    /// Waits until everything is written.
    pub(super) fn finish(&mut self) {
        if let Some((sender, thread)) = self.thread.take() {
            drop(sender);
            if thread.join().is_err() {
                tracing::error!("The thread that writes logs has died");
            }
        }
    }
}

fn write_all(work: &Receiver<Work>, banner: u32) {
    let mut n_lines: BTreeMap<Log, u32> = BTreeMap::new();
    // Reports a full disk or a foreign directory once, and again after a success in between.
    let mut has_failed = false;
    while let Ok(work) = work.recv() {
        let (path, result) = match work {
            Work::Drift(path, drift) => {
                let result = drift_file::write(&path, drift);
                (path, result)
            }
            Work::SavedState(file, state) => (file.path().to_owned(), file.leave(state)),
            Work::Line(path, log, line) => {
                let n = n_lines.entry(log).or_insert(0);
                let heading = n
                    .checked_rem(banner)
                    .filter(|rest| *rest == 0)
                    .map(|_| log.banner());
                *n = n.wrapping_add(1);
                let result = append(&path, &(heading.unwrap_or_default() + &line));
                (path, result)
            }
        };
        if let (Err(error), false) = (&result, has_failed) {
            tracing::warn!(path = %path.display(), %error, "Cannot write a file");
        }
        has_failed = result.is_err();
    }
}

/// Appends to a file, and opens it again each time, so that log rotation needs no signal.
fn append(path: &Path, text: &str) -> io::Result<()> {
    let mut options = File::options();
    options.append(true).create(true);
    let mut file = match (options.open(path), path.parent()) {
        (Err(error), Some(directory)) if error.kind() == io::ErrorKind::NotFound => {
            DirBuilder::new()
                .recursive(true)
                .mode(DIRECTORY_MODE)
                .create(directory)?;
            options.open(path)?
        }
        (result, _) => result?,
    };
    file.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use time_model::settings::LogFile;

    #[test]
    fn files_are_made_and_lines_are_headed_now_and_then() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        let mut settings = Settings::default();
        settings.logs.directory = Some(directory.join("deep/logs"));
        settings.logs.write.insert(LogFile::Tracking);
        settings.logs.banner = 2;
        settings.clock.drift_file = Some(directory.join("drift"));
        let mut file_writer = FileWriter::new(&settings);
        file_writer.save(Drift {
            ppm: 1.5,
            skew: 0.5,
        });
        for _ in 0..3 {
            let record = Record::Tracking(Box::default());
            file_writer.record(&record, UnixTime(0));
        }
        file_writer.finish();
        let text = fs::read_to_string(directory.join("deep/logs/tracking.log")).unwrap();
        let drift = drift_file::read(&directory.join("drift"));
        let headings: Vec<bool> = text.lines().map(|line| line.starts_with('=')).collect();
        let rule = [true, false, true];
        assert_eq!(headings, [&rule[..], &[false; 2], &rule, &[false]].concat());
        assert_eq!(drift.map(|drift| drift.ppm), Some(1.5));
    }
}
