//! Durations and sizes as people write them: `"2s"`, `"64MiB"`.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A text that is no duration or size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// Not a duration.
    #[error(
        "`{0}` is not a duration; write a number and a unit, as in \"250ms\", \"2s\", \"5m\", \"1h\" or \"7d\""
    )]
    Duration(String),
    /// Not a size.
    #[error(
        "`{0}` is not a size; write a number and a unit, as in \"512\", \"64KiB\", \"64MiB\" or \"10GB\""
    )]
    Size(String),
    /// Larger than the type holds.
    #[error("`{0}` is too large")]
    TooLarge(String),
}

//--- HumanDuration

/// A duration in a configuration file: `"250ms"`, `"2s"`, `"1m30s"`, `"1h"`, `"7d"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct HumanDuration(pub Duration);

/// Units of a duration, the larger first, in nanoseconds.
const DURATION_UNITS: [(&str, u64); 7] = [
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

impl FromStr for HumanDuration {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let malformed = || UnitError::Duration(text.to_owned());
        let mut rest = text.trim();
        if rest == "0" {
            return Ok(Self(Duration::ZERO));
        }
        let mut nanoseconds: u128 = 0;
        let mut smallest = u64::MAX;
        while !rest.is_empty() {
            let (number, after) = split_number(rest).ok_or_else(malformed)?;
            let end = after
                .find(|letter: char| !letter.is_ascii_alphabetic())
                .unwrap_or(after.len());
            let (unit, after) = after.split_at_checked(end).ok_or_else(malformed)?;
            let &(_, scale) = DURATION_UNITS
                .iter()
                .find(|(name, _)| *name == unit)
                .ok_or_else(malformed)?;
            // "1h30m", never "30m1h" or "1m1m".
            if scale >= smallest {
                return Err(malformed());
            }
            smallest = scale;
            nanoseconds += number.times(scale).ok_or_else(malformed)?;
            rest = after.trim_start();
        }
        if smallest == u64::MAX {
            return Err(malformed());
        }
        u64::try_from(nanoseconds)
            .map(|nanoseconds| Self(Duration::from_nanos(nanoseconds)))
            .map_err(|_| UnitError::TooLarge(text.to_owned()))
    }
}

impl fmt::Display for HumanDuration {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0.as_nanos();
        if rest == 0 {
            return formatter.write_str("0s");
        }
        for (unit, scale) in DURATION_UNITS {
            let count = rest / u128::from(scale);
            rest %= u128::from(scale);
            if count > 0 {
                write!(formatter, "{count}{unit}")?;
            }
        }
        Ok(())
    }
}

impl From<Duration> for HumanDuration {
    fn from(duration: Duration) -> Self {
        Self(duration)
    }
}

impl From<HumanDuration> for Duration {
    fn from(duration: HumanDuration) -> Self {
        duration.0
    }
}

impl<'de> Deserialize<'de> for HumanDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor {
            expected: "a duration with its unit, as in \"2s\"",
            parse: str::parse,
            number: |_| None,
        })
    }
}

impl Serialize for HumanDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl JsonSchema for HumanDuration {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "x-type": "a duration, as in \"2s\"" })
    }
}

//--- Every

/// An interval in a configuration file, at least `MIN` milliseconds, or `"never"`. Zero is never, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Every<const MIN: u64 = 0>(pub Option<Duration>);

/// A text that is no interval.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EveryError {
    /// Not a duration.
    #[error("{0}; or \"never\"")]
    Duration(#[from] UnitError),
    /// Too short.
    #[error("{0} is too short; at least {1} is needed, or \"never\"")]
    Short(HumanDuration, HumanDuration),
}

impl<const MIN: u64> FromStr for Every<MIN> {
    type Err = EveryError;

    fn from_str(text: &str) -> Result<Self, EveryError> {
        if text == "never" {
            return Ok(Self(None));
        }
        let written: HumanDuration = text.parse()?;
        let least = Duration::from_millis(MIN);
        match written.0 {
            Duration::ZERO => Ok(Self(None)),
            short if short < least => Err(EveryError::Short(written, HumanDuration(least))),
            interval => Ok(Self(Some(interval))),
        }
    }
}

