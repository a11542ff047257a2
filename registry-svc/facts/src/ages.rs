//! Ages that no clock ends: for how long something has been in a store.
//!
//! Files are dated by the wall clock, and that may jump by days. Ages go by the *time of the store*. It passes with the
//! clock that never steps while a process has the store open, and by the wall clock between two processes, up to a bound.
//! A jump of the wall clock begins another *span*, which says what its dates are in the time of the store:
//!
//! ```text
//! date     Monday ───────► Monday │ Saturday ──────► Saturday │ Monday ──► Monday
//!          12:00           15:00  │ 15:00            17:00    │ 17:00      18:00
//! time     0 h             3 h    │ 3 h              5 h      │ 5 h        6 h
//! ```
//!
//! A date in several spans counts as the latest time that it may mean, so that content is kept for too long, not too short.
//!
//! Never reads a clock: milliseconds are handed in.

use std::fmt::Write as _;

/// How far the wall clock may be off from where its span expects it, in milliseconds. More is a jump. Far below every age that
/// counts, and more than the steps that a time service makes at any time.
const STEADY: u64 = 60_000;

/// The longest time in which nothing is noted while a process runs, in milliseconds.
pub const NOTED_EVERY: u64 = 600_000;

/// The most spans. When there are more the oldest is forgotten: dates before the others count as later than they are.
const MOST_SPANS: usize = 64;

/// How much later than the last look a date may be that belongs to it, in milliseconds: more than a look and a write take.
const LATE: u64 = 2000;

/// Dates of the wall clock between two of its jumps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    /// The dates that files may have from it.
    first: u64,
    last: u64,
    /// A date, and the time of the store then. Nothing in the span is earlier.
    date: u64,
    time: u64,
}

/// The time of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ages {
    /// The time at the last look.
    time: u64,
    /// The clock that never steps, at the last look.
    elapsed: u64,
    /// The wall clock, at the last look.
    date: u64,
    /// In the order of time. The last one continues.
    spans: Vec<Span>,
    /// Whether spans have begun since the last note.
    is_news: bool,
}

impl Ages {
    /// The time of a store that opens, from its last [note](Self::note), if that can be read; `most_between` of the time
    /// since then counts at most.
    #[must_use]
    pub fn open(note: Option<&str>, date: u64, elapsed: u64, most_between: u64) -> Self {
        let Some((noted_time, noted_date, mut spans)) = note.and_then(parse) else {
            let first = Span {
                first: 0,
                last: date,
                date: 0,
                time: 0,
            };
            return Self {
                time: date,
                elapsed,
                date,
                spans: vec![first],
                is_news: true,
            };
        };
        let since = date.checked_sub(noted_date);
        let is_steady = since.is_some_and(|since| since <= most_between);
        let time = noted_time.saturating_add(since.unwrap_or(0).min(most_between));
        if let Some(before) = spans.last_mut() {
            before.last = match is_steady {
                true => before.last.max(date),
                // It may have continued for so long.
                false => noted_date.saturating_add(NOTED_EVERY).max(before.last),
            };
        }
        let mut ages = Self {
            time,
            elapsed,
            date,
            spans,
            is_news: false,
        };
        if !is_steady {
            // The process before may have seen the jump, and noted nothing since.
            ages.begin(date.saturating_sub(NOTED_EVERY));
        }
        ages
    }

    /// Begins a span whose dates are not before `first`.
    fn begin(&mut self, first: u64) {
        if self.spans.len() >= MOST_SPANS {
            self.spans.remove(0);
        }
        self.spans.push(Span {
            first,
            last: self.date,
            date: self.date,
            time: self.time,
        });
        self.is_news = true;
    }

    /// The time now, by both clocks.
    pub fn now(&mut self, date: u64, elapsed: u64) -> u64 {
        let passed = elapsed.saturating_sub(self.elapsed);
        self.elapsed = self.elapsed.max(elapsed);
        self.time = self.time.saturating_add(passed);
        self.date = date;
        let time = self.time;
        if let Some(span) = self.spans.last_mut() {
            let expected = span.date.saturating_add(time.saturating_sub(span.time));
            if expected.abs_diff(date) <= STEADY {
                span.last = span.last.max(date);
                return time;
            }
            span.last = span.last.max(expected);
        }
        // It may have jumped right after the last look.
        self.begin(date.saturating_sub(passed));
        time
    }

