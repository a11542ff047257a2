//! `string.find`, `match`, `gmatch` and `gsub` over [`Matcher`] (Lua 5.4 reference manual §6.4).

use std::cell::Cell;
use std::rc::Rc;

use mlua::{Lua, LuaString, MultiValue, Table, Value};

use crate::pattern::{Capture, Matcher, PatternError};
use crate::run::Run;
use crate::values;

/// Replaces the matching functions of the string library.
pub(crate) fn install(lua: &Lua, run: &Rc<Run>) -> mlua::Result<()> {
    let string: Table = lua.globals().raw_get("string")?;
    for (name, find) in [("find", true), ("match", false)] {
        let run = Rc::clone(run);
        let function = lua.create_function(move |lua, arguments: FindArguments| {
            let (subject, pattern, start, plain) = arguments;
            let plain = find && plain.is_some_and(|plain| plain.as_boolean() != Some(false));
            let subject = subject.as_bytes();
            let Some(start) = place(start, subject.len()) else {
                return Ok(nothing());
            };
            let pattern = pattern.as_bytes();
            if plain || find && !pattern.iter().any(|octet| SPECIAL.contains(octet)) {
                return find_plain(&subject, &pattern, start, &run.pattern_steps);
            }
            first_match(lua, &subject, &pattern, start, find, &run.pattern_steps)
        })?;
        string.raw_set(name, function)?;
    }
    string.raw_set("gmatch", gmatch(lua, run)?)?;
    string.raw_set("gsub", gsub(lua, run)?)
}

type FindArguments = (LuaString, LuaString, Option<i64>, Option<Value>);

/// The characters that mean something in a pattern.
const SPECIAL: &[u8] = b"^$*+?.([%-";

fn raised(error: PatternError) -> mlua::Error {
    values::refuse(error.to_string())
}

fn nothing() -> MultiValue {
    MultiValue::from_iter([Value::Nil])
}

/// The offset to begin at, counted from 0; `None` beyond the end.
fn place(start: Option<i64>, length: usize) -> Option<usize> {
    let start = start.unwrap_or(1);
    let place = if start < 0 {
        let back = usize::try_from(start.unsigned_abs()).unwrap_or(usize::MAX);
        length.saturating_sub(back)
    } else {
        usize::try_from(start.saturating_sub(1)).unwrap_or(0)
    };
    (place <= length).then_some(place)
}

fn integer(place: usize) -> Value {
    Value::Integer(i64::try_from(place).unwrap_or(i64::MAX))
}

fn find_plain(
    subject: &[u8],
    wanted: &[u8],
    start: usize,
    steps: &Cell<u32>,
) -> mlua::Result<MultiValue> {
    let rest = subject.get(start..).unwrap_or_default();
    let cost = rest.len().saturating_mul(wanted.len()) / 64;
    let left = u32::try_from(cost)
        .ok()
        .and_then(|cost| steps.get().checked_sub(cost));
    steps.set(left.ok_or_else(|| raised(PatternError::Work))?);
    let found = match wanted.len() {
        0 => Some(0),
        length => rest.windows(length).position(|window| window == wanted),
    };
    Ok(found.map_or_else(nothing, |found| {
        let first = start + found;
        MultiValue::from_iter([integer(first + 1), integer(first + wanted.len())])
    }))
}

fn first_match(
    lua: &Lua,
    subject: &[u8],
    pattern: &[u8],
    mut start: usize,
    find: bool,
    steps: &Cell<u32>,
) -> mlua::Result<MultiValue> {
    let (pattern, anchored) = match pattern.strip_prefix(b"^") {
        Some(rest) => (rest, true),
        None => (pattern, false),
    };
    let mut matcher = Matcher::new(subject, pattern, steps);
    loop {
        if let Some(end) = matcher.match_at(start).map_err(raised)? {
            let mut found = MultiValue::new();
            if find {
                found.push_back(integer(start + 1));
                found.push_back(integer(end));
                if matcher.n_captures() == 0 {
                    return Ok(found);
                }
            }
            for n in 0..matcher.n_values() {
                found.push_back(value(lua, &matcher, n, start, end)?);
            }
            return Ok(found);
        }
        start += 1;
        if anchored || start > subject.len() {
            return Ok(nothing());
        }
    }
}

fn value(
    lua: &Lua,
    matcher: &Matcher<'_>,
    n: usize,
    start: usize,
    end: usize,
) -> mlua::Result<Value> {
    Ok(match matcher.value(n, start, end).map_err(raised)? {
        Capture::Text(text) => Value::String(lua.create_string(text)?),
        Capture::Position(place) => integer(place),
    })
}

