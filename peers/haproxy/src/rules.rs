//! The result of `use_backend` and `tcp-request` rules: routes by ClientHello, and clients that may connect.

use std::collections::BTreeSet;

use config::lb_proxy::{Route, RouteOrder};
use config::{Class, Notes};
use ipnet::IpNet;

use super::condition::{Acls, Clauses, Letters, NameTest, ProtocolTest, Term, Test};
use super::lexer::Line;
use super::source_limits::{NotLimit, SourceLimits};

/// The backend of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Routes {
    /// By what the ClientHello asks for.
    pub(super) routes: Vec<Route>,
    /// The first route that matches decides, and not the closest.
    pub(super) order: RouteOrder,
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
            default,
            ..Self::default()
        };
        let is_unconditional = |rule: &&Line| rule.word(2).is_none();
        let has_default = routes.default.is_some() || rules.iter().any(is_unconditional);
        // Its connections go to another backend, which they may not have been meant to reach, or are refused.
        let lost_rule = match has_default {
            true => Class::Security,
            false => Class::Behaviour,
        };
        let mut found: Vec<(&Line, HelloTest)> = Vec::new();
        for (index, rule) in rules.iter().enumerate() {
            let (Some(at), Some(backend)) = (rule.position(), rule.word(1)) else {
                continue;
            };
            let result = if backend.starts_with('%') {
                Err("a backend whose name is computed cannot be written out".to_owned())
            } else {
                acls.condition(rule.from(2)).and_then(filter)
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
                Ok(ClientFilter::Those(clauses)) => {
                    let differences: BTreeSet<(Class, &str)> =
                        clauses.iter().flat_map(HelloTest::differences).collect();
                    // The weightiest is the first.
                    if let Some((class, _)) = differences.first() {
                        let how: Vec<&str> = differences.iter().map(|(_, how)| *how).collect();
                        notes.differs(*class, at, &rule.text(), how.join("; "));
                    }
                    found.extend(clauses.into_iter().map(|test| (*rule, test)));
                }
                Err(reason) => notes.lost(lost_rule, at, &rule.text(), reason),
            }
        }
        if found.iter().all(|(_, test)| test.is_names()) {
            routes.closest(&found, notes);
        } else {
            routes.in_order(&found);
        }
        routes
    }

    /// The first rule that fits decides there, the closest name here: names that an earlier pattern covers are
    /// never reached there, and must not be here.
    fn closest(&mut self, found: &[(&Line, HelloTest)], notes: &mut Notes) {
        let mut reached: Vec<(&str, &str)> = Vec::new();
        for (rule, test) in found {
            let backend = rule.word(1).unwrap_or_default();
            for test in &test.names {
                let NameTest::Name(name) = test else { continue };
                let mut before = reached.iter();
                match before.find(|(earlier, _)| covers(earlier, name)) {
                    Some((earlier, to)) if *to != backend => {
                        let reason = format!(
                            "`{name}` is never reached: `{earlier}` before it goes to {to}"
                        );
                        if let Some(at) = rule.position() {
                            notes.lost(Class::Cosmetic, at, &rule.text(), reason);
                        }
                    }
                    Some((earlier, _)) if earlier == name => {}
                    _ => reached.push((name, backend)),
                }
            }
        }
        // One route for names that follow each other and go to the same backend.
        for group in reached.chunk_by(|(_, one), (_, other)| one == other) {
            let names = group.iter().map(|(name, _)| (*name).to_owned());
            if let Some((_, backend)) = group.first() {
                self.routes.push(Route {
                    names: names.collect(),
                    ..route(backend)
                });
            }
        }
    }

    fn in_order(&mut self, found: &[(&Line, HelloTest)]) {
        self.order = RouteOrder::First;
        for (rule, test) in found.iter().filter(|(_, test)| !test.is_never()) {
            let mut next = route(rule.word(1).unwrap_or_default());
            for test in &test.names {
                match test {
                    NameTest::Name(name) => next.names.push(name.clone()),
                    NameTest::Pattern(pattern) => next.matches.push(pattern.clone()),
                }
            }
            if let Some((protocols, ..)) = &test.protocols {
                next.protocols.clone_from(protocols);
            }
            match self.routes.last_mut() {
                // Either of them is the same as one after the other.
                Some(last)
                    if last.backend == next.backend
                        && last.protocols.is_empty()
                        && next.protocols.is_empty() =>
                {
                    last.names.extend(next.names);
                    last.matches.extend(next.matches);
                }
                _ => self.routes.push(next),
            }
        }
    }

    /// The backends, each once.
    pub(super) fn backends(&self) -> Vec<&str> {
        let mut backends: Vec<&str> = Vec::new();
        let routed = self.routes.iter().map(|route| route.backend.as_str());
        for backend in routed.chain(self.default.as_deref()) {
            if !backends.contains(&backend) {
                backends.push(backend);
            }
        }
        backends
    }
}

