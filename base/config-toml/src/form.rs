//! Fields of plain numbers whose range is in the type of their form in the file.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::net::IpAddr;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::number::out_of_range;
use crate::{HumanDuration, Ip, Whole};

/// The form of a field in the file: `#[serde(with = "As::<Whole<i8, -7, 24>>")]` on a field of type `i8`.
///
/// A core that computes with a number takes it as it is; the file, the schema and the manual have its range.
#[derive(Debug)]
pub struct As<F>(PhantomData<F>);

/// A form of `T` in the file.
pub trait Form<T>: Sized {
    /// The value that is written this way.
    fn value(self) -> T;

    /// The form of a value.
    fn of(value: &T) -> Self;
}

impl<F> As<F> {
    /// Writes a value in its form.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<T, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error>
    where
        F: Form<T> + Serialize,
    {
        F::of(value).serialize(serializer)
    }

    /// Reads a value from its form.
    ///
    /// # Errors
    /// When the value is not of the form.
    pub fn deserialize<'de, T, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error>
    where
        F: Form<T> + Deserialize<'de>,
    {
        F::deserialize(deserializer).map(F::value)
    }
}

impl<F: JsonSchema> JsonSchema for As<F> {
    fn inline_schema() -> bool {
        F::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        F::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        F::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        F::json_schema(generator)
    }
}

impl<T, F: Form<T>> Form<Option<T>> for Option<F> {
    fn value(self) -> Option<T> {
        self.map(F::value)
    }

    fn of(value: &Option<T>) -> Self {
        value.as_ref().map(F::of)
    }
}

impl<T, F: Form<T>> Form<Vec<T>> for Vec<F> {
    fn value(self) -> Vec<T> {
        self.into_iter().map(F::value).collect()
    }

    fn of(value: &Vec<T>) -> Self {
        value.iter().map(F::of).collect()
    }
}

impl Form<IpAddr> for Ip {
    fn value(self) -> IpAddr {
        self.0
    }

    fn of(value: &IpAddr) -> Self {
        Self(*value)
    }
}

impl<T: Copy, const MIN: i64, const MAX: i64> Form<T> for Whole<T, MIN, MAX> {
    fn value(self) -> T {
        self.get()
    }

    fn of(value: &T) -> Self {
        Self::unchecked(*value)
    }
}

//--- Numbers with a fraction

/// A number from `MIN` / `SCALE` to `MAX` / `SCALE`.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Real<const MIN: i64, const MAX: i64, const SCALE: i64 = 1>(f64);

#[expect(clippy::cast_precision_loss, reason = "bounds are short numbers")]
impl<const MIN: i64, const MAX: i64, const SCALE: i64> Real<MIN, MAX, SCALE> {
    const RANGE: [f64; 2] = [MIN as f64 / SCALE as f64, MAX as f64 / SCALE as f64];
}

impl<const MIN: i64, const MAX: i64, const SCALE: i64> Form<f64> for Real<MIN, MAX, SCALE> {
    fn value(self) -> f64 {
        self.0
    }

    fn of(value: &f64) -> Self {
        Self(*value)
    }
}

impl<const MIN: i64, const MAX: i64, const SCALE: i64> Serialize for Real<MIN, MAX, SCALE> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de, const MIN: i64, const MAX: i64, const SCALE: i64> Deserialize<'de>
    for Real<MIN, MAX, SCALE>
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = f64::deserialize(deserializer)?;
        let [least, most] = Self::RANGE;
        match (least..=most).contains(&number) {
            true => Ok(Self(number)),
            false => Err(out_of_range(number, least, Some(most))),
        }
    }
}

impl<const MIN: i64, const MAX: i64, const SCALE: i64> JsonSchema for Real<MIN, MAX, SCALE> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Real{MIN}To{MAX}By{SCALE}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let [least, most] = Self::RANGE;
        json_schema!({ "type": "number", "minimum": least, "maximum": most })
    }
}

//--- Spans

/// The longest span that makes sense in a file: 1,000,000,000 s, in nanoseconds.
pub const LONGEST_SPAN: i64 = 1_000_000_000_000_000_000;

/// A span from `MIN` to `MAX` nanoseconds: `"2s"`, `"-50us"`, or a number of seconds.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Seconds<const MIN: i64 = 0, const MAX: i64 = LONGEST_SPAN>(f64);

#[expect(clippy::cast_precision_loss, reason = "bounds are short numbers")]
impl<const MIN: i64, const MAX: i64> Seconds<MIN, MAX> {
    const RANGE: [f64; 2] = [MIN as f64 / 1e9, MAX as f64 / 1e9];
}

impl<const MIN: i64, const MAX: i64> Form<f64> for Seconds<MIN, MAX> {
    fn value(self) -> f64 {
        self.0
    }

    fn of(value: &f64) -> Self {
        Self(*value)
    }
}

/// With its unit where it is a whole number of nanoseconds; else a number of seconds.
impl<const MIN: i64, const MAX: i64> Serialize for Seconds<MIN, MAX> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match with_unit(self.0) {
            Some(text) => serializer.serialize_str(&text),
            None => serializer.serialize_f64(self.0),
        }
    }
}

