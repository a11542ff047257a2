//! The cache of answers. Positive and negative answers have a pool each, bounded in entries and in octets,
//! so that a flood of denials cannot push answers out (RFC 2308, RFC 8767, RFC 9520).
//!
//! ```text
//! Key ─► hash ─► shard (one lock) ─► slot ─► Message, age, state
//!                  ├─ positive queue  (SIEVE)
//!                  └─ negative queue  (SIEVE)
//! ```
//!
//! A lookup hashes the question once, takes one lock, and lends the message to the caller under it: it
//! neither allocates nor clones. An expired message is kept until the end of its stale time, or until its
//! place is needed. The cache never reads a clock and never asks an upstream.

mod queue;
mod shard;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dns_wire::{Name, Records, Section};
use parking_lot::{Mutex, MutexGuard};

use crate::instant::Instant;
use crate::key::{Key, Seed, Variant};
use crate::message::{Message, Pool};
use shard::Shard;

/// The most shards: enough that a few dozen threads rarely wait for one another.
const MAX_SHARDS: usize = 64;
/// The least entries of a shard, so that by chance one rarely fills while others are empty.
const MIN_SHARD_ENTRIES: usize = 128;
/// The least octets of a shard: two of the largest messages.
const MIN_SHARD_OCTETS: usize = 128 << 10;

/// The bounds of one pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// The most entries.
    pub entries: usize,
    /// The most octets of memory, bookkeeping included.
    pub octets: usize,
}

/// The options of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheOptions {
    /// Bounds of the pool of answers.
    pub positive: Capacity,
    /// Bounds of the pool of denials.
    pub negative: Capacity,
    /// The time that an expired answer stays available as a stale one; zero for none.
    pub stale: Duration,
}

impl CacheOptions {
    /// The options of a configuration.
    #[must_use]
    pub fn of(cache: &config::dns_recursor::Cache, stale: &config::dns_recursor::Stale) -> Self {
        let capacity = |entries, size: config::ByteSize| Capacity {
            entries,
            octets: usize::try_from(size.0).unwrap_or(usize::MAX),
        };
        Self {
            positive: capacity(cache.entries, cache.size),
            negative: capacity(cache.negative_entries, cache.negative_size),
            stale: stale.max_age.0,
        }
    }
}

/// The answers of one server.
#[derive(Debug)]
pub struct Cache {
    shards: Box<[Mutex<Shard>]>,
    seed: Seed,
    /// The number of flushes since the start.
    flushes: AtomicU64,
}

/// A cached message, lent during a lookup.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a> {
    /// The message.
    pub message: &'a Message,
    /// Seconds since it was stored.
    pub age: u32,
    pub state: State,
    /// The pool that it counts against.
    pub pool: Pool,
}

/// The use of a cached message at this time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Within its lifetime.
    Fresh,
    /// Near the end of its lifetime, and in demand. The caller that gets this refreshes it; only one caller
    /// gets it.
    Ending,
    /// A remembered failure, not an answer (RFC 9520).
    Failed,
    /// Beyond its lifetime: serves when no upstream answers (RFC 8767).
    Expired,
    /// Beyond its lifetime, and a refresh failed a moment ago (RFC 8767 §5, failure recheck).
    Held,
}

/// The parameters of an insertion.
#[derive(Clone, Copy, Debug)]
pub struct Keep {
    /// The pool that it counts against.
    pub pool: Pool,
    /// The time that it is fresh.
    pub lifetime: Duration,
}

/// The times of an entry that is restored.
#[derive(Clone, Copy, Debug)]
pub struct Restored {
    /// The pool that it counts against.
    pub pool: Pool,
    /// The time at which it was stored.
    pub stored: Instant,
    /// The end of its lifetime.
    pub expires: Instant,
}

/// The entries and bytes of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Entries by pool: positive, negative.
    pub entries: [usize; 2],
    /// Octets by pool.
    pub octets: [usize; 2],
    /// Entries evicted before their time, by pool, since the start.
    pub evictions: [u64; 2],
}

