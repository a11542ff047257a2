//! Images of the services as the project builds them, from the binaries under test.

use std::fs::{Permissions, copy, create_dir_all, read, set_permissions, write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::binaries::{SERVICES, binary, checkout};
use crate::daemon::run;

/// Archives of every service, and the command `outpost` as nodes have it.
#[derive(Debug)]
pub struct Images {
    directory: PathBuf,
}

impl Images {
    /// The archive of a service.
    #[must_use]
    pub fn archive(&self, service: &str) -> PathBuf {
        self.directory.join("good").join(format!("{service}.tar"))
    }

    /// Another build of the same service.
    #[must_use]
    pub fn new_build(&self, service: &str) -> PathBuf {
        self.directory.join("new").join(format!("{service}.tar"))
    }

    /// An image of the service's name that never serves.
    #[must_use]
    pub fn broken(&self, service: &str) -> PathBuf {
        self.directory.join("broken").join(format!("{service}.tar"))
    }

    /// The command `outpost`.
    #[must_use]
    pub fn outpost(&self) -> PathBuf {
        self.directory.join("programs/good/outpost")
    }
}

/// The images, made once, or nothing where they cannot be made: the reason is printed then, loudly.
///
/// `OUTPOST_IMAGES` names a directory in which an earlier run has made them.
#[must_use]
pub fn images_or_skip() -> Option<&'static Images> {
    static IMAGES: OnceLock<Result<Images, String>> = OnceLock::new();
    match IMAGES.get_or_init(find) {
        Ok(images) => Some(images),
        Err(reason) => {
            eprintln!("!!! SKIPPED: there are no images: {}", reason.trim());
            None
        }
    }
}

fn find() -> Result<Images, String> {
    let given = std::env::var_os("OUTPOST_IMAGES").map(PathBuf::from);
    let directory = given.unwrap_or_else(|| PathBuf::from("/var/tmp/outpost-nodes/images"));
    let images = Images { directory };
    if !is_fresh(&images) {
        make(&images)?;
    }
    Ok(images)
}

/// Whether every archive is younger than every program.
fn is_fresh(images: &Images) -> bool {
    let age = |path: &Path| path.metadata().and_then(|found| found.modified()).ok();
    let Some(oldest) = SERVICES
        .iter()
        .flat_map(|service| {
            [
                images.archive(service),
                images.new_build(service),
                images.broken(service),
            ]
        })
        .map(|path| age(&path))
        .min()
        .flatten()
    else {
        return false;
    };
    let programs = SERVICES.iter().chain([&"outpost"]);
    programs
        .map(|name| age(&binary(name)))
        .all(|time| time.is_some_and(|time| time < oldest))
}

fn make(images: &Images) -> Result<(), String> {
    let programs = images.directory.join("programs");
    for kind in ["good", "new", "broken"] {
        create_dir_all(programs.join(kind)).map_err(|error| error.to_string())?;
    }
    for name in SERVICES.iter().chain([&"outpost"]) {
        let good = programs.join("good").join(name);
        let mut strip = Command::new("strip");
        strip.arg("-o").arg(&good).arg(binary(name));
        succeed(strip)?;
        // Bytes after the sections of a program change nothing but its digest.
        let mut octets = read(&good).map_err(|error| error.to_string())?;
        octets.extend(b"another build");
        let new = programs.join("new").join(name);
        write(&new, octets)
            .and_then(|()| set_permissions(&new, Permissions::from_mode(0o755)))
            .map_err(|error| error.to_string())?;
        // It is given arguments that it does not understand, and ends.
        copy(binary("responder"), programs.join("broken").join(name))
            .map_err(|error| error.to_string())?;
    }
    for kind in ["good", "new", "broken"] {
        let mut build = Command::new(binary("outpost"));
        build
            .args(["image", "build", "--binaries"])
            .arg(programs.join(kind))
            .arg("--checkout")
            .arg(checkout())
            .arg("--output")
            .arg(images.directory.join(kind));
        succeed(build)?;
    }
    Ok(())
}

fn succeed(command: Command) -> Result<(), String> {
    let shown = command.get_program().to_string_lossy().into_owned();
    let (status, out, complaint) = run(command);
    if status.success() {
        Ok(())
    } else {
        Err(format!("{shown}: {status} {out}{complaint}"))
    }
}
