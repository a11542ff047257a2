//! The result of `use_backend` and `tcp-request` rules: routes by name, and clients that may connect.

use config::{Class, Notes};
use ipnet::IpNet;

use super::condition::{Acls, Clauses, Letters, Term, Test};
use super::lexer::Line;
use super::source_limits::{NotLimit, SourceLimits};

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
        let is_unconditional = |rule: &&Line| rule.word(2).is_none();
        let has_default = routes.default.is_some() || rules.iter().any(is_unconditional);
        // Its connections go to another backend, which they may not have been meant to reach, or are refused.
        let lost_rule = match has_default {
            true => Class::Security,
            false => Class::Behaviour,
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
                Ok(ClientFilter::Names(names, letters)) => {
                    if letters == Letters::AsWritten {
                        let how = "names are matched without regard to case";
                        notes.differs(Class::Cosmetic, at, &rule.text(), how);
                    }
                    for name in names {
                        if let Err(reason) = routes.add(name, backend) {
                            notes.lost(Class::Cosmetic, at, &rule.text(), reason);
                        }
                    }
                }
                Err(reason) => notes.lost(lost_rule, at, &rule.text(), reason),
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
    Names(Vec<String>, Letters),
}

fn names_of(clauses: Clauses) -> Result<ClientFilter, String> {
    let mut names = Vec::new();
    let mut letters = Letters::AnyCase;
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
                    test: Test::Names(more, case),
                }),
                None,
            ) => {
                names.extend(more);
                letters = letters.max(case);
            }
            (Some(_), _) => {
                return Err(
                    "connections are routed by the name in their ClientHello alone".to_owned(),
                );
            }
        }
    }
    Ok(ClientFilter::Names(names, letters))
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
///
/// With `accepts_proxy` the connection is another proxy's: rules of its phase are of that proxy, and those here of the
/// client that the header names.
pub(super) fn sources(
    rules: &[&Line],
    acls: &Acls,
    accepts_proxy: bool,
    limits: &mut SourceLimits<'_>,
    notes: &mut Notes,
) -> Sources {
    let mut sources = Sources::default();
    // Each rule sees the clients that the one before has let in.
    for phase in ["connection", "session", "content"] {
        let mut state = Phase::default();
        let of_phase = |rule: &&&Line| rule.word(1) == Some(phase);
        let rules: Vec<&&Line> = rules.iter().filter(of_phase).collect();
        for (index, rule) in rules.iter().enumerate() {
            let Some(at) = rule.position() else { continue };
            let action = Action::of(rule);
            let result = match phase {
                "connection" if accepts_proxy => Err(BEFORE_HEADER.into()),
                _ => state.rule(rule, action, acls, (&mut sources, &mut *limits)),
            };
            let differences = std::mem::take(&mut limits.differences);
            if !differences.is_empty() {
                let how = differences.join("; ");
                notes.differs(Class::Behaviour, at, &rule.text(), how);
            }
            match result {
                Ok(()) if action == Action::Drop => {
                    let how = "the connection is reset at once";
                    notes.differs(Class::Behaviour, at, &rule.text(), how);
                }
                Ok(()) => {}
                Err(Unsupported { reason, class }) => {
                    let rest = rules.get(index + 1..).unwrap_or_default();
                    let class = class.unwrap_or_else(|| action.class(rest));
                    notes.lost(class, at, &rule.text(), reason);
                }
            }
        }
    }
    sources
}

const BEFORE_HEADER: &str = "HAProxy applies it before the PROXY header, to the proxy that connects; the networks of a \
                             frontend are those of clients, as with `tcp-request session`";

/// Rules of a backend, which sees every client that its frontends let in.
pub(super) fn of_backend(rules: &[&Line], notes: &mut Notes) {
    for (index, rule) in rules.iter().enumerate() {
        if let Some(at) = rule.position() {
            let rest: Vec<&&Line> = rules.iter().skip(index + 1).collect();
            let class = Action::of(rule).class(&rest);
            let reason = "a backend takes every client of its frontends; write the rule there";
            notes.lost(class, at, &rule.text(), reason);
        }
    }
}

/// The action of a `tcp-request` rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Accept,
    Reject,
    /// As `Reject`, and the client does not learn of it.
    Drop,
    ExpectProxy,
    /// Keeps counters for other rules.
    Count,
    /// Remembers, marks or records something, and keeps no client out.
    Note,
    Other,
}

