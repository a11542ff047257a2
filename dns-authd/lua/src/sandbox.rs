//! The environment of a program: parts of Lua's own library, the functions of `PowerDNS`, and the data of
//! the query.
//!
//! A program can read and write nothing but its own globals, which die with the run. Files, the
//! environment, other code, threads, the debugger and the collector are absent. The rest is bounded:
//! instructions by the hook, memory by the allocator, and the library functions that loop without executing
//! instructions by refusing to loop for long. The latter work on plain tables only: a metatable could tell
//! them that a table has 2⁶³ entries.
//!
//! Each run gets its own copies of the library tables, made at their first use, so that a program that
//! breaks `string.format` breaks it only for itself.

use std::net::SocketAddr;
use std::rc::Rc;

use dns_wire::{Rcode, Type};
use mlua::{Function, Lua, LuaOptions, MultiValue, StdLib, Table, Value};

use crate::note::{Note, Severity};
use crate::objects::{Address, DnsName, Header, Network};
use crate::run::Run;
use crate::{
    checks, geography, hash, includes, nodes, objects, patterns, picks, reverse, select, values,
};

/// An interpreter with everything installed that programs may use.
pub(crate) struct Sandbox {
    pub(crate) lua: Lua,
    /// The metatable of every program's globals.
    pub(crate) globals_meta: Table,
}

/// The functions of Lua's base library that programs keep unchanged.
const BASE: [&str; 14] = [
    "assert",
    "error",
    "getmetatable",
    "ipairs",
    "next",
    "pairs",
    "rawequal",
    "rawget",
    "rawlen",
    "rawset",
    "select",
    "tonumber",
    "tostring",
    "type",
];

/// The library tables that programs get copies of.
const LIBRARIES: [&str; 5] = ["math", "pdns", "string", "table", "utf8"];

/// The highest count of the functions of `table` and of `string.rep`.
const MAX_REPEATS: i64 = 100_000;

impl Sandbox {
    pub(crate) fn new(run: &Rc<Run>) -> mlua::Result<Self> {
        let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH | StdLib::UTF8;
        let lua = Lua::new_with(libraries, LuaOptions::default())?;
        let base = lua.create_table()?;
        for name in BASE {
            base.raw_set(name, lua.globals().raw_get::<Value>(name)?)?;
        }
        base.raw_set("_VERSION", "Lua 5.4")?;
        guard(&lua, &base, run)?;
        tame_tables(&lua, &base, run)?;
        tame_strings(&lua)?;
        patterns::install(&lua, run)?;
        tame_math(&lua, run)?;
        lua.globals().raw_set("pdns", constants(&lua)?)?;
        talk(&lua, &base, run)?;
        objects::install(&lua, &base, run)?;
        picks::install(&lua, &base, run)?;
        checks::install(&lua, &base, run)?;
        nodes::install(&lua, &base, run)?;
        geography::install(&lua, &base, run)?;
        reverse::install(&lua, &base, run)?;
        // Names that are not in `base` are looked up at their first use.
        let base_meta = lua.create_table()?;
        base_meta.raw_set("__index", on_first_read(&lua, run)?)?;
        base.set_metatable(Some(base_meta))?;
        let globals_meta = lua.create_table()?;
        globals_meta.raw_set("__index", base)?;
        globals_meta.raw_set("__metatable", false)?;
        Ok(Self { lua, globals_meta })
    }

    /// Empty globals for one run.
    pub(crate) fn globals(&self) -> mlua::Result<Table> {
        let globals = self.lua.create_table()?;
        globals.set_metatable(Some(self.globals_meta.clone()))?;
        Ok(globals)
    }
}

impl std::fmt::Debug for Sandbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sandbox").finish_non_exhaustive()
    }
}

//--- Errors and metatables

