//! `include` and `dblookup`: programs read their own zone.

use std::rc::Rc;
use std::str::FromStr;

use dns_wire::{Name, Type};
use mlua::chunk::ChunkMode;
use mlua::{Function, Lua, Value};

use crate::error::message;
use crate::note::Note;
use crate::run::Run;
use crate::values;

/// `include(name)` runs the `LUA LUA` records at a name of the zone, in the globals of the including
/// program. As in `PowerDNS`, a failing one is reported and skipped.
pub(crate) fn include(lua: &Lua, run: &Rc<Run>) -> mlua::Result<Function> {
    let run = Rc::clone(run);
    lua.create_function(move |lua, name: Value| {
        let name = values::string(&name, "include: the name")?;
        let subject = run.subject()?;
        let zone = &subject.snippet.zone;
        let owner = Name::parse_relative(&name, zone)
            .map_err(|error| values::refuse(format!("include: `{name}` is no name: {error}")))?;
        let programs = subject.snippet.records.programs(&owner);
        if programs.is_empty() {
            run.note(Note::warning(format!(
                "include: {owner} has no LUA record of type LUA"
            )));
        }
        for program in programs {
            let chunk = lua
                .load(&*program)
                .set_mode(ChunkMode::Text)
                .set_name("=include");
            let chunk = match run.environment() {
                Some(environment) => chunk.set_environment(environment),
                None => chunk,
            };
            if let Err(error) = run.nested(|| chunk.exec()) {
                let message = message(&error);
                run.note(Note::error(format!("include: {owner}: {message}")));
            }
        }
        if run.exhausted.get() {
            return Err(values::refuse("out of instructions"));
        }
        Ok(())
    })
}

/// `dblookup(name, type)` lists the data of records that this server has.
pub(crate) fn lookup(lua: &Lua, run: &Rc<Run>) -> mlua::Result<Function> {
    let run = Rc::clone(run);
    lua.create_function(move |_, (name, rtype): (Value, Value)| {
        let text = values::string(&name, "dblookup: the name")?;
        let name = Name::parse(&text)
            .map_err(|error| values::refuse(format!("dblookup: `{text}` is no name: {error}")))?;
        let rtype = match values::string(&rtype, "dblookup: the type")? {
            number if number.bytes().all(|octet| octet.is_ascii_digit()) => {
                number.parse().ok().map(Type)
            }
            mnemonic => Type::from_str(&mnemonic).ok(),
        };
        let Some(rtype) = rtype else {
            return Err(values::refuse("dblookup: no such type"));
        };
        Ok(run.subject()?.snippet.records.data(&name, rtype))
    })
}
