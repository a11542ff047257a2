//! The inputs and outputs of the resolver.

use std::net::SocketAddr;
use std::time::Duration;

use config::dns_recursor::DnsRecursor;
use dns_cache::cache::{Cache, State};
use dns_cache::instant::Instant;
use dns_cache::key::Key;
use dns_cache::message::{Answer, Message, Pool, TtlLimits};
use dns_validate::Why;
use dns_wire::{Name, header};

use crate::forward::Protocol;
use crate::origin::Origin;
use crate::upstream_state::{Absence, Change};

/// The settings of the resolver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The time after which a question fails: shorter than clients' own.
    pub deadline: Duration,
    /// The time that a client waits before it gets a stale answer.
    pub stale_wait: Duration,
    /// The most questions in flight.
    pub max_flights: usize,
    /// The most clients that wait.
    pub max_clients: usize,
    /// The bounds of TTLs.
    pub limits: TtlLimits,
    /// Whether queries have random letter case.
    pub randomize_case: bool,
    /// Whether signed denials answer for further names.
    pub aggressive_nsec: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self::of(&DnsRecursor::default())
    }
}

impl Settings {
    /// The settings of a configuration.
    #[must_use]
    pub fn of(file: &DnsRecursor) -> Self {
        Self {
            deadline: *file.resolve.deadline,
            stale_wait: file.stale.wait.0,
            max_flights: file.resolve.max_questions.get(),
            max_clients: file.resolve.max_clients.get(),
            limits: TtlLimits::of(&file.cache),
            randomize_case: file.resolve.randomize_case,
            aggressive_nsec: file.dnssec.aggressive_nsec,
        }
    }
}

/// A question that the cache has no fresh answer to.
#[derive(Debug)]
pub struct ResolveRequest<'a, C> {
    /// The question.
    pub key: &'a Key,
    /// The question in its original letter case, by which the resolver recognises its own queries.
    pub question: &'a [u8],
    /// The client that waits; `None` when the cache wants an answer refreshed.
    pub client: Option<C>,
    /// The client's origin, by which its share of the resolver is bounded; `None` for the server itself.
    pub origin: Option<Origin>,
    /// Whether there is a stale answer.
    pub has_stale: bool,
}

/// An action for the shell.
#[derive(Debug)]
pub enum Output<C> {
    /// Send a message from a random port.
    Send {
        /// The number that responses are reported under.
        exchange: ExchangeId,
        to: SocketAddr,
        /// The transport.
        protocol: Protocol,
        /// The message.
        message: Vec<u8>,
    },
    /// Ignore all further responses to this exchange.
    Close(ExchangeId),
    /// Keep and send an answer.
    Answer {
        /// The question.
        key: Box<Key>,
        /// Its answer.
        answer: Answer,
        /// The clients that wait for it.
        clients: Vec<C>,
    },
    /// Send the stale answer: the upstreams take too long.
    Stale {
        /// The question.
        key: Box<Key>,
        /// The clients that wait.
        clients: Vec<C>,
    },
    /// Send the stale answer if there is one, else an error.
    Fail {
        /// The question.
        key: Box<Key>,
        reason: Reason,
        /// The clients that wait.
        clients: Vec<C>,
    },
    /// Look a question up in the cache, and call [`super::Resolver::looked_up`].
    LookUp {
        /// The flight that waits for it.
        flight: FlightId,
        /// The question.
        key: Box<Key>,
    },
    /// The fitness of an upstream in use has changed for a zone.
    Health {
        /// The upstream.
        upstream: SocketAddr,
        /// The change of the address: its fitness for the zone that it serves best.
        change: Change,
        /// The reason, when it is absent.
        why: Option<Absence>,
    },
    /// An upstream that was absent answers again: denials and failures that its zone's names have got since it was sick say nothing.
    Recovered {
        /// The zone that it answers for.
        zone: Name,
        /// The time of the first doubt.
        since: Instant,
    },
    /// An upstream sends this server its own queries.
    Loop {
        /// The upstream.
        upstream: SocketAddr,
    },
}

