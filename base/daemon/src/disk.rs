//! Small files off the disk: read within a bound, and looked at without being read.

use std::fs::{self, File};
use std::io::{self, Read, Write as _};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use config_text::Files;

/// A larger file is surely no configuration, key or list that people write.
pub const MAX_FILE_SIZE: u64 = 16 << 20;

/// A file's octets.
///
/// # Errors
///
/// When it cannot be read or is larger than [`MAX_FILE_SIZE`].
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut octets = Vec::new();
    // Whatever it is, a pipe too, no more than this is read.
    File::open(path)?
        .take(MAX_FILE_SIZE + 1)
        .read_to_end(&mut octets)?;
    if u64::try_from(octets.len()).is_ok_and(|length| length > MAX_FILE_SIZE) {
        return Err(io::Error::other(format!(
            "larger than the {MAX_FILE_SIZE} bytes allowed"
        )));
    }
    Ok(octets)
}

/// Replaces a file as a whole: there is the old one or the new one, never half of one. Blocks until it is on disk.
///
/// # Errors
///
/// When it cannot be written; a file that was there stays.
pub fn replace(path: &Path, octets: &[u8]) -> io::Result<()> {
    let new = path.with_added_extension("new");
    let mut options = File::options();
    let options = options.write(true).create(true).truncate(true).mode(0o640);
    let mut file = options.open(&new)?;
    file.write_all(octets)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    // The rename itself is on disk when its directory is.
    let directory = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    File::open(directory.unwrap_or_else(|| Path::new(".")))?.sync_all()
}

/// The file system, as parsers reach it: files of no more than [`MAX_FILE_SIZE`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Disk;

impl Files for Disk {
    fn read(&mut self, path: &Path) -> io::Result<Vec<u8>> {
        read(path)
    }

    fn list(&mut self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        list(directory)
    }
}

/// The entries of a directory, in any order.
///
/// # Errors
///
/// When it cannot be read.
pub fn list(directory: &Path) -> io::Result<Vec<PathBuf>> {
    fs::read_dir(directory)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect()
}

/// Tells one state of a file from another without reading it; `None` for a file that cannot
/// be inspected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp(Option<[u64; 5]>);

impl Stamp {
    /// The state of a file at this moment.
    #[must_use]
    pub fn of(path: &Path) -> Self {
        let fields = |metadata: fs::Metadata| {
            [
                metadata.mtime().cast_unsigned(),
                metadata.mtime_nsec().cast_unsigned(),
                metadata.len(),
                metadata.ino(),
                metadata.dev(),
            ]
        };
        Self(fs::metadata(path).ok().map(fields))
    }

    /// The length of the file; 0 for one that cannot be inspected.
    #[must_use]
    pub fn length(self) -> u64 {
        self.0.map_or(0, |[_, _, length, ..]| length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endless_file_is_refused() {
        let error = read(Path::new("/dev/zero")).unwrap_err();
        assert!(error.to_string().starts_with("larger than"), "{error}");
    }

    #[test]
    fn a_stamp_changes_with_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let none = Stamp::of(&path);
        fs::write(&path, "a").unwrap();
        let first = Stamp::of(&path);
        assert_eq!(first, Stamp::of(&path));
        fs::write(&path, "ab").unwrap();
        let second = Stamp::of(&path);
        fs::remove_file(&path).unwrap();
        assert!(none != first && first != second);
        assert_eq!(none, Stamp::of(&path));
    }
}
