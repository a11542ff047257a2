//! Any bytes at a stats socket, at each level.

use std::time::Duration;

use haproxy_cli::{
    Answer, Backend, Conversation, Figures, Frontend, LONGEST_LINE, Process, Proxy, Request,
    Server, ServerState, Session, StatsLevel, Step, answer,
};

/// The longest piece that a client sends at once.
const PIECE: usize = 61;

pub(super) fn body(data: &[u8]) {
    let figures = figures();
    for level in [StatsLevel::User, StatsLevel::Operator, StatsLevel::Admin] {
        let mut conversation = Conversation::new(level, Duration::from_secs(10));
        let mut pieces = data.chunks(PIECE);
        let mut n_unread = 0;
        loop {
            assert!(conversation.level() <= level, "no level rises");
            assert!(!conversation.timeout().is_zero());
            match conversation.step() {
                Step::Read => {
                    assert!(n_unread < LONGEST_LINE + PIECE, "lines are bounded");
                    let Some(piece) = pieces.next() else { break };
                    n_unread += piece.len();
                    if piece.contains(&b'\n') {
                        n_unread = 0;
                    }
                    conversation.receive(piece);
                }
                Step::Run(command) => {
                    match answer(&command, &figures) {
                        Answer::Text(text) => {
                            assert!(conversation.framed(&text).len() > text.len())
                        }
                        Answer::Request(request) => {
                            assert_eq!(level, StatsLevel::Admin, "{command:?}");
                            check(&request);
                        }
                    }
                    assert!(!command.line().is_empty());
                }
                Step::Write(text) | Step::Refuse(text) => {
                    assert!(text.ends_with('\n') || text.ends_with("> "), "{text:?}");
                }
                Step::End => break,
            }
        }
    }
}

/// A request is about something that there is.
fn check(request: &Request) {
    match request {
        Request::EndSession(id) => assert_eq!(*id, 26),
        Request::State {
            backend, server, ..
        }
        | Request::MaxConnections {
            backend, server, ..
        }
        | Request::EndSessions { backend, server } => {
            assert_eq!((backend.as_str(), server.as_str()), ("b", "s1"))
        }
        Request::Weight {
            backend,
            server,
            weight,
        } => {
            assert_eq!((backend.as_str(), server.as_str()), ("b", "s1"));
            assert!(*weight <= 256, "{weight}");
        }
    }
}

fn figures() -> Figures {
    let client = ([192, 0, 2, 9], 1).into();
    Figures {
        process: Process {
            threads: 2,
            ..Process::default()
        },
        proxies: vec![Proxy {
            id: 2,
            name: "b".to_owned(),
            mode: "tcp",
            frontend: Some(Frontend::default()),
            backend: Some(Backend {
                servers: vec![server()],
                ..Backend::default()
            }),
        }],
        sessions: vec![Session {
            id: 26,
            client,
            local: None,
            frontend: "b".to_owned(),
            backend: None,
            server: None,
            server_address: None,
            state: "queued",
            age: Duration::ZERO,
            bytes_in: 0,
            bytes_out: 0,
        }],
        sockets: Vec::new(),
    }
}

fn server() -> Server {
    Server {
        id: 1,
        name: "s1".to_owned(),
        address: "192.0.2.1".to_owned(),
        port: 1,
        state: ServerState::Up,
        is_configured: false,
        weight: 256,
        initial_weight: 256,
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
        changed: Duration::ZERO,
        check: None,
    }
}

/// Pieces of lines.
pub(super) const WORDS: &[&str] = &[
    "show stat ",
    "show info ",
    "show servers state ",
    "show servers conn ",
    "show sess ",
    "show backend",
    "show cli level",
    "set server ",
    "set weight ",
    "get weight ",
    "set maxconn server ",
    "set timeout cli ",
    "disable server ",
    "enable server ",
    "shutdown session ",
    "shutdown sessions server ",
    "prompt\n",
    "operator;",
    "user;",
    "help ",
    "quit\n",
    "b/s1 ",
    "#2/#1 ",
    "0x1a",
    "state maint",
    "weight 50%",
    " typed",
    " json",
    " -1 7 -1",
    ";",
    "\n",
    "\\",
    "18446744073709551616",
    "-1",
    "%",
];
