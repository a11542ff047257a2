use std::collections::BTreeMap;

use dns_wire::{Rcode, Section, Type};

use super::*;
use crate::testing::{Random, answer, question};

const DAY: Duration = Duration::from_secs(86_400);

fn options(entries: usize, octets: usize) -> CacheOptions {
    let capacity = Capacity { entries, octets };
    CacheOptions {
        positive: capacity,
        negative: capacity,
        stale: DAY,
    }
}

fn cache() -> Cache {
    Cache::new(&options(10_000, 10 << 20), Seed(1))
}

fn key(name: &str) -> Key {
    Key::new(Seed(1), &question(name, Type::A), Variant::default())
}

fn address(name: &str, ttl: u32) -> Message {
    let row = (Section::Answer, name, Type::A, ttl, "192.0.2.1");
    answer(name, Type::A, Rcode::NOERROR, &[row]).message
}

fn store(cache: &Cache, name: &str, seconds: u64, at: u64) {
    let keep = Keep {
        pool: Pool::Positive,
        lifetime: Duration::from_secs(seconds),
    };
    cache.store(
        &key(name),
        address(name, 60),
        keep,
        Instant::from_millis(at),
    );
}

fn state(cache: &Cache, name: &str, at: u64) -> Option<State> {
    cache.look_up(&key(name), Instant::from_millis(at), |found| found.state)
}

#[test]
fn an_answer_is_fresh_then_expired_then_gone() {
    let cache = cache();
    store(&cache, "a.example", 5, 1000);
    for (at, expected) in [
        (1000, Some(State::Fresh)),
        (2000, Some(State::Fresh)),
        (5_999, Some(State::Ending)),
        (5_999, Some(State::Fresh)),
        (6_000, Some(State::Expired)),
        (86_405_999, Some(State::Expired)),
        (86_406_000, None),
    ] {
        assert_eq!(state(&cache, "a.example", at), expected, "at {at}");
    }
    assert_eq!(state(&cache, "b.example", 1000), None);
}

#[test]
fn only_names_in_demand_are_refreshed_ahead_and_only_once() {
    let cache = cache();
    store(&cache, "cold.example", 100, 0);
    assert_eq!(state(&cache, "cold.example", 95_000), Some(State::Fresh));
    store(&cache, "hot.example", 100, 0);
    for at in [1_000, 2_000, 89_000] {
        assert_eq!(state(&cache, "hot.example", at), Some(State::Fresh));
    }
    assert_eq!(state(&cache, "hot.example", 90_000), Some(State::Ending));
    assert_eq!(state(&cache, "hot.example", 90_001), Some(State::Fresh));
    // A second of life has no last part worth refreshing in.
    store(&cache, "brief.example", 1, 0);
    for at in [100, 200, 300, 900] {
        assert_eq!(state(&cache, "brief.example", at), Some(State::Fresh));
    }
}

#[test]
fn age_counts_whole_seconds() {
    let cache = cache();
    store(&cache, "a.example", 60, 500);
    let age = |at| cache.look_up(&key("a.example"), Instant::from_millis(at), |f| f.age);
    assert_eq!(
        (age(500), age(1499), age(1500), age(10_600)),
        (Some(0), Some(0), Some(1), Some(10))
    );
}

#[test]
fn a_failure_is_kept_briefly_and_never_in_place_of_a_stale_answer() {
    let cache = cache();
    let second = Duration::from_secs(1);
    let at = Instant::from_millis;
    let failure = || Message::empty(&question("a.example", Type::A), Rcode::SERVFAIL);
    cache.note_failure(&key("a.example"), failure(), second, at(0));
    assert_eq!(state(&cache, "a.example", 999), Some(State::Failed));
    assert_eq!(state(&cache, "a.example", 1000), None);

    store(&cache, "a.example", 5, 1000);
    cache.note_failure(&key("a.example"), failure(), second, at(7000));
    assert_eq!(state(&cache, "a.example", 7500), Some(State::Held));
    assert_eq!(state(&cache, "a.example", 8000), Some(State::Expired));
    store(&cache, "a.example", 5, 8000);
    assert_eq!(state(&cache, "a.example", 8001), Some(State::Fresh));
}

