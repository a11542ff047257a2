//! Files that are whole after a power cut: written beside their place, forced to the disk, and put
//! in place by a rename, whose directory is forced to the disk too.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};

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
    /// Everybody may read it.
    pub const PUBLIC: Self = Self {
        mode: 0o644,
        owner: None,
    };

    /// Only the owner may read it.
    pub const PRIVATE: Self = Self {
        mode: 0o600,
        owner: None,
    };
}

/// Puts a file in its place, or another in the place of the one that is there.
///
/// # Errors
///
/// When it cannot be written; the old file is still there.
pub fn write(path: &Path, rights: Rights, contents: impl Read) -> anyhow::Result<()> {
    place(path, rights, contents).with_context(|| format!("cannot write {}", path.display()))
}

fn place(path: &Path, rights: Rights, mut contents: impl Read) -> io::Result<()> {
    let beside = beside(path);
    // The leftover of a process that was killed.
    remove(&beside)?;
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&beside)?;
    let written = io::copy(&mut contents, &mut file)
        .and_then(|_| file.flush())
        .and_then(|()| give(&file, rights))
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        // The first error is the one to tell.
        drop(fs::remove_file(&beside));
    }
    written?;
    sync_directory_of(path)
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
    match path.parent() {
        Some(directory) => File::open(directory)?.sync_all(),
        None => Ok(()),
    }
}

/// The name under which a file is written before it has its own. It begins with a dot, so that
/// neither systemd nor podman reads it.
fn beside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.outpost-new"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_put_in_place_with_its_rights_and_nothing_beside_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.toml");
        // A former attempt that was killed.
        fs::write(beside(&path), "half").unwrap();
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
}
