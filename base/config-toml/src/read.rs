//! From the text of a document to a struct, with the place of everything that is wrong.
//!
//! Serde stops at the first error. To find the next ones, the entry with the error is taken out and the rest is
//! parsed again, until nothing is wrong or an error may only be a consequence of an entry that was taken out.

mod error;
mod value;

use std::ops::Range;

use serde::de::DeserializeOwned;
use toml::de::{DeArray, DeTable, DeValue};

use crate::{Document, Position, Problem, Problems, Step};
use error::Kind;

/// More problems than this are of no use to a reader.
const MAX_PROBLEMS: usize = 32;

/// The only version of the format so far.
const VERSION: &str = "v1";

impl Document {
    /// Checks the version and parses the rest into `T`.
    ///
    /// # Errors
    ///
    /// All problems that can be told apart: syntax errors, unknown keys with the nearest known one, and values of the
    /// wrong kind or out of range.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, Problems> {
        self.parse_with(|_, _| ())
    }

    /// As [`Document::parse`], and then checks the rules between keys. `check` sees the defaults in the place of wrong
    /// values, so that all problems come at once, in the order of the file.
    ///
    /// # Errors
    ///
    /// As [`Document::parse`], and the problems that `check` found.
    pub fn parse_with<T: DeserializeOwned>(
        &self,
        check: impl FnOnce(&T, &mut Check<'_>),
    ) -> Result<T, Problems> {
        parse(self, check)
    }
}

/// Reads the struct, and lets `check` see it as far as it could be read: without the entries that are wrong.
fn parse<T: DeserializeOwned>(
    document: &Document,
    check: impl FnOnce(&T, &mut Check<'_>),
) -> Result<T, Problems> {
    let (mut table, errors) = DeTable::parse_recoverable(&document.text);
    if !errors.is_empty() {
        let problem = |error: &toml::de::Error| {
            let span = error.span().unwrap_or_default();
            document.problem(span, error.message().trim_end())
        };
        return Err(errors.iter().take(MAX_PROBLEMS).map(problem).collect());
    }
    let span = table.span();
    let table = table.get_mut();
    take_version(document, table)?;
    let mut problems = Problems::default();
    let mut lost = Lost::default();
    let Some(parsed) = parse_table(document, &span, table, &mut problems, &mut lost) else {
        return Err(problems);
    };
    let mut checked = Check {
        document,
        table,
        problems,
        lost,
    };
    check(&parsed, &mut checked);
    let mut problems = checked.problems;
    problems.0.sort_by_key(|problem| problem.position.clone());
    problems.unless_empty(parsed)
}

/// Parses, takes the wrong entry out, and parses again; none when nothing more can be taken out.
fn parse_table<T: DeserializeOwned>(
    document: &Document,
    span: &Range<usize>,
    table: &mut DeTable<'_>,
    problems: &mut Problems,
    lost: &mut Lost,
) -> Option<T> {
    let mut removed = Vec::new();
    loop {
        let error = match T::deserialize(value::Value::root(span.clone(), table)) {
            Ok(parsed) => return Some(parsed),
            Err(error) => error,
        };
        let place = error.span.clone().unwrap_or_default();
        let way = remove_entry(table, &place);
        // A missing key may be the one that was taken out, or be there under a misspelt name.
        if !matches!(error.kind, Kind::MissingKey(name) if removed.iter().any(|key| key == name)) {
            let key = way.as_deref().and_then(last_key);
            problems.push(document.problem(place, error.of_key(key)));
        }
        removed.extend(error.meant().map(str::to_owned));
        match way {
            Some(way) if problems.0.len() < MAX_PROBLEMS => {
                removed.extend(last_key(&way).map(str::to_owned));
                lost.add(way, error.meant());
            }
            _ => return None,
        }
    }
}

/// The keys and indices that lead to an entry that was taken out.
type EntryPath = Vec<Stop>;

/// A step on it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Stop {
    Key(String),
    Item(usize),
}

impl Stop {
    fn is(&self, step: &Step<'_>) -> bool {
        match (self, step) {
            (Self::Key(key), Step::Key(other)) => key == other,
            (Self::Item(index), Step::Item(other)) => index == other,
            _ => false,
        }
    }
}

/// The key that leads to an entry, or to the list that it was in.
fn last_key(way: &[Stop]) -> Option<&str> {
    way.iter().rev().find_map(|stop| match stop {
        Stop::Key(key) => Some(key.as_str()),
        Stop::Item(_) => None,
    })
}

/// The keys whose values were taken out because they are wrong, and the lists that lost an item.
#[derive(Debug, Default)]
struct Lost(Vec<EntryPath>);

impl Lost {
    /// Notes an entry that was taken out, and the key that it was meant for.
    fn add(&mut self, mut way: EntryPath, meant: Option<&'static str>) {
        match way.pop() {
            Some(Stop::Item(index)) => {
                self.shift(&way, index);
                self.0.push(way);
            }
            Some(Stop::Key(key)) => {
                let names = [Some(key), meant.map(str::to_owned)];
                let ways = names.into_iter().flatten().map(|name| {
                    let mut way = way.clone();
                    way.push(Stop::Key(name));
                    way
                });
                self.0.extend(ways.collect::<Vec<_>>());
            }
            None => {}
        }
    }

    /// Items behind the one that was taken out of a list have moved.
    fn shift(&mut self, list: &[Stop], taken: usize) {
        self.0.retain_mut(|way| {
            if !way.starts_with(list) {
                return true;
            }
            match way.get_mut(list.len()) {
                Some(Stop::Item(index)) if *index == taken => false,
                Some(Stop::Item(index)) if *index > taken => {
                    *index -= 1;
                    true
                }
                _ => true,
            }
        });
    }

