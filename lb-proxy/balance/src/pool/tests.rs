//! The rules of the choice, as tables; shares and races have files of their own.

mod property;
mod races;
mod shares;
mod slow_start;
mod source;

use super::*;

/// A point in time to count from.
#[expect(clippy::disallowed_methods, reason = "any moment will do")]
pub(crate) fn start() -> Instant {
    Instant::now()
}

/// An address that `random` decides.
fn address(random: u64) -> IpAddr {
    let [a, b, c, d, ..] = random.to_be_bytes();
    [a, b, c, d].into()
}

/// Numbers that a seed decides.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = mix(self.0);
        hash::below(self.0, bound)
    }

    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

/// A pool whose servers can be changed, and what it keeps.
pub(crate) struct Bench {
    pub(crate) registry: Registry,
    pub(crate) settings: Settings,
    pub(crate) now: Instant,
    pub(crate) random: u64,
}

impl Bench {
    /// A pool with servers written `name`, `name:weight`, then any of ` backup`, ` drain`, ` down`,
    /// ` maintenance`, ` max=N`.
    pub(crate) fn new(algorithm: Algorithm, servers: &[&str]) -> Self {
        let mut settings = Settings::new("pool");
        settings.algorithm = algorithm;
        settings.servers = servers.iter().map(|text| server(text)).collect();
        Self {
            registry: Registry::new(),
            settings,
            now: start(),
            random: 1,
        }
    }

    pub(crate) fn pool(&mut self) -> Arc<Pool> {
        self.registry.pool(self.settings.clone())
    }

    pub(crate) fn server(&mut self, name: &str) -> &mut ServerSettings {
        let mut servers = self.settings.servers.iter_mut();
        servers.find(|server| &*server.name == name).unwrap()
    }

    /// What is known of one more connection.
    pub(crate) fn hint(&mut self) -> Hint {
        self.random = mix(self.random);
        Hint {
            source: address(self.random),
            random: self.random,
        }
    }

    pub(crate) fn choose(&mut self, pool: &Pool, tried: &Tried) -> Choice {
        pool.choose(&self.hint(), tried, self.now)
    }

    /// Who is chosen for each of so many connections, which end at once.
    fn passing(&mut self, count: usize) -> String {
        let pool = self.pool();
        let each = (0..count).map(|_| name(&pool, &self.choose(&pool, &Tried::default())));
        each.collect()
    }

    /// Who is chosen for each of so many connections, which stay.
    fn staying(&mut self, count: usize) -> String {
        let pool = self.pool();
        let mut slots = Vec::new();
        let mut names = String::new();
        for _ in 0..count {
            let choice = self.choose(&pool, &Tried::default());
            names += &name(&pool, &choice);
            slots.push(choice);
        }
        names
    }
}

fn server(text: &str) -> ServerSettings {
    let mut words = text.split(' ');
    let first = words.next().unwrap();
    let (name, weight) = first.split_once(':').unwrap_or((first, "100"));
    let mut server = ServerSettings::new(name, "192.0.2.1:80".parse().unwrap());
    server.weight = weight.parse().unwrap();
    for word in words {
        match word.split_once('=') {
            Some(("max", max)) => server.max_connections = Some(max.parse().unwrap()),
            _ => match word {
                "backup" => server.backup = true,
                "drain" => server.eligibility = Eligibility::Drain,
                "down" => server.eligibility = Eligibility::Down,
                "maintenance" => server.eligibility = Eligibility::Maintenance,
                _ => panic!("what is {word}?"),
            },
        }
    }
    server
}

/// The server's name, `-` for nobody, `=` for full.
pub(crate) fn name(pool: &Pool, choice: &Choice) -> String {
    match choice {
        Choice::Take { index, slot } => {
            assert!(Arc::ptr_eq(slot.load(), &pool.servers[*index].load));
            pool.servers[*index].name.to_string()
        }
        Choice::Full => "=".into(),
        Choice::Nobody => "-".into(),
    }
}

const ALGORITHMS: [Algorithm; 4] = [
    Algorithm::RoundRobin,
    Algorithm::LeastConnections,
    Algorithm::RandomOfTwo,
    Algorithm::Source,
];