/// `pcall`, `xpcall` and `setmetatable` in versions that respect the instruction limit: a program must not
/// catch its own end, nor put work into a finalizer, where no limit holds.
fn guard(lua: &Lua, base: &Table, run: &Rc<Run>) -> mlua::Result<()> {
    let source = "
        local pcall, xpcall, setmetatable, rawget, error, check = ...
        local function finish(...) check(...) return ... end
        return
            function(...) return finish(pcall(...)) end,
            function(...) return finish(xpcall(...)) end,
            function(table, meta)
                if meta ~= nil and rawget(meta, '__gc') ~= nil then
                    error('finalizers are not allowed', 2)
                end
                return setmetatable(table, meta)
            end";
    let run = Rc::clone(run);
    let check = lua.create_function(move |_, _: MultiValue| {
        if run.exhausted.get() {
            return Err(values::refuse("out of instructions"));
        }
        Ok(())
    })?;
    let globals = lua.globals();
    let make: Function = lua.load(source).set_name("=guard").into_function()?;
    let (pcall, xpcall, setmetatable): (Function, Function, Function) = make.call((
        globals.raw_get::<Function>("pcall")?,
        globals.raw_get::<Function>("xpcall")?,
        globals.raw_get::<Function>("setmetatable")?,
        globals.raw_get::<Function>("rawget")?,
        globals.raw_get::<Function>("error")?,
        check,
    ))?;
    base.raw_set("pcall", pcall)?;
    base.raw_set("xpcall", xpcall)?;
    base.raw_set("setmetatable", setmetatable)
}

//--- Libraries

fn tame_tables(lua: &Lua, base: &Table, run: &Rc<Run>) -> mlua::Result<()> {
    let table: Table = lua.globals().raw_get("table")?;
    for name in ["concat", "insert", "remove", "sort", "unpack"] {
        let original: Function = table.raw_get(name)?;
        let run = Rc::clone(run);
        let tamed = lua.create_function(move |lua, arguments: MultiValue| {
            let plain = match arguments.front() {
                Some(Value::Table(table)) => !table.has_metatable(),
                _ => true,
            };
            if !plain {
                return Err(values::refuse(format!(
                    "table.{name} works on tables without a metatable"
                )));
            }
            match (name, arguments.len()) {
                ("concat", _) => check_range(lua, arguments.get(2), arguments.get(3), name)?,
                // Each of these walks the entries; an insertion at the end moves nothing.
                ("sort", _) | ("insert", 3..) | ("remove", 2..) => {
                    check_length(arguments.front(), name)?;
                }
                _ => {}
            }
            run.nested(|| original.call::<MultiValue>(arguments))
        })?;
        table.raw_set(name, tamed)?;
    }
    let original: Function = table.raw_get("move")?;
    let move_run = Rc::clone(run);
    let tamed = lua.create_function(move |lua, arguments: MultiValue| {
        check_range(lua, arguments.get(1), arguments.get(2), "move")?;
        move_run.nested(|| original.call::<MultiValue>(arguments))
    })?;
    table.raw_set("move", tamed)?;
    // Lua 5.1 had it among the globals, and so do many programs.
    base.raw_set("unpack", table.raw_get::<Value>("unpack")?)
}

fn check_range(
    lua: &Lua,
    first: Option<&Value>,
    last: Option<&Value>,
    name: &str,
) -> mlua::Result<()> {
    match (integer(lua, first)?, integer(lua, last)?) {
        (Some(first), Some(last)) if last.saturating_sub(first) >= MAX_REPEATS => {
            Err(too_many(name))
        }
        _ => Ok(()),
    }
}

/// The length is Lua's own result, which for a table with gaps can be far beyond its entries.
fn check_length(table: Option<&Value>, name: &str) -> mlua::Result<()> {
    let Some(Value::Table(table)) = table else {
        return Ok(());
    };
    match usize::try_from(MAX_REPEATS) {
        Ok(most) if table.raw_len() > most => Err(too_many(name)),
        _ => Ok(()),
    }
}

fn too_many(name: &str) -> mlua::Error {
    values::refuse(format!("table.{name} over more than {MAX_REPEATS} entries"))
}

