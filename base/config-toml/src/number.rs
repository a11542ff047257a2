//! Numbers, durations and sizes with a range; the range is in the type, in the schema and in the error.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::{ByteSize, HumanDuration};

/// A whole number from `MIN` to `MAX`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Whole<T, const MIN: i64, const MAX: i64 = { i64::MAX }>(T);

/// A number that is at least 1.
pub type Positive<T> = Whole<T, 1>;

impl<T: Copy, const MIN: i64, const MAX: i64> Whole<T, MIN, MAX> {
    /// The number.
    #[must_use]
    pub const fn get(self) -> T {
        self.0
    }

    /// The number as it is: only to write it.
    pub(crate) const fn unchecked(number: T) -> Self {
        Self(number)
    }
}

impl<T: TryFrom<i64>, const MIN: i64, const MAX: i64> Whole<T, MIN, MAX> {
    /// The number, when it is within the range.
    #[must_use]
    pub fn new(number: i64) -> Option<Self> {
        let within = (MIN..=MAX).contains(&number);
        within.then(|| T::try_from(number).ok().map(Self)).flatten()
    }

    /// The number, or the end of the range that is next to it.
    ///
    /// # Panics
    /// When the range does not fit into `T`: a mistake in the type itself.
    #[must_use]
    pub fn clamped(number: i64) -> Self {
        match Self::new(number.clamp(MIN, MAX)) {
            Some(within) => within,
            None => panic!("the type does not hold {MIN} to {MAX}"),
        }
    }
}

impl<T, const MIN: i64, const MAX: i64> Deref for Whole<T, MIN, MAX> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: fmt::Display, const MIN: i64, const MAX: i64> fmt::Display for Whole<T, MIN, MAX> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl<T: Serialize, const MIN: i64, const MAX: i64> Serialize for Whole<T, MIN, MAX> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de, T: TryFrom<i64>, const MIN: i64, const MAX: i64> Deserialize<'de> for Whole<T, MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = deserializer.deserialize_i64(WholeNumber)?;
        Self::new(number).ok_or_else(|| out_of_range(number, MIN, (MAX < i64::MAX).then_some(MAX)))
    }
}

impl<T, const MIN: i64, const MAX: i64> JsonSchema for Whole<T, MIN, MAX> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Whole{MIN}To{MAX}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        match MAX {
            i64::MAX => json_schema!({ "type": "integer", "minimum": MIN }),
            _ => json_schema!({ "type": "integer", "minimum": MIN, "maximum": MAX }),
        }
    }
}

/// The error of a value beyond its range; the reader of a document adds the key.
pub(crate) fn out_of_range<E: de::Error>(
    value: impl fmt::Display,
    least: impl fmt::Display,
    most: Option<impl fmt::Display>,
) -> E {
    let range = match most {
        Some(most) => format!("from {least} to {most}"),
        None => format!("at least {least}"),
    };
    E::invalid_value(de::Unexpected::Other(&value.to_string()), &range.as_str())
}

/// Reads a whole number of any size.
#[derive(Clone, Copy, Debug)]
pub struct WholeNumber;

impl de::Visitor<'_> for WholeNumber {
    type Value = i64;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a whole number")
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<i64, E> {
        Ok(number)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<i64, E> {
        i64::try_from(number).map_err(|_| E::custom(format_args!("{number} is too large")))
    }
}

/// A duration from `MIN` to `MAX` milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DurationWithin<const MIN: u64, const MAX: u64 = { u64::MAX }>(Duration);

impl<const MIN: u64, const MAX: u64> DurationWithin<MIN, MAX> {
    /// The duration.
    #[must_use]
    pub const fn get(self) -> Duration {
        self.0
    }

    /// The duration, when it is within the range.
    #[must_use]
    pub fn new(duration: Duration) -> Option<Self> {
        let range = Duration::from_millis(MIN)..=Duration::from_millis(MAX);
        range.contains(&duration).then_some(Self(duration))
    }

    /// The duration, or the end of the range that is next to it.
    #[must_use]
    pub fn clamped(duration: Duration) -> Self {
        Self(duration.clamp(Duration::from_millis(MIN), Duration::from_millis(MAX)))
    }
}

impl<const MIN: u64, const MAX: u64> Deref for DurationWithin<MIN, MAX> {
    type Target = Duration;

    fn deref(&self) -> &Duration {
        &self.0
    }
}

impl<const MIN: u64, const MAX: u64> fmt::Display for DurationWithin<MIN, MAX> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        HumanDuration(self.0).fmt(formatter)
    }
}

impl<const MIN: u64, const MAX: u64> Serialize for DurationWithin<MIN, MAX> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        HumanDuration(self.0).serialize(serializer)
    }
}

impl<'de, const MIN: u64, const MAX: u64> Deserialize<'de> for DurationWithin<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = HumanDuration::deserialize(deserializer)?;
        let end = |milliseconds| HumanDuration(Duration::from_millis(milliseconds));
        Self::new(written.0)
            .ok_or_else(|| out_of_range(written, end(MIN), (MAX < u64::MAX).then(|| end(MAX))))
    }
}

impl<const MIN: u64, const MAX: u64> JsonSchema for DurationWithin<MIN, MAX> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Duration{MIN}To{MAX}").into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let end = |milliseconds| HumanDuration(Duration::from_millis(milliseconds)).to_string();
        let mut schema = HumanDuration::json_schema(generator);
        schema.insert("x-minimum".to_owned(), end(MIN).into());
        if MAX != u64::MAX {
            schema.insert("x-maximum".to_owned(), end(MAX).into());
        }
        schema
    }
}

/// A size from `MIN` to `MAX` bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SizeWithin<const MIN: u64, const MAX: u64 = { u64::MAX }>(u64);

impl<const MIN: u64, const MAX: u64> SizeWithin<MIN, MAX> {
    /// The size in bytes.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The size, when it is within the range.
    #[must_use]
    pub fn new(bytes: u64) -> Option<Self> {
        (MIN..=MAX).contains(&bytes).then_some(Self(bytes))
    }

    /// The size, or the end of the range that is next to it.
    #[must_use]
    pub fn clamped(bytes: u64) -> Self {
        Self(bytes.clamp(MIN, MAX))
    }
}

impl<const MIN: u64, const MAX: u64> fmt::Display for SizeWithin<MIN, MAX> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        ByteSize(self.0).fmt(formatter)
    }
}

impl<const MIN: u64, const MAX: u64> Serialize for SizeWithin<MIN, MAX> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        ByteSize(self.0).serialize(serializer)
    }
}

impl<'de, const MIN: u64, const MAX: u64> Deserialize<'de> for SizeWithin<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = ByteSize::deserialize(deserializer)?;
        let most = (MAX < u64::MAX).then_some(ByteSize(MAX));
        Self::new(written.0).ok_or_else(|| out_of_range(written, ByteSize(MIN), most))
    }
}

impl<const MIN: u64, const MAX: u64> JsonSchema for SizeWithin<MIN, MAX> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Size{MIN}To{MAX}").into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = ByteSize::json_schema(generator);
        schema.insert("x-minimum".to_owned(), ByteSize(MIN).to_string().into());
        if MAX != u64::MAX {
            schema.insert("x-maximum".to_owned(), ByteSize(MAX).to_string().into());
        }
        schema
    }
}
