//! Crashes, by seed: a store on a disk that forgets, killed and cut from power at any operation,
//! against a model of what was acknowledged. What no manifest needs is swept meanwhile, and a peer
//! sends content and records. In some lives the disk is remounted read-only. The wall clock jumps by days, at any step and
//! between two lives.
//!
//! `SIM_SEED=17 cargo test -p registry-svc simulation` runs one seed.

mod among;
mod clients;
mod verify;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use oci::digest::{Algorithm, Digest};
use oci::reference::{RepositoryName, Tag};
use registry_facts::name::UploadId;

use self::among::Peer;
use self::clients::{blob, body};
use super::{IndexKind, Settings, Store, StoreError};
use crate::disk::faulty::{Chance, End, Faults, FaultyDisk, Lie};
use crate::journal::writer::{SteadyClock, WallClock};

/// Seeds of a run of the suite.
const SEEDS: u64 = 40;

/// Lives of each: all but the last end in a crash.
const LIVES: u64 = 7;

/// Steps of a life, if nothing ends it.
const STEPS: u64 = 60;

/// How long the sweep leaves alone what was written, and what is in the trash: in milliseconds, and a
/// few steps.
const GRACE: u64 = 20_000;

/// How long the process leaves alone what somebody was told is there.
const LEASE: u64 = 3 * GRACE;

/// How much of the time between two lives counts for ages at most, in milliseconds: the grace is longer.
const BETWEEN: u64 = GRACE / 4;

/// How long a step takes at most.
const STEP: u64 = 5_000;

/// Steps in which the wall clock jumps, of a thousand; and starts before which it has.
const JUMPS: u64 = 40;
const JUMPS_BETWEEN: u64 = 300;

/// How far it jumps, in milliseconds: by a time source that is wrong, and by a clock that has lost its time.
const FAR: [i64; 4] = [-5 * DAY, -DAY, DAY, 5 * DAY];

/// A day, in milliseconds.
const DAY: i64 = 24 * 3_600_000;

/// The clocks of each thread here: a store is given them as functions.
static WALL: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];
static STEADY: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];

/// The clocks of a store.
#[derive(Clone, Copy)]
struct Clocks {
    thread: usize,
    wall: WallClock,
    steady: SteadyClock,
}

impl Clocks {
    fn of<const THREAD: usize>() -> Self {
        Self {
            thread: THREAD,
            wall: || WALL[THREAD].load(Ordering::Relaxed),
            steady: || STEADY[THREAD].load(Ordering::Relaxed),
        }
    }

    fn set(self, wall: u64, steady: u64) {
        WALL[self.thread].store(wall, Ordering::Relaxed);
        STEADY[self.thread].store(steady, Ordering::Relaxed);
    }
}

#[test]
fn nothing_acknowledged_is_lost_in_any_crash() {
    let seeds = match std::env::var("SIM_SEED") {
        Ok(seed) => seed.parse().map(|seed| seed..seed + 1).unwrap(),
        Err(_) => 0..SEEDS,
    };
    // This is the longest test of the crate, and nothing ties one seed to another: two threads share them.
    let (even, odd): (Vec<u64>, Vec<u64>) = seeds.clone().partition(|seed| seed % 2 == 0);
    let totals = std::thread::scope(|scope| {
        let other = scope.spawn(|| run_all(&odd, Clocks::of::<2>()));
        let mut totals = run_all(&even, Clocks::of::<0>());
        match other.join() {
            Ok(others) => totals.add(&others),
            Err(panic) => std::panic::resume_unwind(panic),
        }
        totals
    });
    if seeds.end - seeds.start == SEEDS {
        println!("{totals:?}");
        assert!(totals.n_crashes >= 240, "{totals:?}");
        assert!(totals.n_in_the_middle >= 200, "{totals:?}");
        assert!(totals.n_acknowledged >= 2000, "{totals:?}");
        assert!(
            totals.n_refused >= 100 && totals.n_resumed >= 5,
            "{totals:?}"
        );
        assert!(
            totals.n_trashed >= 200 && totals.n_deleted >= 50 && totals.n_back >= 20,
            "{totals:?}"
        );
        assert!(totals.n_applied >= 200, "{totals:?}");
        assert!(
            totals.n_remounts >= 10 && totals.n_jumps >= 200,
            "{totals:?}"
        );
    }
}

