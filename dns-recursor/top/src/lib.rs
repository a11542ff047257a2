//! The names, clients and zones with the most queries, misses and failures of the last minutes, in bounded memory.
//!
//! ```text
//! a thread ─► Top::count ─► Window: this minute, the one before ─► a Sketch each for names, clients, zones
//!                                                                            │
//! reader   ◄──────────────── Ranking: the sum over windows and threads ◄─────┘
//! ```
//!
//! A [`sketch`] knows the heaviest items of a stream for certain, and how much each may be overcounted. Beyond
//! [`MAX_EXACT`] queries a second a thread counts one of [`EACH`] at random, [`EACH`] times, so that the work stays bounded.
//!
//! Never reads a clock: the second is an argument.

#![warn(missing_docs)]

pub mod sketch;

use std::net::IpAddr;

use crate::sketch::{Merged, Sketch};

/// Queries that a thread counts one by one in a second.
pub const MAX_EXACT: u32 = 2000;
/// Beyond these, one of this many is counted.
pub const EACH: u64 = 16;
/// The seconds of a window. A ranking is about one to two of them.
pub const WINDOW: u64 = 60;

/// The kinds of events that are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Every query.
    Queries,
    /// Queries for which upstreams were asked, or would have been.
    Misses,
    /// Responses with SERVFAIL.
    Failures,
}

impl Measure {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Queries, Self::Misses, Self::Failures];
}

/// The kinds of items that have counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Names of questions, in wire form and lower case.
    Names,
    /// Addresses of clients, of 4 or 16 octets.
    Clients,
    /// Zones, in wire form and lower case.
    Zones,
}

impl Subject {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Names, Self::Clients, Self::Zones];
}

/// A query, when its outcome is known.
#[derive(Clone, Copy, Debug)]
pub struct Outcome<'q> {
    /// The name of the question, in wire form and lower case; empty if the query had none.
    pub name: &'q [u8],
    /// Its zone, in the same form.
    pub zone: &'q [u8],
    /// The client.
    pub client: IpAddr,
    /// Whether upstreams were asked.
    pub is_miss: bool,
    /// Whether the response was SERVFAIL.
    pub is_failure: bool,
}

/// The counts of one measure.
#[derive(Clone, Debug, Default)]
struct Counted {
    total: u64,
    names: Sketch,
    clients: Sketch,
    zones: Sketch,
}

impl Counted {
    fn add(&mut self, outcome: &Outcome<'_>, weight: u64) {
        self.total += weight;
        if !outcome.name.is_empty() {
            self.names.add(outcome.name, weight);
            self.zones.add(outcome.zone, weight);
        }
        match outcome.client {
            IpAddr::V4(address) => self.clients.add(&address.octets(), weight),
            IpAddr::V6(address) => self.clients.add(&address.octets(), weight),
        }
    }

    const fn sketch(&self, subject: Subject) -> &Sketch {
        match subject {
            Subject::Names => &self.names,
            Subject::Clients => &self.clients,
            Subject::Zones => &self.zones,
        }
    }

    fn clear(&mut self) {
        self.total = 0;
        for sketch in [&mut self.names, &mut self.clients, &mut self.zones] {
            sketch.clear();
        }
    }
}

/// The counts of a window.
#[derive(Clone, Debug, Default)]
struct Window {
    queries: Counted,
    misses: Counted,
    failures: Counted,
}

impl Window {
    const fn of(&self, measure: Measure) -> &Counted {
        match measure {
            Measure::Queries => &self.queries,
            Measure::Misses => &self.misses,
            Measure::Failures => &self.failures,
        }
    }

    fn clear(&mut self) {
        for counted in [&mut self.queries, &mut self.misses, &mut self.failures] {
            counted.clear();
        }
    }
}

/// The counts of one thread.
#[derive(Clone, Debug)]
pub struct Top {
    windows: [Window; 2],
    /// The window that grows, as a number since the first second.
    current: u64,
    second: u64,
    in_second: u32,
    random: u64,
}

