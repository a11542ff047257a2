//! The cache as a file, for the time after a restart: encoding, checks, and what of it is still of use.
//!
//! ```text
//! magic │ frame: head │ frame: entries │ … │ frame: end
//!          frame = length, CRC-32C, payload
//! head  = time of writing, writer, zones and the kind of their servers
//! entry = variant, pool, age, time left, length, message
//! end   = the number of entries
//! ```
//!
//! A file counts whole or not at all: one wrong bit, one octet too few, and nothing of it is used. Numbers are big-endian.

use std::time::Duration;

use dns_wire::Name;

use crate::cache::{Cache, Restored};
use crate::instant::Instant;
use crate::key::{Key, Variant};
use crate::message::{Message, Pool};

const MAGIC: &[u8] = b"outpost dns cache 1\n";
/// Octets of a frame before its payload.
const FRAME: usize = 8;
/// The longest time that counts of an entry's age and of the time it has left: ten years, in seconds.
const LONGEST: u32 = 10 * 366 * 86_400;

/// The head of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The time of writing, since 1970 on the wall clock.
    pub written: Duration,
    /// A number by which a process knows its own files.
    pub writer: u64,
    /// The forwarded zones at that time.
    pub zones: Vec<Zone>,
}

/// A forwarded zone, as far as it decides which answers are believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    pub name: Name,
    /// Whether its servers are recursive.
    pub is_recursive: bool,
    /// Whether their AD bit is passed on.
    pub trusts_ad: bool,
    /// Whether its answers were validated.
    pub validates: bool,
}

/// The reason why a file is of no use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// It is no file of this kind, or one of another version.
    Format,
    /// It ends too early.
    Short,
    /// Its octets are not those that were written.
    Checksum,
    /// It contradicts itself.
    Content,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Format => "no cache file of this version",
            Self::Short => "it ends too early",
            Self::Checksum => "a checksum does not match",
            Self::Content => "it contradicts itself",
        })
    }
}

impl std::error::Error for Damage {}

//--- Writing

/// The beginning of a file.
#[must_use]
pub fn head(head: &Head) -> Vec<u8> {
    let mut payload = Vec::new();
    payload.extend_from_slice(&millis(head.written).to_be_bytes());
    payload.extend_from_slice(&head.writer.to_be_bytes());
    for zone in &head.zones {
        let flags = u8::from(zone.is_recursive)
            | u8::from(zone.trusts_ad) << 1
            | u8::from(zone.validates) << 2;
        payload.push(flags);
        payload.extend_from_slice(zone.name.as_wire());
    }
    let mut file = MAGIC.to_vec();
    frame(&payload, &mut file);
    file
}

/// The entries of one part of the cache, of [`Cache::n_parts`]; returns their number. Remembered failures are not
/// among them.
pub fn entries(cache: &Cache, part: usize, now: Instant, file: &mut Vec<u8>) -> u64 {
    let mut payload = Vec::new();
    let mut n_entries = 0;
    cache.visit_part(part, now, |entry| {
        let message = entry.message.bytes();
        let Ok(length) = u16::try_from(message.len()) else {
            return;
        };
        if entry.failure {
            return;
        }
        n_entries += 1;
        payload.push(entry.variant.bits());
        payload.push(match entry.pool {
            Pool::Positive => 0,
            Pool::Negative => 1,
        });
        payload.extend_from_slice(&entry.age.to_be_bytes());
        payload.extend_from_slice(&entry.left.to_be_bytes());
        payload.extend_from_slice(&length.to_be_bytes());
        payload.extend_from_slice(message);
    });
    if n_entries > 0 {
        frame(&payload, file);
    }
    n_entries
}

/// The end of a file with this many entries.
#[must_use]
pub fn end(n_entries: u64) -> Vec<u8> {
    let mut file = Vec::new();
    // A variant has no such bits, so no entry begins like that.
    frame(&[&[0xff][..], &n_entries.to_be_bytes()].concat(), &mut file);
    file
}

