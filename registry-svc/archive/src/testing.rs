//! Archives in memory and on the disk, for tests.

#![expect(clippy::unwrap_used, reason = "a test fails by it")]

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::PathBuf;

use crate::catalogue::Files;
use crate::entries::{Entries, File};

/// A directory that goes away with the test.
#[derive(Debug)]
pub struct Scratch(tempfile::TempDir);

impl Default for Scratch {
    fn default() -> Self {
        Self(tempfile::tempdir().unwrap())
    }
}

impl Scratch {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn write(&self, name: &str, bytes: &[u8]) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
}

/// Files by name.
#[derive(Debug, Default)]
pub struct Memory {
    entries: Entries,
    bytes: BTreeMap<String, Vec<u8>>,
}

impl Memory {
    pub fn file(mut self, name: &str, bytes: impl Into<Vec<u8>>) -> Self {
        let bytes = bytes.into();
        let file = File {
            size: bytes.len() as u64,
            segment: 0,
            offset: 0,
        };
        self.entries.add_file(name, file).unwrap();
        self.bytes.insert(name.to_owned(), bytes);
        self
    }

    pub fn link(mut self, name: &str, target: &str) -> Self {
        self.entries.add_symlink(name, target).unwrap();
        self
    }
}

impl Files for Memory {
    fn entries(&self) -> &Entries {
        &self.entries
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn Read + Send + '_>> {
        let found = self.entries.file(name).map(|(name, _)| name);
        let bytes = found.and_then(|name| self.bytes.get(name));
        match bytes {
            Some(bytes) => Ok(Box::new(bytes.as_slice())),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }
}
