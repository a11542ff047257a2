//! Making a node what a plan says.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use config_text::counted;
use daemon::{errln, outln};

use crate::bundle::COMMAND_PATH;
use crate::install::found;
use crate::install::progress::Bar;
use crate::install::record::{self, Foreign, Record, RecordFile, below};
use crate::install::system::System;
use durable::Rights;
use install_plan::plan::{Action, DesiredState, FileState, Found, Plan, Write};
use service_image::digest::Sha256;
use site::service::Service;
use site::slot::Slot;
use site_bundle::manifest::{BundleNode, BundleRuntime, Version};
use site_bundle::reader::Bundle;
use site_node::images::archives::Archives;
use site_node::images::versions::NodeVersions;
use site_node::paths::NodePaths;
use site_node::record as node_record;
use site_render::target::HOLDER;

/// All that is known when a plan is carried out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Install<'a> {
    /// The root of the machine's files.
    pub(crate) root: &'a Path,
    /// The machine.
    pub(crate) system: &'a System,
    /// The node's entry in the bundle.
    pub(crate) node: &'a BundleNode,
    /// The desired state.
    pub(crate) wanted: &'a DesiredState,
    /// The present state.
    pub(crate) found: &'a Found,
    /// The steps.
    pub(crate) plan: &'a Plan,
}

