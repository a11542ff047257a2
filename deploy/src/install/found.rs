//! Inspects a node for what is already there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::image::args::service;
use crate::install::record::{Record, below};
use crate::install::system::System;
use install_plan::plan::{DesiredState, FileState, Found};
use service_image::digest::Sha256;
use site::service::Service;
use site::slot::Slot;
use site_bundle::manifest::{BundleNode, Manifest};
use site_node::images::archives::Archives;
use site_node::paths::NodePaths;
use site_render::target::RIVALS;

/// A bundle's requirements of a node.
///
/// # Errors
///
/// When it names a service that this program does not know.
pub(crate) fn wanted(manifest: &Manifest, node: &BundleNode) -> anyhow::Result<DesiredState> {
    let mut wanted = DesiredState::default();
    for file in &node.files {
        let member = manifest.members.get(&file.member);
        let member = member.with_context(|| format!("{} is not listed", file.member))?;
        let state = FileState {
            mode: file.mode,
            owner: (file.user, file.group),
            digest: member.sha256,
        };
        wanted.files.insert(file.path.clone(), state);
    }
    let enabled = node.units.iter().filter(|unit| unit.enable);
    wanted.enabled = enabled.map(|unit| unit.name.clone()).collect();
    for name in &node.services {
        let known = service(name).map_err(anyhow::Error::msg)?;
        let image = manifest.images.iter().find(|image| image.service == *name);
        let image = image.with_context(|| format!("the bundle has no image of {name}"))?;
        let member = manifest.members.get(&image.member);
        let member = member.with_context(|| format!("{} is not listed", image.member))?;
        wanted.archives.insert(known, member.sha256);
    }
    Ok(wanted)
}

/// The state of a node.
///
/// # Errors
///
/// When something cannot be looked at.
pub(crate) fn found(
    root: &Path,
    system: &System,
    wanted: &DesiredState,
    record: Option<&Record>,
) -> anyhow::Result<Found> {
    let installed: BTreeSet<PathBuf> = record.map_or_else(BTreeSet::new, |record| {
        record.files.keys().cloned().collect()
    });
    let had_enabled = record.map_or_else(BTreeSet::new, |record| record.units.clone());
    let mut files = BTreeMap::new();
    for path in wanted.files.keys().chain(&installed) {
        if let Some(state) = file(&below(root, path))? {
            files.insert(path.clone(), state);
        }
    }
    let units: BTreeSet<String> = wanted.enabled.union(&had_enabled).cloned().collect();
    let kept = archives(root);
    let mut archives = BTreeMap::new();
    for service in wanted.archives.keys().copied() {
        let Some(archive) = kept.archive(service, live(root, service)) else {
            continue;
        };
        // One that an install left without listing it, because it was cut off, is put there again.
        let is_left = Some(&archive) == kept.installed(service).as_ref();
        if !is_left || kept.listed(&archive)?.is_some() {
            archives.insert(service, kept.digest(&archive)?);
        }
    }
    let pending = record.into_iter().flat_map(|record| &record.pending);
    Ok(Found {
        files,
        enabled: system.enabled(&units),
        archives,
        installed,
        rivals_active: rivals_active(system),
        had_enabled,
        pending: pending.filter_map(|action| action.parse().ok()).collect(),
    })
}

/// Other programs that set the clock of a machine that runs.
fn rivals_active(system: &System) -> BTreeSet<String> {
    let active = RIVALS
        .into_iter()
        .filter(|unit| system.runs() && system.is_active(unit));
    active.map(str::to_owned).collect()
}

/// A file as it is; none if it is not there.
///
/// # Errors
///
/// When it is there and cannot be read, or is no file.
pub(crate) fn file(path: &Path) -> anyhow::Result<Option<FileState>> {
    let metadata = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.with_context(|| format!("cannot look at {}", path.display()))?,
    };
    anyhow::ensure!(
        metadata.is_file(),
        "{} is not a regular file; outpost does not replace it",
        path.display()
    );
    let (digest, _) = File::open(path)
        .and_then(Sha256::of_reader)
        .with_context(|| format!("cannot read {}", path.display()))?;
    Ok(Some(FileState {
        mode: metadata.mode() & 0o7777,
        owner: (metadata.uid(), metadata.gid()),
        digest,
    }))
}

/// The archives of a node.
pub(crate) fn archives(root: &Path) -> Archives {
    Archives::new(&below(root, Path::new("/var/lib/outpost/images")))
}

/// The slot that a service runs in.
pub(crate) fn live(root: &Path, service: Service) -> Slot {
    match NodePaths::below(root).mark(service).exists() {
        true => Slot::B,
        false => Slot::A,
    }
}
