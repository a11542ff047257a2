//! The node's own container store: apart from the platform's, which wipes its own after a power cut.
//!
//! An image counts as there when podman lists it and every file of it has the bytes that its record
//! says. Anything less is removed and loaded again. A store that podman refuses to open, while podman
//! works with another, is moved aside: all that was in it can be loaded from the archives.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::Deserialize;

use crate::images::image_record::ImageRecord;
use crate::images::podman::Podman;
use service_image::digest::Sha256;
use service_image::layout::image_name;
use site::service::Service;
use site::slot::Slot;

/// A container store.
#[derive(Debug)]
pub struct Store {
    podman: Podman,
    /// The directory.
    root: PathBuf,
    /// Names in it, as far as this process knows.
    names: BTreeMap<String, Sha256>,
    /// The files of images, as far as this process knows.
    directories: BTreeMap<Sha256, PathBuf>,
}

/// The depth of a look at an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// By its files' stamps, and their bytes only where these have changed.
    Stamps,
    /// By every byte.
    Bytes,
}

/// How an image is in a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Every byte of it.
    Whole,
    /// Not at all.
    Missing,
    /// Some of it, and what is wrong.
    Damaged(String),
}

impl Store {
    /// The store that a containers-storage.conf describes; reads nothing else yet.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, or does not say where the store is.
    pub fn at(config: &Path) -> anyhow::Result<Self> {
        let text = fs::read_to_string(config)
            .with_context(|| format!("cannot read {}", config.display()))?;
        let parsed: StorageConf = toml::from_str(&text)
            .with_context(|| format!("{} cannot be understood", config.display()))?;
        Ok(Self {
            podman: Podman::with_storage(config),
            root: parsed.storage.graphroot,
            names: BTreeMap::new(),
            directories: BTreeMap::new(),
        })
    }

    /// Opens the store. Moves one that podman refuses aside, and returns its new path.
    ///
    /// # Errors
    ///
    /// When podman does not work at all, or containers run from a store that it refuses.
    pub fn open(&mut self) -> anyhow::Result<Option<PathBuf>> {
        let Err(refused) = self.survey() else {
            return Ok(None);
        };
        self.podman_works_elsewhere()
            .with_context(|| format!("podman does not work ({refused:#})"))?;
        let aside = self.move_aside().with_context(|| format!("{refused:#}"))?;
        self.survey()
            .context("podman refuses even an empty store")?;
        Ok(Some(aside))
    }

    /// The directory of its images' records: in it, so that they go when it goes.
    pub fn records(&self) -> PathBuf {
        self.root.join("outpost-stamps")
    }

    /// The image that a slot would run.
    pub fn image_of(&self, service: Service, slot: Slot) -> Option<Sha256> {
        let name = image_name(service.name(), slot.name());
        self.names.get(&name).copied()
    }

    /// Looks at an image.
    pub fn condition(&self, record: &ImageRecord, depth: Depth) -> Condition {
        if !self.names.values().any(|id| *id == record.image_id) {
            return Condition::Missing;
        }
        match self.directories.get(&record.image_id) {
            None => Condition::Damaged("podman does not know where its files are".to_owned()),
            Some(directory) => {
                let damage = match depth {
                    Depth::Bytes => record.damage(directory),
                    Depth::Stamps => record.damage_since(directory, &self.stamps(record)),
                };
                damage.map_or(Condition::Whole, Condition::Damaged)
            }
        }
    }

    /// Writes the stamps of an image that was just compared, and is on the disk.
    pub fn stamp(&self, record: &ImageRecord) {
        if let Some(directory) = self.directories.get(&record.image_id) {
            record.stamp(directory, &self.stamps(record));
        }
    }

    fn stamps(&self, record: &ImageRecord) -> PathBuf {
        self.records().join(format!("{}.stamps", record.image_id))
    }

