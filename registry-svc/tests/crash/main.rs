//! The program itself, killed at random moments while clients push, tag and delete, while it sweeps and
//! while it follows other nodes: what it had acknowledged is there and whole afterwards, and all nodes have the same. The wall clocks of
//! the nodes jump by days meanwhile, and with root their disks become read-only.
//!
//! `CRASH_ROUNDS` and `CRASH_SEED` ask for more, and for others. What a loss of power does is
//! simulated inside of the crate, on a disk that forgets.

#![expect(
    clippy::unwrap_used,
    clippy::unwrap_in_result,
    clippy::panic_in_result_fn,
    clippy::indexing_slicing,
    reason = "a test fails where something is missing"
)]

mod client;
mod clock;
mod connection;
mod disk;
mod program;

use std::io::{self, Read as _, Write as _};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use daemon::clock::now;
use tempfile::TempDir;

use crate::client::{Pusher, clients};
use crate::disk::Disk;
use crate::program::{Registry, certificates, following, free, sweeping};

/// Times one is killed in each test, unless asked for more.
const ROUNDS: u64 = 16;

/// Clients at once; each has a repository of its own.
const CLIENTS: u64 = 4;

/// How long a registry lives at most: clients whose connections were closed make no more.
const BURST: Duration = Duration::from_secs(2);

/// How far the clock of a registry may be off, in milliseconds.
const OFF: [i64; 5] = [0, -DAY, DAY, -5 * DAY, 5 * DAY];

/// A day, in milliseconds.
const DAY: i64 = 24 * 3_600_000;

/// Longer than anything here takes, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// What clients push: few enough that they push the same, and that what was swept comes again.
const CONTENTS: u64 = 40;

#[test]
fn a_killed_registry_has_everything_it_acknowledged() {
    let mut chance = Chance::of_run();
    let directory = tempfile::tempdir().unwrap();
    let mut registry = Registry::new(&directory, "alone", &sweeping());
    let mut clients = clients(&mut chance);
    let mut counts = Counts::default();
    for round in 0..rounds() {
        registry.start();
        for client in &mut clients {
            counts.images += client.verify(registry.address, round);
        }
        let victims = std::slice::from_mut(&mut registry);
        let burst = Burst::of(&mut chance, round, 0, 1);
        counts.add(&burst.run(victims, &mut clients, &mut chance));
        if chance.below(8) == 0 {
            registry.start();
            registry.stop();
        }
    }
    registry.start();
    for client in &mut clients {
        counts.images += client.verify(registry.address, rounds());
    }
    println!("{} kills: {counts:?}", rounds());
    assert!(counts.acknowledged >= 10 * rounds(), "{counts:?}");
    assert!(counts.sweeps >= rounds() / 4, "{counts:?}");
    assert!(counts.jumps >= rounds() / 4, "{counts:?}");
}

/// Two nodes, either of which is killed; clients of both.
#[test]
fn of_two_nodes_either_may_be_killed_and_both_have_everything_in_the_end() {
    let mut chance = Chance::of_run();
    let directory = tempfile::tempdir().unwrap();
    let counts = cluster(&directory, 2, &mut chance, &[]);
    println!("{} kills: {counts:?}", rounds());
    assert!(counts.acknowledged >= 10 * rounds(), "{counts:?}");
}

/// Three nodes on disks of their own, which the kernel turns read-only at times, as after an error. Such a node is killed,
/// pulled from while its disk is read-only, and starts again on the repaired disk.
#[test]
#[ignore = "needs root for file systems of its own"]
fn of_three_nodes_each_may_be_killed_and_lose_its_disk_and_its_clock() {
    if std::env::var_os(MOUNTS).is_none() {
        return in_mounts_of_its_own(
            "of_three_nodes_each_may_be_killed_and_lose_its_disk_and_its_clock",
        );
    }
    let mut chance = Chance::of_run();
    let directory = tempfile::tempdir().unwrap();
    let disks: Vec<Disk> = (0..3)
        .map(|at| Disk::new(directory.path(), &at.to_string()))
        .collect();
    let counts = cluster(&directory, 3, &mut chance, &disks);
    println!("{} kills: {counts:?}", rounds());
    assert!(counts.acknowledged >= 10 * rounds(), "{counts:?}");
    assert!(counts.jumps >= rounds() / 4, "{counts:?}");
    assert!(counts.failed_disks >= rounds() / 8, "{counts:?}");
}

