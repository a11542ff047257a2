//! Content in an object store (S3) in place of the disk; everything else stays on the disk.
//!
//! ```text
//!   store ── trait Disk ── ObjectDisk ──┬── journal, index, uploads, marks ── the disk
//!                                       └── blobs/… ── objects under a prefix of a bucket
//! ```
//!
//! To the store this is a disk like any other, so all its rules hold. An upload is written to the
//! disk and verified there; *renaming* it to its digest is what uploads it, to its key at once: an
//! object store shows an object when all of it is there, and not before. Swept content stays in the
//! bucket, hidden by a small file in `trash`, until the second grace ends.
//!
//! The sizes of all objects are held in memory, from one listing at the start: asking whether a blob is
//! there costs no request. So **a prefix belongs to one registry**; nodes that share a bucket have a
//! prefix each.

mod catalogue;
mod file;
mod objects;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use daemon::clock;
use oci::digest::Digest;
use registry_store::disk::{Access, Disk, File, RealDisk, Room, Status};
use registry_store::store::layout::Layout;

use crate::catalogue::{Catalogue, Object};
use crate::file::ObjectFile;
use crate::objects::Objects;

pub use crate::objects::{ObjectStoreError, Settings};

/// The most bytes of a mark in `trash` or `quarantine`: a number.
const MAX_MARK: u64 = 32;

/// A disk whose blobs are objects.
pub struct ObjectDisk {
    real: RealDisk,
    layout: Layout,
    objects: Objects,
    catalogue: Arc<Catalogue>,
}

impl fmt::Debug for ObjectDisk {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("ObjectDisk")
            .field("objects", &self.objects)
            .finish_non_exhaustive()
    }
}

/// The meaning of a path of the store for this disk.
enum Place {
    /// Content.
    Blob(Digest),
    /// A directory of content.
    Shard,
    /// Content that is hidden: in the trash, or in quarantine.
    Hidden(Digest),
    /// Anything else.
    File,
}

impl ObjectDisk {
    /// Opens a bucket for the store at `root`; lists what it has. Blocks.
    ///
    /// # Errors
    ///
    /// When the bucket cannot be reached, or what is to prove who asks cannot be read.
    pub fn open(root: &Path, s3: &Settings) -> Result<Self, ObjectStoreError> {
        let objects = Objects::open(s3)?;
        let disk = Self {
            real: RealDisk,
            layout: Layout::new(root.to_owned()),
            catalogue: Arc::new(Catalogue::new(objects.list()?)),
            objects,
        };
        disk.hide_what_is_marked()
            .map_err(ObjectStoreError::Marks)?;
        Ok(disk)
    }

    /// Content that was in the trash or in quarantine before a restart is still there.
    fn hide_what_is_marked(&self) -> io::Result<()> {
        for directory in [self.layout.trash(), self.layout.quarantine()] {
            for name in self.real.list(&directory)?.unwrap_or_default() {
                if let Some(digest) = Layout::parse_flat(&name) {
                    self.catalogue.remove(&digest);
                }
            }
        }
        Ok(())
    }

    fn place(&self, path: &Path) -> Place {
        let Ok(below) = path.strip_prefix(self.layout.root()) else {
            return Place::File;
        };
        let parts: Vec<&str> = below
            .iter()
            .map(|part| part.to_str().unwrap_or_default())
            .collect();
        match parts.as_slice() {
            ["blobs", algorithm, _, hex] => match format!("{algorithm}:{hex}").parse() {
                Ok(digest) => Place::Blob(digest),
                Err(_) => Place::File,
            },
            ["blobs", ..] => Place::Shard,
            ["trash" | "quarantine", name] => match Layout::parse_flat(name) {
                Some(digest) => Place::Hidden(digest),
                None => Place::File,
            },
            _ => Place::File,
        }
    }

    /// Uploads a file that has been verified, and takes it off the disk.
    fn publish(&self, from: &Path, digest: &Digest) -> io::Result<()> {
        let file = self.real.open(from, Access::Read)?;
        let size = file.size()?;
        self.objects.put(digest, &*file, size)?;
        // A copy that was hidden has been replaced: nothing may take it away any more.
        for mark in [self.layout.trashed(digest), self.layout.quarantined(digest)] {
            match self.real.remove(&mark) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        self.catalogue.insert(
            *digest,
            Object {
                size,
                modified: clock::wall(),
            },
        );
        self.real.remove(from)
    }

    /// Hides an object by a mark, durably.
    fn hide(&self, digest: &Digest, mark: &Path) -> io::Result<()> {
        let object = self.catalogue.get(digest);
        let object = object.ok_or(io::ErrorKind::NotFound)?;
        match self.real.remove(mark) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = self.real.create(mark)?;
        file.write_at(&[object.size.to_string().into()], 0)?;
        file.sync()?;
        self.catalogue.remove(digest);
        Ok(())
    }

    /// Shows an object again.
    fn show(&self, digest: &Digest, mark: &Path) -> io::Result<()> {
        let size = self.marked(mark)?;
        self.real.remove(mark)?;
        self.catalogue.insert(
            *digest,
            Object {
                size,
                modified: clock::wall(),
            },
        );
        Ok(())
    }

    /// The size that a mark says.
    fn marked(&self, mark: &Path) -> io::Result<u64> {
        let file = self.real.open(mark, Access::Read)?;
        let length = file.size()?.min(MAX_MARK);
        let mut octets = vec![0; usize::try_from(length).unwrap_or_default()];
        let read = file.read_at(&mut octets, 0)?;
        let text = octets
            .get(..read)
            .and_then(|text| std::str::from_utf8(text).ok());
        let size = text.and_then(|text| text.parse().ok());
        size.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "not a size"))
    }
}

