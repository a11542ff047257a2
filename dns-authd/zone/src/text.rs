//! A zone as a master file.

use std::fmt::Write;

use dns_wire::Type;

use crate::zone::Zone;

/// The zone with its parts as a master file, names absolute, in canonical order (RFC 4034 §6.1), SOA first.
#[must_use]
pub fn master_file<'z>(zone: &Zone, parts: impl Iterator<Item = &'z Zone>) -> String {
    let of_parts = parts.flat_map(Zone::plain_records);
    // Each part has a SOA record, for its negative answers.
    let of_parts = of_parts.filter(|(_, rtype, ..)| *rtype != Type::SOA);
    let records = zone.plain_records().into_iter().chain(of_parts);
    let records = records.map(|(owner, rtype, ttl, rdata)| {
        let data = dns_wire::rdata::display(rtype, &rdata);
        (owner, rtype, ttl, rdata, data)
    });
    let programs = zone.programs().map(|(owner, rtype, program)| {
        let data = program.display(rtype);
        (owner.clone(), Type::LUA, program.ttl, Vec::new(), data)
    });
    let mut records: Vec<_> = records.chain(programs).collect();
    records.sort_by(|a, b| {
        let key = |rtype: Type| (rtype != Type::SOA, rtype);
        (&a.0, key(a.1), &a.3, &a.4).cmp(&(&b.0, key(b.1), &b.3, &b.4))
    });
    let mut text = String::new();
    for (owner, rtype, ttl, _, data) in records {
        // Writing to a string cannot fail.
        let _written = writeln!(text, "{owner}\t{ttl}\tIN\t{rtype}\t{data}");
    }
    text
}
