//! `outpost images load`, which outpost-images.service runs at boot.
//!
//! For each slot this finds the archive that it runs, and checks the store: an image that is
//! whole by its record costs a look at the stamps of its files, and at their bytes where a file was written
//! to. Everything else is loaded again. An archive that is damaged is replaced by another of the same
//! service, because an older version that serves is better than none.
//!
//! A service starts as soon as its own images are good: `outpost images wait` ends then. Only where something in
//! podman's store is damaged do all wait for the end, because the store may have to be moved aside, which is
//! impossible under a container that runs.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use daemon::clock;
use daemon::{errln, outln};

use crate::images::ImagePaths;
use crate::images::archives::{Archives, Awaited};
use crate::images::image_record::{self, ImageRecord};
use crate::images::programs::Programs;
use crate::images::store::{Condition, Depth, Store};
use service_image::archive::Image;
use service_image::digest::Sha256;
use site::service::Service;
use site::slot::Slot;

/// Brings up everything, and says so. False if a slot that has an archive has nothing to run.
///
/// # Errors
///
/// When the archives or the store cannot be used at all.
pub fn run(paths: &ImagePaths) -> anyhow::Result<bool> {
    let archives = Archives::new(&paths.archives);
    let mut awaited = archives.await_all()?;
    // Units that wait for single services may start to do so.
    daemon::notify::ready();
    let _held = archives.hold()?;
    let mut images = ImageStore::open(paths)?;
    match bring_all(&archives, &mut images, &mut awaited) {
        Err(error) if images.is_store() => {
            // The rest of a broken layer that podman leaves makes every later load fail too.
            errln!("outpost: {error:#}");
            if let ImageStore::Store(store) = &mut images {
                let aside = store.move_aside()?;
                outln!(
                    "Moved the damaged store to {}; making a new one.",
                    aside.display()
                );
                store.open()?;
            }
            bring_all(&archives, &mut images, &mut awaited)
        }
        done => done,
    }
}

/// The destination of images.
#[derive(Debug)]
pub enum ImageStore {
    /// podman's store.
    Store(Store),
    /// Programs without podman.
    Programs(Programs),
}

impl ImageStore {
    /// Opens it, and says if a store had to be moved aside.
    ///
    /// # Errors
    ///
    /// When it cannot be used.
    pub fn open(paths: &ImagePaths) -> anyhow::Result<Self> {
        if let Some(programs) = &paths.programs {
            return Ok(Self::Programs(Programs::new(programs)));
        }
        let mut store = Store::at(&paths.storage)?;
        if let Some(aside) = store.open()? {
            outln!(
                "podman refused the store: moved it to {} and made a new one.",
                aside.display()
            );
        }
        Ok(Self::Store(store))
    }

    /// Opens it without changing anything.
    ///
    /// # Errors
    ///
    /// When it cannot be used.
    pub fn look(paths: &ImagePaths) -> anyhow::Result<Self> {
        if let Some(programs) = &paths.programs {
            return Ok(Self::Programs(Programs::new(programs)));
        }
        let mut store = Store::at(&paths.storage)?;
        store.survey()?;
        Ok(Self::Store(store))
    }

    fn is_store(&self) -> bool {
        matches!(self, Self::Store(_))
    }

    fn records(&self) -> PathBuf {
        match self {
            Self::Store(store) => store.records(),
            Self::Programs(programs) => programs.records(),
        }
    }

    /// Looks at the image of a slot.
    pub fn condition(
        &self,
        service: Service,
        slot: Slot,
        record: &ImageRecord,
        depth: Depth,
    ) -> Condition {
        match self {
            Self::Store(store) => store.condition(record, depth),
            Self::Programs(programs) => programs.condition(service, slot, record, depth),
        }
    }

    /// Writes the stamps of an image that was just compared, and is on the disk.
    fn stamp(&self, service: Service, slot: Slot, record: &ImageRecord) {
        match self {
            Self::Store(store) => store.stamp(record),
            Self::Programs(programs) => programs.stamp(service, slot, record),
        }
    }

    fn load(
        &mut self,
        service: Service,
        slot: Slot,
        archive: &Path,
        image: &Image,
    ) -> anyhow::Result<()> {
        match self {
            Self::Store(store) => store.load(archive, &ImageRecord::of(image)),
            Self::Programs(programs) => programs.unpack(service, slot, archive, image),
        }
    }

