//! `ifportup`, `ifurlup` and `ifurlextup`: answers from those addresses that are healthy
//! (docs/lua-records/functions.rst of `PowerDNS`).
//!
//! Nothing is probed here. Each call names the targets of all its sets and reads their liveness from
//! the view; healthd probes.

use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

use mlua::{Lua, Table, Value};

use crate::liveness::{Candidate, decide, suppose};
use crate::note::Note;
use crate::options::{Options, Url};
use crate::run::{Run, raise};
use crate::target;
use crate::values;

/// Adds the functions to the globals of programs.
pub(crate) fn install(lua: &Lua, globals: &Table, run: &Rc<Run>) -> mlua::Result<()> {
    let port_run = Rc::clone(run);
    let if_port_up = lua.create_function(
        move |_, (port, addresses, options): (Value, Value, Value)| {
            port_up(&port_run, &port, &addresses, &options)
        },
    )?;
    globals.raw_set("ifportup", if_port_up)?;
    let url_run = Rc::clone(run);
    let if_url_up =
        lua.create_function(move |_, (url, addresses, options): (Value, Value, Value)| {
            url_up(&url_run, &url, &addresses, &options)
        })?;
    globals.raw_set("ifurlup", if_url_up)?;
    let ext_run = Rc::clone(run);
    let if_url_ext_up = lua.create_function(move |_, (sets, options): (Value, Value)| {
        url_ext_up(&ext_run, &sets, &options)
    })?;
    globals.raw_set("ifurlextup", if_url_ext_up)
}

fn port_up(
    run: &Run,
    port: &Value,
    addresses: &Value,
    options: &Value,
) -> mlua::Result<Vec<String>> {
    let name = "ifportup";
    let port = values::integer(port, "ifportup: the port")?.clamp(0, i64::from(u16::MAX));
    let port = u16::try_from(port).unwrap_or(u16::MAX);
    let options = read_options(run, options, name)?;
    let sets = address_sets(addresses, name)?;
    let sets = sets.into_iter().map(|set| {
        set.into_iter()
            .map(|(address, own_port)| Candidate {
                answer: address.to_string(),
                target: target::port(
                    SocketAddr::new(address, own_port.unwrap_or(port)),
                    &options.probe,
                    &run.settings,
                ),
            })
            .collect()
    });
    conclude(run, &sets.collect::<Vec<_>>(), &options, name)
}

fn url_up(run: &Run, url: &Value, addresses: &Value, options: &Value) -> mlua::Result<Vec<String>> {
    let name = "ifurlup";
    let url = read_url(url, name)?;
    let options = read_options(run, options, name)?;
    let sets = address_sets(addresses, name)?;
    let sets = sets.into_iter().map(|set| {
        set.into_iter()
            .map(|(address, _)| Candidate {
                answer: address.to_string(),
                target: Some(target::url(&url, address, &options.probe, &run.settings)),
            })
            .collect()
    });
    conclude(run, &sets.collect::<Vec<_>>(), &options, name)
}

fn url_ext_up(run: &Run, sets: &Value, options: &Value) -> mlua::Result<Vec<String>> {
    let name = "ifurlextup";
    let options = read_options(run, options, name)?;
    let mut read = Vec::new();
    for set in values::entries(sets, "ifurlextup: its argument")? {
        let Value::Table(set) = &set else {
            return Err(values::refuse(format!(
                "{name} takes a list of tables from address to URL, and got {}",
                values::describe(&set)
            )));
        };
        let mut candidates = Vec::new();
        for (address, url) in values::named_texts(set, "ifurlextup: a set")? {
            let (address, _) = read_address(&address, name)?;
            let url = Url::parse(&url).map_err(|error| named(name, &error))?;
            let Some(probed) = url.address() else {
                return Err(values::refuse(format!(
                    "{name}: the host of a URL must be an address, not `{}`",
                    url.host
                )));
            };
            candidates.push(Candidate {
                answer: address.to_string(),
                target: Some(target::url(&url, probed, &options.probe, &run.settings)),
            });
        }
        read.push(candidates);
    }
    conclude(run, &read, &options, name)
}

/// Records the targets, decides, and draws.
fn conclude(
    run: &Run,
    sets: &[Vec<Candidate>],
    options: &Options,
    name: &str,
) -> mlua::Result<Vec<String>> {
    for candidate in sets.iter().flatten() {
        match &candidate.target {
            Some(target) => run.names(target)?,
            None => run.note(Note::warning(format!(
                "{name}: no service can listen on port 0 of {}",
                candidate.answer
            ))),
        }
    }
    let subject = run.subject()?;
    let decided = match run.decision(sets.len() + 1) {
        Some(up) => suppose(sets, options, up, &*subject.view, &run.settings),
        None => decide(sets, options, &*subject.view, &run.settings),
    };
    let choice = decided.map_err(|error| {
        if error.is_defect() {
            named(name, &error.to_string())
        } else {
            raise(error)
        }
    })?;
    run.draw(choice)
}

fn named(name: &str, message: &str) -> mlua::Error {
    values::refuse(format!("{name}: {message}"))
}

fn read_options(run: &Run, options: &Value, name: &str) -> mlua::Result<Options> {
    let table = values::options(options, name)?;
    let mut warn = |message: String| run.note(Note::warning(format!("{name}: {message}")));
    Options::parse(&table, &mut warn).map_err(|error| named(name, &error))
}

fn read_url(url: &Value, name: &str) -> mlua::Result<Url> {
    let text = values::string(url, &format!("{name}: the URL"))?;
    Url::parse(&text).map_err(|error| named(name, &error))
}

/// Addresses, each with the port if it has one of its own.
type AddressSet = Vec<(IpAddr, Option<u16>)>;

/// A flat list of addresses as one set, or a list of such lists in order of priority.
fn address_sets(addresses: &Value, name: &str) -> mlua::Result<Vec<AddressSet>> {
    let what = format!("{name}: the addresses");
    let entries = values::entries(addresses, &what)?;
    if !entries.is_empty() && entries.iter().all(Value::is_table) {
        return entries
            .iter()
            .map(|entry| read_addresses(&values::texts(entry, &what)?, name))
            .collect();
    }
    Ok(vec![read_addresses(
        &values::texts(addresses, &what)?,
        name,
    )?])
}

fn read_addresses(texts: &[String], name: &str) -> mlua::Result<AddressSet> {
    texts.iter().map(|text| read_address(text, name)).collect()
}

/// An address, and the port if it has one of its own.
fn read_address(text: &str, name: &str) -> mlua::Result<(IpAddr, Option<u16>)> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok((address, None));
    }
    match text.parse::<SocketAddr>() {
        Ok(address) => Ok((address.ip(), Some(address.port()))),
        Err(_) => Err(values::refuse(format!("{name}: `{text}` is no address"))),
    }
}
