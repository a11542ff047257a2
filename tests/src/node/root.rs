//! The root file system of the nodes: built once, unpacked once, never written to.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::binaries::checkout;
use crate::daemon::run;

/// An unpacked Debian that all nodes lie over.
#[derive(Debug)]
pub struct Root {
    path: PathBuf,
}

impl Root {
    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// The root, or nothing where nodes cannot run: the reason is printed then, loudly.
///
/// `OUTPOST_NODE_ROOT` names an archive that `tests/nodes/build` made; without it, that script is asked
/// for one below the target directory.
#[must_use]
pub fn or_skip() -> Option<&'static Root> {
    static ROOT: OnceLock<Result<Root, String>> = OnceLock::new();
    match ROOT.get_or_init(find) {
        Ok(root) => Some(root),
        Err(reason) => {
            eprintln!("!!! SKIPPED: nodes cannot run here: {}", reason.trim());
            None
        }
    }
}

/// A bare Debian 12 with these packages, or nothing where it cannot be had: the reason is printed then, loudly.
#[must_use]
pub fn bare_or_skip(packages: &[String]) -> Option<Root> {
    let mut command = Command::new(checkout().join("tests/nodes/bare"));
    command.arg(ROOTS).args(packages);
    let root = succeed(command).map(|path| Root {
        path: PathBuf::from(path.trim()),
    });
    root.inspect_err(|reason| {
        eprintln!("!!! SKIPPED: there is no bare machine: {}", reason.trim());
    })
    .ok()
}

fn find() -> Result<Root, String> {
    for program in [
        "unshare",
        "nsenter",
        "setpriv",
        "systemd-nspawn",
        "ignition-validate",
    ] {
        let mut which = Command::new("sh");
        which.args(["-c", "command -v \"$0\"", program]);
        succeed(which).map_err(|_| format!("{program} is not installed"))?;
    }
    let archive = match std::env::var_os("OUTPOST_NODE_ROOT") {
        Some(archive) => PathBuf::from(archive),
        None => build()?,
    };
    let root = unpack(&archive)?;
    // A container without an init tells whether nspawn may do here what it has to.
    let mut probe = Command::new("systemd-nspawn");
    probe
        .args(["--quiet", "--register=no", "--keep-unit", "--read-only"])
        .arg("--directory")
        .arg(root.path())
        .args(["--resolv-conf=off", "--timezone=off", "/usr/bin/true"]);
    succeed(probe)?;
    Ok(root)
}

/// Has the script build the archive, unless it is there.
fn build() -> Result<PathBuf, String> {
    // target/<profile>/deps/it-0123 → target/nodes
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let target = this.ancestors().nth(3).ok_or("no target directory")?;
    let mut command = Command::new(checkout().join("tests/nodes/build"));
    command.arg(target.join("nodes"));
    Ok(PathBuf::from(succeed(command)?.trim()))
}

/// Unpacks it below /var/tmp, unless it is there. Whoever is first renames the whole into place.
fn unpack(archive: &Path) -> Result<Root, String> {
    let name = archive.file_stem().ok_or("the archive has no name")?;
    let path = Path::new(ROOTS).join(name);
    if path.is_dir() {
        return Ok(Root { path });
    }
    let new = path.with_extension(format!("new-{}", std::process::id()));
    std::fs::create_dir_all(&new).map_err(|error| format!("{}: {error}", new.display()))?;
    let mut tar = Command::new("tar");
    tar.arg("--extract").arg("--file").arg(archive);
    tar.arg("--directory").arg(&new);
    tar.args([
        "--preserve-permissions",
        "--numeric-owner",
        "--exclude=./dev/*",
    ]);
    succeed(tar)?;
    if std::fs::rename(&new, &path).is_err() {
        drop(std::fs::remove_dir_all(&new));
    }
    Ok(Root { path })
}

fn succeed(command: Command) -> Result<String, String> {
    let shown = command.get_program().to_string_lossy().into_owned();
    let (status, out, complaint) = run(command);
    if status.success() {
        Ok(out)
    } else {
        Err(format!("{shown}: {status} {out}{complaint}"))
    }
}

/// The directory of the roots.
const ROOTS: &str = "/var/tmp/outpost-nodes";
