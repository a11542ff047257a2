//! `show info`: the process, by the names, numbers and tags of HAProxy 2.6.

use std::fmt::Write as _;

use serde_json::{Value as Json, json};

use crate::figures::Process;
use crate::tags::{self, Value};

/// A field: its number at HAProxy, its name, its tags with its type, what it is, and its value.
struct Field {
    number: u32,
    name: &'static str,
    tags: &'static str,
    help: &'static str,
    value: fn(&Process) -> Value,
}

const fn field(
    (number, name, tags): (u32, &'static str, &'static str),
    help: &'static str,
    value: fn(&Process) -> Value,
) -> Field {
    Field {
        number,
        name,
        tags,
        help,
        value,
    }
}

/// Answers `show info` with these arguments.
pub(crate) fn show(process: &Process, arguments: &[String]) -> String {
    let asked = |word: &str| arguments.iter().any(|argument| argument == word);
    if asked("json") {
        let fields: Vec<Json> = FIELDS.iter().map(|field| json(field, process)).collect();
        return format!("{}\n", Json::Array(fields));
    }
    let mut text = String::new();
    for field in &FIELDS {
        let value = (field.value)(process).plain();
        let Field {
            number,
            name,
            tags,
            help,
            ..
        } = field;
        // Writing to a string does not fail.
        let _written = match (asked("typed"), asked("desc")) {
            (true, false) => writeln!(text, "{number}.{name}.1:{tags}:{value}"),
            (true, true) => writeln!(text, "{number}.{name}.1:{tags}:{value}:\"{help}\""),
            (false, true) => writeln!(text, "{name}: {value}:\"{help}\""),
            (false, false) => writeln!(text, "{name}: {value}"),
        };
    }
    text
}

fn json(field: &Field, process: &Process) -> Json {
    let kind = field.tags.split_once(':').map_or("str", |(_, kind)| kind);
    json!({
        "field": { "pos": field.number, "name": field.name },
        "processNum": 1,
        "tags": tags::words(field.tags),
        "value": (field.value)(process).json(kind),
    })
}

/// The fields, with HAProxy's own spelling of one of them.
static FIELDS: [Field; 29] = [
    field((0, "Name", "POS:str"), "Product name", |process| {
        (&process.name).into()
    }),
    field((1, "Version", "POS:str"), "Product version", |process| {
        (&process.version).into()
    }),
    field(
        (2, "Release_date", "POS:str"),
        "Date of the build",
        |process| (&process.release_date).into(),
    ),
    field(
        (3, "Nbthread", "CGS:u32"),
        "Threads of the data path",
        |process| process.threads.into(),
    ),
    field((4, "Nbproc", "CGS:u32"), "Processes", |_| 1_u32.into()),
    field(
        (5, "Process_num", "KGP:u32"),
        "Number of this process",
        |_| 1_u32.into(),
    ),
    field((6, "Pid", "SGP:u32"), "Process identifier", |process| {
        process.pid.into()
    }),
    field(
        (7, "Uptime", "MDP:str"),
        "Time since the start",
        |process| uptime(process).as_str().into(),
    ),
    field(
        (8, "Uptime_sec", "MDP:u32"),
        "Time since the start, in seconds",
        |process| process.uptime.as_secs().into(),
    ),
    field(
        (13, "Ulimit-n", "CLP:u32"),
        "Limit of file descriptors",
        |process| process.descriptors.into(),
    ),
    field((14, "Maxsock", "CLP:u32"), "Limit of sockets", |process| {
        process.descriptors.into()
    }),
    field((15, "Maxconn", "CLP:u32"), "Limit of sessions", |process| {
        process.most_sessions.into()
    }),
    field(
        (16, "Hard_maxconn", "CLP:u32"),
        "Limit of sessions",
        |process| process.most_sessions.into(),
    ),
    field((17, "CurrConns", "MGP:u32"), "Open sessions", |process| {
        process.sessions.into()
    }),
    field(
        (18, "CumConns", "MCP:u32"),
        "Connections accepted",
        |process| process.accepted.into(),
    ),
    field(
        (19, "CumReq", "MCP:u32"),
        "Connections accepted",
        |process| process.accepted.into(),
    ),
    field(
        (23, "Maxpipes", "CLP:u32"),
        "Limit of pipes for splicing",
        |process| process.most_pipes.into(),
    ),
    field((24, "PipesUsed", "MGP:u32"), "Pipes in use", |process| {
        process.pipes.into()
    }),
    field((47, "Tasks", "MGP:u32"), "Open sessions", |process| {
        process.sessions.into()
    }),
    field(
        (48, "Run_queue", "MGP:u32"),
        "Sessions that wait for a turn: none does",
        |_| 0_u32.into(),
    ),
    field((50, "node", "COS:str"), "Name of the node", |process| {
        (&process.node).into()
    }),
    field(
        (52, "Stopping", "MGP:u32"),
        "1 while the process ends",
        |process| process.is_stopping.into(),
    ),
    field(
        (53, "Jobs", "MGP:u32"),
        "Open sessions and listeners",
        |process| process.sessions.saturating_add(process.listeners).into(),
    ),
    field((55, "Listeners", "MGP:u32"), "Listeners", |process| {
        process.listeners.into()
    }),
    field(
        (58, "DroppedLogs", "MGP:u32"),
        "Records of the access log that were dropped",
        |process| process.dropped_logs.into(),
    ),
    field(
        (61, "TotalBytesOut", "MGP:u64"),
        "Bytes to clients",
        |process| process.bytes_out.into(),
    ),
    field(
        (62, "TotalSplicdedBytesOut", "MGP:u64"),
        "Bytes that went through pipes",
        |process| process.spliced_bytes.into(),
    ),
    field(
        (66, "Build info", "POS:str"),
        "Product version",
        |process| (&process.version).into(),
    ),
    field(
        (70, "Start_time_sec", "MDP:u32"),
        "Start, in seconds since 1970",
        |process| process.started.into(),
    ),
];

/// As in `2d 3h04m05s`.
fn uptime(process: &Process) -> String {
    let seconds = process.uptime.as_secs();
    let (days, hours) = (seconds / 86_400, seconds / 3_600 % 24);
    let (minutes, seconds) = (seconds / 60 % 60, seconds % 60);
    format!("{days}d {hours}h{minutes:02}m{seconds:02}s")
}