impl Cache {
    /// Creates an empty cache.
    #[must_use]
    pub fn new(options: &CacheOptions, seed: Seed) -> Self {
        // A pool without capacity needs no room.
        let pools = [options.positive, options.negative];
        let used = pools
            .iter()
            .filter(|pool| pool.entries.min(pool.octets) > 0);
        let smallest = |pick: fn(&Capacity) -> usize| used.clone().map(pick).min().unwrap_or(0);
        let wanted = (smallest(|c| c.entries) / MIN_SHARD_ENTRIES)
            .min(smallest(|c| c.octets) / MIN_SHARD_OCTETS)
            .clamp(1, MAX_SHARDS);
        // A power of two, so that bits of the hash pick a shard.
        let n_shards = 1 << wanted.ilog2();
        let share = |capacity: Capacity| Capacity {
            entries: capacity.entries.div_ceil(n_shards),
            octets: capacity.octets.div_ceil(n_shards),
        };
        let capacities = [share(options.positive), share(options.negative)];
        let shards = (0..n_shards)
            .map(|_| Mutex::new(Shard::new(capacities, options.stale)))
            .collect();
        Self {
            shards,
            seed,
            flushes: AtomicU64::new(0),
        }
    }

    /// The seed of keys for this cache.
    #[must_use]
    #[inline]
    pub const fn seed(&self) -> Seed {
        self.seed
    }

    /// Looks a question up, and lends the entry to `then` under the shard's lock.
    #[inline]
    pub fn look_up<R>(
        &self,
        key: &Key,
        now: Instant,
        then: impl FnOnce(Found<'_>) -> R,
    ) -> Option<R> {
        self.shard(key)?.look_up(key, now).map(then)
    }

    /// Shows the entry of a question to `then`, and changes nothing: it counts no use and no refresh follows.
    pub fn peek<R>(
        &self,
        key: &Key,
        now: Instant,
        then: impl FnOnce(&Entry<'_>) -> R,
    ) -> Option<R> {
        let shard = self.shard(key)?;
        let entry = shard.peek(key, now)?;
        Some(then(&entry))
    }

    /// Stores a message, and replaces the entry of its question.
    pub fn store(&self, key: &Key, message: Message, keep: Keep, now: Instant) {
        if let Some(mut shard) = self.shard(key) {
            shard.store(key, message, keep, now);
        }
    }

    /// Stores a message of an earlier time, unless there is one already or its stale time is over; returns whether it did.
    pub fn restore(&self, key: &Key, message: Message, times: Restored, now: Instant) -> bool {
        self.shard(key)
            .is_some_and(|mut shard| shard.restore(key, message, times, now))
    }

    /// Notes that a query for this question has just failed. A cached stale answer then serves, or else the
    /// failure itself, both for `recheck` (RFC 8767 §5, RFC 9520 §3.2).
    pub fn note_failure(
        &self,
        key: &Key,
        failure: Option<Message>,
        recheck: Duration,
        now: Instant,
    ) {
        if let Some(mut shard) = self.shard(key) {
            shard.note_failure(key, failure, recheck, now);
        }
    }

    /// Drops the entries of a name, or of it and all names below it; returns how many.
    pub fn flush(&self, name: &Name, reach: Reach) -> usize {
        self.flushes.fetch_add(1, Ordering::Relaxed);
        let name = name.to_lowercase();
        self.retain(|message| {
            let question = message.question();
            let kept = question
                .get(..question.len().saturating_sub(4))
                .unwrap_or_default();
            match reach {
                Reach::Name => kept != name.as_wire(),
                Reach::Subtree => !is_within(kept, name.as_wire()),
            }
        })
    }

    /// Drops a zone that has changed: entries of its names, and those with a record of its names, as aliases have that lead into
    /// it. Returns how many.
    pub fn flush_zone(&self, zone: &Name) -> usize {
        self.flushes.fetch_add(1, Ordering::Relaxed);
        let zone = zone.to_lowercase();
        self.retain(|message| {
            let question = message.question();
            let name = question.get(..question.len().saturating_sub(4));
            !is_within(name.unwrap_or_default(), zone.as_wire()) && !has_records_of(message, &zone)
        })
    }

    /// Lets the last good answer to a question win over a denial of it: for `most` from the first denial on, and without another
    /// try for `hold`. False when there is none, or the denials have lasted: the denial counts.
    pub fn outlast(&self, key: &Key, most: Duration, hold: Duration, now: Instant) -> bool {
        self.shard(key)
            .is_some_and(|mut shard| shard.outlast(key, most, hold, now))
    }

    /// Drops the denials and failures that were learned from servers since they were sick, and lets stale answers be tried
    /// again; `is_theirs` says which names the servers answer for. Returns how many are dropped.
    pub fn forget_learned(
        &self,
        since: Instant,
        mut is_theirs: impl FnMut(&Message) -> bool,
    ) -> usize {
        self.flushes.fetch_add(1, Ordering::Relaxed);
        let shards = self.shards.iter();
        shards
            .map(|shard| lock(shard).forget_learned(since, &mut is_theirs))
            .sum()
    }

    /// The number of flushes since the start. When it changes, knowledge that came from entries ends.
    #[must_use]
    pub fn n_flushes(&self) -> u64 {
        self.flushes.load(Ordering::Relaxed)
    }

    /// Drops the entries that `keep` denies, message by message; returns how many.
    pub fn retain(&self, mut keep: impl FnMut(&Message) -> bool) -> usize {
        self.shards
            .iter()
            .map(|shard| lock(shard).retain(&mut keep))
            .sum()
    }

    /// Shows every entry to `visit`, shard by shard.
    pub fn visit(&self, now: Instant, mut visit: impl FnMut(&Entry<'_>)) {
        for shard in &self.shards {
            lock(shard).visit(now, &mut visit);
        }
    }

    /// The number of messages stored since the start: as long as it is the same, nothing has been learned.
    #[must_use]
    pub fn n_stores(&self) -> u64 {
        self.shards.iter().map(|shard| lock(shard).n_stores()).sum()
    }

    /// The number of parts for [`Cache::visit_part`].
    #[must_use]
    pub fn n_parts(&self) -> usize {
        self.shards.len()
    }

    /// Shows the entries of one part to `visit`, under its lock.
    pub fn visit_part(&self, part: usize, now: Instant, mut visit: impl FnMut(&Entry<'_>)) {
        if let Some(shard) = self.shards.get(part) {
            lock(shard).visit(now, &mut visit);
        }
    }

    /// The entries and bytes of the cache.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.shards.iter().fold(Usage::default(), |sum, shard| {
            let usage = lock(shard).usage();
            let add = |a: [usize; 2], b: [usize; 2]| [a[0] + b[0], a[1] + b[1]];
            Usage {
                entries: add(sum.entries, usage.entries),
                octets: add(sum.octets, usage.octets),
                evictions: [
                    sum.evictions[0] + usage.evictions[0],
                    sum.evictions[1] + usage.evictions[1],
                ],
            }
        })
    }

    #[inline]
    fn shard(&self, key: &Key) -> Option<MutexGuard<'_, Shard>> {
        // A shard's table goes by the hash's lowest and highest bits; those between are free.
        let index = usize::try_from(key.hash() >> 32).ok()? & (self.shards.len() - 1);
        self.shards.get(index).map(lock)
    }
}