    /// Makes a slot run what was loaded; says whether that is a change.
    fn assign(
        &mut self,
        service: Service,
        slot: Slot,
        record: &ImageRecord,
    ) -> anyhow::Result<bool> {
        match self {
            Self::Store(store) => store.tag(service, slot, record.image_id),
            Self::Programs(_) => Ok(false),
        }
    }
}

/// The result for a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    /// Nothing: everything was there.
    Nothing,
    /// The slot got another name of what was there.
    Assigned,
    /// It was loaded, because of this.
    Loaded(String),
}

/// The image loaded for a slot.
#[derive(Clone, Debug)]
pub struct LoadedArchive {
    /// The image.
    pub record: ImageRecord,
    /// The duration.
    pub done: Done,
    /// The archive whose record has to be written, once the disk has the image.
    unrecorded: Option<Sha256>,
}

/// Makes one slot have the image of an archive, on the disk too.
///
/// # Errors
///
/// When the archive is damaged, is of another service, or cannot be loaded.
pub fn bring(
    archives: &Archives,
    images: &mut ImageStore,
    of: (Service, Slot),
    archive: &Path,
) -> anyhow::Result<LoadedArchive> {
    let brought = prepare(archives, images, of, archive)?;
    record_all(images, &[(of, &brought)])?;
    Ok(brought)
}

impl LoadedArchive {
    fn new_record(&self) -> Vec<(Sha256, ImageRecord)> {
        let digest = self.unrecorded.into_iter();
        digest.map(|digest| (digest, self.record.clone())).collect()
    }
}

/// Writes down what was loaded, once the disk has it. Once for all: forcing one to the disk forces everything
/// that is written meanwhile.
fn record_all(
    images: &ImageStore,
    brought: &[((Service, Slot), &LoadedArchive)],
) -> anyhow::Result<()> {
    let new = brought.iter().flat_map(|(_, loaded)| loaded.new_record());
    image_record::write(&images.records(), &new.collect::<Vec<_>>())?;
    for ((service, slot), loaded) in brought {
        if loaded.unrecorded.is_some() {
            images.stamp(*service, *slot, &loaded.record);
        }
    }
    Ok(())
}

/// The record of an archive that was loaded, and how its image is in the store by the stamps of its files.
fn known(
    images: &ImageStore,
    (service, slot): (Service, Slot),
    digest: Sha256,
) -> Option<(ImageRecord, Condition)> {
    let record = ImageRecord::read(&images.records(), digest)?;
    let condition = images.condition(service, slot, &record, Depth::Stamps);
    Some((record, condition))
}

/// Makes a slot run an image that is whole.
fn assign(
    images: &mut ImageStore,
    (service, slot): (Service, Slot),
    record: ImageRecord,
) -> anyhow::Result<LoadedArchive> {
    let done = match images.assign(service, slot, &record)? {
        true => Done::Assigned,
        false => Done::Nothing,
    };
    Ok(LoadedArchive {
        record,
        done,
        unrecorded: None,
    })
}

fn prepare(
    archives: &Archives,
    images: &mut ImageStore,
    (service, slot): (Service, Slot),
    archive: &Path,
) -> anyhow::Result<LoadedArchive> {
    let digest = archives.digest(archive)?;
    let known = known(images, (service, slot), digest);
    if let Some((record, Condition::Whole)) = known {
        return assign(images, (service, slot), record);
    }
    let condition = known.map(|(_, condition)| condition);
    let image = archives.read(archive)?;
    anyhow::ensure!(
        image.service == service.name(),
        "{} is an image of {}, not of {service}",
        archive.display(),
        image.service
    );
    let record = ImageRecord::of(&image);
    // Without a record nothing says that what is there was forced to the disk, but its bytes may be
    // right all the same.
    let found = images.condition(service, slot, &record, Depth::Bytes);
    let done = match (found, condition) {
        (Condition::Whole, _) => Done::Assigned,
        (Condition::Damaged(what), _) => Done::Loaded(format!("it was damaged: {what}")),
        (Condition::Missing, Some(_)) => Done::Loaded("it was gone".to_owned()),
        (Condition::Missing, None) => Done::Loaded("it was not there".to_owned()),
    };
    if matches!(done, Done::Loaded(_)) {
        images
            .load(service, slot, archive, &image)
            .context(LoadFailed)?;
    }
    images.assign(service, slot, &record)?;
    Ok(LoadedArchive {
        record,
        done,
        unrecorded: Some(digest),
    })
}