    /// The time that the date of a file means.
    #[must_use]
    pub fn time_of(&self, date: u64) -> u64 {
        let begun = || self.spans.iter().filter(|span| span.first <= date);
        let fit = begun().filter(|span| date <= span.last.saturating_add(LATE));
        let time = |span: &Span| {
            let since = date.min(span.last).saturating_sub(span.date);
            span.time.saturating_add(since)
        };
        // One of no span is as late as any that begins before it; one of the future is new.
        let latest = fit.map(time).max();
        let latest = latest.or_else(|| begun().map(time).max());
        let oldest = self.spans.first().map_or(0, |span| span.time);
        latest.unwrap_or(oldest)
    }

    /// Whether a span has begun that is not noted: dates of files that are written now would mean another time to the
    /// next process.
    #[must_use]
    pub fn is_news(&self) -> bool {
        self.is_news
    }

    /// The knowledge that the next process needs, as of the last look. It counts as noted until [`failed`](Self::failed) says
    /// otherwise.
    pub fn note(&mut self) -> String {
        self.is_news = false;
        let mut note = format!("now {} {}\n", self.time, self.date);
        for span in &self.spans {
            let Span {
                first,
                last,
                date,
                time,
            } = span;
            // Writing to a string does not fail.
            let _written = writeln!(note, "span {first} {last} {date} {time}");
        }
        note
    }

    /// The note could not be written.
    pub fn failed(&mut self) {
        self.is_news = true;
    }
}

