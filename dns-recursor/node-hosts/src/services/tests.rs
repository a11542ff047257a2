use super::*;

const LASTS: Duration = Duration::from_mins(5);

fn services(remove_after: Option<Duration>) -> Services {
    let service = |text| Service::new(text, "cluster.local").unwrap();
    let all = vec![service("a.svc"), service("b.svc")];
    Services::new(all, remove_after, Random::new([1; 16]))
}

fn addresses(all: &[&str], ttl: u64) -> Outcome {
    Outcome::Addresses {
        addresses: all.iter().map(|it| it.parse().unwrap()).collect(),
        ttl: Duration::from_secs(ttl),
    }
}

fn lines(services: &Services) -> Vec<String> {
    let entries = services.entries();
    let line = |entry: &Entry| format!("{} {}", entry.address, entry.names[0]);
    entries.iter().map(line).collect()
}

const A4: (usize, Family) = (0, Family::V4);
const A6: (usize, Family) = (0, Family::V6);

#[test]
fn each_family_is_asked_once_at_a_time_and_again_by_its_ttl() {
    let mut services = services(None);
    let all = services.take_due(Duration::ZERO);
    assert_eq!(all, [A4, A6, (1, Family::V4), (1, Family::V6)]);
    assert!(services.take_due(LASTS).is_empty());
    assert_eq!(services.next_due(), None);
    let now = Duration::from_secs(100);
    for (ttl, shortest, longest) in [(0, 5, 5), (30, 27, 30), (3600, 54, 60)] {
        assert_eq!(
            services.answered(A4, addresses(&["10.0.0.1"], ttl), now),
            ttl == 0
        );
        let wait = services.next_due().unwrap().saturating_sub(now);
        let bounds = Duration::from_secs(shortest)..=Duration::from_secs(longest);
        assert!(bounds.contains(&wait), "{ttl}: {wait:?}");
        assert!(services.take_due(now).is_empty());
        services.ask_now(now);
        assert_eq!(services.take_due(now), [A4]);
    }
}

#[test]
fn failures_keep_the_last_good_addresses_and_are_tried_more_rarely() {
    let mut services = services(Some(Duration::ZERO));
    services.answered(A4, addresses(&["10.0.0.1"], 5), Duration::ZERO);
    let mut waits = Vec::new();
    for _ in 0..7 {
        let failure = Outcome::Failed(Failure::Silent);
        assert!(!services.answered(A4, failure, Duration::ZERO));
        waits.push(services.states[0].families[0].due);
    }
    assert_eq!(lines(&services), ["10.0.0.1 a.svc"]);
    assert!(
        waits.is_sorted() || waits[5] >= Duration::from_secs(54),
        "{waits:?}"
    );
    assert!(waits[0] <= SHORTEST && waits[6] <= LONGEST, "{waits:?}");
    // The next good answer ends that.
    services.answered(A4, addresses(&["10.0.0.2"], 5), Duration::ZERO);
    services.answered(A4, Outcome::Failed(Failure::Silent), Duration::ZERO);
    assert!(services.states[0].families[0].due <= SHORTEST);
}

#[test]
fn a_service_that_is_gone_stays_unless_the_operator_wants_otherwise() {
    let at = |seconds| Duration::from_secs(seconds);
    for (remove_after, times, is_kept) in [
        (None, &[0, 1_000, 100_000, 1_000_000][..], true),
        // Three in a row, and for five minutes.
        (Some(LASTS), &[0, 400], true),
        (Some(LASTS), &[0, 100, 299], true),
        (Some(LASTS), &[0, 100, 300], false),
        (Some(Duration::ZERO), &[0, 0], true),
        (Some(Duration::ZERO), &[0, 0, 0], false),
    ] {
        for denial in [Outcome::Denied, Outcome::Empty] {
            let mut services = services(remove_after);
            services.answered(A4, addresses(&["10.0.0.1"], 5), at(0));
            for time in times {
                services.answered(A4, denial.clone(), at(*time));
            }
            assert_eq!(
                lines(&services).len() == 1,
                is_kept,
                "{remove_after:?} {times:?}"
            );
        }
    }
    // An answer between denials ends that.
    let mut services = services(Some(LASTS));
    for time in [0, 200, 400, 600] {
        let outcome = match time {
            400 => addresses(&["10.0.0.1"], 5),
            _ => Outcome::Denied,
        };
        services.answered(A4, outcome, at(time));
    }
    assert_eq!(lines(&services), ["10.0.0.1 a.svc"]);
}

