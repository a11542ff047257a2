//! Counters, one set a thread, so that no thread ever waits for another.

use std::array;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dns_cache::answer::Transport;
use dns_cookie::CookieState;
use dns_front::front::Source;
use dns_serve::rate::RateLimits;
use dns_wire::{Rcode, Type};
use parking_lot::RwLock;

/// Types with a counter of their own, those of `CoreDNS`; the last counter is for all others.
pub const TYPES: [(Type, &str); 16] = [
    (Type::A, "A"),
    (Type::AAAA, "AAAA"),
    (Type::MX, "MX"),
    (Type::SOA, "SOA"),
    (Type::CNAME, "CNAME"),
    (Type::PTR, "PTR"),
    (Type::TXT, "TXT"),
    (Type::NS, "NS"),
    (Type::SRV, "SRV"),
    (Type::DS, "DS"),
    (Type::DNSKEY, "DNSKEY"),
    (Type::RRSIG, "RRSIG"),
    (Type::NSEC, "NSEC"),
    (Type::NSEC3, "NSEC3"),
    (Type::HTTPS, "HTTPS"),
    (Type::ANY, "ANY"),
];
/// Response codes with a counter of their own: those of the header.
pub const RCODES: usize = 16;
/// The sources of answers, by their names in metrics.
pub const SOURCES: [(Source, &str); 11] = [
    (Source::Positive, "cache"),
    (Source::Negative, "cache-negative"),
    (Source::Stale, "stale"),
    (Source::Failure, "cache-failure"),
    (Source::Local, "local"),
    (Source::Names, "hosts"),
    (Source::Policy, "rpz"),
    (Source::Dns64, "dns64"),
    (Source::Resolver, "forward"),
    (Source::Error, "error"),
    (Source::Dropped, "dropped"),
];
/// The name of a source in metrics and logs.
#[must_use]
pub fn source_name(source: Source) -> &'static str {
    let mut known = SOURCES.iter();
    known
        .find(|(known, _)| *known == source)
        .map_or("", |(_, name)| name)
}

/// The states of cookies, by their names in metrics.
pub const COOKIES: [(CookieState, &str); 4] = [
    (CookieState::New, "new"),
    (CookieState::Bad, "bad"),
    (CookieState::Proven, "proven"),
    (CookieState::Malformed, "malformed"),
];
/// Transport and address family of queries.
pub const ARRIVALS: [(&str, &str); 4] = [("udp", "1"), ("udp", "2"), ("tcp", "1"), ("tcp", "2")];
/// Upper bounds of the latency histogram in microseconds: `CoreDNS`'s, 250 µs doubled 15 times.
pub const BUCKETS: usize = 16;

/// The upper bound of a bucket of the latency histogram, in seconds.
#[must_use]
pub fn bucket_bound(bucket: usize) -> f64 {
    let power = i32::try_from(bucket).unwrap_or(i32::MAX);
    0.000_25 * 2_f64.powi(power)
}

/// A number that one thread writes and others read.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Adds without a locked instruction: a single writer does not need one.
    pub fn add(&self, amount: u64) {
        let value = self.0.load(Ordering::Relaxed).wrapping_add(amount);
        self.0.store(value, Ordering::Relaxed);
    }

    /// The number.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The transport and address family of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The transport.
    pub transport: Transport,
    /// Whether the client's address is IPv6.
    pub ipv6: bool,
}

impl Arrival {
    fn index(self) -> usize {
        2 * usize::from(self.transport == Transport::Tcp) + usize::from(self.ipv6)
    }
}

/// The counters of one thread; only that thread writes to them.
#[derive(Debug)]
#[repr(align(128))]
pub struct Counts {
    requests: [[Count; TYPES.len() + 1]; ARRIVALS.len()],
    responses: [[Count; RCODES]; SOURCES.len()],
    latency: [Count; BUCKETS + 1],
    latency_micros: Count,
    cookies: [Count; COOKIES.len()],
    /// Entries that were refreshed before they expired.
    pub prefetches: Count,
    /// Queries refused because too many wait.
    pub overload: Count,
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            requests: array::from_fn(|_| array::from_fn(|_| Count::default())),
            responses: array::from_fn(|_| array::from_fn(|_| Count::default())),
            latency: array::from_fn(|_| Count::default()),
            latency_micros: Count::default(),
            cookies: array::from_fn(|_| Count::default()),
            prefetches: Count::default(),
            overload: Count::default(),
        }
    }
}

impl Counts {
    /// Counts a query.
    pub fn request(&self, arrival: Arrival, qtype: Option<Type>) {
        let other = TYPES.len();
        let qtype = qtype.map_or(other, |qtype| {
            let place = TYPES.iter().position(|(known, _)| *known == qtype);
            place.unwrap_or(other)
        });
        if let Some(count) = self
            .requests
            .get(arrival.index())
            .and_then(|row| row.get(qtype))
        {
            count.add(1);
        }
    }

    /// Counts the cookie of a query, if it has one.
    pub fn cookie(&self, cookie_state: CookieState) {
        if cookie_state != CookieState::None {
            let place = COOKIES.iter().position(|(known, _)| *known == cookie_state);
            if let Some(count) = place.and_then(|place| self.cookies.get(place)) {
                count.add(1);
            }
        }
    }