impl<const MIN: u64> fmt::Display for Every<MIN> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(interval) => HumanDuration(interval).fmt(formatter),
            None => formatter.write_str("never"),
        }
    }
}

impl<'de, const MIN: u64> Deserialize<'de> for Every<MIN> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

impl<const MIN: u64> Serialize for Every<MIN> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<const MIN: u64> JsonSchema for Every<MIN> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Every{MIN}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let mut schema = json_schema!({
            "type": "string",
            "x-type": "a duration, as in \"2s\", or \"never\"",
        });
        if MIN > 0 {
            let least = HumanDuration(Duration::from_millis(MIN));
            schema.insert("x-minimum".to_owned(), least.to_string().into());
        }
        schema
    }
}

//--- ByteSize

/// A number of bytes in a configuration file: `"512"`, `"64KiB"`, `"10GB"`, or a plain number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ByteSize(pub u64);

/// Units of a size; a lone letter is binary, as everywhere else on a server.
const SIZE_UNITS: [(&str, u64); 14] = [
    ("", 1),
    ("B", 1),
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("T", 1 << 40),
    ("G", 1 << 30),
    ("M", 1 << 20),
    ("K", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
];

impl ByteSize {
    /// The size as a length in memory.
    ///
    /// # Errors
    ///
    /// When this machine cannot address as much.
    pub fn to_usize(self) -> Result<usize, UnitError> {
        usize::try_from(self.0).map_err(|_| UnitError::TooLarge(self.to_string()))
    }
}

impl FromStr for ByteSize {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let malformed = || UnitError::Size(text.to_owned());
        let (number, unit) = split_number(text.trim()).ok_or_else(malformed)?;
        let unit = unit.trim_start();
        let &(_, scale) = SIZE_UNITS
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(unit))
            .ok_or_else(malformed)?;
        let bytes = number.times(scale).ok_or_else(malformed)?;
        u64::try_from(bytes)
            .map(Self)
            .map_err(|_| UnitError::TooLarge(text.to_owned()))
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exact = SIZE_UNITS
            .iter()
            .filter(|(name, scale)| name.len() > 1 && self.0 != 0 && self.0.is_multiple_of(*scale))
            .max_by_key(|(_, scale)| *scale);
        match exact {
            Some((name, scale)) => write!(formatter, "{}{name}", self.0 / scale),
            None => write!(formatter, "{}", self.0),
        }
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor {
            expected: "a size, as in \"64MiB\"",
            parse: str::parse,
            number: |bytes| Some(Self(bytes)),
        })
    }
}

impl Serialize for ByteSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl JsonSchema for ByteSize {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Size".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "integer"], "x-type": "a size, as in \"64MiB\"" })
    }
}

//--- Numbers with a fraction

/// `whole + fraction / 10^digits`
struct Decimal {
    whole: u64,
    fraction: u64,
    digits: u32,
}

impl Decimal {
    /// The product, if it is a whole number.
    fn times(&self, scale: u64) -> Option<u128> {
        let divisor = 10_u128.checked_pow(self.digits)?;
        let scaled = u128::from(self.fraction) * u128::from(scale);
        (scaled % divisor == 0)
            .then(|| u128::from(self.whole) * u128::from(scale) + scaled / divisor)
    }
}

/// Splits `1.5rest` into the number and what follows it.
fn split_number(text: &str) -> Option<(Decimal, &str)> {
    let (whole, rest) = split_digits(text)?;
    let Some(after_point) = rest.strip_prefix('.') else {
        let decimal = Decimal {
            whole: whole.parse().ok()?,
            fraction: 0,
            digits: 0,
        };
        return Some((decimal, rest));
    };
    let (fraction, rest) = split_digits(after_point)?;
    let decimal = Decimal {
        whole: whole.parse().ok()?,
        fraction: fraction.parse().ok()?,
        digits: u32::try_from(fraction.len()).ok()?,
    };
    Some((decimal, rest))
}

fn split_digits(text: &str) -> Option<(&str, &str)> {
    let end = text
        .find(|letter: char| !letter.is_ascii_digit())
        .unwrap_or(text.len());
    (end > 0).then(|| text.split_at_checked(end)).flatten()
}

