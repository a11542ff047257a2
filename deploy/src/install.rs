//! `outpost install` and `outpost uninstall`: a bundle on a node, and off it again.
//!
//! ```text
//! bundle ─ signature, every digest ─► which node is this? ─► wanted ─┐
//!                                     files, units, archives ► found ─┴─► plan (pure) ─► diff
//!                                                                              └─► apply
//! ```
//!
//! Every step can be taken twice: every run finds out again what has to be done, and a record that is written
//! first holds what can only be known while it happens (a service has to be swapped).

mod apply;
pub(crate) mod args;
mod diff;
mod found;
mod progress;
pub(crate) mod record;
mod system;
mod uninstall;

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use daemon::acl::is_own;
use daemon::{errln, exit, outln};
use minisign::PublicKey;

use self::args::{InstallArgs, UninstallArgs};
use self::progress::Bar;
use self::record::Record;
use self::system::System;
use crate::bundle::{inspect, keys};
use durable::Rights;
use install_plan::{node_choice, plan};
use site::paths;
use site::service::Service;
use site_bundle::reader::BundleError;
use site_bundle::signature::{self, SignatureError};

/// The user of all services before each had its own: that of their images.
const FORMER_USER: u32 = service_image::layout::UID;

/// Installs.
pub(crate) fn run(args: &InstallArgs) -> ExitCode {
    code(try_run(args))
}

/// Takes away what was installed.
pub(crate) fn run_uninstall(args: &UninstallArgs) -> ExitCode {
    code(uninstall::run(args))
}

fn code(done: anyhow::Result<()>) -> ExitCode {
    let Err(error) = done else {
        return exit::code(exit::OK);
    };
    errln!("outpost: {error:#}");
    let is_denied = |cause: &(dyn std::error::Error + 'static)| {
        let cause = cause.downcast_ref::<std::io::Error>();
        cause.is_some_and(|cause| cause.kind() == std::io::ErrorKind::PermissionDenied)
    };
    exit::code(
        if error.is::<BundleError>() || error.is::<SignatureError>() || error.is::<Older>() {
            exit::DATA
        } else if error.chain().any(is_denied) {
            exit::NO_PERMISSION
        } else {
            exit::UNAVAILABLE
        },
    )
}

fn try_run(args: &InstallArgs) -> anyhow::Result<()> {
    let trusted = trusted_key(&args.root);
    let key = public_key(args.public_key.as_deref(), &trusted)?;
    let mut bundle = inspect::open(&args.bundle)?;
    let (text, said) = bundle.signed();
    signature::verify(&key, said, text)
        .with_context(|| format!("{} is not to be believed", args.bundle.display()))?;
    let total = bundle.manifest().members.values().map(|member| member.size);
    let mut bar = Bar::new("checking", total.sum());
    bundle
        .check_members(|_, size| bar.add(size))
        .with_context(|| format!("{} is not what was signed", args.bundle.display()))?;
    drop(bar);

    let manifest = bundle.manifest().clone();
    let host = system::host_name();
    let node = node_choice::choose(&manifest, args.node.as_deref(), &host, is_own)?;
    let system = System::at(&args.root);
    let record = Record::read(&args.root)?;
    if let Some(record) = &record {
        anyhow::ensure!(
            (&record.node, &record.domain) == (&node.name, &manifest.domain),
            "this machine is {} of {}; uninstall that first",
            record.node,
            record.domain
        );
        if !args.allow_older {
            is_not_older(manifest.generation, record)?;
        }
    }
    anyhow::ensure!(
        !(system.runs() && record.is_some() && has_former_user(&args.root)),
        "the services of this node all have one user, and new ones with their own cannot take over from them; \
         run `outpost uninstall`, which keeps their state, and install again"
    );
    let wanted = found::wanted(&manifest, node)?;
    let found = found::found(&args.root, &system, &wanted, record.as_ref())?;
    let plan = plan::plan(&wanted, &found);
    if plan.is_empty() {
        outln!(
            "{}: nothing to do; everything is as the bundle says",
            node.name
        );
    }
    if args.dry_run {
        return diff::show(&args.root, &mut bundle, node, &wanted, &plan);
    }
    let install = apply::Install {
        root: &args.root,
        system: &system,
        node,
        wanted: &wanted,
        found: &found,
        plan: &plan,
    };
    match record {
        Some(mut record) if plan.is_empty() => {
            record.note(&bundle);
            record.write(&args.root)?;
        }
        record => install.apply(&mut bundle, record)?,
    }
    // The same key is believed the next time.
    match &args.public_key {
        Some(given) if same(given, &trusted) => Ok(()),
        Some(given) => {
            let text = std::fs::read(given).context("cannot read the public key again")?;
            durable::write(&trusted, Rights::PUBLIC, &text[..])
        }
        None => Ok(()),
    }
}

