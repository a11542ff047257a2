//! The trust anchors of one zone, which follow its keys (RFC 5011). Never reads a clock, and verifies no signature.
//!
//! ```text
//!            seen          seen for 30 days         gone
//! (unknown) ───► Pending ───────────────► Valid ◄─────► Missing
//!                   │ gone: forgotten       │ revoked      │ revoked
//!                   ▼                       └──► Revoked ◄─┘ ── 30 days ──► Removed
//! ```
//!
//! Only a set that a valid key has signed counts, so a thief of one key can add another: the owner of the zone has 30 days to
//! revoke the stolen one. Once revoked, a key never counts again.

#![warn(missing_docs)]

use std::collections::BTreeMap;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

/// How long a new key is seen before it counts, and how long a revoked one is kept (RFC 5011 §2.4.1, §2.4.2).
pub const HOLD_DOWN: Duration = Duration::from_secs(30 * 86_400);

/// The longest time between two questions (RFC 5011 §2.3). Between two sets no more than this counts for the hold-down either, whatever a
/// clock says that was set in between.
pub const LONGEST_INTERVAL: Duration = Duration::from_secs(15 * 86_400);

/// The most keys of a zone that are followed; a set with more is followed in its own order.
pub const MAX_KEYS: usize = 32;

/// A DNSKEY record's flag for keys of a zone (RFC 4034 §2.1.1).
const ZONE: u8 = 0x01;
/// Its flag for secure entry points (RFC 4034 §2.1.1), in the second octet.
const ENTRY: u8 = 0x01;
/// Its flag for revoked keys (RFC 5011 §2.1), in the second octet.
const REVOKED: u8 = 0x80;

/// A key by its DNSKEY data, with the flag for revoked keys clear.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Box<[u8]>);

impl Key {
    /// Reads DNSKEY data: the key, and whether it is revoked. None of data that is no key of a zone for entry to it.
    #[must_use]
    pub fn read(rdata: &[u8]) -> Option<(Self, bool)> {
        let [high, low, ..] = *rdata else {
            return None;
        };
        if rdata.len() < 5 || high & ZONE == 0 || low & ENTRY == 0 {
            return None;
        }
        let mut rdata: Box<[u8]> = rdata.into();
        if let Some(flags) = rdata.get_mut(1) {
            *flags &= !REVOKED;
        }
        Some((Self(rdata), low & REVOKED != 0))
    }

    /// The DNSKEY data.
    #[must_use]
    pub fn rdata(&self) -> &[u8] {
        &self.0
    }
}

/// The state of a key (RFC 5011 §4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Seen in every set for so long.
    Pending {
        /// The time that counts so far.
        held: Duration,
        /// How long it has to be: the hold-down, or the TTL of the first set with the key if that is longer.
        until: Duration,
    },
    /// A trust anchor.
    Valid,
    /// A trust anchor that the zone's set does not have now.
    Missing,
    /// Revoked for so long.
    Revoked {
        /// The time that counts so far.
        held: Duration,
    },
    /// Revoked long ago.
    Removed,
}

impl State {
    /// Whether answers that the key has signed are trusted.
    #[must_use]
    pub const fn is_trusted(self) -> bool {
        matches!(self, Self::Valid | Self::Missing)
    }
}

/// A DNSKEY set of the zone, whose signatures the caller has verified.
#[derive(Clone, Copy, Debug)]
pub struct Set<'a> {
    /// The data of its records.
    pub rdatas: &'a [Vec<u8>],
    /// Those of its records whose key has signed the set, and the signature is good: their places in `rdatas`.
    pub signers: &'a [usize],
    /// Its original TTL.
    pub ttl: Duration,
    /// How long its signatures are still good.
    pub signed_for: Duration,
}

/// A change of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The key.
    pub key: Key,
    /// Its state before; none of a new one.
    pub before: Option<State>,
    /// Its state now; none of one that is forgotten.
    pub after: Option<State>,
}

/// Why a set changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// No key that is trusted has signed it.
    Unsigned,
}

/// The trust anchors of a zone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Anchors {
    keys: BTreeMap<Key, State>,
}

impl Anchors {
    /// Anchors that the operator trusts, or that were kept on disk.
    #[must_use]
    pub fn new(keys: impl IntoIterator<Item = (Key, State)>) -> Self {
        Self {
            keys: keys.into_iter().take(MAX_KEYS).collect(),
        }
    }

    /// All keys, with their states.
    pub fn keys(&self) -> impl Iterator<Item = (&Key, State)> {
        self.keys.iter().map(|(key, state)| (key, *state))
    }