impl Disk for ObjectDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn File>> {
        match self.place(path) {
            Place::File => self.real.create(path),
            Place::Blob(_) | Place::Shard | Place::Hidden(_) => Err(unsupported()),
        }
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn File>> {
        match (self.place(path), access) {
            (Place::Blob(digest), Access::Read) => {
                let object = self.catalogue.get(&digest);
                let status = object.ok_or(io::ErrorKind::NotFound)?.status();
                let objects = self.objects.clone();
                Ok(Box::new(ObjectFile::new(objects, digest, status)))
            }
            (Place::Hidden(digest), Access::Read) => {
                let status = self.status(path)?.ok_or(io::ErrorKind::NotFound)?;
                let objects = self.objects.clone();
                Ok(Box::new(ObjectFile::new(objects, digest, status)))
            }
            (Place::File, access) => self.real.open(path, access),
            (Place::Blob(_) | Place::Shard | Place::Hidden(_), _) => Err(unsupported()),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        match (self.place(from), self.place(to)) {
            (Place::File, Place::Blob(digest)) => self.publish(from, &digest),
            (Place::Blob(digest), Place::Hidden(_)) => self.hide(&digest, to),
            (Place::Hidden(digest), Place::Blob(_)) => self.show(&digest, from),
            (Place::Hidden(_), Place::Hidden(_)) | (Place::File, Place::File) => {
                self.real.rename(from, to)
            }
            _ => Err(unsupported()),
        }
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        match self.place(path) {
            Place::Blob(digest) => {
                self.catalogue
                    .remove(&digest)
                    .ok_or(io::ErrorKind::NotFound)?;
                self.objects.remove(&digest)
            }
            // The object first: a mark without one hides nothing, one without a mark would come back.
            Place::Hidden(digest) => {
                self.real.status(path)?.ok_or(io::ErrorKind::NotFound)?;
                if self.catalogue.get(&digest).is_none() {
                    self.objects.remove(&digest)?;
                }
                self.real.remove(path)
            }
            Place::Shard => Err(unsupported()),
            Place::File => self.real.remove(path),
        }
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        match self.place(path) {
            Place::Shard => Ok(()),
            _ => self.real.create_directory(path),
        }
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        match self.place(path) {
            Place::Shard => Ok(()),
            _ => self.real.sync_directory(path),
        }
    }

    fn list(&self, path: &Path) -> io::Result<Option<Vec<String>>> {
        let Place::Shard = self.place(path) else {
            return self.real.list(path);
        };
        let Ok(below) = path.strip_prefix(self.layout.root()) else {
            return Ok(None);
        };
        let parts: Vec<&str> = below
            .iter()
            .map(|part| part.to_str().unwrap_or_default())
            .collect();
        Ok(match parts.as_slice() {
            ["blobs", algorithm, shard] => Some(self.catalogue.shard(algorithm, shard)),
            _ => Some(Vec::new()),
        })
    }

    fn status(&self, path: &Path) -> io::Result<Option<Status>> {
        match self.place(path) {
            Place::Blob(digest) => Ok(self.catalogue.get(&digest).map(Object::status)),
            Place::Hidden(_) => {
                let Some(status) = self.real.status(path)? else {
                    return Ok(None);
                };
                let size = self.marked(path)?;
                Ok(Some(Status { size, ..status }))
            }
            Place::Shard | Place::File => self.real.status(path),
        }
    }

    fn touch(&self, path: &Path) -> io::Result<()> {
        match self.place(path) {
            Place::Blob(digest) => match self.catalogue.touch(&digest, clock::wall()) {
                true => Ok(()),
                false => Err(io::ErrorKind::NotFound.into()),
            },
            _ => self.real.touch(path),
        }
    }

    fn room(&self, path: &Path) -> io::Result<Room> {
        self.real.room(path)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn fmt::Debug + Send + Sync>> {
        self.real.lock(path)
    }
}

fn unsupported() -> io::Error {
    io::Error::new(
        io::ErrorKind::Unsupported,
        "objects are written whole and named by their digests",
    )
}

/// Reads the secrets of an object store.
pub(crate) fn secret(path: &PathBuf) -> Result<String, ObjectStoreError> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| ObjectStoreError::Secret(path.clone(), error))?;
    Ok(text.trim().to_owned())
}

#[cfg(test)]
mod tests;
