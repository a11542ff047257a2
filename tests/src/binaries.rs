//! Finds the binaries under test, and builds those that are older than their sources.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

/// The services of a site with a cluster.
pub const ALL_SERVICES: [&str; 7] = [
    "healthd",
    "clusterd",
    "dns-authd",
    "dns-recursor",
    "lb-proxy",
    "registry-svc",
    "timesync-agent",
];

/// The services of a site without one.
pub const SERVICES: [&str; 6] = [
    "healthd",
    "dns-authd",
    "dns-recursor",
    "lb-proxy",
    "registry-svc",
    "timesync-agent",
];

/// The binary `name`: a service, `outpost`, or a helper of this crate.
///
/// Built on its first use with the profile of the tests, which costs nothing when it is fresh.
/// `OUTPOST_BINARIES` names a directory that already has all of them, fresh: nothing is built then.
///
/// # Panics
///
/// Panics if it does not build.
#[must_use]
pub fn binary(name: &str) -> PathBuf {
    if let Some(given) = std::env::var_os("OUTPOST_BINARIES") {
        return Path::new(&given).join(name);
    }
    // Held while cargo runs, so that a second test waits for the same build.
    let mut built = BUILT
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(path) = built.get(name) {
        return path.clone();
    }
    let path = build(name);
    built.insert(name.to_owned(), path.clone());
    path
}

fn build(name: &str) -> PathBuf {
    let package = match name {
        "outpost" => "deploy",
        "responder" | "rig" => "tests",
        service => service,
    };
    // target/<profile>/deps/it-0123 → target/<profile>
    let this = std::env::current_exe().expect("a process knows its own path");
    let profile_directory = this
        .ancestors()
        .nth(2)
        .expect("test binaries lie in target/x/deps");
    let mut target = profile_directory
        .parent()
        .expect("the profile has a parent");
    // target/<triple>/<profile>: cargo itself adds the triple to the directory that it is given.
    if let (Some(triple), Some(above)) = (std::env::var_os("CARGO_BUILD_TARGET"), target.parent())
        && target.ends_with(triple)
    {
        target = above;
    }
    let release = profile_directory
        .file_name()
        .is_some_and(|name| name == "release");

    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .args([
            "build",
            "--quiet",
            "--package",
            package,
            "--bin",
            name,
            "--target-dir",
        ])
        .arg(target)
        .args(release.then_some("--release"))
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    let status = command.status().expect("cargo starts");
    assert!(status.success(), "{name} does not build");
    profile_directory.join(name)
}

static BUILT: Mutex<BTreeMap<String, PathBuf>> = Mutex::new(BTreeMap::new());

/// The root of the checkout.
#[must_use]
pub fn checkout() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}
