//! Whatever happens to a pool, its rules hold.

use super::*;

fn random_server(numbers: &mut Numbers, number: usize, now: Instant) -> ServerSettings {
    let mut server = server(&format!("s{number}"));
    change(numbers, &mut server, now);
    server
}

fn change(numbers: &mut Numbers, server: &mut ServerSettings, now: Instant) {
    server.weight = [0, 1, 1, 2, 100, 100, 256][numbers.below(7)];
    server.backup = numbers.one_in(4);
    server.max_connections = [None, Some(1), Some(3)][numbers.below(3)];
    server.slow_start = [0, 5, 10].map(Duration::from_secs)[numbers.below(3)];
    server.standing = match numbers.below(8) {
        0 => Standing::Drain,
        1 => Standing::Maintenance,
        2 | 3 => Standing::Down,
        4 => Standing::Up { since: Some(now) },
        _ => Standing::Up { since: None },
    };
}

/// The servers a choice must come from: the rules again, in the plainest way.
fn group(pool: &Pool, tried: &Tried) -> Vec<usize> {
    let some_up = pool
        .servers
        .iter()
        .any(|server| server.standing.is_up() && server.weight > 0);
    for backup in [false, true] {
        let mut group: Vec<usize> = (0..pool.servers.len())
            .filter(|index| {
                let server = &pool.servers[*index];
                let standing = server.standing.is_up()
                    || pool.fail_open && !some_up && server.standing == Standing::Down;
                standing && server.weight > 0 && server.backup == backup && !tried.contains(server)
            })
            .collect();
        if backup && !pool.all_backups {
            group.truncate(1);
        }
        if !group.is_empty() {
            return group;
        }
    }
    Vec::new()
}

fn check(pool: &Pool, tried: &Tried, choice: &Choice, before: &[u32], now: Instant) {
    let group = group(pool, tried);
    let has_room = |index: &usize| {
        let limit = pool.servers[*index].limit(now);
        limit.is_none_or(|limit| before[*index] < limit)
    };
    match choice {
        Choice::Take { index, .. } => {
            assert!(group.contains(index), "{index} is not in {group:?}");
            assert!(has_room(index), "{index} has no room");
            assert_eq!(pool.servers[*index].load.sessions(), before[*index] + 1);
        }
        Choice::Full => {
            assert!(!group.is_empty(), "nobody may be chosen");
            assert!(!group.iter().any(has_room), "there is room in {group:?}");
        }
        Choice::Nobody => assert!(group.is_empty(), "{group:?}"),
    }
}

#[test]
fn every_choice_follows_the_rules() {
    for seed in 0..80 {
        let mut numbers = Numbers(seed);
        let algorithm = ALGORITHMS[numbers.below(4)];
        let mut bench = Bench::new(algorithm, &[]);
        bench.settings.fail_open = numbers.one_in(2);
        bench.settings.all_backups = numbers.one_in(2);
        for number in 0..numbers.below(8) {
            let server = random_server(&mut numbers, number, bench.now);
            bench.settings.servers.push(server);
        }
        let mut pool = bench.pool();
        let mut sessions: Vec<Slot> = Vec::new();
        let mut tried = Tried::default();
        for step in 0..200 {
            match numbers.below(10) {
                0 if !bench.settings.servers.is_empty() => {
                    let at = numbers.below(bench.settings.servers.len());
                    let now = bench.now;
                    change(&mut numbers, &mut bench.settings.servers[at], now);
                    pool = bench.pool();
                }
                1 if !sessions.is_empty() => {
                    let at = numbers.below(sessions.len());
                    drop(sessions.swap_remove(at));
                }
                2 if !pool.servers.is_empty() => {
                    let at = numbers.below(pool.servers.len());
                    tried.add(&pool.servers[at]);
                }
                3 => tried.clear(),
                4 => bench.now += Duration::from_millis(17) * [0, 1, 10, 100][numbers.below(4)],
                _ => {
                    let before: Vec<u32> = pool
                        .servers
                        .iter()
                        .map(|server| server.load.sessions())
                        .collect();
                    let now = bench.now;
                    let choice = bench.choose(&pool, &tried);
                    let held = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                        check(&pool, &tried, &choice, &before, now);
                    }));
                    assert!(held.is_ok(), "seed {seed} step {step}, {algorithm:?}");
                    if let Choice::Take { slot, .. } = choice {
                        sessions.push(slot);
                    }
                }
            }
        }
        let counted: u32 = pool
            .servers
            .iter()
            .map(|server| server.load.sessions())
            .sum();
        assert_eq!(counted as usize, sessions.len(), "seed {seed}");
    }
}