impl Top {
    /// No counts yet. The seed decides which queries of a flood are counted.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            windows: <[Window; 2]>::default(),
            current: 0,
            second: 0,
            in_second: 0,
            random: seed | 1,
        }
    }

    /// How often the next query of this second counts; 0 leaves it out.
    #[inline]
    pub fn weight(&mut self, second: u64) -> u64 {
        if self.second != second {
            self.second = second;
            self.in_second = 0;
        }
        if self.in_second < MAX_EXACT {
            self.in_second += 1;
            return 1;
        }
        // Marsaglia's xorshift: a client with regular times must not be the one that counts.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        match self.random.is_multiple_of(EACH) {
            true => EACH,
            false => 0,
        }
    }

    /// Counts a query as often as its weight says.
    pub fn count(&mut self, outcome: &Outcome<'_>, weight: u64, second: u64) {
        self.turn(second);
        let [even, odd] = &mut self.windows;
        let window = match self.current.is_multiple_of(2) {
            true => even,
            false => odd,
        };
        window.queries.add(outcome, weight);
        if outcome.is_miss {
            window.misses.add(outcome, weight);
        }
        if outcome.is_failure {
            window.failures.add(outcome, weight);
        }
    }

    /// Begins the window of a second, and forgets those that are too old.
    fn turn(&mut self, second: u64) {
        let now = second / WINDOW;
        if now <= self.current {
            return;
        }
        let [even, odd] = &mut self.windows;
        let (this, other) = match now.is_multiple_of(2) {
            true => (even, odd),
            false => (odd, even),
        };
        this.clear();
        if now > self.current + 1 {
            other.clear();
        }
        self.current = now;
    }
}

/// One item of a ranking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The item: a name or zone in wire form, or the octets of an address.
    pub item: Vec<u8>,
    /// Its count; never too low, except for the chance of a flood.
    pub count: u64,
    /// How much of the count may belong to other items.
    pub error: u64,
}

/// The heaviest items of all threads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranking {
    /// The events in all.
    pub total: u64,
    /// The items, the heaviest first.
    pub rows: Vec<Row>,
}

impl Ranking {
    /// The heaviest items of these threads at a second.
    pub fn of<'t>(
        threads: impl IntoIterator<Item = &'t mut Top>,
        (measure, subject): (Measure, Subject),
        second: u64,
        n: usize,
    ) -> Self {
        let mut total = 0;
        let mut merged = Merged::default();
        for top in threads {
            top.turn(second);
            for window in &top.windows {
                let counted = window.of(measure);
                total += counted.total;
                merged.add(counted.sketch(subject));
            }
        }
        Self {
            total,
            rows: merged.heaviest(n),
        }
    }
}