    /// Removes the stamps of images that are gone.
    fn tidy_stamps(&self) {
        for entry in fs::read_dir(self.records()).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let stem = name.to_str().and_then(|name| name.strip_suffix(".stamps"));
            let image = stem.and_then(|stem| stem.parse::<Sha256>().ok());
            if image.is_some_and(|image| !self.names.values().any(|known| *known == image)) {
                // One that stays is small, and for the next time.
                drop(fs::remove_file(entry.path()));
            }
        }
    }

    /// Loads an image, in the place of a damaged one, and looks at what came of it.
    ///
    /// # Errors
    ///
    /// When podman refuses, a running container is in the way, or the image is damaged again.
    pub fn load(&mut self, archive: &Path, record: &ImageRecord) -> anyhow::Result<()> {
        let id = record.image_id.to_string();
        if self.names.values().any(|known| *known == record.image_id) {
            self.remove(&id)?;
        }
        let path = archive
            .to_str()
            .context("the archive's path is not valid UTF-8")?;
        self.podman.run(&["load", "--quiet", "--input", path])?;
        self.survey()?;
        match self.condition(record, Depth::Bytes) {
            Condition::Whole => Ok(()),
            Condition::Missing => anyhow::bail!("podman loaded another image than {id}"),
            Condition::Damaged(what) => anyhow::bail!("damaged again after loading: {what}"),
        }
    }

    /// Makes a slot run an image; says whether it did not before.
    ///
    /// # Errors
    ///
    /// When podman refuses.
    pub fn tag(&mut self, service: Service, slot: Slot, image: Sha256) -> anyhow::Result<bool> {
        if self.image_of(service, slot) == Some(image) {
            return Ok(false);
        }
        let name = image_name(service.name(), slot.name());
        self.podman.run(&["tag", &image.to_string(), &name])?;
        self.names.insert(name, image);
        Ok(true)
    }

    /// Takes away names that archives brought along, and images that no slot runs any more.
    ///
    /// # Errors
    ///
    /// When podman refuses.
    pub fn tidy(&mut self) -> anyhow::Result<()> {
        let is_slot = |name: &str| {
            Slot::ALL
                .iter()
                .any(|slot| name.ends_with(&format!(":{slot}")))
        };
        let is_ours = |name: &str| name.starts_with("localhost/outpost/");
        for (name, image) in &self.names {
            if is_ours(name) && !is_slot(name) {
                self.podman.run(&["untag", &image.to_string(), name])?;
            }
        }
        // Those that a container uses stay.
        self.podman.run(&["image", "prune", "--force"])?;
        self.survey()?;
        self.tidy_stamps();
        Ok(())
    }

    /// Moves the store away, for people to look at; stores that were moved before are removed.
    ///
    /// # Errors
    ///
    /// When containers run from it, or it cannot be moved.
    pub fn move_aside(&mut self) -> anyhow::Result<PathBuf> {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        anyhow::ensure!(
            !is_mounted_below(&mounts, &self.root),
            "containers run from {}; stop them first",
            self.root.display()
        );
        let aside = (1..=MAX_ASIDE)
            .map(|n| self.root.with_extension(format!("damaged-{n}")))
            .find(|aside| is_free(aside))
            .context("damaged stores from before are in the way, and cannot be removed")?;
        fs::rename(&self.root, &aside)
            .with_context(|| format!("cannot move {} aside", self.root.display()))?;
        self.names.clear();
        self.directories.clear();
        Ok(aside)
    }

    /// Reads again what is in it.
    pub fn survey(&mut self) -> anyhow::Result<()> {
        self.names = self.podman.names()?;
        let mut images: Vec<Sha256> = self.names.values().copied().collect();
        images.sort_unstable();
        images.dedup();
        self.directories = match images.is_empty() {
            true => BTreeMap::new(),
            false => self.podman.directories(&images),
        };
        Ok(())
    }

    /// Removes an image with the containers that a power cut has left of it.
    fn remove(&self, id: &str) -> anyhow::Result<()> {
        let ancestor = format!("ancestor={id}");
        let running = self.podman.run(&[
            "ps",
            "--quiet",
            "--filter",
            &ancestor,
            "--filter",
            "status=running",
        ])?;
        anyhow::ensure!(
            running.trim().is_empty(),
            "a running container uses the damaged image {id}; restart its service"
        );
        self.podman.run(&["image", "rm", "--force", id])?;
        Ok(())
    }

    fn podman_works_elsewhere(&self) -> anyhow::Result<()> {
        let directory = self.root.with_extension("trial");
        let worked = self.podman.elsewhere(&directory).names();
        // The trial is over whatever came of it.
        drop(fs::remove_dir_all(&directory));
        worked?;
        Ok(())
    }
}

/// Whether there is nothing, or no more. Parts of a store that podman has mounted cannot be removed before
/// the machine restarts.
fn is_free(aside: &Path) -> bool {
    match fs::remove_dir_all(aside) {
        Ok(()) => true,
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

/// Damaged stores that are there at most: one for each attempt until the machine restarts.
const MAX_ASIDE: u32 = 9;

/// Whether something is mounted below a directory; /proc/self/mounts writes a space as `\040`.
fn is_mounted_below(mounts: &str, directory: &Path) -> bool {
    mounts
        .lines()
        .filter_map(|line| line.split(' ').nth(1))
        .map(|at| PathBuf::from(at.replace("\\040", " ")))
        // podman mounts the directory of its driver on itself, running containers or not.
        .any(|at| at.starts_with(directory) && at.ends_with("merged"))
}

#[derive(Deserialize)]
struct StorageConf {
    storage: StorageTable,
}

#[derive(Deserialize)]
struct StorageTable {
    graphroot: PathBuf,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn running_containers_are_seen_by_their_mounts() {
        let root = Path::new("/var/lib/outpost/storage");
        let mounts = "overlay /var/lib/outpost/storage/overlay/abc/merged overlay rw 0 0\n";
        assert!(is_mounted_below(mounts, root));
        assert!(!is_mounted_below(mounts, Path::new("/var/lib/containers")));
        let itself = "/dev/vda /var/lib/outpost/storage/overlay ext4 rw 0 0\n";
        assert!(!is_mounted_below(itself, root));
    }
}
