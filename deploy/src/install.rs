//! `outpost install` and `outpost uninstall`: a bundle on a node, and off it again.
//!
//! ```text
//! bundle ─ signature, every digest ─► which node is this? ─► wanted ─┐
//!                                     files, units, archives ► found ─┴─► plan (pure) ─► diff
//!                                                                              └─► apply
//! ```
//!
//! Every step can be taken twice: what has to be done is found out anew by every run, and what can only be
//! known while it happens (a service has to be swapped) is in a record that is written first.

mod apply;
pub(crate) mod args;
mod diff;
mod found;
mod plan;
mod progress;
mod record;
mod system;
mod uninstall;
mod which;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use daemon::acl::is_own;
use daemon::{errln, exit, outln};

use self::args::{InstallArgs, UninstallArgs};
use self::progress::Bar;
use self::record::Record;
use self::system::System;
use crate::bundle::{keys, look};
use crate::bundle_format::reader::BundleError;
use crate::bundle_format::signature::{self, SignatureError};
use crate::durable::{self, Rights};

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
        if error.is::<BundleError>() || error.is::<SignatureError>() {
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
    let key_file = args.public_key.as_ref().unwrap_or(&trusted);
    let key = keys::public(key_file).context(
        "nobody's bundles are believed yet: name the key of who made this one with --public-key",
    )?;
    let mut bundle = look::open(&args.bundle)?;
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
    let node = which::which(&manifest, args.node.as_deref(), &host, is_own)?;
    let system = System::at(&args.root);
    let record = Record::read(&args.root)?;
    if let Some(record) = &record {
        anyhow::ensure!(
            (&record.node, &record.domain) == (&node.name, &manifest.domain),
            "this machine is {} of {}; uninstall that first",
            record.node,
            record.domain
        );
    }
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
    if !plan.is_empty() {
        install.apply(&mut bundle, record)?;
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

/// The key that was believed when a bundle was installed last.
fn trusted_key(root: &Path) -> PathBuf {
    record::directory(root).join("bundle.pub")
}

fn same(one: &Path, other: &Path) -> bool {
    let read = |path: &Path| std::fs::read(path).ok();
    read(one).is_some_and(|text| Some(text) == read(other))
}
