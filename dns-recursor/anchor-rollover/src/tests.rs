//! Tables over the states, and a zone whose owner and whose thief sign sets.

use std::collections::BTreeMap;

use random::Random;

use super::*;

/// The DNSKEY data of the key with a number.
fn data(number: u8, is_revoked: bool) -> Vec<u8> {
    vec![
        1,
        if is_revoked { 0x81 } else { 0x01 },
        3,
        13,
        number,
        number,
    ]
}

fn key(number: u8) -> Key {
    Key::read(&data(number, false)).unwrap().0
}

const TTL: Duration = Duration::from_secs(2 * 86_400);

/// A set of keys, each with whether it is revoked and whether it signs.
fn take(
    anchors: &mut Anchors,
    keys: &[(u8, bool, bool)],
    elapsed: Duration,
) -> Result<Vec<Change>, Refused> {
    let rdatas: Vec<Vec<u8>> = keys
        .iter()
        .map(|(number, is_revoked, _)| data(*number, *is_revoked))
        .collect();
    let signers: Vec<usize> = (0..keys.len()).filter(|place| keys[*place].2).collect();
    let set = Set {
        rdatas: &rdatas,
        signers: &signers,
        ttl: TTL,
        signed_for: TTL,
    };
    anchors.take(set, Some(elapsed), RULES)
}

/// The rules of the standard; the keys from 100 to 109 are the operator's from the beginning.
const RULES: Rules<'static> = Rules {
    add_hold_down: HOLD_DOWN,
    del_hold_down: HOLD_DOWN,
    keep_missing: Some(KEEP_MISSING),
    is_initial: &|key| matches!(key.rdata(), [.., 100..=109]),
};

fn state(anchors: &Anchors, number: u8) -> &'static str {
    kind(anchors.keys.get(&key(number)).copied())
}

#[test]
fn only_keys_for_entry_to_a_zone_are_read() {
    for (rdata, expected) in [
        (&[1, 0x01, 3, 13, 7][..], Some(false)),
        (&[1, 0x81, 3, 13, 7], Some(true)),
        (&[1, 0x00, 3, 13, 7], None),
        (&[0, 0x01, 3, 13, 7], None),
        (&[1, 0x01, 3, 13], None),
        (&[], None),
    ] {
        assert_eq!(
            Key::read(rdata).map(|(_, is_revoked)| is_revoked),
            expected,
            "{rdata:?}"
        );
    }
    let (plain, revoked) = (
        Key::read(&data(1, false)).unwrap().0,
        Key::read(&data(1, true)).unwrap().0,
    );
    assert_eq!(plain, revoked, "one key with and without the flag");
}

#[test]
fn a_new_key_counts_after_thirty_days_in_every_set() {
    let mut anchors = Anchors::new([(key(1), State::Valid)]);
    let both = [(1, false, true), (2, false, false)];
    take(&mut anchors, &both, DAY).unwrap();
    for _ in 0..29 {
        assert_eq!(take(&mut anchors, &both, DAY).unwrap(), []);
        assert_eq!(state(&anchors, 2), "pending");
    }
    let changes = take(&mut anchors, &both, DAY).unwrap();
    assert_eq!(changes.len(), 1);
    assert_eq!(state(&anchors, 2), "valid");

    // Left out once, it begins again.
    let three = [(1, false, true), (2, false, true), (3, false, false)];
    take(&mut anchors, &three, DAY).unwrap();
    take(&mut anchors, &three, 14 * DAY).unwrap();
    take(&mut anchors, &both, DAY).unwrap();
    assert_eq!(state(&anchors, 3), "");
}

#[test]
fn a_clock_that_was_set_forward_does_not_end_the_hold_down() {
    let mut anchors = Anchors::new([(key(1), State::Valid)]);
    let both = [(1, false, true), (2, false, false)];
    take(&mut anchors, &both, 20_000 * DAY).unwrap();
    take(&mut anchors, &both, 20_000 * DAY).unwrap();
    assert_eq!(state(&anchors, 2), "pending", "15 days at most count");
}

