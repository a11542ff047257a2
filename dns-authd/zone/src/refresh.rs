//! When a secondary asks its primaries, and when its data expires (RFC 1034 §4.3.5, RFC 1035 §3.3.13).
//!
//! Decides only: the caller asks, transfers, and says how late it is.
//!
//! ```text
//! due ─► Question(primary) ─► succeed ─► wait REFRESH
//!             └─► fail ─► the next primary at once; behind the last one wait RETRY
//! NOTIFY ─► due now;  no success for EXPIRE ─► expired, until the next one
//! ```

use std::time::{Duration, Instant};

use crate::record::SoaTimes;

/// The shortest interval between questions: a zone with zeros in its SOA record does not flood its primaries.
const SHORTEST: Duration = Duration::from_secs(1);
/// The longest interval (RFC 1912 §2.2 has half a day), and the longest life without a success.
const LONGEST: Duration = Duration::from_hours(24 * 28);
/// The first interval between attempts to get a zone that is not here yet; it doubles.
const FIRST_RETRY: Duration = Duration::from_secs(2);
/// The longest interval between such attempts.
const LONGEST_FIRST_RETRY: Duration = Duration::from_mins(10);

/// One secondary zone.
#[derive(Clone, Debug)]
pub struct Refresh {
    n_primaries: usize,
    have: Option<SoaTimes>,
    /// The time of the last success: the data is known to be current.
    succeeded: Option<Instant>,
    due: Instant,
    /// The primary of the question that runs, or of the next one.
    primary: usize,
    /// How many primaries have failed since the last success or pause.
    n_failed: usize,
    /// The attempts in a row that failed, each with all primaries.
    n_rounds: u32,
    is_running: bool,
    /// The primary that sent NOTIFY while a question ran.
    notified: Option<usize>,
    /// Whether the next question takes the zone whatever its serial is.
    is_forced: bool,
}

/// A question to a primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// The number of the primary.
    pub primary: usize,
    /// The serial here; the zone is transferred if the primary's is newer. None: in any case.
    pub serial: Option<u32>,
}

impl Refresh {
    /// A zone with this number of primaries. `have` is the version that is here, with the time since it was known to be
    /// current. The first question is due at once.
    #[must_use]
    pub fn new(n_primaries: usize, have: Option<(SoaTimes, Duration)>, now: Instant) -> Self {
        Self {
            n_primaries: n_primaries.max(1),
            have: have.map(|(times, _)| times),
            // A clock that has not run so long says that it was current then.
            succeeded: have.map(|(_, age)| now.checked_sub(age).unwrap_or(now)),
            due: now,
            primary: 0,
            n_failed: 0,
            n_rounds: 0,
            is_running: false,
            notified: None,
            is_forced: false,
        }
    }

    /// When something is due: a question, or the expiry. `None` while a question runs that nothing ends but its result.
    #[must_use]
    pub fn due(&self, now: Instant) -> Option<Instant> {
        let question = (!self.is_running).then_some(self.due);
        let expiry = self.expiry().filter(|expiry| *expiry > now);
        [question, expiry].into_iter().flatten().min()
    }

    /// When the data expires.
    #[must_use]
    pub fn expiry(&self) -> Option<Instant> {
        let times = self.have?;
        Some(self.succeeded? + times.expire.clamp(SHORTEST, LONGEST))
    }

    /// Whether the data has expired: the zone answers SERVFAIL until a primary is reached.
    #[must_use]
    pub fn is_expired(&self, now: Instant) -> bool {
        self.expiry().is_some_and(|expiry| expiry <= now)
    }

    /// The time of the last success.
    #[must_use]
    pub const fn succeeded(&self) -> Option<Instant> {
        self.succeeded
    }

    /// When the next question is due.
    #[must_use]
    pub const fn next(&self) -> Instant {
        self.due
    }