impl Install<'_> {
    /// Carries it out.
    ///
    /// # Errors
    ///
    /// When a step fails. The finished steps are recorded, and the next run does the rest.
    pub(crate) fn apply(
        &self,
        bundle: &mut Bundle<impl Read + Seek>,
        before: Option<Record>,
    ) -> anyhow::Result<()> {
        let archives = found::archives(self.root);
        let _held = archives.hold()?;
        let mut record = self.intend(bundle, before)?;
        self.write_files(bundle)?;
        // Before their files go: systemd forgets how a unit is stopped with the next look at its files.
        self.retire()?;
        self.remove_files(&mut record)?;
        self.fill_archives(bundle)?;
        // A swap takes it for itself.
        drop(_held);
        self.enable()?;
        if self.system.runs() {
            self.take_actions(bundle, &mut record)?;
        } else {
            record.pending.clear();
            record.write(self.root)?;
            outln!("The machine does not run: it starts its services when it starts.");
        }
        outln!("{}: {}", self.node.name, summary(self.plan));
        Ok(())
    }

    //--- The record

    /// Writes down what is about to be done, and puts by what was there before and is not ours.
    fn intend(
        &self,
        bundle: &Bundle<impl Read + Seek>,
        before: Option<Record>,
    ) -> anyhow::Result<Record> {
        let aside = record::directory(self.root).join("before");
        make_private(&aside)?;
        let mut record = before.unwrap_or_else(|| Record {
            version: Version::V1,
            node: self.node.name.clone(),
            domain: bundle.manifest().domain.clone(),
            bundle: Sha256::of(b""),
            generation: 0,
            highest: 0,
            runtime: self.node.runtime,
            services: Vec::new(),
            files: [].into(),
            directories: [].into(),
            units: [].into(),
            pending: [].into(),
            halted: [].into(),
        });
        for (path, file) in &self.wanted.files {
            let known = record.files.get(path);
            let foreign = match (known, self.found.files.get(path)) {
                (Some(known), _) => known.before,
                (None, Some(there)) => Some(self.put_by(path, *there)?),
                (None, None) => None,
            };
            let entry = RecordFile {
                sha256: file.digest,
                before: foreign,
            };
            record.files.insert(path.clone(), entry);
            record
                .directories
                .extend(missing_directories(self.root, path));
        }
        record.note(bundle);
        record.runtime = self.node.runtime;
        record.services.clone_from(&self.node.services);
        record.units.extend(self.wanted.enabled.iter().cloned());
        record.pending = self.plan.actions.iter().map(Action::to_string).collect();
        record.write(self.root)?;
        Ok(record)
    }

    fn put_by(&self, path: &Path, there: FileState) -> anyhow::Result<Foreign> {
        let from = below(self.root, path);
        let bytes = fs::read(&from).with_context(|| format!("cannot read {}", from.display()))?;
        let kept = record::kept(self.root, Sha256::of(&bytes));
        durable::write(&kept, Rights::PRIVATE, &bytes[..])?;
        Ok(Foreign {
            sha256: Sha256::of(&bytes),
            mode: there.mode,
            owner: there.owner,
        })
    }

    //--- Files

    fn write_files(&self, bundle: &mut Bundle<impl Read + Seek>) -> anyhow::Result<()> {
        for file in &self.node.files {
            let Some(how) = self.plan.writes.get(&file.path) else {
                continue;
            };
            let path = below(self.root, &file.path);
            let rights = Rights {
                mode: file.mode,
                owner: Some((file.user, file.group)),
            };
            if *how == Write::Rights {
                durable::set_rights(&path, rights)?;
                continue;
            }
            if let Some(directory) = path.parent() {
                fs::create_dir_all(directory)
                    .with_context(|| format!("cannot make {}", directory.display()))?;
            }
            let bytes = bundle.bytes(&file.member)?;
            durable::write(&path, rights, &bytes[..])?;
        }
        Ok(())
    }

    fn remove_files(&self, record: &mut Record) -> anyhow::Result<()> {
        for path in &self.plan.removals {
            let Some(entry) = record.files.get(path) else {
                continue;
            };
            give_back(self.root, path, entry)?;
        }
        // The files that were given back are no longer there.
        record
            .files
            .retain(|path, _| self.wanted.files.contains_key(path));
        record.write(self.root)
    }

    /// Puts by the images of services that have none. Others get theirs by a swap, unless nothing runs.
    fn fill_archives(&self, bundle: &mut Bundle<impl Read + Seek>) -> anyhow::Result<()> {
        let archives = found::archives(self.root);
        let size = |service: &Service| member_of(bundle, *service).map_or(0, |(_, _, size)| size);
        let mut bar = Bar::new("images", self.plan.archives.iter().map(size).sum());
        for service in Service::ALL {
            let swaps = self.plan.actions.contains(&Action::Swap(service));
            let slot = match self.plan.archives.contains(&service) {
                true => None,
                false if swaps && !self.system.runs() => Some(found::live(self.root, service)),
                false => continue,
            };
            let (member, digest, size) = member_of(bundle, service)
                .with_context(|| format!("the bundle has no image of {service}"))?;
            if let Some(slot) = slot {
                self.keep_version(&archives, service, slot)?;
            }
            archives.put(bundle.member(&member)?, digest, service, slot)?;
            bar.add(size);
        }
        Ok(())
    }

    /// Keeps the version of a slot whose archive is about to change while nothing runs.
    fn keep_version(
        &self,
        archives: &Archives,
        service: Service,
        slot: Slot,
    ) -> anyhow::Result<()> {
        let paths = NodePaths::below(self.root);
        let versions = NodeVersions {
            archives,
            paths: &paths,
            service,
        };
        versions.keep(true, None)?;
        // The next version has not served yet.
        let mut slots = node_record::Record::read(&paths, service);
        slots.slots.remove(slot.name());
        slots.write(&paths, service)
    }

    //--- Units and services

    /// Stops what the node is not to run any more.
    fn retire(&self) -> anyhow::Result<()> {
        let plan = self.plan;
        for unit in plan.stop.iter().filter(|_| self.system.runs()) {
            let stopped = self.system.manage(&["stop"], std::slice::from_ref(unit));
            // One that is gone already is no reason to keep the rest.
            if stopped.is_err() && self.system.is_active(unit) {
                return stopped;
            }
        }
        match plan.disable.is_empty() {
            true => Ok(()),
            false => {
                let units: Vec<String> = plan.disable.iter().cloned().collect();
                self.system.manage(&["disable"], &units)
            }
        }
    }

    fn enable(&self) -> anyhow::Result<()> {
        if !self.plan.enable.is_empty() {
            if self.system.runs() {
                self.system.manage(&["daemon-reload"], &[])?;
            }
            let units: Vec<String> = self.plan.enable.iter().cloned().collect();
            self.system.manage(&["enable"], &units)?;
        }
        Ok(())
    }

    /// Does the rest, one after the other; each is recorded as done once it is.
    fn take_actions(
        &self,
        bundle: &mut Bundle<impl Read + Seek>,
        record: &mut Record,
    ) -> anyhow::Result<()> {
        let mut failed = Vec::new();
        for action in &self.plan.actions {
            outln!("{action}");
            match self.take(action, bundle, record) {
                Ok(()) => {
                    record.pending.remove(&action.to_string());
                    record.write(self.root)?;
                }
                Err(error) => {
                    errln!("outpost: {action}: {error:#}");
                    failed.push(action.to_string());
                }
            }
        }
        anyhow::ensure!(
            failed.is_empty(),
            "left to do, by the next run: {}",
            failed.join(", ")
        );
        Ok(())
    }

    fn take(
        &self,
        action: &Action,
        bundle: &mut Bundle<impl Read + Seek>,
        record: &mut Record,
    ) -> anyhow::Result<()> {
        let system = self.system;
        match action {
            Action::Users => system.run("systemd-sysusers", &[]),
            Action::Directories => system.run(
                "systemd-tmpfiles",
                &["--create", "/etc/tmpfiles.d/outpost.conf"],
            ),
            Action::Manager => system.manage(&["daemon-reload"], &[]),
            Action::Images => self.load_images(),
            Action::Halt(unit) if system.is_active(unit) => {
                record.halted.insert(unit.clone());
                // First, so that nothing starts it again.
                record.write(self.root)?;
                system.manage(&["stop"], std::slice::from_ref(unit))
            }
            Action::Halt(_) => Ok(()),
            Action::Resume(unit) if record.halted.contains(unit) => {
                system.manage(&["start"], std::slice::from_ref(unit))?;
                record.halted.remove(unit);
                Ok(())
            }
            Action::Resume(_) => Ok(()),
            Action::Start => {
                self.open_sockets()?;
                let enabled: Vec<String> = self.wanted.enabled.iter().cloned().collect();
                system.manage(&["start"], &enabled)?;
                // Conditions let only the slot on record start.
                system.manage(&["start"], &self.slots().into_iter().collect::<Vec<_>>())
            }
            Action::Socket(unit) => self.listen_anew(unit),
            Action::Rerun(unit) if system.is_active(unit) => {
                system.manage(&["restart"], std::slice::from_ref(unit))
            }
            Action::Rerun(_) => Ok(()),
            Action::Swap(service) => self.swap(*service, bundle),
            Action::Reload(service) => {
                let unit = found::live(self.root, *service).unit(*service);
                match system.is_active(&unit) {
                    true => system.manage(&["reload"], &[unit]),
                    // It reads it when it starts.
                    false => Ok(()),
                }
            }
            Action::Resolver if system.is_active("NetworkManager.service") => {
                system.manage(&["reload"], &["NetworkManager.service".to_owned()])
            }
            Action::Resolver => Ok(()),
        }
    }

    fn slots(&self) -> BTreeSet<String> {
        let services = self.wanted.archives.keys();
        services
            .flat_map(|service| Slot::ALL.map(|slot| slot.unit(*service)))
            .collect()
    }

    fn load_images(&self) -> anyhow::Result<()> {
        let mut arguments = vec!["images", "load"];
        if self.node.runtime == BundleRuntime::Native {
            arguments.push("--native");
        }
        self.command(&arguments)
    }

    /// A socket that listens elsewhere cannot be handed over: its service stops for a moment.
    fn listen_anew(&self, socket: &str) -> anyhow::Result<()> {
        let stem = socket.strip_prefix("outpost-").unwrap_or(socket);
        let service = Service::ALL
            .into_iter()
            .filter(|service| stem.starts_with(service.name()))
            .max_by_key(|service| service.name().len());
        let Some(service) = service else {
            return self.reopen(socket);
        };
        outln!("{service} stops for a moment: {socket} listens elsewhere");
        let unit = found::live(self.root, service).unit(service);
        self.system.manage(&["stop"], std::slice::from_ref(&unit))?;
        let listening = self.reopen(socket);
        // Whatever came of that: its other sockets are there.
        self.system.manage(&["start"], &[unit])?;
        listening
    }

    fn reopen(&self, socket: &str) -> anyhow::Result<()> {
        let socket = [socket.to_owned()];
        self.system.manage(&["stop"], &socket)?;
        self.open_sockets()?;
        // It is open, unless its port is taken: this says so.
        self.system.manage(&["start"], &socket)
    }

    /// Opens sockets that are not open yet. While the unit that holds them is up, systemd opens none but with a
    /// restart of that unit, which the others do not feel.
    fn open_sockets(&self) -> anyhow::Result<()> {
        let mut sockets = self.wanted.enabled.iter();
        let is_closed = |unit: &String| unit.ends_with(".socket") && !self.system.is_active(unit);
        match self.system.is_active(HOLDER) && sockets.any(is_closed) {
            true => self.system.manage(&["restart"], &[HOLDER.to_owned()]),
            false => Ok(()),
        }
    }

    fn swap(&self, service: Service, bundle: &mut Bundle<impl Read + Seek>) -> anyhow::Result<()> {
        let (member, digest, _) = member_of(bundle, service)
            .with_context(|| format!("the bundle has no image of {service}"))?;
        let directory = record::directory(self.root);
        let archive = directory.join(format!("{service}.tar"));
        durable::write(&archive, Rights::PRIVATE, bundle.member(&member)?)?;
        let written = site_node::images::archives::digest_of(&archive)?;
        anyhow::ensure!(written == digest, "{member} changed in the bundle");
        let path = archive
            .to_str()
            .context("the archive's path is not valid UTF-8")?;
        let swapped = self.command(&["swap", service.name(), path]);
        durable::remove(&archive).context("cannot remove what was swapped")?;
        swapped
    }

    /// This command, as it was just installed.
    fn command(&self, arguments: &[&str]) -> anyhow::Result<()> {
        let program: PathBuf = below(self.root, Path::new(COMMAND_PATH));
        let status = Command::new(&program)
            .args(arguments)
            .status()
            .with_context(|| format!("cannot run {}", program.display()))?;
        anyhow::ensure!(
            status.success(),
            "outpost {} ended with {status}",
            arguments.join(" ")
        );
        Ok(())
    }
}