impl Action {
    fn of(rule: &Line) -> Self {
        match rule.word(2).unwrap_or_default() {
            "accept" => Self::Accept,
            "reject" => Self::Reject,
            "silent-drop" => Self::Drop,
            "expect-proxy" => Self::ExpectProxy,
            word if word.starts_with("track-sc") || word.starts_with("sc-") => Self::Count,
            "capture" => Self::Note,
            word if word.starts_with("set-") || word.starts_with("unset-") => Self::Note,
            _ => Self::Other,
        }
    }

    fn keeps_out(self) -> bool {
        matches!(self, Self::Reject | Self::Drop)
    }

    /// The weight of a rule that is lost before these.
    fn class(self, rest: &[&&Line]) -> Class {
        let keep_out = || rest.iter().any(|rule| Self::of(rule).keeps_out());
        match self {
            Self::Count | Self::Note => Class::Behaviour,
            // It only matters to rules that come after it.
            Self::Accept if !keep_out() => Class::Cosmetic,
            Self::Accept | Self::Reject | Self::Drop | Self::ExpectProxy | Self::Other => {
                Class::Security
            }
        }
    }
}

/// A rule without a counterpart.
struct Unsupported {
    reason: String,
    /// The weight, if the action does not say it.
    class: Option<Class>,
}

impl From<String> for Unsupported {
    fn from(reason: String) -> Self {
        Self {
            reason,
            class: None,
        }
    }
}

impl From<&str> for Unsupported {
    fn from(reason: &str) -> Self {
        reason.to_owned().into()
    }
}

impl From<NotLimit> for Unsupported {
    fn from(not: NotLimit) -> Self {
        let (reason, class) = match not {
            NotLimit::Lost(reason) => (reason, None),
            NotLimit::Never(reason) => (reason, Some(Class::Cosmetic)),
        };
        Self {
            reason: reason.to_owned(),
            class,
        }
    }
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
    fn rule(
        &mut self,
        rule: &Line,
        action: Action,
        acls: &Acls,
        (sources, limits): (&mut Sources, &mut SourceLimits<'_>),
    ) -> Result<(), Unsupported> {
        match action {
            Action::Count if limits.track(rule, self.is_open()) => return Ok(()),
            Action::Accept | Action::Reject | Action::Drop => {}
            Action::ExpectProxy => return Err("write `accept-proxy` for the whole frontend".into()),
            Action::Count => return Err("see `limits`: rate and concurrency of each source".into()),
            Action::Note | Action::Other => return Err("it has no counterpart".into()),
        }
        if self.is_closed {
            return Err(Unsupported {
                reason: "the rules before decide on everybody".to_owned(),
                class: Some(Class::Cosmetic),
            });
        }
        for clause in acls.condition(rule.from(3))? {
            self.clause(action.keeps_out(), clause, (&mut *sources, &mut *limits))?;
        }
        Ok(())
    }

    /// Whether every client gets to the next rule.
    fn is_open(&self) -> bool {
        self.accepted.is_empty() && !self.takes_tls
    }

    fn clause(
        &mut self,
        rejects: bool,
        clause: Vec<Term>,
        (sources, limits): (&mut Sources, &mut SourceLimits<'_>),
    ) -> Result<(), Unsupported> {
        let mut terms = clause
            .into_iter()
            .filter(|term| term.test != Test::Always(!term.is_negated));
        let (first, second) = (terms.next(), terms.next());
        if second.is_some() {
            return Err("its condition is too intricate".into());
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
                Err("connections that begin with a ClientHello never get there".into())
            }
            (Test::Sources(nets), false, true) => {
                if overlap(&nets, &self.accepted) {
                    return Err("some of them were accepted before".into());
                }
                sources.deny.extend(nets);
                Ok(())
            }
            (Test::Sources(nets), true, true) => {
                let all = self.accepted.iter().copied().chain(nets).collect();
                Ok(sources.allow_only(all)?)
            }
            (Test::Sources(nets), false, false) => {
                self.accepted.extend(nets);
                Ok(())
            }
            (Test::TooMany(_), false, true) if !self.is_open() => {
                Err("clients that rules before accept have no limit there".into())
            }
            (Test::TooMany(too_many), false, true) => limits.reject(&too_many).map_err(Into::into),
            (Test::Always(_), ..) => Ok(()),
            _ => Err("only the source of a connection decides who may connect".into()),
        }
    }

    fn everybody(&mut self, rejects: bool, sources: &mut Sources) -> Result<(), Unsupported> {
        self.is_closed = true;
        if !rejects {
            return Ok(());
        }
        if self.takes_tls {
            // It keeps no client out: each may begin with a ClientHello.
            return Err(Unsupported {
                reason: "a connection that does not begin with a ClientHello goes to the default backend"
                    .to_owned(),
                class: Some(Class::Behaviour),
            });
        }
        Ok(sources.allow_only(self.accepted.clone())?)
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
