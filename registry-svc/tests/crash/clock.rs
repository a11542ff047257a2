//! A wall clock that a test sets, for one process: the machine's, and an offset from it. The files of the process have dates
//! of this clock too.
//!
//! The offsets are in a file, with the machine's time from which each holds, so that a file has the date that its writer's
//! clock showed.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use registry_store::disk::{Access, Disk, File, FileSystem, RealDisk, Room, Status};
use registry_store::{steady_clock, wall_clock};
use registry_svc::machine::Machine;

/// The file of offsets of this process.
static OFFSETS: OnceLock<PathBuf> = OnceLock::new();

/// Sets the clock of a process ahead, or back, by a number of milliseconds.
pub(super) fn set(offsets: &Path, by: i64) {
    let mut text = fs::read_to_string(offsets).unwrap_or_default();
    text += &format!("{} {by}\n", wall_clock());
    // Whole, for the process reads it all the time.
    let new = offsets.with_extension("new");
    fs::write(&new, text).unwrap();
    fs::rename(new, offsets).unwrap();
}

/// A machine whose wall clock goes by the offsets in a file.
pub(super) fn machine(offsets: PathBuf) -> Machine {
    OFFSETS.set(offsets).unwrap();
    Machine {
        disk: Arc::new(DatedDisk(RealDisk)),
        wall: || shifted(wall_clock()),
        steady: steady_clock,
    }
}

/// What the clock of this process showed when the machine's showed this.
fn shifted(at: u64) -> u64 {
    let text = OFFSETS
        .get()
        .map(|path| fs::read_to_string(path).unwrap_or_default());
    let text = text.unwrap_or_default();
    let offsets = text.lines().filter_map(|line| {
        let (from, by) = line.split_once(' ')?;
        Some((from.parse::<u64>().ok()?, by.parse::<i64>().ok()?))
    });
    let last = offsets.take_while(|(from, _)| *from <= at).last();
    at.saturating_add_signed(last.map_or(0, |(_, by)| by))
}

/// A status with the date of this process's clock.
fn dated(status: Status) -> Status {
    let since = status.modified.duration_since(UNIX_EPOCH);
    let since = since.unwrap_or_default();
    let whole = u64::try_from(since.as_millis()).unwrap();
    let rest = since.saturating_sub(Duration::from_millis(whole));
    let modified: SystemTime = UNIX_EPOCH + Duration::from_millis(shifted(whole)) + rest;
    Status { modified, ..status }
}

/// The machine's disk, with dates of this process's clock.
#[derive(Debug)]
struct DatedDisk(RealDisk);

#[derive(Debug)]
struct DatedFile(Box<dyn File>);

impl Disk for DatedDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn File>> {
        Ok(Box::new(DatedFile(self.0.create(path)?)))
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn File>> {
        Ok(Box::new(DatedFile(self.0.open(path, access)?)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.0.remove(path)
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        self.0.create_directory(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        self.0.sync_directory(path)
    }

    fn list(&self, path: &Path) -> io::Result<Option<Vec<String>>> {
        self.0.list(path)
    }

    fn status(&self, path: &Path) -> io::Result<Option<Status>> {
        Ok(self.0.status(path)?.map(dated))
    }

    fn touch(&self, path: &Path) -> io::Result<()> {
        self.0.touch(path)
    }

    fn room(&self, path: &Path) -> io::Result<Room> {
        self.0.room(path)
    }

    fn file_system(&self, path: &Path) -> io::Result<Option<Box<dyn FileSystem>>> {
        self.0.file_system(path)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn fmt::Debug + Send + Sync>> {
        self.0.lock(path)
    }
}

impl File for DatedFile {
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        self.0.read_at(buffer, at)
    }

    fn read_block(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        self.0.read_block(buffer, at)
    }

    fn write_at(&self, pieces: &[Bytes], at: u64) -> io::Result<()> {
        self.0.write_at(pieces, at)
    }

    fn write_block(&self, octets: &[u8], at: u64) -> io::Result<()> {
        self.0.write_block(octets, at)
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        self.0.allocate(length)
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        self.0.truncate(length)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }

    fn seal(&self) -> io::Result<()> {
        self.0.seal()
    }

    fn status(&self) -> io::Result<Status> {
        Ok(dated(self.0.status()?))
    }
}
