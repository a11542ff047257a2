//! Which slot of a service is on record, and what is known of both.
//!
//! Two files, of which the one without content decides: a unit can look whether a file is there, and
//! a file is there or not whenever the power goes. The other one is for people.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;

use serde::{Deserialize, Serialize};

use super::places::Places;
use super::slot::Slot;
use crate::durable::{self, Rights};
use crate::service::Service;

/// What is known of the slots of a service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// What each slot was filled with.
    #[serde(default)]
    pub(crate) slots: BTreeMap<String, Filling>,
    /// How the last swap ended.
    #[serde(default)]
    pub(crate) last: Option<Last>,
}

/// What a slot was filled with by a swap.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Filling {
    /// The version on the image.
    pub(crate) version: String,
    /// The revision on the image.
    pub(crate) revision: String,
    /// The image's identity, the digest of its configuration, if a swap has loaded it.
    #[serde(default)]
    pub(crate) image: Option<String>,
    /// When it was loaded by a swap, in seconds since 1970.
    #[serde(default)]
    pub(crate) loaded: Option<u64>,
    /// Whether it has served: what has not is nothing to go back to.
    #[serde(default)]
    pub(crate) has_served: bool,
}

impl Filling {
    /// It has served, as this version.
    pub(crate) fn serve(&mut self, version: String, revision: String) {
        self.version = version;
        self.revision = revision;
        self.has_served = true;
    }
}

/// How a swap ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Last {
    /// In a word.
    pub(crate) outcome: String,
    /// Why, if it did not go as it should.
    #[serde(default)]
    pub(crate) reason: Option<String>,
    /// When, in seconds since 1970.
    pub(crate) ended: u64,
}

/// The slot on record.
pub(crate) fn live(places: &Places, service: Service) -> Slot {
    match places.mark(service).exists() {
        true => Slot::B,
        false => Slot::A,
    }
}

/// Puts a slot on record: all of it, or nothing.
///
/// # Errors
/// When the disk refuses.
pub(crate) fn put(places: &Places, service: Service, slot: Slot) -> io::Result<()> {
    let mark = places.mark(service);
    fs::create_dir_all(places.slots())?;
    match slot {
        Slot::B => drop(File::create(&mark)?),
        Slot::A => durable::remove(&mark)?,
    }
    durable::sync_directory_of(&mark)
}

impl Record {
    /// What is known; nothing if nothing was written, or nothing that can be read.
    pub(crate) fn read(places: &Places, service: Service) -> Self {
        let text = fs::read(places.record(service)).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    /// Writes it anew.
    ///
    /// # Errors
    /// When the disk refuses.
    pub(crate) fn write(&self, places: &Places, service: Service) -> anyhow::Result<()> {
        let text = serde_json::to_vec_pretty(self)?;
        fs::create_dir_all(places.slots())?;
        durable::write(&places.record(service), Rights::PUBLIC, text.as_slice())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_put_on_record_and_taken_off_again() {
        let root = tempfile::tempdir().unwrap();
        let places = Places::below(root.path());
        let service = Service::DnsAuthd;
        assert_eq!(live(&places, service), Slot::A);
        for slot in [Slot::A, Slot::B, Slot::B, Slot::A, Slot::A] {
            put(&places, service, slot).unwrap();
            assert_eq!(live(&places, service), slot);
            assert_eq!(live(&places, Service::Healthd), Slot::A);
        }
        assert_eq!(Record::read(&places, service), Record::default());
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
            last: None,
        };
        record.write(&places, service).unwrap();
        assert_eq!(Record::read(&places, service), record);
        // What a disk has made of it is no reason to do nothing.
        fs::write(places.record(service), "{").unwrap();
        assert_eq!(Record::read(&places, service), Record::default());
    }
}