/// A plan in one line.
pub(crate) fn summary(plan: &Plan) -> String {
    format!(
        "{} written, {} removed, {} put by, {} enabled",
        counted(plan.writes.len(), "file"),
        plan.removals.len(),
        counted(plan.archives.len(), "image"),
        counted(plan.enable.len(), "unit")
    )
}

/// The member that is the image of a service, its digest and its size.
fn member_of(bundle: &Bundle<impl Read + Seek>, service: Service) -> Option<(String, Sha256, u64)> {
    let manifest = bundle.manifest();
    let mut images = manifest.images.iter();
    let image = images.find(|image| image.service == service.name())?;
    let member = manifest.members.get(&image.member)?;
    Some((image.member.clone(), member.sha256, member.size))
}

/// Takes away a file that was installed, and puts back what was there before. One that was changed
/// since stays.
///
/// # Errors
///
/// When the disk refuses.
pub(crate) fn give_back(root: &Path, path: &Path, entry: &RecordFile) -> anyhow::Result<()> {
    let there = below(root, path);
    match found::file(&there)? {
        None => {}
        Some(state) if state.digest != entry.sha256 => {
            outln!("{} was changed since, and stays", path.display());
            return Ok(());
        }
        Some(_) if entry.before.is_none() => {
            durable::remove(&there)
                .and_then(|()| durable::sync_directory_of(&there))
                .with_context(|| format!("cannot remove {}", there.display()))?;
        }
        Some(_) => {}
    }
    let Some(before) = entry.before else {
        return Ok(());
    };
    let kept = record::kept(root, before.sha256);
    let bytes = fs::read(&kept).with_context(|| format!("cannot read {}", kept.display()))?;
    let rights = Rights {
        mode: before.mode,
        owner: Some(before.owner),
    };
    durable::write(&there, rights, &bytes[..])
}

/// The directories above a file that are not there yet.
fn missing_directories(root: &Path, path: &Path) -> Vec<PathBuf> {
    let above = path.ancestors().skip(1);
    above
        .take_while(|directory| !below(root, directory).exists())
        .map(Path::to_owned)
        .collect()
}

/// Makes a directory that only its owner may read: files in it may contain keys.
fn make_private(directory: &Path) -> anyhow::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .with_context(|| format!("cannot make {}", directory.display()))
}
