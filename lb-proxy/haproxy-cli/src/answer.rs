//! The answer to a command: a text, or something that the caller does.

use crate::commands::{Command, Verb};
use crate::figures::{Figures, Proxy, Server, ServerState};
use crate::{info, sessions, stat, state};

/// The heaviest weight, as HAProxy has it.
const MAX_WEIGHT: i64 = 256;

/// The answer to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// This text.
    Text(String),
    /// Nothing, once the caller has done this; else the caller's sentence.
    Request(Request),
}

/// A change that an operator wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// A server gets a state.
    State {
        /// Its backend.
        backend: String,
        /// Its name.
        server: String,
        /// The state; [`ServerState::Up`] takes an earlier request back.
        state: ServerState,
    },
    /// A server gets a weight.
    Weight {
        /// Its backend.
        backend: String,
        /// Its name.
        server: String,
        /// From 0 to 256.
        weight: u16,
    },
    /// A server gets a limit of sessions.
    MaxConnections {
        /// Its backend.
        backend: String,
        /// Its name.
        server: String,
        /// The limit; zero stands for none.
        most: u32,
    },
    /// A session ends.
    EndSession(u64),
    /// All sessions of a server end.
    EndSessions {
        /// Its backend.
        backend: String,
        /// Its name.
        server: String,
    },
}

/// Answers a command by the figures of the moment.
#[must_use]
pub fn answer(command: &Command, figures: &Figures) -> Answer {
    let arguments = command.arguments.as_slice();
    let text = match command.verb {
        Verb::ShowInfo => info::show(&figures.process, arguments),
        Verb::ShowStat => stat::show(figures, arguments),
        Verb::ShowServersState => state::show(figures, arguments),
        Verb::ShowServersConn => state::connections(figures, arguments),
        Verb::ShowBackend => backends(figures),
        Verb::ShowSess => sessions::show(figures, arguments),
        Verb::ShowSockets => sockets(figures),
        Verb::ShowVersion => format!("{}\n", figures.process.version),
        Verb::ShutdownSession => match session(figures, arguments) {
            Ok(request) => return Answer::Request(request),
            Err(sentence) => sentence.to_owned(),
        },
        Verb::DisableServer
        | Verb::EnableServer
        | Verb::GetWeight
        | Verb::SetMaxconn
        | Verb::SetServer
        | Verb::SetWeight
        | Verb::ShutdownSessions => {
            let place = arguments.first().map_or("", String::as_str);
            let rest = arguments.get(1..).unwrap_or_default();
            return match figures.server(place) {
                Ok(found) => about_server(command.verb, found, rest),
                Err(sentence) => Answer::Text(sentence.to_owned()),
            };
        }
    };
    Answer::Text(text)
}

fn backends(figures: &Figures) -> String {
    let backends = figures
        .proxies
        .iter()
        .filter(|proxy| proxy.backend.is_some());
    let mut text = "# name\n".to_owned();
    for backend in backends {
        text.push_str(&backend.name);
        text.push('\n');
    }
    text
}

fn sockets(figures: &Figures) -> String {
    let mut text = "# socket lvl processes\n".to_owned();
    for (path, level) in &figures.sockets {
        text.push_str(&format!("unix@{path} {level} all\n"));
    }
    text
}

fn session(figures: &Figures, arguments: &[String]) -> Result<Request, &'static str> {
    let word = arguments.first().map_or("", String::as_str);
    let number = sessions::number(word).ok_or("Session pointer expected (use 'show sess').\n")?;
    let mut sessions = figures.sessions.iter();
    match sessions.any(|session| session.id == number) {
        true => Ok(Request::EndSession(number)),
        false => Err("No such session (use 'show sess').\n"),
    }
}

//--- Servers

fn about_server(verb: Verb, (proxy, server): (&Proxy, &Server), rest: &[String]) -> Answer {
    let names = || (proxy.name.clone(), server.name.clone());
    let of_state = |state| {
        let (backend, server) = names();
        Request::State {
            backend,
            server,
            state,
        }
    };
    let weight = |text: Option<&String>| {
        let (backend, name) = names();
        let weight = weight(text.map_or("", String::as_str), server)?;
        Ok(Request::Weight {
            backend,
            server: name,
            weight,
        })
    };
    let asked = match verb {
        Verb::DisableServer => Ok(of_state(ServerState::Maintenance)),
        Verb::EnableServer => Ok(of_state(ServerState::Up)),
        Verb::SetWeight => weight(rest.first()),
        Verb::SetMaxconn => most(rest.first().map_or("", String::as_str)).map(|most| {
            let (backend, server) = names();
            Request::MaxConnections {
                backend,
                server,
                most,
            }
        }),
        Verb::SetServer => match rest.first().map(String::as_str) {
            Some("weight") => weight(rest.get(1)),
            Some("state") => match rest.get(1).map(String::as_str) {
                Some("ready") => Ok(of_state(ServerState::Up)),
                Some("drain") => Ok(of_state(ServerState::Drain)),
                Some("maint") => Ok(of_state(ServerState::Maintenance)),
                _ => Err("'set server <srv> state' expects 'ready', 'drain' and 'maint'.\n"),
            },
            _ => Err("usage: set server <backend>/<server> state | weight\n"),
        },
        Verb::ShutdownSessions => {
            let (backend, server) = names();
            Ok(Request::EndSessions { backend, server })
        }
        _ => {
            let (weight, initial) = (server.weight, server.initial_weight);
            return Answer::Text(format!("{weight} (initial {initial})\n"));
        }
    };
    match asked {
        Ok(request) => Answer::Request(request),
        Err(sentence) => Answer::Text(sentence.to_owned()),
    }
}

/// A weight as it is written: a number, or percents of the configured weight.
fn weight(text: &str, server: &Server) -> Result<u16, &'static str> {
    if text.is_empty() {
        return Err("Require <weight> or <weight%>.\n");
    }
    let (number, rest) = integer(text).ok_or("Empty weight string empty or preceded by garbage")?;
    let weight = match rest {
        "%" if number < 0 => return Err("Relative weight must be positive.\n"),
        "%" => {
            let weight = i64::from(server.initial_weight).saturating_mul(number) / 100;
            weight.min(MAX_WEIGHT)
        }
        _ if !(0..=MAX_WEIGHT).contains(&number) => {
            return Err("Absolute weight can only be between 0 and 256 inclusive.\n");
        }
        "" => number,
        _ => return Err("Trailing garbage in weight string"),
    };
    u16::try_from(weight).map_err(|_| "Absolute weight can only be between 0 and 256 inclusive.\n")
}

/// A limit of sessions as it is written; zero stands for none.
fn most(text: &str) -> Result<u32, &'static str> {
    if text.is_empty() {
        return Err("Require <maxconn>.\n");
    }
    let garbage = "maxconn string empty or preceded by garbage";
    let (number, rest) = integer(text).ok_or(garbage)?;
    match rest {
        "" => u32::try_from(number).map_err(|_| garbage),
        _ => Err("Trailing garbage in maxconn string"),
    }
}

/// The number that a text begins with, as strtol reads it, and the rest.
fn integer(text: &str) -> Option<(i64, &str)> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let n_digits = digits.bytes().take_while(u8::is_ascii_digit).count();
    let end = text.len() - digits.len() + n_digits;
    let (number, rest) = text.split_at_checked(end)?;
    if n_digits == 0 {
        return None;
    }
    let far = match number.starts_with('-') {
        true => i64::MIN,
        false => i64::MAX,
    };
    Some((number.parse().unwrap_or(far), rest))
}
