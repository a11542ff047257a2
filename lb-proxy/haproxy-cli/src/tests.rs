//! Conversations, with the answers that HAProxy 2.6.12 gives.

use std::time::Duration;

use super::*;

fn server(id: u32, name: &str, port: u16) -> Server {
    Server {
        id,
        name: name.to_owned(),
        address: "127.0.0.1".to_owned(),
        port,
        state: ServerState::Up,
        is_configured: false,
        weight: 1,
        initial_weight: 1,
        throttle: None,
        is_backup: false,
        limit: None,
        sessions: 0,
        most_sessions: 0,
        total: 0,
        bytes_in: 0,
        bytes_out: 0,
        connects: 0,
        connect_time: Duration::ZERO,
        connect_errors: 0,
        retries: 0,
        redispatches: 0,
        client_aborts: 0,
        server_aborts: 0,
        changed: Duration::from_secs(7),
        check: None,
    }
}

fn proxy(id: u32, name: &str, frontend: bool, servers: Option<Vec<Server>>) -> Proxy {
    Proxy {
        id,
        name: name.to_owned(),
        mode: "tcp",
        frontend: frontend.then(Frontend::default),
        backend: servers.map(|servers| Backend {
            algorithm: "roundrobin",
            is_up: true,
            servers,
            ..Backend::default()
        }),
    }
}

/// A frontend `f`, a backend `b` with three servers, and a `listen` section `l`.
pub(crate) fn figures() -> Figures {
    let s1 = Server {
        weight: 10,
        initial_weight: 10,
        limit: Some(50),
        sessions: 2,
        most_sessions: 3,
        total: 9,
        bytes_in: 100,
        bytes_out: 2_000,
        connects: 4,
        connect_time: Duration::from_millis(10),
        throttle: Some(40),
        ..server(1, "s1", 29_101)
    };
    let s2 = Server {
        state: ServerState::Down,
        check: Some(Check {
            connects_only: true,
            finding: Finding::Down,
            reason: "refused, twice".to_owned(),
            latency: Duration::from_millis(3),
            downs: 1,
            downtime: Duration::from_secs(7),
        }),
        ..server(2, "s2", 29_102)
    };
    let s3 = Server {
        state: ServerState::Maintenance,
        is_configured: true,
        is_backup: true,
        ..server(3, "s3", 29_103)
    };
    Figures {
        process: Process {
            name: "lb-proxy".to_owned(),
            version: "0.1.0".to_owned(),
            threads: 2,
            uptime: Duration::from_secs(93_784),
            ..Process::default()
        },
        proxies: vec![
            proxy(2, "f", true, None),
            proxy(3, "b", false, Some(vec![s1, s2, s3])),
            proxy(4, "l", true, Some(vec![server(1, "x", 29_104)])),
            proxy(5, "demo/web", false, Some(vec![server(1, "n/1", 1)])),
        ],
        sessions: vec![Session {
            id: 26,
            client: "127.0.0.1:5555".parse().unwrap(),
            local: Some("127.0.0.1:29002".parse().unwrap()),
            frontend: "l".to_owned(),
            backend: Some("l".to_owned()),
            server: Some("x".to_owned()),
            server_address: Some("127.0.0.1:29104".parse().unwrap()),
            state: "relaying",
            age: Duration::from_secs(200),
            bytes_in: 10,
            bytes_out: 20,
        }],
        sockets: vec![("/run/h.sock".to_owned(), "admin".to_owned())],
    }
}

/// The outcome of one connection.
struct Said {
    text: String,
    requests: Vec<Request>,
    is_over: bool,
}