    /// The question that is due, if one is. Its result comes by [`Refresh::succeed`] or [`Refresh::fail`].
    pub fn ask(&mut self, now: Instant) -> Option<Question> {
        if self.is_running || self.due > now {
            return None;
        }
        self.is_running = true;
        let serial = self.have.map(|times| times.serial);
        Some(Question {
            primary: self.primary,
            serial: serial.filter(|_| !self.is_forced),
        })
    }

    /// Takes the news that the data here is current, perhaps because it was transferred: the version that is here now.
    /// `jitter`, a random number, spreads the questions of many zones.
    pub fn succeed(&mut self, have: SoaTimes, now: Instant, jitter: u32) {
        self.is_running = false;
        self.is_forced = false;
        self.have = Some(have);
        self.succeeded = Some(now);
        self.n_failed = 0;
        self.n_rounds = 0;
        self.due = now + spread(have.refresh.clamp(SHORTEST, LONGEST), jitter);
        self.take_notified(now);
    }

    /// Takes the news that the primary could not be asked, or the zone not be taken.
    pub fn fail(&mut self, now: Instant, jitter: u32) {
        self.is_running = false;
        self.primary = (self.primary + 1) % self.n_primaries;
        self.n_failed += 1;
        if self.n_failed < self.n_primaries {
            self.due = now;
        } else {
            self.n_failed = 0;
            self.n_rounds = self.n_rounds.saturating_add(1);
            let first = FIRST_RETRY.saturating_mul(1 << (self.n_rounds - 1).min(16));
            let pause = match self.have {
                Some(times) => times.retry.clamp(SHORTEST, LONGEST),
                None => first.min(LONGEST_FIRST_RETRY),
            };
            self.due = now + spread(pause, jitter);
        }
        self.take_notified(now);
    }

    /// Takes a NOTIFY of this primary (RFC 1996 §4.3): the next question goes to it, at once.
    pub fn notify(&mut self, primary: usize, now: Instant) {
        if self.is_running {
            // The answer that comes may be from before the change.
            self.notified = Some(primary);
        } else {
            self.primary = primary % self.n_primaries;
            self.n_failed = 0;
            self.due = now;
        }
    }

    /// Has the whole zone transferred at once, whatever its serial is.
    pub fn force(&mut self, now: Instant) {
        self.is_forced = true;
        self.notify(self.primary, now);
    }

    fn take_notified(&mut self, now: Instant) {
        if let Some(primary) = self.notified.take() {
            self.notify(primary, now);
        }
    }
}

