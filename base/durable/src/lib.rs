//! Files that are whole after a power cut: written beside their place, forced to the disk, and put
//! in place by a rename, whose directory is forced to the disk too.

pub mod state;
#[cfg(feature = "testing")]
pub mod testing;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _, fchown};
use std::path::Path;

use anyhow::Context as _;

/// The owner and mode of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights {
    /// The permissions.
    pub mode: u32,
    /// User and group; none keeps those of the writer.
    pub owner: Option<(u32, u32)>,
}

impl Rights {
    /// These permissions, and the owner that the writer is.
    #[must_use]
    pub const fn new(mode: u32) -> Self {
        Self { mode, owner: None }
    }

    /// Everybody may read it.
    pub const PUBLIC: Self = Self::new(0o644);

    /// Only the owner may read it.
    pub const PRIVATE: Self = Self::new(0o600);
}

/// Puts a file in its place, or another in the place of the one that is there.
///
/// # Errors
///
/// When it cannot be written; the old file is still there.
pub fn write(path: &Path, rights: Rights, mut contents: impl Read) -> anyhow::Result<()> {
    replace(path, rights, |file| io::copy(&mut contents, file).map(drop))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Replaces a file by what `fill` writes. Blocks until it is on disk: a power cut leaves the old file or the new one. One
/// writer of a path at a time: the file beside it has a fixed name.
///
/// # Errors
///
/// The first one of `fill` or of the system; the old file is still there.
pub fn replace<T>(
    path: &Path,
    rights: Rights,
    fill: impl FnOnce(&mut File) -> io::Result<T>,
) -> io::Result<T> {
    replace_by(&beside(path), path, rights, fill)
}

/// The same by way of a file of this name in the same directory: several processes, each with a name of its own, may
/// write the same path at the same time, and the last rename wins.
///
/// # Errors
///
/// The first one of `fill` or of the system; the old file is still there.
pub fn replace_by<T>(
    beside: &str,
    path: &Path,
    rights: Rights,
    fill: impl FnOnce(&mut File) -> io::Result<T>,
) -> io::Result<T> {
    let new = &path.with_file_name(beside);
    // The leftover of a process that was killed; and a link that another process put there is never followed.
    remove(new)?;
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(new)?;
    let written = fill(&mut file).and_then(|value| {
        give(&file, rights)?;
        file.sync_all()?;
        fs::rename(new, path)?;
        Ok(value)
    });
    if written.is_err() {
        // The first error tells more than one of this.
        drop(fs::remove_file(new));
    }
    let value = written?;
    sync_directory_of(path)?;
    Ok(value)
}

/// Gives a file that is there its owner and permissions.
///
/// # Errors
///
/// When the system refuses.
pub fn set_rights(path: &Path, rights: Rights) -> anyhow::Result<()> {
    let given = File::open(path).and_then(|file| {
        give(&file, rights)?;
        file.sync_all()
    });
    given.with_context(|| format!("cannot change the rights of {}", path.display()))
}

/// The owner first: changing it takes away what only root may keep.
fn give(file: &File, rights: Rights) -> io::Result<()> {
    if let Some((user, group)) = rights.owner {
        fchown(file, Some(user), Some(group))?;
    }
    file.set_permissions(fs::Permissions::from_mode(rights.mode))
}

/// Removes a file; one that is not there is removed already.
///
/// # Errors
///
/// When it is there and cannot be removed.
pub fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Forces to the disk that a file is in its directory, or is no more.
///
/// # Errors
///
/// When the disk refuses.
pub fn sync_directory_of(path: &Path) -> io::Result<()> {
    File::open(directory_of(path))?.sync_all()
}

/// The directory that a file lies in.
#[must_use]
pub fn directory_of(path: &Path) -> &Path {
    let directory = path.parent().filter(|it| !it.as_os_str().is_empty());
    directory.unwrap_or_else(|| Path::new("."))
}

/// The name under which a file is written before it has its own. It begins with a dot, so that
/// neither systemd nor podman reads it.
fn beside(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    format!(".{name}.outpost-new")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_put_in_place_with_its_rights_and_nothing_beside_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.toml");
        // A former attempt that was killed.
        fs::write(path.with_file_name(beside(&path)), "half").unwrap();
        write(&path, Rights::PRIVATE, &b"one"[..]).unwrap();
        write(&path, Rights::PUBLIC, &b"two"[..]).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        let names = fs::read_dir(directory.path()).unwrap().count();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!((mode & 0o7777, names), (0o644, 1));
        set_rights(&path, Rights::PRIVATE).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o600);
        remove(&path).unwrap();
        remove(&path).unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_write_that_fails_leaves_the_old_file_and_nothing_beside_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state");
        write(&path, Rights::PRIVATE, &b"old"[..]).unwrap();
        let error = replace(&path, Rights::PRIVATE, |file| {
            io::Write::write_all(file, b"half")?;
            Err::<(), _>(io::ErrorKind::StorageFull.into())
        });
        assert_eq!(error.unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_link_at_the_name_beside_is_removed_and_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let (path, other) = (
            directory.path().join("state"),
            directory.path().join("other"),
        );
        fs::write(&other, "of somebody else").unwrap();
        std::os::unix::fs::symlink(&other, path.with_file_name(beside(&path))).unwrap();
        write(&path, Rights::PRIVATE, &b"new"[..]).unwrap();
        assert_eq!(fs::read(&other).unwrap(), b"of somebody else");
        assert_eq!(fs::read(&path).unwrap(), b"new");
    }
}