fn outlasts(cache: &Cache, name: &str, most: u64, at: u64) -> bool {
    let hold = Duration::from_millis(500);
    let most = Duration::from_millis(most);
    cache.outlast(&key(name), most, hold, Instant::from_millis(at))
}

#[test]
fn the_last_good_answer_outlasts_denials_for_a_while() {
    let cache = cache();
    let name = "a.example";
    assert!(!outlasts(&cache, name, 10_000, 0), "there is none");
    store(&cache, name, 5, 0);
    assert!(outlasts(&cache, name, 10_000, 1_000));
    assert_eq!(
        state(&cache, name, 1_100),
        Some(State::Fresh),
        "its TTL is not over"
    );
    assert_eq!(
        state(&cache, name, 5_100),
        Some(State::Expired),
        "it is expired again"
    );
    assert!(outlasts(&cache, name, 10_000, 5_100));
    assert_eq!(state(&cache, name, 5_599), Some(State::Held));
    assert_eq!(state(&cache, name, 5_600), Some(State::Expired));
    let denied = |at| cache.peek(&key(name), Instant::from_millis(at), |entry| entry.denied);
    assert_eq!(denied(5_600), Some(Some(4)));
    // It is held no longer than that; then the denial counts.
    assert!(outlasts(&cache, name, 10_000, 10_900));
    assert_eq!(state(&cache, name, 10_999), Some(State::Held));
    assert_eq!(state(&cache, name, 11_000), Some(State::Expired));
    assert!(!outlasts(&cache, name, 10_000, 11_000));
    // A good answer ends that.
    store(&cache, name, 5, 11_000);
    assert_eq!(denied(11_000), Some(None));
    assert!(outlasts(&cache, name, 10_000, 20_000));
    // A denial and a failure are no good answers.
    let keep = Keep {
        pool: Pool::Negative,
        lifetime: DAY,
    };
    let denial = Message::empty(&question("b.example", Type::A), Rcode::NXDOMAIN).unwrap();
    cache.store(&key("b.example"), denial, keep, Instant::START);
    assert!(!outlasts(&cache, "b.example", 10_000, 0));
    for shard in &cache.shards {
        lock(shard).check_invariants();
    }
}

#[test]
fn a_changed_zone_goes_with_the_aliases_into_it() {
    let cache = cache();
    for name in ["example", "a.example", "b.a.example", "xexample", "other"] {
        store(&cache, name, 60, 0);
    }
    let rows = [
        (Section::Answer, "alias.other", Type::CNAME, 60, "a.EXAMPLE"),
        (Section::Answer, "a.EXAMPLE", Type::A, 60, "192.0.2.1"),
    ];
    let message = answer("alias.other", Type::A, Rcode::NOERROR, &rows).message;
    let keep = Keep {
        pool: Pool::Positive,
        lifetime: DAY,
    };
    cache.store(&key("alias.other"), message, keep, Instant::START);
    let flushes = cache.n_flushes();
    assert_eq!(cache.flush_zone(&Name::parse("EXAMPLE").unwrap()), 4);
    assert!(cache.n_flushes() > flushes);
    for (name, is_kept) in [
        ("a.example", false),
        ("alias.other", false),
        ("xexample", true),
        ("other", true),
    ] {
        assert_eq!(state(&cache, name, 1).is_some(), is_kept, "{name}");
    }
    for shard in &cache.shards {
        lock(shard).check_invariants();
    }
}

