//! A part of the cache under one lock: a table of slots, and a queue for each pool.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::time::Duration;

use dns_wire::Rcode;

use super::queue::{Links, Queue, Slots};
use super::{Capacity, Entry, Found, Keep, Restored, State, Usage};
use crate::instant::Instant;
use crate::key::{Key, Variant};
use crate::message::{Message, Pool};

/// The cost of an entry beside its message: slot, table bucket with its control octet, and the allocator's
/// header.
pub(super) const OVERHEAD: usize = size_of::<Slot>() + size_of::<(u64, u32)>() * 8 / 7 + 1 + 16;
/// The last tenth of an entry's life, in which a demand refreshes it.
const ENDING_PART: u64 = 10;
/// The least time before the end at which a refresh begins: a refresh takes time too.
const ENDING_LEAST: u64 = 1000;
/// The longest life of entries that are not refreshed ahead: it would happen all the time.
const ENDING_LIFE: u64 = 2000;
/// The number of uses that mark an entry as in demand.
const DEMAND: u8 = 2;

/// Entries by the upper bits of their question's hash.
#[derive(Debug)]
pub(super) struct Shard {
    index: HashMap<u64, u32, BuildHasherDefault<Identity>>,
    arena: Arena,
    queues: [Queue; 2],
    capacities: [Capacity; 2],
    stale: Duration,
    usage: Usage,
    n_stores: u64,
    /// The latest time seen; the queue judges staleness by it.
    now: Instant,
}

impl Shard {
    pub(super) fn new(capacities: [Capacity; 2], stale: Duration) -> Self {
        Self {
            index: HashMap::default(),
            arena: Arena::default(),
            queues: Default::default(),
            capacities,
            stale,
            usage: Usage::default(),
            n_stores: 0,
            now: Instant::START,
        }
    }

