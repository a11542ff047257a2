//! Records become a zone again.

use std::path::Path;

use dns_wire::hash::Seed;
use dns_wire::{Name, Type};
use dns_zone::incoming::line;
use dns_zone::parse::{self, Options};
use dns_zone::zone::cursor::ZoneRecord;
use dns_zone::{RecordData, Zone};

use crate::version::Version;

/// The way in which records become a zone.
#[derive(Clone, Copy, Debug)]
pub struct Making<'m> {
    /// The zone.
    pub name: &'m Name,
    /// Its file.
    pub path: Option<&'m Path>,
    /// How master files are read.
    pub options: &'m Options,
    /// Whether there may be LUA records.
    pub has_programs: bool,
    /// The seed by which names are hashed.
    pub seed: Seed,
}

impl Making<'_> {
    /// The zone of a version.
    ///
    /// # Errors
    /// When the records are not that version, or cannot be served.
    pub fn exactly(
        &self,
        version: &Version,
        records: Vec<ZoneRecord<'static>>,
    ) -> Result<Zone, String> {
        let zone = self.zone(version.soa.clone(), records)?;
        match Version::of(&zone).as_ref() == Some(version) {
            true => Ok(zone),
            false => Err("that version cannot be put together as it was".to_owned()),
        }
    }

    /// The zone of these records, by way of a master file, as a zone that came by a transfer.
    ///
    /// # Errors
    /// When they cannot be served.
    pub fn zone(
        &self,
        soa: ZoneRecord<'static>,
        mut records: Vec<ZoneRecord<'static>>,
    ) -> Result<Zone, String> {
        records.push(soa);
        // The SOA record comes first.
        let place = |record: &ZoneRecord<'static>| record.rtype != Type::SOA;
        records.sort_by(|a, b| {
            (place(a), &a.owner, a.rtype, &a.rdata).cmp(&(place(b), &b.owner, b.rtype, &b.rdata))
        });
        let lines = records
            .iter()
            .map(|record| line(&record.owner, record.rtype, record.ttl, &record.rdata) + "\n");
        let text: String = lines.collect();
        let path = self.path.unwrap_or_else(|| Path::new("history"));
        let mut load = |asked: &Path| match asked == path {
            true => Ok(text.clone().into_bytes()),
            false => Err(std::io::ErrorKind::NotFound.into()),
        };
        let parsed = parse::parse(path, self.name, &mut load, self.options);
        let built = parsed
            .map_err(|rejected| rejected.problems)
            .and_then(|file| {
                let is_program = |data: &RecordData| matches!(data, RecordData::Lua { .. });
                let has_programs = file.records.iter().any(|record| is_program(&record.data));
                let zone = Zone::build(self.name, &file.records, self.seed)?;
                Ok((zone, has_programs))
            });
        let (zone, has_any) = built.map_err(|problems| {
            let first = problems.first().map(ToString::to_string);
            format!(
                "that version cannot be served: {}",
                first.unwrap_or_default()
            )
        })?;
        match has_any && !self.has_programs {
            true => Err("that version has LUA records, which are not enabled".to_owned()),
            false => Ok(zone),
        }
    }
}
