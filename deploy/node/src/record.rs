//! The slot of a service on record, and the facts about both slots.
//!
//! Two files, of which the one without content decides: a unit can look whether a file is there, and
//! a file is there or not whenever the power goes. The other one is for people.

use api::outpost::{LastSwap, Version};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;

use serde::{Deserialize, Serialize};

use crate::paths::NodePaths;
use durable::Rights;
use site::service::Service;
use site::slot::Slot;

/// The facts about the slots of a service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The content of each slot.
    #[serde(default)]
    pub slots: BTreeMap<String, Filling>,
    /// How the last swap ended.
    #[serde(default)]
    pub last: Option<LastSwap>,
    /// How swaps before the last one ended, the newest last.
    #[serde(default)]
    pub earlier: Vec<LastSwap>,
    /// The versions that have served, in the order in which they did.
    #[serde(default)]
    pub versions: Vec<Version>,
}

/// How many swaps are remembered before the last one.
const EARLIER: usize = 19;

/// The content that a swap put into a slot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filling {
    /// The version on the image.
    pub version: String,
    /// The revision on the image.
    pub revision: String,
    /// The image's identity, the digest of its configuration, if a swap has loaded it.
    #[serde(default)]
    pub image: Option<String>,
    /// When it was loaded by a swap, in seconds since 1970.
    #[serde(default)]
    pub loaded: Option<u64>,
    /// Whether it has served: a version that has not is nothing to go back to.
    #[serde(default)]
    pub has_served: bool,
}

impl Filling {
    /// It has served, as this version.
    pub fn serve(&mut self, version: String, revision: String) {
        self.version = version;
        self.revision = revision;
        self.has_served = true;
    }
}

/// The slot on record.
pub fn live(paths: &NodePaths, service: Service) -> Slot {
    match paths.mark(service).exists() {
        true => Slot::B,
        false => Slot::A,
    }
}

/// Puts a slot on record: all of it, or nothing.
///
/// # Errors
/// When the disk refuses.
pub fn put(paths: &NodePaths, service: Service, slot: Slot) -> io::Result<()> {
    let mark = paths.mark(service);
    fs::create_dir_all(paths.slots())?;
    match slot {
        Slot::B => drop(File::create(&mark)?),
        Slot::A => durable::remove(&mark)?,
    }
    durable::sync_directory_of(&mark)
}

impl Record {
    /// Reads the record; an empty one if nothing was written, or nothing that can be read.
    pub fn read(paths: &NodePaths, service: Service) -> Self {
        let text = fs::read(paths.record(service)).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    /// Takes up how a swap ended.
    pub fn end(&mut self, swap: LastSwap) {
        self.earlier.extend(self.last.replace(swap));
        let surplus = self.earlier.len().saturating_sub(EARLIER);
        self.earlier.drain(..surplus);
    }

    /// Writes it again.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn write(&self, paths: &NodePaths, service: Service) -> anyhow::Result<()> {
        let text = serde_json::to_vec_pretty(self)?;
        fs::create_dir_all(paths.slots())?;
        durable::write(&paths.record(service), Rights::PUBLIC, text.as_slice())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_swaps_are_remembered() {
        let mut record = Record::default();
        for ended in 0..100 {
            record.end(LastSwap {
                ended,
                ..LastSwap::default()
            });
        }
        let earlier: Vec<u64> = record.earlier.iter().map(|swap| swap.ended).collect();
        assert_eq!(earlier, (80..99).collect::<Vec<_>>());
        assert_eq!(record.last.unwrap().ended, 99);
    }

    #[test]
    fn a_slot_is_put_on_record_and_taken_off_again() {
        let root = tempfile::tempdir().unwrap();
        let paths = NodePaths::below(root.path());
        let service = Service::DnsAuthd;
        assert_eq!(live(&paths, service), Slot::A);
        for slot in [Slot::A, Slot::B, Slot::B, Slot::A, Slot::A] {
            put(&paths, service, slot).unwrap();
            assert_eq!(live(&paths, service), slot);
            assert_eq!(live(&paths, Service::Healthd), Slot::A);
        }
        assert_eq!(Record::read(&paths, service), Record::default());
        let record = Record {
            slots: BTreeMap::from([(
                "b".to_owned(),
                Filling {
                    version: "0.2.0".to_owned(),
                    revision: "1a2b3c4d5".to_owned(),
                    image: Some("sha256:00".to_owned()),
                    loaded: Some(1),
                    has_served: true,
                },
            )]),
            ..Record::default()
        };
        record.write(&paths, service).unwrap();
        assert_eq!(Record::read(&paths, service), record);
        // What a disk has made of it is no reason to do nothing.
        fs::write(paths.record(service), "{").unwrap();
        assert_eq!(Record::read(&paths, service), Record::default());
    }
}