/// The archive is good, and yet the store does not have it.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("cannot load it")]
struct LoadFailed;

/// A slot that has an archive, as it is before anything is loaded.
struct Found {
    slot: Slot,
    archive: PathBuf,
    known: Option<(ImageRecord, Condition)>,
}

impl Found {
    fn is_whole(&self) -> bool {
        matches!(self.known, Some((_, Condition::Whole)))
    }

    fn is_damaged(&self) -> bool {
        matches!(self.known, Some((_, Condition::Damaged(_))))
    }
}

fn bring_all(
    archives: &Archives,
    images: &mut ImageStore,
    awaited: &mut Awaited,
) -> anyhow::Result<bool> {
    let all_found = Service::ALL.map(|service| (service, find(archives, images, service)));
    let is_damaged = all_found
        .iter()
        .any(|(_, slots)| slots.iter().any(Found::is_damaged));
    let may_start = !images.is_store() || !is_damaged;
    // Those that need no load come first, and wait for none that does.
    let (whole, rest): (Vec<_>, Vec<_>) = all_found
        .into_iter()
        .partition(|(_, slots)| slots.iter().all(Found::is_whole));
    let (mut all, mut changed) = (true, false);
    for (service, slots) in whole.into_iter().chain(rest) {
        let mut loaded = Vec::new();
        for Found {
            slot,
            archive,
            known,
        } in slots
        {
            let start = clock::now();
            let brought = match known {
                Some((record, Condition::Whole)) => Some(assign(images, (service, slot), record)?),
                // The load of another image may have changed what was found.
                _ => bring_any(archives, images, (service, slot), &archive)?,
            };
            match brought {
                None => all = false,
                Some(brought) => {
                    changed |= brought.done != Done::Nothing;
                    say(service, slot, &brought, clock::now().duration_since(start));
                    loaded.push(((service, slot), brought));
                }
            }
        }
        let brought: Vec<_> = loaded.iter().map(|(of, brought)| (*of, brought)).collect();
        record_all(images, &brought)?;
        if may_start {
            awaited.release(service);
        }
    }
    if changed && let ImageStore::Store(store) = images {
        store.tidy()?;
    }
    Ok(all)
}

/// The slots of a service that have an archive. An archive that cannot be read counts as one that was never loaded.
fn find(archives: &Archives, images: &ImageStore, service: Service) -> Vec<Found> {
    let slots = Slot::ALL.into_iter().filter_map(|slot| {
        let archive = archives.archive(service, slot)?;
        let digest = archives.digest(&archive).ok();
        let known = digest.and_then(|digest| known(images, (service, slot), digest));
        Some(Found {
            slot,
            archive,
            known,
        })
    });
    slots.collect()
}

/// Tries the archive of the slot, then the others of its service. Prints each problem.
fn bring_any(
    archives: &Archives,
    images: &mut ImageStore,
    (service, slot): (Service, Slot),
    first: &Path,
) -> anyhow::Result<Option<LoadedArchive>> {
    let mut tried = BTreeSet::new();
    let others = [
        archives.archive(service, slot.other()),
        archives.installed(service),
    ];
    for archive in std::iter::once(first.to_owned()).chain(others.into_iter().flatten()) {
        if !tried.insert(archive.clone()) {
            continue;
        }
        match prepare(archives, images, (service, slot), &archive) {
            Ok(brought) => {
                if archive != first {
                    let name = archive.file_name().unwrap_or_default();
                    errln!("{service} {slot}: runs {} instead", name.display());
                }
                return Ok(Some(brought));
            }
            Err(error) if error.is::<LoadFailed>() => return Err(error),
            Err(error) => errln!("{service} {slot}: {error:#}"),
        }
    }
    Ok(None)
}

fn say(service: Service, slot: Slot, brought: &LoadedArchive, took: Duration) {
    let record = &brought.record;
    let what = format!("{} ({})", record.version, record.image_id.short());
    match &brought.done {
        Done::Nothing => outln!("{service} {slot}: {what} is there"),
        Done::Assigned => {
            outln!("{service} {slot}: {what} was there, and is its image from here on");
        }
        Done::Loaded(why) => {
            let took = took.as_secs_f32();
            outln!("{service} {slot}: {what} loaded in {took:.1} s; {why}");
        }
    }
}
