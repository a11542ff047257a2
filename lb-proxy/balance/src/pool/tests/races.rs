//! What holds when many threads choose at once.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use super::*;

const N_THREADS: u64 = 8;

/// Runs `body` on many threads at once, each with its own number.
fn on_many_threads(body: impl Fn(u64) + Sync) {
    thread::scope(|scope| {
        for number in 0..N_THREADS {
            let body = &body;
            scope.spawn(move || body(number));
        }
    });
}

fn hint(random: u64) -> Hint {
    Hint {
        source: address(random),
        random,
    }
}

#[test]
fn a_limit_holds() {
    for algorithm in ALGORITHMS {
        let servers = ["a max=1", "b max=2", "c max=3"];
        let mut bench = Bench::new(algorithm, &servers);
        let now = bench.now;
        let pool = bench.pool();
        let open: Vec<AtomicU32> = (0..3).map(|_| AtomicU32::new(0)).collect();
        on_many_threads(|number| {
            let mut random = number + 1;
            for _ in 0..5000 {
                random = mix(random);
                let choice = pool.choose(&hint(random), &Tried::default(), now);
                let Choice::Take { index, slot } = choice else {
                    continue;
                };
                let limit = pool.servers[index].max_connections.unwrap();
                assert!(open[index].fetch_add(1, Ordering::SeqCst) < limit);
                if random & 3 == 0 {
                    thread::yield_now();
                }
                open[index].fetch_sub(1, Ordering::SeqCst);
                drop(slot);
            }
        });
        for server in &pool.servers {
            assert_eq!(server.load.sessions(), 0);
            assert!(server.load.most_sessions() <= server.max_connections.unwrap());
        }
    }
}

#[test]
fn round_robin_misses_nobody() {
    let mut bench = Bench::new(Algorithm::RoundRobin, &["a", "b", "c", "d:200"]);
    let now = bench.now;
    let pool = bench.pool();
    on_many_threads(|number| {
        for step in 0..5000 {
            let choice = pool.choose(&hint((number << 32) | step), &Tried::default(), now);
            assert!(matches!(choice, Choice::Take { .. }));
        }
    });
    let totals: Vec<u64> = pool
        .servers
        .iter()
        .map(|server| server.load.total())
        .collect();
    // Exact but for the turns at which eight others were faster in a row.
    for (total, expected) in totals.iter().zip([8000_u64, 8000, 8000, 16_000]) {
        assert!(total.abs_diff(expected) <= 80, "{totals:?}");
    }
}

#[test]
fn least_connections_stays_level() {
    let mut bench = Bench::new(Algorithm::LeastConnections, &["a", "b", "c", "d", "e"]);
    let now = bench.now;
    let pool = bench.pool();
    let slots = Mutex::new(Vec::new());
    on_many_threads(|number| {
        let mut own = Vec::new();
        for step in 0..500 {
            own.push(pool.choose(&hint((number << 32) | step), &Tried::default(), now));
        }
        slots.lock().unwrap().extend(own);
    });
    let sessions: Vec<u32> = pool
        .servers
        .iter()
        .map(|server| server.load.sessions())
        .collect();
    assert_eq!(slots.lock().unwrap().len(), 4000);
    assert_eq!(sessions.iter().sum::<u32>(), 4000);
    assert!(
        sessions.iter().all(|count| count.abs_diff(800) <= 4),
        "{sessions:?}"
    );
}
