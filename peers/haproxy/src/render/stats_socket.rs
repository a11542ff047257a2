//! `stats socket` and `stats timeout` of `global` (management.txt §9.3).

use config::lb_proxy::{LbProxy, StatsLevel, StatsSocket, Time};
use config::{Class, Notes};

use crate::lexer::Line;
use crate::tree::{Kind, Tree};
use crate::values::time;

/// A line `stats socket` or `stats timeout`; [`set_timeout`] reads the value of the latter.
pub(super) fn read(line: &Line, config: &mut LbProxy, notes: &mut Notes) {
    let Some(at) = line.position() else { return };
    let lost = |notes: &mut Notes, reason| notes.lost(Class::Behaviour, at, &line.text(), reason);
    let value = line.word(2).unwrap_or_default();
    if line.word(1) == Some("timeout") {
        if timeout(value).is_none() {
            lost(notes, "its value is no time");
        }
        return;
    }
    let path = value.strip_prefix("unix@").unwrap_or(value);
    if !path.starts_with('/') {
        let reason = "clients of an address have no identity: commands are taken at a Unix socket by its path";
        return lost(notes, reason);
    }
    let mut socket = StatsSocket::at(path.into());
    let mut words = line.from(3).iter().map(|word| word.text.as_str());
    let mut differs = Vec::new();
    while let Some(word) = words.next() {
        match (word, words.next()) {
            ("level", Some("user")) => socket.level = StatsLevel::User,
            ("level", Some("operator")) => socket.level = StatsLevel::Operator,
            ("level", Some("admin")) => socket.level = StatsLevel::Admin,
            // A successor takes the listeners over by the swap socket.
            ("expose-fd", Some("listeners")) => {}
            (word, value) => differs.push(
                [Some(word), value]
                    .into_iter()
                    .flatten()
                    .collect::<Vec<_>>()
                    .join(" "),
            ),
        }
    }
    if config
        .stats_socket
        .iter()
        .any(|known| known.path == socket.path)
    {
        return lost(notes, "there is a socket at this path already");
    }
    config.stats_socket.push(socket);
    if !differs.is_empty() {
        let what = format!("stats socket {value} {}", differs.join(" "));
        let how = "root, lb-proxy's user and the group of the socket's directory, if it has the set-group-ID bit, may connect";
        notes.differs(Class::Behaviour, at, &what, how);
    }
}

/// Gives all sockets the last `stats timeout` of the file, as HAProxy does.
pub(super) fn set_timeout(tree: &Tree, config: &mut LbProxy) {
    let sections = tree
        .sections
        .iter()
        .filter(|section| section.kind == Kind::Global);
    let lines = sections.flat_map(|section| &section.lines);
    let timeouts =
        lines.filter(|line| line.word(0) == Some("stats") && line.word(1) == Some("timeout"));
    let last = timeouts
        .filter_map(|line| timeout(line.word(2)?))
        .next_back();
    if let Some(timeout) = last {
        for socket in &mut config.stats_socket {
            socket.timeout = timeout;
        }
    }
}

fn timeout(text: &str) -> Option<Time> {
    time(text).and_then(Time::new)
}
