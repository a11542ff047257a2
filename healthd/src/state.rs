//! The state of healthd on disk, so that a restart continues from it.
//!
//! ```text
//! state  =  "outpost-healthd-state\n"  version (u32)  CRC-32 of the rest (u32)  Saved (protobuf)
//! ```
//!
//! Integers are big endian. The file is replaced as a whole by a rename, so there is an old one or a
//! new one and never half of one. One that cannot be read is moved aside and healthd begins with
//! nothing known: subscribers keep what they heard, and the first probes take a moment.
//!
//! `Saved` grows as the contract does: fields are added, so that a version of healthd reads what the
//! version after it has written.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use durable::state::{self, Format, StateError};
use prost::Message as _;
use proto::health::{AdminState, Liveness, Terms};
use proto::wire;

use crate::wire_form;
use liveness::admin_rules::{AdminRules, Decision, Scope};
use liveness::monitor::{Monitor, Restored};
use liveness::table::Entry;

/// The form of the file.
const FORMAT: Format = Format {
    service: "healthd",
    version: 1,
    checksum: crc32,
    // A larger file is no state of ours: 16,384 targets take some megabytes.
    max_size: 64 << 20,
};

//--- Format

#[derive(Clone, PartialEq, prost::Message)]
struct Saved {
    #[prost(uint64, tag = "1")]
    generation: u64,
    #[prost(message, repeated, tag = "2")]
    targets: Vec<wire::TargetStatus>,
    #[prost(message, repeated, tag = "3")]
    rules: Vec<Rule>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Rule {
    #[prost(string, tag = "1")]
    address: String,
    /// All ports when zero.
    #[prost(uint32, tag = "2")]
    port: u32,
    #[prost(enumeration = "wire::AdminState", tag = "3")]
    state: i32,
    /// Milliseconds since 1970; never when zero.
    #[prost(uint64, tag = "4")]
    until: u64,
    /// Milliseconds since 1970; unknown when zero.
    #[prost(uint64, tag = "5")]
    since: u64,
    #[prost(string, tag = "6")]
    reason: String,
    #[prost(string, tag = "7")]
    by: String,
}

/// Encodes the targets and rules of a monitor.
#[must_use]
pub fn encode(monitor: &Monitor) -> Vec<u8> {
    let known = monitor.table().entries();
    let known = known.filter(|entry| entry.liveness() != Liveness::Unknown);
    let saved = Saved {
        generation: monitor.generation(),
        targets: known.map(on_disk).collect(),
        rules: monitor.table().rules().iter().map(rule).collect(),
    };
    FORMAT.encode(&saved.encode_to_vec())
}

/// Decodes the targets and rules of a monitor. Targets that this version cannot probe are left out.
///
/// # Errors
/// When the octets are not what [`encode`] wrote.
pub fn decode(octets: &[u8]) -> Result<Restored, StateError> {
    let body = FORMAT.content(octets)?;
    let saved = Saved::decode(body).map_err(|_| StateError::Damaged)?;
    let mut rules = AdminRules::default();
    for rule in &saved.rules {
        if let Some(scope) = scope(rule) {
            rules.set(scope, decision(rule));
        }
    }
    let targets = saved.targets.into_iter();
    Ok(Restored {
        generation: saved.generation,
        known: targets.filter_map(wire_form::known).collect(),
        rules,
    })
}

/// A target with the liveness that subscribers see, which is the site's where it has a verdict: a restart begins with it.
/// Why it is so does not outlive the process.
fn on_disk(entry: &Entry) -> wire::TargetStatus {
    wire::TargetStatus {
        verdict: None,
        reason: entry.reason.clone(),
        ..wire_form::status(0, entry)
    }
}

fn decision(rule: &Rule) -> Decision {
    let time = |millis: u64| (millis > 0).then(|| Duration::from_millis(millis));
    Decision {
        state: AdminState::from(rule.state()),
        terms: Terms {
            since: time(rule.since),
            until: time(rule.until),
            reason: rule.reason.clone(),
            by: rule.by.clone(),
        },
    }
}

fn rule((scope, decision): (Scope, &Decision)) -> Rule {
    let millis = |time: Option<Duration>| {
        let millis = time.map_or(0, |time| time.as_millis());
        u64::try_from(millis).unwrap_or(u64::MAX)
    };
    let (address, port) = match scope {
        Scope::Address(address) => (address, 0),
        Scope::Port(port) => (port.ip(), port.port()),
    };
    Rule {
        address: address.to_string(),
        port: port.into(),
        state: wire::AdminState::from(decision.state).into(),
        until: millis(decision.terms.until),
        since: millis(decision.terms.since),
        reason: decision.terms.reason.clone(),
        by: decision.terms.by.clone(),
    }
}

fn scope(rule: &Rule) -> Option<Scope> {
    let address: IpAddr = rule.address.parse().ok()?;
    Some(match u16::try_from(rule.port).ok()? {
        0 => Scope::Address(address),
        port => Scope::Port(SocketAddr::new(address, port)),
    })
}

/// CRC-32 (ISO 3309), bit by bit: a state is written once a second at most.
fn crc32(octets: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for octet in octets {
        crc ^= u32::from(*octet);
        for _ in 0..8 {
            let mask = (crc & 1).wrapping_neg();
            crc = (crc >> 1) ^ (0xedb8_8320 & mask);
        }
    }
    !crc
}

//--- Disk

/// The directory that holds the state.
pub type Store = state::Store<Restored>;

/// The state in a directory, which is made if it is not there.
///
/// # Errors
/// When the directory cannot be made.
pub fn open(directory: &Path) -> io::Result<Store> {
    Store::open(directory, &FORMAT, decode)
}

#[cfg(test)]
mod tests;