fn gmatch(lua: &Lua, run: &Rc<Run>) -> mlua::Result<mlua::Function> {
    let run = Rc::clone(run);
    lua.create_function(move |lua, arguments: (LuaString, LuaString, Option<i64>)| {
        let (subject, pattern, start) = arguments;
        let length = subject.as_bytes().len();
        let run = Rc::clone(&run);
        // The offset of the next search, and the end of the last match; `None` at the end.
        let progress = Cell::new(place(start, length).map(|start| (start, None)));
        lua.create_function(move |lua, _: MultiValue| {
            let (subject, pattern) = (subject.as_bytes(), pattern.as_bytes());
            let Some((from, last_end)) = progress.take() else {
                return Ok(MultiValue::new());
            };
            let mut matcher = Matcher::new(&subject, &pattern, &run.pattern_steps);
            for start in from..=subject.len() {
                let Some(end) = matcher.match_at(start).map_err(raised)? else {
                    continue;
                };
                if last_end == Some(end) {
                    continue;
                }
                progress.set(Some((end, Some(end))));
                return (0..matcher.n_values())
                    .map(|n| value(lua, &matcher, n, start, end))
                    .collect();
            }
            Ok(MultiValue::new())
        })
    })
}

fn gsub(lua: &Lua, run: &Rc<Run>) -> mlua::Result<mlua::Function> {
    let run = Rc::clone(run);
    lua.create_function(move |lua, arguments: GsubArguments| {
        let (result, n_matches) = run.nested(|| substitute(lua, &run, &arguments))?;
        Ok((lua.create_string(result)?, n_matches))
    })
}

type GsubArguments = (LuaString, LuaString, Value, Option<i64>);

fn substitute(lua: &Lua, run: &Run, arguments: &GsubArguments) -> mlua::Result<(Vec<u8>, i64)> {
    let (subject, pattern, replacement, limit) = arguments;
    let (subject, pattern) = (subject.as_bytes(), pattern.as_bytes());
    let limit = limit.unwrap_or(i64::MAX);
    let (pattern, anchored) = match pattern.strip_prefix(b"^") {
        Some(rest) => (rest, true),
        None => (&*pattern, false),
    };
    let mut matcher = Matcher::new(&subject, pattern, &run.pattern_steps);
    let mut result = Vec::with_capacity(subject.len());
    let (mut at, mut last_end, mut n_matches) = (0, None, 0);
    while n_matches < limit {
        let end = matcher.match_at(at).map_err(raised)?;
        if let Some(end) = end.filter(|end| last_end != Some(*end)) {
            n_matches += 1;
            replace(lua, &matcher, replacement, (at, end), &mut result)?;
            if result.len() > run.settings.memory() {
                return Err(values::refuse("string.gsub: the result is too long"));
            }
            at = end;
            last_end = Some(end);
        } else if let Some(octet) = subject.get(at) {
            result.push(*octet);
            at += 1;
        } else {
            break;
        }
        if anchored {
            break;
        }
    }
    result.extend_from_slice(subject.get(at..).unwrap_or_default());
    Ok((result, n_matches))
}

/// Appends the replacement of the match from `start` to `end`.
fn replace(
    lua: &Lua,
    matcher: &Matcher<'_>,
    replacement: &Value,
    (start, end): (usize, usize),
    result: &mut Vec<u8>,
) -> mlua::Result<()> {
    let new = match replacement {
        Value::String(_) | Value::Integer(_) | Value::Number(_) => {
            let text = lua.coerce_string(replacement.clone())?;
            let text = text.ok_or_else(|| values::refuse("string.gsub: no string"))?;
            return expand(matcher, &text.as_bytes(), (start, end), result);
        }
        Value::Table(table) => table.get(value(lua, matcher, 0, start, end)?)?,
        Value::Function(function) => {
            let captures: mlua::Result<MultiValue> = (0..matcher.n_values())
                .map(|n| value(lua, matcher, n, start, end))
                .collect();
            function.call::<Value>(captures?)?
        }
        other => {
            return Err(values::refuse(format!(
                "string.gsub: the replacement must be a string, table or function, not {}",
                other.type_name()
            )));
        }
    };
    match new {
        Value::Nil | Value::Boolean(false) => {
            if let Capture::Text(text) = matcher.whole(start, end) {
                result.extend_from_slice(text);
            }
            Ok(())
        }
        other => {
            let text = lua.coerce_string(other.clone())?.ok_or_else(|| {
                let kind = other.type_name();
                values::refuse(format!("string.gsub: invalid replacement value (a {kind})"))
            })?;
            result.extend_from_slice(&text.as_bytes());
            Ok(())
        }
    }
}

/// Appends a replacement text, with `%0` to `%9` standing for the match and its captures.
fn expand(
    matcher: &Matcher<'_>,
    text: &[u8],
    (start, end): (usize, usize),
    result: &mut Vec<u8>,
) -> mlua::Result<()> {
    let mut octets = text.iter();
    while let Some(octet) = octets.next() {
        if *octet != b'%' {
            result.push(*octet);
            continue;
        }
        let capture = match octets.next() {
            Some(b'%') => {
                result.push(b'%');
                continue;
            }
            Some(b'0') => matcher.whole(start, end),
            Some(digit @ b'1'..=b'9') => matcher
                .value(usize::from(digit - b'1'), start, end)
                .map_err(raised)?,
            _ => return Err(values::refuse("invalid use of '%' in replacement string")),
        };
        match capture {
            Capture::Text(text) => result.extend_from_slice(text),
            Capture::Position(place) => result.extend_from_slice(place.to_string().as_bytes()),
        }
    }
    Ok(())
}
