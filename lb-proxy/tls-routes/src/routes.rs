//! Routes as the data path asks them.

use std::collections::HashMap;

use super::{Pattern, RouteOrder, RouteRules};

/// Rules, each with the place of its backend.
#[derive(Debug, Clone, Default)]
pub struct Routes {
    /// Asked first, in their order.
    first: Vec<Test>,
    /// Then the closest of these.
    names: Names<usize>,
    /// Then these, in their order.
    last: Vec<Test>,
}

#[derive(Debug, Clone)]
struct Test {
    names: Names<()>,
    patterns: Vec<Pattern>,
    protocols: Vec<Box<str>>,
    backend: usize,
}

impl Routes {
    /// The rules, with the place of each backend; a rule whose backend has none is left out.
    #[must_use]
    pub fn new(rules: &RouteRules, mut place: impl FnMut(&str) -> Option<usize>) -> Self {
        let mut routes = Self::default();
        for rule in &rules.rules {
            let Some(backend) = place(&rule.backend) else {
                continue;
            };
            let is_last = rules.order == RouteOrder::Closest && rule.protocols.is_empty();
            if is_last {
                for name in &rule.names {
                    routes.names.add(name, backend);
                }
            }
            let test = Test {
                names: match is_last {
                    true => Names::default(),
                    false => rule.names.iter().map(|name| &**name).collect(),
                },
                patterns: rule.patterns.clone(),
                protocols: rule.protocols.clone(),
                backend,
            };
            match is_last {
                true if test.patterns.is_empty() => {}
                true => routes.last.push(test),
                false => routes.first.push(test),
            }
        }
        routes
    }

    /// True when no rule decides, so that nothing has to be looked into.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.first.is_empty() && self.names.is_empty() && self.last.is_empty()
    }

    /// The backend for a client that asks for `name`, in lower case, and offers `protocols`.
    #[must_use]
    pub fn find(&self, name: Option<&str>, protocols: &[Box<[u8]>]) -> Option<usize> {
        let name = name.map(|name| name.trim_end_matches('.'));
        let fit = |tests: &[Test]| {
            let mut tests = tests.iter();
            let test = tests.find(|test| test.fits(name, protocols))?;
            Some(test.backend)
        };
        fit(&self.first)
            .or_else(|| self.names.find(name?).copied())
            .or_else(|| fit(&self.last))
    }
}

impl Test {
    fn fits(&self, name: Option<&str>, protocols: &[Box<[u8]>]) -> bool {
        let has_name = |name: &str| {
            self.names.find(name).is_some() || self.patterns.iter().any(|it| it.fits(name))
        };
        let is_offered = |wanted: &str| protocols.iter().any(|it| **it == *wanted.as_bytes());
        let takes_any_name = self.names.is_empty() && self.patterns.is_empty();
        let takes_any_protocol = self.protocols.is_empty();
        (takes_any_name || name.is_some_and(has_name))
            && (takes_any_protocol || self.protocols.iter().any(|it| is_offered(it)))
    }
}

//--- Names

/// Host names and name patterns.
///
/// An exact name comes before a pattern, and a longer pattern before a shorter one. `*.example.org`
/// stands for every name below `example.org`, however deep; `*` alone for every name.
#[derive(Debug, Clone)]
struct Names<T> {
    exact: HashMap<Box<str>, T>,
    /// Without the `*.`; the empty suffix is `*`.
    below: HashMap<Box<str>, T>,
}

impl<T> Default for Names<T> {
    fn default() -> Self {
        Self {
            exact: HashMap::new(),
            below: HashMap::new(),
        }
    }
}

impl<T> Names<T> {
    /// Adds a name or pattern in lower case; the first of its kind stays.
    fn add(&mut self, name: &str, value: T) {
        let (map, key) = match name.strip_prefix('*') {
            Some(rest) => (&mut self.below, rest.trim_start_matches('.')),
            None => (&mut self.exact, name),
        };
        map.entry(key.into()).or_insert(value);
    }

    fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.below.is_empty()
    }

    fn find(&self, name: &str) -> Option<&T> {
        if let Some(value) = self.exact.get(name) {
            return Some(value);
        }
        let mut rest = name;
        while let Some((_, parent)) = rest.split_once('.') {
            if let Some(value) = self.below.get(parent) {
                return Some(value);
            }
            rest = parent;
        }
        self.below.get("")
    }
}

impl<'a> FromIterator<&'a str> for Names<()> {
    fn from_iter<I: IntoIterator<Item = &'a str>>(names: I) -> Self {
        let mut all = Self::default();
        for name in names {
            all.add(name, ());
        }
        all
    }
}
