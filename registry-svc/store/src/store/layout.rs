//! Paths below the root.
//!
//! ```text
//! VERSION  node-id  clean  lock          marks: written aside, synced, renamed, synced
//! members  begin-anew                    likewise: what is noted of the nodes, and that the journal is to go
//! blobs/sha256/ab/<64 hex>               immutable, for everybody to read; also sha512
//! uploads/<number>  <number>.session     an upload session: its content, and whose it is
//! uploads/<number>.part                  content on its way to no session; gone after a restart
//! journal/                               see the journal's own documentation
//! journal-copy/                          the same files again
//! journal-damaged/                       the files of a journal that was damaged
//! trash/sha256-<hex>                     what the sweep took, for a second grace
//! quarantine/sha256-<hex>                damaged files
//! index.sled/                            derived
//! ```

use std::io;
use std::path::{Path, PathBuf};

use oci::digest::{Algorithm, Digest};

use crate::disk::{Access, Disk};
pub use crate::disk::{remove_if_there, write_whole};

/// The paths of a store.
#[derive(Clone, Debug)]
pub struct Layout {
    root: PathBuf,
}

impl Layout {
    /// Below a root.
    #[must_use]
    pub fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// The root.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A file directly below the root.
    #[must_use]
    pub fn mark(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// The journal.
    #[must_use]
    pub fn journal(&self) -> PathBuf {
        self.root.join("journal")
    }

    /// The second copy of the journal.
    #[must_use]
    pub fn journal_copy(&self) -> PathBuf {
        self.root.join("journal-copy")
    }

    /// The files of a journal that was damaged.
    #[must_use]
    pub fn set_aside(&self) -> PathBuf {
        self.root.join("journal-damaged")
    }

    /// The index.
    #[must_use]
    pub fn index(&self) -> PathBuf {
        self.root.join("index.sled")
    }

    /// Upload sessions.
    #[must_use]
    pub fn uploads(&self) -> PathBuf {
        self.root.join("uploads")
    }

    /// Content that the sweep has removed.
    #[must_use]
    pub fn trash(&self) -> PathBuf {
        self.root.join("trash")
    }

    /// Damaged files.
    #[must_use]
    pub fn quarantine(&self) -> PathBuf {
        self.root.join("quarantine")
    }

    /// The directory of the content that is spread to `shard`.
    #[must_use]
    pub fn shard(&self, algorithm: Algorithm, shard: u8) -> PathBuf {
        let shard = format!("{shard:02x}");
        self.root.join("blobs").join(algorithm.name()).join(shard)
    }

    /// Content.
    #[must_use]
    pub fn blob(&self, digest: &Digest) -> PathBuf {
        self.shard(digest.algorithm(), digest.shard())
            .join(digest.hex())
    }

    /// Content in the trash.
    #[must_use]
    pub fn trashed(&self, digest: &Digest) -> PathBuf {
        self.trash().join(Self::flat(digest))
    }

    /// Content in quarantine.
    #[must_use]
    pub fn quarantined(&self, digest: &Digest) -> PathBuf {
        self.quarantine().join(Self::flat(digest))
    }

    /// A digest as one file name, where content is not spread.
    #[must_use]
    pub fn flat(digest: &Digest) -> String {
        format!("{}-{}", digest.algorithm(), digest.hex())
    }

    /// The digest that [`flat`](Self::flat) wrote.
    #[must_use]
    pub fn parse_flat(name: &str) -> Option<Digest> {
        let (algorithm, hex) = name.split_once('-')?;
        format!("{algorithm}:{hex}").parse().ok()
    }

    /// Makes every directory that is not there, durably.
    ///
    /// # Errors
    ///
    /// Fails as the disk does.
    pub fn create(&self, disk: &dyn Disk) -> io::Result<()> {
        let blobs = self.root.join("blobs");
        for directory in [
            &blobs,
            &self.uploads(),
            &self.journal(),
            &self.trash(),
            &self.quarantine(),
        ] {
            disk.create_directory(directory)?;
        }
        for algorithm in Algorithm::ALL {
            let directory = blobs.join(algorithm.name());
            disk.create_directory(&directory)?;
            for shard in 0..=u8::MAX {
                disk.create_directory(&self.shard(algorithm, shard))?;
            }
            disk.sync_directory(&directory)?;
        }
        disk.sync_directory(&blobs)?;
        disk.sync_directory(&self.root)
    }
}

/// Reads a small file; none when it is not there.
///
/// # Errors
///
/// Fails as the disk does, and on a file longer than `longest`.
pub fn read_whole(disk: &dyn Disk, path: &Path, longest: u64) -> io::Result<Option<Vec<u8>>> {
    let file = match disk.open(path, Access::Read) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let size = file.size()?;
    if size > longest {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut octets = vec![0; usize::try_from(size).unwrap_or(usize::MAX)];
    let mut filled = 0;
    while let Some(rest) = octets.get_mut(filled..)
        && !rest.is_empty()
    {
        match file.read_at(rest, filled as u64)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n_read => filled += n_read,
        }
    }
    Ok(Some(octets))
}
