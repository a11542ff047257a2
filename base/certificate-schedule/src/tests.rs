//! Tables, and a simulated site with a thief in it.

use random::Random;

use super::*;

const MONTH: Schedule = Schedule::of_days(30);

/// The ends of a series of five years that was signed at the beginning of 1970, in seconds.
fn series() -> Vec<u64> {
    MONTH.ends(0, 5 * 365).map(|day| day * DAY).collect()
}

#[test]
fn a_series_ends_every_half_life_from_a_whole_life_on() {
    let days: Vec<u64> = MONTH.ends(100, 190).collect();
    assert_eq!(days, [130, 145, 160, 175, 190]);
    assert_eq!(MONTH.ends(100, 129).count(), 0, "none is shorter");
    let odd: Vec<u64> = Schedule::of_days(7).ends(0, 15).collect();
    assert_eq!(odd, [7, 10, 14], "half days are cut off");
    assert_eq!(Schedule::of_days(0), Schedule::of_days(2));
}

#[test]
fn a_node_asks_in_the_second_half() {
    let end = 30 * DAY;
    for (now, is_due, until) in [
        (0, false, 15 * DAY + 1),
        (15 * DAY, false, 1),
        (15 * DAY + 1, true, 0),
        (30 * DAY, true, 0),
        (90 * DAY, true, 0),
    ] {
        assert_eq!(MONTH.is_due(end, now), is_due, "{now}");
        assert_eq!(MONTH.until_due(end, now), until, "{now}");
        assert!(MONTH.is_due(end, now + until), "{now}");
    }
}

#[test]
fn the_others_give_the_first_with_half_a_life() {
    for (now, expected) in [
        (0, Some(30)),
        (15 * DAY, Some(30)),
        (15 * DAY + 1, Some(45)),
        (200 * DAY, Some(225)),
        (5 * 365 * DAY, None),
    ] {
        let ends = series();
        let chosen = MONTH.choose(ends.iter().copied(), now);
        let day = chosen.map(|number| ends[number] / DAY);
        assert_eq!(day, expected, "{now}");
    }
    assert_eq!(MONTH.choose([], 0), None);
    assert_eq!(MONTH.choose([10], u64::MAX), None);
}

/// Two nodes that give, each with a clock that is up to an hour off, and one that asks.
struct Site {
    random: Random,
    ends: Vec<u64>,
    clocks: [i64; 2],
    now: u64,
}

impl Site {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(u128::from(seed).to_le_bytes());
        let mut clock = || i64::try_from(random.bits() % 7_200).unwrap() - 3_600;
        let clocks = [clock(), clock()];
        Self {
            random,
            ends: series(),
            clocks,
            now: 0,
        }
    }

    fn below(&mut self, most: u64) -> u64 {
        self.random.bits() % most
    }

    /// The end of the certificate that one of the others gives.
    fn given(&mut self) -> Option<u64> {
        let clock = self.clocks[usize::from(self.below(2) == 1)];
        let now = self.now.saturating_add_signed(clock);
        let chosen = MONTH.choose(self.ends.iter().copied(), now)?;
        self.ends.get(chosen).copied()
    }
}

#[test]
fn a_node_that_reaches_another_every_ten_days_always_has_a_certificate() {
    for seed in 0..256 {
        let mut site = Site::new(seed);
        let mut end = site.ends[0];
        let (mut n_given, mut last_contact) = (0, 0);
        while site.now < 4 * 365 * DAY {
            site.now += 1 + site.below(DAY);
            let is_reached = site.below(4) == 0 || site.now - last_contact > 9 * DAY;
            if is_reached {
                last_contact = site.now;
                if MONTH.is_due(end, site.now) {
                    let given = site.given().unwrap();
                    // Where the other's clock is slow, it may be the same one, a little too early.
                    n_given += u32::from(given > end);
                    end = end.max(given);
                }
            }
            assert!(end > site.now, "seed {seed}: ended on day {}", end / DAY);
        }
        assert!((50..=110).contains(&n_given), "seed {seed}: {n_given}");
    }
}

#[test]
fn a_thief_is_believed_for_one_life_after_the_revocation_whatever_it_asks() {
    for seed in 0..256 {
        let mut site = Site::new(seed);
        let revoked = (1 + site.below(3 * 365)) * DAY;
        let mut latest = 0;
        // It asks all the time, and keeps whatever it gets.
        while site.now < revoked {
            latest = latest.max(site.given().unwrap());
            site.now += 1 + site.below(DAY);
        }
        let clocks = 3_600;
        assert!(
            latest <= revoked + MONTH.life() + clocks,
            "seed {seed}: believed {} days after",
            (latest - revoked) / DAY
        );
    }
}
