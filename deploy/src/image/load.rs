//! `outpost images load`: what outpost-images.service does at boot.
//!
//! For each slot the archive that it runs is found, and the store is looked at: an image that is
//! whole by its stamp costs a look at its bytes and nothing more. Everything else is loaded anew. An
//! archive that is damaged is replaced by another of the same service, because an older version
//! that serves is better than none.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use daemon::{errln, outln};

use crate::image::args::ImagePlace;
use crate::image::programs::Programs;
use crate::image::shelf::Shelf;
use crate::image::stamp::{self, Stamp};
use crate::image::store::{Condition, Store};
use crate::image_format::archive::Image;
use crate::image_format::digest::Sha256;
use crate::service::Service;
use crate::swap::slot::Slot;

/// Brings up everything, and says so. False if a slot that has an archive has nothing to run.
///
/// # Errors
///
/// When the archives or the store cannot be used at all.
pub(crate) fn run(place: &ImagePlace) -> anyhow::Result<bool> {
    let shelf = Shelf::new(&place.archives);
    let _held = shelf.hold()?;
    let mut rack = Rack::open(place)?;
    match bring_all(&shelf, &mut rack) {
        Err(error) if rack.is_store() => {
            // What podman leaves behind of a broken layer makes every later load break too.
            errln!("outpost: {error:#}");
            if let Rack::Store(store) = &mut rack {
                let aside = store.move_aside()?;
                outln!("The store is moved to {} and made anew.", aside.display());
                store.open()?;
            }
            bring_all(&shelf, &mut rack)
        }
        done => done,
    }
}

/// Where images are loaded to.
#[derive(Debug)]
pub(crate) enum Rack {
    /// podman's store.
    Store(Store),
    /// Programs without podman.
    Programs(Programs),
}