    #[inline]
    pub(super) fn look_up(&mut self, key: &Key, now: Instant) -> Option<Found<'_>> {
        let slot = *self.index.get(&key.hash())?;
        let entry = self.arena.entry_mut(slot)?;
        // Two questions with one hash are vanishingly rare: the later one replaces the other.
        if !entry.is_for(key) {
            return None;
        }
        let state = entry.state(now)?;
        entry.links.used = true;
        entry.uses = entry.uses.saturating_add(1);
        if state == State::Ending {
            entry.refresh_asked = true;
        }
        Some(Found {
            message: &entry.message,
            age: now.seconds_since(entry.stored),
            state,
            pool: entry.pool,
        })
    }

    pub(super) fn store(&mut self, key: &Key, message: Message, keep: Keep, now: Instant) {
        if keep.lifetime.is_zero() {
            self.remove_hash(key.hash());
            return;
        }
        let times = Restored {
            pool: keep.pool,
            stored: now,
            expires: now.after(keep.lifetime),
        };
        self.n_stores += 1;
        self.insert(key, message, times, now);
    }

    /// The number of messages stored since the start, restored ones left out.
    pub(super) const fn n_stores(&self) -> u64 {
        self.n_stores
    }

    pub(super) fn restore(
        &mut self,
        key: &Key,
        message: Message,
        times: Restored,
        now: Instant,
    ) -> bool {
        let is_over = now >= times.expires.after(self.stale);
        if is_over || self.index.contains_key(&key.hash()) {
            return false;
        }
        self.insert(key, message, times, now);
        true
    }

    fn insert(&mut self, key: &Key, message: Message, times: Restored, now: Instant) {
        let failure = times.pool == Pool::Negative && message.rcode() == Rcode::SERVFAIL;
        let expires = times.expires;
        let slot = Slot {
            message,
            hash: key.hash(),
            stored: times.stored,
            expires,
            gone: if failure {
                expires
            } else {
                expires.after(self.stale)
            },
            held: Instant::START,
            denied: Instant::START,
            links: Links::default(),
            variant: key.variant(),
            pool: times.pool,
            uses: 0,
            refresh_asked: false,
            failure,
        };
        self.now = self.now.max(now);
        self.remove_hash(key.hash());
        let size = slot.size();
        let pool = slot.pool;
        let Some(capacity) = self.capacities.get(index(pool)).copied() else {
            return;
        };
        if capacity.entries == 0 || size > capacity.octets {
            return;
        }
        self.make_room(pool, capacity, size);
        let place = self.arena.insert(slot);
        self.index.insert(key.hash(), place);
        self.arena.now = self.now;
        if let Some(queue) = self.queues.get_mut(index(pool)) {
            queue.push(&mut self.arena, place);
        }
        self.count(pool, size, Change::Added);
    }

    pub(super) fn note_failure(
        &mut self,
        key: &Key,
        failure: Option<Message>,
        recheck: Duration,
        now: Instant,
    ) {
        let until = now.after(recheck);
        let kept = self.index.get(&key.hash()).copied();
        if let Some(entry) = kept.and_then(|slot| self.arena.entry_mut(slot))
            && entry.is_for(key)
            && !entry.failure
            && entry.state(now).is_some()
        {
            entry.held = until;
            return;
        }
        if let Some(message) = failure {
            let keep = Keep {
                pool: Pool::Negative,
                lifetime: recheck,
            };
            self.store(key, message, keep, now);
        }
    }

    pub(super) fn outlast(
        &mut self,
        key: &Key,
        most: Duration,
        hold: Duration,
        now: Instant,
    ) -> bool {
        let kept = self.index.get(&key.hash()).copied();
        let Some(entry) = kept.and_then(|slot| self.arena.entry_mut(slot)) else {
            return false;
        };
        if !entry.is_for(key) || entry.pool == Pool::Negative || entry.state(now).is_none() {
            return false;
        }
        if entry.denied == Instant::START {
            entry.denied = now;
        }
        let end = entry.denied.after(most);
        if now >= end {
            return false;
        }
        entry.held = now.after(hold).min(end);
        true
    }

    pub(super) fn forget_learned(
        &mut self,
        since: Instant,
        is_theirs: &mut impl FnMut(&Message) -> bool,
    ) -> usize {
        let mut dropped = Vec::new();
        for slot in self.arena.slots.iter_mut().flatten() {
            let is_learned = slot.pool == Pool::Negative && slot.stored >= since;
            let is_held = slot.held > since;
            if !(is_learned || is_held) || !is_theirs(&slot.message) {
                continue;
            }
            slot.held = Instant::START;
            if is_learned {
                dropped.push(slot.hash);
            }
        }
        for hash in &dropped {
            self.remove_hash(*hash);
        }
        dropped.len()
    }

    pub(super) fn retain(&mut self, keep: &mut impl FnMut(&Message) -> bool) -> usize {
        let dropped: Vec<u64> = self
            .arena
            .entries()
            .filter(|slot| !keep(&slot.message))
            .map(|slot| slot.hash)
            .collect();
        for hash in &dropped {
            self.remove_hash(*hash);
        }
        dropped.len()
    }

    pub(super) fn visit(&self, now: Instant, visit: &mut impl FnMut(&Entry<'_>)) {
        let entries = self.arena.entries();
        for entry in entries.filter_map(|slot| slot.shown(now)) {
            visit(&entry);
        }
    }

    pub(super) fn peek(&self, key: &Key, now: Instant) -> Option<Entry<'_>> {
        let place = *self.index.get(&key.hash())?;
        let slot = self.arena.entry(place)?;
        slot.is_for(key).then(|| slot.shown(now)).flatten()
    }

    pub(super) const fn usage(&self) -> Usage {
        self.usage
    }

    fn make_room(&mut self, pool: Pool, capacity: Capacity, size: usize) {
        self.arena.now = self.now;
        loop {
            let entries = self.usage.entries.get(index(pool)).copied().unwrap_or(0);
            let octets = self.usage.octets.get(index(pool)).copied().unwrap_or(0);
            if entries < capacity.entries && octets + size <= capacity.octets {
                return;
            }
            let victim = self
                .queues
                .get_mut(index(pool))
                .and_then(|queue| queue.victim(&mut self.arena));
            let Some(hash) = victim.and_then(|slot| Some(self.arena.entry_mut(slot)?.hash)) else {
                return;
            };
            self.remove_hash(hash);
            if let Some(evictions) = self.usage.evictions.get_mut(index(pool)) {
                *evictions += 1;
            }
        }
    }

    fn remove_hash(&mut self, hash: u64) {
        let Some(place) = self.index.remove(&hash) else {
            return;
        };
        let Some(pool) = self.arena.entry_mut(place).map(|slot| slot.pool) else {
            return;
        };
        if let Some(queue) = self.queues.get_mut(index(pool)) {
            queue.remove(&mut self.arena, place);
        }
        if let Some(slot) = self.arena.remove(place) {
            self.count(pool, slot.size(), Change::Removed);
        }
    }

    fn count(&mut self, pool: Pool, size: usize, change: Change) {
        let (Some(entries), Some(octets)) = (
            self.usage.entries.get_mut(index(pool)),
            self.usage.octets.get_mut(index(pool)),
        ) else {
            return;
        };
        match change {
            Change::Added => {
                *entries += 1;
                *octets += size;
            }
            Change::Removed => {
                *entries -= 1;
                *octets -= size;
            }
        }
    }

    /// Walks all entries and asserts that counts, index and queues agree.
    #[cfg(test)]
    pub(super) fn check_invariants(&mut self) {
        let mut entries = [0; 2];
        let mut octets = [0; 2];
        for slot in self.arena.entries() {
            entries[index(slot.pool)] += 1;
            octets[index(slot.pool)] += slot.size();
        }
        assert_eq!((entries, octets), (self.usage.entries, self.usage.octets));
        assert_eq!(self.index.len(), entries[0] + entries[1]);
        for (hash, place) in &self.index {
            assert_eq!(
                self.arena.slots[*place as usize].as_ref().unwrap().hash,
                *hash
            );
        }
        for (pool, queue) in self.queues.iter().enumerate() {
            assert_eq!(queue.walk(&mut self.arena), entries[pool]);
        }
    }
}

