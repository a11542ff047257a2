//! One connection, or several, to both proxies.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::time::{Duration, Instant};

use tests::hello::{client_hello, client_hello_offering, records};
use tests::scratch::at;
use tests::stream::{End, end_within, try_connect_from, try_line};

/// Connections to make, and what is done to servers before.
#[derive(Clone, Debug)]
pub(super) struct Vector {
    pub(super) name: &'static str,
    /// The changes before it.
    pub(super) steps: Vec<Step>,
    pub(super) port: u16,
    source: Ipv4Addr,
    says: Vec<u8>,
    /// Connections that are there before, and stay meanwhile.
    n_held: usize,
    act: Act,
}

/// A change of a server before a vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The server is gone, and its connections with it.
    Down(&'static str),
    /// The server's connections are refused; those that it has stay.
    Closed(&'static str),
    /// It is there again.
    Up(&'static str),
    /// It answers checks by HTTP with this status.
    Status(&'static str, u16),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    /// The line that a server says.
    Ask,
    /// The same, before or after a time.
    AskWithin(Duration),
    /// The servers of connections one after the other.
    Spread(usize),
    /// The servers of connections that stay.
    Pile(usize),
    /// Whether all connections get one server.
    Stick(usize),
    /// How a connection ends on which nothing moves, and when.
    Rest(Duration),
    /// The same, once the client has closed its side.
    RestHalfClosed(Duration),
    /// How a connection ends that is there before the steps, in which the server that it has is named.
    Outlive(Duration),
}

impl Vector {
    /// A connection to this port, on which the server's line is awaited.
    pub(super) fn to(name: &'static str, port: u16) -> Self {
        Self {
            name,
            steps: Vec::new(),
            port,
            source: Ipv4Addr::LOCALHOST,
            says: Vec::new(),
            n_held: 0,
            act: Act::Ask,
        }
    }

    /// From this address.
    pub(super) fn from(mut self, source: [u8; 4]) -> Self {
        self.source = source.into();
        self
    }

    /// The client sends these octets first.
    pub(super) fn says(mut self, octets: &[u8]) -> Self {
        self.says.extend(octets);
        self
    }

    /// The client sends a ClientHello for this name.
    pub(super) fn hello(self, name: &str) -> Self {
        self.says(&records(&client_hello(Some(name), 0), 16_384))
    }

    /// The same, with these application protocols.
    pub(super) fn hello_offering(self, name: &str, protocols: &[&str]) -> Self {
        let hello = client_hello_offering(Some(name), 0, protocols);
        self.says(&records(&hello, 16_384))
    }

    /// The client sends a ClientHello without a name.
    pub(super) fn nameless_hello(self) -> Self {
        self.says(&records(&client_hello(None, 0), 16_384))
    }

    /// After this.
    pub(super) fn after(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// While as many connections are open.
    pub(super) fn beside(mut self, n_held: usize) -> Self {
        self.n_held = n_held;
        self
    }

    /// Tells whether the outcome comes at once, or about as late as this.
    pub(super) fn within(self, time: Duration) -> Self {
        self.acts(Act::AskWithin(time))
    }

    /// As many connections one after the other.
    pub(super) fn spread(self, number: usize) -> Self {
        self.acts(Act::Spread(number))
    }

    /// As many connections, all open.
    pub(super) fn pile(self, number: usize) -> Self {
        self.acts(Act::Pile(number))
    }

    /// As many connections, of which it only counts whether all have one server.
    pub(super) fn stick(self, number: usize) -> Self {
        self.acts(Act::Stick(number))
    }

    /// Nothing moves after the server's line; it ends about this late, or not.
    pub(super) fn rest(self, time: Duration) -> Self {
        self.acts(Act::Rest(time))
    }

    /// The client closes its side after the server's line.
    pub(super) fn rest_half_closed(self, time: Duration) -> Self {
        self.acts(Act::RestHalfClosed(time))
    }

    /// The steps come between the server's line and the end that is awaited.
    pub(super) fn outlive(self, time: Duration) -> Self {
        self.acts(Act::Outlive(time))
    }

    /// Whether the steps come while the connection is there.
    pub(super) fn has_steps_inside(&self) -> bool {
        matches!(self.act, Act::Outlive(_))
    }

    fn acts(mut self, act: Act) -> Self {
        self.act = act;
        self
    }

    /// Runs it on the proxy at this address. `meanwhile` is where steps come that are not before.
    pub(super) fn outcome(&self, proxy: Ipv4Addr, meanwhile: impl FnOnce()) -> String {
        let mut held = Vec::new();
        for _ in 0..self.n_held {
            match self.talk(proxy, PATIENCE) {
                (Some(stream), _) => held.push(stream),
                (None, outcome) => return format!("held: {outcome}"),
            }
        }
        match self.act {
            Act::Ask => self.talk(proxy, PATIENCE).1,
            Act::AskWithin(time) => {
                let start = Instant::now();
                let (_stream, outcome) = self.talk(proxy, 3 * time);
                format!("{outcome} {}", when(start.elapsed(), time))
            }
            Act::Spread(number) => {
                let mut seen = BTreeMap::new();
                for _ in 0..number {
                    *seen.entry(self.talk(proxy, PATIENCE).1).or_default() += 1;
                }
                counts(&seen)
            }
            Act::Pile(number) => {
                let mut seen = BTreeMap::new();
                for _ in 0..number {
                    let (stream, outcome) = self.talk(proxy, PATIENCE);
                    held.extend(stream);
                    *seen.entry(outcome).or_default() += 1;
                }
                counts(&seen)
            }
            Act::Stick(number) => {
                let seen: BTreeMap<String, usize> = (0..number)
                    .map(|_| (self.talk(proxy, PATIENCE).1, 1))
                    .collect();
                let name = match seen.len() {
                    1 => "one server",
                    _ => "several servers",
                };
                name.to_owned()
            }
            Act::Rest(time) | Act::RestHalfClosed(time) | Act::Outlive(time) => {
                let (stream, outcome) = self.talk(proxy, PATIENCE);
                let Some(stream) = stream else {
                    return outcome;
                };
                if matches!(self.act, Act::RestHalfClosed(_)) {
                    drop(stream.shutdown(Shutdown::Write));
                }
                meanwhile();
                let start = Instant::now();
                let end = match end_within(&stream, 3 * time) {
                    End::Closed(_) => "closed",
                    End::Reset(_) => "reset",
                    End::Open(_) => return format!("{outcome}, stays open"),
                };
                format!("{outcome}, then {end} {}", when(start.elapsed(), time))
            }
        }
    }

    /// The line that a server says, with its connection; or how the connection ended without one.
    fn talk(&self, proxy: Ipv4Addr, patience: Duration) -> (Option<TcpStream>, String) {
        use std::io::ErrorKind;
        let name = |error: &std::io::Error| match error.kind() {
            ErrorKind::ConnectionRefused => "refused".to_owned(),
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => "reset".to_owned(),
            ErrorKind::UnexpectedEof => "closed".to_owned(),
            ErrorKind::WouldBlock | ErrorKind::TimedOut => "silent".to_owned(),
            kind => format!("{kind:?}"),
        };
        let mut stream = match try_connect_from(self.source, at(proxy, self.port)) {
            Ok(stream) => stream,
            Err(error) => return (None, name(&error)),
        };
        if !self.says.is_empty()
            && let Err(error) = stream.write_all(&self.says)
        {
            return (None, name(&error));
        }
        stream
            .set_read_timeout(Some(patience))
            .expect("a positive time");
        match try_line(&stream) {
            Ok(line) => (Some(stream), line),
            Err(error) => (None, name(&error)),
        }
    }
}

/// How long a client waits whose server's line is late.
const PATIENCE: Duration = Duration::from_secs(4);

/// The time of an outcome, told coarsely: a busy machine makes everything late.
fn when(elapsed: Duration, time: Duration) -> &'static str {
    match elapsed < time / 2 {
        true => "at once",
        false => "in time",
    }
}

fn counts(seen: &BTreeMap<String, usize>) -> String {
    let each = seen.iter().map(|(name, number)| format!("{number} {name}"));
    each.collect::<Vec<_>>().join(", ")
}
