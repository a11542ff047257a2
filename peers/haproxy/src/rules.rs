//! The result of `use_backend` and `tcp-request` rules: routes by name, and clients that may connect.

use config::{Class, Notes};
use ipnet::IpNet;

use super::condition::{Acls, Clauses, Term, Test};
use super::lexer::Line;

/// The backend of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Routes {
    /// Names and patterns, each with a backend.
    pub(super) names: Vec<(String, String)>,
    /// For every other connection.
    pub(super) default: Option<String>,
}

impl Routes {
    /// `use_backend` rules, in their order, and what `default_backend` says.
    pub(super) fn new(
        rules: &[&Line],
        default: Option<String>,
        acls: &Acls,
        notes: &mut Notes,
    ) -> Self {
        let mut routes = Self {
            names: Vec::new(),
            default,
        };
        for (index, rule) in rules.iter().enumerate() {
            let (Some(at), Some(backend)) = (rule.position(), rule.word(1)) else {
                continue;
            };
            let result = if backend.starts_with('%') {
                Err("a backend whose name is computed cannot be written out".to_owned())
            } else {
                acls.condition(rule.from(2)).and_then(names_of)
            };
            match result {
                Ok(ClientFilter::Everything) => {
                    routes.default = Some(backend.to_owned());
                    for rest in rules.get(index + 1..).unwrap_or_default() {
                        let place = rest.position().unwrap_or(at);
                        notes.lost(
                            // There, too, no connection reached it.
                            Class::Cosmetic,
                            place,
                            &rest.text(),
                            "the rule before takes everything",
                        );
                    }
                    break;
                }
                Ok(ClientFilter::Names(names)) => {
                    for name in names {
                        if let Err(reason) = routes.add(name, backend) {
                            notes.lost(Class::Cosmetic, at, &rule.text(), reason);
                        }
                    }
                }
                // Its connections go to another backend, which they may not have been meant to reach.
                Err(reason) => notes.lost(Class::Security, at, &rule.text(), reason),
            }
        }
        routes
    }

    /// The first rule that fits decides there, the closest name here: names that an earlier pattern covers are
    /// never reached there, and must not be here.
    fn add(&mut self, name: String, backend: &str) -> Result<(), String> {
        let before = self
            .names
            .iter()
            .find(|(earlier, _)| covers(earlier, &name));
        match before {
            Some((earlier, to)) if to != backend => Err(format!(
                "`{name}` is never reached: `{earlier}` before it goes to {to}"
            )),
            Some((earlier, _)) if *earlier == name => Ok(()),
            _ => {
                self.names.push((name, backend.to_owned()));
                Ok(())
            }
        }
    }

    /// The backends, each once.
    pub(super) fn backends(&self) -> Vec<&str> {
        let mut backends: Vec<&str> = Vec::new();
        let named = self.names.iter().map(|(_, backend)| backend.as_str());
        for backend in named.chain(self.default.as_deref()) {
            if !backends.contains(&backend) {
                backends.push(backend);
            }
        }
        backends
    }
}

/// True when every name that fits `name` fits `pattern`.
fn covers(pattern: &str, name: &str) -> bool {
    match pattern.strip_prefix('*') {
        Some(suffix) => {
            let name = name.strip_prefix('*').unwrap_or(name);
            name.ends_with(suffix)
        }
        None => pattern == name,
    }
}

/// The clients that a condition lets through.
enum ClientFilter {
    Everything,
    Names(Vec<String>),
}

fn names_of(clauses: Clauses) -> Result<ClientFilter, String> {
    let mut names = Vec::new();
    for clause in clauses {
        // That it is TLS follows from its having a name.
        let mut terms = clause.into_iter().filter(|term| {
            let is_implied = matches!(term.test, Test::Hello | Test::Always(true));
            !is_implied || term.is_negated
        });
        match (terms.next(), terms.next()) {
            (None, _) => return Ok(ClientFilter::Everything),
            (
                Some(Term {
                    is_negated: false,
                    test: Test::Names(more),
                }),
                None,
            ) => names.extend(more),
            (Some(_), _) => {
                return Err(
                    "connections are routed by the name in their ClientHello alone".to_owned(),
                );
            }
        }
    }
    Ok(ClientFilter::Names(names))
}

//--- Clients that may connect

/// Clients that may connect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sources {
    /// These alone, if given.
    pub(super) allow: Option<Vec<IpNet>>,
    /// Never these.
    pub(super) deny: Vec<IpNet>,
}

