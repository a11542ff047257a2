//! The disks of nodes.
//!
//! In memory where there is enough of it. podman forces every file of an image to the disk, and
//! removes as many; three nodes that load six images each do so some thousand times in a few seconds,
//! and each is waited for on a disk that is mounted with `discard`. What a power cut does is the same
//! either way: what a process has written is there, flushed or not, because the kernel is the one of
//! the tests.
//!
//! `OUTPOST_NODE_DISKS` names another directory, on a file system that an overlay can lie on.

use std::path::{Path, PathBuf};
use std::sync::Once;

use rustix::fs::statvfs;

use crate::scratch::Scratch;

/// An empty disk.
///
/// One in memory goes away with its test in any case, one elsewhere stays when the test fails.
pub(super) fn empty(label: &str) -> Scratch {
    if let Some(directory) = std::env::var_os("OUTPOST_NODE_DISKS") {
        return Scratch::below(&PathBuf::from(directory), label);
    }
    let memory = Path::new("/dev/shm");
    if !has_room(memory) {
        return Scratch::new(label);
    }
    SWEEP.call_once(|| sweep(memory));
    Scratch::below(memory, label).unkept()
}

/// Whether the disks of three nodes fit into memory, with room for all else.
fn has_room(memory: &Path) -> bool {
    let free = statvfs(memory).map_or(0, |found| found.f_bavail.saturating_mul(found.f_frsize));
    is_memory(memory) && free.min(available()) >= ROOM
}

/// Whether a file system is in memory: elsewhere `/dev/shm` may be a directory like any other.
fn is_memory(directory: &Path) -> bool {
    rustix::fs::statfs(directory).is_ok_and(|found| found.f_type == TMPFS_MAGIC)
}

/// Free memory, in bytes.
fn available() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kilobytes = text.lines().find_map(|line| {
        line.strip_prefix("MemAvailable:")?
            .split_whitespace()
            .next()
    });
    kilobytes
        .and_then(|number| number.parse::<u64>().ok())
        .unwrap_or(0)
        * 1024
}

/// Removes what runs of the tests that were killed left behind.
fn sweep(memory: &Path) {
    for entry in std::fs::read_dir(memory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name
            .to_str()
            .and_then(|name| name.strip_prefix("outpost-test-"));
        let owner = owner.and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        if owner.is_some_and(|owner| !Path::new(&format!("/proc/{owner}")).exists()) {
            drop(std::fs::remove_dir_all(entry.path()));
        }
    }
}

/// The memory that must be free, in bytes: the swap matrix, which keeps three archives and three loaded images of
/// every service on every node, takes 2 GiB in all.
const ROOM: u64 = 6 << 30;

/// statfs(2).
const TMPFS_MAGIC: rustix::fs::FsWord = 0x0102_1994;

static SWEEP: Once = Once::new();
