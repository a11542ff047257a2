//! Names made from addresses and addresses made from names: `createReverse`, `createForward`,
//! their IPv6 twins, and `filterForward` (docs/lua-records/functions.rst of `PowerDNS`).
//!
//! Input that makes no name or address gets the answers of `PowerDNS`: the unspecified address, or the
//! words `unknown` and `error` in place of a name.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::rc::Rc;

use dns_wire::Name;
use mlua::{Lua, Table, UserDataRef, Value};

use crate::objects::NetworkGroup;
use crate::run::Run;
use crate::values;

/// Adds the functions to the globals of programs.
pub(crate) fn install(lua: &Lua, globals: &Table, run: &Rc<Run>) -> mlua::Result<()> {
    let forward_run = Rc::clone(run);
    let forward = lua.create_function(move |_, ()| {
        let labels = below_wildcard(&forward_run)?;
        let address = labels.and_then(|labels| forward4(&labels));
        Ok(address.unwrap_or(Ipv4Addr::UNSPECIFIED).to_string())
    })?;
    globals.raw_set("createForward", forward)?;
    let forward_run = Rc::clone(run);
    let forward = lua.create_function(move |_, ()| {
        let labels = below_wildcard(&forward_run)?;
        let address = labels.and_then(|labels| forward6(&labels));
        Ok(address.unwrap_or(Ipv6Addr::UNSPECIFIED).to_string())
    })?;
    globals.raw_set("createForward6", forward)?;
    for (name, make) in [
        ("createReverse", reverse4 as Reverse),
        ("createReverse6", reverse6),
    ] {
        let run = Rc::clone(run);
        let reverse = lua.create_function(move |_, (format, except): (Value, Value)| {
            let format = values::string(&format, &format!("{name}: the format"))?;
            let except = exceptions(&except, name)?;
            Ok(make(&texts(run.qname()?.labels()), &format, &except))
        })?;
        globals.raw_set(name, reverse)?;
    }
    globals.raw_set("filterForward", lua.create_function(filter_forward)?)
}

type Reverse = fn(&[String], &str, &BTreeMap<IpAddr, String>) -> String;

/// The question's labels below the wildcard that owns the record; `None` if no wildcard does.
fn below_wildcard(run: &Run) -> mlua::Result<Option<Vec<String>>> {
    let subject = run.subject()?;
    let owner: &Name = &subject.snippet.owner;
    if !owner.is_wildcard() {
        return Ok(None);
    }
    let qname = run.qname()?;
    let n_own = qname
        .n_labels()
        .saturating_sub(owner.n_labels().saturating_sub(1));
    Ok(Some(texts(qname.labels().take(n_own))))
}

/// Labels as text; octets that are not text cannot be part of an address.
fn texts<'a>(labels: impl Iterator<Item = &'a [u8]>) -> Vec<String> {
    labels
        .map(|label| String::from_utf8_lossy(label).into_owned())
        .collect()
}

fn exceptions(table: &Value, name: &str) -> mlua::Result<BTreeMap<IpAddr, String>> {
    let table = match table {
        Value::Nil => return Ok(BTreeMap::new()),
        Value::Table(table) => table,
        other => {
            return Err(values::refuse(format!(
                "{name}: the exceptions must be a table, not {}",
                values::describe(other)
            )));
        }
    };
    values::named_texts(table, &format!("{name}: the exceptions"))?
        .into_iter()
        .map(|(address, answer)| match address.parse() {
            Ok(address) => Ok((address, answer)),
            Err(_) => Err(values::refuse(format!("{name}: `{address}` is no address"))),
        })
        .collect()
}

//--- Forward

/// The address in `1.2.3.4`, `1-2-3-4`, `ip-1-2-3-4` or `ip01020304`, all below the wildcard.
fn forward4(labels: &[String]) -> Option<Ipv4Addr> {
    if let [a, b, c, d, ..] = labels {
        return dotted(&[a, b, c, d]);
    }
    // A word in front is harmless as long as nothing in it can be a digit.
    let word = labels.first()?;
    let digits = word.trim_start_matches(|c: char| !c.is_ascii_hexdigit());
    let parts: Vec<&str> = digits.split('-').filter(|part| !part.is_empty()).collect();
    if let [.., a, b, c, d] = parts.as_slice() {
        return dotted(&[a, b, c, d]);
    }
    let hex = digits.get(digits.len().checked_sub(8)?..)?;
    if !hex.bytes().all(|octet| octet.is_ascii_hexdigit()) {
        return None;
    }
    u32::from_str_radix(hex, 16).ok().map(Ipv4Addr::from)
}

