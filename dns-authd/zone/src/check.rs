//! Likely mistakes in a zone that loads: the findings of `pdnsutil check-zone`, and some of BIND's.
//!
//! An [error](Severity::Error) makes some name of the zone answer wrongly or not at all. A
//! [warning](Severity::Warning) is hardly ever intended. A [note](Severity::Note) is odd but legal.
//!
//! Each rule is a function over one name's records; `index` classifies the names. The answer of a `LUA`
//! record is unknown here, so it counts as an address where an address is needed.
//!
//! Reads one zone's own records, and with [`check_parents`] those of its parent; never uses the network.

mod index;
mod rules;
mod signatures;
mod targets;

use std::fmt;

use config_text::Position;
use dns_wire::Type;

use self::index::{Index, Suffix};
use crate::parse::ZoneFile;
use crate::record::Record;

pub use signatures::check_signed;

/// Something likely wrong with a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Its severity.
    pub severity: Severity,
    /// The record that it is about.
    pub position: Option<Position>,
    /// The text.
    pub message: String,
}

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Some name answers wrongly, or not at all.
    Error,
    /// Hardly ever intended.
    Warning,
    /// Odd but legal.
    Note,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        })
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(position) = &self.position {
            write!(f, "{position}: ")?;
        }
        write!(f, "{}: {}", self.severity, self.message)
    }
}

/// The most findings for one zone.
const MAX_FINDINGS: usize = 1000;

/// Finds everything that is likely wrong with a zone, in the order of its files.
#[must_use]
pub fn check(zone: &ZoneFile) -> Vec<Finding> {
    let index = Index::new(&zone.apex, &zone.records);
    let mut report = Report::default();
    for warning in &zone.warnings {
        report.findings.push(Finding {
            severity: Severity::Warning,
            position: warning.position.clone(),
            message: warning.message.clone(),
        });
    }
    for left_out in &zone.left_out.first {
        report.findings.push(Finding {
            severity: Severity::Error,
            position: left_out.position.clone(),
            message: left_out.message.clone(),
        });
    }
    let n_more = zone.left_out.count - zone.left_out.first.len();
    if n_more > 0 {
        report.findings.push(Finding {
            severity: Severity::Error,
            position: None,
            message: format!("{n_more} more records are left out"),
        });
    }
    let signed = index.has(index.apex(), Type::DNSKEY);
    for (name, node) in index.nodes() {
        let records: Vec<&Record> = index.records(node).collect();
        rules::check_node(&index, name, &records, &mut report);
        rules::check_signatures(&index, name, &records, signed, &mut report);
        for record in records {
            targets::check_record(&index, name, record, &mut report);
        }
    }
    sorted(report)
}

/// The findings in the order of the files.
fn sorted(report: Report) -> Vec<Finding> {
    let Report { mut findings } = report;
    findings.sort_by(|a, b| (&a.position, &a.message).cmp(&(&b.position, &b.message)));
    findings.truncate(MAX_FINDINGS);
    findings
}

/// Finds zones that have no delegation in a parent which is served here too.
#[must_use]
pub fn check_parents<'z>(zones: impl IntoIterator<Item = &'z ZoneFile>) -> Vec<Finding> {
    let zones: std::collections::HashMap<Suffix<'_>, &ZoneFile> = zones
        .into_iter()
        .map(|zone| (Suffix(zone.apex.as_wire()), zone))
        .collect();
    let mut findings = Vec::new();
    for zone in zones.values() {
        let apex = Suffix(zone.apex.as_wire());
        let mut above = apex.parent();
        while let Some(name) = above {
            if let Some(parent) = zones.get(&name) {
                let delegates = |record: &&Record| {
                    record.rtype() == Type::NS
                        && record.owner != parent.apex
                        && zone.apex.is_within(&record.owner)
                };
                if parent.records.iter().find(delegates).is_none() {
                    let soa = zone
                        .records
                        .iter()
                        .find(|record| record.rtype() == Type::SOA);
                    findings.push(Finding {
                        severity: Severity::Error,
                        position: soa.map(|record| record.position.clone()),
                        message: format!("{} has no delegation in {}", zone.apex, parent.apex),
                    });
                }
                break;
            }
            above = name.parent();
        }
    }
    findings.sort_by(|a, b| a.message.cmp(&b.message));
    findings
}

/// Findings as they are gathered.
#[derive(Default)]
struct Report {
    findings: Vec<Finding>,
}

impl Report {
    fn add(&mut self, severity: Severity, record: &Record, message: impl Into<String>) {
        // Some room is left, since the findings are not yet in order.
        if self.findings.len() < MAX_FINDINGS * 10 {
            self.findings.push(Finding {
                severity,
                position: Some(record.position.clone()),
                message: message.into(),
            });
        }
    }

    fn error(&mut self, record: &Record, message: impl Into<String>) {
        self.add(Severity::Error, record, message);
    }

    fn warning(&mut self, record: &Record, message: impl Into<String>) {
        self.add(Severity::Warning, record, message);
    }

    fn note(&mut self, record: &Record, message: impl Into<String>) {
        self.add(Severity::Note, record, message);
    }
}

#[cfg(test)]
mod tests;