/// A value that Lua's library takes for an integer: strings too, in each of Lua's notations. The library
/// itself refuses a value for which this is `None`.
fn integer(lua: &Lua, value: Option<&Value>) -> mlua::Result<Option<i64>> {
    value.map_or(Ok(None), |value| lua.coerce_integer(value.clone()))
}

fn tame_strings(lua: &Lua) -> mlua::Result<()> {
    let string: Table = lua.globals().raw_get("string")?;
    string.raw_remove("dump")?;
    let original: Function = string.raw_get("rep")?;
    let rep = lua.create_function(move |lua, arguments: MultiValue| {
        if integer(lua, arguments.get(1))?.is_some_and(|n| n > MAX_REPEATS) {
            return Err(values::refuse(format!(
                "string.rep of more than {MAX_REPEATS}"
            )));
        }
        original.call::<MultiValue>(arguments)
    })?;
    string.raw_set("rep", rep)?;
    // Methods of strings are found through this metatable, which no program may change.
    let meta = lua.type_metatable::<mlua::LuaString>();
    if let Some(meta) = meta {
        meta.raw_set("__metatable", false)?;
    }
    Ok(())
}

/// Random numbers come from the query's seed, so that a run can be repeated.
fn tame_math(lua: &Lua, run: &Rc<Run>) -> mlua::Result<()> {
    let math: Table = lua.globals().raw_get("math")?;
    let random_run = Rc::clone(run);
    let random = lua.create_function(move |_, (low, high): (Option<i64>, Option<i64>)| {
        let (low, high) = match (low, high) {
            (None, _) => {
                let fraction = random_run.random(select::Random::fraction);
                return Ok(Value::Number(fraction));
            }
            (Some(high), None) => (1, high),
            (Some(low), Some(high)) => (low, high),
        };
        if high < low {
            return Err(values::refuse("math.random: the interval is empty"));
        }
        let n_numbers = high.abs_diff(low).saturating_add(1);
        let above = random_run.random(|random| random.below(n_numbers));
        Ok(Value::Integer(low.saturating_add_unsigned(above)))
    })?;
    math.raw_set("random", random)?;
    math.raw_set(
        "randomseed",
        lua.create_function(|_, _: MultiValue| Ok(()))?,
    )
}

/// The table `pdns`: response codes, record types and log levels by name.
fn constants(lua: &Lua) -> mlua::Result<Table> {
    let pdns = lua.create_table()?;
    for (name, rcode) in [
        ("NOERROR", Rcode::NOERROR),
        ("FORMERR", Rcode::FORMERR),
        ("SERVFAIL", Rcode::SERVFAIL),
        ("NXDOMAIN", Rcode::NXDOMAIN),
        ("NOTIMP", Rcode::NOTIMP),
        ("REFUSED", Rcode::REFUSED),
    ] {
        pdns.raw_set(name, rcode.0)?;
    }
    // The types that exist, the experimental ones included (RFC 6895 §3.1); types without a mnemonic print
    // as `TYPE123`, which no program uses as a name.
    for code in (1..300).chain(32_768..32_770) {
        let name = Type(code).to_string();
        if !name.starts_with("TYPE") {
            pdns.raw_set(name, code)?;
        }
    }
    let levels = lua.create_table_from(LOG_LEVELS.iter().copied().zip(0_i64..))?;
    pdns.raw_set("loglevels", levels)?;
    Ok(pdns)
}

/// The names of syslog's severities, from the worst on.
const LOG_LEVELS: [&str; 8] = [
    "Emergency",
    "Alert",
    "Critical",
    "Error",
    "Warning",
    "Notice",
    "Info",
    "Debug",
];

