//! The program itself, killed at random moments while clients push, tag and delete, while it sweeps and
//! while it follows another node: what it had acknowledged is there and whole afterwards.
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
mod connection;
mod program;

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use daemon::clock::now;

use crate::client::{Pusher, clients};
use crate::program::{Registry, certificates, following, free, sweeping};

/// Times one is killed in each test, unless asked for more.
const ROUNDS: u64 = 16;

/// Clients at once; each has a repository of its own.
const CLIENTS: u64 = 4;

/// How long a registry lives at most: clients whose connections were closed make no more.
const BURST: Duration = Duration::from_secs(2);

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
            client.verify(registry.address, round);
        }
        let victims = std::slice::from_mut(&mut registry);
        counts.add(&burst(victims, &mut clients, &mut chance, 0));
        if chance.below(8) == 0 {
            registry.start();
            registry.stop();
        }
    }
    registry.start();
    for client in &mut clients {
        client.verify(registry.address, rounds());
    }
    println!("{} kills: {counts:?}", rounds());
    assert!(counts.acknowledged >= 10 * rounds(), "{counts:?}");
    assert!(counts.sweeps >= rounds() / 4, "{counts:?}");
}

/// Two nodes, either of which is killed; clients of both.
#[test]
fn of_two_nodes_either_may_be_killed_and_both_have_everything_in_the_end() {
    let mut chance = Chance::of_run();
    let directory = tempfile::tempdir().unwrap();
    certificates(directory.path());
    let addresses = [free(), free()];
    let mut nodes: Vec<Registry> = (0..2)
        .map(|at| {
            Registry::new(
                &directory,
                &at.to_string(),
                &following(&directory, at, addresses),
            )
        })
        .collect();
    let mut clients = clients(&mut chance);
    let mut counts = Counts::default();
    nodes[0].start();
    nodes[1].start();
    for round in 0..rounds() {
        let at = usize::try_from(chance.below(2)).unwrap();
        counts.add(&burst(&mut nodes, &mut clients, &mut chance, at));
        nodes[at].start();
        // Each at the node that it talked to; where the two came to differ, the other follows.
        for (number, client) in clients.iter_mut().enumerate() {
            client.verify(nodes[number % 2].address, round);
            client.wait_same(nodes[(number + 1) % 2].address, round);
        }
    }
    println!("{} kills: {counts:?}", rounds());
    assert!(counts.acknowledged >= 10 * rounds(), "{counts:?}");
}

/// What the clients of one registry, or of two by turns, are told until one is killed.
fn burst(
    registries: &mut [Registry],
    clients: &mut [Pusher],
    chance: &mut Chance,
    victim: usize,
) -> Counts {
    let is_over = AtomicBool::new(false);
    let n_acknowledged = AtomicU64::new(0);
    let n_sweeps = AtomicU64::new(0);
    thread::scope(|scope| {
        for (number, client) in clients.iter_mut().enumerate() {
            let (is_over, n_acknowledged) = (&is_over, &n_acknowledged);
            let address = registries[number % registries.len()].address;
            scope.spawn(move || client.work(address, is_over, n_acknowledged));
        }
        let (over, sweeps) = (&is_over, &n_sweeps);
        let admin = registries[victim].admin.clone();
        scope.spawn(move || sweep(&admin, over, sweeps));
        // So many acknowledgements, on a machine of any speed, and then somewhere in the next.
        let wanted = chance.below(80);
        let begun = now();
        while n_acknowledged.load(Ordering::Relaxed) < wanted && begun.elapsed() < BURST {
            thread::sleep(Duration::from_micros(100));
        }
        thread::sleep(Duration::from_micros(chance.below(3000)));
        registries[victim].kill();
        is_over.store(true, Ordering::Relaxed);
    });
    Counts {
        acknowledged: n_acknowledged.into_inner(),
        sweeps: n_sweeps.into_inner(),
    }
}

/// Asks for one sweep after the other.
fn sweep(admin: &Path, is_over: &AtomicBool, n_sweeps: &AtomicU64) {
    while !is_over.load(Ordering::Relaxed) {
        if ask_to_sweep(admin).is_ok_and(|answer| answer.starts_with("HTTP/1.1 202 ")) {
            n_sweeps.fetch_add(1, Ordering::Relaxed);
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// The answer at the admin socket.
fn ask_to_sweep(admin: &Path) -> io::Result<String> {
    let mut stream = UnixStream::connect(admin)?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.write_all(
        b"POST /upkeep?task=sweep HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

#[derive(Debug, Default)]
struct Counts {
    acknowledged: u64,
    sweeps: u64,
}

impl Counts {
    fn add(&mut self, other: &Self) {
        self.acknowledged += other.acknowledged;
        self.sweeps += other.sweeps;
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
