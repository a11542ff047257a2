//! Compaction: a snapshot of what stands, in place of the segments it came from.
//!
//! A snapshot begins with a record without facts for each origin, which carries the vector, and has
//! a record for each register. It may hold what was stated after the segment it precedes was begun:
//! taking that again changes nothing. Tombstones older than [`TOMBSTONES`] that every
//! node has heard of are left out, and the index forgets them.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use registry_facts::frame;
use registry_facts::frame::Kind;
use registry_facts::hlc::Hlc;
use registry_facts::index::SCAN;
use registry_facts::record::{Record, Vector};

use super::files::{self, Files};
use super::{JournalError, Place};
use crate::disk::{Access, Disk, File};
use crate::journal::current::Current;

/// The time that deletions are remembered, and longer while a node that counts may not have heard of them.
pub const TOMBSTONES: Duration = Duration::from_hours(30 * 24);

/// The end of the records that a snapshot replaces.
#[derive(Debug)]
pub struct Boundary {
    /// The segment that it precedes.
    pub segment: u64,
    /// The accepted records when that segment was begun.
    pub vector: Vector,
    /// Deletions that were stated before are forgotten, in milliseconds since 1970.
    pub forgotten_before: u64,
}

/// The directory of a journal, and who may take files from it.
#[derive(Clone, Debug)]
pub struct Directory {
    /// The disk.
    pub disk: Arc<dyn Disk>,
    /// The directory.
    pub path: PathBuf,
    /// The directory of its copy.
    pub copy: PathBuf,
    /// Whether the copy has everything.
    pub is_copied: Arc<AtomicBool>,
    /// Held while files are taken away, and while all are read.
    pub files: Arc<Mutex<()>>,
    /// Held by the one that makes a snapshot.
    pub compacting: Arc<Mutex<()>>,
}

impl Directory {
    /// A directory that is not in use yet.
    pub fn new(disk: Arc<dyn Disk>, path: PathBuf, copy: PathBuf) -> Self {
        Self {
            disk,
            path,
            copy,
            is_copied: Arc::default(),
            files: Arc::default(),
            compacting: Arc::default(),
        }
    }

    /// Whether the journal is kept twice.
    pub fn is_copied(&self) -> bool {
        self.is_copied.load(Ordering::Acquire)
    }

    /// Writes a snapshot and takes away what it stands for; returns its size, 0 when another is
    /// being made.
    ///
    /// # Errors
    ///
    /// Fails as the disk does; the journal is then as whole as before.
    pub fn compact(&self, current: &Current, boundary: &Boundary) -> Result<u64, JournalError> {
        let Some(_compacting) = self.compacting.try_lock() else {
            return Ok(0);
        };
        let name = files::snapshot(boundary.segment);
        let temporary = self.path.join(format!("{name}.tmp"));
        let written = self.write(current, boundary, &temporary);
        let size = match written {
            Ok(size) => size,
            Err(error) => {
                // The rest of it counts for nothing, and the next start removes it.
                drop(self.disk.remove(&temporary));
                return Err(error);
            }
        };
        let _files = self.files.lock();
        self.disk
            .rename(&temporary, &self.path.join(name))
            .and_then(|()| self.disk.sync_directory(&self.path))
            .map_err(JournalError::io("name a snapshot of the journal"))?;
        if self.is_copied()
            && let Err(error) = self.copy_snapshot(boundary.segment)
        {
            self.is_copied.store(false, Ordering::Release);
            tracing::error!(%error, "The copy of the journal cannot be written: the journal is kept once");
        }
        // The copy's file goes before the journal's of the same name: one that only the copy has is damage.
        self.clean_copy();
        self.clean()?;
        Ok(size)
    }

    /// Gives the copy the snapshot that was just made.
    fn copy_snapshot(&self, number: u64) -> io::Result<()> {
        let name = files::snapshot(number);
        let (file, copy) = (self.path.join(&name), self.copy.join(&name));
        let length = self.disk.open(&file, Access::Read)?.size()?;
        files::duplicate(&*self.disk, &file, &copy, length)?;
        self.disk.sync_directory(&self.copy)
    }