fn say(level: StatsLevel, lines: &[&str]) -> Said {
    let figures = figures();
    let mut conversation = Conversation::new(level, Duration::from_secs(10));
    let mut said = Said {
        text: String::new(),
        requests: Vec::new(),
        is_over: false,
    };
    let mut lines = lines.iter();
    loop {
        match conversation.step() {
            Step::Read => match lines.next() {
                Some(line) => conversation.receive(line.as_bytes()),
                None => return said,
            },
            Step::Run(command) => {
                let text = match answer(&command, &figures) {
                    Answer::Text(text) => text,
                    Answer::Request(request) => {
                        said.requests.push(request);
                        String::new()
                    }
                };
                said.text.push_str(&conversation.framed(&text));
            }
            Step::Write(text) | Step::Refuse(text) => said.text.push_str(&text),
            Step::End => {
                said.is_over = true;
                return said;
            }
        }
    }
}

fn one(line: &str) -> Said {
    say(StatsLevel::Admin, &[&format!("{line}\n")])
}

#[track_caller]
fn check(line: &str, expected: &str) {
    let said = one(line);
    assert_eq!(said.text, expected, "{line}");
    assert_eq!(said.requests, [], "{line}");
    assert!(said.is_over, "{line}");
}

#[track_caller]
fn check_request(line: &str, expected: Request) {
    let said = one(line);
    assert_eq!(
        (said.text.as_str(), said.requests.as_slice()),
        ("\n", [expected].as_slice()),
        "{line}"
    );
}

fn state(server: &str, state: ServerState) -> Request {
    Request::State {
        backend: "b".to_owned(),
        server: server.to_owned(),
        state,
    }
}

fn weight(weight: u16) -> Request {
    Request::Weight {
        backend: "b".to_owned(),
        server: "s1".to_owned(),
        weight,
    }
}

fn most(most: u32) -> Request {
    Request::MaxConnections {
        backend: "b".to_owned(),
        server: "s1".to_owned(),
        most,
    }
}

const RANGE: &str = "Absolute weight can only be between 0 and 256 inclusive.\n\n";
const PLACE: &str = "Require 'backend/server'.\n\n";
const USAGE: &str = "usage: set server <backend>/<server> state | weight\n\n";
const STATES: &str = "'set server <srv> state' expects 'ready', 'drain' and 'maint'.\n\n";
const POINTER: &str = "Session pointer expected (use 'show sess').\n\n";

