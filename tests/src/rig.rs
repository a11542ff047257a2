//! A rig that breaks a site while clients use it, and counts what that costs them.
//!
//! Three nodes are network namespaces on one wire. Each has the files of a rendered site, installed from a bundle, and runs its
//! services as the units say: with their users, groups and capabilities, with the sockets that systemd would hold, and started again
//! after a crash. Clients that share no code with the services ask for names, connect to the API, read streams, push and pull images
//! and ask for the time. Faults and attacks come one after another, in an order that a seed decides; after each the site has to
//! recover by itself.
//!
//! A client is as patient as such clients are: a resolver asks the next of three servers after a second, a runtime pulls from the
//! next node, a client of the API connects again. An exchange that ends well counts as right, even if it was *late* or took more than
//! one try; it is *lost* if no node did what was asked while the client waited, and *wrong* if an answer was.
//!
//! What the rig cannot do: clocks (namespaces share the clock of the machine), a disk that loses what was not synced (they share its
//! kernel), and the hardening of units beyond users and capabilities. `tests/it/nodes` has systemd for those.

mod faults;
mod limits;
mod load;
mod process;
mod site;
mod soak;
mod table;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use random::Random;

use crate::binaries::SERVICES;
use crate::gap::Gap;

pub use faults::{Fault, Place};
pub use load::Kind;
pub use soak::soak;
pub use table::{Cell, Row, Table};

use load::{Clients, Exchange, Fate};
use site::{API, INGRESS, NODES, Site};

/// How long a fault lasts unless somebody wants it otherwise: longer than any term and any interval of a site.
pub const LASTS: Duration = Duration::from_secs(4);

/// How long all clients have to be served well for the site to have recovered.
const CALM: Duration = Duration::from_secs(1);

/// How long that may take: on a busy machine, not on a node.
const LIMIT: Duration = Duration::from_secs(90);

/// How long two nodes may have the same address: the kernel takes it from a process that stands still, and counts whole seconds.
const BOTH: Duration = Duration::from_secs(3);

/// Between two looks at the processes.
const LOOK: Duration = Duration::from_millis(20);

/// The faults of a seed, in their order.
///
/// The seeds 0, 1, … of a number of faults take them all in turn before one comes again.
#[must_use]
pub fn schedule(seed: u64, n_faults: usize) -> Vec<Fault> {
    let mut all = Fault::all();
    // One order for all seeds, of which each takes its part; a number of faults decides how many there are.
    let n_parts = all.len().div_ceil(n_faults.max(1)) as u64;
    shuffle(&mut all, &mut of(seed / n_parts));
    let first = (seed % n_parts) as usize * n_faults;
    let n_faults = n_faults.min(all.len());
    let mut chosen: Vec<Fault> = all.into_iter().cycle().skip(first).take(n_faults).collect();
    shuffle(&mut chosen, &mut of(!seed));
    chosen
}

fn of(seed: u64) -> Random {
    Random::new(u128::from(seed).to_be_bytes())
}

fn shuffle<T>(list: &mut [T], random: &mut Random) {
    for last in (1..list.len()).rev() {
        let chosen = random.bits() % (last as u64 + 1);
        list.swap(last, chosen as usize);
    }
}

/// Breaks a site in these ways, each for so long, and says what it cost. Each row is given to `show` as soon as it is known.
///
/// # Panics
///
/// Panics if the site does not start.
#[must_use]
pub fn run(faults: &[Fault], lasts: Duration, mut show: impl FnMut(&Row)) -> Table {
    let mut rig = Rig::start();
    for fault in [Fault::Nothing].iter().chain(faults) {
        let row = rig.strike(*fault, lasts);
        show(&row);
        rig.table.rows.push(row);
    }
    rig.stop()
}

/// A site with its clients.
struct Rig {
    site: Site,
    clients: Clients,
    holders: Holders,
    /// The exchanges since the fault began.
    recent: Vec<Exchange>,
    /// The most memory, in KiB, and the most threads that a process of each service has had.
    peaks: BTreeMap<&'static str, [u64; 2]>,
    table: Table,
}

