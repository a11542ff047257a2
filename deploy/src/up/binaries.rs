//! Finds the service binaries: built from the checkout, or beside the running one.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};
use daemon::{errln, outln};

use site::service::{PerService, Service};

/// Finds the binaries, after building those of `services` if this is a checkout and `build` is wanted.
///
/// # Errors
///
/// When the build fails or a binary of `services` is missing.
pub(crate) fn find(build: bool, services: &[Service]) -> anyhow::Result<PerService<PathBuf>> {
    let own = env::current_exe().context("cannot find the running executable")?;
    let directory = own
        .parent()
        .context("the running executable is in no directory")?;
    let checkout = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    if build && let Some(place) = BuildPlace::of(directory, checkout.as_deref()) {
        build_services(&place, services)?;
    }
    let paths = PerService::from_fn(|service| directory.join(service.name()));
    let missing: Vec<&str> = paths
        .iter()
        .filter(|(service, path)| services.contains(service) && !path.is_file())
        .map(|(service, _)| service.name())
        .collect();
    if !missing.is_empty() {
        bail!(
            "no {} beside {}; build with: cargo build --release, or install the services there",
            missing.join(", no "),
            own.display(),
        );
    }
    Ok(paths)
}

/// A checkout, and the profile and target directory that the running executable was built with.
#[derive(Clone, Debug, PartialEq, Eq)]
struct BuildPlace {
    checkout: PathBuf,
    target: PathBuf,
    profile: OsString,
}

impl BuildPlace {
    /// The place, if the executable's directory belongs to Cargo and a checkout is known: from
    /// `cargo run`, which names the package's directory, or as a directory above the executable.
    fn of(directory: &Path, package: Option<&Path>) -> Option<Self> {
        if !directory.join(".cargo-lock").exists() {
            return None;
        }
        let is_checkout = |path: &&Path| {
            Service::ALL
                .iter()
                .all(|service| path.join(service.name()).join("Cargo.toml").is_file())
        };
        let checkout = package
            .and_then(Path::parent)
            .filter(is_checkout)
            .or_else(|| directory.ancestors().find(is_checkout))?;
        Some(Self {
            checkout: checkout.to_owned(),
            target: directory.parent()?.to_owned(),
            profile: directory.file_name()?.to_owned(),
        })
    }

    fn command(&self, services: &[Service]) -> Command {
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.current_dir(&self.checkout).arg("build");
        // The directory of the profile `dev` is called `debug`.
        let profile = if self.profile == "debug" {
            "dev".into()
        } else {
            self.profile.clone()
        };
        command.arg("--profile").arg(profile);
        command.arg("--target-dir").arg(&self.target);
        // Without `-p` Cargo unites the features of all default members, as `cargo run --bin outpost` did, and
        // finds everything but the services themselves built.
        for service in services {
            command.args(["--bin", service.name()]);
        }
        // Build scripts would take the variables that `cargo run` sets for this package for a change.
        for (name, _) in env::vars_os() {
            if is_of_one_package(&name) {
                command.env_remove(name);
            }
        }
        command
    }
}

/// Whether a variable is one that Cargo sets for the package that it runs or builds.
fn is_of_one_package(name: &OsStr) -> bool {
    let prefixes = [
        "CARGO_PKG_",
        "CARGO_MANIFEST_",
        "CARGO_BIN_",
        "CARGO_CRATE_",
        "CARGO_PRIMARY_",
    ];
    name.to_str()
        .is_some_and(|name| prefixes.iter().any(|prefix| name.starts_with(prefix)))
}

/// Has Cargo bring the binaries up to date; its output goes where ours goes.
fn build_services(place: &BuildPlace, services: &[Service]) -> anyhow::Result<()> {
    let directory = place.target.join(&place.profile);
    let is_built = |service: &Service| directory.join(service.name()).is_file();
    if !services.iter().all(is_built) {
        outln!("Building the services; the first time takes some minutes.");
    }
    let mut command = place.command(services);
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => bail!("cargo build ended with {status}"),
        Err(error) => {
            // Without Cargo there may still be binaries; whether they are current is unknown.
            errln!("outpost: cannot run cargo ({error}); using the services as they are");
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    struct Scratch(tempfile::TempDir);

    impl Scratch {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn path(&self) -> &Path {
            self.0.path()
        }

        fn file(&self, name: &str) -> PathBuf {
            let path = self.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "").unwrap();
            path
        }

        fn checkout(&self) {
            for service in Service::ALL {
                self.file(&format!("{service}/Cargo.toml"));
            }
        }
    }

    fn arguments(place: &BuildPlace) -> String {
        let words: Vec<String> = place
            .command(&[Service::Healthd, Service::Clusterd])
            .get_args()
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        words.join(" ")
    }

    #[test]
    fn what_cargo_says_about_one_package_is_told_from_what_people_set() {
        for name in [
            "CARGO_PKG_NAME",
            "CARGO_MANIFEST_DIR",
            "CARGO_MANIFEST_PATH",
        ] {
            assert!(is_of_one_package(OsStr::new(name)), "{name}");
        }
        for name in [
            "CARGO",
            "CARGO_HOME",
            "CARGO_TARGET_DIR",
            "CARGO_BUILD_JOBS",
            "PATH",
        ] {
            assert!(!is_of_one_package(OsStr::new(name)), "{name}");
        }
    }

    #[test]
    fn an_installed_executable_builds_nothing() {
        let scratch = Scratch::new();
        scratch.checkout();
        scratch.file("bin/outpost");
        assert_eq!(
            BuildPlace::of(
                &scratch.path().join("bin"),
                Some(&scratch.path().join("deploy"))
            ),
            None
        );
    }

    #[test]
    fn the_target_directory_inside_the_checkout_leads_to_it() {
        let scratch = Scratch::new();
        scratch.checkout();
        scratch.file("target/release/.cargo-lock");
        let place = BuildPlace::of(&scratch.path().join("target/release"), None).unwrap();
        assert_eq!(place.checkout, scratch.path());
        let target = scratch.path().join("target");
        assert_eq!(
            arguments(&place),
            format!(
                "build --profile release --target-dir {} --bin healthd --bin clusterd",
                target.display()
            )
        );
    }

    #[test]
    fn a_target_directory_elsewhere_needs_cargo_to_name_the_package() {
        let scratch = Scratch::new();
        let checkout = Scratch::new();
        checkout.checkout();
        scratch.file("t/debug/.cargo-lock");
        let directory = scratch.path().join("t/debug");
        assert_eq!(BuildPlace::of(&directory, None), None);
        let place = BuildPlace::of(&directory, Some(&checkout.path().join("deploy"))).unwrap();
        assert_eq!(place.checkout, checkout.path());
        assert!(arguments(&place).starts_with("build --profile dev --target-dir "));
    }
}