fn with_unit(seconds: f64) -> Option<String> {
    let span = Duration::try_from_secs_f64(seconds.abs()).ok()?;
    let is_exact = span.as_secs_f64().to_bits() == seconds.abs().to_bits();
    let sign = if seconds < 0.0 { "-" } else { "" };
    is_exact.then(|| format!("{sign}{}", HumanDuration(span)))
}

impl<'de, const MIN: i64, const MAX: i64> Deserialize<'de> for Seconds<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let seconds = deserializer.deserialize_any(SecondsVisitor)?;
        let [least, most] = Self::RANGE;
        match (least..=most).contains(&seconds) {
            true => Ok(Self(seconds)),
            false => {
                let in_seconds = |value: f64| format!("{value} s");
                let (least, most) = (in_seconds(least), in_seconds(most));
                Err(out_of_range(in_seconds(seconds), least, Some(most)))
            }
        }
    }
}

struct SecondsVisitor;

impl de::Visitor<'_> for SecondsVisitor {
    type Value = f64;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a duration, as in \"2s\" or \"100us\", or a number of seconds")
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<f64, E> {
        if number.is_finite() {
            Ok(number)
        } else {
            Err(E::invalid_value(de::Unexpected::Float(number), &self))
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "no span is that long")]
    fn visit_i64<E: de::Error>(self, number: i64) -> Result<f64, E> {
        Ok(number as f64)
    }

    #[expect(clippy::cast_precision_loss, reason = "no span is that long")]
    fn visit_u64<E: de::Error>(self, number: u64) -> Result<f64, E> {
        Ok(number as f64)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<f64, E> {
        let (sign, text) = match text.strip_prefix('-') {
            Some(rest) => (-1.0, rest),
            None => (1.0, text),
        };
        let duration: HumanDuration = text.parse().map_err(E::custom)?;
        Ok(sign * duration.0.as_secs_f64())
    }
}

impl<const MIN: i64, const MAX: i64> JsonSchema for Seconds<MIN, MAX> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Seconds{MIN}To{MAX}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let mut schema = json_schema!({
            "type": ["string", "number"],
            "x-type": "a duration, as in \"2s\", or a number of seconds",
        });
        let [least, most] = Self::RANGE;
        // No reader cares for the ends that only keep arithmetic sound.
        if MAX != LONGEST_SPAN {
            let end = |seconds| with_unit(seconds).unwrap_or_default();
            schema.insert("x-minimum".to_owned(), end(least).into());
            schema.insert("x-maximum".to_owned(), end(most).into());
        }
        schema
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(default, deny_unknown_fields)]
    struct Numbers {
        #[serde(with = "As::<Whole<i8, -7, 24>>")]
        poll: i8,
        #[serde(with = "As::<Option<Real<-5, 5, 10>>>")]
        asymmetry: Option<f64>,
        #[serde(with = "As::<Seconds<-1_000_000_000, 1_000_000_000>>")]
        offset: f64,
    }

    impl Default for Numbers {
        fn default() -> Self {
            Self {
                poll: 6,
                asymmetry: None,
                offset: 0.0,
            }
        }
    }

    #[test]
    fn a_number_comes_back_to_the_last_bit() {
        for offset in [0.0, 5e-5, -5e-5, 0.5, -1.0, 1e-10, 1.0 / 3.0] {
            let numbers = Numbers {
                poll: -3,
                asymmetry: Some(-0.5),
                offset,
            };
            let text = crate::Written::new(&numbers).unwrap().to_string();
            let read = crate::Document::inline("x", text.as_str()).parse();
            assert_eq!(read, Ok(numbers), "{text}");
        }
        let text = crate::Written::new(&Numbers {
            offset: -5e-5,
            ..Numbers::default()
        });
        assert_eq!(
            text.unwrap().to_string(),
            "version = \"v1\"\noffset = \"-50us\"\n"
        );
    }

    #[test]
    fn a_number_out_of_range_is_refused_with_the_range() {
        for (line, words) in [
            ("poll = 25", "25 is out of range; `poll` is from -7 to 24"),
            (
                "asymmetry = 0.6",
                "0.6 is out of range; `asymmetry` is from -0.5 to 0.5",
            ),
            (
                "asymmetry = nan",
                "NaN is out of range; `asymmetry` is from -0.5 to 0.5",
            ),
            (
                "offset = \"2s\"",
                "2 s is out of range; `offset` is from -1 s to 1 s",
            ),
            ("offset = inf", "a duration, as in"),
            ("offset = \"2\"", "`2` is not a duration"),
        ] {
            let text = format!("version = \"v1\"\n{line}\n");
            let problems = crate::Document::inline("x", text).parse::<Numbers>();
            let problems = problems.unwrap_err().to_string();
            assert!(
                problems.starts_with("x:2:") && problems.contains(words),
                "{problems}"
            );
        }
    }

    #[test]
    fn the_schema_has_the_ranges() {
        let schema = crate::schema::<Numbers>();
        let of = |key: &str| &schema["properties"][key];
        assert_eq!(of("poll")["minimum"], -7);
        assert_eq!(of("poll")["default"], 6);
        assert_eq!(of("offset")["x-maximum"], "1s");
        assert_eq!(of("offset")["default"], "0s");
    }
}