/// Between nine tenths of the interval and all of it.
fn spread(interval: Duration, jitter: u32) -> Duration {
    let part = 1.0 - f64::from(jitter) / f64::from(u32::MAX) / 10.0;
    interval.mul_f64(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_hours(1);

    #[expect(clippy::disallowed_methods, reason = "a test begins at any time")]
    fn start() -> Instant {
        Instant::now()
    }

    fn times(serial: u32) -> SoaTimes {
        SoaTimes {
            serial,
            refresh: HOUR,
            retry: HOUR / 6,
            expire: 24 * HOUR,
        }
    }

    #[test]
    fn a_zone_that_is_not_here_is_asked_for_at_growing_intervals() {
        let now = start();
        let mut refresh = Refresh::new(1, None, now);
        let mut at = now;
        let mut pauses = Vec::new();
        for _ in 0..12 {
            let ask = refresh.ask(at).unwrap();
            assert_eq!(ask.serial, None);
            assert_eq!(refresh.due(at), None, "a question runs");
            refresh.fail(at, 0);
            let next = refresh.due(at).unwrap();
            pauses.push((next - at).as_secs());
            at = next;
        }
        assert_eq!(pauses[..4], [2, 4, 8, 16]);
        assert_eq!(pauses[11], 600);
        assert!(!refresh.is_expired(at), "there is nothing that could");
    }

    #[test]
    fn the_next_primary_is_asked_at_once_and_the_first_one_after_the_pause() {
        let now = start();
        let mut refresh = Refresh::new(3, Some((times(7), Duration::ZERO)), now);
        for primary in [0, 1, 2] {
            let ask = refresh.ask(now).unwrap();
            assert_eq!((ask.primary, ask.serial), (primary, Some(7)));
            refresh.fail(now, 0);
        }
        assert_eq!(refresh.ask(now), None);
        assert_eq!(refresh.due(now), Some(now + times(7).retry));
        let later = now + times(7).retry;
        assert_eq!(refresh.ask(later).unwrap().primary, 0);
        refresh.succeed(times(8), later, 0);
        assert_eq!(refresh.due(later), Some(later + HOUR));
    }

    #[test]
    fn a_notify_is_heeded_at_once_and_once_more_if_a_question_runs() {
        let now = start();
        let mut refresh = Refresh::new(2, Some((times(7), Duration::ZERO)), now);
        refresh.ask(now).unwrap();
        refresh.succeed(times(7), now, 0);
        refresh.notify(1, now);
        assert_eq!(refresh.ask(now).unwrap().primary, 1);
        refresh.notify(0, now);
        refresh.notify(0, now);
        refresh.succeed(times(8), now, 0);
        assert_eq!(refresh.ask(now).unwrap().primary, 0);
        refresh.succeed(times(8), now, 0);
        assert_eq!(refresh.ask(now), None, "many are one");
        refresh.force(now);
        assert_eq!(refresh.ask(now).unwrap().serial, None);
        refresh.fail(now, 0);
        assert_eq!(refresh.ask(now).unwrap().serial, None, "still forced");
        refresh.succeed(times(8), now, 0);
        refresh.notify(0, now);
        assert_eq!(refresh.ask(now).unwrap().serial, Some(8));
    }

    #[test]
    fn data_expires_when_nobody_was_reached_since_it_was_current() {
        let now = start() + 48 * HOUR;
        let old = Some((times(7), 23 * HOUR));
        let mut refresh = Refresh::new(1, old, now);
        assert!(!refresh.is_expired(now));
        refresh.ask(now).unwrap();
        assert_eq!(refresh.due(now), Some(now + HOUR), "the expiry alone");
        refresh.fail(now, 0);
        assert!(refresh.is_expired(now + HOUR));
        let at = now + 2 * HOUR;
        refresh.ask(at).unwrap();
        refresh.succeed(times(7), at, 0);
        assert!(!refresh.is_expired(at));
    }

    /// Hours of a zone with primaries that come and go: by seeds.
    #[test]
    fn whatever_happens_questions_are_bounded_and_current_data_never_expires() {
        for seed in 1..=200_u64 {
            let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mut random = |n: u32| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                u32::try_from(state >> 32).unwrap() % n
            };
            let primary = |number: u32| usize::try_from(number).unwrap();
            let begun = start();
            let mut now = begun;
            let mut refresh = Refresh::new(1 + primary(random(3)), None, now);
            let mut serial = 1;
            let mut succeeded: Option<Instant> = None;
            let (mut n_asked, mut n_events) = (0_u32, 0_u32);
            while now < begun + 200 * HOUR {
                now = refresh.due(now).expect("something is due");
                let is_up = random(4) > 0;
                if let Some(ask) = refresh.ask(now) {
                    n_asked += 1;
                    assert!(ask.primary < 3, "seed {seed}");
                    now += Duration::from_millis(random(3000).into());
                    if random(20) == 0 {
                        refresh.notify(primary(random(3)), now);
                        n_events += 1;
                    }
                    match is_up {
                        true => {
                            serial += u32::from(random(2) == 0);
                            refresh.succeed(times(serial), now, random(u32::MAX));
                            succeeded = Some(now);
                        }
                        false => refresh.fail(now, random(u32::MAX)),
                    }
                }
                let age = succeeded.map(|at| now - at);
                let is_old = age.is_some_and(|age| age >= 24 * HOUR);
                assert_eq!(refresh.is_expired(now), is_old, "seed {seed}");
            }
            // A round of three primaries every ten minutes is the most, but for those that are not here yet and NOTIFY.
            assert!(
                n_asked < 200 * 6 * 4 + 3 * n_events,
                "seed {seed}: {n_asked}"
            );
        }
    }
}