#[test]
fn a_revoked_key_never_counts_again() {
    let mut anchors = Anchors::new([(key(1), State::Valid), (key(2), State::Valid)]);
    // The flag alone is no revocation: the key itself has to have signed.
    take(&mut anchors, &[(1, true, false), (2, false, true)], DAY).unwrap();
    assert_eq!(state(&anchors, 1), "missing");
    take(&mut anchors, &[(1, true, true), (2, false, true)], DAY).unwrap();
    assert_eq!(state(&anchors, 1), "revoked");
    for _ in 0..4 {
        take(
            &mut anchors,
            &[(1, false, true), (2, false, true)],
            10 * DAY,
        )
        .unwrap();
    }
    assert_eq!(state(&anchors, 1), "removed");
    assert_eq!(
        take(&mut anchors, &[(1, false, true)], DAY),
        Err(Refused::Unsigned)
    );
    // Its own last word counts although no other key signs.
    take(&mut anchors, &[(2, true, true)], DAY).unwrap();
    assert!(anchors.is_given_up());
}

#[test]
fn a_set_without_a_trusted_signature_changes_nothing() {
    let mut anchors = Anchors::new([(key(1), State::Valid)]);
    let before = anchors.clone();
    for keys in [
        &[(2, false, true)][..],
        &[(1, false, false), (2, false, true)],
        &[],
    ] {
        assert_eq!(take(&mut anchors, keys, 40 * DAY), Err(Refused::Unsigned));
    }
    assert_eq!(anchors, before);
    take(&mut anchors, &[(1, false, true), (3, false, true)], DAY).unwrap();
    // A pending key does not vouch for another one.
    assert_eq!(
        take(&mut anchors, &[(3, false, true), (4, false, true)], DAY),
        Err(Refused::Unsigned)
    );
}

#[test]
fn the_keys_of_the_operator_need_no_hold_down_and_are_revoked_as_any_other() {
    let mut anchors = Anchors::default();
    assert_eq!(
        take(&mut anchors, &[(1, false, true)], DAY),
        Err(Refused::Unsigned)
    );
    take(
        &mut anchors,
        &[(100, false, true), (101, false, false), (1, false, false)],
        DAY,
    )
    .unwrap();
    for (number, expected) in [(100, "valid"), (101, "valid"), (102, ""), (1, "pending")] {
        assert_eq!(state(&anchors, number), expected, "{number}");
    }
    // One that was not there yet vouches for a set although no other key does.
    take(&mut anchors, &[(102, false, true)], DAY).unwrap();
    assert_eq!(state(&anchors, 102), "valid");
    assert_eq!(state(&anchors, 100), "missing");
    // One that comes revoked never counts.
    take(&mut anchors, &[(102, false, true), (103, true, true)], DAY).unwrap();
    assert_eq!(state(&anchors, 103), "revoked");
    assert_eq!(
        take(&mut anchors, &[(103, false, true)], DAY),
        Err(Refused::Unsigned)
    );
}

#[test]
fn a_key_that_is_missing_for_a_year_is_removed_and_stays_so() {
    let mut anchors = Anchors::new([(key(1), State::Valid), (key(100), State::Valid)]);
    let mut n_days = 0;
    while state(&anchors, 100) != "removed" {
        take(&mut anchors, &[(1, false, true)], 10 * DAY).unwrap();
        n_days += 10;
    }
    assert_eq!(n_days, 380, "the first of these sets begins the time");
    take(&mut anchors, &[(1, false, true), (100, false, true)], DAY).unwrap();
    assert_eq!(state(&anchors, 100), "removed");
    assert_eq!(
        take(&mut anchors, &[(100, false, true)], DAY),
        Err(Refused::Unsigned)
    );
}

#[test]
fn removed_keys_make_room_for_others() {
    let mut anchors = Anchors::new([(key(200), State::Valid), (key(100), State::Removed)]);
    for number in 0..90 {
        let set = [(200, false, true), (number, false, true)];
        take(&mut anchors, &set, DAY).unwrap();
        take(&mut anchors, &set, 15 * DAY).unwrap();
        take(&mut anchors, &set, 15 * DAY).unwrap();
        assert_eq!(state(&anchors, number), "valid", "{number}");
        let set = [(200, false, true), (number, true, true)];
        take(&mut anchors, &set, DAY).unwrap();
        take(&mut anchors, &set, 15 * DAY).unwrap();
        take(&mut anchors, &set, 15 * DAY).unwrap();
        assert_eq!(state(&anchors, number), "removed", "{number}");
        assert!(anchors.keys().count() <= MAX_KEYS);
    }
    assert_eq!(state(&anchors, 100), "removed", "the operator's key stays");
}