/// The last two labels of a name in wire form; the whole of a shorter one.
#[must_use]
pub fn last_two_labels(name: &[u8]) -> &[u8] {
    let mut suffixes = [name; 3];
    let mut rest = name;
    while let Some((&length, behind)) = rest.split_first()
        && length != 0
        && let Some(next) = behind.get(usize::from(length)..)
    {
        let [_, second, third] = suffixes;
        suffixes = [second, third, next];
        rest = next;
    }
    let [two, ..] = suffixes;
    two
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(name: &[u8], client: u8) -> Outcome<'_> {
        Outcome {
            name,
            zone: last_two_labels(name),
            client: IpAddr::from([192, 0, 2, client]),
            is_miss: false,
            is_failure: false,
        }
    }

    fn ranking(
        tops: &mut [Top],
        measure: Measure,
        subject: Subject,
        second: u64,
    ) -> Vec<(Vec<u8>, u64)> {
        let ranking = Ranking::of(tops, (measure, subject), second, 10);
        let rows = ranking.rows.into_iter();
        rows.map(|row| (row.item, row.count)).collect()
    }

    #[test]
    fn threads_are_summed_by_measure_and_subject() {
        let mut tops = [Top::new(1), Top::new(2)];
        let [one, other] = &mut tops;
        one.count(&outcome(b"\x01a\x01b\x01c\0", 1), 1, 5);
        other.count(
            &Outcome {
                is_miss: true,
                ..outcome(b"\x01a\x01b\x01c\0", 2)
            },
            1,
            5,
        );
        other.count(
            &Outcome {
                is_miss: true,
                is_failure: true,
                ..outcome(b"\x01x\x01b\x01c\0", 2)
            },
            1,
            6,
        );
        let mut ask = |measure, subject| ranking(&mut tops, measure, subject, 7);
        let (abc, xbc, bc) = (
            b"\x01a\x01b\x01c\0".to_vec(),
            b"\x01x\x01b\x01c\0".to_vec(),
            b"\x01b\x01c\0".to_vec(),
        );
        assert_eq!(
            ask(Measure::Queries, Subject::Names),
            [(abc.clone(), 2), (xbc.clone(), 1)]
        );
        assert_eq!(
            ask(Measure::Misses, Subject::Names),
            [(abc, 1), (xbc.clone(), 1)]
        );
        assert_eq!(ask(Measure::Failures, Subject::Names), [(xbc, 1)]);
        assert_eq!(ask(Measure::Queries, Subject::Zones), [(bc, 3)]);
        assert_eq!(
            ask(Measure::Queries, Subject::Clients),
            [(vec![192, 0, 2, 2], 2), (vec![192, 0, 2, 1], 1)]
        );
    }

    #[test]
    fn counts_last_for_one_to_two_windows() {
        for (asked, read, n) in [
            (0, WINDOW - 1, 1),
            (0, 2 * WINDOW - 1, 1),
            (WINDOW - 1, 2 * WINDOW - 1, 1),
            (0, 2 * WINDOW, 0),
            (WINDOW - 1, 3 * WINDOW, 0),
            (0, 1000 * WINDOW, 0),
            // A clock that goes back changes nothing.
            (10 * WINDOW, 0, 1),
        ] {
            let mut top = Top::new(1);
            top.count(&outcome(b"\x01a\0", 1), 1, asked);
            let rows = ranking(&mut [top], Measure::Queries, Subject::Names, read);
            assert_eq!(rows.len(), n, "{asked} {read}");
        }
    }

    #[test]
    fn a_flood_is_counted_by_samples_that_come_to_the_whole() {
        let mut top = Top::new(7);
        let n = 1_000_000;
        let mut counted = 0;
        let mut sum = 0;
        for _ in 0..n {
            let weight = top.weight(3);
            sum += weight;
            counted += u64::from(weight > 0);
        }
        assert!(counted < n / EACH + 2 * u64::from(MAX_EXACT), "{counted}");
        let off = sum.abs_diff(n);
        assert!(off < n / 50, "{sum}");
        assert_eq!(top.weight(4), 1);
    }

    #[test]
    fn a_query_without_a_question_counts_for_its_client() {
        let mut top = Top::new(1);
        top.count(&outcome(b"", 1), 1, 0);
        let mut tops = [top];
        assert_eq!(ranking(&mut tops, Measure::Queries, Subject::Names, 0), []);
        assert_eq!(
            ranking(&mut tops, Measure::Queries, Subject::Clients, 0).len(),
            1
        );
    }

    #[test]
    fn the_last_two_labels_of_any_octets() {
        for (name, expected) in [
            (&b"\x01a\x01b\x01c\0"[..], &b"\x01b\x01c\0"[..]),
            (b"\x01b\x01c\0", b"\x01b\x01c\0"),
            (b"\x01c\0", b"\x01c\0"),
            (b"\0", b"\0"),
            (b"", b""),
            (b"\x01a\x01b\x01c\x01d\0", b"\x01c\x01d\0"),
            (b"\x09a", b"\x09a"),
        ] {
            assert_eq!(last_two_labels(name), expected, "{name:?}");
        }
    }
}
