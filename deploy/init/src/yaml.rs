//! YAML as a tree with places, whose tables give up their keys one by one: the rest was not understood.
//!
//! Keys are compared as OpenShift's installer compares them, which reads YAML through Go's JSON decoder: without case, and
//! the last of several wins.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use config_text::{Position, Problem};
use daemon::config::Document;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Location, Spanned};

/// Values in one file: ten times those of a cluster of a hundred machines. Lists of them are compared with themselves.
const MAX_VALUES: usize = 20_000;

/// How deep values may lie in each other.
const MAX_DEPTH: usize = 32;

/// A value and its place.
#[derive(Debug, Clone)]
pub(crate) struct Yaml {
    pub(crate) content: Content,
    pub(crate) position: Position,
}

#[derive(Debug, Clone)]
pub(crate) enum Content {
    Nothing,
    /// Any scalar.
    Text(String),
    List(Vec<Yaml>),
    Table(Vec<Entry>),
}

/// A key of a table with its value.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    name: String,
    position: Position,
    value: Yaml,
}

/// Reads a document.
///
/// # Errors
///
/// Its first mistake.
pub(crate) fn parse(document: &Document) -> Result<Yaml, Problem> {
    let options = serde_saphyr::options! {
        with_snippet: false,
        budget: serde_saphyr::budget! { max_nodes: MAX_VALUES, max_depth: MAX_DEPTH },
    };
    let read: Result<Spanned<Raw>, _> =
        serde_saphyr::from_str_with_options(&document.text, options);
    let raw = read.map_err(|error| {
        let text = error.to_string();
        // The place stands before the words, as everywhere.
        let words = text.split(" at line ").next().unwrap_or(&text).to_owned();
        match error.location() {
            Some(location) => Problem::at(place(&document.path, &location), words),
            None => Problem::new(format!("{}: {words}", document.path.display())),
        }
    })?;
    Ok(located(&document.path, raw))
}

fn place(path: &Arc<Path>, location: &Location) -> Position {
    let number = |n: u64| usize::try_from(n).unwrap_or(usize::MAX).max(1);
    Position {
        file: Arc::clone(path),
        line: number(location.line()),
        column: number(location.column()),
    }
}

fn located(path: &Arc<Path>, raw: Spanned<Raw>) -> Yaml {
    let content = match raw.value {
        Raw::Nothing => Content::Nothing,
        Raw::Text(text) => Content::Text(text),
        Raw::List(items) => {
            Content::List(items.into_iter().map(|item| located(path, item)).collect())
        }
        Raw::Table(entries) => {
            let entry = |(name, value): (Spanned<String>, Spanned<Raw>)| Entry {
                position: place(path, &name.referenced),
                name: name.value,
                value: located(path, value),
            };
            Content::Table(entries.into_iter().map(entry).collect())
        }
    };
    Yaml {
        content,
        position: place(path, &raw.referenced),
    }
}

impl Yaml {
    /// Gives a value and everything in it one place: that of the text from which it was read.
    pub(crate) fn moved_to(self, position: &Position) -> Self {
        let content = match self.content {
            Content::List(items) => Content::List(
                items
                    .into_iter()
                    .map(|item| item.moved_to(position))
                    .collect(),
            ),
            Content::Table(entries) => {
                let moved = |entry: Entry| Entry {
                    name: entry.name,
                    position: position.clone(),
                    value: entry.value.moved_to(position),
                };
                Content::Table(entries.into_iter().map(moved).collect())
            }
            other => other,
        };
        Self {
            content,
            position: position.clone(),
        }
    }
}

//--- Table

/// A table, and the way to it.
#[derive(Debug)]
pub(crate) struct Table {
    way: String,
    entries: Vec<Entry>,
}

impl Table {
    pub(crate) fn new(way: &str, entries: Vec<Entry>) -> Self {
        Self {
            way: way.to_owned(),
            entries,
        }
    }

    /// The way to a key.
    pub(crate) fn way(&self, key: &str) -> String {
        match self.way.as_str() {
            "" => key.to_owned(),
            way => format!("{way}.{key}"),
        }
    }

    /// Takes out the value of a key.
    pub(crate) fn take(&mut self, key: &str) -> Option<Yaml> {
        let is_key = |entry: &mut Entry| entry.name.eq_ignore_ascii_case(key);
        let taken = self.entries.extract_if(.., is_key).last();
        taken.map(|entry| entry.value)
    }

    /// Takes out keys that say nothing about the site.
    pub(crate) fn skip(&mut self, keys: &[&str]) {
        for key in keys {
            self.take(key);
        }
    }

    /// The keys that were not taken out: the way to each, and its place. Keys without a value say nothing.
    pub(crate) fn rest(self) -> impl Iterator<Item = (String, Position)> {
        let ways: Vec<(String, Position)> = self
            .entries
            .iter()
            .filter(|entry| entry.value.has_content())
            .map(|entry| (self.way(&entry.name), entry.position.clone()))
            .collect();
        ways.into_iter()
    }
}

impl Yaml {
    fn has_content(&self) -> bool {
        match &self.content {
            Content::Nothing => false,
            Content::Text(text) => !text.is_empty(),
            Content::List(items) => !items.is_empty(),
            Content::Table(entries) => !entries.is_empty(),
        }
    }
}

#[cfg(test)]
impl Yaml {
    /// Every single value in it with the way to it; those of lists have the way of their list.
    pub(crate) fn values(&self) -> Vec<(String, String)> {
        let mut found = Vec::new();
        self.collect(&Table::new("", Vec::new()), "", &mut found);
        found
    }

    fn collect(&self, above: &Table, key: &str, found: &mut Vec<(String, String)>) {
        match &self.content {
            Content::Nothing => {}
            Content::Text(text) if text.is_empty() => {}
            Content::Text(text) => found.push((above.way(key), text.clone())),
            Content::List(items) => {
                for item in items {
                    item.collect(above, key, found);
                }
            }
            Content::Table(entries) => {
                let way = match key {
                    "" => String::new(),
                    key => above.way(key),
                };
                let table = Table::new(&way, Vec::new());
                for entry in entries {
                    entry.value.collect(&table, &entry.name, found);
                }
            }
        }
    }
}

//--- Reading

/// A value as serde hands it over.
enum Raw {
    Nothing,
    Text(String),
    List(Vec<Spanned<Self>>),
    Table(Vec<(Spanned<String>, Spanned<Self>)>),
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Raw;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Raw, E> {
        Ok(Raw::Nothing)
    }

    fn visit_none<E>(self) -> Result<Raw, E> {
        Ok(Raw::Nothing)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Raw, D::Error> {
        Raw::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Raw, E> {
        Ok(Raw::Text(value.to_string()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Raw, E> {
        Ok(Raw::Text(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Raw, E> {
        Ok(Raw::Text(value.to_string()))
    }

    fn visit_i128<E>(self, value: i128) -> Result<Raw, E> {
        Ok(Raw::Text(value.to_string()))
    }

    fn visit_u128<E>(self, value: u128) -> Result<Raw, E> {
        Ok(Raw::Text(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Raw, E> {
        Ok(Raw::Text(value.to_string()))
    }

    fn visit_str<E>(self, text: &str) -> Result<Raw, E> {
        Ok(Raw::Text(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Raw, E> {
        Ok(Raw::Text(text))
    }

    fn visit_bytes<E>(self, octets: &[u8]) -> Result<Raw, E> {
        Ok(Raw::Text(String::from_utf8_lossy(octets).into_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Raw, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Raw::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Raw, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Raw::Table(entries))
    }
}
