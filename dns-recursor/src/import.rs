//! Other forwarders' configurations as one of this server.
//!
//! The `peer-…` crates read the formats. A setting without a counterpart becomes a note with its place.

pub mod recursor_conf;

use std::path::Path;

use ::config::dns_recursor::{self as file, DnsRecursor, Protocol, QueryClass};
use ::config::{
    Class, Disposition, DnsAddress, Draft, HumanDuration, Networks, Note, Notes, Problems, Refused,
    Whole,
};
use config_text::{Files, Problem};
use daemon::acl::Cidrs;
use peer_forwarder::{
    Forward, Forwarder, GivenName, Policy, Rejected, Remark, Rewrite, RewriteKind, Setting, Tls,
};

/// Imports the Corefile of `CoreDNS`.
///
/// # Errors
/// Every error of the file, and the notes about the rest.
pub fn corefile(path: &Path, files: &mut dyn Files) -> Result<Draft<DnsRecursor>, Refused> {
    drafted(peer_corefile::read(path, files))
}

/// Imports a dnsmasq.conf.
///
/// # Errors
/// Every error of the file and of those that it includes, and the notes about the rest.
pub fn dnsmasq(path: &Path, files: &mut dyn Files) -> Result<Draft<DnsRecursor>, Refused> {
    drafted(peer_dnsmasq::read(path, files))
}

/// Imports the name servers of a resolv.conf.
///
/// # Errors
/// Every error of the file, and the notes about the rest.
pub fn resolv_conf(path: &Path, files: &mut dyn Files) -> Result<Draft<DnsRecursor>, Refused> {
    drafted(peer_forwarder::resolv_conf::read(path, files))
}

fn drafted(read: Result<Forwarder, Rejected>) -> Result<Draft<DnsRecursor>, Refused> {
    match read {
        Ok(forwarder) => Ok(draft(&forwarder)),
        Err(rejected) => Err(Refused {
            problems: rejected.problems.into(),
            notes: noted(&rejected.remarks).into_notes(),
        }),
    }
}

/// Words of the settings that keep clients or answers out: without them this server lets in or answers more.
const SECURITY: [&str; 8] = [
    "acl",
    "bogus-nxdomain",
    "dnssec",
    "except-interface",
    "interface",
    "rebind",
    "tls",
    "tsig",
];

/// Words of the settings that change only logs, figures or the way in which the process is started.
const COSMETIC: [&str; 8] = [
    "dbus",
    "debug",
    "errors",
    "health",
    "log",
    "prometheus",
    "ready",
    "user",
];

fn class(what: &str) -> Class {
    let is = |words: &[&str]| words.iter().any(|word| what.contains(word));
    if is(&SECURITY) {
        Class::Security
    } else if is(&COSMETIC) {
        Class::Cosmetic
    } else {
        Class::Behaviour
    }
}

/// Refuses a draft that lacks a setting for safety of the peer's file, unless the operator has named it in `without`.
///
/// # Errors
/// The settings, and all notes.
pub fn checked(
    draft: Draft<DnsRecursor>,
    without: &[String],
) -> Result<Draft<DnsRecursor>, Refused> {
    let mut problems = Problems::default();
    for note in draft.notes.iter().filter(|note| is_vital(note)) {
        let name = setting_name(&note.what);
        if without.iter().any(|named| named == name) {
            continue;
        }
        problems.push(Problem {
            position: note.position.clone(),
            message: format!(
                "`{}` cannot be honoured: {}; to do without it, pass `--without {name}`",
                note.what, note.reason
            ),
        });
    }
    match problems.0.is_empty() {
        true => Ok(draft),
        false => Err(Refused {
            problems,
            notes: draft.notes,
        }),
    }
}

/// Whether a note is about a setting without which the server is less safe than its operator believes. Listeners that
/// are named by interface are not: `allow-from` keeps strangers out on all of them.
fn is_vital(note: &Note) -> bool {
    note.class == Class::Security
        && note.disposition != Disposition::Odd
        && !note.what.contains("interface")
}

/// The name of a setting, of `name`, `name=value` or `name value`.
fn setting_name(what: &str) -> &str {
    what.split(['=', ' ', '{']).next().unwrap_or(what)
}

/// The notes that remarks make.
fn noted(remarks: &[Remark]) -> Notes {
    let mut notes = Notes::default();
    for remark in remarks {
        match remark {
            Remark::NotCarried { at, what, reason } => notes.lost(class(what), at, what, reason),
            Remark::Odd(problem) => {
                let at = problem.position.as_ref();
                notes.odd(Class::Behaviour, at, &problem.message);
            }
        }
    }
    notes
}

/// Makes the configuration of what a file says.
pub(crate) fn draft(forwarder: &Forwarder) -> Draft<DnsRecursor> {
    let mut notes = noted(&forwarder.remarks);
    let mut config = DnsRecursor {
        listen: forwarder.listen.iter().copied().map(DnsAddress).collect(),
        allow_from: forwarder.open.then(|| Networks(Cidrs::any())),
        forward: forwarder.forwards.iter().map(forward).collect(),
        name: forwarder.names.iter().map(given_name).collect(),
        rewrite: forwarder.rewrites.iter().map(rewrite).collect(),
        hosts: file::Hosts {
            files: forwarder.hosts.clone(),
            ..file::Hosts::default()
        },
        ..DnsRecursor::default()
    };
    for setting in &forwarder.settings {
        adopt(&mut config, setting, &mut notes);
    }
    Draft {
        config,
        notes: notes.into_notes(),
    }
}

/// Takes the time of going on. The drain that follows it has its usual time.
fn lameduck(config: &mut DnsRecursor, span: HumanDuration) {
    config.lameduck = span;
    if !span.0.is_zero() {
        config.drain = HumanDuration(span.0 + DnsRecursor::default().drain.0);
    }
}