/// The cache's answer to a question of the resolver's own.
#[derive(Debug)]
pub enum CacheResult {
    /// A fresh answer.
    Answer(Answer),
    /// A remembered failure.
    Failure,
    /// No entry.
    Nothing,
}

impl CacheResult {
    /// The answer of this server itself.
    #[must_use]
    pub fn of_local(message: Message) -> Self {
        let has_answers =
            header::counts(message.bytes()).is_some_and(|[_, answers, ..]| answers > 0);
        Self::Answer(Answer {
            pool: match has_answers {
                true => Pool::Positive,
                false => Pool::Negative,
            },
            lifetime: message.least_ttl(),
            message,
            dangling: None,
        })
    }

    /// Looks a question up in `cache`.
    #[must_use]
    pub fn look_up(cache: &Cache, key: &Key, now: Instant) -> Self {
        let kept = cache.look_up(key, now, |found| match found.state {
            State::Fresh | State::Ending => {
                let message = found.message.aged(found.age);
                Self::Answer(Answer {
                    lifetime: message.least_ttl(),
                    message,
                    pool: found.pool,
                    dangling: None,
                })
            }
            State::Failed => Self::Failure,
            State::Expired | State::Held => Self::Nothing,
        });
        kept.unwrap_or(Self::Nothing)
    }
}

/// The reason why a question has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// No upstream is configured for the name.
    NoRoute,
    /// Every upstream counts as absent, and has not answered a trial either.
    Absent,
    /// No upstream has answered.
    Unanswered,
    /// Every upstream has answered with a failure.
    Refused,
    /// Too many questions or clients.
    Overload,
    /// The query is one of this server's own that came back.
    Loop,
    /// A CNAME chain is a circle or does not end.
    Chain,
    /// The answer should be signed and is not, or its keys cannot be had.
    Bogus(Why),
}

impl Reason {
    /// Whether the failure is worth remembering: to ask again would cost queries (RFC 9520 §3.1).
    #[must_use]
    pub const fn is_costly(self) -> bool {
        matches!(
            self,
            Self::Unanswered | Self::Refused | Self::Chain | Self::Bogus(_)
        )
    }
}

/// The reason why an exchange ended without a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The port is closed.
    Refused,
    /// There is no route to the address.
    Unreachable,
    /// The server does not prove who it is.
    Untrusted,
    /// A connection broke, or this node is out of sockets.
    Broken,
}

/// The number of a flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlightId(pub(super) u64);

/// The number of an exchange: one message to one upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExchangeId(pub u64);

/// The knowledge of zones from the root downwards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// The addresses of the root's servers that one of them has named; `None` before.
    pub root_servers: Option<usize>,
    /// The delegated zones whose servers are known.
    pub delegations: usize,
    /// The zones whose keys are known, or that are known to be unsigned.
    pub zones: usize,
    /// The signed denials that further names may be denied by.
    pub denials: usize,
}

/// Counters since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages sent to upstreams, probes not counted.
    pub sent: u64,
    /// Queries sent over TCP, within `sent`.
    pub sent_tcp: u64,
    /// Queries sent again because another message took long, within `sent`.
    pub sent_again: u64,
    /// Probes sent.
    pub probes: u64,
    /// Clients that joined a flight.
    pub joined: u64,
    /// Queries that waited longer than usual.
    pub overdue: u64,
    /// Messages with the wrong id or question.
    pub near_misses: u64,
    /// Responses with the wrong letter case.
    pub other_case: u64,
    /// Truncated responses.
    pub truncated: u64,
    /// Responses that answer nothing.
    pub unusable: u64,
    /// Own queries that came back.
    pub loops: u64,
    /// Answers by what validation has found.
    pub validated: Validated,
    /// Answers made from signed denials.
    pub denied: u64,
    /// Questions refused for overload, or ended to make room for another client's.
    pub overload: u64,
}

/// Answers that were validated, by their state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Validated {
    pub secure: u64,
    pub insecure: u64,
    /// Bogus ones, of one upstream each.
    pub bogus: u64,
    /// Those whose keys could not be had.
    pub indeterminate: u64,
}
