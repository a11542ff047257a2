//! How many connections a source may have, and how many it may begin in a time.
//!
//! A source is an IPv4 address or an IPv6 /64. Sources stand in a table of fixed size: groups of
//! [`WAYS`], of which a source's hash names one. Admitting a connection looks through one group under
//! that group's lock and allocates nothing.
//!
//! **When the table is full.** A newcomer replaces a source in its group that has no
//! connections, first of one whose rate no longer matters, then of the one with the fewest. So those
//! with connections stay counted however many others come. If every place of the group has
//! connections, the newcomer is admitted without being counted: an innocent is never refused for what
//! others do, and the price is that an attacker with very many addresses is not held by this limit
//! (the frontend's `max-connections` holds it). A seed decides which sources share a group, so
//! no client can choose the one to push out.
//!
//! The rate is `HAProxy`'s `conn_rate`: connections in the last period, estimated from the current
//! and the previous one. Unlike there, those that are refused do not count, so that a source that
//! asks for too much gets as much as it may, not nothing.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

pub use config::lb_proxy::{MIN_PERIOD, Rate, SOURCES as CAPACITY};
use parking_lot::Mutex;

use crate::pool::mix;

/// Places in a group.
pub const WAYS: usize = 8;

/// The most sources in a table: 400 MiB.
pub const MAX_CAPACITY: usize = 1 << 24;

/// Rate and concurrency of each source of one frontend.
#[derive(Debug)]
pub struct Limits {
    /// Connections at a time; zero stands for no limit.
    connections: AtomicU32,
    /// Connections in a period, zero for no limit, and below them the period in milliseconds: one
    /// word, so that no reader sees the one without the other.
    rate: AtomicU64,
    seed: u64,
    epoch: Instant,
    groups: Box<[Group]>,
    tally: Tally,
}

/// The limits of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rules {
    /// Connections at a time.
    pub connections: Option<u32>,
    /// Connections in a time.
    pub rate: Option<Rate>,
}

/// Why a connection is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Its source has as many as it may.
    Connections,
    /// Its source began as many as it may.
    Rate,
}

/// The counters.
#[derive(Debug, Default)]
pub struct Tally {
    /// Connections refused because their source had too many.
    pub refused_connections: AtomicU64,
    /// Connections refused because their source began too many.
    pub refused_rate: AtomicU64,
    /// Connections admitted without being counted, because the table was full.
    pub uncounted: AtomicU64,
    /// Sources forgotten while their rate still mattered.
    pub forgotten: AtomicU64,
}

/// One connection of a source; dropping it ends it.
#[derive(Debug)]
pub struct Admission {
    limits: Arc<Limits>,
    /// Its group and place; none if it is not counted.
    place: Option<(u32, u8)>,
}

/// The activity of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Source {
    /// Its address, or the first of its /64.
    pub address: IpAddr,
    /// Its connections.
    pub connections: u32,
    /// How many it began in the last period.
    pub rate: u32,
}

impl Limits {
    /// A table for about `capacity` sources. Without `seed` being secret and random, attackers may
    /// choose their group.
    #[must_use]
    pub fn new(rules: Rules, capacity: usize, seed: u64, now: Instant) -> Arc<Self> {
        let n_groups = n_groups(capacity);
        let limits = Self {
            connections: AtomicU32::new(0),
            rate: AtomicU64::new(0),
            seed,
            epoch: now,
            groups: (0..n_groups).map(|_| Group::default()).collect(),
            tally: Tally::default(),
        };
        limits.set_rules(rules);
        Arc::new(limits)
    }

    /// Changes what sources may do; their connections stay counted, and their rates unless the period
    /// changes. A limit of zero counts as one: a source that must not connect is refused elsewhere.
    pub fn set_rules(&self, rules: Rules) {
        let connections = rules.connections.map_or(0, |limit| limit.max(1));
        self.connections.store(connections, Ordering::Relaxed);
        let (count, period) = rules.rate.map_or((0, MIN_PERIOD), |rate| {
            (rate.count.max(1), rate.period.max(MIN_PERIOD))
        });
        let period = u32::try_from(period.as_millis()).unwrap_or(u32::MAX);
        let rate = u64::from(count) << 32 | u64::from(period);
        self.rate.store(rate, Ordering::Relaxed);
    }

