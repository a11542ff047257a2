//! How a server comes back.

use super::*;

/// A pool in which `a` has been back for `elapsed` of ten seconds.
fn coming_back(algorithm: Algorithm, elapsed: Duration) -> Bench {
    let mut bench = Bench::new(algorithm, &["a", "b", "c"]);
    let since = bench.now;
    bench.server("a").slow_start = Duration::from_secs(10);
    bench.server("a").standing = Standing::Up { since: Some(since) };
    bench.now += elapsed;
    bench
}

#[test]
fn a_share_grows_with_time() {
    for algorithm in [Algorithm::RoundRobin, Algorithm::Source] {
        for (seconds, share) in [(1, 0.1), (2, 0.2), (5, 0.5), (9, 0.9), (10, 1.0), (99, 1.0)] {
            let mut bench = coming_back(algorithm, Duration::from_secs(seconds));
            let names = bench.passing(30_000);
            let count = names.matches('a').count() as f64 / 30_000.0;
            // What a source's own server leaves goes to the two others, a third of it back to it.
            let expected = match algorithm {
                Algorithm::Source => {
                    let kept = share / 3.0;
                    kept / (1.0 - (1.0 - share) / 3.0)
                }
                _ => share / (2.0 + share),
            };
            assert!(
                (count - expected).abs() < 0.02,
                "{algorithm:?} after {seconds} s: {count} for {expected}"
            );
        }
    }
}

#[test]
fn sessions_grow_with_time() {
    for algorithm in [Algorithm::LeastConnections, Algorithm::RandomOfTwo] {
        for (seconds, expected) in [(1, 48), (5, 200), (10, 333)] {
            let mut bench = coming_back(algorithm, Duration::from_secs(seconds));
            let names = bench.staying(1000);
            let count = names.matches('a').count();
            assert!(
                count.abs_diff(expected) < 40,
                "{algorithm:?} after {seconds} s: {count} for {expected}"
            );
        }
    }
}

#[test]
fn servers_that_come_back_together_share_alike() {
    for algorithm in ALGORITHMS {
        let mut bench = coming_back(algorithm, Duration::ZERO);
        for name in ["b", "c"] {
            let a = bench.settings.servers[0].clone();
            bench.server(name).slow_start = a.slow_start;
            bench.server(name).standing = a.standing;
        }
        let names = bench.staying(3000);
        for name in ["a", "b", "c"] {
            let count = names.matches(name).count();
            assert!(count.abs_diff(1000) < 150, "{algorithm:?}: {name} {count}");
        }
    }
}

#[test]
fn a_limit_grows_with_time() {
    for (seconds, expected) in [(0, 13), (1, 20), (5, 100), (10, 200)] {
        let mut bench = Bench::new(Algorithm::RoundRobin, &["a max=200"]);
        let since = bench.now;
        bench.server("a").slow_start = Duration::from_secs(10);
        bench.server("a").standing = Standing::Up { since: Some(since) };
        bench.now += Duration::from_secs(seconds);
        let names = bench.staying(250);
        assert_eq!(names.matches('a').count(), expected, "after {seconds} s");
        let is_slow = bench.pool().is_slow(bench.now);
        assert_eq!(is_slow, seconds < 10, "after {seconds} s");
    }
}

#[test]
fn a_server_that_never_failed_does_not_start_slowly() {
    let mut bench = Bench::new(Algorithm::RoundRobin, &["a", "b"]);
    bench.server("a").slow_start = Duration::from_secs(10);
    assert_eq!(bench.passing(4), "abab");
    assert!(!bench.pool().is_slow(bench.now));
}