/// An entry as [`Cache::visit`] and [`Cache::peek`] show it.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// The message.
    pub message: &'a Message,
    /// Its use at this time.
    pub state: State,
    /// The bits of the question that change the answer.
    pub variant: Variant,
    /// The pool that it counts against.
    pub pool: Pool,
    /// Whether it is a remembered failure.
    pub failure: bool,
    /// Seconds since it was stored.
    pub age: u32,
    /// Seconds it has yet to live; negative since it expired.
    pub left: i64,
    /// Seconds for which its servers have denied it, while it wins over that.
    pub denied: Option<u32>,
}

/// The names that a flush drops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The name alone.
    Name,
    /// The name and all below it.
    Subtree,
}

/// Whether a name is `above` or below it; both in wire form and lower case.
fn is_within(name: &[u8], above: &[u8]) -> bool {
    let mut rest = name;
    while rest.len() > above.len() {
        let skip = usize::from(rest.first().copied().unwrap_or(0)) + 1;
        rest = rest.get(skip..).unwrap_or_default();
    }
    rest == above
}

/// Whether an answer has records of a zone's names.
fn has_records_of(message: &Message, zone: &Name) -> bool {
    let bytes = message.bytes();
    let records = Records::new(bytes)
        .into_iter()
        .flatten()
        .map_while(Result::ok);
    let mut answers = records.take_while(|record| record.section == Section::Answer);
    answers.any(|record| {
        let owner = Name::read(bytes, record.name_offset);
        owner.is_ok_and(|(owner, _)| owner.is_within(zone))
    })
}

#[inline]
fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock()
}

#[cfg(test)]
mod tests;