/// Reads a text, or a plain number where that has one meaning.
struct TextVisitor<T> {
    expected: &'static str,
    parse: fn(&str) -> Result<T, UnitError>,
    number: fn(u64) -> Option<T>,
}

impl<T> de::Visitor<'_> for TextVisitor<T> {
    type Value = T;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.expected)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        (self.parse)(text).map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
        u64::try_from(number)
            .ok()
            .and_then(self.number)
            .ok_or_else(|| E::invalid_type(de::Unexpected::Signed(number), &self))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<T, E> {
        (self.number)(number)
            .ok_or_else(|| E::invalid_type(de::Unexpected::Unsigned(number), &self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_and_print_the_same() {
        for (text, expected, printed) in [
            ("250ms", Duration::from_millis(250), "250ms"),
            ("2s", Duration::from_secs(2), "2s"),
            ("1.5s", Duration::from_millis(1500), "1s500ms"),
            ("1m30s", Duration::from_secs(90), "1m30s"),
            ("1h 30m", Duration::from_secs(5400), "1h30m"),
            ("7d", Duration::from_secs(604_800), "7d"),
            ("90s", Duration::from_secs(90), "1m30s"),
            ("0", Duration::ZERO, "0s"),
            ("0s", Duration::ZERO, "0s"),
            ("15us", Duration::from_micros(15), "15us"),
        ] {
            let duration: HumanDuration = text.parse().unwrap();
            assert_eq!(duration.0, expected, "{text}");
            assert_eq!(duration.to_string(), printed);
            assert_eq!(printed.parse(), Ok(duration));
        }
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for text in [
            "",
            " ",
            "2",
            "s",
            "-1s",
            "1 fortnight",
            "30s1m",
            "1s1s",
            "1.s",
            ".5s",
            "0.3ns",
            "1S",
            "1e3s",
            "99999999999999999999s",
        ] {
            assert!(
                matches!(text.parse::<HumanDuration>(), Err(UnitError::Duration(_))),
                "{text}"
            );
        }
        let long = "999999999d".parse::<HumanDuration>();
        assert_eq!(long, Err(UnitError::TooLarge("999999999d".to_owned())));
    }

    #[test]
    fn an_interval_may_be_never() {
        let every = |text: &str| text.parse::<Every<1000>>();
        for (text, interval, printed) in [
            ("never", None, "never"),
            ("0s", None, "never"),
            ("1s", Some(1), "1s"),
            ("6h", Some(21_600), "6h"),
        ] {
            let parsed = every(text).unwrap();
            assert_eq!(parsed.0, interval.map(Duration::from_secs), "{text}");
            assert_eq!(parsed.to_string(), printed);
        }
        let short = every("10ms").unwrap_err().to_string();
        assert_eq!(
            short,
            "10ms is too short; at least 1s is needed, or \"never\""
        );
        let other = every("often").unwrap_err().to_string();
        assert!(other.starts_with("`often` is not a duration"), "{other}");
        assert!(other.ends_with("; or \"never\""), "{other}");
        assert_eq!(
            "10ms".parse(),
            Ok(Every::<0>(Some(Duration::from_millis(10))))
        );
    }

    #[test]
    fn sizes_read_and_print_the_same() {
        for (text, expected, printed) in [
            ("512", 512, "512"),
            ("64MiB", 64 << 20, "64MiB"),
            ("64 MiB", 64 << 20, "64MiB"),
            ("64M", 64 << 20, "64MiB"),
            ("10GB", 10_000_000_000, "10GB"),
            ("1.5KiB", 1536, "1536"),
            ("1kb", 1000, "1kB"),
            ("0", 0, "0"),
        ] {
            let size: ByteSize = text.parse().unwrap();
            assert_eq!(size.0, expected, "{text}");
            assert_eq!(size.to_string(), printed, "{text}");
            assert_eq!(printed.parse(), Ok(size));
        }
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in ["", "MiB", "-1", "64XiB", "0.5B", "1..5K"] {
            assert!(
                matches!(text.parse::<ByteSize>(), Err(UnitError::Size(_))),
                "{text}"
            );
        }
        let large = "99999999TiB".parse::<ByteSize>();
        assert!(matches!(large, Err(UnitError::TooLarge(_))));
    }
}
