//! Single queries for the eyes of operators: the query log, the heaviest names, clients and zones, and dnstap.
//!
//! ```text
//! a thread that answers ─► Watcher ─┬─► Top, its own            ◄── GET /top
//!                                   ├─► lines (bounded) ─► one thread ─► the log
//!                                   └─► dnstap-writer (bounded)
//! ```
//!
//! `query-log` and `dns-top` decide. A [`Watcher`] never waits: a line or message without room is left out and counted.

#![warn(missing_docs)]

mod log;
mod routes;
mod tap;

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use config::dns_recursor::{DnsRecursor, DnstapMessage, QueryLog};
use dns_top::{Outcome, Top, last_two_labels};
use dns_wire::{Flags, Rcode};
use parking_lot::Mutex;
pub use query_log::{QueryFlags, Transport, question};

use crate::log::Log;
use crate::tap::Tap;

/// The longest name in wire form.
const MAX_NAME: usize = 255;

/// The client of a query, and the way it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The client's address.
    pub address: SocketAddr,
    /// The address that it has asked, if it is known.
    pub local: Option<IpAddr>,
    /// The transport.
    pub transport: Transport,
}

/// A query whose outcome is known.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'q> {
    /// The client.
    pub peer: Peer,
    /// The question in wire form and the letters of the client; none of a message without one.
    pub question: Option<&'q [u8]>,
    /// The flags of the query.
    pub flags: QueryFlags,
    /// The response; none when the client gets none.
    pub response: Option<&'q [u8]>,
    /// The source of the answer, by its name in metrics.
    pub answer: &'static str,
    /// Whether upstreams were asked.
    pub is_miss: bool,
    /// The server whose response completed the answer.
    pub upstream: Option<SocketAddr>,
    /// How long the client waited.
    pub took: Duration,
    /// The time in seconds since the service began.
    pub second: u64,
}

impl Seen<'_> {
    fn rcode(&self) -> Option<Rcode> {
        self.response.and_then(Flags::read).map(Flags::rcode)
    }
}

/// A message to or from an upstream.
#[derive(Clone, Copy, Debug)]
pub struct Exchanged<'m> {
    /// The server.
    pub to: SocketAddr,
    /// Whether it is an upstream of the configuration, and not one that a referral names.
    pub is_forwarder: bool,
    /// The transport.
    pub transport: Transport,
    /// The message.
    pub message: &'m [u8],
}

/// Gives the seconds since the service began.
type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

struct Shared {
    log: Log,
    tap: Option<Tap>,
    tops: Mutex<Vec<Arc<Mutex<Top>>>>,
    /// Queries that were not counted in a [`Top`], because a reader had it.
    uncounted: AtomicU64,
    clock: Clock,
}

/// All of it, for the service; clones share it.
#[derive(Clone)]
pub struct Watch(Arc<Shared>);

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}

impl Watch {
    /// Starts the threads that write.
    ///
    /// # Errors
    /// When the system has no thread left.
    pub fn start(
        config: &DnsRecursor,
        clock: impl Fn() -> u64 + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let clock: Clock = Arc::new(clock);
        let tap = config.dnstap.as_ref().map(Tap::start).transpose()?;
        let shared = Shared {
            log: Log::start(config.query_log.clone(), Arc::clone(&clock))?,
            tap: tap.flatten(),
            tops: Mutex::default(),
            uncounted: AtomicU64::new(0),
            clock,
        };
        Ok(Self(Arc::new(shared)))
    }

    /// Takes the query log of another configuration.
    pub fn adopt(&self, query_log: &QueryLog) {
        self.0.log.adopt(query_log.clone());
    }

    /// A watcher for one more thread.
    #[must_use]
    pub fn watcher(&self) -> Watcher {
        let mut tops = self.0.tops.lock();
        let n = u64::try_from(tops.len()).unwrap_or_default();
        // Each thread samples at other times than the next one.
        let top = Arc::new(Mutex::new(Top::new(
            0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(n + 1),
        )));
        tops.push(Arc::clone(&top));
        Watcher {
            shared: Arc::clone(&self.0),
            top,
        }
    }