/// Lines, and the answers to them.
const SENTENCES: [(&str, &str); 54] = [
    ("show backend", "# name\nb\nl\ndemo/web\n\n"),
    ("show cli level", "admin\n\n"),
    (
        "show cli sockets",
        "# socket lvl processes\nunix@/run/h.sock admin all\n\n",
    ),
    ("show version", "0.1.0\n\n"),
    ("get weight b/s1", "10 (initial 10)\n\n"),
    ("get weight #3/#1", "10 (initial 10)\n\n"),
    ("get weight demo/web/n/1", "1 (initial 1)\n\n"),
    ("get weight demo/web/n", "No such server.\n\n"),
    ("get weight b/zz", "No such server.\n\n"),
    ("get weight zz/s1", "No such backend.\n\n"),
    ("get weight f/s1", "No such backend.\n\n"),
    ("get weight 3/1", "No such backend.\n\n"),
    ("get weight b", PLACE),
    ("get weight b/", PLACE),
    ("get weight", PLACE),
    ("set weight", PLACE),
    ("set weight b/s1", "Require <weight> or <weight%>.\n\n"),
    ("set weight b/s1 500", RANGE),
    ("set weight b/s1 -1", RANGE),
    ("set weight b/s1 99999999999999999999", RANGE),
    (
        "set weight b/s1 x",
        "Empty weight string empty or preceded by garbage\n",
    ),
    (
        "set weight b/s1 %",
        "Empty weight string empty or preceded by garbage\n",
    ),
    ("set weight b/s1 5x", "Trailing garbage in weight string\n"),
    (
        "set weight b/s1 10%x",
        "Trailing garbage in weight string\n",
    ),
    (
        "set weight b/s1 -5%",
        "Relative weight must be positive.\n\n",
    ),
    ("set server", PLACE),
    ("set server zz/s1 state ready", "No such backend.\n\n"),
    ("set server b/s1", USAGE),
    ("set server b/s1 addr 192.0.2.1", USAGE),
    ("set server b/s1 state", STATES),
    ("set server b/s1 state foo", STATES),
    (
        "set server b/s1 weight",
        "Require <weight> or <weight%>.\n\n",
    ),
    ("set maxconn server bq 4", PLACE),
    ("set maxconn server b/q 4", "No such server.\n\n"),
    ("set maxconn server b/s1", "Require <maxconn>.\n\n"),
    (
        "set maxconn server b/s1 x",
        "maxconn string empty or preceded by garbage\n",
    ),
    (
        "set maxconn server b/s1 10x",
        "Trailing garbage in maxconn string\n",
    ),
    ("disable server b/q", "No such server.\n\n"),
    ("enable server", PLACE),
    ("shutdown sessions server b", PLACE),
    ("shutdown session", POINTER),
    ("shutdown session foo", POINTER),
    ("shutdown session 0xzz", POINTER),
    (
        "shutdown session 0x1",
        "No such session (use 'show sess').\n\n",
    ),
    ("set timeout", "'set timeout' only supports 'cli'.\n\n"),
    (
        "set timeout foo 1",
        "'set timeout' only supports 'cli'.\n\n",
    ),
    ("set timeout cli", "Expects an integer value.\n\n"),
    ("set timeout cli x", "Invalid timeout value.\n\n"),
    ("set timeout cli 5", "\n"),
    ("show servers state zz", "Can't find backend.\n\n"),
    ("show servers conn zz", "Can't find backend.\n\n"),
    ("show sess 0x1", "Session not found.\n\n"),
    ("show stat zz 4 1", "No such proxy.\n\n"),
    ("show stat domain x", "Invalid statistics domain.\n\n"),
];

#[test]
fn sentences_are_those_of_haproxy() {
    for (line, expected) in SENTENCES {
        check(line, expected);
    }
}

#[test]
fn changes_are_requests() {
    for (line, expected) in [
        ("disable server b/s2", state("s2", ServerState::Maintenance)),
        ("enable server b/s3", state("s3", ServerState::Up)),
        ("set server b/s1 state ready", state("s1", ServerState::Up)),
        (
            "set server b/s1 state drain",
            state("s1", ServerState::Drain),
        ),
        (
            "set server #3/#1 state maint",
            state("s1", ServerState::Maintenance),
        ),
        ("set server b/s1 weight 20", weight(20)),
        ("set weight b/s1 0", weight(0)),
        ("set weight b/s1 010", weight(10)),
        ("set weight b/s1 50%", weight(5)),
        ("set weight b/s1 200%", weight(20)),
        ("set weight b/s1 9223372036854775807%", weight(256)),
        ("set maxconn server b/s1 10", most(10)),
        ("set maxconn server b/s1 0", most(0)),
        ("shutdown session 0x1a", Request::EndSession(26)),
        (
            "shutdown sessions server b/s1",
            Request::EndSessions {
                backend: "b".to_owned(),
                server: "s1".to_owned(),
            },
        ),
    ] {
        check_request(line, expected);
    }
}

