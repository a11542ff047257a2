//! The trust anchors that follow the keys of their zones, on disk: a key that has waited for three weeks does not begin again at a restart,
//! and a revoked one never counts again.
//!
//! ```text
//! state =  "outpost-dns-recursor-anchors-state\n"  version (u32)  CRC-32C of the rest (u32)  zones
//! zone  =  name (wire form)  time of the last set, its TTL, how long it was signed for (u64 each)  count (u8)  keys
//! key   =  length (u16)  DNSKEY data  state (u8)  held (u64)  until (u64)
//! ```
//!
//! Integers are big endian, times are seconds. The file counts whole or not at all: one that is damaged is moved aside. It is replaced at
//! once by a new one, so that a power cut leaves the one or the other.

#![warn(missing_docs)]

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::Duration;

use anchor_rollover::schedule::Heard;
use anchor_rollover::{Anchors, Key, MAX_KEYS, State};
use dns_wire::Name;
use durable::state::{self, Format, StateError};

pub use durable::state::Loaded;

/// The most zones of a file.
pub const MAX_ZONES: usize = 100;

/// The form of the file.
const FORMAT: Format = Format {
    service: "dns-recursor-anchors",
    version: 1,
    checksum: crc32c::crc32c,
    // A hundred zones with 32 RSA keys of 4,096 bits each have less.
    max_size: 4 << 20,
};

/// The states and the last set of each zone.
pub type Known = BTreeMap<Name, (Anchors, Heard)>;

/// The directory of the file.
pub type Store = state::Store<Known>;

/// The file of a directory, which is made if it is not there.
///
/// # Errors
///
/// When the directory cannot be made.
pub fn open(directory: &Path) -> io::Result<Store> {
    Store::open(directory, &FORMAT, decode)
}

/// The octets of the file.
#[must_use]
pub fn encode(known: &Known) -> Vec<u8> {
    let mut octets = Vec::new();
    for (zone, (anchors, heard)) in known.iter().take(MAX_ZONES) {
        octets.extend(zone.as_wire());
        octets.extend(heard.wall.to_be_bytes());
        octets.extend(heard.ttl.as_secs().to_be_bytes());
        octets.extend(heard.signed_for.as_secs().to_be_bytes());
        let keys = anchors.keys().take(MAX_KEYS);
        let keys = keys.filter_map(|(key, state)| {
            let length = u16::try_from(key.rdata().len()).ok()?;
            Some((key, length, state))
        });
        let keys: Vec<(&Key, u16, State)> = keys.collect();
        octets.push(u8::try_from(keys.len()).unwrap_or(u8::MAX));
        for (key, length, state) in keys {
            let (tag, held, until) = fields(state);
            octets.extend(length.to_be_bytes());
            octets.extend(key.rdata());
            octets.push(tag);
            octets.extend(held.as_secs().to_be_bytes());
            octets.extend(until.as_secs().to_be_bytes());
        }
    }
    FORMAT.encode(&octets)
}

/// Reads the octets of the file.
///
/// # Errors
///
/// When they are not those that [`encode`] made.
pub fn decode(octets: &[u8]) -> Result<Known, StateError> {
    read(FORMAT.content(octets)?).ok_or(StateError::Damaged)
}

fn read(content: &[u8]) -> Option<Known> {
    let mut known = Known::new();
    let mut rest = Rest(content);
    while !rest.0.is_empty() {
        let (zone, length) = Name::from_wire(rest.0).ok()?;
        rest.octets(length)?;
        let heard = Heard {
            wall: rest.number()?,
            ttl: rest.span()?,
            signed_for: rest.span()?,
        };
        let [count] = *rest.octets(1)? else {
            return None;
        };
        let mut keys = BTreeMap::new();
        for _ in 0..count {
            let length = u16::from_be_bytes(rest.octets(2)?.try_into().ok()?);
            let (key, is_revoked) = Key::read(rest.octets(length.into())?)?;
            let [tag] = *rest.octets(1)? else {
                return None;
            };
            let state = state(tag, rest.span()?, rest.span()?)?;
            if is_revoked || keys.insert(key, state).is_some() {
                return None;
            }
        }
        if keys.len() > MAX_KEYS || known.len() == MAX_ZONES {
            return None;
        }
        let zone = zone.to_lowercase();
        if known.insert(zone, (Anchors::new(keys), heard)).is_some() {
            return None;
        }
    }
    Some(known)
}