/// The pool's place in arrays of two.
const fn index(pool: Pool) -> usize {
    match pool {
        Pool::Positive => 0,
        Pool::Negative => 1,
    }
}

#[derive(Clone, Copy)]
enum Change {
    Added,
    Removed,
}

//----------- Slot ------------------------------------------------------------

#[derive(Debug)]
struct Slot {
    message: Message,
    hash: u64,
    stored: Instant,
    expires: Instant,
    /// The end of its use even as a stale answer.
    gone: Instant,
    /// The end of the time in which a stale answer serves without another try.
    held: Instant,
    /// The first denial that it wins over; [`Instant::START`] for none.
    denied: Instant,
    links: Links,
    variant: Variant,
    pool: Pool,
    uses: u8,
    refresh_asked: bool,
    failure: bool,
}

impl Slot {
    #[inline]
    fn is_for(&self, key: &Key) -> bool {
        self.variant == key.variant() && self.message.question() == key.question()
    }

    /// The entry for people; `None` when it has no use any more.
    fn shown(&self, now: Instant) -> Option<Entry<'_>> {
        let signed = |instant: Instant| i64::try_from(instant.as_millis()).unwrap_or(i64::MAX);
        let left = signed(self.expires).saturating_sub(signed(now));
        Some(Entry {
            message: &self.message,
            state: self.state(now)?,
            variant: self.variant,
            pool: self.pool,
            failure: self.failure,
            age: now.seconds_since(self.stored),
            left: left.div_euclid(1000),
            denied: (self.denied > Instant::START).then(|| now.seconds_since(self.denied)),
        })
    }

    /// The use of the message at this time; `None` when it has none.
    #[inline]
    fn state(&self, now: Instant) -> Option<State> {
        if now >= self.gone {
            return None;
        }
        if now >= self.expires {
            return Some(if now < self.held {
                State::Held
            } else {
                State::Expired
            });
        }
        if self.failure {
            return Some(State::Failed);
        }
        let life = self
            .expires
            .as_millis()
            .saturating_sub(self.stored.as_millis());
        let left = self.expires.as_millis().saturating_sub(now.as_millis());
        let ending = left <= (life / ENDING_PART).max(ENDING_LEAST) && life > ENDING_LIFE;
        if ending && self.uses >= DEMAND && !self.refresh_asked {
            return Some(State::Ending);
        }
        Some(State::Fresh)
    }

    fn size(&self) -> usize {
        OVERHEAD + self.message.heap_size()
    }
}

//----------- Arena -----------------------------------------------------------

/// Slots by number; freed numbers are used again.
#[derive(Debug, Default)]
struct Arena {
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
    now: Instant,
}

impl Arena {
    #[inline]
    fn entry_mut(&mut self, place: u32) -> Option<&mut Slot> {
        self.slots.get_mut(usize::try_from(place).ok()?)?.as_mut()
    }

    fn entry(&self, place: u32) -> Option<&Slot> {
        self.slots.get(usize::try_from(place).ok()?)?.as_ref()
    }

    fn entries(&self) -> impl Iterator<Item = &Slot> {
        self.slots.iter().flatten()
    }

    fn insert(&mut self, slot: Slot) -> u32 {
        if let Some(place) = self.free.pop()
            && let Some(empty) = usize::try_from(place)
                .ok()
                .and_then(|place| self.slots.get_mut(place))
        {
            *empty = Some(slot);
            return place;
        }
        let place = u32::try_from(self.slots.len()).unwrap_or(super::queue::NONE);
        self.slots.push(Some(slot));
        place
    }

    fn remove(&mut self, place: u32) -> Option<Slot> {
        let slot = self.slots.get_mut(usize::try_from(place).ok()?)?.take()?;
        self.free.push(place);
        Some(slot)
    }
}

impl Slots for Arena {
    fn links(&mut self, slot: u32) -> Option<&mut Links> {
        self.entry_mut(slot).map(|slot| &mut slot.links)
    }

    fn is_dead(&self, slot: u32) -> bool {
        usize::try_from(slot)
            .ok()
            .and_then(|slot| self.slots.get(slot)?.as_ref())
            .is_some_and(|slot| self.now >= slot.gone)
    }
}

//----------- Identity --------------------------------------------------------

/// The keys are seeded hashes already.
#[derive(Clone, Copy, Debug, Default)]
struct Identity(u64);

impl Hasher for Identity {
    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    #[inline]
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}
