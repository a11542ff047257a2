//! The memory of clients: the number of requests and the remaining allowance of each, in a table that never grows beyond its
//! limit.
//!
//! A client belongs into one set of the table, by a hash of its address that others cannot aim at. A full set forgets the
//! client that has been quiet longest. Each set has its own lock, so that threads hardly ever meet.

use parking_lot::{Mutex, MutexGuard};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};

use super::place::place;
use super::rate::{Bucket, Limit, Verdict};
use random::Random;
use time_model::time::{Span, UnixTime};

/// Clients of one set.
const SET_SIZE: usize = 16;
/// Octets of a set.
const SET_OCTETS: usize = SET_SIZE * size_of::<Client>();
/// The most sets, whatever the limit says: a million clients.
const MOST_SETS: usize = 1 << 16;
/// Weight of the newest interval in the average, as a power of two.
const SMOOTHING: f32 = 0.25;
/// A client is impatient if its requests come by so much (a power of two) faster after one was dropped.
const IMPATIENT: f32 = 1.0;

/// The service that a client uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// The time.
    Ntp,
    /// A report, over chronyc's protocol.
    Command,
}

/// The requests of one address to one service.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Access {
    /// Requests.
    pub n_requests: u32,
    /// Requests that were dropped to keep the limit.
    pub n_dropped: u32,
    /// Average interval between requests, as a power of two in seconds; none before the second.
    pub interval: Option<f32>,
    /// The same after a request that was dropped.
    pub dropped_interval: Option<f32>,
    /// When it last asked.
    pub last: Option<UnixTime>,
}

/// A client; `chronyc clients`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClientView {
    /// The address.
    pub address: IpAddr,
    /// How often it asked for the time.
    pub ntp: Access,
    /// How often it asked for reports.
    pub command: Access,
}

#[derive(Clone, Copy, Debug)]
struct Client {
    /// IPv4 is mapped into IPv6.
    address: Ipv6Addr,
    ntp: Account,
    command: Account,
}

#[derive(Clone, Copy, Debug)]
struct Account {
    last: Option<UnixTime>,
    bucket: Bucket,
    n_requests: u32,
    n_dropped: u32,
    /// Not a number before the second request.
    interval: f32,
    dropped_interval: f32,
    was_dropped: bool,
}

impl Account {
    const NEW: Self = Self {
        last: None,
        bucket: Bucket::EMPTY,
        n_requests: 0,
        n_dropped: 0,
        interval: f32::NAN,
        dropped_interval: f32::NAN,
        was_dropped: false,
    };

    /// Counts a request and decides on it.
    fn request(&mut self, now: UnixTime, limit: Option<&Limit>, random: &mut Random) -> Verdict {
        let elapsed = self.last.map(|last| now - last);
        self.last = Some(now);
        self.n_requests = self.n_requests.saturating_add(1);
        if let Some(elapsed) = elapsed {
            let average = if self.was_dropped {
                &mut self.dropped_interval
            } else {
                &mut self.interval
            };
            smooth(average, elapsed);
        }
        let Some(limit) = limit else {
            self.was_dropped = false;
            return Verdict::Answer;
        };
        if elapsed.is_none() {
            self.bucket = limit.full();
        }
        let is_impatient = self.dropped_interval < self.interval - IMPATIENT;
        let elapsed = elapsed.unwrap_or_default();
        let verdict = limit.decide(&mut self.bucket, elapsed, is_impatient, random);
        self.was_dropped = verdict != Verdict::Answer;
        self.n_dropped = self.n_dropped.saturating_add(u32::from(self.was_dropped));
        verdict
    }

    fn view(&self) -> Access {
        let number = |value: f32| (!value.is_nan()).then_some(value);
        Access {
            n_requests: self.n_requests,
            n_dropped: self.n_dropped,
            interval: number(self.interval),
            dropped_interval: number(self.dropped_interval),
            last: self.last,
        }
    }
}

/// Takes an interval into the average of their logarithms.
#[expect(
    clippy::cast_possible_truncation,
    reason = "an average of logarithms needs no more digits"
)]
fn smooth(average: &mut f32, interval: Span) {
    // Intervals below a microsecond do not occur; a clock that was set back gives none.
    let interval = (interval.seconds().max(1e-6) as f32).log2();
    if average.is_nan() {
        *average = interval;
    } else {
        *average += (interval - *average) * SMOOTHING;
    }
}

