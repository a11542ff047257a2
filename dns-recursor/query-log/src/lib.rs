//! The query log: the content of a line, the queries that have one, and the bound of lines.
//!
//! Never reads a clock: the second is an argument.

#![warn(missing_docs)]

use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub use config::dns_recursor::{QueryClass, QueryLog};
pub use dns_wire::Transport;
use dns_wire::{Class, Flags, Name, Rcode, Type};

/// A query and its outcome.
#[derive(Clone, Debug)]
pub struct Line {
    /// The client.
    pub client: SocketAddr,
    /// The transport.
    pub transport: Transport,
    /// The question; none of a message without one.
    pub question: Option<Question>,
    /// The flags of the query.
    pub flags: QueryFlags,
    /// The response code; none without a response.
    pub rcode: Option<Rcode>,
    /// The source of the answer, by its name in metrics.
    pub answer: &'static str,
    /// The server whose response completed the answer.
    pub upstream: Option<SocketAddr>,
    /// How long the client waited.
    pub took: Duration,
    /// The size of the response in octets.
    pub size: usize,
}

/// A question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Its name, in the letters of the client.
    pub name: Name,
    /// Its type.
    pub rtype: Type,
    /// Its class.
    pub class: Class,
}

impl Question {
    /// Reads the wire form.
    #[must_use]
    pub fn read(question: &[u8]) -> Option<Self> {
        let (name, _) = Name::from_wire(question).ok()?;
        let [.., t1, t2, c1, c2] = *question else {
            return None;
        };
        Some(Self {
            name,
            rtype: Type(u16::from_be_bytes([t1, t2])),
            class: Class(u16::from_be_bytes([c1, c2])),
        })
    }
}

/// The flags of a query that decide about its answer, as `dig` spells them; `-` without any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryFlags {
    /// Those of the header.
    pub header: Flags,
    /// DO of EDNS.
    pub dnssec_ok: bool,
}

impl fmt::Display for QueryFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has = |bits| self.header.has(bits);
        let flags = [
            (has(Flags::RD), "rd"),
            (has(Flags::AD), "ad"),
            (has(Flags::CD), "cd"),
            (self.dnssec_ok, "do"),
        ];
        let mut set = flags.iter().filter(|(is_set, _)| *is_set);
        match set.next() {
            None => f.write_str("-"),
            Some((_, first)) => {
                f.write_str(first)?;
                set.try_for_each(|(_, flag)| write!(f, ",{flag}"))
            }
        }
    }
}

/// The octets of the question of a message, in its letters; `None` for a message that has none, or has several.
#[must_use]
pub fn question(message: &[u8]) -> Option<&[u8]> {
    const HEADER: usize = 12;
    const MAX_NAME: usize = 255;
    if message.get(4..6) != Some(&[0, 1]) {
        return None;
    }
    let rest = message.get(HEADER..)?;
    let mut at = 0;
    loop {
        match *rest.get(at)? {
            0 => break,
            length @ 1..=63 => at += 1 + usize::from(length),
            _ => return None,
        }
    }
    (at < MAX_NAME).then(|| rest.get(..at + 5)).flatten()
}

/// The class of a response; `None` of a query without one.
#[must_use]
pub fn classify(response: Option<&[u8]>) -> Option<QueryClass> {
    let response = response?;
    let flags = Flags::read(response)?;
    let has_records = response.get(6..8).is_some_and(|count| count != [0, 0]);
    Some(match flags.rcode() {
        Rcode::NOERROR if has_records => QueryClass::Success,
        Rcode::NOERROR | Rcode::NXDOMAIN => QueryClass::Denial,
        _ => QueryClass::Error,
    })
}

/// Whether a query with such a response has a line.
#[must_use]
pub fn is_wanted(classes: &[QueryClass], class: Option<QueryClass>) -> bool {
    let is = |wanted: &QueryClass| *wanted == QueryClass::All || Some(*wanted) == class;
    classes.iter().any(is)
}

/// Whether and how queries are logged: by the configuration, or for a while by an operator's command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Switch {
    configured: QueryLog,
    /// The command, and the second at which it ends.
    command: Option<(QueryLog, u64)>,
}

impl Switch {
    /// As the configuration says.
    #[must_use]
    pub const fn new(configured: QueryLog) -> Self {
        Self {
            configured,
            command: None,
        }
    }

    /// Takes another configuration. A command stays until its end.
    pub fn adopt(&mut self, configured: QueryLog) {
        self.configured = configured;
    }

    /// Follows a command until a second.
    pub fn obey(&mut self, command: QueryLog, until: u64) {
        self.command = Some((command, until));
    }

    /// Goes back to the configuration, and says what is in force.
    pub fn end_command(&mut self) {
        self.command = None;
    }

    /// The log that is in force at a second.
    #[must_use]
    pub fn at(&self, second: u64) -> &QueryLog {
        match &self.command {
            Some((command, until)) if second < *until => command,
            _ => &self.configured,
        }
    }

    /// The seconds that are left of a command.
    #[must_use]
    pub fn left(&self, second: u64) -> Option<u64> {
        let (_, until) = self.command.as_ref()?;
        until.checked_sub(second).filter(|left| *left > 0)
    }

    /// The configuration.
    #[must_use]
    pub const fn configured(&self) -> &QueryLog {
        &self.configured
    }
}

/// The bound of lines in a second, for all threads together.
#[derive(Debug, Default)]
pub struct Limiter {
    /// The second in the upper half, the lines in it in the lower.
    taken: AtomicU64,
    /// Lines that were left out, and not told yet.
    untold: AtomicU64,
    left_out: AtomicU64,
    lines: AtomicU64,
}