    /// Takes away files of the copy that no longer count. The next start removes those that stay.
    fn clean_copy(&self) {
        let files = Files::of(&*self.disk, &self.copy).unwrap_or_default();
        for name in files.stale {
            drop(self.disk.remove(&self.copy.join(name)));
        }
    }

    /// Takes away files that no longer count.
    ///
    /// # Errors
    ///
    /// Fails as the disk does.
    pub fn clean(&self) -> Result<(), JournalError> {
        for name in Files::of(&*self.disk, &self.path)?.stale {
            self.disk
                .remove(&self.path.join(name))
                .map_err(JournalError::io("remove an old file of the journal"))?;
        }
        Ok(())
    }

    /// Reads all records up to a place.
    ///
    /// # Errors
    ///
    /// Fails when something that was acknowledged cannot be read.
    pub fn replay(
        &self,
        until: Place,
        visit: &mut dyn FnMut(Record) -> Result<(), JournalError>,
    ) -> Result<(), JournalError> {
        let _files = self.files.lock();
        files::replay(&*self.disk, &self.path, Some(until), visit).map(drop)
    }

    fn write(
        &self,
        current: &Current,
        boundary: &Boundary,
        path: &Path,
    ) -> Result<u64, JournalError> {
        let create = JournalError::io("make a snapshot of the journal");
        let file = self.disk.create(path).map_err(create)?;
        let mut output = Output::new(&*file);
        for (origin, sequence) in boundary.vector.iter() {
            output.put(&Record {
                origin: origin.clone(),
                sequence,
                stamp: Hlc::default(),
                facts: Vec::new(),
            })?;
        }
        let forgotten = Hlc::at(boundary.forgotten_before);
        let mut after = None;
        loop {
            let registers = current
                .read(|view| view.registers(after.as_ref(), SCAN))
                .map_err(unreadable)?;
            let Some(last) = registers.last() else {
                break;
            };
            after = Some(last.fact.key());
            for register in registers {
                let forget = current.read(|view| view.forget(&register, forgotten));
                if forget.map_err(unreadable)? {
                    continue;
                }
                output.put(&Record {
                    origin: register.origin,
                    sequence: register.sequence,
                    stamp: register.stamp,
                    facts: vec![register.fact],
                })?;
            }
        }
        output.finish()
    }
}

/// The index was the last to know; the journal still has everything.
pub(super) fn unreadable(error: registry_facts::index::IndexError) -> JournalError {
    JournalError::Io {
        doing: "read the index for a snapshot of the journal",
        source: io::Error::other(error),
    }
}

/// A snapshot that is written.
pub(super) struct Output<'a> {
    file: &'a dyn File,
    at: u64,
    buffer: Vec<u8>,
}

impl<'a> Output<'a> {
    /// At the beginning of a file.
    pub(super) fn new(file: &'a dyn File) -> Self {
        Self {
            file,
            at: 0,
            buffer: Vec::new(),
        }
    }

    pub(super) fn put(&mut self, record: &Record) -> Result<(), JournalError> {
        self.frame(Kind::Record, &record.encode());
        if self.buffer.len() < CHUNK {
            return Ok(());
        }
        self.write()
    }

    fn frame(&mut self, kind: Kind, payload: &[u8]) {
        let at = self.at + self.buffer.len() as u64;
        frame::put(&mut self.buffer, at, 0, kind, payload);
    }

    fn write(&mut self) -> Result<(), JournalError> {
        let octets = Bytes::from(std::mem::take(&mut self.buffer));
        let length = octets.len() as u64;
        self.file
            .write_at(&[octets], self.at)
            .map_err(JournalError::io("write a snapshot of the journal"))?;
        self.at += length;
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<u64, JournalError> {
        self.frame(Kind::End, b"");
        self.write()?;
        self.file
            .sync()
            .map_err(JournalError::io("sync a snapshot of the journal"))?;
        Ok(self.at)
    }
}

/// The size of one write.
const CHUNK: usize = 1 << 20;
