//! A node without podman: the programs of the slots, unpacked from the same archives.

use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::images::image_record::ImageRecord;
use crate::images::store::Condition;
use durable::Rights;
use service_image::archive::{self, Image};
use service_image::digest::Sha256;
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

    /// Whether a slot has the program of an image, every byte of it.
    pub fn condition(&self, service: Service, slot: Slot, record: &ImageRecord) -> Condition {
        let path = self.path(service, slot);
        let Ok(file) = File::open(&path) else {
            return Condition::Missing;
        };
        let wanted = record.files.get(service.name());
        match Sha256::of_reader(file) {
            Ok((found, _)) if Some(&found) == wanted => Condition::Whole,
            Ok(_) => Condition::Damaged(format!("{} has other bytes", path.display())),
            Err(error) => Condition::Damaged(format!("{}: {error}", path.display())),
        }
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
