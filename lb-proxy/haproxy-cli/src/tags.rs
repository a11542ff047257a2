//! Values with HAProxy's tags: origin, nature, scope and type, as `typed` and `json` show them.

use serde_json::{Value as Json, json};

/// A value of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Number(u64),
    Text(String),
}

impl Value {
    /// As CSV and lines have it. A text with a comma or a quote is quoted.
    pub(crate) fn csv(&self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Text(text) if text.contains([',', '"', '\n', '\r']) => {
                format!(
                    "\"{}\"",
                    text.replace('"', "\"\"").replace(['\n', '\r'], " ")
                )
            }
            Self::Text(text) => text.clone(),
        }
    }

    /// As one line has it.
    pub(crate) fn plain(&self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Text(text) => text.replace(['\n', '\r'], " "),
        }
    }

    /// As JSON has it, with its type.
    pub(crate) fn json(&self, kind: &str) -> Json {
        match self {
            Self::Number(number) => json!({ "type": kind, "value": number }),
            Self::Text(text) => json!({ "type": "str", "value": text }),
        }
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

impl From<u16> for Value {
    fn from(number: u16) -> Self {
        Self::Number(number.into())
    }
}

impl From<bool> for Value {
    fn from(is_so: bool) -> Self {
        Self::Number(is_so.into())
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<&String> for Value {
    fn from(text: &String) -> Self {
        Self::Text(text.clone())
    }
}

/// The words of tags such as `MGP`: origin, nature and scope.
pub(crate) fn words(tags: &str) -> Json {
    let mut letters = tags.chars();
    let origin = match letters.next() {
        Some('M') => "Metric",
        Some('S') => "Status",
        Some('K') => "Key",
        Some('C') => "Config",
        _ => "Product",
    };
    let nature = match letters.next() {
        Some('A') => "Age",
        Some('a') => "Average",
        Some('C') => "Counter",
        Some('D') => "Duration",
        Some('G') => "Gauge",
        Some('L') => "Limit",
        Some('M') => "Max",
        Some('N') => "Name",
        Some('R') => "Rate",
        _ => "Output",
    };
    let scope = match letters.next() {
        Some('S') => "Service",
        _ => "Process",
    };
    json!({ "origin": origin, "nature": nature, "scope": scope })
}
