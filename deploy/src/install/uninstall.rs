//! `outpost uninstall`: exactly what was installed goes, and nothing else.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

use anyhow::Context as _;
use config_text::counted;
use daemon::{errln, outln};
use rustix::mount::{UnmountFlags, unmount};

use crate::image::args::service;
use crate::install::apply::give_back;
use crate::install::args::UninstallArgs;
use crate::install::record::{self, Record, below};
use crate::install::system::System;
use install_plan::plan::slots_among;
use site::paths;
use site::slot::Slot;
use site_bundle::manifest::BundleRuntime;
use site_node::images::podman::Podman;

/// Takes everything away that the record lists.
///
/// # Errors
///
/// When something cannot be removed: the record stays, and the next run does the rest.
pub(crate) fn run(args: &UninstallArgs) -> anyhow::Result<()> {
    let root = &args.root;
    let Some(record) = Record::read(root)? else {
        outln!("Nothing is installed here.");
        return if args.purge && !args.dry_run {
            purge(root)
        } else {
            Ok(())
        };
    };
    if args.dry_run {
        show(&record, args.purge);
        return Ok(());
    }
    let system = System::at(root);
    stop(&system, &record);
    if record.runtime == BundleRuntime::Podman && system.runs() {
        remove_images();
    }
    for (path, entry) in &record.files {
        give_back(root, path, entry)?;
    }
    // The deepest first; one with files of others in it stays.
    for directory in record.directories.iter().rev() {
        let removed = fs::remove_dir(below(root, directory));
        drop(removed);
    }
    if system.runs() {
        system.manage(&["daemon-reload"], &[])?;
        for unit in &record.halted {
            if let Err(error) = system.manage(&["start"], std::slice::from_ref(unit)) {
                errln!("outpost: {error:#}");
            }
        }
    }
    for derived in ["images", "storage", "bin", "slots"] {
        remove_tree(&below(root, &Path::new(STATE).join(derived)))?;
    }
    if system.runs() {
        for volatile in ["/run/outpost", paths::ADMIN_RUN, "/run/outpost-storage"] {
            remove_tree(Path::new(volatile))?;
        }
        // chrony's, if there is one: it has something in it then.
        drop(fs::remove_dir("/run/chrony"));
    }
    // Last: without it the rest is unknown.
    remove_tree(&record::directory(root))?;
    outln!(
        "{}: {} removed",
        record.node,
        counted(record.files.len(), "file")
    );
    match args.purge {
        true => purge(root),
        false => {
            outln!("The state of the services is kept in /var/lib/outpost; --purge removes it.");
            Ok(())
        }
    }
}

fn show(record: &Record, is_purge: bool) {
    for unit in &record.units {
        outln!("stop and disable {unit}");
    }
    for (path, entry) in &record.files {
        match entry.before {
            Some(_) => outln!("put back {} as it was", path.display()),
            None => outln!("remove {}", path.display()),
        }
    }
    for unit in &record.halted {
        outln!("start {unit}, which was stopped for timesync-agent");
    }
    outln!("remove the images and their store");
    if is_purge {
        outln!("remove /var/lib/outpost");
    }
}

/// Stops everything, also if some of it is already stopped or gone.
fn stop(system: &System, record: &Record) {
    let units: Vec<String> = record.units.iter().cloned().collect();
    // By their files, too: a service that an install was about to take off is no longer listed.
    let files = record.files.keys().cloned().collect();
    let mut services: BTreeSet<String> = slots_among(&files)
        .map(|(service, slot)| slot.unit(service))
        .collect();
    for service in record.services.iter().filter_map(|name| service(name).ok()) {
        services.extend(Slot::ALL.map(|slot| slot.unit(service)));
    }
    let services = services.into_iter().collect();
    if system.runs() {
        // Sockets first: they would start what is stopped.
        for stopped in [&units, &services] {
            for unit in stopped {
                if let Err(error) = system.manage(&["stop"], std::slice::from_ref(unit)) {
                    errln!("outpost: {error:#}");
                }
            }
        }
    }
    for unit in &units {
        if let Err(error) = system.manage(&["disable"], std::slice::from_ref(unit)) {
            errln!("outpost: {error:#}");
        }
    }
}

/// podman unmounts what it has mounted of its store before the files go.
fn remove_images() {
    let podman = Podman::with_storage(Path::new("/etc/outpost/storage.conf"));
    for verb in [&["rm", "--all", "--force"], &["rmi", "--all", "--force"]] {
        if let Err(error) = podman.run(verb) {
            errln!("outpost: {error}");
        }
    }
}

fn purge(root: &Path) -> anyhow::Result<()> {
    let state = below(root, Path::new(STATE));
    for entry in fs::read_dir(&state).into_iter().flatten() {
        let entry = entry.with_context(|| format!("cannot read {}", state.display()))?;
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => remove_tree(&entry.path())?,
            _ => fs::remove_file(entry.path())
                .with_context(|| format!("cannot remove {}", entry.path().display()))?,
        }
    }
    match fs::remove_dir(&state) {
        // A file system of its own is mounted there: it is empty, and stays.
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
            outln!("{STATE} is empty.");
            Ok(())
        }
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", state.display()))
        }
        _ => {
            outln!("{STATE} is removed.");
            Ok(())
        }
    }
}

fn remove_tree(path: &Path) -> anyhow::Result<()> {
    // podman mounts the directory of its driver on itself, which a plain remove cannot pass.
    unmount(path.join("overlay"), UnmountFlags::DETACH).unwrap_or_default();
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other.with_context(|| format!("cannot remove {}", path.display())),
    }
}

/// The state of services, and the files installed for them.
const STATE: &str = "/var/lib/outpost";