fn route(backend: &str) -> Route {
    Route {
        names: Vec::new(),
        matches: Vec::new(),
        protocols: Vec::new(),
        backend: backend.to_owned(),
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
    /// Those that ask for one of these.
    Those(Vec<HelloTest>),
}

/// The content of a ClientHello: one of the names, if there are any, and one of the protocols, if there are any.
#[derive(Default)]
struct HelloTest {
    names: Vec<NameTest>,
    letters: Option<Letters>,
    protocols: Option<(Vec<String>, Letters, ProtocolTest)>,
}

impl HelloTest {
    /// True for host names and nothing else.
    fn is_names(&self) -> bool {
        let is_name = |test: &NameTest| matches!(test, NameTest::Name(_));
        self.protocols.is_none() && self.names.iter().all(is_name)
    }

    /// True when it is compared with nothing.
    fn is_never(&self) -> bool {
        let no_protocol = self
            .protocols
            .as_ref()
            .is_some_and(|(all, ..)| all.is_empty());
        no_protocol || (self.letters.is_some() && self.names.is_empty())
    }

    /// In which ways clients are chosen otherwise here.
    fn differences(&self) -> Vec<(Class, &'static str)> {
        let mut differences = Vec::new();
        if self.letters == Some(Letters::AsWritten) {
            let how = "names are matched without regard to case";
            differences.push((Class::Cosmetic, how));
        }
        if let Some((_, letters, test)) = &self.protocols {
            if *test == ProtocolTest::Part {
                let how = "protocols are compared whole: one that has it in its name is another";
                differences.push((Class::Behaviour, how));
            }
            if *letters == Letters::AnyCase {
                let how = "protocols are matched with regard to case";
                differences.push((Class::Cosmetic, how));
            }
        }
        differences
    }

    /// One more term; false when it cannot be written so.
    fn add(&mut self, term: Term) -> bool {
        match term {
            Term {
                is_negated: false,
                test: Test::Names(names, letters),
            } if self.letters.is_none() => {
                self.names = names;
                self.letters = Some(letters);
                true
            }
            Term {
                is_negated: false,
                test: Test::Protocols(protocols, letters, test),
            } if self.protocols.is_none() => {
                self.protocols = Some((protocols, letters, test));
                true
            }
            _ => false,
        }
    }
}

fn filter(clauses: Clauses) -> Result<ClientFilter, String> {
    let mut those = Vec::new();
    for clause in clauses {
        // That it is TLS follows from its having a name.
        let mut terms = clause
            .into_iter()
            .filter(|term| {
                let is_implied = matches!(term.test, Test::Hello | Test::Always(true));
                !is_implied || term.is_negated
            })
            .peekable();
        if terms.peek().is_none() {
            return Ok(ClientFilter::Everything);
        }
        let mut test = HelloTest::default();
        if !terms.all(|term| test.add(term)) {
            return Err(
                "connections are routed by the name and the protocols in their ClientHello alone"
                    .to_owned(),
            );
        }
        those.push(test);
    }
    Ok(ClientFilter::Those(those))
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