/// `pdnslog`, `print` and `pdnsrandom`.
fn talk(lua: &Lua, base: &Table, run: &Rc<Run>) -> mlua::Result<()> {
    let log_run = Rc::clone(run);
    let log = lua.create_function(move |_, (message, level): (Value, Option<i64>)| {
        let severity = match level.unwrap_or(4) {
            ..=3 => Severity::Error,
            4 => Severity::Warning,
            5 | 6 => Severity::Info,
            _ => Severity::Debug,
        };
        let message = values::string(&message, "pdnslog: the message")?;
        log_run.note(Note::new(severity, message));
        Ok(())
    })?;
    base.raw_set("pdnslog", log)?;
    let print_run = Rc::clone(run);
    let print = lua.create_function(move |_, arguments: MultiValue| {
        let texts: Vec<String> =
            print_run.nested(|| arguments.iter().map(Value::to_string).collect())?;
        print_run.note(Note::new(Severity::Info, texts.join("\t")));
        Ok(())
    })?;
    base.raw_set("print", print)?;
    let random_run = Rc::clone(run);
    let random = lua.create_function(move |_, bound: Option<u32>| {
        let bound = bound.map_or(1 << 32, u64::from);
        Ok(random_run.random(|random| random.below(bound)))
    })?;
    base.raw_set("pdnsrandom", random)
}

//--- - Names that are looked up at their first use

/// The function that finds globals that differ between runs, and stores what it found among the globals of
/// this one.
fn on_first_read(lua: &Lua, run: &Rc<Run>) -> mlua::Result<Function> {
    let include = includes::include(lua, run)?;
    let lookup = includes::lookup(lua, run)?;
    let run = Rc::clone(run);
    lua.create_function(move |lua, (_, name): (Value, Value)| {
        let Some(name) = values::text(&name) else {
            return Ok(Value::Nil);
        };
        let value = match name.as_str() {
            "include" => Value::Function(include.clone()),
            "dblookup" => Value::Function(lookup.clone()),
            library if LIBRARIES.contains(&library) => {
                Value::Table(copy(lua, &lua.globals().raw_get(library)?)?)
            }
            "_G" => run.environment().map_or(Value::Nil, Value::Table),
            name => of_query(lua, &run, name)?,
        };
        if let (false, Some(environment)) = (value.is_nil(), run.environment()) {
            environment.raw_set(name, &value)?;
        }
        Ok(value)
    })
}

fn copy(lua: &Lua, original: &Table) -> mlua::Result<Table> {
    let copy = lua.create_table()?;
    for pair in original.pairs::<Value, Value>() {
        let (key, value) = pair?;
        copy.raw_set(key, value)?;
    }
    Ok(copy)
}

/// A variable of the query; nil if there is none of that name.
fn of_query(lua: &Lua, run: &Run, name: &str) -> mlua::Result<Value> {
    let subject = run.subject()?;
    let client = &subject.client;
    let object = match name {
        "zone" => lua.create_userdata(DnsName(subject.snippet.zone.clone())),
        "zoneid" => {
            let id = hash::name(subject.snippet.zone.as_wire());
            return Ok(Value::Integer(i64::from(id)));
        }
        "qname" => lua.create_userdata(DnsName(run.qname()?)),
        "who" => {
            let who = SocketAddr::new(client.who.ip().to_canonical(), client.who.port());
            lua.create_userdata(Address(who))
        }
        "localwho" => lua.create_userdata(Address(client.local)),
        "bestwho" => lua.create_userdata(Address::of(client.best_who())),
        "dh" => lua.create_userdata(Header(client.header)),
        "ecswho" => {
            run.reads_query();
            return match client.subnet {
                Some(subnet) => Ok(Value::UserData(
                    lua.create_userdata(Network(subnet.trunc()))?,
                )),
                None => Ok(Value::Nil),
            };
        }
        "tcp" => {
            run.reads_query();
            return Ok(Value::Boolean(client.tcp));
        }
        "dnssecOK" => {
            run.reads_query();
            return Ok(Value::Boolean(client.dnssec_ok));
        }
        "ednsPKTSize" => {
            run.reads_query();
            return Ok(Value::Integer(client.payload_size.map_or(-1, i64::from)));
        }
        _ => return Ok(Value::Nil),
    };
    if !matches!(name, "zone" | "qname") {
        run.reads_query();
    }
    object.map(Value::UserData)
}
