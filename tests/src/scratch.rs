//! Directories and addresses that belong to one test alone.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory that goes away with the test, unless the test fails.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    /// Whether it stays when the test fails.
    is_kept: bool,
}

impl Scratch {
    /// Makes a new directory, `label` in its name.
    #[must_use]
    pub fn new(label: &str) -> Self {
        Self::below(&std::env::temp_dir(), label)
    }

    /// Makes a new directory somewhere else.
    ///
    /// # Panics
    ///
    /// Panics if it cannot be made.
    #[must_use]
    pub fn below(parent: &Path, label: &str) -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("outpost-test-{}-{number}-{label}", std::process::id());
        let path = parent.join(name);
        std::fs::create_dir_all(&path)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self {
            path,
            is_kept: true,
        }
    }

    /// The same, gone with the test even if it fails.
    #[must_use]
    pub fn unkept(mut self) -> Self {
        self.is_kept = false;
        self
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A path in it.
    #[must_use]
    pub fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Writes a file in it, as an editor does: whole, in the place of the old one.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.join(name);
        let new = self.join(&format!("{name}.new"));
        std::fs::write(&new, text).expect("scratch file is written");
        std::fs::rename(&new, &path).expect("scratch file is put in place");
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.is_kept && std::thread::panicking() {
            eprintln!("kept for inspection: {}", self.path.display());
        } else {
            drop(std::fs::remove_dir_all(&self.path));
        }
    }
}

/// A loopback address that no other test uses, nor another run of the tests at the same time.
///
/// With an address of its own a test may use fixed ports, and a daemon's default ports besides.
#[must_use]
pub fn loopback() -> Ipv4Addr {
    let number = NEXT.fetch_add(1, Ordering::Relaxed) % (NETWORKS * 254);
    let process = std::process::id() % PROCESSES;
    // 127.64.0.1 and up: far from 127.0.0.1 and from what `outpost up` takes.
    let [.., second, third] = (process * NETWORKS + number / 254).to_be_bytes();
    let fourth = u8::try_from(number % 254 + 1).expect("less than 255");
    Ipv4Addr::new(127, 64 + second, third, fourth)
}

/// An address and a port on it.
#[must_use]
pub fn at(ip: Ipv4Addr, port: u16) -> SocketAddr {
    SocketAddr::from((ip, port))
}

/// The number of process ids that are kept apart.
const PROCESSES: u32 = 4096;

/// Networks of 254 addresses that a process has: more than all tests take, so that none comes around while
/// a long test still has it.
const NETWORKS: u32 = 128 * 256 / PROCESSES;

static NEXT: AtomicU32 = AtomicU32::new(0);
