//! YAML that people write, as a tree with places. Scalars are text: a reader decides which of them are numbers.

#![warn(missing_docs)]

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use config_text::{Position, Problem};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Location, Spanned};

/// The bounds of one file.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The most values.
    pub max_values: usize,
    /// The most tables and lists that lie in each other.
    pub max_depth: usize,
}

/// A value and its place.
#[derive(Clone, Debug)]
pub struct Yaml {
    /// The value.
    pub content: Content,
    /// Its place.
    pub position: Position,
}

/// A value.
#[derive(Clone, Debug)]
pub enum Content {
    /// No value, or `null`.
    Nothing,
    /// Any scalar.
    Text(String),
    /// A list.
    List(Vec<Yaml>),
    /// A table, in the order of the file.
    Table(Vec<Entry>),
}

/// A key of a table with its value.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The key.
    pub name: String,
    /// Its place.
    pub position: Position,
    /// The value.
    pub value: Yaml,
}

/// Reads the text of a file.
///
/// # Errors
///
/// Its first mistake.
pub fn parse(path: &Arc<Path>, text: &str, bounds: Bounds) -> Result<Yaml, Problem> {
    let options = serde_saphyr::options! {
        with_snippet: false,
        budget: serde_saphyr::budget! { max_nodes: bounds.max_values, max_depth: bounds.max_depth },
    };
    let read: Result<Spanned<Raw>, _> = serde_saphyr::from_str_with_options(text, options);
    let raw = read.map_err(|error| {
        let said = error.to_string();
        // The place stands before the words, as everywhere.
        let words = said.split(" at line ").next().unwrap_or(&said).to_owned();
        match error.location() {
            Some(location) => Problem::at(place(path, &location), words),
            None => Problem::new(format!("{}: {words}", path.display())),
        }
    })?;
    Ok(located(path, raw))
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
    #[must_use]
    pub fn moved_to(self, position: &Position) -> Self {
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
        formatter.write_str("a value, a list or a table")
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

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds {
        max_values: 20,
        max_depth: 4,
    };

    fn read(text: &str) -> Result<Yaml, Problem> {
        parse(&Path::new("f.yml").into(), text, BOUNDS)
    }

    fn shown(value: &Yaml) -> String {
        let Position { line, column, .. } = value.position;
        let content = match &value.content {
            Content::Nothing => "-".to_owned(),
            Content::Text(text) => text.clone(),
            Content::List(items) => items.iter().map(shown).collect::<Vec<_>>().join(" "),
            Content::Table(entries) => {
                let entry = |entry: &Entry| format!("{}={}", entry.name, shown(&entry.value));
                entries.iter().map(entry).collect::<Vec<_>>().join(" ")
            }
        };
        format!("{line}:{column}({content})")
    }

    #[test]
    fn every_value_has_its_place_and_scalars_are_text() {
        for (text, expected) in [
            ("", "1:1(-)"),
            (
                "a: true\nb:\n- 1\n- 'x y'\n- {c: }\n",
                "1:1(a=1:4(true) b=3:3(3:3(1) 4:3(x y) 5:3(c=5:5(-))))",
            ),
        ] {
            assert_eq!(shown(&read(text).unwrap()), expected, "{text:?}");
        }
    }

    #[test]
    fn mistakes_have_their_place_and_files_are_bounded() {
        let problem = read("a: 1\nb: [1,\n").unwrap_err();
        assert!(problem.position.is_some(), "{problem}");
        assert!(read("[[[[[1]]]]]").is_err(), "deep");
        assert!(read(&"- 1\n".repeat(30)).is_err(), "long");
    }
}
