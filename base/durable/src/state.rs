//! The state of a service: one file in a directory of its own, from which a restart continues.
//!
//! ```text
//! state  =  "outpost-SERVICE-state\n"  version (u32)  checksum of the rest (u32)  content
//! ```
//!
//! Integers are big endian. The file counts whole or not at all: one that cannot be read is moved aside.

use std::fmt;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::Rights;

/// How a service writes its state.
#[derive(Debug)]
pub struct Format {
    /// The name of the service.
    pub service: &'static str,
    /// The version that it writes, and the only one that it reads.
    pub version: u32,
    /// The checksum of the content.
    pub checksum: fn(&[u8]) -> u32,
    /// A file of more octets is no state of the service.
    pub max_size: u64,
}

/// Why octets are no state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// They do not begin as a state of this service does.
    #[error("this is no state of {0}")]
    Foreign(&'static str),
    /// Another version of the service wrote them.
    #[error("version {0} of the state is unknown")]
    Version(u32),
    /// They are not the octets that were written.
    #[error("the state is damaged")]
    Damaged,
}

impl Format {
    /// The octets at the beginning of the file.
    #[must_use]
    pub fn magic(&self) -> Vec<u8> {
        format!("outpost-{}-state\n", self.service).into_bytes()
    }

    /// The octets of the file with this content.
    #[must_use]
    pub fn encode(&self, content: &[u8]) -> Vec<u8> {
        let mut octets = self.magic();
        octets.extend(self.version.to_be_bytes());
        octets.extend((self.checksum)(content).to_be_bytes());
        octets.extend(content);
        octets
    }

    /// The content of a file.
    ///
    /// # Errors
    ///
    /// When the octets are not those that [`encode`](Self::encode) made.
    pub fn content<'a>(&self, octets: &'a [u8]) -> Result<&'a [u8], StateError> {
        let rest = octets.strip_prefix(self.magic().as_slice());
        let rest = rest.ok_or(StateError::Foreign(self.service))?;
        let (version, rest) = rest.split_first_chunk().ok_or(StateError::Damaged)?;
        let version = u32::from_be_bytes(*version);
        if version != self.version {
            return Err(StateError::Version(version));
        }
        let (sum, content) = rest.split_first_chunk().ok_or(StateError::Damaged)?;
        match (self.checksum)(content) == u32::from_be_bytes(*sum) {
            true => Ok(content),
            false => Err(StateError::Damaged),
        }
    }
}

/// The directory that holds the state, and how a `T` is read from it.
#[derive(Clone, Debug)]
pub struct Store<T> {
    directory: PathBuf,
    max_size: u64,
    decode: fn(&[u8]) -> Result<T, StateError>,
}

/// How reading the state went.
#[derive(Debug)]
pub enum Loaded<T> {
    /// It was read.
    Restored(T),
    /// There is none.
    Absent,
    /// It could not be read.
    Refused(Refused),
}

/// A state that could not be read.
#[derive(Debug)]
pub struct Refused {
    /// Its path.
    pub path: PathBuf,
    /// Why.
    pub reason: String,
    /// The path that it was moved to, or why it could not be moved.
    pub aside: io::Result<PathBuf>,
}

impl Refused {
    /// Says whether it was moved aside.
    #[must_use]
    pub fn moved(&self) -> String {
        match &self.aside {
            Ok(aside) => format!("was moved to {}", aside.display()),
            Err(error) => format!("cannot be moved aside: {error}"),
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {}: {}",
            self.path.display(),
            self.moved(),
            self.reason
        )
    }
}

impl<T> Store<T> {
    /// The state in a directory, which is made if it is not there.
    ///
    /// # Errors
    ///
    /// When the directory cannot be made.
    pub fn open(
        directory: &Path,
        format: &Format,
        decode: fn(&[u8]) -> Result<T, StateError>,
    ) -> io::Result<Self> {
        fs::create_dir_all(directory)?;
        Ok(Self {
            directory: directory.to_owned(),
            max_size: format.max_size,
            decode,
        })
    }

    /// The path of the state.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.directory.join("state")
    }

    /// Reads the state. One that cannot be read is never fatal.
    #[must_use]
    pub fn load(&self) -> Loaded<T> {
        let path = self.path();
        let reason = match self.read(&path) {
            Ok(octets) => match (self.decode)(&octets) {
                Ok(restored) => return Loaded::Restored(restored),
                Err(error) => error.to_string(),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Loaded::Absent,
            Err(error) => error.to_string(),
        };
        let aside = self.directory.join("state.refused");
        let aside = fs::rename(&path, &aside).map(|()| aside);
        Loaded::Refused(Refused {
            path,
            reason,
            aside,
        })
    }

    /// Replaces the state. Blocks until it is on disk.
    ///
    /// # Errors
    ///
    /// When it cannot be written; the state that was there stays.
    pub fn save(&self, octets: &[u8]) -> io::Result<()> {
        crate::replace(&self.path(), Rights::new(0o640), |file| {
            file.write_all(octets)
        })
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let size = fs::metadata(path)?.len();
        if size > self.max_size {
            return Err(io::Error::other(format!("{size} octets are too many")));
        }
        fs::read(path)
    }
}
