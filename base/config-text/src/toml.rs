//! Pieces of TOML 1.0, for configurations that a program writes for people.

use std::fmt::{self, Write as _};
use std::time::Duration;

/// Appends a line.
pub fn line(text: &mut String, what: fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _written = writeln!(text, "{what}");
}

/// A list of strings.
pub fn list(items: impl IntoIterator<Item = impl fmt::Display>) -> String {
    let items: Vec<String> = items
        .into_iter()
        .map(|item| quoted(&item.to_string()))
        .collect();
    format!("[{}]", items.join(", "))
}

/// A basic string.
#[must_use]
pub fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            control if control.is_control() => {
                // Writing to a string does not fail.
                let _written = write!(quoted, "\\u{:04X}", u32::from(control));
            }
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

/// A duration as configurations have it, in the largest unit that needs no fraction.
#[must_use]
pub fn duration(duration: Duration) -> String {
    let micros = duration.as_micros();
    let units: [(u128, &str); 5] = [
        (3_600_000_000, "h"),
        (60_000_000, "m"),
        (1_000_000, "s"),
        (1_000, "ms"),
        (1, "us"),
    ];
    let fits = units.iter().find(|(size, _)| micros.is_multiple_of(*size));
    match fits {
        Some((size, unit)) if micros > 0 => format!("\"{}{unit}\"", micros / size),
        _ => "\"0s\"".to_owned(),
    }
}

/// A number of bytes as configurations have it, in the largest unit that needs no fraction.
#[must_use]
pub fn size(bytes: u64) -> String {
    let units: [(u64, &str); 8] = [
        (1 << 40, "TiB"),
        (1_000_000_000_000, "TB"),
        (1 << 30, "GiB"),
        (1_000_000_000, "GB"),
        (1 << 20, "MiB"),
        (1_000_000, "MB"),
        (1 << 10, "KiB"),
        (1_000, "kB"),
    ];
    let fits = units.iter().find(|(size, _)| bytes.is_multiple_of(*size));
    match fits {
        Some((size, unit)) if bytes > 0 => format!("\"{}{unit}\"", bytes / size),
        _ => format!("\"{bytes}\""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_in_the_largest_unit_that_fits() {
        for (millis, expected) in [
            (0, "\"0s\""),
            (1, "\"1ms\""),
            (1_500, "\"1500ms\""),
            (2_000, "\"2s\""),
            (90_000, "\"90s\""),
            (300_000, "\"5m\""),
            (86_400_000, "\"24h\""),
        ] {
            assert_eq!(duration(Duration::from_millis(millis)), expected);
        }
        assert_eq!(duration(Duration::from_micros(250)), "\"250us\"");
    }

    #[test]
    fn sizes_are_in_the_largest_unit_that_fits() {
        for (bytes, expected) in [
            (0, "\"0\""),
            (1_001, "\"1001\""),
            (20 << 30, "\"20GiB\""),
            (10_000_000_000, "\"10GB\""),
            (1 << 40, "\"1TiB\""),
        ] {
            assert_eq!(size(bytes), expected);
        }
    }

    #[test]
    fn strings_survive() {
        for text in ["", "a\"b\\c", "a\nb\tc\u{7f}", "ü"] {
            let value: toml::Value = toml::from_str(&format!("a = {}", quoted(text))).unwrap();
            assert_eq!(value["a"].as_str(), Some(text));
        }
    }
}
