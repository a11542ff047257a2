//! A bound on the bandwidth that replication takes, so that a node that refills itself leaves room
//! for those that pull.

use std::time::Duration;

use config::registry_svc::Hours;
use daemon::clock;
use parking_lot::Mutex;
use registry_cluster_core::intake::Class;
use tokio::time::Instant;

/// Octets that may come at once after a quiet moment, as time at the full rate.
const BURST: Duration = Duration::from_millis(100);

/// Bytes a second, by the hour of the day.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// The first whose hours it is holds.
    pub by_hour: Vec<(Hours, u64)>,
    /// At all other hours; none is no bound.
    pub otherwise: Option<u64>,
}

impl Rates {
    /// The rate at a time since 1970.
    fn at(&self, time: Duration) -> Option<u64> {
        const HOUR: u64 = 3600;
        let hour = time.as_secs() / HOUR % 24;
        let mut by_hour = self.by_hour.iter();
        let found = by_hour.find(|(hours, _)| hours.contain(hour));
        found.map(|(_, rate)| *rate).or(self.otherwise)
    }
}

/// Limits the rates of bytes a second.
#[derive(Debug)]
pub(super) struct Throttle {
    rates: Rates,
    paid: Mutex<Paid>,
}

/// When what was let through is paid for.
#[derive(Debug, Default)]
struct Paid {
    /// Small content.
    small: Option<Instant>,
    /// All of it.
    all: Option<Instant>,
}

impl Throttle {
    pub(super) fn new(rates: Rates) -> Self {
        Self {
            rates,
            paid: Mutex::default(),
        }
    }

    /// Waits until this many bytes of content of a class may come. Small content does not wait for larger, which pays
    /// for it.
    pub(super) async fn take(&self, octets: usize, class: Class) {
        let Some(rate) = self.rates.at(clock::since_1970()) else {
            return;
        };
        let now = Instant::now();
        let until = self.reserve(octets, class, rate, now);
        tokio::time::sleep_until(until).await;
    }

    /// When the octets may come; those that ask later wait behind them.
    fn reserve(&self, octets: usize, class: Class, rate: u64, now: Instant) -> Instant {
        let cost = u64::try_from(octets)
            .unwrap_or(u64::MAX)
            .saturating_mul(1_000_000)
            / rate.max(1);
        let cost = Duration::from_micros(cost);
        let mut paid = self.paid.lock();
        let earliest = now.checked_sub(BURST).unwrap_or(now);
        let begin = |paid: Option<Instant>| paid.map_or(earliest, |paid| paid.max(earliest));
        let (small, all) = (begin(paid.small), begin(paid.all));
        paid.all = Some(all + cost);
        match class {
            Class::Small => {
                paid.small = Some(small + cost);
                small
            }
            Class::Middle | Class::Large => all,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: u64 = 1_000_000;

    #[test]
    fn octets_wait_until_those_before_them_are_paid_for() {
        let throttle = Throttle::new(Rates::default());
        let reserve = |octets, now| throttle.reserve(octets, Class::Middle, RATE, now);
        let now = Instant::now();
        let first = reserve(1_000_000, now);
        assert!(first <= now, "a burst goes through at once");
        let second = reserve(500_000, now);
        assert_eq!(second, first + Duration::from_secs(1));
        let third = reserve(1, now);
        assert_eq!(third, second + Duration::from_millis(500));
        // Time that nobody used is not saved up.
        let later = now + Duration::from_secs(60);
        assert_eq!(reserve(1, later), later - BURST);
    }

    #[test]
    fn small_content_waits_for_no_larger_which_pays_for_it() {
        let throttle = Throttle::new(Rates::default());
        let now = Instant::now();
        let reserve = |octets, class| throttle.reserve(octets, class, RATE, now);
        let first = reserve(5_000_000, Class::Large);
        let small = reserve(1_000_000, Class::Small);
        assert!(small <= now);
        assert_eq!(reserve(1, Class::Small), small + Duration::from_secs(1));
        let paid = Duration::from_secs(6) + Duration::from_micros(1);
        assert_eq!(reserve(1, Class::Middle), first + paid);
    }

    #[test]
    fn the_rate_is_that_of_the_hour() {
        let hours = |text: &str| text.parse::<Hours>().unwrap();
        let rates = Rates {
            by_hour: vec![(hours("12-13"), 3), (hours("7-19"), 1), (hours("22-4"), 2)],
            otherwise: Some(9),
        };
        let at = |hour: u64| rates.at(Duration::from_hours(24 * 365 + hour));
        let expected = [
            (0, 2),
            (3, 2),
            (4, 9),
            (6, 9),
            (7, 1),
            (12, 3),
            (18, 1),
            (19, 9),
            (22, 2),
            (23, 2),
        ];
        for (hour, rate) in expected {
            assert_eq!(at(hour), Some(rate), "{hour}");
        }
        assert_eq!(Rates::default().at(Duration::ZERO), None);
        for wrong in ["", "7", "7-7", "24-1", "7-25", "7-0", "-1-3", "a-b"] {
            assert!(wrong.parse::<Hours>().is_err(), "{wrong:?}");
        }
    }
}