    /// Counts a response.
    pub fn response(&self, source: Source, rcode: Rcode) {
        let place = SOURCES.iter().position(|(known, _)| *known == source);
        let rcode = usize::from(rcode.low());
        if let Some(count) = place
            .and_then(|place| self.responses.get(place))
            .and_then(|row| row.get(rcode))
        {
            count.add(1);
        }
    }

    /// Counts a query that was answered without a wait.
    pub fn inline(&self) {
        let [first, ..] = &self.latency;
        first.add(1);
    }

    /// Counts a query that was answered after this time.
    pub fn latency(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = bucket(micros);
        if let Some(count) = self.latency.get(bucket) {
            count.add(1);
        }
        self.latency_micros.add(micros);
    }
}

/// The first bucket whose bound is not below this many microseconds.
#[must_use]
pub fn bucket(micros: u64) -> usize {
    let mut bound = 250;
    for bucket in 0..BUCKETS {
        if micros <= bound {
            return bucket;
        }
        bound *= 2;
    }
    BUCKETS
}

/// The counters of all threads; clones share them.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    threads: Arc<RwLock<Vec<Arc<Counts>>>>,
    /// The limit of responses.
    pub limits: RateLimits,
}

/// The sum over all threads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Queries by arrival and type.
    pub requests: [[u64; TYPES.len() + 1]; ARRIVALS.len()],
    /// Responses by source and response code.
    pub responses: [[u64; RCODES]; SOURCES.len()],
    /// Answers by bucket of latency; the last is above all bounds.
    pub latency: [u64; BUCKETS + 1],
    /// The sum of all latencies, in microseconds.
    pub latency_micros: u64,
    /// Queries with a cookie, by what it proves.
    pub cookies: [u64; COOKIES.len()],
    /// Entries refreshed ahead.
    pub prefetches: u64,
    /// Queries refused because too many wait.
    pub overload: u64,
}

impl Totals {
    /// Adds the counters of one more thread.
    #[must_use]
    pub fn add_thread(&self) -> Arc<Counts> {
        let counts = Arc::new(Counts::default());
        let mut threads = self.threads.write();
        threads.push(Arc::clone(&counts));
        counts
    }

    /// Everything counted so far.
    #[must_use]
    pub fn sum(&self) -> Sum {
        let mut sum = Sum::default();
        let threads = self.threads.read();
        for counts in threads.iter() {
            let pairs = [
                (
                    sum.requests.as_flattened_mut(),
                    counts.requests.as_flattened(),
                ),
                (
                    sum.responses.as_flattened_mut(),
                    counts.responses.as_flattened(),
                ),
                (&mut sum.latency[..], &counts.latency[..]),
                (&mut sum.cookies[..], &counts.cookies[..]),
            ];
            for (to, from) in pairs {
                for (to, from) in to.iter_mut().zip(from) {
                    *to += from.get();
                }
            }
            sum.latency_micros += counts.latency_micros.get();
            sum.prefetches += counts.prefetches.get();
            sum.overload += counts.overload.get();
        }
        sum
    }
}

impl Sum {
    /// Queries in all.
    #[must_use]
    pub fn n_requests(&self) -> u64 {
        self.requests.as_flattened().iter().sum()
    }

    /// Responses from one source.
    #[must_use]
    pub fn from_source(&self, source: Source) -> u64 {
        let place = SOURCES.iter().position(|(known, _)| *known == source);
        let row = place.and_then(|place| self.responses.get(place));
        row.map_or(0, |row| row.iter().sum())
    }

    /// Responses with one code.
    #[must_use]
    pub fn with_rcode(&self, rcode: Rcode) -> u64 {
        let at = usize::from(rcode.low());
        let sent = self.responses.iter().filter_map(|row| row.get(at));
        sent.sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_threads_count_is_summed() {
        let totals = Totals::default();
        let arrival = Arrival {
            transport: Transport::Tcp,
            ipv6: true,
        };
        for n in 1..=3 {
            let counts = totals.add_thread();
            for _ in 0..n {
                counts.request(arrival, Some(Type::AAAA));
                counts.request(arrival, Some(Type(9999)));
                counts.response(Source::Stale, Rcode::NXDOMAIN);
                counts.latency(Duration::from_micros(n * 300));
            }
        }
        let sum = totals.sum();
        assert_eq!((sum.requests[3][1], sum.requests[3][TYPES.len()]), (6, 6));
        assert_eq!(sum.n_requests(), 12);
        assert_eq!(sum.from_source(Source::Stale), 6);
        assert_eq!(sum.with_rcode(Rcode::NXDOMAIN), 6);
        assert_eq!(sum.latency[..3], [0, 1, 5]);
        assert_eq!(sum.latency_micros, 300 + 1200 + 2700);
    }

    #[test]
    fn buckets_double() {
        assert_eq!(
            [0, 250, 251, 500, 8_192_000, 8_192_001].map(bucket),
            [0, 0, 1, 1, 15, 16]
        );
        assert!((bucket_bound(2) - 0.001).abs() < 1e-9);
    }
}