/// What a registry of these tests is: this program, with a clock that a test sets.
#[test]
#[ignore = "a part of the other tests"]
fn serve_by_a_clock_that_can_be_set() {
    if !program::serve() {
        println!("nothing to serve: this is a part of the other tests");
    }
}

/// Says that a test has mounts of its own.
const MOUNTS: &str = "OUTPOST_CRASH_MOUNTS";

/// Runs a test of this program where its mounts are seen by nobody else, and end with it.
fn in_mounts_of_its_own(test: &str) {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private"]);
    command.arg(std::env::current_exe().unwrap());
    command.args([
        "--exact",
        test,
        "--ignored",
        "--nocapture",
        "--test-threads=1",
    ]);
    let status = command.env(MOUNTS, "1").status().unwrap();
    assert!(status.success(), "{status}");
}

/// Rounds with several nodes, one of which is killed in each; every client talks to another node in each round.
fn cluster(directory: &TempDir, n_nodes: usize, chance: &mut Chance, disks: &[Disk]) -> Counts {
    certificates(directory.path());
    let addresses: Vec<SocketAddr> = (0..n_nodes).map(|_| free()).collect();
    let node = |at: usize| {
        let settings = following(directory, at, &addresses);
        Registry::new(directory, &at.to_string(), &settings)
    };
    let mut nodes: Vec<Registry> = (0..n_nodes).map(node).collect();
    let mut clients = clients(chance);
    let mut counts = Counts::default();
    nodes.iter_mut().for_each(Registry::start);
    // A disk that fails before there is a store has nothing to pull.
    nodes.iter().for_each(Registry::wait_answers);
    for round in 0..rounds() {
        let victim = usize::try_from(chance.below(n_nodes as u64)).unwrap();
        let disk = disks.get(victim).filter(|_| chance.below(3) == 0);
        let burst = Burst {
            disk,
            ..Burst::of(chance, round, victim, n_nodes)
        };
        counts.add(&burst.run(&mut nodes, &mut clients, chance));
        let place = |number: usize| burst.place(number, n_nodes);
        if let Some(disk) = disk {
            counts.failed_disks += 1;
            // Everything that it has acknowledged can be pulled from the disk as it is.
            nodes[victim].start();
            for (number, client) in clients.iter_mut().enumerate() {
                if place(number) == victim {
                    counts.images += client.look(nodes[victim].address, round, false);
                }
            }
            nodes[victim].kill();
            disk.repair();
        }
        nodes[victim].start();
        // Each at the node that it talked to; where they came to differ, the others follow.
        for (number, client) in clients.iter_mut().enumerate() {
            counts.images += client.verify(nodes[place(number)].address, round);
        }
        // Most nodes acknowledge for all, and the next that a client talks to may be the one that has not heard.
        wait_equal(&nodes, round);
        for (number, client) in clients.iter().enumerate() {
            for other in (0..n_nodes).filter(|other| *other != place(number)) {
                counts.images += client.wait_same(nodes[other].address, round);
            }
        }
    }
    counts
}

/// What happens in a round until a registry is killed.
struct Burst<'a> {
    round: usize,
    victim: usize,
    /// The disk of the victim, if it fails before the kill.
    disk: Option<&'a Disk>,
    /// The registry whose clock jumps, and how far it is off then, in milliseconds.
    jump: Option<(usize, i64)>,
}