impl Rack {
    /// Opens it, and says if a store had to be moved aside.
    ///
    /// # Errors
    ///
    /// When it cannot be used.
    pub(crate) fn open(place: &ImagePlace) -> anyhow::Result<Self> {
        if place.native {
            return Ok(Self::Programs(Programs::new(&place.programs)));
        }
        let mut store = Store::at(&place.storage)?;
        if let Some(aside) = store.open()? {
            outln!(
                "podman refused the store; it is moved to {} and made anew.",
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
    pub(crate) fn look(place: &ImagePlace) -> anyhow::Result<Self> {
        if place.native {
            return Ok(Self::Programs(Programs::new(&place.programs)));
        }
        let mut store = Store::at(&place.storage)?;
        store.survey()?;
        Ok(Self::Store(store))
    }

    fn is_store(&self) -> bool {
        matches!(self, Self::Store(_))
    }

    fn stamps(&self) -> PathBuf {
        match self {
            Self::Store(store) => store.stamps(),
            Self::Programs(programs) => programs.stamps(),
        }
    }

    pub(crate) fn condition(&self, service: Service, slot: Slot, stamp: &Stamp) -> Condition {
        match self {
            Self::Store(store) => store.condition(stamp),
            Self::Programs(programs) => programs.condition(service, slot, stamp),
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
            Self::Store(store) => store.load(archive, &Stamp::of(image)),
            Self::Programs(programs) => programs.unpack(service, slot, archive, image),
        }
    }

    /// Makes a slot run what was loaded; says whether that is a change.
    fn assign(&mut self, service: Service, slot: Slot, stamp: &Stamp) -> anyhow::Result<bool> {
        match self {
            Self::Store(store) => store.tag(service, slot, stamp.image_id),
            Self::Programs(_) => Ok(false),
        }
    }
}

/// What was done for a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    /// Nothing: everything was there.
    Nothing,
    /// The slot got another name of what was there.
    Assigned,
    /// It was loaded, because of this.
    Loaded(String),
}

/// What was brought for a slot.
#[derive(Clone, Debug)]
pub(crate) struct Brought {
    /// The image.
    pub(crate) stamp: Stamp,
    /// What it took.
    pub(crate) done: Done,
    /// The archive whose stamp has to be written, once the disk has the image.
    unstamped: Option<Sha256>,
}

/// Makes one slot have the image of an archive, on the disk too.
///
/// # Errors
///
/// When the archive is damaged, is of another service, or cannot be loaded.
pub(crate) fn bring(
    shelf: &Shelf,
    rack: &mut Rack,
    of: (Service, Slot),
    archive: &Path,
) -> anyhow::Result<Brought> {
    let brought = prepare(shelf, rack, of, archive)?;
    stamp::write(&rack.stamps(), &brought.new_stamp())?;
    Ok(brought)
}

impl Brought {
    fn new_stamp(&self) -> Vec<(Sha256, Stamp)> {
        let digest = self.unstamped.into_iter();
        digest.map(|digest| (digest, self.stamp.clone())).collect()
    }
}

fn prepare(
    shelf: &Shelf,
    rack: &mut Rack,
    (service, slot): (Service, Slot),
    archive: &Path,
) -> anyhow::Result<Brought> {
    let digest = shelf.digest(archive)?;
    let known = Stamp::read(&rack.stamps(), digest);
    let condition = known
        .as_ref()
        .map(|stamp| rack.condition(service, slot, stamp));
    if let (Some(stamp), Some(Condition::Whole)) = (&known, &condition) {
        let done = match rack.assign(service, slot, stamp)? {
            true => Done::Assigned,
            false => Done::Nothing,
        };
        return Ok(Brought {
            stamp: stamp.clone(),
            done,
            unstamped: None,
        });
    }
    let image = shelf.read(archive)?;
    anyhow::ensure!(
        image.service == service.name(),
        "{} is an image of {}, not of {service}",
        archive.display(),
        image.service
    );
    let stamp = Stamp::of(&image);
    // Without a stamp nothing says that what is there was forced to the disk, but its bytes may be
    // right all the same.
    let done = match (rack.condition(service, slot, &stamp), condition) {
        (Condition::Whole, _) => Done::Assigned,
        (Condition::Damaged(what), _) => Done::Loaded(format!("it was damaged: {what}")),
        (Condition::Missing, Some(_)) => Done::Loaded("it was gone".to_owned()),
        (Condition::Missing, None) => Done::Loaded("it was not there".to_owned()),
    };
    if matches!(done, Done::Loaded(_)) {
        rack.load(service, slot, archive, &image)
            .context(LoadFailed)?;
    }
    rack.assign(service, slot, &stamp)?;
    Ok(Brought {
        stamp,
        done,
        unstamped: Some(digest),
    })
}

/// The archive is good, and yet the store does not have it.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("cannot load it")]
struct LoadFailed;

fn bring_all(shelf: &Shelf, rack: &mut Rack) -> anyhow::Result<bool> {
    let (mut all, mut changed, mut stamps) = (true, false, Vec::new());
    for service in Service::ALL {
        for slot in Slot::ALL {
            let Some(first) = shelf.archive(service, slot) else {
                continue;
            };
            let start = now();
            match bring_any(shelf, rack, (service, slot), &first)? {
                None => all = false,
                Some(brought) => {
                    changed |= brought.done != Done::Nothing;
                    say(service, slot, &brought, now().duration_since(start));
                    stamps.extend(brought.new_stamp());
                }
            }
        }
    }
    // Once for all: forcing one to the disk forces everything that is written meanwhile.
    stamp::write(&rack.stamps(), &stamps)?;
    if changed && let Rack::Store(store) = rack {
        store.tidy()?;
    }
    Ok(all)
}

/// Tries the archive of the slot, then the others of its service. What is wrong is said.
fn bring_any(
    shelf: &Shelf,
    rack: &mut Rack,
    (service, slot): (Service, Slot),
    first: &Path,
) -> anyhow::Result<Option<Brought>> {
    let mut tried = BTreeSet::new();
    let others = [
        shelf.archive(service, slot.other()),
        shelf.installed(service),
    ];
    for archive in std::iter::once(first.to_owned()).chain(others.into_iter().flatten()) {
        if !tried.insert(archive.clone()) {
            continue;
        }
        match prepare(shelf, rack, (service, slot), &archive) {
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

fn say(service: Service, slot: Slot, brought: &Brought, took: Duration) {
    let stamp = &brought.stamp;
    let what = format!("{} ({})", stamp.version, stamp.image_id.short());
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

#[expect(
    clippy::disallowed_methods,
    reason = "people are told how long it took"
)]
fn now() -> Instant {
    Instant::now()
}
