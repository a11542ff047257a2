//! From the text of a document to a spec, with the place of everything that is wrong.
//!
//! Serde stops at the first error. To find the next ones, the entry that holds the error is taken
//! out and the rest is parsed again, until nothing is wrong or an error may only be a consequence of
//! what was taken out.

use std::fmt;
use std::ops::Range;

use serde::Deserializer;
use serde::de::{self, DeserializeOwned, DeserializeSeed, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;
use toml::Spanned;
use toml::de::{DeTable, DeValue, Error};

use super::{Document, Problem, Problems, nearest};

/// More problems than this are of no use to a reader.
const MAX_PROBLEMS: usize = 32;

/// The version that a spec without versions of its own is.
const ONLY_VERSION: &str = "v1";

type Table<'a> = Spanned<DeTable<'a>>;

pub(super) fn parse<S: DeserializeOwned>(document: &Document) -> Result<S, Problems> {
    let (mut table, errors) = DeTable::parse_recoverable(&document.text);
    if !errors.is_empty() {
        return Err(errors
            .iter()
            .take(MAX_PROBLEMS)
            .map(|error| describe(document, error))
            .collect());
    }
    let version = take_version(document, &mut table)?;
    let mut problems = Problems::default();
    let mut removed = Vec::new();
    loop {
        let root = Root {
            version: version.clone(),
            table: table.clone(),
        };
        let error = match S::deserialize(root) {
            Ok(spec) => return problems.unless_empty(spec),
            Err(error) => error,
        };
        if !is_consequence(&error, &removed) {
            problems.push(describe(document, &error));
        }
        if let Some((_, Some(meant))) = unknown(error.message()) {
            removed.push(meant.to_owned());
        }
        let entry = error
            .span()
            .and_then(|span| remove_entry(table.get_mut(), &span));
        match entry {
            Some(key) if problems.0.len() < MAX_PROBLEMS => removed.push(key),
            _ => return Err(problems),
        }
    }
}

/// True when what is missing is what was taken out, or was there under a misspelt name.
fn is_consequence(error: &Error, removed: &[String]) -> bool {
    let missing = error.message().strip_prefix("missing field ");
    missing.is_some_and(|name| removed.iter().any(|key| name.trim() == format!("`{key}`")))
}

/// Takes `version` out of the document: every file people edit says which one it is.
fn take_version(document: &Document, table: &mut Table<'_>) -> Result<Spanned<String>, Problem> {
    let place = table
        .get_ref()
        .get_key_value("version")
        .map(|(key, value)| (key.span(), value.span()));
    let Some((_, value_span)) = place else {
        return Err(document.problem(
            0..0,
            format!("missing key `version`; a file of this kind begins with version = \"{ONLY_VERSION}\""),
        ));
    };
    match table.get_mut().remove("version").map(Spanned::into_inner) {
        Some(DeValue::String(text)) => Ok(Spanned::new(value_span, text.into_owned())),
        _ => Err(document.problem(value_span, "`version` is a text, as in version = \"v1\"")),
    }
}

/// Takes out the innermost entry whose key or value covers `span`, and returns its key.
fn remove_entry(table: &mut DeTable<'_>, span: &Range<usize>) -> Option<String> {
    let covers = |outer: &Range<usize>| outer.start <= span.start && span.end <= outer.end;
    let mut found = None;
    for (key, value) in table.iter_mut() {
        let covered = covers(&key.span()) || covers(&value.span());
        let inner = match value.get_mut() {
            DeValue::Table(inner) => remove_entry(inner, span),
            DeValue::Array(array) => array.iter_mut().find_map(|item| match item.get_mut() {
                DeValue::Table(inner) => remove_entry(inner, span),
                _ => None,
            }),
            _ => None,
        };
        if inner.is_some() {
            return inner;
        }
        if covered {
            found = Some(key.get_ref().to_string());
        }
    }
    let found = found?;
    table.remove(found.as_str()).map(|_| found)
}

//--- Words

fn describe(document: &Document, error: &Error) -> Problem {
    let message = reword(error.message());
    match error.span() {
        Some(span) => document.problem(span, message),
        None => document.problem(0..0, message),
    }
}

/// Says in our words what serde says of keys and variants.
fn reword(message: &str) -> String {
    let message = message.trim_end();
    if let Some((words, meant)) = unknown(message) {
        return match meant {
            Some(meant) => format!("{words}, did you mean `{meant}`?"),
            None => words,
        };
    }
    if let Some(rest) = message.strip_prefix("missing field ") {
        return format!("missing key {rest}");
    }
    if let Some(rest) = message.strip_prefix("duplicate field ") {
        return format!("key {rest} is given twice");
    }
    message.to_owned()
}

/// Finds the unknown word, and the word that was meant, in serde's "unknown field `word`, expected one of `a`,
/// `b`" or "…, there are no fields".
fn unknown(message: &str) -> Option<(String, Option<&str>)> {
    let (kind, rest) = None
        .or_else(|| Some(("key", message.strip_prefix("unknown field ")?)))
        .or_else(|| Some(("value", message.strip_prefix("unknown variant ")?)))?;
    let mut quoted = rest.split('`').skip(1).step_by(2);
    let word = quoted.next().unwrap_or_default();
    let known: Vec<&str> = quoted.collect();
    let head = format!("unknown {kind} `{word}`");
    if let Some(meant) = nearest(word, known.iter().copied()) {
        return Some((head, Some(meant)));
    }
    let words = if known.is_empty() {
        format!("{head}, none is known here")
    } else {
        format!("{head}, known here: `{}`", known.join("`, `"))
    };
    Some((words, None))
}

//--- The version as serde sees it

/// The document with its version taken out, as a struct or as an enum of versions.
struct Root<'a> {
    version: Spanned<String>,
    table: Table<'a>,
}

