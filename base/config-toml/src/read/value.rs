//! A parsed TOML value as serde reads it; each error has the place of the value.

use std::ops::Range;

use serde::de::value::StringDeserializer;
use serde::de::{
    self, DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;
use serde_spanned::de::{SpannedDeserializer, is_spanned};
use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

use super::error::Refusal;

type Entry<'v> = (
    &'v Spanned<std::borrow::Cow<'v, str>>,
    &'v Spanned<DeValue<'v>>,
);

/// A value and its place.
#[derive(Clone, Copy)]
pub(super) struct Value<'v> {
    start: usize,
    end: usize,
    content: Content<'v>,
}

#[derive(Clone, Copy)]
enum Content<'v> {
    Table(&'v DeTable<'v>),
    Other(&'v DeValue<'v>),
}

impl<'v> Value<'v> {
    pub(super) fn root(span: Range<usize>, table: &'v DeTable<'v>) -> Self {
        Self {
            start: span.start,
            end: span.end,
            content: Content::Table(table),
        }
    }

    fn of(value: &'v Spanned<DeValue<'v>>) -> Self {
        let span = value.span();
        let content = match value.get_ref() {
            DeValue::Table(table) => Content::Table(table),
            other => Content::Other(other),
        };
        Self {
            start: span.start,
            end: span.end,
            content,
        }
    }

    const fn span(&self) -> Range<usize> {
        self.start..self.end
    }

    fn visit<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        match self.content {
            Content::Table(table) => visitor.visit_map(Map::new(table)),
            Content::Other(DeValue::String(text)) => visitor.visit_str(text),
            Content::Other(DeValue::Integer(number)) => visit_integer(number, self.span(), visitor),
            Content::Other(DeValue::Float(number)) => {
                let parsed: Result<f64, _> = number.as_str().parse();
                let parsed = parsed
                    .map_err(|_| Refusal::other(format!("`{number}` is no number"), self.span()))?;
                visitor.visit_f64(parsed)
            }
            Content::Other(DeValue::Boolean(value)) => visitor.visit_bool(*value),
            Content::Other(DeValue::Datetime(time)) => Err(Refusal::other(
                format!("`{time}` is a time of day or a date; no key takes one"),
                self.span(),
            )),
            Content::Other(DeValue::Array(items)) => visitor.visit_seq(Items(items.iter())),
            // `of` made it the other variant.
            Content::Other(DeValue::Table(table)) => visitor.visit_map(Map::new(table)),
        }
    }
}

fn visit_integer<'de, V: Visitor<'de>>(
    number: &DeInteger<'_>,
    span: Range<usize>,
    visitor: V,
) -> Result<V::Value, Refusal> {
    if let Ok(small) = i64::from_str_radix(number.as_str(), number.radix()) {
        return visitor.visit_i64(small);
    }
    match u64::from_str_radix(number.as_str(), number.radix()) {
        Ok(large) => visitor.visit_u64(large),
        Err(_) => Err(Refusal::other(format!("`{number}` is too large"), span)),
    }
}

impl<'de> Deserializer<'de> for Value<'_> {
    type Error = Refusal;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        let span = self.span();
        self.visit(visitor).map_err(|error| error.within(&span))
    }

    // A key that is there has a value.
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refusal> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Refusal> {
        let span = self.span();
        let read = visitor.visit_newtype_struct(self);
        read.map_err(|error| error.within(&span))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refusal> {
        if is_spanned(name) {
            let span = self.span();
            return visitor.visit_map(SpannedDeserializer::new(self, span));
        }
        self.deserialize_any(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refusal> {
        let span = self.span();
        let read = match self.content {
            Content::Other(DeValue::String(text)) => visitor.visit_enum(
                IntoDeserializer::<Refusal>::into_deserializer(text.as_ref()),
            ),
            Content::Table(table) if table.len() == 1 => match table.iter().next() {
                Some(entry) => visitor.visit_enum(Variant(entry)),
                None => Err(Refusal::other("a word is needed", span.clone())),
            },
            _ => Err(Refusal::other("a word is needed", span.clone())),
        };
        read.map_err(|error| error.within(&span))
    }

    forward_to_deserialize_any! {
        bool u8 u16 u32 u64 u128 i8 i16 i32 i64 i128 f32 f64 char str string seq bytes byte_buf map unit
        ignored_any unit_struct tuple_struct tuple identifier
    }
}

impl IntoDeserializer<'_, Refusal> for Value<'_> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

/// Reads a value; an error of the value's own type gets its place too.
fn read<'de, S: DeserializeSeed<'de>>(
    seed: S,
    value: &Spanned<DeValue<'_>>,
) -> Result<S::Value, Refusal> {
    let read = seed.deserialize(Value::of(value));
    read.map_err(|error| error.within(&value.span()))
}

//--- Lists, tables and variants

struct Items<'v>(std::slice::Iter<'v, Spanned<DeValue<'v>>>);

impl<'de> SeqAccess<'de> for Items<'_> {
    type Error = Refusal;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Refusal> {
        let next = self.0.next();
        next.map(|item| read(seed, item)).transpose()
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.0.len())
    }
}

/// The entries of a table in the order of the file.
struct Map<'v> {
    entries: std::vec::IntoIter<Entry<'v>>,
    value: Option<&'v Spanned<DeValue<'v>>>,
}

impl<'v> Map<'v> {
    fn new(table: &'v DeTable<'v>) -> Self {
        let mut entries: Vec<Entry<'v>> = table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        Self {
            entries: entries.into_iter(),
            value: None,
        }
    }
}

impl<'de> MapAccess<'de> for Map<'_> {
    type Error = Refusal;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Refusal> {
        let Some((key, value)) = self.entries.next() else {
            return Ok(None);
        };
        self.value = Some(value);
        let read = seed.deserialize(StringDeserializer::<Refusal>::new(
            key.get_ref().to_string(),
        ));
        read.map(Some).map_err(|error| error.within(&key.span()))
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Refusal> {
        match self.value.take() {
            Some(value) => read(seed, value),
            None => Err(de::Error::custom("a value was asked for before its key")),
        }
    }
}

struct Variant<'v>(Entry<'v>);

impl<'de> EnumAccess<'de> for Variant<'_> {
    type Error = Refusal;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self), Refusal> {
        let (key, _) = self.0;
        let name = StringDeserializer::<Refusal>::new(key.get_ref().to_string());
        let read = seed.deserialize(name);
        Ok((read.map_err(|error| error.within(&key.span()))?, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'_> {
    type Error = Refusal;

    fn unit_variant(self) -> Result<(), Refusal> {
        let (_, value) = self.0;
        Err(Refusal::other("this word takes no value", value.span()))
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Refusal> {
        read(seed, self.0.1)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Refusal> {
        Value::of(self.0.1).deserialize_any(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refusal> {
        Value::of(self.0.1).deserialize_any(visitor)
    }
}
