//! The explanation of dns-authd: the zone and the record sets of an answer, and the targets that they follow.

use std::time::Duration;

use config_text::counted;
use config_toml::HumanDuration;
use health::{AdminState, Liveness};
use serde::{Deserialize, Serialize};

use super::{Story, Tell, span};
use crate::dns_authd::{Certainty, Health, HealthState, HeldVersion, Rollback, ZoneState};

/// The answer to `GET /explain?name=&type=&client=`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// The name, with the final dot.
    pub name: String,
    /// The type.
    #[serde(rename = "type")]
    pub rtype: String,
    /// The client that asks; none for the node itself, as its dns-recursor asks.
    pub client: Option<String>,
    /// Whether the client may ask.
    pub allowed: bool,
    /// The networks that may ask (`allow-from`); none for all.
    pub allow_from: Option<String>,
    /// The zone; none if no zone of the server has the name.
    pub zone: Option<Zone>,
    /// The names that the answer goes through, the question's first; more than one with aliases.
    pub steps: Vec<Step>,
    /// The response to one query now; none if the server gives none.
    pub response: Option<Response>,
    /// The connection to healthd.
    pub health: Health,
    /// The generation of the liveness that the answers follow; 0 while it is none of healthd's.
    pub generation: u64,
}

/// A zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Zone {
    /// Its name.
    pub name: String,
    /// Its state.
    pub state: ZoneState,
    /// The served serial.
    pub serial: u32,
    /// Its file.
    pub file: Option<String>,
    /// Seconds since the served data was loaded.
    pub loaded_seconds: Option<u64>,
    /// How many earlier versions are kept.
    pub versions: usize,
    /// The version that is held back.
    pub held: Option<HeldVersion>,
    /// The older version that was published again.
    pub rollback: Option<Rollback>,
    /// Errors of its files.
    pub problems: Vec<String>,
}

/// A name that an answer goes through.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// The name.
    pub name: String,
    /// The place of the name in the zone.
    pub place: Place,
    /// The record sets that programs make.
    pub live: Vec<LiveSet>,
}

/// The place of a name in a zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// The name has records of its own, or names below it.
    Exact,
    /// This wildcard matches it.
    Wildcard(String),
    /// The zone delegates it at this name.
    Delegation(String),
    /// The DNAME record of this name redirects it.
    Dname(String),
    /// It does not exist; this is the closest name above it that does.
    Missing(String),
    /// No zone of this server has it.
    Elsewhere,
}

/// A record set that programs make from the liveness of targets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LiveSet {
    /// The owner name.
    pub owner: String,
    /// The type of its records.
    #[serde(rename = "type")]
    pub rtype: String,
    /// Its programs.
    pub programs: Vec<Program>,
    /// How sure its answer is.
    pub certainty: Certainty,
    /// The members of its answer, from which each query draws.
    pub members: Vec<String>,
    /// The TTL of its answer, in seconds.
    pub ttl: u32,
    /// The targets that its programs ask healthd for.
    pub targets: Vec<Target>,
    /// Messages of its programs.
    pub messages: Vec<String>,
}

/// A program of a record set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Its file, line and column.
    pub source: String,
    /// Its text.
    pub code: String,
}

/// A target of a program, as the answer follows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// The target, such as `tcp 192.0.2.13:6443`.
    pub target: String,
    /// The IP address and port.
    pub address: String,
    /// Its liveness.
    pub liveness: Liveness,
    /// The operator's decision.
    pub admin: AdminState,
    /// The result of the last probe, in words.
    pub reason: String,
}

/// The response to one query.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Response {
    /// The response code.
    pub rcode: String,
    /// Whether it is authoritative; a referral is not.
    pub authoritative: bool,
    /// The answer, as lines of a master file.
    pub answer: Vec<String>,
    /// The authority section, as lines of a master file.
    pub authority: Vec<String>,
}

impl Tell for Explanation {
    fn tell(&self, story: &mut Story, depth: usize) {
        let below = depth + 1;
        let rcode = match &self.response {
            Some(response) => response.rcode.as_str(),
            None => "nothing",
        };
        story.say(depth, format_args!("dns-authd answers {rcode}"));
        match (&self.client, self.allowed) {
            (Some(client), false) => {
                let allowed = self.allow_from.as_deref().unwrap_or("-");
                story.say(
                    below,
                    format_args!("{client} is not in allow-from: {allowed}"),
                );
            }
            (Some(client), true) => story.say(below, format_args!("{client} may ask")),
            (None, _) => {}
        }
        match &self.zone {
            Some(zone) => zone.tell(story, below),
            None => story.say(below, "no zone of this server has the name"),
        }
        let mut has_live = false;
        for step in &self.steps {
            step.tell(story, below);
            has_live |= !step.live.is_empty();
        }
        if has_live {
            story.say(below, self.health_words());
        }
        if let Some(response) = &self.response {
            for record in &response.answer {
                story.say(below, format_args!("answer: {record}"));
            }
            if response.answer.is_empty() {
                for record in &response.authority {
                    story.say(below, format_args!("authority: {record}"));
                }
            }
        }
    }
}