fn run_all(seeds: &[u64], clocks: Clocks) -> Totals {
    let mut totals = Totals::default();
    for seed in seeds {
        Run::new(*seed, clocks).lives(&mut totals);
    }
    totals
}

#[test]
fn a_disk_that_only_says_it_syncs_is_found_out() {
    for lie in [Lie::Files, Lie::Directories] {
        let is_found_out = (0..20).any(|seed| {
            let mut run = Run::new(seed, Clocks::of::<1>());
            run.lie = Some(lie);
            let lives = || run.lives(&mut Totals::default());
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(lives)).is_err()
        });
        assert!(is_found_out, "{lie:?}");
    }
}

#[derive(Debug, Default)]
struct Totals {
    n_crashes: u64,
    /// Crashes at a chosen operation of the disk.
    n_in_the_middle: u64,
    n_acknowledged: u64,
    n_refused: u64,
    n_resumed: u64,
    /// What sweeps moved to the trash, and what they deleted.
    n_trashed: u64,
    n_deleted: u64,
    /// What was asked for in the trash.
    n_back: u64,
    /// Records of the peer.
    n_applied: u64,
    /// Lives whose disk became read-only.
    n_remounts: u64,
    /// Jumps of the wall clock.
    n_jumps: u64,
}

impl Totals {
    fn add(&mut self, other: &Self) {
        for (mine, others) in [
            (&mut self.n_crashes, other.n_crashes),
            (&mut self.n_in_the_middle, other.n_in_the_middle),
            (&mut self.n_acknowledged, other.n_acknowledged),
            (&mut self.n_refused, other.n_refused),
            (&mut self.n_resumed, other.n_resumed),
            (&mut self.n_trashed, other.n_trashed),
            (&mut self.n_deleted, other.n_deleted),
            (&mut self.n_back, other.n_back),
            (&mut self.n_applied, other.n_applied),
            (&mut self.n_remounts, other.n_remounts),
            (&mut self.n_jumps, other.n_jumps),
        ] {
            *mine += others;
        }
    }
}

/// What a key may be: one value when it is known, several when an operation on it was refused.
type Possible<K, V> = BTreeMap<K, BTreeSet<V>>;

#[derive(Default)]
struct Model {
    blobs: Possible<(RepositoryName, Digest), bool>,
    manifests: Possible<(RepositoryName, Digest), bool>,
    tags: Possible<(RepositoryName, Tag), Option<Digest>>,
    /// Octets of everything that was ever pushed.
    content: BTreeMap<Digest, Bytes>,
    /// What each manifest refers to.
    closures: BTreeMap<Digest, Vec<Digest>>,
    /// The end of the time in which content that was written or asked for stays, with or without references and under any
    /// jump of the wall clock.
    young_until: BTreeMap<Digest, u64>,
}

/// What an operation makes true when it is acknowledged.
#[derive(Clone, Default)]
struct Effect {
    blobs: Vec<((RepositoryName, Digest), bool)>,
    manifests: Vec<((RepositoryName, Digest), bool)>,
    tags: Vec<((RepositoryName, Tag), Option<Digest>)>,
}

impl Model {
    fn note(&mut self, effect: &Effect, is_acknowledged: bool) {
        note(&mut self.blobs, &effect.blobs, &false, is_acknowledged);
        note(
            &mut self.manifests,
            &effect.manifests,
            &false,
            is_acknowledged,
        );
        note(&mut self.tags, &effect.tags, &None, is_acknowledged);
    }

    /// What manifests that are there for sure refer to.
    fn needed(&self) -> BTreeSet<Digest> {
        let sure = self
            .manifests
            .iter()
            .filter(|(_, values)| is(values, &true));
        sure.flat_map(|((_, digest), _)| &self.closures[digest])
            .copied()
            .collect()
    }

