//! `outpost images list` and `verify`: the image of each slot, and whether every byte of it is right.

use daemon::{json, outln};
use serde::Serialize;

use crate::images::args::{ImageList, ImagePlace};
use site::service::Service;
use site::slot::Slot;
use site_node::images::archives::Archives;
use site_node::images::image_record::ImageRecord;
use site_node::images::load::ImageStore;
use site_node::images::store::{Condition, Depth};

/// The image of a slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
struct Row {
    service: &'static str,
    slot: &'static str,
    archive: String,
    version: Option<String>,
    revision: Option<String>,
    image: Option<String>,
    state: SlotImage,
}

/// How much of its image a slot has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum SlotImage {
    #[error("whole")]
    Whole,
    #[error("loaded, but the slot would run another image")]
    Other,
    #[error("not loaded")]
    Missing,
    #[error("damaged: {0}")]
    Damaged(String),
    /// Its archive cannot be read, for this reason.
    #[error("{0}")]
    Unreadable(String),
}

impl Serialize for SlotImage {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Prints what each slot would run.
///
/// # Errors
///
/// When the store cannot be used at all.
pub(crate) fn list(args: &ImageList) -> anyhow::Result<bool> {
    let rows = rows(&args.place)?;
    if args.json {
        json::print(&rows);
        return Ok(true);
    }
    outln!("SERVICE         SLOT  VERSION     IMAGE         ARCHIVE              STATE");
    for row in rows {
        outln!(
            "{:<15} {:<5} {:<11} {:<13} {:<20} {}",
            row.service,
            row.slot,
            row.version.unwrap_or_default(),
            row.image
                .unwrap_or_default()
                .chars()
                .take(12)
                .collect::<String>(),
            row.archive,
            row.state
        );
    }
    Ok(true)
}

/// Reads everything, and prints what is wrong. True if nothing is.
///
/// # Errors
///
/// When the store cannot be used at all.
pub(crate) fn verify(place: &ImagePlace) -> anyhow::Result<bool> {
    let rows = rows(place)?;
    for row in &rows {
        outln!(
            "{} {}: {}: {}",
            row.service,
            row.slot,
            row.archive,
            row.state
        );
    }
    Ok(are_whole(&rows))
}

fn are_whole(rows: &[Row]) -> bool {
    rows.iter().all(|row| row.state == SlotImage::Whole)
}

fn rows(place: &ImagePlace) -> anyhow::Result<Vec<Row>> {
    let archives = Archives::new(&place.archives);
    let images = ImageStore::look(&place.paths(place.native))?;
    let mut rows = Vec::new();
    for service in Service::ALL {
        for slot in Slot::ALL {
            let Some(archive) = archives.archive(service, slot) else {
                continue;
            };
            let image = archives.read(&archive);
            let record = image.as_ref().ok().map(ImageRecord::of);
            let state = match (&image, &record) {
                (Err(error), _) => SlotImage::Unreadable(format!("{error:#}")),
                (Ok(_), Some(record)) => state(&images, service, slot, record),
                (Ok(_), None) => SlotImage::Missing,
            };
            let name = archive.file_name().unwrap_or_default();
            rows.push(Row {
                service: service.name(),
                slot: slot.name(),
                archive: name.to_string_lossy().into_owned(),
                version: record.as_ref().map(|record| record.version.clone()),
                revision: record.as_ref().map(|record| record.revision.clone()),
                image: record.as_ref().map(|record| record.image_id.to_string()),
                state,
            });
        }
    }
    Ok(rows)
}

fn state(images: &ImageStore, service: Service, slot: Slot, record: &ImageRecord) -> SlotImage {
    let other = match images {
        ImageStore::Store(store) => store.image_of(service, slot) != Some(record.image_id),
        ImageStore::Programs(_) => false,
    };
    match images.condition(service, slot, record, Depth::Bytes) {
        Condition::Whole if other => SlotImage::Other,
        Condition::Whole => SlotImage::Whole,
        Condition::Missing => SlotImage::Missing,
        Condition::Damaged(what) => SlotImage::Damaged(what),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_whole_by_its_state_and_not_by_its_text() {
        let row = |state| Row {
            service: "healthd",
            slot: "a",
            archive: "healthd.tar".to_owned(),
            version: None,
            revision: None,
            image: None,
            state,
        };
        let unreadable = SlotImage::Unreadable("whole".to_owned());
        assert_eq!(unreadable.to_string(), SlotImage::Whole.to_string());
        assert!(are_whole(&[row(SlotImage::Whole)]));
        assert!(!are_whole(&[row(SlotImage::Whole), row(unreadable)]));
        let json = serde_json::to_value(row(SlotImage::Missing)).unwrap();
        assert_eq!(json["state"], "not loaded");
    }
}
