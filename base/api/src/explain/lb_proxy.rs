//! The explanation of lb-proxy: the frontends of an address, their servers, and the holder of a virtual address.

use config_text::counted;
use health::Liveness;
use serde::{Deserialize, Serialize};

use super::{Story, Tell, span};
use crate::lb_proxy::{self, Healthd, Named, Server};

/// The answer to `GET /explain?about=`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// The names and addresses in question; empty for everything.
    pub about: Vec<String>,
    /// The frontends.
    pub frontends: Vec<Frontend>,
    /// The backends.
    pub backends: Vec<Backend>,
    /// The virtual addresses.
    pub vips: Vec<Vip>,
    /// The connection to healthd; none when lb-proxy does not use it.
    pub healthd: Option<Healthd>,
}

/// A frontend.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Frontend {
    /// The frontend as the status has it.
    pub frontend: lb_proxy::Frontend,
    /// The backends by what TLS clients ask for (SNI, ALPN).
    pub routes: Vec<Route>,
    /// The backend for every other connection.
    pub backend: Option<String>,
}

/// A rule by server name and application protocol.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// The host name or pattern, or the rule in words.
    pub name: String,
    /// The backend.
    pub backend: String,
}

/// A backend.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Backend {
    /// The backend as the status has it.
    pub backend: lb_proxy::Backend,
    /// How one of its servers is chosen, as the configuration names it.
    pub balance: String,
    /// Its servers that have DNS names.
    #[serde(default)]
    pub names: Vec<Named>,
}

/// A virtual address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vip {
    /// The virtual address as the status has it.
    pub vip: lb_proxy::Vip,
    /// The holder: `this node`, a node's name, or an address; none while it is unknown.
    pub holder: Option<String>,
    /// The reason, in words.
    pub why: String,
}

impl Explanation {
    /// Whether lb-proxy has nothing of what is in question.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.frontends.is_empty() && self.backends.is_empty() && self.vips.is_empty()
    }
}

impl Tell for Explanation {
    fn tell(&self, story: &mut Story, depth: usize) {
        let below = depth + 1;
        let healthd = match &self.healthd {
            None => "does not use healthd".to_owned(),
            Some(healthd) if healthd.connected => {
                format!("follows healthd, generation {}", healthd.generation)
            }
            Some(Healthd {
                stand_in: true,
                error,
                ..
            }) => {
                format!("is NOT connected to healthd ({error}), and probes the servers itself")
            }
            Some(Healthd { error, .. }) => format!("is NOT connected to healthd ({error})"),
        };
        story.say(depth, format_args!("lb-proxy {healthd}"));
        for frontend in &self.frontends {
            frontend.tell(story, below);
        }
        for backend in &self.backends {
            backend.tell(story, below);
        }
        for vip in &self.vips {
            vip.tell(story, below);
        }
        if self.is_empty() {
            story.say(
                below,
                "it has no frontend, no backend and no virtual address",
            );
        }
    }
}

impl Tell for Frontend {
    fn tell(&self, story: &mut Story, depth: usize) {
        let frontend = &self.frontend;
        let (name, listen) = (&frontend.name, frontend.listen.join(" "));
        let backend = match &self.backend {
            Some(backend) => format!(" to backend {backend}"),
            None => " to no backend".to_owned(),
        };
        let tally = frontend.tally.unwrap_or_default();
        let sessions = counted(tally.sessions, "session");
        let able = match frontend.able {
            Some(false) => "  NO SERVER",
            _ => "",
        };
        story.say(
            depth,
            format_args!("frontend {name} on {listen}{backend}: {sessions} now{able}"),
        );
        for Route { name, backend } in &self.routes {
            story.say(depth + 1, format_args!("{name} to backend {backend}"));
        }
    }
}

impl Tell for Backend {
    fn tell(&self, story: &mut Story, depth: usize) {
        let backend = &self.backend;
        let (name, usable) = (&backend.name, backend.usable);
        let servers = counted(backend.servers.len(), "server");
        let queued = match backend.queued {
            0 => "no connection waits".to_owned(),
            1 => "1 connection waits".to_owned(),
            n => format!("{n} connections wait"),
        };
        let balance = &self.balance;
        story.say(
            depth,
            format_args!("backend {name} ({balance}): {usable} of {servers}, {queued}"),
        );
        for server in &backend.servers {
            server.tell(story, depth + 1);
        }
        for named in &self.names {
            story.say(depth + 1, named);
        }
    }
}

impl Tell for Server {
    fn tell(&self, story: &mut Story, depth: usize) {
        let (name, address, why) = (&self.name, &self.address, &self.why);
        let since = match (self.since_seconds, self.avoided_seconds) {
            (Some(since), None) => format!(" for {}", span(since)),
            _ => String::new(),
        };
        let limit = self.limit;
        let limit = limit.map_or_else(String::new, |limit| format!(", at most {limit}"));
        let role = match self.backup {
            true => "backup, ",
            false => "",
        };
        story.say(
            depth,
            format_args!(
                "{name} {address} {why}{since}: {role}weight {}, {}{limit}",
                self.weight,
                counted(self.sessions, "session"),
            ),
        );
        if let Some(probe) = &self.probe
            && probe.liveness != Some(Liveness::Up)
        {
            let liveness = probe.liveness.unwrap_or_default();
            let reason = probe.reason.as_deref().unwrap_or_default();
            let reason = match reason {
                "" => String::new(),
                reason => format!(": {reason}"),
            };
            story.say(
                depth + 1,
                format_args!("{} is {liveness}{reason}", probe.target),
            );
        }
        for decision in &self.decisions {
            story.say(
                depth + 1,
                format_args!("an operator said {}{}", decision.decided, decision.terms),
            );
        }
    }
}

impl Tell for Vip {
    fn tell(&self, story: &mut Story, depth: usize) {
        let (vip, why) = (&self.vip, &self.why);
        let holder = match &self.holder {
            Some(holder) => format!("{holder} holds it"),
            None => "the holder is unknown".to_owned(),
        };
        story.say(
            depth,
            format_args!(
                "virtual address {} {} on {}: {holder}: {why}",
                vip.name,
                vip.addresses.join(" "),
                vip.interface
            ),
        );
    }
}
