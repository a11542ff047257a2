//! Reads Lua values the way `PowerDNS` does: numbers count as text, lists are tables with numbers for keys,
//! and anything else is an error that names the function and the value.

use std::collections::BTreeMap;

use mlua::{LuaString, Table, Value};

use crate::options::OptionText;
use crate::select::Member;

/// The most entries a list may have: more cannot fit into a DNS message.
const MAX_ENTRIES: usize = 4096;

/// An error for the program to see.
pub(crate) fn refuse(message: impl Into<String>) -> mlua::Error {
    mlua::Error::RuntimeError(message.into())
}

/// The text of a string or number.
///
/// Octets that are no UTF-8 become `\DDD`, which is how a master file writes them.
pub(crate) fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(string) => Some(escape(string)),
        Value::Integer(integer) => Some(integer.to_string()),
        Value::Number(number) => Some(decimal(*number)),
        _ => None,
    }
}

fn escape(string: &LuaString) -> String {
    let bytes = string.as_bytes();
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for octet in chunk.invalid() {
            text.push_str(&format!("\\{octet:03}"));
        }
    }
    text
}

/// A number without the `.0` that Lua 5.4 prints after whole ones and Lua 5.1 does not.
fn decimal(number: f64) -> String {
    // Rust prints whole floats without a fraction.
    format!("{number}")
}

/// The type of a value, for messages.
pub(crate) fn describe(value: &Value) -> String {
    match text(value) {
        Some(text) if text.len() <= 40 => format!("`{text}`"),
        _ => value.type_name().to_owned(),
    }
}

/// The entries of a list in order of their keys.
pub(crate) fn entries(value: &Value, what: &str) -> mlua::Result<Vec<Value>> {
    let Value::Table(table) = value else {
        return Err(refuse(format!(
            "{what} must be a list, not {}",
            describe(value)
        )));
    };
    let mut entries = Vec::with_capacity(table.raw_len().min(MAX_ENTRIES));
    let mut sorted = true;
    let mut last = i64::MIN;
    for pair in table.pairs::<Value, Value>() {
        let (key, value) = pair?;
        let Some(key) = key.as_integer() else {
            return Err(refuse(format!(
                "{what} must be a list, and has the key {}",
                describe(&key)
            )));
        };
        if entries.len() == MAX_ENTRIES {
            return Err(refuse(format!(
                "{what} has more than {MAX_ENTRIES} entries"
            )));
        }
        sorted &= key > last;
        last = key;
        entries.push((key, value));
    }
    if !sorted {
        entries.sort_by_key(|(key, _)| *key);
    }
    Ok(entries.into_iter().map(|(_, value)| value).collect())
}

/// The texts of a list.
pub(crate) fn texts(value: &Value, what: &str) -> mlua::Result<Vec<String>> {
    entries(value, what)?
        .iter()
        .map(|entry| {
            text(entry).ok_or_else(|| {
                refuse(format!(
                    "{what} must hold strings, not {}",
                    entry.type_name()
                ))
            })
        })
        .collect()
}

/// The members of a list of `{weight, value}`, in order.
pub(crate) fn weighted(value: &Value, what: &str) -> mlua::Result<Vec<Member>> {
    entries(value, what)?
        .iter()
        .map(|entry| {
            let Value::Table(pair) = entry else {
                return Err(refuse(format!(
                    "{what} must hold {{weight, value}}, not {}",
                    describe(entry)
                )));
            };
            member(pair, what)
        })
        .collect()
}

fn member(pair: &Table, what: &str) -> mlua::Result<Member> {
    let weight: Value = pair.raw_get(1)?;
    let value: Value = pair.raw_get(2)?;
    let parsed = text(&weight)
        .and_then(|text| text.trim().parse().ok())
        .filter(|weight| *weight > 0);
    let Some(parsed) = parsed else {
        return Err(refuse(format!(
            "{what}: a weight must be a whole number above 0, not {}",
            describe(&weight)
        )));
    };
    let Some(value) = text(&value) else {
        return Err(refuse(format!(
            "{what}: a weight needs a string beside it, not {}",
            value.type_name()
        )));
    };
    Ok(Member {
        value,
        weight: parsed,
    })
}

/// A table of texts by name.
pub(crate) fn named_texts(table: &Table, what: &str) -> mlua::Result<BTreeMap<String, String>> {
    let mut texts = BTreeMap::new();
    for pair in table.pairs::<Value, Value>() {
        let (key, value) = pair?;
        let (Some(key), Some(value)) = (text(&key), option_text(&value)) else {
            return Err(refuse(format!("{what} must hold strings by name")));
        };
        if texts.len() == MAX_ENTRIES {
            return Err(refuse(format!(
                "{what} has more than {MAX_ENTRIES} entries"
            )));
        }
        texts.insert(key, value);
    }
    Ok(texts)
}

/// The options of a health function; nil is none.
pub(crate) fn options(value: &Value, what: &str) -> mlua::Result<BTreeMap<String, OptionText>> {
    let table = match value {
        Value::Nil => return Ok(BTreeMap::new()),
        Value::Table(table) => table,
        other => {
            return Err(refuse(format!(
                "{what}: options must be a table, not {}",
                describe(other)
            )));
        }
    };
    let mut options = BTreeMap::new();
    for pair in table.pairs::<Value, Value>() {
        let (key, value) = pair?;
        let Some(name) = text(&key) else {
            return Err(refuse(format!("{what}: options must have names")));
        };
        let option = match &value {
            Value::Table(inner) => {
                OptionText::Table(named_texts(inner, &format!("{what}: option `{name}`"))?)
            }
            other => match option_text(other) {
                Some(text) => OptionText::Text(text),
                None => {
                    return Err(refuse(format!(
                        "{what}: option `{name}` must not be a {}",
                        other.type_name()
                    )));
                }
            },
        };
        options.insert(name, option);
    }
    Ok(options)
}

fn option_text(value: &Value) -> Option<String> {
    match value {
        Value::Boolean(flag) => Some(flag.to_string()),
        other => text(other),
    }
}

/// A whole number.
pub(crate) fn integer(value: &Value, what: &str) -> mlua::Result<i64> {
    let integer = match value {
        Value::Integer(integer) => Some(*integer),
        other => text(other).and_then(|text| text.trim().parse().ok()),
    };
    integer.ok_or_else(|| {
        refuse(format!(
            "{what} must be a whole number, not {}",
            describe(value)
        ))
    })
}

/// A string.
pub(crate) fn string(value: &Value, what: &str) -> mlua::Result<String> {
    text(value).ok_or_else(|| {
        refuse(format!(
            "{what} must be a string, not {}",
            value.type_name()
        ))
    })
}

/// The answers in a returned value: a string is one, a list has one for each entry.
pub(crate) fn answers(value: &Value) -> Result<Vec<String>, String> {
    if let Some(text) = text(value) {
        return Ok(vec![text]);
    }
    match value {
        Value::Nil => Err("returns nothing".to_owned()),
        Value::Table(_) => texts(value, "its return value").map_err(|error| error.to_string()),
        other => Err(format!("returns a {}, not a string", other.type_name())),
    }
}
