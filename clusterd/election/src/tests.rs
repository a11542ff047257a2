use random::Random;

use super::*;

fn start() -> Instant {
    #[expect(
        clippy::disallowed_methods,
        reason = "a test needs any instant to count from"
    )]
    Instant::now()
}

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn seen(holder: &str, version: u64) -> Seen {
    Seen {
        lease: Lease {
            holder: holder.to_owned(),
            duration: 15,
            transitions: 3,
            acquired: "then".to_owned(),
            renewed: "then".to_owned(),
        },
        version: version.to_string(),
    }
}

fn candidate(name: &str) -> Election {
    Election::new(name.to_owned(), Settings::default())
}

#[test]
fn a_lease_that_is_not_there_is_made() {
    let now = start();
    let mut one = candidate("a");
    let step = one.decide(None, now, "now");
    let Step::Make(lease) = step else {
        panic!("{step:?}")
    };
    assert_eq!((lease.holder.as_str(), lease.duration), ("a", 15));
    assert!(!one.leads(now), "not before it is written");
    let made = Seen {
        lease,
        version: "1".to_owned(),
    };
    one.written(made, now, now + seconds(3));
    assert!(one.leads(now + seconds(9)));
    assert!(
        !one.leads(now + seconds(10)),
        "counted from when it was sent"
    );
}

#[test]
fn a_lease_is_taken_when_it_has_not_changed_for_its_duration() {
    let now = start();
    let mut one = candidate("a");
    assert_eq!(one.decide(Some(seen("b", 7)), now, ""), Step::Wait);
    assert_eq!(
        one.decide(Some(seen("b", 7)), now + seconds(14), ""),
        Step::Wait
    );
    assert_eq!(
        one.decide(Some(seen("b", 8)), now + seconds(15), ""),
        Step::Wait,
        "it has changed"
    );
    assert_eq!(one.holder(), Some("b"));
    let step = one.decide(Some(seen("b", 8)), now + seconds(30), "now");
    let Step::Update(lease, version) = step else {
        panic!("{step:?}")
    };
    assert_eq!((version.as_str(), lease.holder.as_str()), ("8", "a"));
    assert_eq!((lease.transitions, lease.acquired.as_str()), (4, "now"));
    // One that was given up is free at once.
    let mut other = candidate("c");
    let step = other.decide(Some(seen("", 9)), now, "");
    assert!(matches!(step, Step::Update(..)), "{step:?}");
}

#[test]
fn the_holder_renews_and_ends_when_another_has_it() {
    let now = start();
    let mut one = candidate("a");
    let step = one.decide(Some(seen("a", 7)), now, "now");
    let Step::Update(lease, version) = step else {
        panic!("{step:?}")
    };
    assert_eq!((lease.transitions, lease.acquired.as_str()), (3, "then"));
    assert!(
        !one.leads(now),
        "an earlier process of this name may have written it"
    );
    let renewed = Seen {
        lease,
        version: version + "1",
    };
    one.written(renewed, now, now);
    assert!(one.leads(now + seconds(1)));
    one.decide(Some(seen("b", 99)), now + seconds(2), "");
    assert!(!one.leads(now + seconds(2)));
    assert_eq!(one.release("end"), None);
}

#[test]
fn a_lease_is_given_up_by_its_holder() {
    let now = start();
    let mut one = candidate("a");
    one.written(seen("a", 7), now, now);
    let (lease, version) = one.release("end").unwrap();
    assert_eq!((lease.holder.as_str(), version.as_str()), ("", "7"));
    assert!(!one.leads(now));
}

/// A Lease at the API, several candidates with pauses, lost answers and cuts: two never may write at once, and one does
/// within a minute once the trouble is over.
#[test]
fn two_never_lead_at_once() {
    let only = std::env::var("SIM_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let seeds = only.map_or(0..256_u64, |seed: u64| seed..seed + 1);
    for seed in seeds {
        let mut random = Random::new(u128::from(seed).to_be_bytes());
        let begin = start();
        let mut stored: Option<Seen> = None;
        let mut version = 0;
        let names = ["a", "b", "c"];
        let mut all = names.map(|name| (candidate(name), 0_u64, true));
        for tick in 0..3000_u64 {
            let now = begin + Duration::from_millis(100 * tick);
            let is_calm = tick > 2000;
            for (election, next, reaches) in &mut all {
                if random.bits().is_multiple_of(200) {
                    *reaches = is_calm || !*reaches;
                }
                if is_calm {
                    *reaches = true;
                }
                if tick < *next {
                    continue;
                }
                // A pause of the process, now and then.
                let pause = match is_calm || !random.bits().is_multiple_of(40) {
                    true => 20,
                    false => 20 + random.bits() % 400,
                };
                *next = tick + pause;
                if !*reaches {
                    continue;
                }
                let step = election.decide(stored.clone(), now, "");
                // The answer comes late, or never.
                let late = now + Duration::from_millis(random.bits() % 3000);
                let lease = match step {
                    Step::Wait => continue,
                    Step::Make(lease) if stored.is_none() => lease,
                    Step::Update(lease, of)
                        if stored.as_ref().is_some_and(|seen| seen.version == of) =>
                    {
                        lease
                    }
                    Step::Make(_) | Step::Update(..) => continue,
                };
                version += 1;
                let written = Seen {
                    lease,
                    version: version.to_string(),
                };
                stored = Some(written.clone());
                if is_calm || !random.bits().is_multiple_of(10) {
                    election.written(written, now, late);
                }
            }
            let leaders = all.iter().filter(|(election, ..)| election.leads(now));
            let n = leaders.count();
            assert!(n <= 1, "{n} lead: seed {seed} tick {tick}");
            if tick > 2600 {
                assert_eq!(n, 1, "no candidate leads: seed {seed} tick {tick}");
            }
        }
    }
}