/// The letters of all servers chosen by any of many connections, with every algorithm the same.
fn check_group(servers: &[&str], change: impl Fn(&mut Settings), expected: &str) {
    for algorithm in ALGORITHMS {
        let mut bench = Bench::new(algorithm, servers);
        change(&mut bench.settings);
        let chosen: std::collections::BTreeSet<char> = bench.passing(200).chars().collect();
        let chosen: String = chosen.into_iter().collect();
        assert_eq!(chosen, expected, "{algorithm:?} among {servers:?}");
    }
}

#[test]
fn only_servers_that_may_be_are_chosen() {
    let as_is = |_: &mut Settings| {};
    check_group(&["a", "b", "c"], as_is, "abc");
    check_group(
        &["a", "b down", "c drain", "d maintenance", "e:0"],
        as_is,
        "a",
    );
    check_group(&["a down", "b drain", "c maintenance", "d:0"], as_is, "-");
    check_group(&[], as_is, "-");
}

#[test]
fn backup_servers_wait_until_nobody_else_is_up() {
    let as_is = |_: &mut Settings| {};
    check_group(&["a", "b backup"], as_is, "a");
    check_group(&["a down", "b backup", "c backup"], as_is, "b");
    check_group(&["a down", "b down backup", "c backup"], as_is, "c");
    check_group(&["a:0", "b backup"], as_is, "b");
    check_group(&["a drain", "b:0 backup", "c backup"], as_is, "c");
    let all = |settings: &mut Settings| settings.all_backups = true;
    check_group(&["a", "b backup", "c backup"], all, "a");
    check_group(&["a down", "b backup", "c backup"], all, "bc");
}

#[test]
fn with_fail_open_and_nobody_up_those_that_are_down_are_chosen() {
    let open = |settings: &mut Settings| settings.fail_open = true;
    check_group(&["a", "b down"], open, "a");
    check_group(&["a down", "b down"], open, "ab");
    check_group(
        &["a down", "b drain", "c maintenance", "d:0 down"],
        open,
        "a",
    );
    check_group(&["a down", "b backup"], open, "b");
    check_group(&["a down", "b down backup"], open, "a");
    check_group(&["a maintenance", "b down backup"], open, "b");
    check_group(&["a maintenance", "b drain"], open, "-");
}

#[test]
fn a_full_pool_is_told_from_an_empty_one() {
    for algorithm in ALGORITHMS {
        let mut bench = Bench::new(algorithm, &["a max=2", "b max=1", "c down", "d backup"]);
        let mut names: Vec<char> = bench.staying(6).chars().collect();
        names.sort_unstable();
        assert_eq!(String::from_iter(names), "===aab", "{algorithm:?}");
        // They ended with the choices.
        let pool = bench.pool();
        assert!(
            pool.servers
                .iter()
                .all(|server| server.load.sessions() == 0)
        );
        assert_eq!(pool.n_usable(), 2);

        let mut bench = Bench::new(algorithm, &["a down", "d backup max=1", "e backup max=1"]);
        assert_eq!(bench.staying(3), "d==", "{algorithm:?}");
        bench.settings.all_backups = true;
        let names = bench.staying(3);
        assert!(["de=", "ed="].contains(&&*names), "{algorithm:?}: {names}");
    }
}

#[test]
fn what_was_tried_is_left_out() {
    for algorithm in ALGORITHMS {
        let mut bench = Bench::new(algorithm, &["a", "b", "c max=1", "d backup", "e backup"]);
        let pool = bench.pool();
        let full = pool.servers[2].load.adopt();
        let mut tried = Tried::default();
        let mut names = String::new();
        for step in 0..2 {
            let choice = bench.choose(&pool, &tried);
            let Choice::Take { index, .. } = choice else {
                panic!("{algorithm:?} in step {step}: {choice:?}");
            };
            assert!(index < 2 && !tried.contains(&pool.servers[index]));
            tried.add(&pool.servers[index]);
        }
        // The one that is left has no room: that is worth waiting for.
        assert!(matches!(bench.choose(&pool, &tried), Choice::Full));
        drop(full);
        for _ in 0..4 {
            let choice = bench.choose(&pool, &tried);
            names += &name(&pool, &choice);
            if let Choice::Take { index, .. } = choice {
                tried.add(&pool.servers[index]);
            }
        }
        // Refused by all others, backup servers are better than nothing.
        assert_eq!(names, "cde-", "{algorithm:?}");
        tried.clear();
        assert!(matches!(
            bench.choose(&pool, &tried),
            Choice::Take { index: 0..=2, .. }
        ));
    }
}

