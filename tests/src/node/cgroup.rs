//! A cgroup for one start of a node.
//!
//! nspawn puts the node's processes below the group that it is started in, and wants that one to itself.

use std::fs::{create_dir, read_dir, remove_dir};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

/// A group in each tree that systemd looks at. Dropped, it is removed.
#[derive(Debug)]
pub(super) struct Cgroup {
    directories: Vec<PathBuf>,
}

impl Cgroup {
    /// Makes a new one.
    ///
    /// # Panics
    ///
    /// Panics if this process may not.
    pub(super) fn new(label: &str) -> Self {
        SWEEP.call_once(sweep);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}-{number}-{label}", std::process::id());
        let directories: Vec<PathBuf> = trees().iter().map(|tree| tree.join(&name)).collect();
        for directory in &directories {
            create_dir(directory)
                .unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
        }
        Self { directories }
    }

    /// Its path in each tree.
    pub(super) fn directories(&self) -> &[PathBuf] {
        &self.directories
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        self.directories
            .iter()
            .for_each(|directory| remove(directory));
    }
}

/// The trees: two on a machine that has both versions of cgroups, and one on others.
fn trees() -> Vec<PathBuf> {
    let mount = Path::new("/sys/fs/cgroup");
    let both = ["unified", "systemd"].map(|name| mount.join(name));
    let both: Vec<PathBuf> = both.into_iter().filter(|tree| tree.is_dir()).collect();
    if both.is_empty() {
        vec![mount.to_owned()]
    } else {
        both
    }
}

/// Removes a group and those below it. One that still has a process stays.
fn remove(directory: &Path) {
    for entry in read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove(&entry.path());
        }
    }
    drop(remove_dir(directory));
}

/// Removes what runs of the tests that were killed left behind.
fn sweep() {
    for entry in trees().iter().flat_map(read_dir).flatten().flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let owner = owner.and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        if owner.is_some_and(|owner| !Path::new(&format!("/proc/{owner}")).exists()) {
            remove(&entry.path());
        }
    }
}

/// Start of the name of every group of the tests.
const PREFIX: &str = "outpost-test-";

static NEXT: AtomicU32 = AtomicU32::new(0);
static SWEEP: Once = Once::new();
