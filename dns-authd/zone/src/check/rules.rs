//! Rules for the types at one name, and for the names of a type.

use dns_wire::{Name, Type};

use super::Report;
use super::index::{Index, Suffix, is_hostname, shown};
use crate::record::{Record, RecordData};

/// Checks the records of one name against each other.
pub(super) fn check_node(
    index: &Index<'_>,
    name: Suffix<'_>,
    records: &[&Record],
    report: &mut Report,
) {
    check_alone(name, records, report);
    check_place(index, name, records, report);
    check_occluded(index, name, records, report);
    check_aliases(records, report);
    let wildcard = name.0.starts_with(b"\x01*");
    for record in records {
        match record.rtype() {
            Type::A | Type::AAAA if !is_hostname(name.0) => {
                let rtype = record.rtype();
                report.note(
                    record,
                    format!("{} has {rtype} but is not a hostname", shown(name)),
                );
            }
            Type::NS | Type::DNAME if wildcard => {
                let rtype = record.rtype();
                let message = format!("{rtype} at a wildcard means little (RFC 4592 §4)");
                report.warning(record, message);
            }
            _ => {}
        }
    }
}

/// CNAME and DNAME must be the only record of their type, and CNAME the only type of its name.
fn check_alone(name: Suffix<'_>, records: &[&Record], report: &mut Report) {
    let of = |rtype: Type| records.iter().filter(move |record| record.rtype() == rtype);
    for rtype in [Type::CNAME, Type::DNAME] {
        for second in of(rtype).skip(1) {
            report.error(second, format!("{} has more than one {rtype}", shown(name)));
        }
    }
    let Some(cname) = of(Type::CNAME).next() else {
        return;
    };
    // RFC 4034 §2.5: signatures and proofs may be beside a CNAME.
    let beside = records.iter().find(|record| {
        !matches!(
            record.rtype(),
            Type::CNAME | Type::RRSIG | Type::NSEC | Type::KEY
        )
    });
    if let Some(other) = beside {
        let (name, rtype) = (shown(name), other.rtype());
        report.error(
            cname,
            format!("{name} has CNAME and {rtype} (RFC 1034 §3.6.2)"),
        );
    }
}

/// Types that belong to the apex, or to a delegation.
fn check_place(index: &Index<'_>, name: Suffix<'_>, records: &[&Record], report: &mut Report) {
    let at_apex = name == index.apex();
    for record in records {
        let rtype = record.rtype();
        match rtype {
            Type::DS if at_apex => {
                report.warning(record, "DS belongs to the parent zone, not to the apex");
            }
            Type::DS if !index.is_cut(name) => {
                report.warning(
                    record,
                    format!("{} has DS but is not delegated", shown(name)),
                );
            }
            Type::DNSKEY
            | Type::NSEC3PARAM
            | Type::CDS
            | Type::CDNSKEY
            | Type::CSYNC
            | Type::ZONEMD
                if !at_apex =>
            {
                report.warning(record, format!("{rtype} belongs to the apex"));
            }
            _ => {}
        }
        if let (Type::SOA, RecordData::Wire { rdata, .. }) = (rtype, &record.data) {
            check_soa(record, rdata, report);
        }
    }
}

/// The mailbox of an SOA has a dot in place of the at sign (RFC 1035 §8).
fn check_soa(record: &Record, rdata: &[u8], report: &mut Report) {
    let mailbox = Name::from_wire(rdata).ok().and_then(|(_, length)| {
        Name::from_wire(rdata.get(length..)?)
            .ok()
            .map(|(name, _)| name)
    });
    let at_sign = mailbox.is_some_and(|name| name.labels().any(|label| label.contains(&b'@')));
    if at_sign {
        report.warning(
            record,
            "the SOA's mailbox has an `@`, which is written as a dot",
        );
    }
}

/// Records that no answer shows, because the name is delegated or redirected.
fn check_occluded(index: &Index<'_>, name: Suffix<'_>, records: &[&Record], report: &mut Report) {
    if let Some((divider, rtype)) = index.divider(name) {
        for record in records {
            let glue = rtype == Type::NS && matches!(record.rtype(), Type::A | Type::AAAA);
            if !glue {
                let (owner, divider) = (shown(name), shown(divider));
                let what = format!("{owner} {}", record.rtype());
                report.warning(
                    record,
                    format!("{what} is hidden by the {rtype} of {divider}"),
                );
            }
        }
    } else if index.is_cut(name) {
        for record in records {
            let shown_there = matches!(
                record.rtype(),
                Type::NS | Type::DS | Type::A | Type::AAAA | Type::NSEC | Type::RRSIG
            );
            if !shown_there {
                let what = format!("{} {}", shown(name), record.rtype());
                report.warning(record, format!("{what} is hidden by the delegation there"));
            }
        }
    }
}

