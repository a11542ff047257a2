//! The versions of a service on this node: listed, kept, and chosen for a way back.
//!
//! [`slot_swap::versions`] decides; here files are read and linked. The archives themselves are the truth: one
//! that the record does not name, because the power went before the record was written, is listed all the same.

use std::path::PathBuf;

use anyhow::Context as _;
use daemon::errln;

use crate::images::archives::{self, Archives};
use crate::paths::NodePaths;
use crate::record::{self, Record};
use api::outpost::Version;
use service_image::archive::Image;
use service_image::digest::Sha256;
use site::service::Service;
use site::slot::Slot;
use slot_swap::versions::Versions;

/// The versions of a service on a node.
#[derive(Clone, Copy, Debug)]
pub struct NodeVersions<'a> {
    /// The archives of the node.
    pub archives: &'a Archives,
    /// The directories of the node.
    pub paths: &'a NodePaths,
    /// The service.
    pub service: Service,
}

/// A slot that has a version to go back to.
struct Source {
    slot: Slot,
    archive: PathBuf,
    digest: Sha256,
}

impl NodeVersions<'_> {
    /// Every version that has served and whose archive is here. Changes nothing.
    ///
    /// # Errors
    ///
    /// When the archives cannot be read.
    pub fn list(&self) -> anyhow::Result<Versions> {
        self.list_with(&self.sources(true)?, None)
    }

    fn list_with(&self, sources: &[Source], now: Option<u64>) -> anyhow::Result<Versions> {
        let record = Record::read(self.paths, self.service);
        let files = self.archives.versions(self.service)?;
        let is_here = |version: &Version| {
            let digest = version.archive.parse::<Sha256>();
            digest.is_ok_and(|digest| {
                files.contains(&digest) || sources.iter().any(|source| source.digest == digest)
            })
        };
        let known = record.versions.into_iter().filter(is_here);
        let mut versions = Versions::new(known.collect());
        for digest in files {
            let path = self.archives.version(self.service, digest);
            if !versions.has(&digest.to_string())
                && let Some(version) = read(&path, digest)
            {
                versions.insert_oldest(version);
            }
        }
        let live = record::live(self.paths, self.service);
        for Source {
            slot,
            archive,
            digest,
        } in sources
        {
            let text = digest.to_string();
            let known = versions.as_slice().iter().find(|one| one.archive == text);
            let is_known = known.is_some();
            let version = known.cloned().or_else(|| read(archive, *digest));
            match version {
                Some(version) if *slot == live => versions.serve(version, now),
                Some(version) if !is_known => versions.serve(version, None),
                _ => {}
            }
        }
        Ok(versions)
    }

    /// The slots whose version has served, the one on record last. Whether that one has served may be
    /// known from elsewhere: an installed version is in no record yet.
    fn sources(&self, has_live_served: bool) -> anyhow::Result<Vec<Source>> {
        let record = Record::read(self.paths, self.service);
        let live = record::live(self.paths, self.service);
        let mut sources = Vec::new();
        for slot in [live.other(), live] {
            let filling = record.slots.get(slot.name());
            let has_served = filling.is_some_and(|filling| filling.has_served);
            let is_known = slot == live && has_live_served;
            if !(has_served || is_known) {
                continue;
            }
            if let Some(archive) = self.archives.archive(self.service, slot) {
                let digest = self.archives.digest(&archive)?;
                sources.push(Source {
                    slot,
                    archive,
                    digest,
                });
            }
        }
        Ok(sources)
    }

    /// Keeps the versions that are in slots and have served, removes the oldest ones beyond the limit, and
    /// records the rest. The one on record serves since `now`, unless it did before.
    ///
    /// # Errors
    ///
    /// When the disk refuses.
    pub fn keep(&self, has_live_served: bool, now: Option<u64>) -> anyhow::Result<()> {
        let sources = self.sources(has_live_served)?;
        let mut versions = self.list_with(&sources, now)?;
        for source in &sources {
            // One that cannot be read is not listed.
            if versions.has(&source.digest.to_string()) {
                self.archives
                    .keep_version(self.service, &source.archive, source.digest)?;
            }
        }
        let removed = versions.drain_surplus();
        let mut record = Record::read(self.paths, self.service);
        record.versions = versions.as_slice().to_vec();
        record.write(self.paths, self.service)?;
        // After the record, which would name them otherwise.
        for version in removed {
            if let Ok(digest) = version.archive.parse() {
                self.archives.drop_version(self.service, digest)?;
            }
        }
        Ok(())
    }

    /// The archive of a version that is on the list.
    ///
    /// # Errors
    ///
    /// When it is gone or damaged.
    pub fn archive(&self, version: &Version) -> anyhow::Result<PathBuf> {
        let digest: Sha256 = version
            .archive
            .parse()
            .context("the record of the versions is damaged")?;
        let kept = self.archives.version(self.service, digest);
        // One that only a slot has is not linked before the next swap.
        let in_slots = self.sources(true)?.into_iter();
        let in_slots = in_slots.filter(|source| source.digest == digest);
        let places = std::iter::once(kept).chain(in_slots.map(|source| source.archive));
        for place in places.filter(|place| place.exists()) {
            if archives::digest_of(&place)? == digest {
                return Ok(place);
            }
            errln!("outpost: {} is damaged", place.display());
        }
        anyhow::bail!("the archive of {} is damaged or gone", version.version)
    }
}

