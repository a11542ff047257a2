//! Routes: the backend that a TLS ClientHello asks for, by its server name (RFC 6066 §3) and application protocols
//! (RFC 7301).
//!
//! [`read`] makes [`RouteRules`] of a configuration and names what is wrong with it; [`Routes`] are the rules as the data path
//! asks them, with places of backends instead of their names. Names are compared without regard to case, protocols octet by
//! octet. Reads no ClientHello itself.

mod pattern;
mod routes;

use std::collections::BTreeSet;
use std::sync::Arc;

use config::lb_proxy as file;
pub use config::lb_proxy::RouteOrder;

pub use pattern::{Pattern, anywhere};
pub use routes::Routes;

/// The most regular expressions of a frontend: a connection may be compared with each, some microseconds in all.
pub const MOST_PATTERNS: usize = 256;

/// The longest application protocol, in octets (RFC 7301 §3.1).
const LONGEST_PROTOCOL: usize = 255;

/// The routes of a frontend.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteRules {
    /// The one that decides, if several fit.
    pub order: RouteOrder,
    /// The routes, in the order of the file.
    pub rules: Vec<RouteRule>,
}

/// A route.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteRule {
    /// Host names, `*.` with one, or `*`; in lower case.
    pub names: Vec<Box<str>>,
    /// Regular expressions of names.
    pub patterns: Vec<Pattern>,
    /// Application protocols, of which the client offers one.
    pub protocols: Vec<Box<str>>,
    /// The backend's name.
    pub backend: Arc<str>,
}

impl RouteRules {
    /// True when there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The backends, as often as they are named.
    pub fn backends(&self) -> impl Iterator<Item = &Arc<str>> {
        self.rules.iter().map(|rule| &rule.backend)
    }

    /// The rules in words, each with its backend: names one by one, everything else together.
    #[must_use]
    pub fn in_words(&self) -> Vec<(String, &Arc<str>)> {
        let mut words = Vec::new();
        for rule in &self.rules {
            let backend = &rule.backend;
            match (&*rule.patterns, &*rule.protocols) {
                ([], []) => words.extend(rule.names.iter().map(|it| (it.to_string(), backend))),
                _ => words.push((rule.in_words(), backend)),
            }
        }
        words
    }
}

impl RouteRule {
    fn in_words(&self) -> String {
        let names = self.names.iter().map(ToString::to_string);
        let patterns = self.patterns.iter().map(|it| format!("/{it}/"));
        let names: Vec<String> = names.chain(patterns).collect();
        let names = match &*names {
            [] => "any name".to_owned(),
            names => names.join(" or "),
        };
        match &*self.protocols {
            [] => names,
            protocols => format!("{names} with protocol {}", protocols.join(" or ")),
        }
    }
}

//--- Configuration

/// A wrong value of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The place of the route.
    pub route: usize,
    /// The key, and which of its values; none when the route lacks the key.
    pub value: Option<(&'static str, usize)>,
    /// The reason.
    pub reason: String,
}

/// The rules that a configuration says, and what is wrong with it. Wrong values are left out.
#[must_use]
pub fn read(order: RouteOrder, routes: &[file::Route]) -> (RouteRules, Vec<Fault>) {
    let mut reading = Reading {
        order,
        route: 0,
        known: BTreeSet::new(),
        n_patterns: 0,
        faults: Vec::new(),
    };
    let rules = routes.iter().enumerate().map(|(route, spec)| {
        reading.route = route;
        reading.rule(spec)
    });
    let rules = rules.collect();
    (RouteRules { order, rules }, reading.faults)
}

struct Reading {
    order: RouteOrder,
    /// The route at hand.
    route: usize,
    /// Names of routes without protocols.
    known: BTreeSet<Box<str>>,
    n_patterns: usize,
    faults: Vec<Fault>,
}

impl Reading {
    fn rule(&mut self, spec: &file::Route) -> RouteRule {
        if spec.names.is_empty() && spec.matches.is_empty() && spec.protocols.is_empty() {
            let reason = "a route needs a name in `names`, `matches` or `protocols`";
            self.faults.push(Fault {
                route: self.route,
                value: None,
                reason: reason.to_owned(),
            });
        }
        // Neither of two equal names is closer; one of them is the first.
        let is_once = self.order == RouteOrder::Closest && spec.protocols.is_empty();
        RouteRule {
            names: self.values("names", &spec.names, |this, text| this.name(text, is_once)),
            patterns: self.values("matches", &spec.matches, Self::pattern),
            protocols: self.values("protocols", &spec.protocols, |_, text| protocol(text)),
            backend: spec.backend.as_str().into(),
        }
    }

    fn values<T>(
        &mut self,
        key: &'static str,
        texts: &[String],
        mut value: impl FnMut(&mut Self, &str) -> Result<T, String>,
    ) -> Vec<T> {
        let mut values = Vec::new();
        for (place, text) in texts.iter().enumerate() {
            match value(self, text) {
                Ok(value) => values.push(value),
                Err(reason) => self.faults.push(Fault {
                    route: self.route,
                    value: Some((key, place)),
                    reason,
                }),
            }
        }
        values
    }

    fn name(&mut self, text: &str, is_once: bool) -> Result<Box<str>, String> {
        let name: Box<str> = text.trim_end_matches('.').to_ascii_lowercase().into();
        if !is_name(&name) {
            return Err(format!(
                "`{name}` is no host name, as in console.example.org, nor a pattern, as in *.example.org"
            ));
        }
        if is_once && !self.known.insert(name.clone()) {
            return Err(format!("`{name}` has a route already"));
        }
        Ok(name)
    }

    fn pattern(&mut self, text: &str) -> Result<Pattern, String> {
        self.n_patterns += 1;
        if self.n_patterns > MOST_PATTERNS {
            return Err(format!(
                "the routes of a frontend have at most {MOST_PATTERNS} regular expressions"
            ));
        }
        Pattern::new(text)
    }
}

fn protocol(text: &str) -> Result<Box<str>, String> {
    match text.len() {
        1..=LONGEST_PROTOCOL => Ok(text.into()),
        0 => Err("a protocol has a name, as in h2".to_owned()),
        _ => Err(format!(
            "a protocol's name has at most {LONGEST_PROTOCOL} octets"
        )),
    }
}

/// True for a host name, `*`, or `*.` and a host name.
#[must_use]
pub fn is_name(name: &str) -> bool {
    let rest = match name {
        "*" => return true,
        name => name.strip_prefix("*.").unwrap_or(name),
    };
    let label = |label: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        !label.is_empty() && label.len() <= 63 && label.bytes().all(plain)
    };
    rest.len() <= 253 && rest.split('.').all(label)
}

#[cfg(test)]
mod tests;