fn dotted(parts: &[&str]) -> Option<Ipv4Addr> {
    let mut octets = [0; 4];
    for (octet, part) in octets.iter_mut().zip(parts) {
        if !part.bytes().all(|digit| digit.is_ascii_digit()) {
            return None;
        }
        *octet = part.parse().ok()?;
    }
    Some(octets.into())
}

/// The address in `2001-db8--1`, in eight labels, or in the last 32 digits of one.
fn forward6(labels: &[String]) -> Option<Ipv6Addr> {
    match labels {
        [word] if word.contains('-') => word.replace('-', ":").parse().ok(),
        [word] => {
            let hex = word.get(word.len().checked_sub(32)?..)?;
            if !hex.bytes().all(|octet| octet.is_ascii_hexdigit()) {
                return None;
            }
            u128::from_str_radix(hex, 16).ok().map(Ipv6Addr::from)
        }
        [_, _, _, _, _, _, _, _] => labels.join(":").parse().ok(),
        _ => None,
    }
}

fn filter_forward(
    _: &Lua,
    (address, group, fallback): (Value, UserDataRef<NetworkGroup>, Value),
) -> mlua::Result<Vec<String>> {
    let text = values::string(&address, "filterForward: the address")?;
    let Ok(address) = text.parse::<IpAddr>() else {
        return Err(values::refuse(format!(
            "filterForward: `{text}` is no address"
        )));
    };
    if group.contains(address) {
        return Ok(vec![text]);
    }
    let fallback = match fallback {
        Value::Nil if address.is_ipv4() => "0.0.0.0".to_owned(),
        Value::Nil => "::".to_owned(),
        other => values::string(&other, "filterForward: the fallback")?,
    };
    Ok(if fallback.is_empty() {
        Vec::new()
    } else {
        vec![fallback]
    })
}

//--- Reverse

fn reverse4(labels: &[String], format: &str, except: &BTreeMap<IpAddr, String>) -> String {
    let [d, c, b, a, ..] = labels else {
        return "unknown".to_owned();
    };
    let Some(address) = dotted(&[a, b, c, d]) else {
        return "error".to_owned();
    };
    if let Some(answer) = except.get(&IpAddr::V4(address)) {
        return answer.clone();
    }
    let mut parts = vec![a.clone(), b.clone(), c.clone(), d.clone()];
    parts.push(format!("{a}-{b}-{c}-{d}"));
    parts.push(format!("{:08x}", u32::from(address)));
    fill(format, &parts).unwrap_or_else(|| "error".to_owned())
}

fn reverse6(labels: &[String], format: &str, except: &BTreeMap<IpAddr, String>) -> String {
    let Some(nibbles) = labels.get(..32) else {
        return "unknown".to_owned();
    };
    let digits: String = nibbles.iter().rev().map(String::as_str).collect();
    let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let address = match u128::from_str_radix(&digits, 16) {
        Ok(bits) if is_hex && digits.len() == 32 => Ipv6Addr::from(bits),
        _ => return "error".to_owned(),
    };
    if let Some(answer) = except.get(&IpAddr::V6(address)) {
        return answer.clone();
    }
    let mut parts: Vec<String> = nibbles.iter().rev().cloned().collect();
    parts.push(dashed(address));
    parts.extend(
        nibbles
            .rchunks(4)
            .map(|four| four.iter().rev().map(String::as_str).collect()),
    );
    fill(format, &parts).unwrap_or_else(|| "error".to_owned())
}

/// The short form of an address with dashes, padded with `0` where a name must not begin or end, or where
/// its third and fourth characters would look like an A-label's (RFC 5890).
fn dashed(address: Ipv6Addr) -> String {
    let mut text = address.to_string().replace(':', "-");
    if text.ends_with('-') {
        text.push('0');
    }
    if text.starts_with('-') || text.get(2..4) == Some("--") {
        text.insert(0, '0');
    }
    text
}

/// Fills `%1%`, `%2%` and so on; a number without a part becomes nothing. `None` if the format is
/// malformed.
fn fill(format: &str, parts: &[String]) -> Option<String> {
    let mut filled = String::new();
    let mut pieces = format.split('%');
    filled.push_str(pieces.next()?);
    while let Some(number) = pieces.next() {
        let literal = pieces.next()?;
        if number.is_empty() {
            filled.push('%');
        } else {
            let number: usize = number.parse().ok()?;
            let part = parts.get(number.checked_sub(1)?);
            filled.push_str(part.map_or("", String::as_str));
        }
        filled.push_str(literal);
    }
    Some(filled)
}
