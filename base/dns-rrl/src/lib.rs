//! Response-rate limiting: how many responses over UDP the address and the networks of a client may get.
//!
//! A forged source address makes a DNS server send its responses to a victim. The limit bounds what one address gets, and, with
//! larger factors, the networks around it, so that a flood does not pass under the limit by changing its addresses. Knot DNS has
//! the same networks and factors.
//!
//! The table has a fixed size. Networks that share a bucket share its limit; the hash has a secret key, so that no client can aim at the
//! bucket of another. Threads share the table without a lock. Reads no clock, and allocates nothing after the start.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

/// The networks of an IPv4 address: the length of the prefix, and how many times the limit of an address it has.
const V4: [(u32, u32); 4] = [(32, 1), (24, 32), (20, 256), (18, 768)];

/// The networks of an IPv6 address.
const V6: [(u32, u32); 5] = [(128, 1), (64, 2), (56, 3), (48, 4), (32, 64)];

/// A full bucket. A response fills a part of it, so that networks with different limits can share a bucket.
const FULL: u64 = 1 << 31;

/// The time in which a full bucket drains: the responses of this time may come at once.
const BURST_MILLIS: u64 = 2500;

/// The largest limit. With the largest factor, a response is still 111 parts of a bucket.
pub const MAX_RATE: u32 = 10_000;

/// How far the clock of another thread may be ahead, in milliseconds.
const AHEAD: u32 = 10_000;

/// How often a bucket is tried that other threads change at the same time.
const ATTEMPTS: usize = 8;

/// The buckets of all networks.
#[derive(Debug)]
pub struct Buckets<S = RandomState> {
    buckets: Box<[AtomicU64]>,
    hasher: S,
}

impl Buckets {
    /// Empty buckets, at least one, with a random key of the hash.
    #[must_use]
    pub fn new(size: usize) -> Self {
        Self::with_hasher(size, RandomState::new())
    }
}

impl<S: BuildHasher> Buckets<S> {
    /// Empty buckets, at least one.
    pub fn with_hasher(size: usize, hasher: S) -> Self {
        Self {
            buckets: (0..size.max(1)).map(|_| AtomicU64::new(0)).collect(),
            hasher,
        }
    }

    /// Counts a response to a client, and says whether it is within the limit of `rate` responses a second for an address.
    ///
    /// `now` is a time in milliseconds; it may wrap.
    pub fn take(&self, client: IpAddr, now: u32, rate: u32) -> bool {
        let rate = u64::from(rate.min(MAX_RATE));
        // From the address to the largest network: the excess of an address does not count for its neighbours.
        let is_within = |address: u128, width: u32, (length, factor): (u32, u32)| {
            let bucket = self.of((width, length, address & mask(length, width)));
            bucket.is_none_or(|bucket| fill(bucket, now, rate * u64::from(factor)))
        };
        match client.to_canonical() {
            IpAddr::V4(address) => V4
                .into_iter()
                .all(|network| is_within(address.to_bits().into(), 32, network)),
            IpAddr::V6(address) => V6
                .into_iter()
                .all(|network| is_within(address.to_bits(), 128, network)),
        }
    }

    /// The bucket of a network.
    fn of(&self, network: (u32, u32, u128)) -> Option<&AtomicU64> {
        let hash = self.hasher.hash_one(network);
        let place = usize::try_from(hash).unwrap_or(usize::MAX) % self.buckets.len();
        self.buckets.get(place)
    }
}

/// The bits of a network of this length, in addresses of `width` bits.
const fn mask(length: u32, width: u32) -> u128 {
    let all = u128::MAX >> (128 - width);
    match length {
        0 => 0,
        _ => all ^ (all >> (length - 1) >> 1),
    }
}

/// Puts a response into a bucket, of which `rate` a second have room; false if it is full.
fn fill(bucket: &AtomicU64, now: u32, rate: u64) -> bool {
    let part = FULL * 1000 / (rate.max(1) * BURST_MILLIS);
    let mut seen = bucket.load(Ordering::Relaxed);
    for _ in 0..ATTEMPTS {
        let Some(next) = filled(seen, now, part) else {
            return false;
        };
        match bucket.compare_exchange_weak(seen, next, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return true,
            Err(other) => seen = other,
        }
    }
    // Other threads fill the bucket at this moment.
    true
}

/// A bucket is a time in its upper half, and in its lower half how full it was then.
fn filled(bucket: u64, now: u32, part: u64) -> Option<u64> {
    let (then, level) = ((bucket >> 32) as u32, bucket & u64::from(u32::MAX));
    let elapsed = now.wrapping_sub(then);
    // Threads read their clocks at different moments: another may be ahead.
    let (then, elapsed) = match elapsed > u32::MAX - AHEAD {
        true => (then, 0),
        false => (now, elapsed),
    };
    let drained = u64::from(elapsed) * FULL / BURST_MILLIS;
    let level = level.saturating_sub(drained) + part;
    (level <= FULL).then_some(u64::from(then) << 32 | level)
}

#[cfg(test)]
mod tests;
