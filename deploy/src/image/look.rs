//! `outpost images list` and `verify`: what each slot would run, and whether every byte of it is right.

use daemon::outln;
use serde::Serialize;

use crate::image::args::{ImageList, ImagePlace};
use crate::image::load::Rack;
use crate::image::shelf::Shelf;
use crate::image::stamp::Stamp;
use crate::image::store::Condition;
use crate::service::Service;
use crate::swap::slot::Slot;

/// What a slot would run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
struct Row {
    service: &'static str,
    slot: &'static str,
    archive: String,
    version: Option<String>,
    revision: Option<String>,
    image: Option<String>,
    state: String,
}

/// Prints what each slot would run.
///
/// # Errors
///
/// When the store cannot be used at all.
pub(crate) fn list(args: &ImageList) -> anyhow::Result<bool> {
    let rows = rows(&args.place)?;
    if args.json {
        outln!("{}", serde_json::to_string_pretty(&rows)?);
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
    Ok(rows.iter().all(|row| row.state == WHOLE))
}

fn rows(place: &ImagePlace) -> anyhow::Result<Vec<Row>> {
    let shelf = Shelf::new(&place.archives);
    let rack = Rack::look(place)?;
    let mut rows = Vec::new();
    for service in Service::ALL {
        for slot in Slot::ALL {
            let Some(archive) = shelf.archive(service, slot) else {
                continue;
            };
            let image = shelf.read(&archive);
            let stamp = image.as_ref().ok().map(Stamp::of);
            let state = match (&image, &stamp) {
                (Err(error), _) => format!("{error:#}"),
                (Ok(_), Some(stamp)) => state(&rack, service, slot, stamp),
                (Ok(_), None) => String::new(),
            };
            let name = archive.file_name().unwrap_or_default();
            rows.push(Row {
                service: service.name(),
                slot: slot.name(),
                archive: name.to_string_lossy().into_owned(),
                version: stamp.as_ref().map(|stamp| stamp.version.clone()),
                revision: stamp.as_ref().map(|stamp| stamp.revision.clone()),
                image: stamp.as_ref().map(|stamp| stamp.image_id.to_string()),
                state,
            });
        }
    }
    Ok(rows)
}

fn state(rack: &Rack, service: Service, slot: Slot, stamp: &Stamp) -> String {
    let other = match rack {
        Rack::Store(store) => store.image_of(service, slot) != Some(stamp.image_id),
        Rack::Programs(_) => false,
    };
    match rack.condition(service, slot, stamp) {
        Condition::Whole if other => "loaded, but the slot would run another image".to_owned(),
        Condition::Whole => WHOLE.to_owned(),
        Condition::Missing => "not loaded".to_owned(),
        Condition::Damaged(what) => format!("damaged: {what}"),
    }
}

/// What is said of a slot with which nothing is wrong.
const WHOLE: &str = "whole";
