use std::collections::BTreeMap;
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::net::Ipv4Addr;

use super::*;

type Seeded = Buckets<BuildHasherDefault<DefaultHasher>>;

fn buckets(size: usize) -> Seeded {
    Buckets::with_hasher(size, BuildHasherDefault::default())
}

/// How many of `asked` responses at `now` are within the limit.
fn taken(buckets: &Seeded, client: &str, (now, rate): (u32, u32), asked: usize) -> usize {
    let client = client.parse().unwrap();
    (0..asked)
        .filter(|_| buckets.take(client, now, rate))
        .count()
}

#[test]
fn an_address_gets_a_burst_and_then_its_rate() {
    let buckets = buckets(1 << 16);
    let take = |now, asked| taken(&buckets, "192.0.2.1", (now, 10), asked);
    assert_eq!(take(5_000, 100), 25, "what 2.5 seconds give");
    assert_eq!(take(5_000, 100), 0);
    assert_eq!(take(6_000, 100), 10);
    assert_eq!(take(6_050, 100), 0, "half a response");
    assert_eq!(take(6_100, 100), 1, "the two halves");
    assert_eq!(take(60_000, 100), 25);
    assert_eq!(
        taken(&buckets, "::ffff:192.0.2.1", (60_000, 10), 9),
        0,
        "the same client"
    );
    assert_eq!(
        taken(&buckets, "198.51.100.1", (60_000, 10), 100),
        25,
        "another one"
    );
}

#[test]
fn a_low_rate_drains_at_every_pace_of_questions() {
    for pace in [1, 7, 63, 999] {
        let buckets = buckets(1 << 10);
        let client = IpAddr::from([192, 0, 2, 1]);
        let seconds = 1000;
        let given = (0..seconds * 1000_u32)
            .step_by(pace)
            .filter(|now| buckets.take(client, *now, 1))
            .count();
        assert!((990..=1003).contains(&given), "{given} at {pace} ms");
    }
}

#[test]
fn a_network_has_a_limit_that_changing_addresses_do_not_pass_by() {
    for (rate, network, expected) in [(10_u32, "192.0.2", 25 * 32), (1, "198.51.100", 2 * 32 + 16)]
    {
        let buckets = buckets(1 << 16);
        let all = (0..=255).map(|last| {
            let client = format!("{network}.{last}");
            taken(&buckets, &client, (0, rate), 100)
        });
        assert_eq!(all.sum::<usize>(), expected, "{network}");
    }
    let buckets = buckets(1 << 16);
    let within = |second: u16| taken(&buckets, &format!("2001:db8::{second:x}"), (0, 10), 100);
    assert_eq!(
        [within(1), within(2), within(3)],
        [25, 25, 0],
        "a /64 has two addresses' worth"
    );
    assert_eq!(
        taken(&buckets, "2001:db8:0:1::1", (0, 10), 100),
        25,
        "the /56 has three"
    );
    assert_eq!(taken(&buckets, "2001:db8:0:2::1", (0, 10), 100), 0);
    assert_eq!(
        taken(&buckets, "2001:db8:1::1", (0, 10), 100),
        25,
        "another /48"
    );
}

#[test]
fn the_networks_are_those_of_their_lengths() {
    assert_eq!(mask(24, 32), 0xffff_ff00);
    assert_eq!(mask(32, 32), 0xffff_ffff);
    assert_eq!(mask(18, 32), 0xffff_c000);
    assert_eq!(mask(128, 128), u128::MAX);
    assert_eq!(mask(32, 128), u128::MAX << 96);
}

#[test]
fn clocks_that_wrap_or_are_behind_give_nothing_away() {
    let buckets = buckets(1 << 10);
    let take = |now, asked| taken(&buckets, "192.0.2.1", (now, 10), asked);
    assert_eq!(take(1 << 31, 1), 1);
    assert_eq!(take(u32::MAX - 500, 100), 25);
    assert_eq!(take(u32::MAX - 900, 100), 0, "another thread's clock");
    assert_eq!(take(499, 100), 10, "a second later, past the end");
    let month = 30 * 24 * 3600 * 1000;
    assert_eq!(take(month, 100), 25, "after a month of silence");
}

/// Many clients in few buckets: a client within its rate loses responses only where its bucket has others; what all get is bounded by
/// the buckets.
#[test]
fn floods_of_many_addresses_are_bounded_by_the_table() {
    for seed in 0..32_u64 {
        let buckets = buckets(256);
        let mut state = seed;
        let mut given: BTreeMap<Ipv4Addr, usize> = BTreeMap::new();
        for now in 0..2_000 {
            for _ in 0..20 {
                // A generator with these constants has a full period (Knuth, MMIX).
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                let client = Ipv4Addr::from_bits((state >> 32) as u32);
                if buckets.take(client.into(), now, 5) {
                    *given.entry(client).or_default() += 1;
                }
            }
        }
        let most = 256 * (5 * 2 + 13);
        let all: usize = given.values().sum();
        assert!(all <= most, "seed {seed}: {all} of at most {most}");
        assert!(given.values().all(|one| *one <= 22), "seed {seed}");
    }
}

#[test]
fn threads_share_one_limit() {
    let buckets = buckets(1 << 10);
    let client = IpAddr::from([192, 0, 2, 1]);
    let all: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| (0..10_000).filter(|_| buckets.take(client, 0, 100)).count()))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum()
    });
    // Attempts beside three others may end without a count.
    assert!((250..1000).contains(&all), "{all}");
}
