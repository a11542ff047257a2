//! The settings of recursor.yml whose items have fields.

use std::path::PathBuf;

use config_text::{Files, Position, Problem};
use dns_wire::{Name, Type, rdata};
use pdns_settings::Dropped;
use yaml_tree::{Content, Entry, Yaml};

use super::names::Known;
use crate::policy::{Action, Policy, apex};

/// Fields of response policies that say how a zone is logged or held in memory.
const SHADES: [&str; 12] = [
    "policyName",
    "policy_name",
    "zoneSizeHint",
    "zone_size_hint",
    "dumpFile",
    "dump_file",
    "seedFile",
    "seed_file",
    "wipePacketCache",
    "includeSOA",
    "include_soa",
    "refresh",
];

/// A zone that is forwarded.
#[derive(Clone, Debug)]
pub(crate) struct YamlForward {
    pub(crate) zone: String,
    pub(crate) position: Position,
    /// The servers, each with its place.
    pub(crate) servers: Vec<(String, Position)>,
    pub(crate) recursive: bool,
    pub(crate) notify: bool,
}

/// The settings that only recursor.yml has, or has in another form.
#[derive(Clone, Debug, Default)]
pub(crate) struct Structured {
    pub(crate) forwards: Vec<YamlForward>,
    /// DS records; none when the file does not say which.
    pub(crate) trust_anchors: Option<Vec<String>>,
    pub(crate) negative_anchors: Vec<String>,
    pub(crate) policies: Vec<Policy>,
    pub(crate) dropped: Vec<Dropped>,
}

impl Structured {
    /// Takes a setting whose items have fields, or that no recursor.conf has; false for any other.
    pub(crate) fn take(
        &mut self,
        known: &Known,
        value: &Yaml,
        files: &mut dyn Files,
        problems: &mut Vec<Problem>,
    ) -> bool {
        let full = known.full_name();
        match full.as_str() {
            "recursor.forward_zones" => {
                self.forwards.extend(forwards(value, Some(false), problems));
            }
            "recursor.forward_zones_recurse" => {
                self.forwards.extend(forwards(value, Some(true), problems));
            }
            "recursor.auth_zones" => {
                let zones = tables(value, &full, problems);
                let zones: Vec<&str> = zones.filter_map(|zone| zone.text("zone")).collect();
                if !zones.is_empty() {
                    let reason = "zones are served by `dns-authd`";
                    self.drop(&full, &zones.join(", "), reason, &value.position);
                }
            }
            "dnssec.trustanchors" => self.anchors(value, &full, problems),
            "dnssec.negative_trustanchors" => {
                for anchor in tables(value, &full, problems) {
                    match anchor.text("name") {
                        Some(name) if Name::parse(name).is_ok() => {
                            self.negative_anchors.push(name.to_owned());
                        }
                        _ => problems.push(anchor.problem("`name` is a domain name")),
                    }
                }
            }
            "recursor.rpzs" => {
                for zone in tables(value, &full, problems) {
                    self.policy(&zone, files, problems);
                }
            }
            _ if known.old_name().is_none() => {
                if !matches!(&value.content, Content::Nothing)
                    && !matches!(&value.content, Content::List(items) if items.is_empty())
                {
                    let shown = shown(value);
                    self.drop(&full, &shown, reason(&full), &value.position);
                }
            }
            _ => return false,
        }
        true
    }

    fn drop(&mut self, key: &str, value: &str, reason: &'static str, position: &Position) {
        self.dropped.push(Dropped {
            key: key.to_owned(),
            value: value.to_owned(),
            reason,
            position: Some(position.clone()),
        });
    }

    fn anchors(&mut self, value: &Yaml, full: &str, problems: &mut Vec<Problem>) {
        let mut anchors = Vec::new();
        for anchor in tables(value, full, problems) {
            let name = anchor.text("name").unwrap_or_default();
            if Name::parse(name).is_err() {
                problems.push(anchor.problem("`name` is a domain name"));
                continue;
            }
            for (record, position) in anchor.list("dsrecords", problems) {
                match rdata::from_text(Type::DS, &record, &Name::root()) {
                    Ok(_) => anchors.push(format!("{name} DS {record}")),
                    Err(_) => {
                        let message = format!("`{record}` is not the data of a DS record");
                        problems.push(Problem::at(position, message));
                    }
                }
            }
        }
        self.trust_anchors = Some(anchors);
    }

    /// A response policy: a file, or a zone that pdns transfers.
    fn policy(&mut self, zone: &Table<'_>, files: &mut dyn Files, problems: &mut Vec<Problem>) {
        let Some(name) = zone.text("name").filter(|name| !name.is_empty()) else {
            problems.push(zone.problem("`name` is the path of a response policy zone"));
            return;
        };
        let key = "recursor.rpzs";
        if !zone.list("addresses", problems).is_empty() {
            let reason = "response policy zones are files here; none is transferred";
            self.drop(key, name, reason, zone.position);
            return;
        }
        let action = match zone.text("defpol") {
            None => Action::Given,
            Some(word) => match Action::parse(word) {
                Some(action) => action,
                None if word.eq_ignore_ascii_case("Custom") => {
                    let reason = "one answer for all rules of a zone is not honoured";
                    self.drop(key, name, reason, zone.position);
                    return;
                }
                None => {
                    problems.push(zone.problem(
                        "`defpol` is Custom, Drop, NXDOMAIN, NODATA, Truncate or NoAction",
                    ));
                    return;
                }
            },
        };
        let path = PathBuf::from(name);
        let apex = files.read(&path).ok().and_then(|text| apex(&text));
        let Some(apex) = apex else {
            let message = format!("`{name}` is no file with the SOA record of a zone");
            problems.push(zone.problem(&message));
            return;
        };
        self.policies.push(Policy {
            file: path,
            zone: apex,
            action,
        });
        for entry in zone.entries {
            let field = entry.name.as_str();
            if ["name", "addresses", "defpol"].contains(&field) || SHADES.contains(&field) {
                continue;
            }
            let key = format!("recursor.rpzs.{field}");
            let reason = "a response policy has an action for all its rules, and nothing else";
            self.drop(&key, &shown(&entry.value), reason, &entry.position);
        }
    }
}

