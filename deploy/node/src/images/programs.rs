//! A node without podman: the programs of the slots, unpacked from the same archives.

use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::images::image_record::ImageRecord;
use crate::images::store::{Condition, Depth};
use durable::Rights;
use service_image::archive::{self, Image};
use site::service::Service;
use site::slot::Slot;

/// A directory of programs, `SERVICE-SLOT` each.
#[derive(Clone, Debug)]
pub struct Programs {
    directory: PathBuf,
}

impl Programs {
    /// The programs in this directory.
    pub fn new(directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
        }
    }

    /// The directory of its programs' records.
    pub fn records(&self) -> PathBuf {
        self.directory.join(".stamps")
    }

    /// The program that the unit of a slot runs.
    pub fn path(&self, service: Service, slot: Slot) -> PathBuf {
        self.directory.join(format!("{service}-{slot}"))
    }

    /// Whether a slot has the program of an image.
    pub fn condition(
        &self,
        service: Service,
        slot: Slot,
        record: &ImageRecord,
        depth: Depth,
    ) -> Condition {
        if !self.path(service, slot).exists() {
            return Condition::Missing;
        }
        let Some(program) = alone(service, slot, record) else {
            return Condition::Damaged(format!("the image has no {service}"));
        };
        let damage = match depth {
            Depth::Bytes => program.damage(&self.directory),
            Depth::Stamps => program.damage_since(&self.directory, &self.stamps(service, slot)),
        };
        damage.map_or(Condition::Whole, Condition::Damaged)
    }

    /// Writes the stamp of a program that was just unpacked or compared, and is on the disk.
    pub fn stamp(&self, service: Service, slot: Slot, record: &ImageRecord) {
        if let Some(program) = alone(service, slot, record) {
            program.stamp(&self.directory, &self.stamps(service, slot));
        }
    }

    fn stamps(&self, service: Service, slot: Slot) -> PathBuf {
        self.records().join(format!("{service}-{slot}.stamps"))
    }

    /// Unpacks the program of an image for a slot. One that runs continues as it was.
    ///
    /// # Errors
    ///
    /// When the image has none, or it cannot be written.
    pub fn unpack(
        &self,
        service: Service,
        slot: Slot,
        archive: &Path,
        image: &Image,
    ) -> anyhow::Result<()> {
        let file =
            File::open(archive).with_context(|| format!("cannot read {}", archive.display()))?;
        let program = archive::file(BufReader::new(file), image, service.name())
            .with_context(|| format!("cannot unpack {}", archive.display()))?;
        fs::create_dir_all(&self.directory)
            .with_context(|| format!("cannot make {}", self.directory.display()))?;
        let rights = Rights {
            mode: 0o755,
            owner: None,
        };
        durable::write(&self.path(service, slot), rights, &program[..])
    }
}

/// The record of a program alone, under the name that it has in a slot.
fn alone(service: Service, slot: Slot, record: &ImageRecord) -> Option<ImageRecord> {
    let digest = record.files.get(service.name())?;
    Some(ImageRecord {
        files: [(format!("{service}-{slot}"), *digest)].into(),
        ..record.clone()
    })
}
