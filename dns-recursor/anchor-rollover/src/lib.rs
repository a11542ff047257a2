//! The trust anchors of one zone, which follow its keys (RFC 5011). Never reads a clock, and verifies no signature.
//!
//! ```text
//!            seen          seen for 30 days         gone
//! (unknown) ───► Pending ───────────────► Valid ◄─────► Missing ─── a year ──────┐
//!                   │ gone: forgotten       │ revoked      │ revoked             ▼
//!                   ▼                       └──► Revoked ◄─┘ ── 30 days ──► Removed
//! ```
//!
//! Only a set that a valid key has signed counts, so a thief of one key can add another: the owner of the zone has 30 days to
//! revoke the stolen one. Once revoked, a key never counts again. The keys that the operator names at the beginning need no 30 days.
//!
//! [`schedule`] has the times of questions.

#![warn(missing_docs)]

pub mod schedule;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

const DAY: Duration = Duration::from_secs(86_400);

/// How long a new key is seen before it counts, and how long a revoked one is kept (RFC 5011 §2.4.1, §2.4.2).
pub const HOLD_DOWN: Duration = Duration::from_secs(30 * 86_400);

/// How long a key that the zone's set no longer has stays trusted: unbound's `keep-missing`.
pub const KEEP_MISSING: Duration = Duration::from_secs(366 * 86_400);

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
    /// A trust anchor that the zone's set does not have, for so long.
    Missing {
        /// The time that counts so far.
        held: Duration,
    },
    /// Revoked for so long.
    Revoked {
        /// The time that counts so far.
        held: Duration,
    },
    /// Revoked long ago, or missing for too long.
    Removed,
}

impl State {
    /// Whether answers that the key has signed are trusted.
    #[must_use]
    pub const fn is_trusted(self) -> bool {
        matches!(self, Self::Valid | Self::Missing { .. })
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(kind(Some(*self)))
    }
}

/// The times of keys, and those that trust begins with.
#[derive(Clone, Copy)]
pub struct Rules<'a> {
    /// How long a new key is seen before it counts.
    pub add_hold_down: Duration,
    /// How long a revoked key is kept.
    pub del_hold_down: Duration,
    /// How long a missing key stays trusted; none for ever.
    pub keep_missing: Option<Duration>,
    /// Whether the operator trusts a key from the beginning.
    pub is_initial: &'a dyn Fn(&Key) -> bool,
}