impl Sources {
    fn allow_only(&mut self, nets: Vec<IpNet>) -> Result<(), String> {
        match &self.allow {
            Some(known) if *known != nets => Err(
                "there is one list of those that may connect, and it is made already".to_owned(),
            ),
            _ => {
                self.allow = Some(nets);
                Ok(())
            }
        }
    }
}

/// `tcp-request connection`, `session` and `content` rules as lists of networks.
///
/// There the first rule that fits decides; here who is denied is denied, and of the others who is allowed
/// is not. Rules that do not come to that are reported.
pub(super) fn sources(rules: &[&Line], acls: &Acls, notes: &mut Notes) -> Sources {
    let mut sources = Sources::default();
    // Each rule sees the clients that the one before has let in.
    for phase in ["connection", "session", "content"] {
        let mut state = Phase::default();
        for rule in rules.iter().filter(|rule| rule.word(1) == Some(phase)) {
            let Some(at) = rule.position() else { continue };
            if let Err(reason) = state.rule(rule, acls, &mut sources) {
                notes.lost(Class::Security, at, &rule.text(), reason);
            }
        }
    }
    sources
}

/// How far the rules of a phase have decided.
#[derive(Default)]
struct Phase {
    /// Let in before anything else was asked.
    accepted: Vec<IpNet>,
    /// Everybody is decided on.
    is_closed: bool,
    /// Those that begin with a ClientHello are let in.
    takes_tls: bool,
}

impl Phase {
    fn rule(&mut self, rule: &Line, acls: &Acls, sources: &mut Sources) -> Result<(), String> {
        let rejects = match rule.word(2) {
            Some("accept") => false,
            Some("reject") => true,
            Some("silent-drop") => return Err("connections are refused by closing them".to_owned()),
            Some("expect-proxy") => {
                return Err("write `accept-proxy` for the whole frontend".to_owned());
            }
            Some(word) if word.starts_with("track-sc") || word.starts_with("sc-") => {
                return Err("see `limits`: rate and concurrency of each source".to_owned());
            }
            _ => return Err("it has no counterpart".to_owned()),
        };
        for clause in acls.condition(rule.from(3))? {
            if self.is_closed {
                return Err("the rules before decide on everybody".to_owned());
            }
            self.clause(rejects, clause, sources)?;
        }
        Ok(())
    }

    fn clause(
        &mut self,
        rejects: bool,
        clause: Vec<Term>,
        sources: &mut Sources,
    ) -> Result<(), String> {
        let mut terms = clause
            .into_iter()
            .filter(|term| term.test != Test::Always(!term.is_negated));
        let (first, second) = (terms.next(), terms.next());
        if second.is_some() {
            return Err("its condition is too intricate".to_owned());
        }
        let Some(Term { is_negated, test }) = first else {
            return self.everybody(rejects, sources);
        };
        match (test, is_negated, rejects) {
            (Test::Hello, false, false) => {
                // Waiting for a ClientHello is what routes by name do anyway.
                self.takes_tls = true;
                Ok(())
            }
            (Test::Sources(_), ..) if self.takes_tls => {
                Err("connections that begin with a ClientHello never get there".to_owned())
            }
            (Test::Sources(nets), false, true) => {
                if overlap(&nets, &self.accepted) {
                    return Err("some of them were accepted before".to_owned());
                }
                sources.deny.extend(nets);
                Ok(())
            }
            (Test::Sources(nets), true, true) => {
                sources.allow_only(self.accepted.iter().copied().chain(nets).collect())
            }
            (Test::Sources(nets), false, false) => {
                self.accepted.extend(nets);
                Ok(())
            }
            (Test::Always(_), ..) => Ok(()),
            _ => Err("only the source of a connection decides who may connect".to_owned()),
        }
    }

    fn everybody(&mut self, rejects: bool, sources: &mut Sources) -> Result<(), String> {
        self.is_closed = true;
        if !rejects {
            return Ok(());
        }
        if self.takes_tls {
            return Err(
                "a connection that does not begin with a ClientHello goes to the default backend"
                    .to_owned(),
            );
        }
        sources.allow_only(self.accepted.clone())
    }
}

fn overlap(some: &[IpNet], others: &[IpNet]) -> bool {
    some.iter().any(|one| {
        others
            .iter()
            .any(|other| one.contains(other) || other.contains(one))
    })
}

#[cfg(test)]
mod tests;