impl Client {
    fn new(address: Ipv6Addr) -> Self {
        Self {
            address,
            ntp: Account::NEW,
            command: Account::NEW,
        }
    }

    fn last(&self) -> Option<UnixTime> {
        self.ntp.last.max(self.command.last)
    }

    fn account(&mut self, service: Service) -> &mut Account {
        match service {
            Service::Ntp => &mut self.ntp,
            Service::Command => &mut self.command,
        }
    }
}

/// The table.
#[derive(Debug)]
pub(super) struct Clients {
    sets: Box<[Mutex<Vec<Client>>]>,
    seed: [u64; 2],
    n_forgotten: AtomicU64,
}

impl Clients {
    /// A table of at most `limit` octets, but of one set at least.
    pub(super) fn new(limit: usize, seed: [u64; 2]) -> Self {
        let n_sets = (limit / SET_OCTETS).clamp(1, MOST_SETS);
        Self {
            sets: (0..n_sets).map(|_| Mutex::default()).collect(),
            seed,
            n_forgotten: AtomicU64::new(0),
        }
    }

    /// Counts a request and decides on it.
    pub(super) fn request(
        &self,
        service: Service,
        address: IpAddr,
        now: UnixTime,
        limit: Option<&Limit>,
        random: &mut Random,
    ) -> Verdict {
        let address = mapped(address);
        let Some(set) = self.sets.get(self.set_of(address)) else {
            return Verdict::Answer;
        };
        let mut set = lock(set);
        if let Some(client) = set.iter_mut().find(|client| client.address == address) {
            return client.account(service).request(now, limit, random);
        }
        let mut client = Client::new(address);
        let verdict = client.account(service).request(now, limit, random);
        if set.len() < SET_SIZE {
            set.push(client);
        } else if let Some(oldest) = set.iter_mut().min_by_key(|client| client.last()) {
            *oldest = client;
            self.n_forgotten.fetch_add(1, Ordering::Relaxed);
        }
        verdict
    }

    /// The client at a place of the table, if there is one.
    pub(super) fn at(&self, index: usize) -> Option<ClientView> {
        let set = lock(self.sets.get(index / SET_SIZE)?);
        let client = set.get(index % SET_SIZE)?;
        Some(ClientView {
            address: IpAddr::V6(client.address).to_canonical(),
            ntp: client.ntp.view(),
            command: client.command.view(),
        })
    }

    /// Resets the counters of the client at a place; its allowance stays as it was.
    pub(super) fn reset(&self, index: usize) {
        let Some(set) = self.sets.get(index / SET_SIZE) else {
            return;
        };
        if let Some(client) = lock(set).get_mut(index % SET_SIZE) {
            for account in [&mut client.ntp, &mut client.command] {
                account.n_requests = 0;
                account.n_dropped = 0;
            }
        }
    }

    /// Places of the table.
    pub(super) fn capacity(&self) -> usize {
        self.sets.len() * SET_SIZE
    }

    /// Clients that were forgotten to make room.
    pub(super) fn n_forgotten(&self) -> u64 {
        self.n_forgotten.load(Ordering::Relaxed)
    }

    fn set_of(&self, address: Ipv6Addr) -> usize {
        let n_sets = u64::try_from(self.sets.len()).unwrap_or(u64::MAX).max(1);
        usize::try_from(place(address.to_bits(), self.seed) % n_sets).unwrap_or_default()
    }
}

fn mapped(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

fn lock(set: &Mutex<Vec<Client>>) -> MutexGuard<'_, Vec<Client>> {
    // Each client is counted in one step, so a panic elsewhere leaves a table that can be used.
    set.lock()
}

#[cfg(test)]
mod tests {
    use super::*;
    use time_model::settings::RateLimit;
    use time_model::time::SECOND;

    const START: UnixTime = UnixTime(1_800_000_000 * SECOND);

    fn address(number: u32) -> IpAddr {
        IpAddr::V4(number.into())
    }

