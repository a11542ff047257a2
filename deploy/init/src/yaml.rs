//! Tables of YAML that give up their keys one by one: the rest was not understood.
//!
//! Keys are compared as OpenShift's installer compares them, which reads YAML through Go's JSON decoder: without case, and
//! the last of several wins.

use config_text::{Position, Problem};
use daemon::config::Document;
use yaml_tree::{Bounds, Entry};
pub(crate) use yaml_tree::{Content, Yaml};

/// Values in one file: ten times those of a cluster of a hundred machines. Lists of them are compared with themselves.
const BOUNDS: Bounds = Bounds {
    max_values: 20_000,
    max_depth: 32,
};

/// Reads a document.
///
/// # Errors
///
/// Its first mistake.
pub(crate) fn parse(document: &Document) -> Result<Yaml, Problem> {
    yaml_tree::parse(&document.path, &document.text, BOUNDS)
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
            .filter(|entry| has_content(&entry.value))
            .map(|entry| (self.way(&entry.name), entry.position.clone()))
            .collect();
        ways.into_iter()
    }
}

fn has_content(value: &Yaml) -> bool {
    match &value.content {
        Content::Nothing => false,
        Content::Text(text) => !text.is_empty(),
        Content::List(items) => !items.is_empty(),
        Content::Table(entries) => !entries.is_empty(),
    }
}

/// Every single value in it with the way to it; those of lists have the way of their list.
#[cfg(test)]
pub(crate) fn values(value: &Yaml) -> Vec<(String, String)> {
    let mut found = Vec::new();
    collect(value, &Table::new("", Vec::new()), "", &mut found);
    found
}

#[cfg(test)]
fn collect(value: &Yaml, above: &Table, key: &str, found: &mut Vec<(String, String)>) {
    match &value.content {
        Content::Nothing => {}
        Content::Text(text) if text.is_empty() => {}
        Content::Text(text) => found.push((above.way(key), text.clone())),
        Content::List(items) => {
            for item in items {
                collect(item, above, key, found);
            }
        }
        Content::Table(entries) => {
            let way = match key {
                "" => String::new(),
                key => above.way(key),
            };
            let table = Table::new(&way, Vec::new());
            for entry in entries {
                collect(&entry.value, &table, &entry.name, found);
            }
        }
    }
}