#[test]
fn what_was_tried_outlives_a_change_of_servers() {
    let mut bench = Bench::new(Algorithm::RoundRobin, &["a", "b", "c"]);
    let mut tried = Tried::default();
    tried.add(&bench.pool().servers[1]);
    bench.settings.servers.remove(0);
    let pool = bench.pool();
    for _ in 0..4 {
        let choice = bench.choose(&pool, &tried);
        assert_eq!(name(&pool, &choice), "c");
    }
}

#[test]
fn of_many_that_were_tried_the_first_is_forgotten() {
    let names: Vec<String> = (0..20).map(|number| format!("s{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let pool = Bench::new(Algorithm::RoundRobin, &names).pool();
    let mut tried = Tried::default();
    for server in &pool.servers {
        tried.add(server);
        tried.add(server);
    }
    let remembered: Vec<bool> = pool
        .servers
        .iter()
        .map(|server| tried.contains(server))
        .collect();
    assert_eq!(remembered[..5], [false; 5]);
    assert_eq!(remembered[5..], [true; Tried::CAPACITY]);
}

#[test]
fn round_robin_takes_turns_by_weight() {
    for (servers, expected) in [
        (&["a", "b", "c"][..], "abcabcabc"),
        (&["a:5", "b:1", "c:1"], "aabacaaaabacaa"),
        (&["a:200", "b:100"], "abaaba"),
        (&["a:1"], "aaa"),
        (&["a", "b:0", "c down", "d"], "adadad"),
    ] {
        let mut bench = Bench::new(Algorithm::RoundRobin, servers);
        assert_eq!(bench.passing(expected.len()), expected);
    }
}

#[test]
fn round_robin_goes_on_where_the_last_snapshot_was() {
    let mut bench = Bench::new(Algorithm::RoundRobin, &["a", "b", "c"]);
    // A new snapshot for each: the first server must not get them all.
    let names: String = (0..6).map(|_| bench.passing(1)).collect();
    assert_eq!(names, "abcabc");
}

#[test]
fn round_robin_shares_out_the_turns_of_a_full_server() {
    let mut bench = Bench::new(Algorithm::RoundRobin, &["a max=1", "b", "c"]);
    let _held = bench.pool().servers[0].load.adopt();
    assert_eq!(bench.passing(6), "bcbcbc");
}

#[test]
fn least_connections_takes_the_least_busy_for_its_weight() {
    for (servers, expected) in [
        (&["a", "b", "c"][..], "abcabc"),
        (&["a:200", "b:100"], "abaabaaba"),
        (&["a:256", "b:1"], "abaaaaaa"),
        (&["a max=1", "b"], "abbbb"),
    ] {
        let mut bench = Bench::new(Algorithm::LeastConnections, servers);
        let names = bench.staying(expected.len());
        assert_eq!(names, expected, "{servers:?}");
    }
}

#[test]
fn least_connections_between_idle_servers_rotates() {
    let mut bench = Bench::new(Algorithm::LeastConnections, &["a", "b:200", "c"]);
    assert_eq!(bench.passing(6), "abcabc");
    let _busy = bench.pool().servers[1].load.adopt();
    assert_eq!(bench.passing(4), "acac");
}

#[test]
fn loads_last_as_long_as_somebody_uses_them() {
    let mut bench = Bench::new(Algorithm::RoundRobin, &["a", "b"]);
    let pool = bench.pool();
    let old = Arc::clone(&pool.servers[0].load);
    let session = old.adopt();
    drop((pool, old));
    // It is gone from the configuration and still has a session.
    bench.settings.servers.remove(0);
    let pool = bench.pool();
    bench.registry.sweep();
    assert_eq!(bench.registry.load("pool", "a").unwrap().sessions(), 1);
    assert_eq!(bench.registry.load("pool", "b").unwrap().sessions(), 0);

    // It comes back and finds it.
    bench.settings.servers.push(server("a"));
    assert_eq!(bench.pool().servers[1].load.sessions(), 1);
    bench.settings.servers.pop();

    drop(session);
    bench.registry.sweep();
    assert!(bench.registry.load("pool", "a").is_none());
    assert!(bench.registry.load("pool", "b").is_some());
    drop(pool);
    bench.registry.sweep();
    assert!(bench.registry.load("pool", "b").is_none());
}

#[test]
fn a_load_counts() {
    let mut bench = Bench::new(Algorithm::RoundRobin, &["a"]);
    bench.staying(5);
    bench.passing(2);
    let pool = bench.pool();
    let load = &pool.servers[0].load;
    assert_eq!(
        (load.sessions(), load.most_sessions(), load.total()),
        (0, 5, 7)
    );
}

#[test]
fn a_load_counts_no_more_than_it_may() {
    let pool = Bench::new(Algorithm::RoundRobin, &["a"]).pool();
    let load = &pool.servers[0].load;
    let first = load.reserve(Some(1));
    assert!(first.is_some());
    assert!(load.reserve(Some(1)).is_none());
    assert!(load.reserve_at(1, Some(1)).is_none());
    assert!(load.reserve_at(0, Some(9)).is_none());
    assert!(load.reserve_at(1, Some(2)).is_some());
    assert!(load.reserve_at(1, None).is_some());
    drop(first);
    assert!(load.reserve(Some(0)).is_none());
}

#[test]
fn each_server_is_explained() {
    let servers = [
        "a",
        "b:300",
        "c:0",
        "d down",
        "e drain",
        "f maintenance",
        "g backup",
        "h max=1",
    ];
    let mut bench = Bench::new(Algorithm::RoundRobin, &servers);
    let now = bench.now;
    bench.server("a").slow_start = Duration::from_secs(10);
    bench.server("a").eligibility = Eligibility::Up { since: Some(now) };
    bench.now += Duration::from_secs(5);
    let pool = bench.pool();
    let _full = pool.servers[7].load.adopt();
    check_explained(
        &pool,
        bench.now,
        &[
            "a: chosen for 12.3 %: slow start at 50 % of its weight, 6 s to go (0 sessions)",
            "b: chosen for 63.0 % (0 sessions)",
            "c: not chosen: its weight is 0 (0 sessions)",
            "d: not chosen: down (0 sessions)",
            "e: not chosen: drains (0 sessions)",
            "f: not chosen: in maintenance (0 sessions)",
            "g: not chosen: backup, and others are up (0 sessions)",
            "h: not chosen: as many sessions as it may have (1 of 1 sessions)",
        ],
    );

    let mut bench = Bench::new(Algorithm::RoundRobin, &["a down", "b backup", "c backup"]);
    let pool = bench.pool();
    check_explained(
        &pool,
        bench.now,
        &[
            "a: not chosen: down (0 sessions)",
            "b: backup, chosen for 100.0 %: no other server is up (0 sessions)",
            "c: not chosen: backup behind another one that is up (0 sessions)",
        ],
    );

    let mut bench = Bench::new(Algorithm::RoundRobin, &["a down", "b drain"]);
    bench.settings.fail_open = true;
    let pool = bench.pool();
    check_explained(
        &pool,
        bench.now,
        &[
            "a: down, chosen for 100.0 % all the same: no server is up (fail-open) (0 sessions)",
            "b: not chosen: drains (0 sessions)",
        ],
    );
}

fn check_explained(pool: &Pool, now: Instant, expected: &[&str]) {
    let lines: Vec<String> = pool.explain(now).iter().map(ToString::to_string).collect();
    assert_eq!(lines, expected);
}