    /// The query log and dnstap, for the status.
    #[must_use]
    pub fn report(
        &self,
    ) -> (
        api::dns_recursor::QueryLog,
        Option<api::dns_recursor::Dnstap>,
    ) {
        let log = self.0.log.report((self.0.clock)());
        (log, self.0.tap.as_ref().map(Tap::report))
    }

    /// Writes what waits for the log and for dnstap, and ends both.
    pub fn stop(&self) {
        self.0.log.stop();
        if let Some(tap) = &self.0.tap {
            tap.stop();
        }
    }
}

/// Watches the queries of one thread.
#[derive(Clone)]
pub struct Watcher {
    shared: Arc<Shared>,
    top: Arc<Mutex<Top>>,
}

impl fmt::Debug for Watcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watcher").finish_non_exhaustive()
    }
}

impl Watcher {
    /// A query has come.
    #[inline]
    pub fn queried(&self, peer: &Peer, message: &[u8]) {
        if let Some(tap) = &self.shared.tap {
            tap.queried(peer, message);
        }
    }

    /// The outcome of a query is known. `zone` gives the zone of a name, both in wire form and lower case, if there is one that
    /// says more than `.`.
    #[inline]
    pub fn answered<'z>(&self, seen: &Seen<'_>, zone: impl FnOnce(&[u8]) -> Option<&'z [u8]>) {
        match self.top.try_lock() {
            None => {
                self.shared.uncounted.fetch_add(1, Ordering::Relaxed);
            }
            Some(mut top) => match top.weight(seen.second) {
                0 => {}
                weight => count(&mut top, weight, seen, zone),
            },
        }
        self.shared.log.answered(seen);
        if let Some(tap) = &self.shared.tap {
            tap.answered(seen);
        }
    }

    /// A query goes to an upstream.
    #[inline]
    pub fn asks(&self, exchanged: &Exchanged<'_>) {
        if let Some(tap) = &self.shared.tap {
            tap.exchanged(exchanged, None);
        }
    }

    /// A response has come from an upstream, so long after its query.
    #[inline]
    pub fn received(&self, exchanged: &Exchanged<'_>, took: Duration) {
        if let Some(tap) = &self.shared.tap {
            tap.exchanged(exchanged, Some(took));
        }
    }

    /// Whether messages of upstreams are wanted.
    #[must_use]
    #[inline]
    pub fn wants_upstreams(&self) -> bool {
        let messages = self.shared.tap.as_ref().map(Tap::messages);
        messages.is_some_and(|messages| {
            messages.iter().any(|message| {
                !matches!(
                    message,
                    DnstapMessage::ClientQuery | DnstapMessage::ClientResponse
                )
            })
        })
    }
}

fn count<'z>(
    top: &mut Top,
    weight: u64,
    seen: &Seen<'_>,
    zone: impl FnOnce(&[u8]) -> Option<&'z [u8]>,
) {
    let question = seen.question.unwrap_or_default();
    let name = question.get(..question.len().saturating_sub(4));
    let mut lower = [0; MAX_NAME];
    let name = name.and_then(|name| {
        let lower = lower.get_mut(..name.len())?;
        lower.copy_from_slice(name);
        lower.make_ascii_lowercase();
        Some(&*lower)
    });
    let name = name.unwrap_or_default();
    let outcome = Outcome {
        name,
        zone: zone(name).unwrap_or_else(|| last_two_labels(name)),
        client: seen.peer.address.ip(),
        is_miss: seen.is_miss,
        is_failure: seen.rcode() == Some(Rcode::SERVFAIL),
    };
    top.count(&outcome, weight, seen.second);
}

#[cfg(test)]
mod tests;