/// The octets that are left.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn octets(&mut self, length: usize) -> Option<&'a [u8]> {
        let (first, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(first)
    }

    fn number(&mut self) -> Option<u64> {
        Some(u64::from_be_bytes(self.octets(8)?.try_into().ok()?))
    }

    /// A time; those of the states are added to one another, and stay far below what a clock can have.
    fn span(&mut self) -> Option<Duration> {
        let seconds = u32::try_from(self.number()?).ok()?;
        Some(Duration::from_secs(seconds.into()))
    }
}

const fn fields(state: State) -> (u8, Duration, Duration) {
    match state {
        State::Pending { held, until } => (1, held, until),
        State::Valid => (2, Duration::ZERO, Duration::ZERO),
        State::Missing { held } => (3, held, Duration::ZERO),
        State::Revoked { held } => (4, held, Duration::ZERO),
        State::Removed => (5, Duration::ZERO, Duration::ZERO),
    }
}

const fn state(tag: u8, held: Duration, until: Duration) -> Option<State> {
    Some(match tag {
        1 => State::Pending { held, until },
        2 => State::Valid,
        3 => State::Missing { held },
        4 => State::Revoked { held },
        5 => State::Removed,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use durable::testing::damages;

    use super::*;

    fn key(number: u8) -> Key {
        Key::read(&[1, 1, 3, 15, number, number]).unwrap().0
    }

    fn known() -> Known {
        let seconds = Duration::from_secs;
        let states = [
            State::Pending {
                held: seconds(5),
                until: seconds(2_592_000),
            },
            State::Valid,
            State::Missing { held: seconds(7) },
            State::Revoked { held: seconds(9) },
            State::Removed,
        ];
        let keys = (1..).map(key).zip(states);
        let heard = Heard {
            wall: 1_800_000_000,
            ttl: seconds(172_800),
            signed_for: seconds(1_000_000),
        };
        let name = |text: &str| Name::parse(text).unwrap();
        Known::from([
            (name("."), (Anchors::new(keys), heard)),
            (name("corp.example"), (Anchors::default(), heard)),
        ])
    }

    #[test]
    fn states_are_read_back() {
        let place = tempfile::tempdir().unwrap();
        let store = open(&place.path().join("keys")).unwrap();
        assert!(matches!(store.load(), Loaded::Absent));
        for known in [known(), Known::new()] {
            store.save(&encode(&known)).unwrap();
            match store.load() {
                Loaded::Restored(read) => assert_eq!(read, known),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_damaged_file_is_moved_aside_whatever_octet_it_is() {
        let place = tempfile::tempdir().unwrap();
        let store = open(place.path()).unwrap();
        let good = encode(&known());
        for (words, bad) in damages(&good) {
            assert!(decode(&bad).is_err(), "{words}");
        }
        fs::write(store.path(), &good[1..]).unwrap();
        assert!(matches!(store.load(), Loaded::Refused(_)));
        assert!(matches!(store.load(), Loaded::Absent));
    }

    #[test]
    fn content_that_nobody_writes_is_no_state() {
        let content = |known: &Known| FORMAT.content(&encode(known)).unwrap().to_vec();
        let good = content(&known());
        let zone = content(&Known::from_iter(known().into_iter().take(1)));
        for (bad, words) in [
            (good[..good.len() - 1].to_vec(), "cut"),
            ([&zone[..], &zone].concat(), "a zone twice"),
            ([&good[..], &[63]].concat(), "half a name"),
        ] {
            assert_eq!(
                decode(&FORMAT.encode(&bad)),
                Err(StateError::Damaged),
                "{words}"
            );
        }
    }
}