#[test]
fn a_level_allows_what_it_does_at_haproxy() {
    let denied = "Permission denied\n\n";
    let changes = [
        "set weight b/s1 3",
        "set server b/s1 state ready",
        "set maxconn server b/s1 5",
        "disable server b/s1",
        "enable server b/s1",
        "shutdown session 0x1a",
        "shutdown sessions server b/s1",
    ];
    for line in changes {
        for level in [StatsLevel::User, StatsLevel::Operator] {
            let said = say(level, &[line, "\n"]);
            assert_eq!(
                (said.text.as_str(), said.requests.len()),
                (denied, 0),
                "{line}"
            );
        }
    }
    for line in ["show sess", "show cli sockets", "operator"] {
        assert_eq!(say(StatsLevel::User, &[line, "\n"]).text, denied, "{line}");
        assert_ne!(
            say(StatsLevel::Operator, &[line, "\n"]).text,
            denied,
            "{line}"
        );
    }
    for line in [
        "show stat",
        "show info",
        "show servers state",
        "get weight b/s1",
        "user",
        "help",
    ] {
        assert_ne!(say(StatsLevel::User, &[line, "\n"]).text, denied, "{line}");
    }
    // A connection lowers its level, and never raises it again.
    let said = say(
        StatsLevel::Admin,
        &["operator;show cli level;set weight b/s1 3;user;operator;show cli level\n"],
    );
    let expected = ["\n", "operator\n\n", denied, "\n", denied, "user\n\n"].concat();
    assert_eq!((said.text, said.requests.len()), (expected, 0));
}

#[test]
fn one_line_is_answered_unless_there_is_a_prompt() {
    let said = say(
        StatsLevel::Admin,
        &["get weight", " b/s1;show backend\nget weight b/s2\n"],
    );
    assert_eq!(said.text, "10 (initial 10)\n\n# name\nb\nl\ndemo/web\n\n");
    assert!(said.is_over);
    let said = say(
        StatsLevel::Admin,
        &[
            "prompt\n",
            "get weight b/s1\nset timeout cli 1m\n",
            "quit\nshow backend\n",
        ],
    );
    assert_eq!(said.text, "\n> 10 (initial 10)\n\n> \n> ");
    assert!(said.is_over);
    let said = say(
        StatsLevel::Admin,
        &["prompt\n", "prompt\n", "show backend\n"],
    );
    assert_eq!((said.text.as_str(), said.is_over), ("\n> \n", true));
    // A line without its end waits for it.
    let said = say(StatsLevel::Admin, &["show backend"]);
    assert_eq!((said.text.as_str(), said.is_over), ("", false));
    let said = say(StatsLevel::Admin, &[&"x".repeat(LONGEST_LINE)]);
    assert_eq!((said.text.as_str(), said.is_over), ("", true));
    let long = format!("{}\n", "x".repeat(LONGEST_LINE));
    assert_eq!(say(StatsLevel::Admin, &[&long]).text, "");
}

#[test]
fn a_silence_may_be_as_long_as_the_client_says() {
    let mut conversation = Conversation::new(StatsLevel::User, Duration::from_secs(10));
    conversation.receive(
        b"prompt;set timeout cli 2m;set timeout cli 300ms;set timeout cli 9d;set timeout cli 0\n",
    );
    let mut timeouts = Vec::new();
    while let Step::Write(_) = conversation.step() {
        timeouts.push(conversation.timeout().as_millis());
    }
    assert_eq!(timeouts, [10_000, 120_000, 300, 86_400_000, 86_400_000]);
}

#[test]
fn unknown_commands_are_told_as_haproxy_tells_them() {
    let better = "Unknown command, but maybe one of the following ones is a better match:\n";
    let said = one("set maxconn foo").text;
    let expected = format!(
        "{better}  set maxconn server <bk>/<srv>           : change a server's maxconn setting\n\
         \x20 help [<command>]                        : list matching or all commands\n\
         \x20 prompt                                  : toggle interactive mode with prompt\n\
         \x20 quit                                    : disconnect\n\n"
    );
    assert_eq!(said, expected);
    for line in [
        "show foo",
        "show errors",
        "clear counters",
        "set server-x",
        "show",
        "disable frontend f",
    ] {
        let said = one(line).text;
        let known = ["show", "set", "disable"]
            .iter()
            .any(|word| line.starts_with(word));
        assert_eq!(said.starts_with(better), known, "{line}: {said}");
        assert!(said.starts_with("Unknown command"), "{line}: {said}");
    }
    let all = one("").text;
    assert!(
        all.starts_with("Unknown command. Please enter one of the following commands only:\n"),
        "{all}"
    );
    assert_eq!(all.lines().count(), 25, "{all}");
    let user = say(StatsLevel::User, &["help\n"]).text;
    assert!(
        user.starts_with("The following commands are valid at this level:\n"),
        "{user}"
    );
    assert!(
        !user.contains("set weight") && user.contains("show stat"),
        "{user}"
    );
    let some = one("help show servers").text;
    assert_eq!(some.lines().count(), 7, "{some}");
}