impl Rig {
    /// Starts a site, and waits until all are served well.
    fn start() -> Self {
        let site = Site::install();
        for node in &site.nodes {
            node.boot();
        }
        for node in &site.nodes {
            node.wait_ready();
        }
        let mut rig = Self {
            holders: Holders::watch(&site),
            clients: Clients::start(&site),
            site,
            recent: Vec::new(),
            peaks: BTreeMap::new(),
            table: Table::default(),
        };
        // Addresses, leases, synchronised clocks.
        if !rig.recover(Instant::now()) {
            let complaint = rig.complaint();
            let mistakes = &mut rig.table.mistakes;
            mistakes.push(format!("the site does not start: {complaint}"));
        }
        rig
    }

    /// Stops, and looks whether every acknowledged image is on every node.
    fn stop(self) -> Table {
        let mut table = self.table;
        table.peaks = self.peaks.into_iter().collect();
        let images = self.clients.stop();
        table.n_images = images.len();
        for (name, address) in NODES {
            let missing = images.missing(&self.site.client, address);
            if let Some(first) = missing.first() {
                let (n, all) = (missing.len(), images.len());
                let mistake = format!("{n} images of {all} are not whole at {name}: {first}");
                table.mistakes.push(mistake);
            }
        }
        table.both = self.holders.stop();
        if table.both > BOTH {
            let mistake = format!("two nodes had one address for {:?}", table.both);
            table.mistakes.push(mistake);
        }
        table
    }

    /// Has a fault happen, and waits until the site is well again.
    fn strike(&mut self, fault: Fault, lasts: Duration) -> Row {
        self.clients.take();
        self.recent.clear();
        let gaps = [API, INGRESS].map(|address| Gap::start(&self.site.client, address));
        let begun = Instant::now();
        let mut mistakes = self.keeping(|site| fault.run(site, lasts));
        let ended = Instant::now();
        let is_well = self.recover(begun);
        let took = ended.elapsed().saturating_sub(CALM);
        if !is_well {
            mistakes.push(format!("no recovery: {}", self.complaint()));
        }
        for node in &self.site.nodes {
            mistakes.extend(node.surprises());
            for service in SERVICES {
                let peak = self.peaks.entry(service).or_default();
                for (peak, key) in peak.iter_mut().zip(["VmHWM", "Threads"]) {
                    *peak = (*peak).max(node.status(service, key).unwrap_or(0));
                }
            }
        }
        let silences = gaps.map(Gap::stop);
        let row = Row::of(fault, &self.recent, silences, took, mistakes);
        if !row.mistakes.is_empty() {
            self.show_logs();
        }
        row
    }

    /// Prints the last lines that each service has logged.
    fn show_logs(&self) {
        for node in &self.site.nodes {
            for service in SERVICES {
                let log = node.log(service);
                let lines: Vec<&str> = log.lines().rev().take(10).collect();
                let name = node.machine().namespace();
                let lines: Vec<&str> = lines.into_iter().rev().collect();
                eprintln!("--- {name} {service}\n{}", lines.join("\n"));
            }
        }
    }