    /// Admits a connection from `source`, or says why not.
    ///
    /// # Errors
    ///
    /// When the source has or began as many connections as it may.
    pub fn admit(self: &Arc<Self>, source: IpAddr, now: Instant) -> Result<Admission, Refusal> {
        let outcome = self.enter(source, now, true);
        match outcome {
            Ok(_) => {}
            Err(Refusal::Connections) => {
                self.tally
                    .refused_connections
                    .fetch_add(1, Ordering::Relaxed);
            }
            Err(Refusal::Rate) => {
                self.tally.refused_rate.fetch_add(1, Ordering::Relaxed);
            }
        }
        outcome
    }

    /// Counts a connection that exists already, limit or not: one that was handed over.
    #[must_use]
    pub fn adopt(self: &Arc<Self>, source: IpAddr, now: Instant) -> Admission {
        self.enter(source, now, false)
            .unwrap_or_else(|_| Admission {
                limits: Arc::clone(self),
                place: None,
            })
    }

    /// The counters.
    #[must_use]
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// How many sources there is room for.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.groups.len() * WAYS
    }

    /// True when a table for `capacity` sources is as large as this one.
    #[must_use]
    pub fn fits(&self, capacity: usize) -> bool {
        self.groups.len() == n_groups(capacity)
    }

    /// Sources that have connections or began some in the last two periods, the busiest first, at
    /// most `n`. Goes through the whole table, one group at a time.
    #[must_use]
    pub fn busiest(&self, n: usize, now: Instant) -> Vec<Source> {
        let clock = self.clock(now);
        let mut sources = Vec::new();
        for group in &self.groups {
            for entry in group.entries.lock().iter() {
                let rate = entry.rate(clock);
                if entry.key != FREE && (entry.connections > 0 || rate > 0) {
                    sources.push(Source {
                        address: address(entry.key),
                        connections: entry.connections,
                        rate,
                    });
                }
            }
            if sources.len() >= n.saturating_mul(4).max(1024) {
                keep_busiest(&mut sources, n);
            }
        }
        keep_busiest(&mut sources, n);
        sources
    }

    fn enter(
        self: &Arc<Self>,
        source: IpAddr,
        now: Instant,
        refuse: bool,
    ) -> Result<Admission, Refusal> {
        let key = key(source);
        let clock = self.clock(now);
        let (group_number, group) = self.group(key);
        let mut entries = group.entries.lock();
        let Some(at) = self.place(&mut entries, key, clock) else {
            drop(entries);
            self.tally.uncounted.fetch_add(1, Ordering::Relaxed);
            return Ok(Admission {
                limits: Arc::clone(self),
                place: None,
            });
        };
        if let Some(entry) = entries.get_mut(usize::from(at)) {
            if refuse {
                self.check(entry, clock)?;
            }
            entry.connections = entry.connections.saturating_add(1);
            entry.begin(clock);
        }
        drop(entries);
        Ok(Admission {
            limits: Arc::clone(self),
            place: Some((group_number, at)),
        })
    }

    fn check(&self, entry: &Entry, clock: Clock) -> Result<(), Refusal> {
        let connections = self.connections.load(Ordering::Relaxed);
        if connections > 0 && entry.connections >= connections {
            return Err(Refusal::Connections);
        }
        if clock.limit > 0 && entry.rate(clock) >= clock.limit {
            return Err(Refusal::Rate);
        }
        Ok(())
    }

    /// The place of `key` in its group, a new one if need be; none if all have connections.
    fn place(&self, entries: &mut [Entry; WAYS], key: u64, clock: Clock) -> Option<u8> {
        let mut best: Option<(u8, u32)> = None;
        for (at, entry) in (0..).zip(entries.iter()) {
            if entry.key == key {
                return Some(at);
            }
            if entry.connections > 0 {
                continue;
            }
            let rate = if entry.key == FREE {
                0
            } else {
                entry.rate(clock)
            };
            if best.is_none_or(|(_, least)| rate < least) {
                best = Some((at, rate));
            }
        }
        let (at, rate) = best?;
        if rate > 0 && clock.limit > 0 {
            self.tally.forgotten.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(entry) = entries.get_mut(usize::from(at)) {
            *entry = Entry {
                key,
                period: clock.period,
                ..Entry::default()
            };
        }
        Some(at)
    }

    fn group(&self, key: u64) -> (u32, &Group) {
        let hash = mix(key ^ self.seed);
        let number = hash >> 32;
        let number = (number * (self.groups.len() as u64)) >> 32;
        let at = usize::try_from(number).unwrap_or(0);
        match self.groups.get(at) {
            Some(group) => (u32::try_from(at).unwrap_or(0), group),
            None => unreachable!("a product with a fraction is below the other factor"),
        }
    }

    fn clock(&self, now: Instant) -> Clock {
        let rate = self.rate.load(Ordering::Relaxed);
        let period = u128::from(rate & u64::from(u32::MAX)).max(1) * 1000;
        let elapsed = now.saturating_duration_since(self.epoch).as_micros();
        let part = (elapsed % period) * 256 / period;
        Clock {
            // Two periods that differ by 2^32 are years apart.
            period: u32::try_from((elapsed / period) & u128::from(u32::MAX)).unwrap_or(0),
            part: u32::try_from(part).unwrap_or(0),
            limit: u32::try_from(rate >> 32).unwrap_or(0),
        }
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        let Some((group, at)) = self.place else {
            return;
        };
        let Some(group) = self.limits.groups.get(group as usize) else {
            return;
        };
        // A place with connections has no other owner.
        if let Some(entry) = group.entries.lock().get_mut(usize::from(at)) {
            entry.connections = entry.connections.saturating_sub(1);
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Connections => "too many connections from this source",
            Self::Rate => "too many new connections from this source",
        })
    }
}

