//! Puts the git revision and the build date where `version!()` finds them, and the names of the workspace's
//! crates where the log does.
//!
//! A release build follows the checked-out revision; a debug build keeps the one it first saw,
//! so that a commit does not rebuild every crate of the workspace.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

#[path = "src/calendar.rs"]
#[expect(
    unreachable_pub,
    reason = "the library's module, of which this uses a part"
)]
mod calendar;

/// The workspace, from the package's folder, where a build script runs.
const WORKSPACE: &str = "../..";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/calendar.rs");
    println!("cargo::rerun-if-env-changed=OUTPOST_REVISION");
    println!("cargo::rerun-if-env-changed=SOURCE_DATE_EPOCH");
    if std::env::var("PROFILE").is_ok_and(|profile| profile == "release") {
        follow_revision();
    }
    println!("cargo::rerun-if-changed={WORKSPACE}/Cargo.toml");
    println!("cargo::rustc-env=OUTPOST_CRATES={}", crates().join(","));
    let package = std::env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let revision = revision();
    let date = build_date();
    println!("cargo::rustc-env=OUTPOST_REVISION={revision}");
    println!("cargo::rustc-env=OUTPOST_VERSION={package} (git {revision}, built {date})");
}

/// The crates of the workspace's members, as they are called in paths of modules.
fn crates() -> Vec<String> {
    let workspace = std::fs::read_to_string(format!("{WORKSPACE}/Cargo.toml")).unwrap_or_default();
    let members = workspace
        .lines()
        .skip_while(|line| !line.starts_with("members"))
        .skip(1)
        .take_while(|line| !line.starts_with(']'))
        .map(|line| line.trim().trim_matches(['"', ',']));
    members
        .filter_map(|member| {
            let path = format!("{WORKSPACE}/{member}/Cargo.toml");
            let manifest = std::fs::read_to_string(path).ok()?;
            let name = manifest.lines().find_map(|line| {
                let (key, value) = line.split_once('=')?;
                (key.trim() == "name").then(|| value.trim().trim_matches('"').to_owned())
            });
            name.map(|name| name.replace('-', "_"))
        })
        .collect()
}

/// The revision given from outside (a build without `.git`), else git's own word, else "unknown".
fn revision() -> String {
    if let Ok(given) = std::env::var("OUTPOST_REVISION")
        && !given.is_empty()
    {
        return given;
    }
    git(&["rev-parse", "--short=9", "HEAD"]).unwrap_or_else(|| "unknown".to_owned())
}

/// Rebuilds when HEAD moves to another branch or the branch gets a commit.
fn follow_revision() {
    let head = git(&["rev-parse", "--git-path", "HEAD"]);
    let branch = git(&["symbolic-ref", "HEAD"])
        .and_then(|reference| git(&["rev-parse", "--git-path", &reference]));
    for path in [head, branch].into_iter().flatten() {
        if Path::new(&path).exists() {
            println!("cargo::rerun-if-changed={path}");
        }
    }
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    if !output.status.success() {
        return None;
    }
    let text = String::from_utf8(output.stdout).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// Today as YYYY-MM-DD in UTC, or the day of `SOURCE_DATE_EPOCH` for reproducible builds.
fn build_date() -> String {
    let given = std::env::var("SOURCE_DATE_EPOCH").ok();
    let given = given.and_then(|text| text.parse().ok());
    let time = given.map_or_else(calendar::Timestamp::now, |seconds| {
        calendar::Timestamp(UNIX_EPOCH + Duration::from_secs(seconds))
    });
    let time = time.to_string();
    time.split_once('T')
        .map(|(date, _)| date.to_owned())
        .unwrap_or_default()
}