#[test]
fn rows_have_the_columns_of_haproxy() {
    let text = one("show stat").text;
    let mut lines = text.lines();
    let head = lines.next().unwrap().strip_prefix("# ").unwrap();
    assert!(
        head.starts_with("pxname,svname,qcur,qmax,scur,smax,slim,stot,bin,bout,"),
        "{head}"
    );
    assert!(head.ends_with(",agg_check_status,"), "{head}");
    let names: Vec<&str> = head.split(',').collect();
    let rows: Vec<&str> = lines.take_while(|line| !line.is_empty()).collect();
    let firsts: Vec<String> = rows
        .iter()
        .map(|row| row.split(',').take(2).collect::<Vec<_>>().join("/"))
        .collect();
    let expected = [
        "f/FRONTEND",
        "b/s1",
        "b/s2",
        "b/s3",
        "b/BACKEND",
        "l/FRONTEND",
        "l/x",
        "l/BACKEND",
        "demo/web/n/1",
        "demo/web/BACKEND",
    ];
    assert_eq!(firsts, expected);
    let value = |row: usize, name: &str| {
        let at = names.iter().position(|known| *known == name).unwrap();
        rows.get(row)
            .and_then(|row| row.split(',').nth(at))
            .unwrap()
            .to_owned()
    };
    for (row, name, expected) in [
        (0, "status", "OPEN"),
        (0, "type", "0"),
        (1, "status", "no check"),
        (1, "slim", "50"),
        (1, "weight", "10"),
        (1, "throttle", "40"),
        (1, "ctime", "2"),
        (1, "addr", "127.0.0.1:29101"),
        (1, "chkdown", ""),
        (1, "type", "2"),
        (2, "status", "DOWN"),
        (2, "check_status", "L4CON"),
        (2, "last_chk", "\"refused"),
        (3, "status", "MAINT"),
        (3, "bck", "1"),
        (4, "weight", "10"),
        (4, "act", "1"),
        (4, "bout", "2000"),
        (4, "algo", "roundrobin"),
        (4, "type", "1"),
    ] {
        assert_eq!(value(row, name), expected, "row {row} {name}");
    }
}

#[test]
fn rows_are_chosen_as_haproxy_chooses_them() {
    let n_rows = |line: &str| {
        one(line)
            .text
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .count()
    };
    for (line, expected) in [
        ("show stat 3 4 1", 1),
        ("show stat b 2 -1", 1),
        ("show stat -1 4 -1", 5),
        ("show stat -1 7 -1 no-maint", 9),
        ("show stat up", 8),
        ("show stat domain proxy", 10),
        ("show stat 9 4 1", 0),
    ] {
        assert_eq!(n_rows(line), expected, "{line}");
    }
}