/// The owner of a zone: publishes a new key every sixty days, counts on it after a hundred, and revokes the oldest of three that count. A
/// stolen key is revoked five days after the theft.
#[derive(Default)]
struct Owner {
    /// By number, since which day.
    published: BTreeMap<u8, u64>,
    revoked: BTreeMap<u8, u64>,
    stolen: Option<(u8, u64)>,
}

impl Owner {
    /// Keys that can be counted on, oldest first.
    fn standing(&self, day: u64) -> Vec<u8> {
        let keys = self.published.iter();
        keys.filter(|(number, since)| !self.revoked.contains_key(number) && day > **since + 100)
            .map(|(number, _)| *number)
            .collect()
    }

    fn live(&mut self, day: u64, is_theft: bool) {
        let newest = u8::try_from(day / 60).unwrap();
        self.published.entry(newest).or_insert(day);
        let standing = self.standing(day);
        if let [oldest, _, _, ..] = standing[..] {
            self.revoked.insert(oldest, day);
        }
        match self.stolen {
            None if is_theft && standing.len() > 1 => {
                self.stolen = standing.first().map(|oldest| (*oldest, day));
            }
            Some((number, since)) if day > since + 5 => {
                self.revoked.entry(number).or_insert(day);
            }
            _ => {}
        }
    }

    /// The set that it signs: revoked keys stay in it for sixty days.
    fn set(&self, day: u64) -> Vec<(u8, bool, bool)> {
        let keys = self.published.keys();
        let is_gone = |number: &u8| {
            self.revoked
                .get(number)
                .is_some_and(|since| day > since + 60)
        };
        keys.filter(|number| !is_gone(number))
            .map(|number| (*number, self.revoked.contains_key(number), true))
            .collect()
    }
}

/// A thief has one key and answers one question in three; within twenty days one reaches the owner.
#[test]
fn a_thief_of_one_key_never_gets_another_one_trusted() {
    const THIEFS: u8 = 200;
    let mut n_stolen = 0;
    for seed in 0..256_u64 {
        let mut random = Random::new(u128::from(seed).to_le_bytes());
        let mut below = |bound: u64| random.bits() % bound;
        let mut anchors = Anchors::new([(key(0), State::Valid)]);
        let mut owner = Owner::default();
        let (mut day, mut heard) = (0, 0);
        while day < 1_500 {
            let passed = 1 + below(5);
            day += passed;
            owner.live(day, below(50) == 0);
            let elapsed = DAY * u32::try_from(passed).unwrap();
            let is_thief = day < heard + 20 && below(3) == 0;
            match owner.stolen.filter(|_| is_thief) {
                Some((number, _)) => {
                    let keys = [(number, false, true), (THIEFS, false, true)];
                    drop(take(&mut anchors, &keys, elapsed));
                }
                None => {
                    heard = day;
                    let taken = take(&mut anchors, &owner.set(day), elapsed);
                    assert!(
                        taken.is_ok(),
                        "seed {seed}, day {day}: the owner is believed"
                    );
                }
            }
            let trusted: Vec<&Key> = anchors.trusted().collect();
            assert!(!trusted.contains(&&key(THIEFS)), "seed {seed}, day {day}");
            assert!(!trusted.is_empty(), "seed {seed}, day {day}");
            for (number, since) in &owner.revoked {
                // The owner was heard since.
                let is_trusted = trusted.contains(&&key(*number));
                assert!(
                    !is_trusted || day < since + 25,
                    "seed {seed}, day {day}: {number}"
                );
            }
        }
        n_stolen += usize::from(owner.stolen.is_some());
    }
    assert!(n_stolen > 200, "{n_stolen}");
}
