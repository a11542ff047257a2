//! `show sess`.

use std::fmt::Write as _;
use std::net::SocketAddr;

use crate::figures::{Figures, Proxy, Session};

/// Answers `show sess`: all in a line each, or one (`0x…`) or all of them (`all`) in full.
pub(crate) fn show(figures: &Figures, arguments: &[String]) -> String {
    let mut text = String::new();
    match arguments.first().map(String::as_str) {
        Some("all") => {
            for session in &figures.sessions {
                write_whole(&mut text, figures, session);
            }
        }
        Some(word) if number(word).is_some() => match find(figures, word) {
            Some(session) => write_whole(&mut text, figures, session),
            None => text.push_str("Session not found.\n"),
        },
        _ => {
            for session in &figures.sessions {
                write_line(&mut text, session);
            }
        }
    }
    text
}

/// The number of a session as it is shown: `0x` and digits, not zero.
pub(crate) fn number(word: &str) -> Option<u64> {
    let digits = word.strip_prefix("0x")?;
    u64::from_str_radix(digits, 16)
        .ok()
        .filter(|number| *number != 0)
}

fn find<'a>(figures: &'a Figures, word: &str) -> Option<&'a Session> {
    let number = number(word)?;
    figures.sessions.iter().find(|session| session.id == number)
}

fn protocol(client: SocketAddr) -> &'static str {
    match client.ip().to_canonical().is_ipv4() {
        true => "tcpv4",
        false => "tcpv6",
    }
}

fn write_line(text: &mut String, session: &Session) {
    // Writing to a string does not fail.
    let _written = writeln!(
        text,
        "{:#x}: proto={} src={} fe={} be={} srv={} age={} state={} bin={} bout={}",
        session.id,
        protocol(session.client),
        session.client,
        session.frontend,
        session.backend.as_deref().unwrap_or("<NONE>"),
        session.server.as_deref().unwrap_or("<none>"),
        age(session),
        session.state,
        session.bytes_in,
        session.bytes_out,
    );
}

fn write_whole(text: &mut String, figures: &Figures, session: &Session) {
    // Writing to a string does not fail.
    let _written = whole(text, figures, session);
}

fn whole(text: &mut String, figures: &Figures, session: &Session) -> std::fmt::Result {
    let number = |name: &str, is_meant: fn(&Proxy) -> bool| {
        let mut proxies = figures.proxies.iter();
        let proxy = proxies.find(|proxy| proxy.name == name && is_meant(proxy));
        proxy.map_or(-1, |proxy| i64::from(proxy.id))
    };
    let id = session.id;
    let (proto, source) = (protocol(session.client), session.client);
    writeln!(text, "{id:#x}: id={id} proto={proto} source={source}")?;
    let frontend = &session.frontend;
    let n_frontend = number(frontend, |proxy| proxy.frontend.is_some());
    write!(text, "  frontend={frontend} (id={n_frontend} mode=tcp)")?;
    match session.local {
        Some(local) => writeln!(text, ", listener=? addr={local}")?,
        None => writeln!(text)?,
    }
    match &session.backend {
        Some(backend) => {
            let n_backend = number(backend, |proxy| proxy.backend.is_some());
            writeln!(text, "  backend={backend} (id={n_backend} mode=tcp)")?;
        }
        None => writeln!(text, "  backend=<NONE> (id=-1 mode=-)")?,
    }
    match (&session.server, session.server_address) {
        (Some(server), Some(address)) => writeln!(text, "  server={server} addr={address}")?,
        (Some(server), None) => writeln!(text, "  server={server}")?,
        (None, _) => writeln!(text, "  server=<NONE> (id=-1)")?,
    }
    let (state, age) = (session.state, age(session));
    writeln!(text, "  state={state} age={age}")?;
    writeln!(
        text,
        "  req=total={} res=total={}",
        session.bytes_in, session.bytes_out
    )
}

/// As in `5s`, `3m20s`, `2h5m` or `1d4h`.
fn age(session: &Session) -> String {
    let seconds = session.age.as_secs();
    let two = |first: u64, unit, second: u64, next| match second {
        0 => format!("{first}{unit}"),
        second => format!("{first}{unit}{second}{next}"),
    };
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => two(seconds / 60, 'm', seconds % 60, 's'),
        3_600..86_400 => two(seconds / 3_600, 'h', seconds / 60 % 60, 'm'),
        _ => two(seconds / 86_400, 'd', seconds / 3_600 % 24, 'h'),
    }
}