#[test]
fn typed_and_json_say_the_same() {
    let typed = one("show stat b 4 1 typed").text;
    assert!(
        typed.starts_with(
            "S.3.1.0.pxname.1:KNS:str:b\nS.3.1.1.svname.1:KNS:str:s1\nS.3.1.2.qcur.1:MGP:u32:0\n"
        ),
        "{typed}"
    );
    assert!(
        typed.contains("\nS.3.1.73.addr.1:CGS:str:127.0.0.1:29101\n"),
        "{typed}"
    );
    let json = one("show stat b 4 1 json").text;
    let start = r#"[[{"objType":"Server","proxyId":3,"id":1,"field":{"pos":0,"name":"pxname"},"processNum":1,"tags":{"origin":"Key","nature":"Name","scope":"Service"},"value":{"type":"str","value":"b"}},"#;
    assert!(json.starts_with(start), "{json}");
    let read: serde_json::Value = serde_json::from_str(&json).unwrap();
    let n_fields = read
        .pointer("/0")
        .and_then(serde_json::Value::as_array)
        .unwrap()
        .len();
    assert_eq!(n_fields, typed.trim_end().lines().count());
    let info = one("show info").text;
    assert!(
        info.starts_with("Name: lb-proxy\nVersion: 0.1.0\n"),
        "{info}"
    );
    assert!(
        info.contains("\nUptime: 1d 2h03m04s\nUptime_sec: 93784\n"),
        "{info}"
    );
    assert!(
        one("show info typed")
            .text
            .starts_with("0.Name.1:POS:str:lb-proxy\n")
    );
    assert!(
        one("show info desc")
            .text
            .starts_with("Name: lb-proxy:\"Product name\"\n")
    );
    let json: serde_json::Value = serde_json::from_str(&one("show info json").text).unwrap();
    assert_eq!(json.pointer("/3/value/value"), Some(&2.into()));
}

#[test]
fn the_state_of_servers_is_in_haproxys_file_format() {
    let text = one("show servers state b").text;
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.first(), Some(&"1"));
    let n_columns = lines.get(1).unwrap().split(' ').count() - 1;
    assert_eq!(n_columns, 25);
    assert_eq!(
        lines.get(2..).unwrap(),
        [
            "3 b 1 s1 127.0.0.1 2 0 10 10 7 1 0 0 0 0 0 0 - 29101 - 0 0 - - 0",
            "3 b 2 s2 127.0.0.1 0 0 1 1 7 8 2 0 6 0 0 0 - 29102 - 0 0 - - 0",
            "3 b 3 s3 127.0.0.1 0 5 1 1 7 1 0 0 0 0 0 0 - 29103 - 0 0 - - 0",
            "",
        ]
    );
    let text = one("show servers conn l").text;
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines.get(1),
        Some(&"l/x 4/1 127.0.0.1 29104 - 0 0 0 0 0 0 0 0 0 0")
    );
    let [head, line] = [lines.first(), lines.get(1)].map(|line| line.unwrap().split(' ').count());
    // The head has a `#` more, and one word for both threads.
    assert_eq!(head - 1, line - 1);
}

#[test]
fn sessions_are_shown_in_a_line_and_whole() {
    check(
        "show sess",
        "0x1a: proto=tcpv4 src=127.0.0.1:5555 fe=l be=l srv=x age=3m20s state=relaying bin=10 bout=20\n\n",
    );
    let whole = "0x1a: id=26 proto=tcpv4 source=127.0.0.1:5555\n\
                 \x20 frontend=l (id=4 mode=tcp), listener=? addr=127.0.0.1:29002\n\
                 \x20 backend=l (id=4 mode=tcp)\n\
                 \x20 server=x addr=127.0.0.1:29104\n\
                 \x20 state=relaying age=3m20s\n\
                 \x20 req=total=10 res=total=20\n\n";
    check("show sess 0x1a", whole);
    check("show sess all", whole);
    assert!(one("show sess zz").text.starts_with("0x1a: proto="));
    for (verb, argument, expected) in [
        (Verb::ShowSess, "0x1a", Some(26)),
        (Verb::ShowSess, "all", None),
        (Verb::ShowSess, "0x0", None),
        (Verb::ShutdownSession, "0x1A", Some(26)),
        (Verb::ShowStat, "0x1a", None),
    ] {
        let arguments = vec![argument.to_owned()];
        let command = Command { verb, arguments };
        assert_eq!(command.session(), expected, "{command:?}");
    }
}
