//! What goes into the resolver and what comes out of it.

use std::net::SocketAddr;
use std::time::Duration;

use dns_cache::cache::{Cache, State};
use dns_cache::key::Key;
use dns_cache::message::{Answer, TtlLimits};
use dns_cache::moment::Moment;

use crate::forward::Protocol;
use crate::upstream_state::{Absence, Change};

/// How the resolver goes about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// When a question is given up: sooner than clients do.
    pub deadline: Duration,
    /// How long a client waits before a stale answer will do.
    pub stale_wait: Duration,
    /// Questions that may be under way at once.
    pub max_flights: usize,
    /// Clients that may wait at once.
    pub max_clients: usize,
    /// What TTLs are held to.
    pub limits: TtlLimits,
    /// Whether questions go out in random letter case.
    pub randomize_case: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            deadline: Duration::from_secs(4),
            stale_wait: Duration::from_millis(400),
            max_flights: 10_000,
            max_clients: 20_000,
            limits: TtlLimits::default(),
            randomize_case: true,
        }
    }
}

/// A question that the cache has no fresh answer to.
#[derive(Debug)]
pub struct Ask<'a, C> {
    /// The question.
    pub key: &'a Key,
    /// The question's letter case as asked: how one's own queries are recognised.
    pub question: &'a [u8],
    /// Who waits; nobody when the cache wants an answer refreshed.
    pub client: Option<C>,
    /// A stale answer is at hand.
    pub has_stale: bool,
}

/// What there is to do.
#[derive(Debug)]
pub enum Output<C> {
    /// Send a message from a fresh port.
    Send {
        /// What responses are reported for.
        exchange: ExchangeId,
        /// Where to.
        to: SocketAddr,
        /// Over what.
        protocol: Protocol,
        /// The message.
        message: Vec<u8>,
    },
    /// Responses to this exchange are of no more interest.
    Close(ExchangeId),
    /// Keep and send an answer.
    Answer {
        /// The question.
        key: Box<Key>,
        /// Its answer.
        answer: Answer,
        /// Who waits for it.
        clients: Vec<C>,
    },
    /// Send the stale answer, for the upstreams take too long.
    Stale {
        /// The question.
        key: Box<Key>,
        /// Who waits.
        clients: Vec<C>,
    },
    /// Send the stale answer if there is one, else a failure.
    Fail {
        /// The question.
        key: Box<Key>,
        /// Why.
        reason: Reason,
        /// Who waits.
        clients: Vec<C>,
    },
    /// Say what the cache has, by [`super::Resolver::looked_up`].
    LookUp {
        /// The flight that wants to know.
        flight: FlightId,
        /// The question.
        key: Box<Key>,
    },
    /// The fitness of an upstream in use has changed.
    Health {
        /// The upstream.
        upstream: SocketAddr,
        /// What has changed.
        change: Change,
        /// Why it is absent, when it is.
        why: Option<Absence>,
    },
    /// An upstream sends this server its own queries.
    Loop {
        /// The upstream.
        upstream: SocketAddr,
    },
}

/// What the cache has for a question of the resolver's own.
#[derive(Debug)]
pub enum Kept {
    /// An answer that is good still.
    Answer(Answer),
    /// The memory that there was none.
    Failure,
    /// Nothing of use.
    Nothing,
}

impl Kept {
    /// What `cache` has for a question.
    #[must_use]
    pub fn look_up(cache: &Cache, key: &Key, now: Moment) -> Self {
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

/// Why a question has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// No upstream is configured for the name.
    NoRoute,
    /// No upstream is there, as is known beforehand.
    Absent,
    /// No upstream has answered.
    Unanswered,
    /// Every upstream has answered with a failure.
    Refused,
    /// Too much is under way already.
    Overload,
    /// The query is one of this server's own, come back.
    Loop,
    /// A CNAME chain is a circle or does not end.
    Chain,
}

impl Reason {
    /// Whether the failure is worth remembering: asking anew would cost queries (RFC 9520 §3.1).
    #[must_use]
    pub const fn is_costly(self) -> bool {
        matches!(self, Self::Unanswered | Self::Refused | Self::Chain)
    }
}

/// Why an exchange has ended without a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The port is closed.
    Refused,
    /// There is no way to the address.
    Unreachable,
    /// A connection broke, or this machine is out of sockets.
    Broken,
}

/// Names a flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlightId(pub(super) u64);

/// Names an exchange: one message to one upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExchangeId(pub u64);

/// What has happened since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages sent to upstreams, probes not counted.
    pub sent: u64,
    /// Of these, over TCP.
    pub sent_tcp: u64,
    /// Of these, because another message took long.
    pub sent_again: u64,
    /// Probes sent.
    pub probes: u64,
    /// Clients that joined a flight under way.
    pub joined: u64,
    /// Queries that waited longer than usual.
    pub overdue: u64,
    /// Messages with the wrong id or question.
    pub near_misses: u64,
    /// Responses with the wrong letter case.
    pub other_case: u64,
    /// Truncated responses.
    pub truncated: u64,
    /// Responses that were no answers.
    pub unusable: u64,
    /// Own queries that came back.
    pub loops: u64,
    /// Asks that were too many.
    pub overload: u64,
}
