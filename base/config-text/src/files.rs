//! The files that a file refers to, without a file system.

use std::io;
use std::path::{Path, PathBuf};

/// How a parser reaches files; it opens none itself.
pub trait Files {
    /// Reads a file's octets.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    fn read(&mut self, path: &Path) -> io::Result<Vec<u8>>;

    /// The files in a directory, in any order.
    ///
    /// # Errors
    ///
    /// When the directory cannot be read.
    fn list(&mut self, directory: &Path) -> io::Result<Vec<PathBuf>>;
}

/// One file's octets, whatever its name, and no directories.
#[derive(Clone, Copy, Debug)]
pub struct OneFile<'a>(pub &'a [u8]);

impl Files for OneFile<'_> {
    fn read(&mut self, _path: &Path) -> io::Result<Vec<u8>> {
        Ok(self.0.to_vec())
    }

    fn list(&mut self, _directory: &Path) -> io::Result<Vec<PathBuf>> {
        Err(io::ErrorKind::NotFound.into())
    }
}