/// The time, the date and the spans of a note; none when it is damaged.
fn parse(note: &str) -> Option<(u64, u64, Vec<Span>)> {
    let mut lines = note.strip_suffix('\n')?.lines();
    let (time, date) = lines.next()?.strip_prefix("now ")?.split_once(' ')?;
    let span = |line: &str| {
        let mut numbers = line.strip_prefix("span ")?.split(' ').map(str::parse);
        let mut number = || numbers.next()?.ok();
        let span = Span {
            first: number()?,
            last: number()?,
            date: number()?,
            time: number()?,
        };
        numbers.next().is_none().then_some(span)
    };
    let spans: Vec<Span> = lines.map(span).collect::<Option<_>>()?;
    let is_fit = !spans.is_empty() && spans.len() <= MOST_SPANS;
    is_fit.then_some((time.parse().ok()?, date.parse().ok()?, spans))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000;
    const DAY: u64 = 24 * HOUR;
    const START: u64 = 1_700_000_000_000;

    /// A store with both clocks.
    struct Clocks {
        ages: Ages,
        date: u64,
        elapsed: u64,
    }

    impl Clocks {
        fn new() -> Self {
            Self {
                ages: Ages::open(None, START, 7, HOUR),
                date: START,
                elapsed: 7,
            }
        }

        fn pass(&mut self, milliseconds: u64) -> u64 {
            self.date += milliseconds;
            self.elapsed += milliseconds;
            self.ages.now(self.date, self.elapsed)
        }

        fn jump(&mut self, by: i64) {
            self.date = self.date.saturating_add_signed(by);
        }

        /// Opens it again with what was noted, by a process whose clock begins at 0.
        fn restart(&mut self, note: Option<&str>) {
            self.elapsed = 0;
            self.ages = Ages::open(note, self.date, 0, HOUR);
        }

        /// The age of a file with a date.
        fn age(&mut self, date: u64) -> u64 {
            self.pass(0).saturating_sub(self.ages.time_of(date))
        }
    }

    fn days(n: i64) -> i64 {
        n * i64::try_from(DAY).unwrap()
    }

    #[test]
    fn without_jumps_the_age_of_a_file_is_what_its_date_says() {
        let mut clocks = Clocks::new();
        assert_eq!(clocks.age(START - 3 * DAY), 3 * DAY);
        assert!(clocks.ages.is_news());
        clocks.pass(HOUR);
        assert_eq!(clocks.age(START), HOUR);
        let note = clocks.ages.note();
        assert!(!clocks.ages.is_news());
        clocks.pass(HOUR / 2);
        clocks.restart(Some(&note));
        assert_eq!(clocks.age(START), 3 * HOUR / 2);
        assert_eq!(clocks.age(START - 3 * DAY), 3 * DAY + 3 * HOUR / 2);
        assert!(!clocks.ages.is_news());
        // One of the future is new.
        assert_eq!(clocks.age(START + DAY), 0);
    }

    #[test]
    fn a_jump_makes_nothing_older_and_nothing_young_for_long() {
        for by in [-5000, -5, -1, 1, 5, 5000] {
            let mut clocks = Clocks::new();
            clocks.pass(HOUR);
            let before = clocks.date;
            clocks.pass(HOUR);
            clocks.jump(days(by));
            let after = clocks.date;
            assert_eq!(clocks.age(before), HOUR, "{by}");
            assert!(clocks.ages.is_news());
            assert_eq!(clocks.age(after), 0, "{by}");
            clocks.pass(2 * HOUR);
            assert_eq!(clocks.age(before), 3 * HOUR, "{by}");
            assert_eq!(clocks.age(after), 2 * HOUR, "{by}");
            // And back.
            clocks.jump(days(-by));
            clocks.pass(HOUR);
            assert_eq!(clocks.age(before), 4 * HOUR, "{by}");
            assert_eq!(clocks.age(after), 3 * HOUR, "{by}");
            let note = clocks.ages.note();
            clocks.restart(Some(&note));
            assert_eq!(clocks.age(before), 4 * HOUR, "{by}");
            assert_eq!(clocks.age(after), 3 * HOUR, "{by}");
        }
    }

    #[test]
    fn a_jump_while_the_store_is_closed_counts_up_to_the_bound() {
        for (by, counted) in [(5, HOUR), (-5, 0), (5000, HOUR), (-5000, 0)] {
            let mut clocks = Clocks::new();
            clocks.pass(HOUR);
            let written = clocks.date;
            clocks.pass(HOUR);
            let note = clocks.ages.note();
            clocks.jump(days(by));
            clocks.restart(Some(&note));
            assert_eq!(clocks.age(written), HOUR + counted, "{by}");
            assert!(clocks.ages.is_news());
            clocks.pass(HOUR);
            assert_eq!(clocks.age(written), 2 * HOUR + counted, "{by}");
        }
    }

    /// The process was killed a while after the last note, and the clock jumped while it ran or afterwards.
    #[test]
    fn a_file_is_never_older_than_it_is_whenever_the_note_was_written() {
        let minute = 60_000;
        for by in [-5, -1, 0, 1, 5] {
            for (ran, then) in [(0, 9), (4, 5), (9, 0)] {
                let mut clocks = Clocks::new();
                clocks.pass(HOUR);
                let note = clocks.ages.note();
                clocks.pass(ran * minute);
                let before = clocks.date;
                clocks.jump(days(by));
                clocks.pass(then * minute);
                let after = clocks.date;
                clocks.restart(Some(&note));
                // What passed since the note, and the bound for the time between, is all that may be added.
                let most = (ran + then) * minute + HOUR;
                assert!(clocks.age(before) <= most, "{by} {ran}");
                assert!(clocks.age(after) <= HOUR, "{by} {ran}");
                clocks.pass(6 * DAY + 2 * HOUR);
                let young = clocks.age(before).min(clocks.age(after));
                assert!(young > DAY, "{by} {ran}: it ages");
            }
        }
    }

    #[test]
    fn a_clock_that_is_slewed_ages_nothing_by_more_than_a_minute() {
        let mut clocks = Clocks::new();
        let written = clocks.date;
        for _ in 0..600 {
            clocks.elapsed += 60_000;
            clocks.date += 65_000;
            clocks.pass(0);
        }
        let age = clocks.age(written);
        assert_eq!(age, 600 * 60_000);
        let late = clocks.date;
        clocks.pass(HOUR);
        let age = clocks.age(late);
        assert!((HOUR - STEADY..=HOUR + STEADY).contains(&age), "{age}");
    }

    #[test]
    fn spans_are_bounded_and_dates_of_forgotten_ones_count_as_late() {
        let mut clocks = Clocks::new();
        let first = clocks.date - DAY;
        for n in 0..2 * i64::try_from(MOST_SPANS).unwrap() {
            clocks.pass(HOUR);
            clocks.jump(days(n % 7 + 1));
        }
        clocks.pass(0);
        assert_eq!(clocks.ages.spans.len(), MOST_SPANS);
        let kept = u64::try_from(MOST_SPANS).unwrap();
        assert!(clocks.age(first) >= (kept - 2) * HOUR);
        let note = clocks.ages.note();
        clocks.restart(Some(&note));
        assert_eq!(clocks.ages.spans.len(), MOST_SPANS);
    }

    #[test]
    fn a_damaged_note_is_none() {
        let mut clocks = Clocks::new();
        clocks.pass(HOUR);
        clocks.jump(days(5));
        clocks.pass(HOUR);
        let note = clocks.ages.note();
        assert!(parse(&note).is_some());
        for end in 0..note.len() - 1 {
            let torn = note.get(..end).unwrap();
            // The first of the two spans may be whole.
            let parsed = parse(torn);
            assert!(
                parsed.is_none_or(|(_, _, spans)| spans.len() == 1),
                "{torn}"
            );
        }
        for damaged in [
            "",
            "\n",
            "now 1 2\n",
            "now 1 2\nspan 1 2 3\n",
            "now 1 2\nspan 1 2 3 4 5\n",
        ] {
            assert_eq!(parse(damaged), None, "{damaged:?}");
        }
    }
}
