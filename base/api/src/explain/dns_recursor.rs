//! The explanation of dns-recursor: how it answers a question, without asking an upstream.

use serde::{Deserialize, Serialize};

use super::{Story, Tell, span};
use crate::dns_recursor::Upstream;

/// The answer to `GET /explain?name=&type=&client=`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// The name, with the final dot.
    pub name: String,
    /// The type.
    #[serde(rename = "type")]
    pub rtype: String,
    /// The client that asks; none for one that may ask.
    pub client: Option<String>,
    /// The networks that may ask (`allow-from`).
    pub allow_from: String,
    /// The source of the answer.
    pub outcome: Outcome,
    /// The name and type that the rules of the configuration make of the question; the rest of the explanation is about that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rewritten: Option<String>,
    /// The target of the alias that the configuration has for the name; the rest of the explanation is about that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
    /// Whether DNS64 makes the AAAA records of A records; the rest of the explanation is about those.
    #[serde(default)]
    pub synthesized: bool,
    /// The local zone that has the name, if this server answers for it by itself.
    pub local_zone: Option<String>,
    /// The route of the name; none if no zone of the forward table has it.
    pub route: Option<Route>,
    /// The entries of the cache for this question.
    pub cached: Vec<Cached>,
}

/// The source of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The client may not ask, and gets REFUSED.
    Refused,
    /// The client may not ask, and gets no response.
    Ignored,
    /// No upstream sees a question of this type: this server answers with an error.
    Rejected,
    /// A fresh entry of the cache.
    Cache,
    /// A stale entry of the cache, because no upstream of the route answers.
    Stale,
    /// A stale entry of the cache, because a question has failed a moment ago.
    Held,
    /// A failure that is remembered.
    Failure,
    /// A local zone.
    Local,
    /// A name of the configuration or of a hosts file.
    Names,
    /// A response policy.
    Policy,
    /// The upstreams of the route.
    Upstreams,
    /// The upstreams of the route; if they do not answer in time, a stale entry of the cache.
    UpstreamsOrStale,
    /// No route has the name: the answer is SERVFAIL.
    NoRoute,
}

/// A route of the forward table.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact by itself")]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Route {
    /// The zone.
    pub zone: String,
    /// Whether the answers come from the root's servers and those below, and not from upstreams.
    pub iterates: bool,
    /// Whether the upstreams are recursive servers; otherwise they are authoritative for the zone.
    pub recursive: bool,
    /// Whether none of its upstreams answers.
    pub down: bool,
    /// The mode of validation: off, process or validate.
    pub dnssec: String,
    /// The zone of the trust anchor that decides about the name, with the tags of its keys; or that of a negative one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trust_anchor: Option<String>,
    /// The upstreams, in the order of the configuration.
    pub upstreams: Vec<Upstream>,
    /// Whether the zone was learned from the cluster; otherwise it is written.
    #[serde(default)]
    pub learned: bool,
}

/// An entry of the cache.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact by itself")]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cached {
    /// The response code.
    pub rcode: String,
    /// Whether it is a failure that is remembered, and no answer.
    pub failure: bool,
    /// Whether it is for clients that want DNSSEC records.
    pub dnssec_ok: bool,
    /// Whether it is for clients that want answers without validation.
    pub checking_disabled: bool,
    /// Whether DNSSEC has shown it to be secure (AD).
    pub secure: bool,
    /// Seconds since it was stored.
    pub age_seconds: u32,
    /// Seconds until its TTL is over; negative since then.
    pub left_seconds: i64,
    /// Seconds for which the zone's servers have denied it, while it wins over that (`keep-last-good`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denied_seconds: Option<u32>,
    /// Its records, as lines of a master file, with the TTLs that are left.
    pub records: Vec<String>,
}

impl Outcome {
    fn words(self) -> &'static str {
        match self {
            Self::Refused => "refuses the client: it gets REFUSED",
            Self::Ignored => "refuses the client: it gets no response",
            Self::Rejected => {
                "answers with an error itself: no upstream sees a question of this type"
            }
            Self::Cache => "answers from its cache, and asks no upstream",
            Self::Stale => {
                "answers from its cache with a STALE answer: no upstream of the route answers"
            }
            Self::Held => {
                "answers from its cache with a STALE answer: the last question failed a moment ago"
            }
            Self::Failure => "answers with the failure of the last question, for a moment",
            Self::Local => "answers by itself",
            Self::Names => "answers by itself: the configuration or a hosts file has the name",
            Self::Policy => "answers by itself: a response policy has a rule for the name",
            Self::Upstreams => "asks an upstream: the cache has no answer",
            Self::UpstreamsOrStale => {
                "asks an upstream; if none answers in time, it answers from its cache with a STALE answer"
            }
            Self::NoRoute => "answers SERVFAIL: no route has the name",
        }
    }
}

