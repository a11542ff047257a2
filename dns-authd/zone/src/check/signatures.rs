//! The signatures of a signed zone: each set of records has one that is valid now, and names that do not exist
//! can be proved.

use dns_wire::Type;

use super::index::{Index, Suffix, shown};
use super::{Finding, Report, sorted};
use crate::parse::ZoneFile;
use crate::record::{Record, RecordData};

/// A signature that ends sooner is a warning, in seconds: three days leave time to sign again.
const SOON: u32 = 3 * 86_400;
/// The most extra iterations of NSEC3 that the server proves with (RFC 5155 §10.3).
const MAX_ITERATIONS: u16 = 2500;

/// Finds what is wrong with the signatures of a zone that has a DNSKEY, at the time `now` in seconds since 1970.
#[must_use]
pub fn check_signed(zone: &ZoneFile, now: u32) -> Vec<Finding> {
    let index = Index::new(&zone.apex, &zone.records);
    let mut report = Report::default();
    if !index.has(index.apex(), Type::DNSKEY) {
        return Vec::new();
    }
    for (name, node) in index.nodes() {
        // Glue, and what no answer shows.
        if index.divider(name).is_some() {
            continue;
        }
        let records: Vec<&Record> = index.records(node).collect();
        if name == index.apex() {
            check_proofs(&records, &mut report);
        }
        check_node(index.is_cut(name), name, &records, now, &mut report);
    }
    sorted(report)
}

/// The span of time of a signature, and the type it covers (RFC 4034 §3.1).
struct Span {
    covered: Type,
    begins: u32,
    ends: u32,
}

impl Span {
    fn of(record: &Record) -> Option<Self> {
        let RecordData::Wire {
            rtype: Type::RRSIG,
            rdata,
        } = &record.data
        else {
            return None;
        };
        let number = |at: usize| Some(u32::from_be_bytes(*rdata.get(at..)?.first_chunk::<4>()?));
        Some(Self {
            covered: Type(u16::from_be_bytes(*rdata.first_chunk::<2>()?)),
            ends: number(8)?,
            begins: number(12)?,
        })
    }

    /// Seconds until its end, negative behind it; times are serial numbers (RFC 4034 §3.1.5).
    const fn left(&self, now: u32) -> i32 {
        self.ends.wrapping_sub(now).cast_signed()
    }

    const fn has_begun(&self, now: u32) -> bool {
        now.wrapping_sub(self.begins).cast_signed() >= 0
    }
}

/// Checks that each set of a name is signed.
fn check_node(is_cut: bool, name: Suffix<'_>, records: &[&Record], now: u32, report: &mut Report) {
    let spans: Vec<Span> = records
        .iter()
        .filter_map(|record| Span::of(record))
        .collect();
    let mut checked: Vec<Type> = Vec::new();
    for record in records {
        let rtype = record.rtype();
        let is_program = matches!(record.data, RecordData::Lua { .. });
        // A delegation belongs to the child, save for its keys and the proof of their absence.
        let is_signed_here = !is_cut || matches!(rtype, Type::DS | Type::NSEC);
        if is_program || rtype == Type::RRSIG || !is_signed_here || checked.contains(&rtype) {
            continue;
        }
        checked.push(rtype);
        let set = format!("{} {rtype}", shown(name));
        let own = spans.iter().filter(|span| span.covered == rtype);
        let begun = own.clone().filter(|span| span.has_begun(now));
        let left = begun.map(|span| span.left(now)).max();
        match (own.count(), left) {
            (0, _) => report.error(record, format!("{set} has no signature")),
            (_, None) => report.error(record, format!("the signature of {set} has not begun yet")),
            (_, Some(left)) if left < 0 => {
                let days = left.unsigned_abs() / 86_400;
                let message = format!("the signature of {set} expired {days} days ago");
                report.error(record, message);
            }
            (_, Some(left)) if left.unsigned_abs() < SOON => {
                let hours = left.unsigned_abs() / 3600;
                let message = format!("the signature of {set} expires in {hours} hours");
                report.warning(record, message);
            }
            _ => {}
        }
    }
}

/// Checks that the zone can prove what it does not have.
fn check_proofs(records: &[&Record], report: &mut Report) {
    let of = |rtype: Type| records.iter().find(move |record| record.rtype() == rtype);
    let Some(soa) = of(Type::SOA) else { return };
    match (of(Type::NSEC), of(Type::NSEC3PARAM)) {
        (None, None) => {
            let message = "the zone is signed, but has neither NSEC nor NSEC3PARAM: no answer proves that a \
                           name does not exist";
            report.error(soa, message);
        }
        (_, Some(record)) => {
            if let RecordData::Wire { rdata, .. } = &record.data
                && let [_, _, high, low, ..] = **rdata
                && u16::from_be_bytes([high, low]) > MAX_ITERATIONS
            {
                let message =
                    format!("NSEC3 with more than {MAX_ITERATIONS} iterations is not served");
                report.error(record, message);
            }
        }
        (Some(_), None) => {}
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use dns_wire::Name;

    use super::*;
    use crate::parse::{Options, parse};

    /// In the middle of the signatures of [`ZONE`].
    const NOW: u32 = 1_800_000_000;

    /// Signed from 2026-11-24 until 2040-01-01.
    const ZONE: &str = include_str!("../../../../tests/data/signed/nsec.zone");

    fn check(text: &str, now: u32) -> Vec<String> {
        let apex = Name::parse("s.test.").unwrap();
        let mut load = |_: &Path| Ok(text.as_bytes().to_vec());
        let zone = parse(Path::new("z"), &apex, &mut load, &Options::default()).unwrap();
        let findings = check_signed(&zone, now);
        let lines = findings
            .iter()
            .map(|it| format!("{}: {}", it.severity, it.message));
        lines.collect()
    }

    #[test]
    fn nothing_is_wrong_with_a_zone_that_was_signed() {
        for text in [
            ZONE,
            include_str!("../../../../tests/data/signed/nsec3.zone"),
            include_str!("../../../../tests/data/signed/optout.zone"),
        ] {
            assert_eq!(check(text, NOW), [""; 0]);
        }
    }

    #[test]
    fn missing_signatures_are_found() {
        let without = |part: &str| -> String {
            let lines = ZONE.lines().filter(|line| !line.contains(part));
            lines.map(|line| format!("{line}\n")).collect()
        };
        assert_eq!(
            check(&without("www.s.test. 300 IN RRSIG A "), NOW),
            ["error: www.s.test. A has no signature"]
        );
        let proofless = check(&without(" NSEC "), NOW);
        assert_eq!(proofless.len(), 1, "{proofless:?}");
        assert!(proofless[0].contains("neither NSEC nor NSEC3PARAM"));
        assert_eq!(check(&without("DNSKEY"), NOW), [""; 0], "it is not signed");
    }

    #[test]
    fn signatures_out_of_time_are_found() {
        // 2040-01-01.
        let end = 2_208_988_800;
        let all = |now: u32, severity: &str, text: &str| {
            let lines = check(ZONE, now);
            assert!(lines.len() > 20, "{lines:?}");
            for line in lines {
                assert!(line.starts_with(severity) && line.contains(text), "{line}");
            }
        };
        all(end + 86_400 * 12 + 1, "error", "expired 12 days ago");
        all(end - 7_200, "warning", "expires in 2 hours");
        all(1_700_000_000, "error", "has not begun yet");
        assert_eq!(check(ZONE, end - SOON - 1), [""; 0]);
    }
}
