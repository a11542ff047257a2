//! Who gets how much of many connections.

use super::*;

/// Counts of each server over so many connections, which end at once.
fn counts(bench: &mut Bench, count: usize) -> Vec<usize> {
    let pool = bench.pool();
    let mut counts = vec![0; pool.servers.len()];
    for _ in 0..count {
        if let Choice::Take { index, .. } = bench.choose(&pool, &Tried::default()) {
            counts[index] += 1;
        }
    }
    counts
}

/// True when `count` is what a share of `weight` in `total` would give in `n` draws, within five
/// standard deviations.
fn is_near(count: usize, n: usize, weight: usize, total: usize) -> bool {
    let share = weight as f64 / total as f64;
    let expected = share * n as f64;
    let deviation = (expected * (1.0 - share)).sqrt();
    (count as f64 - expected).abs() <= 5.0 * deviation + 1.0
}

#[test]
fn shares_follow_weights() {
    let weights = [1, 10, 50, 100, 256, 256, 3];
    let servers: Vec<String> = weights
        .iter()
        .map(|weight| format!("s{weight}:{weight}"))
        .collect();
    let mut servers: Vec<String> = servers;
    servers[5] = "other:256".into();
    let servers: Vec<&str> = servers.iter().map(String::as_str).collect();
    let total: usize = weights.iter().sum();
    let n = total * 100;
    for algorithm in [Algorithm::RoundRobin, Algorithm::Source] {
        let mut bench = Bench::new(algorithm, &servers);
        let counts = counts(&mut bench, n);
        for (count, weight) in counts.iter().zip(weights) {
            // A table has 65,537 places, so a share is up to 1 % off besides.
            let slack = n * weight / total / 50;
            let near = (count.saturating_sub(slack)..=count + slack)
                .step_by(slack.max(1))
                .any(|count| is_near(count, n, weight, total));
            assert!(near, "{algorithm:?}: {count} of {n} for weight {weight}");
        }
    }
}

#[test]
fn round_robin_is_exact_over_whole_rounds() {
    let mut bench = Bench::new(Algorithm::RoundRobin, &["a:7", "b:3", "c:2"]);
    assert_eq!(counts(&mut bench, 120), [70, 30, 20]);
}

#[test]
fn least_connections_balances_what_stays() {
    let mut bench = Bench::new(Algorithm::LeastConnections, &["a:100", "b:200", "c:50"]);
    let pool = bench.pool();
    let slots: Vec<Choice> = (0..700)
        .map(|_| bench.choose(&pool, &Tried::default()))
        .collect();
    let sessions: Vec<u32> = pool
        .servers
        .iter()
        .map(|server| server.load.sessions())
        .collect();
    for (sessions, expected) in sessions.iter().zip([200_u32, 400, 100]) {
        assert!(
            sessions.abs_diff(expected) <= 1,
            "{sessions} for {expected}"
        );
    }
    drop(slots);
}

#[test]
fn the_better_of_two_evens_out_what_one_would_not() {
    let names: Vec<String> = (0..50).map(|number| format!("s{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut bench = Bench::new(Algorithm::RandomOfTwo, &names);
    let pool = bench.pool();
    let slots: Vec<Choice> = (0..5000)
        .map(|_| bench.choose(&pool, &Tried::default()))
        .collect();
    let sessions = pool.servers.iter().map(|server| server.load.sessions());
    let (least, most) = sessions.fold((u32::MAX, 0), |(least, most), sessions| {
        (least.min(sessions), most.max(sessions))
    });
    // One draw alone would be 30 off either way.
    assert!(least >= 92 && most <= 106, "{least} to {most}");
    drop(slots);
}

#[test]
fn the_better_of_two_follows_weights() {
    let mut bench = Bench::new(Algorithm::RandomOfTwo, &["a:100", "b:200", "c:100"]);
    let pool = bench.pool();
    let slots: Vec<Choice> = (0..4000)
        .map(|_| bench.choose(&pool, &Tried::default()))
        .collect();
    let sessions: Vec<u32> = pool
        .servers
        .iter()
        .map(|server| server.load.sessions())
        .collect();
    for (sessions, expected) in sessions.iter().zip([1000_u32, 2000, 1000]) {
        assert!(
            sessions.abs_diff(expected) <= 60,
            "{sessions} for {expected}"
        );
    }
    drop(slots);
}

#[test]
fn among_very_many_servers_nobody_is_forgotten() {
    let names: Vec<String> = (0..400)
        .map(|number| format!("s{number}:{}", 1 + number % 256))
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for algorithm in ALGORITHMS {
        let mut bench = Bench::new(algorithm, &names);
        let pool = bench.pool();
        let mut slots = Vec::new();
        for _ in 0..40_000 {
            slots.push(bench.choose(&pool, &Tried::default()));
        }
        let idle = pool
            .servers
            .iter()
            .filter(|server| server.load.sessions() == 0);
        let idle: Vec<u16> = idle.map(|server| server.weight).collect();
        // Chance may pass over the lightest.
        assert!(
            idle.iter().all(|weight| *weight < 10),
            "{algorithm:?}: {idle:?}"
        );
    }
}