/// The reason why a setting has no counterpart.
fn reason(full: &str) -> &'static str {
    match full {
        "dnssec.trustanchorfile" | "dnssec.trustanchorfile_interval" => {
            "trust anchors are written in `dnssec.trust-anchors`, or follow the keys of their zone"
        }
        "incoming.proxymappings" => "a client is the sender of its query",
        "outgoing.tls_configurations" => "`[forward.tls]` says which certificates upstreams have",
        "recursor.forwarding_catalog_zones" => {
            "zones to forward are written, or those of the cluster"
        }
        "recursor.sortlists" => "addresses keep the order that their zone gives them",
        "recordcache.zonetocaches" => "the cache has what was asked for",
        "recordcache.keepwarm" => "names in demand are refreshed before they expire",
        "recursor.lua_start_stop_script" => "no program runs in the server",
        "webservice.listen" => "the admin listener has status and metrics",
        _ if full.starts_with("logging.") => "`[dnstap]` and `[query-log]` show queries",
        _ => "it has no counterpart in this server",
    }
}

/// Zones that are forwarded. With `recursive`, the servers of all are recursive ones, or none; otherwise each zone says it.
pub(super) fn forwards(
    value: &Yaml,
    recursive: Option<bool>,
    problems: &mut Vec<Problem>,
) -> Vec<YamlForward> {
    let mut forwards = Vec::new();
    for zone in tables(value, "forward_zones", problems) {
        let Some(name) = zone.text("zone") else {
            problems.push(zone.problem("a forwarded zone has a `zone` and `forwarders`"));
            continue;
        };
        let is = |field: &str| zone.text(field) == Some("true");
        for entry in zone.entries {
            let field = entry.name.as_str();
            if !["zone", "forwarders", "recurse", "notify_allowed"].contains(&field) {
                let message = format!("unknown field `{field}` of a forwarded zone");
                problems.push(Problem::at(entry.position.clone(), message));
            }
        }
        forwards.push(YamlForward {
            zone: name.to_owned(),
            position: zone.position.clone(),
            servers: zone.list("forwarders", problems),
            recursive: recursive.unwrap_or_else(|| is("recurse")),
            notify: is("notify_allowed"),
        });
    }
    forwards
}

/// An item with fields.
struct Table<'a> {
    entries: &'a [Entry],
    position: &'a Position,
}

impl<'a> Table<'a> {
    fn find(&self, field: &str) -> Option<&'a Yaml> {
        let entry = self.entries.iter().find(|entry| entry.name == field);
        entry.map(|entry| &entry.value)
    }

    fn text(&self, field: &str) -> Option<&'a str> {
        match &self.find(field)?.content {
            Content::Text(text) => Some(text),
            Content::Nothing | Content::List(_) | Content::Table(_) => None,
        }
    }

    /// A list of values, each with its place.
    fn list(&self, field: &str, problems: &mut Vec<Problem>) -> Vec<(String, Position)> {
        let Some(value) = self.find(field) else {
            return Vec::new();
        };
        let items = match &value.content {
            Content::Nothing => return Vec::new(),
            Content::List(items) => items.as_slice(),
            Content::Text(_) | Content::Table(_) => {
                let message = format!("`{field}` is a list");
                problems.push(Problem::at(value.position.clone(), message));
                return Vec::new();
            }
        };
        let mut values = Vec::new();
        for item in items {
            match &item.content {
                Content::Text(text) => values.push((text.clone(), item.position.clone())),
                _ => {
                    let message = format!("`{field}` is a list of single values");
                    problems.push(Problem::at(item.position.clone(), message));
                }
            }
        }
        values
    }

    fn problem(&self, message: &str) -> Problem {
        Problem::at(self.position.clone(), message)
    }
}

/// The items of a list, which have fields.
fn tables<'a>(
    value: &'a Yaml,
    key: &str,
    problems: &mut Vec<Problem>,
) -> impl Iterator<Item = Table<'a>> + use<'a> {
    let items = match &value.content {
        Content::List(items) => items.as_slice(),
        Content::Nothing => &[],
        Content::Text(_) | Content::Table(_) => {
            problems.push(Problem::at(
                value.position.clone(),
                format!("`{key}` is a list"),
            ));
            &[]
        }
    };
    for item in items {
        if !matches!(item.content, Content::Table(_)) {
            let message = format!("an item of `{key}` has fields");
            problems.push(Problem::at(item.position.clone(), message));
        }
    }
    items.iter().filter_map(|item| match &item.content {
        Content::Table(entries) => Some(Table {
            entries,
            position: &item.position,
        }),
        Content::Nothing | Content::Text(_) | Content::List(_) => None,
    })
}

/// A value in short.
fn shown(value: &Yaml) -> String {
    match &value.content {
        Content::Nothing => String::new(),
        Content::Text(text) => text.clone(),
        Content::List(items) => match items.as_slice() {
            [one] => shown(one),
            items => format!("({} items)", items.len()),
        },
        Content::Table(_) => "(one item)".to_owned(),
    }
}