impl Tell for Explanation {
    fn tell(&self, story: &mut Story, depth: usize) {
        let below = depth + 1;
        story.say(depth, format_args!("dns-recursor {}", self.outcome.words()));
        if let Some(client) = &self.client {
            match self.outcome {
                Outcome::Refused | Outcome::Ignored => {
                    let allowed = &self.allow_from;
                    story.say(
                        below,
                        format_args!("{client} is not in allow-from: {allowed}"),
                    );
                }
                _ => story.say(below, format_args!("{client} may ask")),
            }
        }
        if let Some(rewritten) = &self.rewritten {
            story.say(
                below,
                format_args!("a rule of the configuration changes the question to {rewritten}"),
            );
        }
        if let Some(alias) = &self.alias {
            story.say(
                below,
                format_args!("the configuration has an alias, which leads to {alias}"),
            );
        }
        if self.synthesized {
            let words =
                "the name has no AAAA records that count: DNS64 makes them of its A records";
            story.say(below, words);
        }
        if let Some(zone) = &self.local_zone {
            story.say(below, format_args!("the name is in the local zone {zone}"));
        }
        if let Some(route) = &self.route {
            route.tell(story, below);
        }
        for cached in &self.cached {
            cached.tell(story, below);
        }
    }
}

impl Tell for Route {
    fn tell(&self, story: &mut Story, depth: usize) {
        let kind = match (self.iterates, self.recursive) {
            (true, _) => "from the root's servers on",
            (false, true) => "to recursive servers",
            (false, false) => "to authoritative servers",
        };
        let dnssec = match self.dnssec.as_str() {
            "off" => String::new(),
            mode => format!(", dnssec {mode}"),
        };
        let down = match self.down {
            true => "  NO UPSTREAM ANSWERS",
            false => "",
        };
        let zone = &self.zone;
        let learned = match self.learned {
            true => ", learned from the cluster",
            false => "",
        };
        story.say(
            depth,
            format_args!("route: zone {zone} {kind}{dnssec}{learned}{down}"),
        );
        if let Some(anchor) = &self.trust_anchor {
            story.say(depth + 1, format_args!("trust anchor: {anchor}"));
        }
        for upstream in &self.upstreams {
            let (address, state) = (&upstream.address, upstream.state.name());
            let since = span(upstream.since_seconds);
            let why = upstream.why.as_ref();
            let why = why.map_or_else(String::new, |why| format!(": {why}"));
            let far = upstream.round_trip_ms;
            let far = far.map_or_else(String::new, |millis| format!(", {millis:.1} ms away"));
            story.say(
                depth + 1,
                format_args!("upstream {address} is {state} for {since}{why}{far}"),
            );
        }
    }
}

impl Tell for Cached {
    fn tell(&self, story: &mut Story, depth: usize) {
        let kind = match self.failure {
            true => "failure",
            false => "answer",
        };
        let variant = match (self.dnssec_ok, self.checking_disabled) {
            (false, false) => "",
            (true, false) => " for clients with DO",
            (false, true) => " for clients with CD",
            (true, true) => " for clients with DO and CD",
        };
        let secure = match self.secure {
            true => ", secure",
            false => "",
        };
        let left = match u64::try_from(self.left_seconds) {
            Ok(left) => format!("{} left", span(left)),
            Err(_) => format!("STALE for {}", span(self.left_seconds.unsigned_abs())),
        };
        let (rcode, age) = (&self.rcode, span(self.age_seconds.into()));
        story.say(
            depth,
            format_args!("cached {kind}{variant}: {rcode}, {age} old, {left}{secure}"),
        );
        if let Some(denied) = self.denied_seconds {
            let denied = span(denied.into());
            let words = format_args!(
                "the zone's servers have DENIED it for {denied}; the last good answer wins"
            );
            story.say(depth + 1, words);
        }
        for record in &self.records {
            story.say(depth + 1, record);
        }
    }
}