impl fmt::Debug for Rules<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rules").finish_non_exhaustive()
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
        rules: Rules<'_>,
    ) -> Result<Vec<Change>, Refused> {
        let elapsed = elapsed.unwrap_or_default().min(LONGEST_INTERVAL);
        let mut seen: BTreeMap<Key, Seen> = BTreeMap::new();
        for (place, rdata) in set.rdatas.iter().enumerate() {
            if let Some((key, is_revoked)) = Key::read(rdata) {
                let has_signed = set.signers.contains(&place);
                let record = Seen {
                    is_revoked,
                    has_signed,
                };
                // Both the key and its revocation: the latter counts.
                let before = seen.get(&key).copied();
                if before.is_none_or(|before| !before.is_revocation()) {
                    seen.insert(key, record);
                }
            }
        }
        // A trusted key that revokes itself has signed the set for the last time (RFC 5011 §2.1): no other key could have.
        let counts = |(key, it): (&Key, &Seen)| it.has_signed && self.trusts(key, rules);
        if !seen.iter().any(counts) {
            return Err(Refused::Unsigned);
        }
        let mut changes = Vec::new();
        for (key, state) in std::mem::take(&mut self.keys) {
            let is_initial = (rules.is_initial)(&key);
            let after = next(state, seen.get(&key).copied(), elapsed, is_initial, rules);
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
        let forgotten: Vec<Key> = changes.iter().map(|it| it.key.clone()).collect();
        let new = seen.iter().filter(|(key, _)| !forgotten.contains(key));
        for (key, record) in new {
            if self.keys.contains_key(key) {
                continue;
            }
            let is_initial = (rules.is_initial)(key);
            let Some(state) = first(*record, set.ttl, is_initial, rules) else {
                continue;
            };
            if !self.has_room(&seen, rules) {
                break;
            }
            self.keys.insert(key.clone(), state);
            changes.push(Change {
                key: key.clone(),
                before: None,
                after: Some(state),
            });
        }
        Ok(changes)
    }

    /// Whether a key's signature makes a set count.
    fn trusts(&self, key: &Key, rules: Rules<'_>) -> bool {
        match self.keys.get(key) {
            Some(State::Pending { .. }) | None => (rules.is_initial)(key),
            Some(state) => state.is_trusted(),
        }
    }

    /// Makes room for one more key: one that was removed, and that neither the zone nor the operator names any more, goes.
    fn has_room(&mut self, seen: &BTreeMap<Key, Seen>, rules: Rules<'_>) -> bool {
        if self.keys.len() < MAX_KEYS {
            return true;
        }
        let is_spare = |(key, state): &(&Key, &State)| {
            **state == State::Removed && !seen.contains_key(*key) && !(rules.is_initial)(key)
        };
        let spare = self.keys.iter().find(is_spare).map(|(key, _)| key.clone());
        spare.is_some_and(|key| self.keys.remove(&key).is_some())
    }

    /// Whether all keys that were trusted are revoked: the zone has no trust anchor any more (RFC 5011 §5).
    #[must_use]
    pub fn is_given_up(&self) -> bool {
        self.trusted().next().is_none()
    }
}

/// A key in a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    is_revoked: bool,
    has_signed: bool,
}

impl Seen {
    /// A record with the flag that the key itself has not signed is someone else's.
    const fn is_revocation(self) -> bool {
        self.is_revoked && self.has_signed
    }
}

/// The state of a key that was unknown before a set.
fn first(seen: Seen, ttl: Duration, is_initial: bool, rules: Rules<'_>) -> Option<State> {
    match (seen.is_revoked, is_initial) {
        (true, true) if seen.has_signed => Some(State::Revoked {
            held: Duration::ZERO,
        }),
        // A key that is revoked before it was known never counts.
        (true, _) => None,
        (false, true) => Some(State::Valid),
        (false, false) => Some(State::Pending {
            held: Duration::ZERO,
            until: rules.add_hold_down.max(ttl),
        }),
    }
}

/// The state of a key after a set.
fn next(
    state: State,
    seen: Option<Seen>,
    elapsed: Duration,
    is_initial: bool,
    rules: Rules<'_>,
) -> Option<State> {
    let is_revoked = seen.is_some_and(Seen::is_revocation);
    let is_seen = seen.is_some_and(|seen| !seen.is_revoked);
    match state {
        State::Pending { .. } if is_initial && is_revoked => Some(State::Revoked {
            held: Duration::ZERO,
        }),
        State::Pending { .. } if !is_seen => None,
        State::Pending { held, until } if held + elapsed < until && !is_initial => {
            Some(State::Pending {
                held: held + elapsed,
                until,
            })
        }
        State::Pending { .. } => Some(State::Valid),
        State::Valid | State::Missing { .. } if is_revoked => Some(State::Revoked {
            held: Duration::ZERO,
        }),
        State::Valid | State::Missing { .. } if is_seen => Some(State::Valid),
        State::Valid => Some(State::Missing {
            held: Duration::ZERO,
        }),
        State::Missing { held } => match rules.keep_missing {
            Some(longest) if held + elapsed >= longest => Some(State::Removed),
            _ => Some(State::Missing {
                held: held + elapsed,
            }),
        },
        State::Revoked { held } if held + elapsed < rules.del_hold_down => Some(State::Revoked {
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
        Some(State::Missing { .. }) => "missing",
        Some(State::Revoked { .. }) => "revoked",
        Some(State::Removed) => "removed",
    }
}

#[cfg(test)]
mod tests;