fn frame(payload: &[u8], file: &mut Vec<u8>) {
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
    file.extend_from_slice(&length.to_be_bytes());
    file.extend_from_slice(&crc32c::crc32c(payload).to_be_bytes());
    file.extend_from_slice(payload);
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

//--- Reading

/// A file that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Archive {
    pub head: Head,
    entries: Vec<Stored>,
}

/// An entry.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stored {
    variant: Variant,
    pool: Pool,
    age: u32,
    left: i64,
    message: Message,
}

impl Archive {
    /// Reads a file.
    ///
    /// # Errors
    /// When a single octet of it is in doubt.
    pub fn read(file: &[u8]) -> Result<Self, Damage> {
        let mut rest = file.strip_prefix(MAGIC).ok_or(Damage::Format)?;
        let head = read_head(next_frame(&mut rest)?)?;
        let mut entries = Vec::new();
        loop {
            let mut payload = next_frame(&mut rest)?;
            if let Some(n_entries) = payload.strip_prefix(&[0xff]) {
                let n_read = u64::try_from(entries.len()).unwrap_or(u64::MAX);
                let is_all = n_entries == n_read.to_be_bytes() && rest.is_empty();
                return is_all
                    .then_some(Self { head, entries })
                    .ok_or(Damage::Content);
            }
            while !payload.is_empty() {
                entries.push(Stored::read(&mut payload).ok_or(Damage::Content)?);
            }
        }
    }

    /// The number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it has no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Puts the entries into a cache that `holds` does not deny; returns how many. `passed` is the time since the file was
    /// written; `None` when it is unknown, because the wall clock was set back: then every entry counts as expired, and
    /// serves as a stale answer alone.
    pub fn restore(
        self,
        cache: &Cache,
        now: Instant,
        passed: Option<Duration>,
        holds: impl Fn(&Message) -> bool,
    ) -> usize {
        let since = passed.map_or(0, |passed| passed.as_secs());
        let mut n_restored = 0;
        for entry in self.entries {
            if !holds(&entry.message) {
                continue;
            }
            let age = u64::from(entry.age).saturating_add(since);
            let left = match passed {
                Some(_) => entry.left.saturating_sub_unsigned(since),
                None => entry.left.min(0),
            };
            let longest = u64::from(LONGEST);
            let expired = Duration::from_secs(left.min(0).unsigned_abs().min(longest));
            let ahead = Duration::from_secs(left.max(0).unsigned_abs().min(longest));
            let key = Key::new(cache.seed(), entry.message.question(), entry.variant);
            let restored = Restored {
                pool: entry.pool,
                stored: now.before(Duration::from_secs(age.min(longest))),
                expires: now.before(expired).after(ahead),
            };
            n_restored += usize::from(cache.restore(&key, entry.message, restored, now));
        }
        n_restored
    }
}

impl Stored {
    fn read(rest: &mut &[u8]) -> Option<Self> {
        let [variant, pool] = take::<2>(rest)?;
        let variant = Variant::from_bits(variant)?;
        let pool = match pool {
            0 => Pool::Positive,
            1 => Pool::Negative,
            _ => return None,
        };
        let age = u32::from_be_bytes(take(rest)?);
        let left = i64::from_be_bytes(take(rest)?);
        let length = u16::from_be_bytes(take(rest)?);
        let (message, after) = rest.split_at_checked(usize::from(length))?;
        *rest = after;
        let message = Message::restore(message)?;
        Some(Self {
            variant,
            pool,
            age,
            left,
            message,
        })
    }
}

fn read_head(mut payload: &[u8]) -> Result<Head, Damage> {
    let written = take(&mut payload).map(u64::from_be_bytes);
    let writer = take(&mut payload).map(u64::from_be_bytes);
    let (Some(written), Some(writer)) = (written, writer) else {
        return Err(Damage::Content);
    };
    let mut zones = Vec::new();
    while let Some((flags, rest)) = payload.split_first() {
        let (name, length) = Name::from_wire(rest).map_err(|_| Damage::Content)?;
        payload = rest.get(length..).ok_or(Damage::Content)?;
        zones.push(Zone {
            name,
            is_recursive: flags & 1 != 0,
            trusts_ad: flags & 2 != 0,
            validates: flags & 4 != 0,
        });
    }
    Ok(Head {
        written: Duration::from_millis(written),
        writer,
        zones,
    })
}