/// The place of a moment.
#[derive(Debug, Clone, Copy)]
struct Clock {
    /// In which period.
    period: u32,
    /// How far into it, in 256ths.
    part: u32,
    /// How many connections may begin in one; zero if as many as like.
    limit: u32,
}

/// Sources that share a lock.
#[derive(Debug, Default)]
struct Group {
    entries: Mutex<[Entry; WAYS]>,
}

impl Group {}

/// The state of one source.
#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    key: u64,
    connections: u32,
    /// The period that `current` counts.
    period: u32,
    current: u32,
    previous: u32,
}

impl Entry {
    /// Connections begun in the last period, up to this moment.
    fn rate(&self, clock: Clock) -> u32 {
        let (current, previous) = self.counts(clock);
        let left = (u64::from(previous) * u64::from(256 - clock.part)) >> 8;
        current.saturating_add(u32::try_from(left).unwrap_or(u32::MAX))
    }

    /// Counts a connection that begins.
    fn begin(&mut self, clock: Clock) {
        let (current, previous) = self.counts(clock);
        self.period = clock.period;
        self.current = current.saturating_add(1);
        self.previous = previous;
    }

    /// How many began in the period of `clock`, and in the one before.
    fn counts(&self, clock: Clock) -> (u32, u32) {
        match clock.period.wrapping_sub(self.period) {
            0 => (self.current, self.previous),
            1 => (0, self.current),
            _ => (0, 0),
        }
    }
}

/// The key of a free place.
const FREE: u64 = 0;

/// Above every IPv4 address: as an IPv6 prefix this is multicast, which is never a source.
const IPV4: u64 = 0xffff_ffff_0000_0000;

/// The key of a source; never [`FREE`].
fn key(source: IpAddr) -> u64 {
    match source.to_canonical() {
        IpAddr::V4(address) => IPV4 | u64::from(address.to_bits()),
        IpAddr::V6(address) => match u64::try_from(address.to_bits() >> 64) {
            // ::/64, where only ::1 lives, stands in for by an IPv4 address that is never a source.
            Ok(0) | Err(_) => u64::MAX,
            Ok(prefix) => prefix,
        },
    }
}

/// The source that `key` stands for.
fn address(key: u64) -> IpAddr {
    if key == u64::MAX {
        return IpAddr::from(std::net::Ipv6Addr::UNSPECIFIED);
    }
    if key & IPV4 == IPV4 {
        let bits = u32::try_from(key & u64::from(u32::MAX)).unwrap_or(0);
        return IpAddr::from(std::net::Ipv4Addr::from(bits));
    }
    IpAddr::from(std::net::Ipv6Addr::from(u128::from(key) << 64))
}

/// How many groups have room for `capacity` sources.
fn n_groups(capacity: usize) -> usize {
    capacity.clamp(WAYS, MAX_CAPACITY).div_ceil(WAYS)
}

fn keep_busiest(sources: &mut Vec<Source>, n: usize) {
    sources.sort_by(|one, other| {
        let busy = |source: &Source| (source.connections, source.rate);
        busy(other)
            .cmp(&busy(one))
            .then(one.address.cmp(&other.address))
    });
    sources.truncate(n);
}

#[cfg(test)]
mod tests;