#[test]
fn a_family_that_a_service_has_lost_goes_by_itself() {
    let mut services = services(None);
    services.answered(A4, addresses(&["10.0.0.1"], 5), Duration::ZERO);
    services.answered(A6, addresses(&["fd00::1"], 5), Duration::ZERO);
    assert_eq!(lines(&services), ["10.0.0.1 a.svc", "fd00::1 a.svc"]);
    for time in [10, 30, 69, 70] {
        let both = lines(&services).len();
        assert_eq!(both, 2, "{time}");
        services.answered(A6, Outcome::Empty, Duration::from_secs(time));
    }
    assert_eq!(lines(&services), ["10.0.0.1 a.svc"]);
}

#[test]
fn entries_of_a_former_process_are_good_until_something_better_comes() {
    let mut services = services(None);
    let entry = |address: &str, names: &[&str]| Entry {
        address: address.parse().unwrap(),
        names: names.iter().map(|name| (*name).to_owned()).collect(),
    };
    services.adopt(&[
        entry("10.0.0.2", &["a.svc", "a.svc.cluster.local"]),
        entry("10.0.0.1", &["a.svc", "a.svc.cluster.local"]),
        entry("10.0.0.1", &["a.svc", "a.svc.cluster.local"]),
        entry("fd00::1", &["b.svc", "b.svc.cluster.local"]),
        entry("10.0.0.3", &["b.svc", "b.svc.other"]),
    ]);
    let expected = ["10.0.0.1 a.svc", "10.0.0.2 a.svc", "fd00::1 b.svc"];
    assert_eq!(lines(&services), expected);
    services.answered(A4, Outcome::Failed(Failure::Silent), Duration::ZERO);
    assert_eq!(lines(&services), expected);
    assert!(services.answered(A4, addresses(&["10.0.0.9"], 5), Duration::ZERO));
    assert_eq!(lines(&services), ["10.0.0.9 a.svc", "fd00::1 b.svc"]);
}

/// Addresses go only after denials, no family is looked up twice at a time, and waits are within their bounds.
#[test]
fn no_course_of_events_loses_addresses_without_denials() {
    for seed in 0..256_u128 {
        let mut random = Random::new(seed.to_be_bytes());
        let mut services = services(Some(Duration::from_secs(30)));
        let (mut now, mut n_denials) = (Duration::ZERO, [[0_u32; 2]; 2]);
        for step in 0..300 {
            for (index, family) in services.take_due(now) {
                let had =
                    services.states[index].families[usize::from(family == Family::V6)].clone();
                let outcome = match random.bits() % 5 {
                    0 if family == Family::V4 => addresses(&["10.0.0.1"], 7),
                    0 => addresses(&["fd00::1"], 7),
                    1 => Outcome::Empty,
                    2 => Outcome::Denied,
                    _ => Outcome::Failed(Failure::Silent),
                };
                let n = &mut n_denials[index][usize::from(family == Family::V6)];
                match outcome {
                    Outcome::Addresses { .. } => *n = 0,
                    Outcome::Empty | Outcome::Denied => *n += 1,
                    Outcome::Failed(_) => {}
                }
                services.answered((index, family), outcome, now);
                let known = &services.states[index].families[usize::from(family == Family::V6)];
                let is_lost = !had.addresses.is_empty() && known.addresses.is_empty();
                assert!(!is_lost || *n >= DENIALS, "seed {seed} step {step}");
                let wait = known.due.saturating_sub(now);
                assert!(
                    (SHORTEST..=LONGEST).contains(&wait),
                    "seed {seed} step {step}: {wait:?}"
                );
            }
            now = services.next_due().expect("nothing is under way");
        }
    }
}
