//! Functions about a client's location: `netmask` and `view` by its address, and those that need a
//! geographic database, which this server does not have.
//!
//! The latter return the results of `PowerDNS` without its geoip backend: no client is in any country,
//! every code is `--`, and all addresses are equally close.

use std::net::IpAddr;
use std::rc::Rc;

use ipnet::IpNet;
use mlua::{Lua, Table, Value};

use crate::note::Note;
use crate::run::Run;
use crate::select::{Member, Select};
use crate::values;

/// Adds the functions to the globals of programs.
pub(crate) fn install(lua: &Lua, globals: &Table, run: &Rc<Run>) -> mlua::Result<()> {
    let netmask_run = Rc::clone(run);
    let netmask = lua.create_function(move |_, list: Value| {
        let nets = networks(&list, "netmask: its argument")?;
        let client = best_who(&netmask_run)?;
        let inside = nets.iter().any(|net| net.contains(&client));
        Ok(netmask_run.judgement(inside))
    })?;
    globals.raw_set("netmask", netmask)?;
    let view_run = Rc::clone(run);
    globals.raw_set(
        "view",
        lua.create_function(move |_, rules: Value| view(&view_run, &rules))?,
    )?;
    for name in ["asnum", "continent", "country", "region"] {
        let run = Rc::clone(run);
        let is_in = lua.create_function(move |_, _: Value| {
            note_no_places(&run, name);
            Ok(run.judgement(false))
        })?;
        globals.raw_set(name, is_in)?;
    }
    let constant = |name: &'static str, answer: &'static str| {
        let run = Rc::clone(run);
        lua.create_function(move |_, _: mlua::MultiValue| {
            note_no_places(&run, name);
            Ok(answer)
        })
    };
    for (name, answer) in [
        ("continentCode", "--"),
        ("countryCode", "--"),
        ("regionCode", "--"),
        ("latlon", NOWHERE),
        ("latlonloc", NOWHERE_LOC),
        ("geoiplookup", "unknown"),
    ] {
        globals.raw_set(name, constant(name, answer)?)?;
    }
    globals.raw_set("GeoIPQueryAttribute", attributes(lua)?)?;
    install_magic(lua, globals, run)
}

/// Latitude and longitude of a client without a known location.
const NOWHERE: &str = "0.000000 0.000000";
/// The same as a LOC record, exactly as `PowerDNS` prints it.
const NOWHERE_LOC: &str = "0 0 -0 S 0 0 -0 W 0.00m 1.00m 10000.00m 10.00m";

/// `closestMagic` and `latlonMagic`, which take addresses from the question's name.
fn install_magic(lua: &Lua, globals: &Table, run: &Rc<Run>) -> mlua::Result<()> {
    let closest_run = Rc::clone(run);
    let closest = lua.create_function(move |_, ()| {
        note_no_places(&closest_run, "closestMagic");
        let members: Vec<Member> = closest_run
            .qname()?
            .labels()
            .map_while(dashed_address)
            .map(|address| Member {
                value: address.to_string(),
                weight: 1,
            })
            .collect();
        closest_run
            .pick(members, Select::Random)?
            .into_iter()
            .next()
            .ok_or_else(|| values::refuse("closestMagic: the name holds no address"))
    })?;
    globals.raw_set("closestMagic", closest)?;
    let place_run = Rc::clone(run);
    let place = lua.create_function(move |_, ()| {
        note_no_places(&place_run, "latlonMagic");
        let n_labels = place_run.qname()?.n_labels();
        Ok(if n_labels < 4 { "unknown" } else { NOWHERE })
    })?;
    globals.raw_set("latlonMagic", place)
}

/// Notes that a function has no geographic data.
pub(crate) fn note_no_places(run: &Run, name: &str) {
    run.note(Note::warning(format!(
        "{name}: this server has no geographic database, so no client has a location"
    )));
}

/// The address that a label spells with dashes, such as `192-0-2-1`.
fn dashed_address(label: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(label).ok()?.replace('-', ".");
    text.parse().ok()
}

/// The numbers of the fields of `geoiplookup`.
fn attributes(lua: &Lua) -> mlua::Result<Table> {
    let names = [
        "ASn",
        "City",
        "Continent",
        "Country",
        "Country2",
        "Name",
        "Region",
        "Location",
    ];
    lua.create_table_from(names.into_iter().zip(0..))
}

/// The client's address, read by the program.
fn best_who(run: &Run) -> mlua::Result<IpAddr> {
    run.reads_query();
    Ok(run.subject()?.client.best_who())
}

fn networks(list: &Value, what: &str) -> mlua::Result<Vec<IpNet>> {
    values::texts(list, what)?
        .iter()
        .map(|text| network(text))
        .collect()
}

/// A network, or a single address as a network.
pub(crate) fn network(text: &str) -> mlua::Result<IpNet> {
    text.parse::<IpNet>()
        .or_else(|_| text.parse::<IpAddr>().map(IpNet::from))
        .map_err(|_| values::refuse(format!("`{text}` is no network")))
}

/// The first rule with a network that holds the client gives a random one of its answers; without a match
/// the answer is the empty string, which few types accept.
fn view(run: &Run, rules: &Value) -> mlua::Result<String> {
    let client = best_who(run)?;
    let mut read = Vec::new();
    for rule in values::entries(rules, "view: its argument")? {
        let parts = values::entries(&rule, "view: a rule")?;
        let [nets, answers, ..] = parts.as_slice() else {
            return Err(values::refuse(
                "view: a rule must hold a list of networks and a list of answers",
            ));
        };
        read.push((
            networks(nets, "view: the networks")?,
            values::texts(answers, "view: the answers")?,
        ));
    }
    let Some((_, answers)) = read
        .into_iter()
        .find(|(nets, _)| nets.iter().any(|net| net.contains(&client)))
    else {
        return Ok(String::new());
    };
    let members = answers
        .into_iter()
        .map(|value| Member { value, weight: 1 })
        .collect();
    run.pick(members, Select::Random)?
        .into_iter()
        .next()
        .ok_or_else(|| values::refuse("view: a rule without answers"))
}
