//! Names that records point to: whether they exist, are hosts, and have addresses.

use dns_wire::name::wire_length;
use dns_wire::rdata;
use dns_wire::{Name, Type};

use super::Report;
use super::index::{Found, Index, Suffix, is_hostname};
use crate::record::{Record, RecordData};

/// Checks the names that one record points to.
pub(super) fn check_record(
    index: &Index<'_>,
    owner: Suffix<'_>,
    record: &Record,
    report: &mut Report,
) {
    let RecordData::Wire { rtype, rdata } = &record.data else {
        return;
    };
    match *rtype {
        Type::NS => {
            let Some(target) = name_at(rdata, 0) else {
                return;
            };
            check_host(index, record, &target, report);
            check_glue(index, owner, record, &target, report);
        }
        Type::MX | Type::SRV => {
            let offset = if *rtype == Type::MX { 2 } else { 6 };
            // A lone dot means that there is no such service (RFC 7505, RFC 2782).
            if let Some(target) = name_at(rdata, offset).filter(|target| !target.is_root()) {
                check_host(index, record, &target, report);
            }
        }
        Type::CNAME => {
            if let Some(target) = name_at(rdata, 0) {
                check_alias(index, owner, record, &target, report);
            }
        }
        Type::SVCB | Type::HTTPS => check_service(index, owner, record, rdata, report),
        _ => {}
    }
}

/// The name in data at an offset.
fn name_at(rdata: &[u8], offset: usize) -> Option<Name> {
    let (name, _) = Name::from_wire(rdata.get(offset..)?).ok()?;
    Some(name)
}

/// A host that clients are sent to: a name with addresses and no alias (RFC 2181 §10.3).
fn check_host(index: &Index<'_>, record: &Record, target: &Name, report: &mut Report) {
    let rtype = record.rtype();
    if is_address(target) {
        report.error(
            record,
            format!("{rtype} points to {target}: an address is not a name"),
        );
        return;
    }
    if !is_hostname(target.as_wire()) {
        report.warning(
            record,
            format!("{rtype} points to {target}, which is not a hostname"),
        );
    }
    if doubles(index, target) {
        let message = format!("{rtype} points to {target}; is a final dot missing?");
        report.warning(record, message);
    }
    match index.find(Suffix(target.as_wire())) {
        Found::Elsewhere => {}
        Found::Missing => {
            report.warning(
                record,
                format!("{rtype} points to {target}, which does not exist"),
            );
        }
        Found::Empty => {
            report.warning(
                record,
                format!("{rtype} points to {target}, which has no address"),
            );
        }
        Found::Node(node) => {
            let has = |wanted: Type| index.records(node).any(|it| it.rtype() == wanted);
            if has(Type::CNAME) {
                report.warning(
                    record,
                    format!("{rtype} points to {target}, which is a CNAME"),
                );
            } else if !has(Type::A) && !has(Type::AAAA) {
                let message = format!("{rtype} points to {target}, which has no address");
                report.warning(record, message);
            }
        }
    }
}

/// A delegation to a server below itself needs that server's addresses (RFC 1034 §4.2.1).
fn check_glue(
    index: &Index<'_>,
    owner: Suffix<'_>,
    record: &Record,
    target: &Name,
    report: &mut Report,
) {
    if owner == index.apex() || !target.is_within(&record.owner) {
        return;
    }
    let target_wire = Suffix(target.as_wire());
    let has_address = index.has(target_wire, Type::A) || index.has(target_wire, Type::AAAA);
    if !has_address {
        let owner = &record.owner;
        report.warning(
            record,
            format!("{owner} is delegated to {target}, whose glue is missing"),
        );
    }
}

/// A CNAME's target must exist, and must not lead back to the CNAME.
fn check_alias(
    index: &Index<'_>,
    owner: Suffix<'_>,
    record: &Record,
    target: &Name,
    report: &mut Report,
) {
    /// The number of steps that servers commonly follow.
    const STEPS: usize = 16;
    if doubles(index, target) {
        report.warning(
            record,
            format!("CNAME to {target}; is a final dot missing?"),
        );
    }
    let mut next = target.clone();
    for step in 0..STEPS {
        if Suffix(next.as_wire()) == owner {
            report.error(record, format!("{} leads back to itself", record.owner));
            return;
        }
        let node = match index.find(Suffix(next.as_wire())) {
            Found::Node(node) => node,
            Found::Missing if step == 0 => {
                report.warning(record, format!("CNAME to {target}, which does not exist"));
                return;
            }
            _ => return,
        };
        let cname = index.records(node).find_map(|it| match &it.data {
            RecordData::Wire {
                rtype: Type::CNAME,
                rdata,
            } => name_at(rdata, 0),
            _ => None,
        });
        match cname {
            Some(target) => next = target,
            None => return,
        }
    }
    report.warning(
        record,
        format!("{} leads through more than {STEPS} CNAMEs", record.owner),
    );
}

/// Alias and service forms of SVCB and HTTPS (RFC 9460 §2.4).
fn check_service(
    index: &Index<'_>,
    owner: Suffix<'_>,
    record: &Record,
    rdata: &[u8],
    report: &mut Report,
) {
    let Some((priority, rest)) = rdata.split_first_chunk::<2>() else {
        return;
    };
    let Ok(length) = wire_length(rest) else {
        return;
    };
    let (Some(target), Some(parameters)) = (name_at(rest, 0), rest.get(length..)) else {
        return;
    };
    let rtype = record.rtype();
    let alias = *priority == [0, 0];
    if alias && !parameters.is_empty() {
        report.warning(
            record,
            format!("parameters of {rtype} in alias form mean nothing"),
        );
    }
    if alias && Suffix(target.as_wire()) == owner {
        report.error(
            record,
            format!("{rtype} in alias form points to its own name"),
        );
    }
    // The text is the shortest way to a parameter's name.
    let text = rdata::display(rtype, rdata);
    let has = |key: &str| {
        text.split(' ')
            .any(|word| word.split('=').next() == Some(key))
    };
    if has("no-default-alpn") && !has("alpn") {
        report.warning(record, "`no-default-alpn` without `alpn` (RFC 9460 §7.1.1)");
    }
    // A root target is the owner itself, or nothing at all for an alias.
    if target.is_root() || Suffix(target.as_wire()) == owner {
        return;
    }
    if matches!(
        index.find(Suffix(target.as_wire())),
        Found::Missing | Found::Empty
    ) {
        report.warning(
            record,
            format!("{rtype} points to {target}, which does not exist"),
        );
    }
}

/// Whether a name ends with the zone's name twice, as it does when a final dot is forgotten.
fn doubles(index: &Index<'_>, target: &Name) -> bool {
    let apex = index.apex().0;
    let labels = apex.strip_suffix(b"\0").unwrap_or(apex);
    // One label twice in a row may well be intended.
    if labels
        .get(1 + usize::from(labels.first().copied().unwrap_or(0))..)
        .is_none_or(<[u8]>::is_empty)
    {
        return false;
    }
    let mut doubled = labels.to_vec();
    doubled.extend_from_slice(apex);
    let mut suffix = Some(Suffix(target.as_wire()));
    while let Some(name) = suffix {
        if name == Suffix(&doubled) {
            return true;
        }
        suffix = name.parent();
    }
    false
}

/// Whether a name is made of four numbers.
fn is_address(name: &Name) -> bool {
    let numbers = name.labels().all(|label| {
        let text = std::str::from_utf8(label).ok();
        text.is_some_and(|text| text.parse::<u8>().is_ok())
    });
    numbers && name.n_labels() == 4
}