    fn has(&self, way: &[Step<'_>]) -> bool {
        let is_way = |lost: &EntryPath| {
            lost.len() == way.len() && lost.iter().zip(way).all(|(stop, step)| stop.is(step))
        };
        self.0.iter().any(is_way)
    }
}

/// The rules between the keys of a file; it collects the values that break them.
#[derive(Debug)]
pub struct Check<'a> {
    document: &'a Document,
    table: &'a DeTable<'a>,
    problems: Problems,
    lost: Lost,
}

impl Check<'_> {
    /// Adds a problem with the value at the end of `way`; when the file does not have it, with the last value on the way
    /// that it has.
    pub fn problem(&mut self, way: &[Step<'_>], message: impl Into<String>) {
        self.problem_in(self.span(way), message);
    }

    /// Adds a problem with the value that has this place in the text.
    pub fn problem_in(&mut self, span: Range<usize>, message: impl Into<String>) {
        self.problems.push(self.document.problem(span, message));
    }

    /// The place in the text of the value at the end of `way`, or of the last one on the way that the file has.
    #[must_use]
    pub fn span(&self, way: &[Step<'_>]) -> Range<usize> {
        place(self.table, way)
    }

    /// Whether the value at the end of `way`, or an item of that list, was wrong and is left out: its absence is no
    /// problem of its own.
    #[must_use]
    pub fn is_lost(&self, way: &[Step<'_>]) -> bool {
        self.lost.has(way)
    }

    /// The document.
    #[must_use]
    pub const fn document(&self) -> &Document {
        self.document
    }

    /// Adds problems of another file that this one names.
    pub fn extend(&mut self, problems: Problems) {
        self.problems.extend(problems);
    }

    /// The place of the value at the end of `way`, or of the last one on the way that the file has.
    #[must_use]
    pub fn position(&self, way: &[Step<'_>]) -> Position {
        self.document.position(self.span(way).start)
    }

    /// Whether the file has a value at the end of `way`.
    #[must_use]
    pub fn has(&self, way: &[Step<'_>]) -> bool {
        found(self.table, way).is_ok()
    }

    /// How many problems there are so far.
    #[must_use]
    pub const fn n_problems(&self) -> usize {
        self.problems.0.len()
    }
}

/// Takes `version` out of the document: every file that people edit begins with it.
fn take_version(document: &Document, table: &mut DeTable<'_>) -> Result<(), Problem> {
    let Some(version) = table.remove("version") else {
        let words = format!(
            "missing key `version`; a file of this kind begins with version = \"{VERSION}\""
        );
        return Err(document.problem(0..0, words));
    };
    let words = match version.get_ref() {
        DeValue::String(text) if text == VERSION => return Ok(()),
        DeValue::String(text) => {
            format!("unknown version `{text}`, this build reads `{VERSION}`")
        }
        _ => "`version` is a text, as in version = \"v1\"".to_owned(),
    };
    Err(document.problem(version.span(), words))
}

/// Takes out the innermost entry whose key or value covers `span`, or the item of a list, and returns the way to it.
fn remove_entry(table: &mut DeTable<'_>, span: &Range<usize>) -> Option<EntryPath> {
    let covers = |outer: &Range<usize>| outer.start <= span.start && span.end <= outer.end;
    let mut found = None;
    for (key, value) in table.iter_mut() {
        let covered = covers(&key.span()) || covers(&value.span());
        let inner = match value.get_mut() {
            DeValue::Table(inner) => remove_entry(inner, span),
            DeValue::Array(items) => remove_item(items, span),
            _ => None,
        };
        if let Some(mut way) = inner {
            way.insert(0, Stop::Key(key.get_ref().to_string()));
            return Some(way);
        }
        if covered {
            found = Some(key.get_ref().to_string());
        }
    }
    let found = found?;
    let taken = table.remove(found.as_str());
    taken.map(|_| vec![Stop::Key(found)])
}

/// The same within a list: one wrong item leaves the others to be checked.
fn remove_item(items: &mut DeArray<'_>, span: &Range<usize>) -> Option<EntryPath> {
    let mut found = None;
    for (index, item) in items.iter_mut().enumerate() {
        let outer = item.span();
        if let DeValue::Table(inner) = item.get_mut() {
            let entry = remove_entry(inner, span);
            if let Some(mut way) = entry {
                way.insert(0, Stop::Item(index));
                return Some(way);
            }
        }
        if outer.start <= span.start && span.end <= outer.end {
            found = Some(index);
        }
    }
    let found = found?;
    let kept = std::mem::replace(items, DeArray::new())
        .into_iter()
        .enumerate();
    *items = kept
        .filter_map(|(index, item)| (index != found).then_some(item))
        .collect();
    Some(vec![Stop::Item(found)])
}

/// The place of the value at the end of `way`, or of the last one that is there; the start when nothing is.
fn place(table: &DeTable<'_>, way: &[Step<'_>]) -> Range<usize> {
    match found(table, way) {
        Ok(place) | Err(place) => place,
    }
}

/// The place of the value at the end of `way`; as an error, the place of the last value that is there.
fn found(table: &DeTable<'_>, way: &[Step<'_>]) -> Result<Range<usize>, Range<usize>> {
    let [Step::Key(key), rest @ ..] = way else {
        return Err(0..0);
    };
    let mut here = table.get(*key).ok_or(0..0)?;
    for step in rest {
        let next = match (step, here.get_ref()) {
            (Step::Key(key), DeValue::Table(table)) => table.get(*key),
            (Step::Item(index), DeValue::Array(array)) => array.get(*index),
            _ => None,
        };
        here = next.ok_or_else(|| here.span())?;
    }
    Ok(here.span())
}