    /// Does something while processes are started again.
    fn keeping<T>(&mut self, act: impl FnOnce(&mut Site) -> T) -> T {
        // The supervisor sees the nodes, and the fault the site with them.
        let nodes: Vec<Arc<process::Node>> = self.site.nodes.iter().map(Arc::clone).collect();
        let stop = AtomicBool::new(false);
        let result = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    nodes.iter().for_each(|node| node.keep());
                    std::thread::sleep(LOOK);
                }
            });
            // Also after a panic, or the scope would wait for ever.
            let _stop = Stop(&stop);
            act(&mut self.site)
        });
        self.recent.extend(self.clients.take());
        result
    }

    /// Waits until all clients are served well again, each at its first try.
    fn recover(&mut self, begun: Instant) -> bool {
        let started = Instant::now();
        while started.elapsed() < LIMIT {
            self.keeping(|_| std::thread::sleep(LOOK * 5));
            let calm = Instant::now() - CALM;
            if calm > begun && started.elapsed() >= CALM && self.is_calm(calm) {
                return true;
            }
        }
        false
    }

    /// Whether all that has begun since then ended well, and there was some of each kind.
    fn is_calm(&self, since: Instant) -> bool {
        let mut seen: BTreeMap<Kind, u32> = BTreeMap::new();
        for exchange in self
            .recent
            .iter()
            .filter(|exchange| exchange.ended >= since)
        {
            if exchange.fate != Fate::Right || exchange.n_tries > 1 {
                return false;
            }
            *seen.entry(exchange.kind).or_default() += 1;
        }
        seen.len() == Kind::ALL.len()
    }

    /// The last exchange of each kind that did not end well at once.
    fn complaint(&self) -> String {
        let last = Kind::ALL.map(|kind| {
            let of_kind = self
                .recent
                .iter()
                .rev()
                .filter(|exchange| exchange.kind == kind);
            let bad = of_kind
                .clone()
                .find(|exchange| exchange.n_tries > 1 || exchange.fate != Fate::Right);
            format!(
                "{}: {} exchanges, last bad {:?}",
                kind.title(),
                of_kind.count(),
                bad.map(|exchange| (&exchange.fate, exchange.n_tries, exchange.begun.elapsed()))
            )
        });
        last.join("\n")
    }
}

/// Stops a thread when it is dropped.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

//--- Who has the addresses

/// Looks at the addresses of all nodes all the time.
struct Holders {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    judge: JoinHandle<Duration>,
}

/// Between two looks at the addresses.
const ADDRESSES: Duration = Duration::from_millis(5);

impl Holders {
    fn watch(site: &Site) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        let mut has: Vec<Arc<[AtomicBool; 2]>> = Vec::new();
        for node in &site.nodes {
            let seen: Arc<[AtomicBool; 2]> = Arc::default();
            has.push(Arc::clone(&seen));
            let stop = Arc::clone(&stop);
            threads.push(node.machine().inside(|| {
                std::thread::spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        let text = std::fs::read_to_string("/proc/thread-self/net/fib_trie");
                        let text = text.unwrap_or_default();
                        for (seen, address) in seen.iter().zip([API, INGRESS]) {
                            seen.store(is_local(&text, address), Ordering::Relaxed);
                        }
                        std::thread::sleep(ADDRESSES);
                    }
                })
            }));
        }
        let stopped = Arc::clone(&stop);
        let judge = std::thread::spawn(move || {
            let mut longest = Duration::ZERO;
            let mut since = [None; 2];
            while !stopped.load(Ordering::Relaxed) {
                for (index, since) in since.iter_mut().enumerate() {
                    let n_holders = has
                        .iter()
                        .filter(|seen| seen[index].load(Ordering::Relaxed))
                        .count();
                    if n_holders < 2 {
                        *since = None;
                        continue;
                    }
                    let since = *since.get_or_insert_with(Instant::now);
                    longest = longest.max(since.elapsed());
                }
                std::thread::sleep(ADDRESSES);
            }
            longest
        });
        Self {
            stop,
            threads,
            judge,
        }
    }

    /// The longest time that two nodes had the same address.
    fn stop(self) -> Duration {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().expect("looking does not panic");
        }
        self.judge.join().expect("judging does not panic")
    }
}

/// Whether the local routes of a machine have an address: its line is followed by one with its kind.
fn is_local(fib: &str, address: IpAddr) -> bool {
    let wanted = format!("|-- {address}");
    let mut lines = fib.lines();
    while let Some(line) = lines.next() {
        if line.trim_start() == wanted
            && lines.next().is_some_and(|next| next.contains("host LOCAL"))
        {
            return true;
        }
    }
    false
}