impl Limiter {
    /// Whether one more line has room in a second; otherwise it is counted as left out.
    pub fn take(&self, second: u64, rate: u32) -> bool {
        let base = (second & u64::from(u32::MAX)) << 32;
        let count = |taken: u64| match taken & !u64::from(u32::MAX) == base {
            true if taken & u64::from(u32::MAX) < u64::from(rate) => Some(taken + 1),
            true => None,
            false => Some(base + 1),
        };
        let order = Ordering::Relaxed;
        let is_taken = self.taken.fetch_update(order, order, count).is_ok();
        match is_taken {
            true => {
                self.lines.fetch_add(1, order);
            }
            false => self.leave_out(),
        }
        is_taken
    }

    /// Takes back a line that had room and was not written.
    pub fn give_back(&self) {
        self.lines.fetch_sub(1, Ordering::Relaxed);
        self.leave_out();
    }

    fn leave_out(&self) {
        self.untold.fetch_add(1, Ordering::Relaxed);
        self.left_out.fetch_add(1, Ordering::Relaxed);
    }

    /// The lines that were left out since the last call.
    pub fn tell(&self) -> u64 {
        self.untold.swap(0, Ordering::Relaxed)
    }

    /// The lines that were written, and those that were left out.
    #[must_use]
    pub fn counts(&self) -> [u64; 2] {
        [&self.lines, &self.left_out].map(|it| it.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(rcode: u8, answers: u8) -> Vec<u8> {
        vec![0, 0, 0x80, rcode, 0, 1, 0, answers, 0, 0, 0, 0]
    }

    #[test]
    fn responses_have_the_classes_of_coredns() {
        use QueryClass::{All, Denial, Error, Success};
        for (rcode, answers, class) in [
            (0, 1, Success),
            (0, 0, Denial),
            (3, 0, Denial),
            (3, 1, Denial),
            (2, 0, Error),
            (5, 0, Error),
            (1, 0, Error),
        ] {
            let found = classify(Some(&response(rcode, answers)));
            assert_eq!(found, Some(class), "{rcode} {answers}");
            for wanted in [All, Success, Denial, Error] {
                let is = wanted == All || wanted == class;
                assert_eq!(is_wanted(&[wanted], found), is, "{wanted:?} {class:?}");
            }
            assert!(!is_wanted(&[], found));
        }
        assert_eq!(classify(None), None);
        assert!(is_wanted(&[Denial, All], None));
        assert!(!is_wanted(&[Success, Denial, Error], None));
        assert_eq!(classify(Some(b"x")), None);
    }

    #[test]
    fn the_question_of_any_octets() {
        let header = [0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        let message = |rest: &[u8]| [&header[..], rest].concat();
        let whole = b"\x03WwW\x07example\0\0\x1c\0\x01";
        let good = message(&[&whole[..], b"more"].concat());
        assert_eq!(question(&good), Some(&whole[..]));
        let read = Question::read(whole).unwrap();
        assert_eq!(read.name.to_string(), "WwW.example.");
        assert_eq!((read.rtype, read.class), (Type::AAAA, Class::IN));
        for length in 0..header.len() + whole.len() {
            assert_eq!(question(&good[..length]), None, "{length}");
        }
        let mut two = good.clone();
        two[5] = 2;
        let long = [[&[63][..], &[b'a'; 63]].concat().repeat(4), vec![0; 5]].concat();
        for bad in [two, message(b"\xc0\x0c\0\x01\0\x01"), message(&long)] {
            assert_eq!(question(&bad), None, "{bad:?}");
        }
        let root = message(b"\0\0\x02\0\x01");
        assert_eq!(question(&root), Some(&b"\0\0\x02\0\x01"[..]));
        assert_eq!(Question::read(b"\0"), None);
        assert_eq!(Question::read(b""), None);
    }

    #[test]
    fn flags_are_spelled_as_dig_does() {
        let flags = |bits, dnssec_ok| QueryFlags {
            header: Flags::default().with(bits),
            dnssec_ok,
        };
        assert_eq!(flags(0, false).to_string(), "-");
        assert_eq!(flags(Flags::RD, true).to_string(), "rd,do");
        let all = Flags::RD | Flags::AD | Flags::CD;
        assert_eq!(flags(all, false).to_string(), "rd,ad,cd");
    }

    #[test]
    fn a_command_counts_until_its_end_whatever_is_configured_meanwhile() {
        let log = |enabled| QueryLog {
            enabled,
            ..QueryLog::default()
        };
        for command in [true, false] {
            let mut switch = Switch::new(log(false));
            switch.obey(log(command), 100);
            assert_eq!(switch.at(99).enabled, command);
            assert_eq!(switch.left(99), Some(1));
            switch.adopt(log(true));
            assert_eq!(switch.at(99).enabled, command);
            assert!(switch.at(100).enabled);
            assert_eq!(switch.left(100), None);
            switch.end_command();
            assert!(switch.at(0).enabled);
            assert_eq!(switch.left(0), None);
        }
    }

    #[test]
    fn a_second_has_so_many_lines_and_the_rest_is_counted() {
        let limiter = Limiter::default();
        let taken = |second, n: u32| (0..n).filter(|_| limiter.take(second, 3)).count();
        assert_eq!(
            [taken(1, 5), taken(1, 2), taken(2, 2), taken(3, 9)],
            [3, 0, 2, 3]
        );
        assert_eq!(limiter.counts(), [8, 10]);
        assert_eq!(limiter.tell(), 10);
        assert_eq!(limiter.tell(), 0);
        limiter.give_back();
        assert_eq!(limiter.counts(), [7, 11]);
        assert_eq!(limiter.tell(), 1);
    }
}