    #[test]
    fn the_table_is_bounded_and_forgets_the_quiet() {
        let clients = Clients::new(100 * 1024, [1, 2]);
        let mut random = Random::new([1; 16]);
        let faithful = address(0x0a00_0001);
        for number in 0..100_000 {
            let now = START + Span(i64::from(number) * 1000);
            clients.request(
                Service::Ntp,
                address(0xc000_0000 + number),
                now,
                None,
                &mut random,
            );
            clients.request(Service::Ntp, faithful, now, None, &mut random);
        }
        let capacity = clients.capacity();
        assert!(capacity * size_of::<Client>() <= 100 * 1024, "{capacity}");
        let views: Vec<ClientView> = (0..capacity)
            .filter_map(|index| clients.at(index))
            .collect();
        assert_eq!(views.len(), capacity, "every set is full: the hash spreads");
        let known = views.iter().find(|view| view.address == faithful).unwrap();
        assert_eq!(known.ntp.n_requests, 100_000);
        let n_forgotten = usize::try_from(clients.n_forgotten()).unwrap();
        assert_eq!(n_forgotten, 100_001 - capacity);
        assert_eq!(Clients::new(0, [0, 0]).capacity(), SET_SIZE);
        assert_eq!(
            Clients::new(usize::MAX, [0, 0]).capacity(),
            MOST_SETS * SET_SIZE
        );
    }

    #[test]
    fn a_client_has_its_own_bucket_and_services_do_not_mix() {
        let clients = Clients::new(1 << 16, [3, 4]);
        let mut random = Random::new([1; 16]);
        let limit = RateLimit {
            interval: None,
            burst: 8,
            leak: 40,
            kod: 0,
        };
        let limit = Limit::new(&limit, RateLimit::REQUESTS);
        let mut ask = |service, number| {
            clients.request(service, address(number), START, Some(&limit), &mut random)
        };
        for number in 0..10 {
            for _ in 0..8 {
                assert_eq!(ask(Service::Ntp, number), Verdict::Answer);
            }
            assert_eq!(ask(Service::Ntp, number), Verdict::Drop);
            assert_eq!(ask(Service::Command, number), Verdict::Answer);
        }
        let views = (0..clients.capacity()).filter_map(|index| clients.at(index));
        for view in views {
            assert_eq!((view.ntp.n_requests, view.ntp.n_dropped), (9, 1));
            assert_eq!((view.command.n_requests, view.command.n_dropped), (1, 0));
        }
    }

    #[test]
    fn intervals_are_averaged_and_counts_reset() {
        let clients = Clients::new(0, [5, 6]);
        let mut random = Random::new([1; 16]);
        let ask = |at: i64, random: &mut Random| {
            clients.request(
                Service::Ntp,
                address(1),
                START + Span(at * SECOND),
                None,
                random,
            )
        };
        ask(0, &mut random);
        let first = clients.at(0).unwrap();
        assert_eq!(first.ntp.interval, None);
        for step in 1..100 {
            ask(step * 64, &mut random);
        }
        let view = clients.at(0).unwrap();
        assert!((view.ntp.interval.unwrap() - 6.0).abs() < 1e-3);
        assert_eq!(view.ntp.last, Some(START + Span(99 * 64 * SECOND)));
        assert_eq!(view.command, Access::default());
        clients.reset(0);
        assert_eq!(clients.at(0).unwrap().ntp.n_requests, 0);
        assert_eq!(clients.at(0).unwrap().ntp.last, view.ntp.last);
        clients.reset(usize::MAX);
        assert_eq!(clients.at(usize::MAX), None);
    }

    #[test]
    fn the_impatient_are_known_by_their_hurry() {
        let clients = Clients::new(0, [7, 8]);
        let mut random = Random::new([1; 16]);
        let limit = RateLimit {
            interval: None,
            burst: 1,
            leak: 2,
            kod: 0,
        };
        let limit = Limit::new(&limit, RateLimit::REQUESTS);
        let mut now = START;
        let mut answered = 0;
        let mut last = Verdict::Answer;
        for _ in 0..4000 {
            // Waits for four seconds after an answer, and for one if there was none.
            now = now
                + Span(if last == Verdict::Answer {
                    4 * SECOND
                } else {
                    SECOND
                });
            last = clients.request(Service::Ntp, address(1), now, Some(&limit), &mut random);
            answered += u32::from(last == Verdict::Answer);
        }
        assert!(
            (2500..3500).contains(&answered),
            "three of four: {answered}"
        );
    }
}