/// Signatures and proofs, which need a signed zone; and `LUA` records in a signed zone.
pub(super) fn check_signatures(
    index: &Index<'_>,
    name: Suffix<'_>,
    records: &[&Record],
    signed: bool,
    report: &mut Report,
) {
    for record in records {
        let rtype = record.rtype();
        match (&record.data, rtype) {
            (_, Type::RRSIG | Type::NSEC | Type::NSEC3) if !signed => {
                report.error(record, format!("{rtype} in a zone that has no DNSKEY"));
            }
            (RecordData::Lua { .. }, _) if signed => {
                let message = "a LUA record's answers cannot carry the zone's signatures";
                report.warning(record, message);
            }
            (RecordData::Wire { rdata, .. }, Type::NSEC3PARAM) if name == index.apex() => {
                check_nsec3(record, rdata, report);
            }
            (RecordData::Wire { rdata, .. }, _) => check_digest(record, rdata, report),
            (RecordData::Lua { .. }, _) => {}
        }
    }
}

/// RFC 9276 §3.1: no extra iterations and no salt.
fn check_nsec3(record: &Record, rdata: &[u8], report: &mut Report) {
    if let [_, _, high, low, salt, ..] = rdata {
        let iterations = u16::from_be_bytes([*high, *low]);
        if iterations > 0 {
            let message = format!("NSEC3 with {iterations} iterations; RFC 9276 asks for none");
            report.warning(record, message);
        }
        if *salt > 0 {
            report.note(record, "NSEC3 with a salt; RFC 9276 asks for none");
        }
    }
}

/// The length of a digest follows from its algorithm: RFC 4509 and RFC 6605 for DS, RFC 4255 and RFC 6594
/// for SSHFP, RFC 6698 §2.1.3 for TLSA, RFC 8976 §2.2.3 for ZONEMD.
fn check_digest(record: &Record, rdata: &[u8], report: &mut Report) {
    let (kind, digest, lengths): (_, _, &[(u8, usize)]) = match (record.rtype(), rdata) {
        (Type::DS | Type::CDS, [_, _, _, kind, digest @ ..]) => {
            (kind, digest, &[(1, 20), (2, 32), (4, 48)])
        }
        (Type::SSHFP, [_, kind, digest @ ..]) => (kind, digest, &[(1, 20), (2, 32)]),
        (Type::TLSA | Type::SMIMEA, [_, _, kind, digest @ ..]) => {
            (kind, digest, &[(1, 32), (2, 64)])
        }
        (Type::ZONEMD, [_, _, _, _, _, kind, digest @ ..]) => (kind, digest, &[(1, 48), (2, 64)]),
        _ => return,
    };
    let known = lengths.iter().find(|(known, _)| known == kind);
    if let Some((_, length)) = known.filter(|(_, length)| *length != digest.len()) {
        let found = digest.len();
        let message = format!("a digest of type {kind} has {length} octets, not {found}");
        report.error(record, message);
    }
}

/// The two forms of SVCB and HTTPS (RFC 9460 §2.4).
fn check_aliases(records: &[&Record], report: &mut Report) {
    for rtype in [Type::SVCB, Type::HTTPS] {
        let forms = records.iter().filter_map(|record| match &record.data {
            RecordData::Wire {
                rtype: found,
                rdata,
            } if *found == rtype => Some((record, rdata.starts_with(&[0, 0]))),
            _ => None,
        });
        let (aliases, services): (Vec<_>, Vec<_>) = forms.partition(|(_, alias)| *alias);
        for (record, _) in aliases.iter().skip(1) {
            report.warning(record, format!("more than one alias form of {rtype}"));
        }
        if let (Some((record, _)), false) = (aliases.first(), services.is_empty()) {
            let message = format!("the alias form of {rtype} makes its service forms ignored");
            report.warning(record, message);
        }
    }
}