/// A bundle that is older than the one of the node: an attacker who has kept one must not bring its faults back.
#[derive(Debug, thiserror::Error)]
#[error(
    "the bundle has generation {generation}, and this node has had {highest}; nothing was changed; --allow-older installs it"
)]
struct Older {
    generation: u64,
    highest: u64,
}

/// Refuses a bundle that is older than one this node has had, unless it is installed: then it is only finished.
const fn is_not_older(generation: u64, record: &Record) -> Result<(), Older> {
    let highest = record.highest;
    match generation < highest && generation != record.generation {
        true => Err(Older {
            generation,
            highest,
        }),
        false => Ok(()),
    }
}

/// Whether the state of a service belongs to the user that all services had.
fn has_former_user(root: &Path) -> bool {
    let states = Service::ALL.into_iter().map(paths::state);
    let found = states.filter_map(|path| std::fs::metadata(record::below(root, &path)).ok());
    found
        .map(|found| found.uid())
        .any(|user| user == FORMER_USER)
}

/// The key given on the command line, else the one that the node trusts.
fn public_key(given: Option<&Path>, trusted: &Path) -> anyhow::Result<PublicKey> {
    match given {
        Some(given) => keys::public(given),
        None if !trusted.exists() => {
            bail!("no trusted signing key is installed; pass the publisher's key with --public-key")
        }
        None => keys::public(trusted),
    }
}

/// The key that was believed when a bundle was installed last.
fn trusted_key(root: &Path) -> PathBuf {
    record::directory(root).join("bundle.pub")
}

fn same(one: &Path, other: &Path) -> bool {
    let read = |path: &Path| std::fs::read(path).ok();
    read(one).is_some_and(|text| Some(text) == read(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_of_one_user_is_known_by_the_owner_of_its_state() {
        let root = tempfile::tempdir().unwrap();
        assert!(!has_former_user(root.path()));
        let state = root.path().join("var/lib/outpost/registry");
        std::fs::create_dir_all(&state).unwrap();
        assert!(!has_former_user(root.path()));
        // Root alone may give it away.
        if std::os::unix::fs::chown(&state, Some(FORMER_USER), None).is_ok() {
            assert!(has_former_user(root.path()));
        }
    }

    #[test]
    fn a_key_that_cannot_be_read_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let (given, trusted) = (
            directory.path().join("k"),
            directory.path().join("bundle.pub"),
        );
        let error = public_key(Some(&given), &trusted).unwrap_err();
        let text = format!("{error:#}");
        assert!(
            text.starts_with(&format!("cannot read {}", given.display())),
            "{text}"
        );
        let error = public_key(None, &trusted).unwrap_err().to_string();
        assert!(
            error.starts_with("no trusted signing key is installed"),
            "{error}"
        );
        std::fs::write(&trusted, "no key").unwrap();
        let error = format!("{:#}", public_key(None, &trusted).unwrap_err());
        assert!(error.starts_with(&trusted.display().to_string()), "{error}");
    }
}
