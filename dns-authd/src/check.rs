//! `check`: finds every mistake that shows without serving.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use config_text::{Position, counted};
use daemon::clock;
use daemon::config::{Problem, Problems};
use daemon::exit;
use daemon::tls::Certificates;
use dns_lua::{LuaSettings, Snippet};
use dns_views::{ViewName, ZoneAccess, ZoneId};
use dns_wire::Name;
use dns_wire::hash::Seed;
use dns_zone::Zone;
use dns_zone::check::{self, Severity};
use dns_zone::parse::ZoneFile;
use peer_bind::{ZoneDecl, ZoneKind};

use crate::config::{Config, Zones, certificate};
use crate::load;
use dns_programs as programs;

/// The results of a check.
#[derive(Debug, Default)]
pub struct Findings {
    pub problems: Vec<Problem>,
    /// Things that are odd, and may be intended.
    pub remarks: Vec<String>,
    /// The number of checked zones.
    pub n_zones: usize,
    /// Records in them.
    pub n_records: usize,
    /// `LUA` records among these.
    pub n_programs: usize,
}

/// Checks all zones of a configuration, and its certificate.
#[must_use]
pub fn all(config: &Config) -> Findings {
    let mut findings = Findings::default();
    for warning in &config.warnings {
        findings.remarks.push(format!("warning: {warning}"));
    }
    if let Some(tls) = &config.file.tls
        && let Err(error) = Certificates::read(&[certificate(tls)])
    {
        findings.problems.push(Problem::new(exit::chain(&error)));
    }
    if config.zones.declared.is_empty() && config.kubernetes.is_none() {
        findings
            .remarks
            .push("warning: no zone is served".to_owned());
    }
    let mut files: BTreeMap<Option<&ViewName>, Vec<ZoneFile>> = BTreeMap::new();
    // dns-authd writes the files of catalogs.
    let is_catalog = |zone: &&ZoneDecl| {
        let mut catalogs = config.catalogs.iter();
        zone.view.is_none() && catalogs.any(|catalog| catalog.name == zone.name)
    };
    for declared in config
        .zones
        .declared
        .iter()
        .filter(|zone| !is_catalog(zone))
    {
        let file = findings.zone(declared, &config.zones, &config.lua);
        let view = declared.view.as_ref();
        files.entry(view).or_default().extend(file);
    }
    for finding in files.values().flat_map(check::check_parents) {
        findings.add(&finding);
    }
    findings
}

/// Checks one zone of a configuration, or a master file that is a zone of this name.
pub fn one(
    config: Option<&Config>,
    target: &str,
    origin: Option<&Name>,
) -> Result<Findings, Problems> {
    let default_zones;
    let (zones, settings) = match config {
        Some(config) => (&config.zones, Arc::clone(&config.lua)),
        None => {
            default_zones = Zones::default();
            (&default_zones, Arc::default())
        }
    };
    let declared = find(zones, target, origin).ok_or_else(|| {
        Problems::from(Problem::new(format!(
            "`{target}` is not a zone of the configuration; for a master file, give the zone's name with --origin"
        )))
    })?;
    let mut findings = Findings::default();
    findings.zone(&declared, zones, &settings);
    Ok(findings)
}

/// Finds the zone: by its name, by its file, or by a file with a given name.
fn find(zones: &Zones, target: &str, origin: Option<&Name>) -> Option<ZoneDecl> {
    let path = Path::new(target);
    if let Some(origin) = origin {
        return Some(ZoneDecl {
            name: origin.clone(),
            view: None,
            kind: ZoneKind::Primary,
            file: Some(path.to_owned()),
            primaries: Vec::new(),
            also_notify: Vec::new(),
            access: ZoneAccess::default(),
            position: Position {
                file: path.into(),
                line: 1,
                column: 1,
            },
        });
    }
    let id = target.parse::<ZoneId>().ok();
    let real = |path: &PathBuf| path.canonicalize().ok();
    let wanted = path.canonicalize().ok();
    let is_meant = |zone: &&ZoneDecl| {
        let is_file = wanted.is_some() && zone.file.as_ref().and_then(real) == wanted;
        is_file || Some(zone.id()) == id
    };
    zones.declared.iter().find(is_meant).cloned()
}

impl Findings {
    fn zone(
        &mut self,
        declared: &ZoneDecl,
        zones: &Zones,
        settings: &Arc<LuaSettings>,
    ) -> Option<ZoneFile> {
        self.n_zones += 1;
        let file = match load::read_zone(declared, &zones.options, &mut Vec::new()) {
            Ok(file) => file,
            Err(problems) => {
                self.problems.extend(problems);
                return None;
            }
        };
        let signed = check::check_signed(&file, now());
        for finding in check::check(&file).into_iter().chain(signed) {
            self.add(&finding);
        }
        match Zone::build(&declared.name, &file.records, Seed(0)) {
            Err(problems) => self.problems.extend(problems),
            Ok(zone) => {
                self.n_records += zone.n_records();
                let snippets: Vec<Snippet> = programs::all_snippets(&Arc::new(zone));
                self.n_programs += snippets.len();
                if settings.limits.enabled {
                    let broken = dns_lua::check(&snippets, settings);
                    self.problems.extend(broken);
                } else if !snippets.is_empty() {
                    let name = &declared.name;
                    let remark = format!("warning: LUA records of {name} are not answered");
                    self.remarks.push(remark);
                }
            }
        }
        Some(file)
    }

    fn add(&mut self, finding: &check::Finding) {
        match finding.severity {
            Severity::Error => self.problems.push(Problem {
                position: finding.position.clone(),
                message: finding.message.clone(),
            }),
            Severity::Warning | Severity::Note => self.remarks.push(finding.to_string()),
        }
    }

    /// The line of a check without problems.
    #[must_use]
    pub fn summary(&self) -> String {
        let zones = counted(self.n_zones, "zone");
        let records = counted(self.n_records, "record");
        format!("{zones}, {records}, {} of them LUA", self.n_programs)
    }
}

/// The time in seconds since 1970, as signatures count it.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the count wraps (RFC 4034 §3.1.5)"
)]
fn now() -> u32 {
    clock::since_1970().as_secs() as u32
}

#[cfg(test)]
mod tests {
    use daemon::config::Document;

    use super::*;

    #[test]
    fn a_certificate_that_cannot_be_used_is_a_problem() {
        let text = "version = \"v1\"\n[tls]\ncertificate = \"/nowhere/c\"\nkey = \"/nowhere/k\"\n";
        let document = Document::inline("dns-authd.toml", text);
        let none = |_: &Path| unreachable!();
        let config = Config::from_document(
            &document,
            "node",
            none,
            &mut |_| unreachable!(),
            &mut |_, _| unreachable!(),
        )
        .unwrap();
        let problems = all(&config).problems;
        let [problem] = problems.as_slice() else {
            panic!("{problems:?}");
        };
        assert!(problem.message.contains("/nowhere/c"), "{problem:?}");
    }
}
