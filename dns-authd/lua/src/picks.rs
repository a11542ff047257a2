//! `all` and the functions whose names begin with `pick`: answers from lists, without regard to
//! health (docs/lua-records/functions.rst of `PowerDNS`).

use std::rc::Rc;
use std::sync::Arc;

use mlua::{Lua, Table, Value};

use crate::run::Run;
use crate::select::{Member, Ring, Select, hash_map_order};
use crate::values;

/// Adds the functions to the globals of programs.
pub(crate) fn install(lua: &Lua, globals: &Table, run: &Rc<Run>) -> mlua::Result<()> {
    let one_of = |name: &'static str, select: Select| {
        let run = Rc::clone(run);
        lua.create_function(move |_, list: Value| {
            first(run.pick(plain(&list, name)?, select.clone())?)
        })
    };
    globals.raw_set("pickrandom", one_of("pickrandom", Select::Random)?)?;
    globals.raw_set("pickhashed", one_of("pickhashed", Select::Hashed)?)?;
    globals.raw_set("pickclosest", closest(lua, run)?)?;
    let weighted_of = |name: &'static str, select: Select| {
        let run = Rc::clone(run);
        lua.create_function(move |_, list: Value| {
            first(run.pick(weighted(&list, name)?, select.clone())?)
        })
    };
    for (name, select) in [
        ("pickwrandom", Select::WeightedRandom),
        ("pickwhashed", Select::WeightedHashed),
        ("picknamehashed", Select::NameHashed),
    ] {
        globals.raw_set(name, weighted_of(name, select)?)?;
    }
    globals.raw_set("pickchashed", consistent(lua, run)?)?;
    globals.raw_set("pickrandomsample", sample(lua, run)?)?;
    let all = Rc::clone(run);
    globals.raw_set(
        "all",
        lua.create_function(move |_, list: Value| all.pick(plain(&list, "all")?, Select::All))?,
    )
}

fn closest(lua: &Lua, run: &Rc<Run>) -> mlua::Result<mlua::Function> {
    let run = Rc::clone(run);
    lua.create_function(move |_, list: Value| {
        crate::geography::note_no_places(&run, "pickclosest");
        first(run.pick(plain(&list, "pickclosest")?, Select::Random)?)
    })
}

fn consistent(lua: &Lua, run: &Rc<Run>) -> mlua::Result<mlua::Function> {
    let run = Rc::clone(run);
    lua.create_function(move |_, list: Value| {
        let members = weighted(&list, "pickchashed")?;
        let Some(ring) = Ring::new(&members) else {
            return Err(values::refuse(format!(
                "pickchashed: the weights sum to more than {}",
                Ring::MAX_POINTS
            )));
        };
        first(run.pick(members, Select::ConsistentHashed(Arc::new(ring)))?)
    })
}

fn sample(lua: &Lua, run: &Rc<Run>) -> mlua::Result<mlua::Function> {
    let run = Rc::clone(run);
    lua.create_function(move |_, (count, list): (Value, Value)| {
        let count = values::integer(&count, "pickrandomsample: the number")?;
        let members = plain(&list, "pickrandomsample")?;
        // PowerDNS reads a negative number as a very large one.
        let count = usize::try_from(count).unwrap_or(members.len());
        let count = count.min(members.len());
        run.pick(members, Select::Sample(count))
    })
}

/// The members of a list of strings, which must not be empty.
fn plain(list: &Value, name: &str) -> mlua::Result<Vec<Member>> {
    let texts = values::texts(list, &format!("{name}: its argument"))?;
    if texts.is_empty() {
        return Err(values::refuse(format!("{name}: the list is empty")));
    }
    Ok(texts
        .into_iter()
        .map(|value| Member { value, weight: 1 })
        .collect())
}

/// The members of a list of `{weight, value}`, which must not be empty, in the order that hashes use.
fn weighted(list: &Value, name: &str) -> mlua::Result<Vec<Member>> {
    let members = values::weighted(list, name)?;
    if members.is_empty() {
        return Err(values::refuse(format!("{name}: the list is empty")));
    }
    Ok(hash_map_order(members.len())
        .into_iter()
        .filter_map(|position| members.get(position).cloned())
        .collect())
}

/// The single drawn answer.
fn first(answers: Vec<String>) -> mlua::Result<String> {
    answers
        .into_iter()
        .next()
        .ok_or_else(|| values::refuse("nothing to pick from"))
}
