//! Several updates that become one version.

use dns_wire::{Rcode, Type};
use dns_zone::Zone;
use dns_zone::zone::cursor::ZoneRecord;

use crate::draft::{Draft, Refusal};
use crate::grant::Grant;
use crate::message::Update;

/// Makes a zone of its SOA record and its other records.
pub type Make<'m> =
    &'m mut dyn FnMut(ZoneRecord<'static>, Vec<ZoneRecord<'static>>) -> Result<Zone, String>;

/// An update, and the grants of its key.
pub type Asked<'a> = (&'a Update, Vec<&'a Grant>);

/// Carries out updates in their order, each as a whole or not at all. Returns the end of each, and the next version; `None` if
/// nothing changes.
pub fn apply_all(
    served: &Zone,
    asked: &[Asked<'_>],
    make: Make<'_>,
) -> (Vec<Result<(), Refusal>>, Option<Zone>) {
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
    match zone_of(&draft, make) {
        Ok(zone) => (results, Some(zone)),
        Err(why) if asked.len() == 1 => (vec![Err(Refusal::failure(&why))], None),
        Err(_) => one_by_one(served, asked, make),
    }
}

/// The same without those that spoil the zone.
fn one_by_one(
    served: &Zone,
    asked: &[Asked<'_>],
    make: Make<'_>,
) -> (Vec<Result<(), Refusal>>, Option<Zone>) {
    let mut draft = Draft::of(served);
    let mut zone = None;
    let results = asked.iter().map(|(update, grants)| {
        let mut next = draft.clone();
        if next.apply(update, grants)? {
            let made = zone_of(&next, &mut *make);
            zone = Some(made.map_err(|why| Refusal::failure(&why))?);
            draft = next;
        }
        Ok(())
    });
    let results = results.collect();
    (results, zone)
}

fn zone_of(draft: &Draft, make: Make<'_>) -> Result<Zone, String> {
    let records = draft.clone().into_records();
    let is_soa = |record: &ZoneRecord<'_>| record.rtype == Type::SOA;
    let (mut soa, records): (Vec<_>, Vec<_>) = records.into_iter().partition(is_soa);
    make(soa.pop().ok_or("it has no SOA record")?, records)
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
