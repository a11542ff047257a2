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

    /// Makes a build of a service with these bytes at the end of its program, in a directory; gives its archive.
    ///
    /// # Panics
    ///
    /// Panics if it cannot be made.
    #[must_use]
    pub fn further_build(&self, service: &str, directory: &Path, bytes: &[u8]) -> PathBuf {
        let programs = directory.join("programs");
        create_dir_all(&programs).expect("the directory is writable");
        let good = self.directory.join("programs/good");
        another(&good.join(service), &programs, service, bytes)
            .and_then(|()| copy(self.outpost(), programs.join("outpost")).map(drop))
            .expect("programs are copied");
        build(&programs, directory, &[service]);
        directory.join(format!("{service}.tar"))
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
        another(&good, &programs.join("new"), name, b"another build")
            .map_err(|error| error.to_string())?;
        // It is given arguments that it does not understand, and ends.
        copy(binary("responder"), programs.join("broken").join(name))
            .map_err(|error| error.to_string())?;
    }
    for kind in ["good", "new", "broken"] {
        build(
            &programs.join(kind),
            &images.directory.join(kind),
            &SERVICES,
        );
    }
    Ok(())
}

/// Copies a program with bytes after its sections, which change nothing but its digest.
fn another(program: &Path, directory: &Path, name: &str, bytes: &[u8]) -> std::io::Result<()> {
    let mut octets = read(program)?;
    octets.extend(bytes);
    let path = directory.join(name);
    write(&path, octets)?;
    set_permissions(&path, Permissions::from_mode(0o755))
}

/// Has `outpost` build the images of services.
fn build(programs: &Path, output: &Path, services: &[&str]) {
    let mut build = Command::new(binary("outpost"));
    build.args(["image", "build", "--binaries"]).arg(programs);
    build.arg("--checkout").arg(checkout());
    build.arg("--output").arg(output).args(services);
    // It is what is tested: without images, no test of nodes would run, and none would say so.
    succeed(build).unwrap_or_else(|reason| panic!("no images: {reason}"));
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