#[test]
fn what_a_sick_server_has_said_is_forgotten() {
    let cache = cache();
    let at = Instant::from_millis;
    let keep = Keep {
        pool: Pool::Negative,
        lifetime: DAY,
    };
    let deny = |name: &str, time| {
        let denial = Message::empty(&question(name, Type::A), Rcode::NXDOMAIN).unwrap();
        cache.store(&key(name), denial, keep, at(time));
    };
    deny("before.example", 999);
    deny("while.example", 1_000);
    deny("while.other", 1_000);
    store(&cache, "good.example", 600, 1_500);
    store(&cache, "stale.example", 1, 0);
    let failure = Message::empty(&question("x.example", Type::A), Rcode::SERVFAIL);
    let recheck = Duration::from_secs(5);
    cache.note_failure(&key("x.example"), failure, recheck, at(1_200));
    cache.note_failure(&key("stale.example"), None, recheck, at(1_300));
    assert_eq!(state(&cache, "stale.example", 1_400), Some(State::Held));
    let is_theirs = |message: &Message| {
        let (name, _) = Name::from_wire(message.question()).unwrap();
        name.is_within(&Name::parse("example").unwrap())
    };
    assert_eq!(cache.forget_learned(at(1_000), is_theirs), 2);
    for (name, expected) in [
        ("before.example", Some(State::Fresh)),
        ("while.example", None),
        ("x.example", None),
        ("while.other", Some(State::Fresh)),
        ("good.example", Some(State::Fresh)),
        ("stale.example", Some(State::Expired)),
    ] {
        assert_eq!(state(&cache, name, 1_600), expected, "{name}");
    }
    for shard in &cache.shards {
        lock(shard).check_invariants();
    }
}

#[test]
fn variants_are_kept_apart() {
    let cache = cache();
    store(&cache, "a.example", 60, 0);
    for (dnssec_ok, checking_disabled) in [(true, false), (false, true), (true, true)] {
        let variant = Variant::new(dnssec_ok, checking_disabled);
        let key = Key::new(Seed(1), &question("A.example", Type::A), variant);
        assert_eq!(
            cache.look_up(&key, Instant::START, |found| found.state),
            None
        );
    }
}

#[test]
fn flush_takes_a_name_or_a_subtree() {
    let cache = cache();
    for name in ["example", "a.example", "b.A.example", "xa.example", "other"] {
        store(&cache, name, 60, 0);
    }
    let name = Name::parse("A.EXAMPLE").unwrap();
    assert_eq!(cache.flush(&name, Reach::Name), 1);
    store(&cache, "a.example", 60, 0);
    assert_eq!(cache.flush(&name, Reach::Subtree), 2);
    assert_eq!(state(&cache, "xa.example", 0), Some(State::Fresh));
    assert_eq!(cache.flush(&Name::root(), Reach::Subtree), 3);
    assert_eq!(cache.usage().entries, [0, 0]);
    assert_eq!(cache.usage().octets, [0, 0]);
}

#[test]
fn denials_cannot_push_answers_out() {
    let cache = Cache::new(&options(100, 1 << 20), Seed(1));
    for i in 0..100 {
        store(&cache, &format!("n{i}.example"), 60, 0);
    }
    for i in 0..10_000 {
        let name = format!("random-{i}.example");
        let soa = (Section::Authority, "example", Type::SOA, 60, "60");
        let denial = answer(&name, Type::A, Rcode::NXDOMAIN, &[soa]);
        let keep = Keep {
            pool: denial.pool,
            lifetime: Duration::from_secs(30),
        };
        cache.store(&key(&name), denial.message, keep, Instant::START);
    }
    let kept = (0..100).filter(|i| state(&cache, &format!("n{i}.example"), 0).is_some());
    assert_eq!(kept.count(), 100);
    assert_eq!(cache.usage().entries, [100, 100]);
    assert_eq!(cache.usage().evictions, [0, 9900]);
}

#[test]
fn names_in_demand_outlive_a_scan() {
    let cache = Cache::new(&options(120, 1 << 20), Seed(1));
    for i in 0..20 {
        store(&cache, &format!("hot{i}.example"), 60, 0);
    }
    for i in 0..5_000 {
        store(&cache, &format!("scan{i}.example"), 60, 0);
        state(&cache, &format!("hot{}.example", i % 20), 0);
    }
    let kept = (0..20).filter(|i| state(&cache, &format!("hot{i}.example"), 0).is_some());
    assert_eq!(kept.count(), 20);
}

#[test]
fn a_message_larger_than_the_pool_is_not_kept() {
    let cache = Cache::new(&options(100, 600), Seed(1));
    let text = "x".repeat(1000);
    let row = (Section::Answer, "a.example", Type::TXT, 60, text.as_str());
    let large = answer("a.example", Type::TXT, Rcode::NOERROR, &[row]).message;
    let keep = Keep {
        pool: Pool::Positive,
        lifetime: DAY,
    };
    let key = Key::new(
        Seed(1),
        &question("a.example", Type::TXT),
        Variant::default(),
    );
    cache.store(&key, large, keep, Instant::START);
    assert_eq!(cache.usage(), Usage::default());
}

