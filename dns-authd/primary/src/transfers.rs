//! Sends zones, and differences between their versions: each transfer is written by a thread of its own, at a pace, and only a few at once.
//!
//! ```text
//! connection ◄── a few messages ◄── thread: Transfer ─► pace
//! ```
//!
//! The thread of the connections only passes the messages on. A transfer holds its version of the zone, one
//! message, and the messages that the client has not read yet; a client that does not read delays only itself.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ::config::dns_authd::Transfers as Limits;
use daemon::clock;
use dns_answer::transfer::{Kind, Transfer, Version};
use dns_wire::Session;
use tokio::sync::mpsc;

use crate::histories::Histories;
use crate::now;

/// The messages of one transfer that wait for its client, of about 16 KiB each.
const QUEUE: usize = 4;
/// A shorter debt of time is not slept off at once.
const SHORTEST_PAUSE: Duration = Duration::from_millis(2);

/// The transfers under way, and their bounds.
#[derive(Debug)]
pub struct Transfers {
    at_once: usize,
    /// Octets a second of one transfer; 0 is no limit.
    rate: u64,
    under_way: Arc<AtomicUsize>,
    histories: Histories,
    counts: Arc<Counts>,
}

/// The counts of transfers, by what they send.
#[derive(Debug, Default)]
pub struct Counts {
    /// Whole zones.
    pub whole: AtomicU64,
    /// The differences from the client's version.
    pub differences: AtomicU64,
    /// The SOA record alone, since the client had the version.
    pub current: AtomicU64,
}

/// The reason why a transfer does not begin.
#[derive(Debug)]
pub enum NotBegun {
    /// As many as allowed are under way.
    TooMany,
    /// The system has no thread for it.
    NoThread(io::Error),
}

/// The place of a transfer under way.
struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Transfers {
    /// No transfers yet, and these bounds.
    #[must_use]
    pub fn new(limits: &Limits, histories: Histories, counts: Arc<Counts>) -> Self {
        Self {
            histories,
            counts,
            at_once: limits.at_once.get(),
            rate: limits.rate.0,
            under_way: Arc::default(),
        }
    }

    /// Begins the transfer of a zone that this message requests; the session of a signed one signs it.
    ///
    /// # Errors
    /// When as many as allowed are under way, or no thread can be started.
    pub fn begin(
        &self,
        version: &Version,
        message: &[u8],
        session: Option<Session>,
    ) -> Result<(mpsc::Receiver<Vec<u8>>, Kind), NotBegun> {
        let n_before = self.under_way.fetch_add(1, Ordering::Relaxed);
        let place = Place(Arc::clone(&self.under_way));
        if n_before >= self.at_once {
            return Err(NotBegun::TooMany);
        }
        let (sender, messages) = mpsc::channel(QUEUE);
        let history = match version {
            Version::Raw(zone) => self.histories.of(zone),
            Version::Flat(flat) => Some(flat.history().clone()),
        };
        let (transfer, kind) = Transfer::new(version.clone(), history.as_ref(), message, session);
        let rate = self.rate;
        thread::Builder::new()
            .name("zone-transfer".to_owned())
            .spawn(move || {
                send(transfer, rate, &sender);
                drop(place);
            })
            .map_err(NotBegun::NoThread)?;
        let count = match kind {
            Kind::Whole => &self.counts.whole,
            Kind::Differences => &self.counts.differences,
            Kind::Current => &self.counts.current,
        };
        count.fetch_add(1, Ordering::Relaxed);
        Ok((messages, kind))
    }
}

/// Sends the messages of a transfer until its end, or until its client is gone.
fn send(mut transfer: Transfer, rate: u64, messages: &mpsc::Sender<Vec<u8>>) {
    let mut scratch = vec![0; dns_answer::MAX_MESSAGE];
    let mut pace = Pace {
        rate,
        begun: clock::now(),
        sent: 0,
    };
    while let Some(length) = transfer.next_message(&mut scratch, now()) {
        let message = scratch.get(..length).unwrap_or_default().to_vec();
        if messages.blocking_send(message).is_err() {
            return;
        }
        let pause = pace.pause(length, clock::now());
        if pause >= SHORTEST_PAUSE {
            thread::sleep(pause);
        }
    }
}

/// The pace of one transfer.
struct Pace {
    rate: u64,
    begun: Instant,
    sent: u64,
}

impl Pace {
    /// How long to wait behind a message of this length.
    fn pause(&mut self, length: usize, now: Instant) -> Duration {
        self.sent = self.sent.saturating_add(length as u64);
        if self.rate == 0 {
            return Duration::ZERO;
        }
        let micros = self.sent.saturating_mul(1_000_000) / self.rate;
        let due = self.begun + Duration::from_micros(micros);
        due.saturating_duration_since(now)
    }
}

#[cfg(test)]
mod tests {
    use dns_answer::testing::{query, records, snapshot, zone_at};
    use dns_wire::Type;

    use super::*;

    fn zone(n: usize) -> Version {
        let mut text = "example. 60 SOA a. b. 7 2 3 4 5\nexample. 60 NS ns.example.\n".to_owned();
        for number in 0..n {
            text.push_str(&format!("n{number}.example. 60 TXT \"{number}\"\n"));
        }
        let snapshot = snapshot("example.", &records(&text));
        Version::from(&zone_at(&snapshot, 0))
    }

    fn limits(at_once: i64) -> Limits {
        Limits {
            at_once: ::config::Whole::clamped(at_once),
            ..Limits::default()
        }
    }

    #[test]
    fn no_more_than_the_bound_are_under_way_and_an_abandoned_one_makes_room() {
        let zone = zone(5_000);
        let transfers = Transfers::new(&limits(2), Histories::default(), Arc::default());
        let asked = query(&"example.".parse().unwrap(), Type::AXFR);
        let (first, kind) = transfers.begin(&zone, &asked, None).unwrap();
        assert_eq!(kind, Kind::Whole);
        let (mut second, _) = transfers.begin(&zone, &asked, None).unwrap();
        assert!(matches!(
            transfers.begin(&zone, &asked, None),
            Err(NotBegun::TooMany)
        ));
        drop(first);
        let mut n_messages = 0;
        while second.blocking_recv().is_some() {
            n_messages += 1;
        }
        assert!(n_messages > 3);
        for _ in 0..3_000 {
            if transfers.under_way.load(Ordering::Relaxed) == 0 {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("places are still taken");
    }

    #[test]
    fn a_transfer_has_its_pace() {
        let begun = clock::now();
        let mut pace = Pace {
            rate: 1_000_000,
            begun,
            sent: 0,
        };
        assert_eq!(pace.pause(500_000, begun), Duration::from_millis(500));
        let later = begun + Duration::from_millis(900);
        assert_eq!(pace.pause(500_000, later), Duration::from_millis(100));
        assert_eq!(
            pace.pause(0, later + later.duration_since(begun)),
            Duration::ZERO
        );
        pace.rate = 0;
        assert_eq!(pace.pause(usize::MAX, begun), Duration::ZERO);
    }
}