/// The version in an archive; none, said on standard error, for one that is no image.
fn read(archive: &std::path::Path, digest: Sha256) -> Option<Version> {
    match archives::read(archive) {
        Ok(image) => Some(version_of(&image, digest)),
        Err(error) => {
            errln!("outpost: {error:#}");
            None
        }
    }
}

fn version_of(image: &Image, archive: Sha256) -> Version {
    Version {
        version: image.version.clone(),
        revision: image.revision.clone(),
        image: image.image_id.to_oci(),
        archive: archive.to_string(),
        ..Version::default()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use service_image::elf::Machine;
    use service_image::layer::Tree;
    use service_image::layout::{Recipe, write};
    use slot_swap::versions::LIMIT;
    use tempfile::TempDir;

    use super::*;
    use crate::record::Filling;

    const SERVICE: Service = Service::Healthd;

    struct Node {
        _directory: TempDir,
        archives: Archives,
        paths: NodePaths,
    }

    impl Node {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let archives = Archives::new(&directory.path().join("images"));
            let paths = NodePaths::below(directory.path());
            Self {
                _directory: directory,
                archives,
                paths,
            }
        }

        fn versions(&self) -> NodeVersions<'_> {
            NodeVersions {
                archives: &self.archives,
                paths: &self.paths,
                service: SERVICE,
            }
        }

        /// Puts an image of a version into a slot, or where the installed one is.
        fn put(&self, version: &str, slot: Option<Slot>) -> Sha256 {
            let mut tree = Tree::default();
            tree.file("healthd", 0o555, version.as_bytes().to_vec());
            let recipe = Recipe {
                service: SERVICE.name().to_owned(),
                description: String::new(),
                version: version.to_owned(),
                revision: "1a2b3c4d5".to_owned(),
                source: None,
                licenses: "MIT".to_owned(),
                machine: Machine::X86_64,
                created: "2026-11-21T09:30:05Z".to_owned(),
                time: 0,
            };
            let mut bytes = Vec::new();
            write(&recipe, &tree.layer(0).unwrap(), &mut bytes).unwrap();
            let digest = Sha256::of(&bytes);
            let put = self.archives.put(&bytes[..], digest, SERVICE, slot);
            put.unwrap();
            digest
        }

        /// A swap to another version, as the executor makes it; gives its archive.
        fn swap(&self, version: &str, has_served: bool) -> Sha256 {
            let live = record::live(&self.paths, SERVICE);
            self.versions().keep(true, None).unwrap();
            let digest = self.put(version, Some(live.other()));
            let mut record = Record::read(&self.paths, SERVICE);
            let filling = Filling {
                has_served,
                ..Filling::default()
            };
            let slots = &mut record.slots;
            slots.insert(live.other().name().to_owned(), filling);
            slots.entry(live.name().to_owned()).or_default().has_served = true;
            record.write(&self.paths, SERVICE).unwrap();
            if has_served {
                record::put(&self.paths, SERVICE, live.other()).unwrap();
                self.versions().keep(true, Some(7)).unwrap();
            }
            digest
        }

        fn listed(&self) -> Vec<String> {
            let versions = self.versions().list().unwrap();
            let names = versions.as_slice().iter().map(|one| one.version.clone());
            names.collect()
        }

        fn files(&self) -> usize {
            self.archives.versions(SERVICE).unwrap().len()
        }
    }

    #[test]
    fn a_version_that_served_is_there_after_one_that_did_not() {
        let node = Node::new();
        assert_eq!(node.listed(), Vec::<String>::new());
        let first = node.put("1", None);
        assert_eq!(node.listed(), ["1"], "the installed one");
        node.swap("2", true);
        assert_eq!(node.listed(), ["1", "2"]);
        for broken in ["3", "4"] {
            node.swap(broken, false);
            assert_eq!(node.listed(), ["1", "2"]);
        }
        let versions = node.versions().list().unwrap();
        let last_good = versions.choose(None).unwrap();
        assert_eq!(last_good.archive, first.to_string());
        let archive = node.versions().archive(last_good).unwrap();
        assert_eq!(archives::digest_of(&archive).unwrap(), first);
    }

    #[test]
    fn the_versions_of_a_node_are_bounded() {
        let node = Node::new();
        node.put("0", None);
        for number in 1..10 {
            node.swap(&number.to_string(), true);
            assert!(node.files() <= LIMIT);
        }
        assert_eq!(node.listed(), ["5", "6", "7", "8", "9"]);
        assert_eq!(node.files(), LIMIT);
    }

    #[test]
    fn a_lost_record_loses_no_version() {
        let node = Node::new();
        node.put("1", None);
        node.swap("2", true);
        node.swap("3", true);
        fs::write(node.paths.record(SERVICE), "{").unwrap();
        let mut listed = node.listed();
        assert_eq!(listed.pop().as_deref(), Some("3"), "the one on record");
        listed.sort();
        assert_eq!(listed, ["1", "2"]);
    }

    #[test]
    fn a_damaged_version_is_not_taken() {
        let node = Node::new();
        let first = node.put("1", None);
        node.swap("2", true);
        node.swap("3", true);
        // A damaged link damages what the slot has as well: the disk lost one file.
        fs::write(node.archives.version(SERVICE, first), "damaged").unwrap();
        let versions = node.versions().list().unwrap();
        let chosen = versions.choose(Some("1")).unwrap();
        let error = node.versions().archive(chosen).unwrap_err();
        assert_eq!(error.to_string(), "the archive of 1 is damaged or gone");
    }
}