#[test]
fn many_shards_share_the_bounds() {
    let cache = Cache::new(&options(100_000, 64 << 20), Seed(1));
    assert_eq!(cache.shards.len(), MAX_SHARDS);
    for i in 0..20_000 {
        store(&cache, &format!("n{i}.example"), 60, 0);
    }
    assert_eq!(cache.usage().entries, [20_000, 0]);
    let fullest = cache
        .shards
        .iter()
        .map(|s| lock(s).usage().entries[0])
        .max();
    assert!(fullest < Some(20_000 / MAX_SHARDS * 2), "{fullest:?}");
}

#[test]
fn a_pool_of_nothing_keeps_nothing_and_costs_the_other_no_shards() {
    let mut options = options(100_000, 64 << 20);
    options.negative.entries = 0;
    let cache = Cache::new(&options, Seed(1));
    assert_eq!(cache.shards.len(), MAX_SHARDS);
    let keep = Keep {
        pool: Pool::Negative,
        lifetime: DAY,
    };
    cache.store(
        &key("a.example"),
        address("a.example", 60),
        keep,
        Instant::START,
    );
    assert_eq!(cache.usage(), Usage::default());
}

//----------- Model -----------------------------------------------------------

/// The same rules, spelt out with no regard to cost.
#[derive(Default)]
struct Model {
    entries: BTreeMap<u64, ModelEntry>,
    /// Names by pool, oldest first.
    order: [Vec<u64>; 2],
    hand: [Option<u64>; 2],
}

struct ModelEntry {
    pool: Pool,
    failure: bool,
    stored: u64,
    expires: u64,
    held: u64,
    used: bool,
    uses: u32,
    refresh_asked: bool,
    octets: usize,
}

impl ModelEntry {
    fn gone(&self) -> u64 {
        self.expires + if self.failure { 0 } else { 86_400_000 }
    }
}

impl Model {
    fn state(&mut self, name: u64, now: u64) -> Option<State> {
        let entry = self.entries.get_mut(&name)?;
        if now >= entry.gone() {
            return None;
        }
        let life = entry.expires - entry.stored;
        let state = if now >= entry.expires {
            if now < entry.held {
                State::Held
            } else {
                State::Expired
            }
        } else if entry.failure {
            State::Failed
        } else {
            let ending = entry.expires - now <= (life / 10).max(1000) && life > 2000;
            if ending && entry.uses >= 2 && !entry.refresh_asked {
                entry.refresh_asked = true;
                State::Ending
            } else {
                State::Fresh
            }
        };
        entry.used = true;
        entry.uses += 1;
        Some(state)
    }

    fn remove(&mut self, name: u64) {
        let Some(entry) = self.entries.remove(&name) else {
            return;
        };
        let pool = usize::from(entry.pool == Pool::Negative);
        let at = self.order[pool].iter().position(|n| *n == name).unwrap();
        if self.hand[pool] == Some(name) {
            self.hand[pool] = self.order[pool].get(at + 1).copied();
        }
        self.order[pool].remove(at);
    }

    fn store(&mut self, name: u64, entry: ModelEntry, capacity: Capacity, now: u64) {
        self.remove(name);
        let pool = usize::from(entry.pool == Pool::Negative);
        loop {
            let octets: usize = self.order[pool]
                .iter()
                .map(|n| self.entries[n].octets)
                .sum();
            if self.order[pool].len() < capacity.entries && octets + entry.octets <= capacity.octets
            {
                break;
            }
            let mut at = self.hand[pool].map_or(0, |name| {
                self.order[pool].iter().position(|n| *n == name).unwrap()
            });
            let victim = loop {
                let name = self.order[pool][at];
                let candidate = self.entries.get_mut(&name).unwrap();
                if !candidate.used || now >= candidate.gone() {
                    break name;
                }
                candidate.used = false;
                at = (at + 1) % self.order[pool].len();
            };
            self.hand[pool] = Some(victim);
            self.remove(victim);
        }
        self.order[pool].push(name);
        self.entries.insert(name, entry);
    }
}

