//! clusterd in the directory of a test.

use std::process::Command;

use crate::binaries::binary;
use crate::daemon::Daemon;
use crate::scratch::Scratch;

/// Starts clusterd by the `clusterd.toml` of a directory; its admin socket is `clusterd.admin` there.
#[must_use]
pub fn start(files: &Scratch) -> Daemon {
    let mut command = Command::new(binary("clusterd"));
    command.arg("serve").arg("--config");
    command.arg(files.join("clusterd.toml"));
    command
        .arg("--admin-socket")
        .arg(files.join("clusterd.admin"));
    Daemon::start("clusterd", command)
}