fn adopt(config: &mut DnsRecursor, setting: &Setting, notes: &mut Notes) {
    let entries = |n: u32| usize::try_from(n).unwrap_or(usize::MAX);
    let seconds = |ttl: u32| HumanDuration(std::time::Duration::from_secs(ttl.into()));
    let cache = &mut config.cache;
    match setting {
        Setting::Entries(n) => cache.entries = entries(*n),
        Setting::NegativeEntries(n) => cache.negative_entries = entries(*n),
        Setting::MinTtl(ttl) => cache.min_ttl = seconds(*ttl),
        Setting::MaxTtl(ttl) => cache.max_ttl = seconds(*ttl),
        Setting::NegativeMaxTtl(ttl) => cache.negative_max_ttl = seconds(*ttl),
        Setting::StaleMaxAge(age) => match age.parse() {
            Ok(age) => config.stale.max_age = age,
            Err(error) => notes.lost(Class::Behaviour, None, "the age of stale answers", error),
        },
        Setting::Lameduck(span) => match span.parse() {
            Ok(span) => lameduck(config, span),
            Err(error) => notes.lost(Class::Behaviour, None, "lameduck", error),
        },
        Setting::MaxQuestions(n) => {
            config.resolve.max_questions = Whole::clamped(i64::from(*n));
        }
        Setting::DomainNeeded => config.local.domain_needed = true,
        Setting::HostsTtl(ttl) => config.hosts.ttl = seconds(*ttl),
        Setting::HostsWithoutReverse => config.hosts.reverse = false,
        Setting::PrivateReverse => config.local.private_reverse = true,
        Setting::Version(text) => config.local.version = Some(text.clone()),
        Setting::QueryLog(classes) => {
            config.query_log = file::QueryLog {
                enabled: true,
                classes: classes.iter().map(|word| query_class(word)).collect(),
                ..file::QueryLog::default()
            };
        }
        Setting::Dnstap { socket, identity } => {
            config.dnstap = Some(file::Dnstap {
                socket: Some(socket.clone()),
                identity: identity.clone(),
                ..file::Dnstap::default()
            });
        }
        Setting::Dns64 {
            prefixes,
            over_ipv4,
            all,
        } => config.dns64 = Some(dns64(prefixes, *over_ipv4, *all)),
    }
}

fn query_class(word: &str) -> QueryClass {
    match word {
        "success" => QueryClass::Success,
        "denial" => QueryClass::Denial,
        "error" => QueryClass::Error,
        _ => QueryClass::All,
    }
}

fn rewrite(rule: &Rewrite) -> file::Rewrite {
    let changes = |changes: &[[String; 2]]| {
        let changes = changes.iter().cloned();
        changes
            .map(|[from, to]| file::AnswerChange { from, to })
            .collect()
    };
    file::Rewrite {
        kind: match rule.kind {
            RewriteKind::Exact => file::RewriteMatch::Exact,
            RewriteKind::Prefix => file::RewriteMatch::Prefix,
            RewriteKind::Suffix => file::RewriteMatch::Suffix,
            RewriteKind::Substring => file::RewriteMatch::Substring,
            RewriteKind::Regex => file::RewriteMatch::Regex,
            RewriteKind::Type => file::RewriteMatch::Type,
        },
        from: rule.from.clone(),
        to: rule.to.clone(),
        // A type changes nothing in the answer.
        answer: rule.reverts || rule.kind == RewriteKind::Type,
        answer_name: changes(&rule.owners),
        answer_value: changes(&rule.values),
        then: match rule.goes_on {
            true => file::RewriteThen::Continue,
            false => file::RewriteThen::Stop,
        },
    }
}

fn dns64(prefixes: &[String], over_ipv4: bool, all: bool) -> file::Dns64 {
    let mut dns64 = file::Dns64::default();
    if !prefixes.is_empty() {
        dns64.prefixes = prefixes.to_vec();
    }
    if !over_ipv4 {
        dns64.clients = Cidrs::from_items(["::/0"]).ok().map(Networks);
    }
    if all {
        dns64.exclude = vec!["::/0".to_owned()];
    }
    dns64
}

fn given_name(given: &GivenName) -> file::GivenName {
    let mut name = file::GivenName::new(&given.name, given.addresses.iter().copied());
    name.alias.clone_from(&given.alias);
    name.reverse = given.has_reverse;
    if let Some(ttl) = given.ttl {
        name.ttl = HumanDuration(std::time::Duration::from_secs(ttl.into()));
    }
    name
}

fn forward(forward: &Forward) -> file::Forward {
    file::Forward {
        recursive: true,
        policy: match forward.policy {
            Some(Policy::Sequential) | None => file::Policy::Sequential,
            Some(Policy::RoundRobin) => file::Policy::RoundRobin,
            Some(Policy::Random) => file::Policy::Random,
        },
        protocol: match (&forward.tls, forward.tcp) {
            (Some(_), _) => Protocol::Tls,
            (None, true) => Protocol::Tcp,
            (None, false) => Protocol::Udp,
        },
        tls: forward.tls.as_ref().and_then(forward_tls),
        ..file::Forward::new(&forward.zone, &forward.upstreams)
    }
}

/// The table `[forward.tls]`, unless it would have the defaults alone.
fn forward_tls(tls: &Tls) -> Option<file::ForwardTls> {
    let table = file::ForwardTls {
        server_name: tls.server_name.clone(),
        ca: tls.ca.clone(),
        ..file::ForwardTls::default()
    };
    (table != file::ForwardTls::default()).then_some(table)
}

#[cfg(test)]
mod tests;