fn next_frame<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], Damage> {
    let length = take(rest).map(u32::from_be_bytes).ok_or(Damage::Short)?;
    let checksum = take(rest).map(u32::from_be_bytes).ok_or(Damage::Short)?;
    let length = usize::try_from(length).map_err(|_| Damage::Short)?;
    let (payload, after) = rest.split_at_checked(length).ok_or(Damage::Short)?;
    *rest = after;
    match crc32c::crc32c(payload) == checksum {
        true => Ok(payload),
        false => Err(Damage::Checksum),
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, after) = rest.split_first_chunk::<N>()?;
    *rest = after;
    Some(*taken)
}

/// The largest file of a cache whose messages have this many octets and entries at most.
#[must_use]
pub const fn largest(octets: u64, entries: u64) -> u64 {
    // Each entry has a fixed part; the head has a few zones, and each part of the cache a frame.
    octets
        .saturating_add(entries.saturating_mul(16))
        .saturating_add((FRAME as u64) << 20)
}

#[cfg(test)]
mod tests {
    use dns_wire::{Rcode, Type};

    use super::*;
    use crate::cache::{CacheOptions, Capacity, Keep, State};
    use crate::key::Seed;
    use crate::testing::{Random, question};

    const DAY: Duration = Duration::from_hours(24);
    const WRITTEN: Duration = Duration::from_secs(1_800_000_000);

    fn cache() -> Cache {
        let capacity = Capacity {
            entries: 1000,
            octets: 1 << 20,
        };
        let options = CacheOptions {
            positive: capacity,
            negative: capacity,
            stale: DAY,
        };
        Cache::new(&options, Seed(5))
    }

    fn start() -> Instant {
        Instant::START.after(Duration::from_hours(24 * 365))
    }

    fn key(cache: &Cache, name: &str) -> Key {
        Key::new(
            cache.seed(),
            &question(name, Type::A),
            Variant::new(true, false),
        )
    }

    fn add(cache: &Cache, name: &str, seconds: u64, now: Instant) {
        let key = key(cache, name);
        let message = Message::empty(key.question(), Rcode::NXDOMAIN).unwrap();
        let keep = Keep {
            pool: Pool::Negative,
            lifetime: Duration::from_secs(seconds),
        };
        cache.store(&key, message, keep, now);
    }

    fn write(cache: &Cache, now: Instant) -> Vec<u8> {
        let mut file = head(&Head {
            written: WRITTEN,
            writer: 7,
            zones: vec![
                Zone {
                    name: Name::parse(".").unwrap(),
                    is_recursive: true,
                    trusts_ad: true,
                    validates: false,
                },
                Zone {
                    name: Name::parse("site.test").unwrap(),
                    is_recursive: false,
                    trusts_ad: false,
                    validates: true,
                },
            ],
        });
        let n_entries = (0..cache.n_parts()).map(|part| entries(cache, part, now, &mut file));
        let n_entries = n_entries.sum();
        file.extend(end(n_entries));
        file
    }

    fn state(cache: &Cache, name: &str, now: Instant) -> Option<(State, u32)> {
        cache.look_up(&key(cache, name), now, |found| (found.state, found.age))
    }