    /// Digests that a repository has for sure.
    fn sure(&self, repository: &RepositoryName) -> Vec<Digest> {
        self.blobs
            .iter()
            .filter(|((owner, _), values)| owner == repository && is(values, &true))
            .map(|((_, digest), _)| *digest)
            .collect()
    }
}

fn note<K: Ord + Clone, V: Ord + Clone>(
    possible: &mut Possible<K, V>,
    effect: &[(K, V)],
    before: &V,
    is_acknowledged: bool,
) {
    for (key, value) in effect {
        let values = possible
            .entry(key.clone())
            .or_insert_with(|| BTreeSet::from([before.clone()]));
        if is_acknowledged {
            values.clear();
        }
        values.insert(value.clone());
    }
}

fn is<V: Ord>(values: &BTreeSet<V>, value: &V) -> bool {
    values.len() == 1 && values.contains(value)
}

/// What is found is one of what may be, and from here on nothing else.
fn settle<K: Debug, V: Ord + Debug>(seed: u64, key: &K, values: &mut BTreeSet<V>, found: V) {
    assert!(
        values.contains(&found),
        "seed {seed}: {key:?} is {found:?}, may be {values:?}"
    );
    *values = BTreeSet::from([found]);
}

struct Run {
    seed: u64,
    chance: Chance,
    disk: FaultyDisk,
    model: Model,
    /// Sessions that go on: what they are of, and how much was acknowledged.
    sessions: Vec<Open>,
    /// Whether the power went since the sessions were looked at.
    lost_power: bool,
    settings: Settings,
    lie: Option<Lie>,
    /// The wall clock.
    now: u64,
    /// The time that has passed, as far as it counts.
    time: u64,
    clocks: Clocks,
    peer: Peer,
}

#[derive(Clone)]
struct Open {
    repository: RepositoryName,
    id: UploadId,
    content: Bytes,
    offset: u64,
}

impl Run {
    fn new(seed: u64, clocks: Clocks) -> Self {
        let mut settings = Settings::new("/store".into(), "master-0".parse().unwrap());
        settings.index = IndexKind::Memory;
        // Small, so that segments follow each other and are compacted.
        settings.segment = 3000;
        settings.lease = Duration::from_millis(LEASE);
        settings.wall = clocks.wall;
        settings.steady = clocks.steady;
        settings.between = Duration::from_millis(BETWEEN);
        let now = 1_700_000_000_000;
        clocks.set(now, 0);
        Self {
            seed,
            chance: Chance::new(seed),
            disk: FaultyDisk::new(seed ^ 0x5eed),
            model: Model::default(),
            sessions: Vec::new(),
            lost_power: false,
            settings,
            lie: None,
            now,
            time: 0,
            clocks,
            peer: Peer::default(),
        }
    }

    /// Lets some time pass.
    fn pass(&mut self, totals: &mut Totals) {
        let passed = 2 + self.chance.below(STEP);
        self.now += passed;
        self.time += passed;
        if self.chance.permille(JUMPS) {
            self.jump(totals);
        }
        self.clocks.set(self.now, self.time);
        self.disk.pass(self.now);
    }

    /// Sets the wall clock, and with it the dates of files that are written from here on.
    fn jump(&mut self, totals: &mut Totals) {
        let at = self.chance.below(FAR.len() as u64);
        let by = FAR[usize::try_from(at).unwrap()];
        self.now = self.now.saturating_add_signed(by);
        self.clocks.set(self.now, self.time);
        self.disk.jump(by);
        totals.n_jumps += 1;
    }

    fn lives(&mut self, totals: &mut Totals) {
        for life in 0..LIVES {
            let is_last = life + 1 == LIVES;
            if self.chance.permille(JUMPS_BETWEEN) {
                self.jump(totals);
            }
            self.time += BETWEEN;
            self.clocks.set(self.now, self.time);
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(self.life(life, is_last, totals));
            // Threads of this life may be at work still; the disk is deaf to them.
            runtime.shutdown_background();
            let end = if self.chance.permille(300) {
                End::Kill
            } else {
                End::PowerLoss
            };
            self.lost_power |= end == End::PowerLoss;
            totals.n_crashes += u64::from(!is_last);
            totals.n_in_the_middle += u64::from(self.disk.is_over());
            let faults = self.faults(is_last);
            self.disk = self.disk.next_life(end, faults);
        }
    }

