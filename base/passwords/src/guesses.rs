//! How soon a source may try its next password.
//!
//! A source may be wrong [`FREE`] times at once. After that each further attempt waits until [`PERIOD`] has passed for one of
//! those before (the generic cell rate algorithm, with the wrong attempts as its cells). No attempt is refused for ever: one
//! with the right password waits as the others do, and takes nothing from the source's allowance.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

/// The wrong passwords that a source may send in a row: a person who looks for the right one, a client that tries
/// an old one again.
pub(crate) const FREE: u32 = 10;

/// The time after which a source may send one more: 43,200 a day, of which no password that is worth its name is one.
pub(crate) const PERIOD: Duration = Duration::from_secs(2);

/// The longest wait of an attempt that is taken in; more of the same source come again later.
const LONGEST_WAIT: Duration = Duration::from_secs(8);

/// The sources that are remembered. Those that would be forgotten by themselves go first.
const MOST_SOURCES: usize = 4096;

/// The attempts of all sources.
#[derive(Debug, Default)]
pub(crate) struct Guesses {
    /// When the last attempt of a source would have been made if it had made one each [`PERIOD`].
    due: HashMap<IpAddr, Instant>,
}

impl Guesses {
    /// Takes an attempt in. Returns how long it has to wait, or for how long the source has to stay away.
    pub(crate) fn begin(&mut self, source: IpAddr, now: Instant) -> Result<Duration, Duration> {
        let source = network(source);
        let due = self.due.get(&source).copied().unwrap_or(now).max(now);
        let wait = (due - now).saturating_sub(PERIOD * (FREE - 1));
        if wait > LONGEST_WAIT {
            return Err(wait.saturating_sub(LONGEST_WAIT));
        }
        if !self.due.contains_key(&source) {
            self.make_room(now);
        }
        self.due.insert(source, due + PERIOD);
        Ok(wait)
    }

    /// Takes an attempt back: its password was right, or it was never verified.
    pub(crate) fn forgive(&mut self, source: IpAddr, now: Instant) {
        let source = network(source);
        if let Some(due) = self.due.get_mut(&source) {
            *due = due.checked_sub(PERIOD).unwrap_or(now);
            if *due <= now {
                self.due.remove(&source);
            }
        }
    }

    fn make_room(&mut self, now: Instant) {
        if self.due.len() < MOST_SOURCES {
            return;
        }
        self.due.retain(|_, due| *due > now);
        if self.due.len() < MOST_SOURCES {
            return;
        }
        let first = self.due.iter().min_by_key(|(_, due)| **due);
        if let Some(first) = first.map(|(source, _)| *source) {
            self.due.remove(&first);
        }
    }
}

/// The source as it is counted: an IPv4 address, or the network of an IPv6 one. A host has all addresses of its network.
fn network(source: IpAddr) -> IpAddr {
    match source.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => {
            let bits = address.to_bits() & !u128::from(u64::MAX);
            IpAddr::V6(Ipv6Addr::from_bits(bits))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn the_first_wrong_ones_are_free_and_the_rest_come_one_a_period() {
        let (mut guesses, now) = (Guesses::default(), daemon::clock::now());
        let source = address("192.0.2.1");
        for _ in 0..FREE {
            assert_eq!(guesses.begin(source, now), Ok(Duration::ZERO));
        }
        for n in 1..=4 {
            assert_eq!(guesses.begin(source, now), Ok(PERIOD * n));
        }
        assert_eq!(guesses.begin(source, now), Err(PERIOD));
        let mapped = address("::ffff:192.0.2.1");
        assert_eq!(guesses.begin(mapped, now + PERIOD), Ok(LONGEST_WAIT));
        assert_eq!(guesses.begin(address("192.0.2.2"), now), Ok(Duration::ZERO));
        let later = now + PERIOD * 15;
        assert_eq!(guesses.begin(source, later), Ok(Duration::ZERO));
    }

    #[test]
    fn right_ones_cost_nothing() {
        let (mut guesses, now) = (Guesses::default(), daemon::clock::now());
        let source = address("192.0.2.1");
        for _ in 0..1000 {
            assert_eq!(guesses.begin(source, now), Ok(Duration::ZERO));
            guesses.forgive(source, now);
        }
        assert!(guesses.due.is_empty());
    }

    #[test]
    fn a_host_of_ipv6_is_one_source_with_all_its_addresses() {
        let (mut guesses, now) = (Guesses::default(), daemon::clock::now());
        for n in 0..FREE {
            let source = address(&format!("2001:db8:0:1::{n:x}"));
            assert_eq!(guesses.begin(source, now), Ok(Duration::ZERO));
        }
        let same = address("2001:db8:0:1:ffff::");
        assert_eq!(guesses.begin(same, now), Ok(PERIOD));
        let other = address("2001:db8:0:2::");
        assert_eq!(guesses.begin(other, now), Ok(Duration::ZERO));
    }

    #[test]
    fn sources_are_bounded_and_the_most_patient_one_is_forgotten_first() {
        let (mut guesses, now) = (Guesses::default(), daemon::clock::now());
        let guilty = address("192.0.2.1");
        for _ in 0..FREE {
            guesses.begin(guilty, now).unwrap();
        }
        for n in 0..10_000_u32 {
            guesses
                .begin(IpAddr::V4((0x0a00_0000 + n).into()), now)
                .unwrap();
        }
        assert_eq!(guesses.due.len(), MOST_SOURCES);
        assert_eq!(guesses.begin(guilty, now), Ok(PERIOD));
    }
}
