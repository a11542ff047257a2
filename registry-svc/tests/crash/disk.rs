//! A disk of its own for a node: a file system in a file, which an error turns read-only as `errors=remount-ro` says, and which
//! is repaired and mounted again.
//!
//! The test that uses it runs in a mount namespace of its own, so nothing of it is left after it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A node's disk: it has room for everything that its clients push.
const SIZE: u64 = 1 << 30;

/// A disk that is mounted.
pub(super) struct Disk {
    image: PathBuf,
    at: PathBuf,
}

impl Disk {
    pub(super) fn new(directory: &Path, name: &str) -> Self {
        let disk = Self {
            image: directory.join(format!("{name}.img")),
            at: directory.join(format!("root-{name}")),
        };
        let file = fs::File::create(&disk.image).unwrap();
        file.set_len(SIZE).unwrap();
        fs::create_dir(&disk.at).unwrap();
        let image = disk.image.to_str().unwrap();
        run("mkfs.ext4", &["-q", "-m", "0", image]);
        disk.mount();
        disk
    }

    fn mount(&self) {
        let (image, at) = (self.image.to_str().unwrap(), self.at.to_str().unwrap());
        run("mount", &["-o", "loop,errors=remount-ro", image, at]);
    }

    /// The kernel finds an error on it: from here on it is read-only, also for files that are open.
    pub(super) fn fail(&self) {
        let at = self.at.to_str().unwrap();
        let device = run("findmnt", &["-n", "-o", "SOURCE", at]);
        let device = device.trim().strip_prefix("/dev/").expect("a device");
        let path = format!("/sys/fs/ext4/{device}/trigger_fs_error");
        fs::write(path, "1").unwrap();
        assert!(fs::write(self.at.join("probe"), "1").is_err(), "read-only");
    }

    /// Repairs it and mounts it for writing; no process has it.
    pub(super) fn repair(&self) {
        run("umount", &[self.at.to_str().unwrap()]);
        let mut check = Command::new("e2fsck");
        // 1 says that something was corrected.
        let status = check.arg("-p").arg(&self.image).output().unwrap().status;
        assert!(matches!(status.code(), Some(0 | 1)), "e2fsck: {status}");
        self.mount();
    }
}

impl Drop for Disk {
    /// Lets go of it, so that the directory can be removed.
    fn drop(&mut self) {
        drop(Command::new("umount").arg("--lazy").arg(&self.at).status());
    }
}

fn run(program: &str, arguments: &[&str]) -> String {
    let done = Command::new(program).args(arguments).output().unwrap();
    let complaint = String::from_utf8_lossy(&done.stderr);
    assert!(
        done.status.success(),
        "{program} {arguments:?}: {complaint}"
    );
    String::from_utf8(done.stdout).unwrap()
}
