//! The private directory of one running site: made, locked, and removed again.
//!
//! Its place is known beforehand, so that `outpost master` and `outpost status` find the control
//! socket in it. A lock tells a site that runs from the leftovers of one that was killed: leftovers
//! are cleared by the next start. Nothing is ever removed from a directory that is not ours.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use rustix::fs::{FlockOperation, flock};
use site::service::Service;

/// The directory, as long as the site runs.
#[derive(Debug)]
pub(crate) struct RunDir {
    path: PathBuf,
    /// Whether the directory itself goes away at the end.
    made: bool,
    /// Held open: the lock lasts as long as the file.
    _lock: File,
}

impl RunDir {
    /// The default directory of a site.
    pub(crate) fn default_path() -> PathBuf {
        let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        match runtime.filter(|path| path.is_absolute() && path.is_dir()) {
            Some(path) => path.join("outpost-up"),
            None => {
                let uid = rustix::process::getuid().as_raw();
                std::env::temp_dir().join(format!("outpost-up-{uid}"))
            }
        }
    }

    /// The admin socket of a service, in the directory of a site.
    pub(crate) fn admin_socket(directory: &Path, service: Service) -> PathBuf {
        directory.join(format!("{service}.admin"))
    }

    /// Makes the directory, or takes over one that a killed `outpost up` left behind.
    ///
    /// # Errors
    ///
    /// When a site runs there, when the directory belongs to another user or holds other things, or when
    /// the file system refuses.
    pub(crate) fn take(path: &Path) -> anyhow::Result<Self> {
        let path = std::path::absolute(path)?;
        let shown = path.display();
        let made = match DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
            Err(error) => {
                return Err(error)
                    .with_context(|| format!("cannot make the run directory {shown}"));
            }
        };
        if !made {
            check_private(&path)?;
        }
        let leftover = path.join(LOCK).exists();
        if !leftover && fs::read_dir(&path)?.next().is_some() {
            bail!("the run directory {shown} holds other files; name an empty or a new one");
        }
        let lock = lock(&path)?;
        clear(&path).with_context(|| format!("cannot clear the run directory {shown}"))?;
        Ok(Self {
            path,
            made: made || leftover,
            _lock: lock,
        })
    }

    /// The path; always absolute.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file that only this user can read.
    pub(crate) fn write(&self, name: &str, contents: impl AsRef<[u8]>) -> io::Result<()> {
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(self.path.join(name))?;
        file.write_all(contents.as_ref())
    }

    /// Makes a directory below it.
    pub(crate) fn make_dir(&self, name: &str) -> io::Result<()> {
        DirBuilder::new().mode(0o700).create(self.path.join(name))
    }

    /// Removes everything that was made.
    ///
    /// # Errors
    ///
    /// When the file system refuses.
    pub(crate) fn remove(self) -> io::Result<()> {
        clear(&self.path)?;
        fs::remove_file(self.path.join(LOCK))?;
        if self.made {
            fs::remove_dir(&self.path)
        } else {
            Ok(())
        }
    }
}

/// Refuses a directory that others can look into or change.
fn check_private(path: &Path) -> anyhow::Result<()> {
    let shown = path.display();
    let metadata = fs::symlink_metadata(path)
        .with_context(|| format!("cannot look at the run directory {shown}"))?;
    if !metadata.is_dir() {
        bail!("{shown} is not a directory; name another one with --run-dir");
    }
    if metadata.uid() != rustix::process::getuid().as_raw() {
        bail!("{shown} belongs to another user; name another one with --run-dir");
    }
    let mode = metadata.permissions().mode() & 0o7777;
    if mode & 0o077 != 0 {
        bail!(
            "{shown} is open to other users (mode {mode:04o}); make it private: chmod 700 {shown}"
        );
    }
    Ok(())
}

/// Takes the lock, or says who holds it.
fn lock(path: &Path) -> anyhow::Result<File> {
    let file = path.join(LOCK);
    for _ in 0..LOCK_ATTEMPTS {
        let mut lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&file)
            .with_context(|| format!("cannot open {}", file.display()))?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            let holder = fs::read_to_string(&file)?;
            bail!(
                "a site is running already: outpost up with pid {}, in {}; stop that one, or start \
                 another beside it with --run-dir and --net",
                holder.trim(),
                path.display(),
            );
        }
        // The holder before us may have removed the file between our `open` and our lock.
        let same = fs::metadata(&file)
            .is_ok_and(|found| lock.metadata().is_ok_and(|ours| ours.ino() == found.ino()));
        if same {
            lock.set_len(0)?;
            writeln!(lock, "{}", std::process::id())?;
            return Ok(lock);
        }
    }
    bail!("cannot lock {}", file.display())
}

/// Removes everything but the lock.
fn clear(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_name() == LOCK {
            continue;
        }
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// The lock file; it also holds the process id of its owner.
const LOCK: &str = "lock";
/// Rounds of a race that one round nearly always decides.
const LOCK_ATTEMPTS: usize = 5;

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    /// As a user makes one for a site.
    fn private() -> TempDir {
        let mode = fs::Permissions::from_mode(0o700);
        tempfile::Builder::new()
            .permissions(mode)
            .tempdir()
            .unwrap()
    }

    #[test]
    fn a_directory_that_was_made_is_private_and_goes_away() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("site");
        let run_dir = RunDir::take(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
        run_dir.make_dir("state").unwrap();
        run_dir.write("state/a", "text").unwrap();
        run_dir.remove().unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn an_empty_directory_of_the_user_is_emptied_but_stays() {
        let scratch = private();
        let run_dir = RunDir::take(scratch.path()).unwrap();
        run_dir.write("a", "text").unwrap();
        run_dir.remove().unwrap();
        assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
    }

    #[test]
    fn two_sites_do_not_share_a_directory() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("site");
        let first = RunDir::take(&path).unwrap();
        let refusal = RunDir::take(&path).unwrap_err().to_string();
        assert!(
            refusal.contains(&format!("pid {}", std::process::id())),
            "{refusal}"
        );
        first.remove().unwrap();
        RunDir::take(&path).unwrap().remove().unwrap();
    }

    #[test]
    fn what_a_killed_site_left_behind_is_cleared() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("site");
        let killed = RunDir::take(&path).unwrap();
        killed.make_dir("state").unwrap();
        killed.write("state/old", "text").unwrap();
        drop(killed);
        let run_dir = RunDir::take(&path).unwrap();
        assert!(!path.join("state").exists());
        run_dir.remove().unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn a_directory_with_other_things_in_it_is_left_alone() {
        let scratch = private();
        fs::write(scratch.path().join("precious"), "text").unwrap();
        let refusal = RunDir::take(scratch.path()).unwrap_err().to_string();
        assert!(refusal.contains("other files"), "{refusal}");
        assert_eq!(
            fs::read_to_string(scratch.path().join("precious")).unwrap(),
            "text"
        );
    }

    #[test]
    fn a_directory_that_others_can_enter_is_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("site");
        DirBuilder::new().mode(0o755).create(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let refusal = RunDir::take(&path).unwrap_err().to_string();
        assert!(refusal.contains("mode 0755"), "{refusal}");
    }

    #[test]
    fn a_link_is_not_followed() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("site");
        std::os::unix::fs::symlink("/tmp", &path).unwrap();
        let refusal = RunDir::take(&path).unwrap_err().to_string();
        assert!(refusal.contains("not a directory"), "{refusal}");
    }
}