    /// What goes wrong while the next life opens its store.
    fn faults(&mut self, is_last: bool) -> Faults {
        let dies_early = !is_last && self.chance.permille(250);
        Faults {
            last_operation: dies_early.then(|| 1 + self.chance.below(60)),
            lie: self.lie,
            ..Faults::default()
        }
    }

    async fn life(&mut self, life: u64, is_last: bool, totals: &mut Totals) {
        let disk = Arc::new(self.disk.clone());
        let opened = Store::open(self.settings.clone(), disk).await;
        let (store, recovery) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                let seed = self.seed;
                assert!(self.disk.is_over(), "seed {seed} life {life}: {error:?}");
                return;
            }
        };
        if self.disk.is_over() {
            return;
        }
        self.disk.set_faults(Faults::default());
        let seed = self.seed;
        assert_eq!(recovery.missing, [], "seed {seed} life {life}");
        self.verify(&store, totals).await;
        if is_last {
            return;
        }
        let is_rough = self.chance.permille(300);
        let rate = |chance: &mut Chance| if is_rough { chance.below(30) } else { 0 };
        let faults = Faults {
            last_operation: Some(1 + self.chance.below(600)),
            full: rate(&mut self.chance),
            broken: rate(&mut self.chance) / 4,
            unsynced: rate(&mut self.chance) / 4,
            lie: self.lie,
            read_only: false,
        };
        self.disk.set_faults(faults);
        let remounted_at = self.chance.permille(250).then(|| self.chance.below(STEPS));
        for number in 0..STEPS {
            if remounted_at == Some(number) {
                self.disk.set_faults(Faults {
                    read_only: true,
                    ..faults
                });
                totals.n_remounts += 1;
            }
            self.step(&store, totals).await;
            if self.disk.is_over() {
                return;
            }
        }
        if self.chance.permille(300) {
            store.close().await;
        }
    }

    //--- Steps

    async fn step(&mut self, store: &Store, totals: &mut Totals) {
        self.pass(totals);
        let repository = self.repository();
        match self.chance.below(100) {
            0..18 => self.push(store, repository, totals).await,
            18..33 => self.upload(store, repository, totals).await,
            33..55 => self.manifest(store, repository, totals).await,
            55..66 => self.delete(store, repository, totals).await,
            66..71 => self.several(store, repository, totals).await,
            71..75 => self.unlink(store, repository, totals).await,
            75..88 => self.peer(store, repository, totals).await,
            _ => self.among(store, totals).await,
        }
    }

    fn repository(&mut self) -> RepositoryName {
        format!("r{}", self.chance.below(3)).parse().unwrap()
    }

    fn content(&mut self) -> (Digest, Bytes) {
        let number = self.chance.below(200);
        let length = usize::try_from(number * number / 3).unwrap();
        let octets: Bytes = number
            .to_le_bytes()
            .into_iter()
            .cycle()
            .take(length)
            .collect();
        let digest = Digest::of(Algorithm::Sha256, &octets);
        self.model.content.insert(digest, octets.clone());
        (digest, octets)
    }

    fn outcome<T: Debug>(
        &mut self,
        effect: &Effect,
        result: &Result<T, StoreError>,
        totals: &mut Totals,
    ) {
        match result {
            Ok(_) => totals.n_acknowledged += 1,
            Err(_) => totals.n_refused += 1,
        }
        if let Err(StoreError::MissingBlobs(_) | StoreError::DigestMismatch { .. }) = result {
            panic!("seed {}: {result:?}", self.seed);
        }
        self.model.note(effect, result.is_ok());
        if result.is_ok() {
            self.touch(effect);
        }
    }

    /// What was just pushed, or is needed by what was, stays for a while.
    fn touch(&mut self, effect: &Effect) {
        let until = self.time + LEASE;
        for ((_, digest), is_there) in effect.blobs.iter().chain(&effect.manifests) {
            if *is_there {
                self.model.young_until.insert(*digest, until);
            }
        }
    }

    //--- Afterwards
}