    /// The keys that are trusted.
    pub fn trusted(&self) -> impl Iterator<Item = &Key> {
        let trusted = self.keys.iter().filter(|(_, state)| state.is_trusted());
        trusted.map(|(key, _)| key)
    }

    /// Takes a set of the zone. `elapsed` is the time since the set before; none of the first one.
    ///
    /// # Errors
    /// When no trusted key has signed it: nothing changes.
    pub fn take(
        &mut self,
        set: Set<'_>,
        elapsed: Option<Duration>,
    ) -> Result<Vec<Change>, Refused> {
        let elapsed = elapsed.unwrap_or_default().min(LONGEST_INTERVAL);
        let seen: BTreeMap<Key, (bool, bool)> = set
            .rdatas
            .iter()
            .enumerate()
            .filter_map(|(place, rdata)| {
                let (key, is_revoked) = Key::read(rdata)?;
                Some((key, (is_revoked, set.signers.contains(&place))))
            })
            .collect();
        let has_signed = |key: &Key| seen.get(key).is_some_and(|(_, signed)| *signed);
        // A trusted key that revokes itself has signed the set for the last time (RFC 5011 §2.1): nobody else could have.
        if !self.trusted().any(has_signed) {
            return Err(Refused::Unsigned);
        }
        let mut changes = Vec::new();
        for (key, state) in std::mem::take(&mut self.keys) {
            let after = next(state, seen.get(&key).copied(), elapsed);
            if let Some(after) = after {
                self.keys.insert(key.clone(), after);
            }
            if kind(Some(state)) != kind(after) {
                changes.push(Change {
                    key,
                    before: Some(state),
                    after,
                });
            }
        }
        for (key, (is_revoked, _)) in seen {
            // A key that is revoked before it was known is nobody's.
            if is_revoked || self.keys.contains_key(&key) || self.keys.len() == MAX_KEYS {
                continue;
            }
            if changes.iter().any(|change| change.key == key) {
                continue;
            }
            let state = State::Pending {
                held: Duration::ZERO,
                until: HOLD_DOWN.max(set.ttl),
            };
            self.keys.insert(key.clone(), state);
            changes.push(Change {
                key,
                before: None,
                after: Some(state),
            });
        }
        Ok(changes)
    }

    /// Whether all keys that were trusted are revoked: the zone has no trust anchor any more (RFC 5011 §5).
    #[must_use]
    pub fn is_given_up(&self) -> bool {
        self.trusted().next().is_none()
    }
}

/// The time until the next question, after a set (RFC 5011 §2.3).
#[must_use]
pub fn interval(ttl: Duration, signed_for: Duration) -> Duration {
    let half = ttl.min(signed_for) / 2;
    half.min(LONGEST_INTERVAL).max(HOUR)
}

/// The time until the next question, after one without a set that counts (RFC 5011 §2.3); with the times of the last set that did.
#[must_use]
pub fn retry(ttl: Duration, signed_for: Duration) -> Duration {
    let tenth = ttl.min(signed_for) / 10;
    tenth.min(DAY).max(HOUR)
}

/// The state of a key after a set: the set has it, maybe revoked, and the key has signed the set or not.
fn next(state: State, seen: Option<(bool, bool)>, elapsed: Duration) -> Option<State> {
    let is_revoked = seen == Some((true, true));
    // A record with the flag that the key itself has not signed is someone else's: the key is not there.
    let is_seen = matches!(seen, Some((false, _)));
    match state {
        State::Pending { .. } if !is_seen => None,
        State::Pending { held, until } if held + elapsed < until => Some(State::Pending {
            held: held + elapsed,
            until,
        }),
        State::Pending { .. } => Some(State::Valid),
        State::Valid | State::Missing if is_revoked => Some(State::Revoked {
            held: Duration::ZERO,
        }),
        State::Valid | State::Missing if is_seen => Some(State::Valid),
        State::Valid | State::Missing => Some(State::Missing),
        State::Revoked { held } if held + elapsed < HOLD_DOWN => Some(State::Revoked {
            held: held + elapsed,
        }),
        State::Revoked { .. } | State::Removed => Some(State::Removed),
    }
}

/// The name of a state.
const fn kind(state: Option<State>) -> &'static str {
    match state {
        None => "",
        Some(State::Pending { .. }) => "pending",
        Some(State::Valid) => "valid",
        Some(State::Missing) => "missing",
        Some(State::Revoked { .. }) => "revoked",
        Some(State::Removed) => "removed",
    }
}

#[cfg(test)]
mod tests;