/// The cache and its model, driven side by side.
struct Pair {
    cache: Cache,
    model: Model,
    capacity: Capacity,
    now: u64,
}

impl Pair {
    fn instant(&self) -> Instant {
        Instant::from_millis(self.now)
    }

    fn entry(&self, pool: Pool, failure: bool, expires: u64, message: &Message) -> ModelEntry {
        ModelEntry {
            pool,
            failure,
            stored: self.now,
            expires,
            held: 0,
            used: false,
            uses: 0,
            refresh_asked: false,
            octets: shard::OVERHEAD + message.heap_size(),
        }
    }

    fn look_up(&mut self, n: u64, context: &str) {
        let found = self
            .cache
            .look_up(&key(&name(n)), self.instant(), |f| (f.state, f.age));
        let age = self
            .model
            .entries
            .get(&n)
            .map(|e| (self.now - e.stored) / 1000);
        let expected = self.model.state(n, self.now);
        assert_eq!(found.map(|f| f.0), expected, "{context}");
        if let Some((_, found_age)) = found {
            assert_eq!(Some(u64::from(found_age)), age, "{context}");
        }
    }

    fn store(&mut self, n: u64, pool: Pool, seconds: u64) {
        let lifetime = Duration::from_secs(seconds);
        let message = address(&name(n), 60);
        let entry = self.entry(pool, false, self.now + seconds * 1000, &message);
        let keep = Keep { pool, lifetime };
        self.cache
            .store(&key(&name(n)), message, keep, self.instant());
        self.model.store(n, entry, self.capacity, self.now);
    }

    fn fail(&mut self, n: u64) {
        let key = key(&name(n));
        let failure = Message::empty(key.question(), Rcode::SERVFAIL).unwrap();
        let entry = self.entry(Pool::Negative, true, self.now + 1000, &failure);
        let recheck = Duration::from_secs(1);
        self.cache
            .note_failure(&key, Some(failure), recheck, self.instant());
        match self.model.entries.get_mut(&n) {
            Some(known) if !known.failure && self.now < known.gone() => {
                known.held = self.now + 1000;
            }
            _ => self.model.store(n, entry, self.capacity, self.now),
        }
    }

    fn check(&self, context: &str) {
        for shard in &self.cache.shards {
            lock(shard).check_invariants();
        }
        let usage = self.cache.usage();
        let within = |of: [usize; 2], bound| of.iter().all(|n| *n <= bound);
        assert!(within(usage.entries, self.capacity.entries), "{context}");
        assert!(within(usage.octets, self.capacity.octets), "{context}");
        let n_entries: usize = usage.entries.iter().sum();
        assert_eq!(n_entries, self.model.entries.len(), "{context}");
    }
}

fn name(n: u64) -> String {
    format!("n{n}.example")
}

/// One seeded run of the cache beside its model.
fn run(seed: u64) {
    let mut random = Random(seed);
    let capacity = Capacity {
        entries: 40,
        octets: 12_000,
    };
    let mut pair = Pair {
        cache: Cache::new(&options(capacity.entries, capacity.octets), Seed(1)),
        model: Model::default(),
        capacity,
        now: 0,
    };
    for step in 0..2_000 {
        let leap = if random.chance(1) { 50_000 } else { 1 };
        pair.now += random.below(2_000) * leap;
        let range = if random.chance(50) { 20 } else { 200 };
        let n = random.below(range);
        let context = format!("seed {seed} step {step} name {n} at {}", pair.now);
        match random.below(10) {
            0..=5 => pair.look_up(n, &context),
            6 => pair.store(n, Pool::Negative, 1 + random.below(300)),
            7..=8 => pair.store(n, Pool::Positive, 1 + random.below(300)),
            _ => pair.fail(n),
        }
        pair.check(&context);
    }
}

#[test]
fn the_cache_and_a_naive_one_agree_under_any_load() {
    for seed in 0..40 {
        run(seed);
    }
}