impl Burst<'_> {
    /// One with a clock that jumps, or none.
    fn of(chance: &mut Chance, round: u64, victim: usize, n_nodes: usize) -> Self {
        let at = usize::try_from(chance.below(n_nodes as u64)).unwrap();
        let off = OFF[usize::try_from(chance.below(OFF.len() as u64)).unwrap()];
        Self {
            round: usize::try_from(round).unwrap(),
            victim,
            disk: None,
            jump: (chance.below(2) == 0).then_some((at, off)),
        }
    }

    /// The registry that a client talks to: another one in each round, so that it changes what it has seen elsewhere.
    fn place(&self, client: usize, n_nodes: usize) -> usize {
        (client + self.round) % n_nodes
    }

    /// What the clients are told until the kill.
    fn run(
        &self,
        registries: &mut [Registry],
        clients: &mut [Pusher],
        chance: &mut Chance,
    ) -> Counts {
        let is_over = AtomicBool::new(false);
        let n_acknowledged = AtomicU64::new(0);
        let n_sweeps = AtomicU64::new(0);
        // While they work, or between two lives of the victim.
        let jumps_at_once = chance.below(2) == 0;
        thread::scope(|scope| {
            for (number, client) in clients.iter_mut().enumerate() {
                let (is_over, n_acknowledged) = (&is_over, &n_acknowledged);
                let address = registries[self.place(number, registries.len())].address;
                let may_fail = self.disk.is_some();
                scope.spawn(move || client.work(address, may_fail, is_over, n_acknowledged));
            }
            let (over, sweeps) = (&is_over, &n_sweeps);
            let admin = registries[self.victim].admin.clone();
            scope.spawn(move || sweep(&admin, over, sweeps));
            // So many acknowledgements, on a machine of any speed, and then somewhere in the next.
            let wanted = chance.below(80);
            let begun = now();
            let wait = |wanted: u64| {
                while n_acknowledged.load(Ordering::Relaxed) < wanted && begun.elapsed() < BURST {
                    thread::sleep(Duration::from_micros(100));
                }
            };
            wait(wanted / 2);
            if let Some((at, off)) = self.jump.filter(|_| jumps_at_once) {
                registries[at].set_clock(off);
            }
            wait(wanted);
            if let Some(disk) = self.disk {
                disk.fail();
            }
            thread::sleep(Duration::from_micros(chance.below(3000)));
            registries[self.victim].kill();
            is_over.store(true, Ordering::Relaxed);
        });
        if let Some((at, off)) = self.jump.filter(|_| !jumps_at_once) {
            registries[at].set_clock(off);
        }
        Counts {
            acknowledged: n_acknowledged.into_inner(),
            sweeps: n_sweeps.into_inner(),
            jumps: u64::from(self.jump.is_some()),
            ..Counts::default()
        }
    }
}

/// Asks for one sweep after the other.
fn sweep(admin: &Path, is_over: &AtomicBool, n_sweeps: &AtomicU64) {
    while !is_over.load(Ordering::Relaxed) {
        let answer = ask(admin, "POST", "/upkeep?task=sweep");
        if answer.is_ok_and(|answer| answer.starts_with("HTTP/1.1 202 ")) {
            n_sweeps.fetch_add(1, Ordering::Relaxed);
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until all nodes have the same.
fn wait_equal(nodes: &[Registry], round: u64) {
    let begun = now();
    for other in 1..nodes.len() {
        let path = format!("/diff?node=node-{other}");
        loop {
            let answer = ask(&nodes[0].admin, "GET", &path).unwrap_or_default();
            let answer: String = answer.split_whitespace().collect();
            if answer.starts_with("HTTP/1.1200") && answer.contains("\"differences\":[]") {
                break;
            }
            assert!(begun.elapsed() < LIMIT, "round {round}: {path}: {answer}");
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// The answer at an admin socket.
fn ask(admin: &Path, method: &str, path: &str) -> io::Result<String> {
    let mut stream = UnixStream::connect(admin)?;
    stream.set_read_timeout(Some(LIMIT))?;
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

#[derive(Debug, Default)]
struct Counts {
    acknowledged: u64,
    sweeps: u64,
    /// Images that were pulled whole and compared.
    images: u64,
    /// Clocks that were set.
    jumps: u64,
    /// Disks that became read-only.
    failed_disks: u64,
}

impl Counts {
    fn add(&mut self, other: &Self) {
        self.acknowledged += other.acknowledged;
        self.sweeps += other.sweeps;
        self.images += other.images;
        self.jumps += other.jumps;
        self.failed_disks += other.failed_disks;
    }
}

fn rounds() -> u64 {
    number("CRASH_ROUNDS").unwrap_or(ROUNDS)
}

fn number(key: &str) -> Option<u64> {
    std::env::var(key).ok().and_then(|text| text.parse().ok())
}

/// Chance that comes out the same for the same seed: `SplitMix64`.
struct Chance(u64);

impl Chance {
    /// By the seed of this run.
    fn of_run() -> Self {
        Self(number("CRASH_SEED").unwrap_or(17))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}
