//! Several updates that become one version.

use dns_wire::{Rcode, Type};
use dns_zone::Zone;
use dns_zone::zone::cursor::ZoneRecord;

use crate::draft::{Changes, Draft, Refusal};
use crate::grant::Grant;
use crate::message::Update;

/// Makes a zone of its SOA record and its other records.
pub type Make<'m> =
    &'m mut dyn FnMut(ZoneRecord<'static>, Vec<ZoneRecord<'static>>) -> Result<Zone, String>;

/// An update, and the grants of its key.
pub type Asked<'a> = (&'a Update, Vec<&'a Grant>);

/// The version that updates have made.
#[derive(Debug)]
pub struct Next {
    /// The zone.
    pub zone: Zone,
    /// The difference; `None` if it has to be looked for in all records.
    pub step: Option<Step>,
}

/// The difference between a version and the next one.
#[derive(Debug)]
pub struct Step {
    /// The SOA record of the next version.
    pub soa: ZoneRecord<'static>,
    /// The records that go; the SOA record is not among them.
    pub removed: Vec<ZoneRecord<'static>>,
    /// The records that come; the SOA record is not among them.
    pub added: Vec<ZoneRecord<'static>>,
}

/// Carries out updates in their order, each as a whole or not at all. Returns the end of each, and the next version; `None` if
/// nothing changes.
pub fn apply_all(
    served: &Zone,
    asked: &[Asked<'_>],
    make: Make<'_>,
) -> (Vec<Result<(), Refusal>>, Option<Next>) {
    let mut draft = Draft::of(served);
    let mut is_changed = false;
    let results = asked.iter().map(|(update, grants)| {
        is_changed |= draft.apply(update, grants)?;
        Ok(())
    });
    let results: Vec<Result<(), Refusal>> = results.collect();
    if !is_changed {
        return (results, None);
    }
    match next_of(served, &draft, make) {
        Ok(next) => (results, Some(next)),
        Err(why) if asked.len() == 1 => (vec![Err(Refusal::failure(&why))], None),
        Err(_) => one_by_one(served, asked, make),
    }
}

/// The same without those that spoil the zone.
fn one_by_one(
    served: &Zone,
    asked: &[Asked<'_>],
    make: Make<'_>,
) -> (Vec<Result<(), Refusal>>, Option<Next>) {
    let mut draft = Draft::of(served);
    let mut zone = None;
    let results = asked.iter().map(|(update, grants)| {
        let mut next = draft.clone();
        if next.apply(update, grants)? {
            let made = next_of(served, &next, &mut *make);
            zone = Some(made.map_err(|why| Refusal::failure(&why))?);
            draft = next;
        }
        Ok(())
    });
    let results = results.collect();
    (results, zone)
}

fn next_of(served: &Zone, draft: &Draft<'_>, make: Make<'_>) -> Result<Next, String> {
    if let Some(next) = patched(served, draft.changes(), &mut *make) {
        return Ok(next);
    }
    let records = draft.clone().into_records();
    let is_soa = |record: &ZoneRecord<'_>| record.rtype == Type::SOA;
    let (mut soa, records): (Vec<_>, Vec<_>) = records.into_iter().partition(is_soa);
    let zone = make(soa.pop().ok_or("it has no SOA record")?, records)?;
    Ok(Next { zone, step: None })
}

/// The next version as a copy in which only these names differ, so that its cost does not grow with the zone's records; `None` when it
/// has to be made as a whole.
fn patched(served: &Zone, changes: Changes, make: Make<'_>) -> Option<Next> {
    let Changes {
        edits,
        removed,
        added,
        soa,
        servers,
    } = changes;
    let soa = soa?;
    if !added.is_empty() {
        // A record that cannot be served is found among these as among all. A zone has servers of its own.
        let is_new = |record: &ZoneRecord<'static>| added.contains(record);
        let others = servers.into_iter().filter(|record| !is_new(record));
        let alone: Vec<_> = added.iter().cloned().chain(others).collect();
        let n_records = alone.len() + 1;
        if make(soa.clone(), alone).ok()?.n_records() != n_records {
            return None;
        }
    }
    let zone = served.patched(&edits)?;
    let n_records = (served.n_records() + added.len()).checked_sub(removed.len())?;
    let step = Step {
        soa,
        removed,
        added,
    };
    (zone.n_records() == n_records).then_some(Next {
        zone,
        step: Some(step),
    })
}

impl Refusal {
    /// The server cannot carry it out.
    #[must_use]
    pub fn failure(why: &str) -> Self {
        Self {
            rcode: Rcode::SERVFAIL,
            why: why.to_owned(),
        }
    }
}
