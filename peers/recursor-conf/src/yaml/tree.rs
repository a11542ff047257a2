//! YAML as a tree with places.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use config_text::{Position, Problem};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Location, Spanned};

/// The most values in one file: ten thousand zones with an address each.
const MAX_VALUES: usize = 100_000;

/// The most tables and lists that lie in each other.
const MAX_DEPTH: usize = 16;

/// A value and its place.
#[derive(Clone, Debug)]
pub(crate) struct Yaml {
    pub(crate) content: Content,
    pub(crate) position: Position,
}

#[derive(Clone, Debug)]
pub(crate) enum Content {
    Nothing,
    /// Any scalar.
    Text(String),
    List(Vec<Yaml>),
    Table(Vec<Entry>),
}

/// A key of a table with its value.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) position: Position,
    pub(crate) value: Yaml,
}

/// Reads a file.
///
/// # Errors
/// Its first mistake.
pub(crate) fn parse(path: &Path, text: &[u8]) -> Result<Yaml, Problem> {
    let path: Arc<Path> = path.into();
    let text = String::from_utf8_lossy(text);
    let options = serde_saphyr::options! {
        with_snippet: false,
        budget: serde_saphyr::budget! { max_nodes: MAX_VALUES, max_depth: MAX_DEPTH },
    };
    let read: Result<Spanned<Raw>, _> = serde_saphyr::from_str_with_options(&text, options);
    let raw = read.map_err(|error| {
        let said = error.to_string();
        // The place stands before the words, as everywhere.
        let words = said.split(" at line ").next().unwrap_or(&said).to_owned();
        match error.location() {
            Some(location) => Problem::at(place(&path, &location), words),
            None => Problem::new(format!("{}: {words}", path.display())),
        }
    })?;
    Ok(located(&path, raw))
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

enum Raw {
    Nothing,
    Text(String),
    List(Vec<Spanned<Self>>),
    Table(Vec<(Spanned<String>, Spanned<Self>)>),
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = Raw;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value, a list or a table")
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

    fn visit_f64<E>(self, value: f64) -> Result<Raw, E> {
        Ok(Raw::Text(value.to_string()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Raw, E> {
        Ok(Raw::Text(value.to_owned()))
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

    fn visit_i128<E>(self, value: i128) -> Result<Raw, E> {
        Ok(Raw::Text(value.to_string()))
    }

    fn visit_u128<E>(self, value: u128) -> Result<Raw, E> {
        Ok(Raw::Text(value.to_string()))
    }

    fn visit_bytes<E>(self, value: &[u8]) -> Result<Raw, E> {
        Ok(Raw::Text(String::from_utf8_lossy(value).into_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Raw, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Raw::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut table: A) -> Result<Raw, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = table.next_entry()? {
            entries.push(entry);
        }
        Ok(Raw::Table(entries))
    }
}