impl Explanation {
    fn health_words(&self) -> String {
        let age = self.health.age_seconds.map(|age| {
            let age = Duration::try_from_secs_f64(age.trunc());
            HumanDuration(age.unwrap_or_default())
        });
        match (self.health.state, self.health.stand_in, age) {
            (HealthState::Off, ..) => "healthd is not used: every target is unknown".to_owned(),
            (HealthState::Connected, ..) => {
                format!(
                    "the states are those of healthd, generation {}",
                    self.generation
                )
            }
            (HealthState::Disconnected, true, _) => {
                "healthd is NOT connected: dns-authd probes the targets itself".to_owned()
            }
            (HealthState::Disconnected, false, Some(age)) => {
                format!("healthd is NOT connected: its states of {age} ago hold")
            }
            (HealthState::Disconnected, false, None) => {
                "healthd is NOT connected, and has never been: every target is unknown".to_owned()
            }
        }
    }
}

impl Tell for Zone {
    fn tell(&self, story: &mut Story, depth: usize) {
        let (name, state, serial) = (&self.name, self.state.name(), self.serial);
        let loaded = self.loaded_seconds;
        let loaded = loaded.map_or_else(String::new, |ago| format!(" {} ago", span(ago)));
        let file = self.file.as_ref();
        let file = file.map_or_else(String::new, |file| format!(", from {file}"));
        let versions = match self.versions {
            0 => String::new(),
            n => format!(", {} kept", counted(n, "earlier version")),
        };
        story.say(
            depth,
            format_args!("zone {name}: {state}{loaded}, serial {serial}{file}{versions}"),
        );
        if let Some(rollback) = &self.rollback {
            let (to, set_aside) = (rollback.to, rollback.file);
            story.say(
                depth + 1,
                format_args!(
                    "rolled back to serial {to}; serial {set_aside} of the files is set aside"
                ),
            );
        }
        if let Some(held) = &self.held {
            let (serial, reasons) = (held.serial, held.reasons.join("; "));
            story.say(
                depth + 1,
                format_args!("serial {serial} is HELD BACK: {reasons}"),
            );
        }
        for problem in &self.problems {
            story.say(depth + 1, format_args!("! {problem}"));
        }
    }
}

impl Tell for Step {
    fn tell(&self, story: &mut Story, depth: usize) {
        let name = &self.name;
        match &self.place {
            Place::Exact => story.say(depth, format_args!("{name} is in the zone")),
            Place::Wildcard(owner) => story.say(depth, format_args!("{owner} matches {name}")),
            Place::Delegation(owner) => {
                story.say(depth, format_args!("the zone delegates {name} at {owner}"));
            }
            Place::Dname(owner) => {
                story.say(
                    depth,
                    format_args!("the DNAME record of {owner} redirects {name}"),
                );
            }
            Place::Missing(closest) => story.say(
                depth,
                format_args!("{name} does not exist; the closest name above it is {closest}"),
            ),
            Place::Elsewhere => {
                story.say(depth, format_args!("{name} is in no zone of this server"));
            }
        }
        for set in &self.live {
            set.tell(story, depth + 1);
        }
    }
}

impl Tell for LiveSet {
    fn tell(&self, story: &mut Story, depth: usize) {
        let (owner, rtype, ttl) = (&self.owner, &self.rtype, self.ttl);
        story.say(
            depth,
            format_args!(
                "{owner} {rtype} follows liveness ({}), TTL {ttl}: {}",
                self.certainty.name(),
                match self.members.is_empty() {
                    true => "no record".to_owned(),
                    false => self.members.join(" "),
                }
            ),
        );
        for program in &self.programs {
            story.say(
                depth + 1,
                format_args!("{}: {}", program.source, program.code),
            );
        }
        for target in &self.targets {
            target.tell(story, depth + 1);
        }
        for message in &self.messages {
            story.say(depth + 1, format_args!("! {message}"));
        }
    }
}

impl Tell for Target {
    fn tell(&self, story: &mut Story, depth: usize) {
        let (target, liveness) = (&self.target, self.liveness);
        let admin = match self.admin {
            AdminState::Ready => String::new(),
            other => format!(", {other}"),
        };
        let reason = match (liveness, self.reason.as_str()) {
            (Liveness::Up, _) | (_, "") => String::new(),
            (_, reason) => format!(": {reason}"),
        };
        story.say(depth, format_args!("{target} is {liveness}{admin}{reason}"));
    }
}