impl Root<'_> {
    fn check_only_version(&self) -> Result<(), Error> {
        if self.version.get_ref() == ONLY_VERSION {
            return Ok(());
        }
        Err(self.unknown_version(&[ONLY_VERSION]))
    }

    fn unknown_version(&self, known: &[&str]) -> Error {
        let version = self.version.get_ref();
        let known = known.join("`, `");
        at(
            &self.version,
            format!("unknown version `{version}`, this build reads `{known}`"),
        )
    }
}

/// An error at a value's place: only toml's own deserializers can set a span.
fn at(value: &Spanned<String>, message: String) -> Error {
    let entry = Spanned::new(value.span(), DeValue::Boolean(true));
    let deserializer = toml::de::ValueDeserializer::from(entry);
    match deserializer.deserialize_any(Refuse(message)) {
        Ok(never) => match never {},
        Err(error) => error,
    }
}

/// Refuses whatever it visits.
struct Refuse(String);

/// A value there is none of.
enum Never {}

impl Visitor<'_> for Refuse {
    type Value = Never;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }

    fn visit_bool<E: de::Error>(self, _: bool) -> Result<Never, E> {
        Err(E::custom(self.0))
    }
}

impl<'de> Deserializer<'de> for Root<'de> {
    type Error = Error;

    /// Gives the version back to an enum that has it in a field (`#[serde(tag = "version")]`).
    fn deserialize_any<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        let span = self.version.span();
        let text = DeValue::String(self.version.into_inner().into());
        let key = Spanned::new(span.clone(), "version".into());
        self.table.get_mut().insert(key, Spanned::new(span, text));
        toml::Deserializer::from(self.table).deserialize_any(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.check_only_version()?;
        if fields.contains(&"version") {
            return self.deserialize_any(visitor);
        }
        toml::Deserializer::from(self.table).deserialize_struct(name, fields, visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.check_only_version()?;
        toml::Deserializer::from(self.table).deserialize_map(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        if !variants.contains(&self.version.get_ref().as_str()) {
            return Err(self.unknown_version(variants));
        }
        visitor.visit_enum(self)
    }

    forward_to_deserialize_any! {
        bool u8 u16 u32 u64 u128 i8 i16 i32 i64 i128 f32 f64 char str string seq option
        bytes byte_buf unit ignored_any unit_struct tuple_struct tuple identifier
    }
}

impl<'de> de::EnumAccess<'de> for Root<'de> {
    type Error = Error;
    type Variant = Body<'de>;

    fn variant_seed<S: DeserializeSeed<'de>>(
        self,
        seed: S,
    ) -> Result<(S::Value, Body<'de>), Error> {
        let name: de::value::StringDeserializer<Error> =
            self.version.into_inner().into_deserializer();
        Ok((seed.deserialize(name)?, Body(self.table)))
    }
}

/// The content of the version's variant.
struct Body<'a>(Table<'a>);

impl<'de> de::VariantAccess<'de> for Body<'de> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        Ok(())
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Error> {
        seed.deserialize(toml::Deserializer::from(self.0))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        toml::Deserializer::from(self.0).deserialize_any(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        toml::Deserializer::from(self.0).deserialize_struct("version", fields, visitor)
    }
}