    #[test]
    fn what_is_written_is_read_and_time_has_passed_meanwhile() {
        let before = cache();
        add(&before, "short.test", 60, start());
        add(&before, "long.test", 3600, start());
        let later = start().after(Duration::from_secs(30));
        let file = write(&before, later);
        let archive = Archive::read(&file).unwrap();
        assert_eq!(archive.head.zones.len(), 2);
        assert_eq!((archive.head.writer, archive.len()), (7, 2));
        for (passed, short, long) in [
            (Some(0), (State::Fresh, 30), (State::Fresh, 30)),
            (Some(31), (State::Expired, 61), (State::Fresh, 61)),
            (Some(7200), (State::Expired, 7230), (State::Expired, 7230)),
            // The clock was set back: everything is stale.
            (None, (State::Expired, 30), (State::Expired, 30)),
        ] {
            let after = cache();
            let passed = passed.map(Duration::from_secs);
            let n_restored = archive.clone().restore(&after, start(), passed, |_| true);
            assert_eq!(n_restored, 2);
            assert_eq!(state(&after, "short.test", start()), Some(short));
            assert_eq!(state(&after, "long.test", start()), Some(long));
        }
        // Beyond the stale time nothing is of use.
        let after = cache();
        let n_restored = archive.restore(&after, start(), Some(DAY * 2), |_| true);
        assert_eq!((n_restored, state(&after, "long.test", start())), (0, None));
    }

    #[test]
    fn an_entry_that_was_learned_since_wins_and_some_are_not_wanted() {
        let before = cache();
        add(&before, "a.test", 3600, start());
        add(&before, "b.test", 3600, start());
        let archive = Archive::read(&write(&before, start())).unwrap();
        let after = cache();
        add(&after, "a.test", 60, start());
        let is_b = |message: &Message| message.question() == question("b.test", Type::A);
        let passed = Some(Duration::from_secs(5));
        assert_eq!(archive.clone().restore(&after, start(), passed, is_b), 1);
        assert_eq!(archive.restore(&after, start(), passed, |_| true), 0);
        assert_eq!(after.n_stores(), 1, "what was restored is on disk already");
        assert_eq!(state(&after, "a.test", start()), Some((State::Fresh, 0)));
        assert_eq!(state(&after, "b.test", start()), Some((State::Fresh, 5)));
    }

    #[test]
    fn one_wrong_octet_and_nothing_is_used() {
        let cache = cache();
        for n in 0..20 {
            add(&cache, &format!("n{n}.test"), 3600, start());
        }
        let file = write(&cache, start());
        assert_eq!(Archive::read(&file).unwrap().len(), 20);
        for length in 0..file.len() {
            assert!(Archive::read(&file[..length]).is_err(), "{length}");
        }
        for at in 0..file.len() {
            let mut changed = file.clone();
            changed[at] ^= 1 << (at % 8);
            assert!(Archive::read(&changed).is_err(), "{at}");
        }
        assert_eq!(
            Archive::read(&[&file[..], b"x"].concat()),
            Err(Damage::Content)
        );
        assert_eq!(Archive::read(b"something else"), Err(Damage::Format));
    }

    #[test]
    fn hostile_content_with_right_checksums_is_no_danger() {
        for seed in 0..2_000 {
            let mut random = Random(seed);
            let mut octets = |most: u64| -> Vec<u8> {
                let length = Random::next(&mut random) % most;
                (0..length)
                    .map(|_| Random::next(&mut random).to_le_bytes()[0])
                    .collect()
            };
            let mut file = MAGIC.to_vec();
            frame(&[&[0; 16][..], &octets(40)].concat(), &mut file);
            frame(&octets(200), &mut file);
            let mut entry = vec![0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 9];
            let message = octets(300);
            entry.extend_from_slice(&u16::try_from(message.len()).unwrap().to_be_bytes());
            entry.extend_from_slice(&message);
            frame(&entry, &mut file);
            file.extend(end(1));
            if let Ok(archive) = Archive::read(&file) {
                archive.restore(&cache(), start(), None, |_| true);
            }
        }
    }

    #[test]
    fn failures_are_not_kept() {
        let cache = cache();
        let key = key(&cache, "failed.test");
        let failure = Message::empty(key.question(), Rcode::SERVFAIL);
        cache.note_failure(&key, failure, Duration::from_secs(5), start());
        assert!(Archive::read(&write(&cache, start())).unwrap().is_empty());
    }
}
