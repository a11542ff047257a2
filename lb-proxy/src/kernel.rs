//! Frontends that the kernel forwards by itself.
//!
//! For a frontend that looks into nothing and counts nothing (no names, no PROXY header, no queue), a
//! rule of nftables does what a relay would, at the price of plain routing. A thread keeps one table
//! of rules as the pools stand; each change is one transaction, and connections that exist go on
//! through it.
//!
//! ```text
//!  apply ──▶ wanted (the newest alone) ──▶ thread ──▶ nft -f -        rules
//!                                            │  └───▶ conntrack       forget flows of servers that went
//!                                            └◀────── nft -j list     counters; table gone? make it anew
//! ```
//!
//! - The `nft` command is driven with text. It speaks every version of the kernel's interface, checks
//!   what it is given and names the place of a fault; a change costs some milliseconds.
//! - Where sessions are to be reset when their server goes, clients hear it at once: those that send by
//!   a rule, and those that wait because they are asked (`kernel/reset.rs`), for which the process needs
//!   `CAP_NET_RAW` besides `CAP_NET_ADMIN`.
//! - The table is removed at the end, left alone when a successor takes over ([`Path::leave`]), and
//!   made anew at the start, whatever a crashed predecessor left.
//! - Somebody who flushes all rules of the machine takes ours along. It is noticed when counters are
//!   read, and mended; connections in which nothing was sent meanwhile go on.
//!
//! Forwarding must be allowed by the system ([`forwarding_faults`]); it is never switched on here.
//! Never waits on a caller's thread, but for [`Path::start`] and the end.

mod changes;
pub mod conntrack;
mod nft;
mod reset;
pub mod ruleset;
mod sessions;

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tracing::{error, info, warn};

use self::conntrack::{Entry, Scope};
use self::nft::Nft;
use self::ruleset::Ruleset;

pub use self::nft::PathError;
pub use self::ruleset::{KernelFrontend, KernelServer, Protocol, Share, TableName};
pub use self::sessions::{Forwarded, SessionState, Sessions};

/// How a path is made.
#[derive(Debug, Clone)]
pub struct Options {
    /// The table of rules.
    pub table: TableName,
    /// How often counters are read and the table is looked after.
    pub interval: Duration,
    /// The command, if it is not found by itself.
    pub nft: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            table: TableName::default(),
            interval: Duration::from_secs(2),
            nft: None,
        }
    }
}

/// How the rules stand.
#[derive(Debug, Clone, Default)]
pub struct Status {
    /// Connections that servers got.
    pub connections: Vec<Connections>,
    /// Transactions that were made.
    pub changes: u64,
    /// Transactions that failed.
    pub failures: u64,
    /// How often the table was gone and made anew.
    pub repairs: u64,
    /// Flows that were forgotten because their server went.
    pub forgotten: u64,
    /// Why the rules are not as they should be.
    pub error: Option<String>,
}

/// Connections that one server got from one frontend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connections {
    /// The frontend's name.
    pub frontend: Arc<str>,
    /// The server's name.
    pub server: Arc<str>,
    /// How many, or flows if it is UDP.
    pub total: u64,
}

/// Keeps the rules as they should be. Dropping it removes them.
#[derive(Debug)]
pub struct Path {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Path {
    /// Asks whether rules for `frontends` could be made, and makes none.
    ///
    /// # Errors
    ///
    /// Why not: no command, no permission, or the kernel refuses them.
    pub fn check(options: &Options, frontends: &[KernelFrontend]) -> Result<(), PathError> {
        let ruleset = Ruleset {
            table: options.table.clone(),
            frontends: frontends.to_vec(),
        };
        Nft::find(options.nft.as_deref())?.check(&ruleset.install())
    }

    /// Makes the rules for `frontends`, and starts looking after them.
    ///
    /// # Errors
    ///
    /// Why the rules could not be made.
    pub fn start(options: Options, frontends: Vec<KernelFrontend>) -> Result<Self, PathError> {
        let mut keeper = Keeper {
            nft: Nft::find(options.nft.as_deref())?,
            ruleset: Ruleset {
                table: options.table,
                frontends: Vec::new(),
            },
            wanted: None,
            totals: BTreeMap::new(),
            status: Status::default(),
        };
        keeper.install(frontends)?;
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                wanted: None,
                ending: None,
                status: keeper.status.clone(),
            }),
            changed: Condvar::new(),
        });
        let thread = {
            let shared = Arc::clone(&shared);
            thread::Builder::new()
                .name("kernel-path".into())
                .spawn(move || keeper.run(&shared, options.interval))
                .map_err(PathError::Thread)?
        };
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// The rules are to be for `frontends` from now on. Returns at once; of several calls in a row the
    /// last counts.
    pub fn apply(&self, frontends: Vec<KernelFrontend>) {
        self.shared.lock().wanted = Some(frontends);
        self.shared.changed.notify_one();
    }

    /// How the rules stand.
    #[must_use]
    pub fn status(&self) -> Status {
        self.shared.lock().status.clone()
    }

    /// Removes the rules, and waits until they are gone. Connections that exist are reset with their
    /// next packet, unless other rules on this node translate addresses.
    pub fn clear(self) {
        drop(self);
    }

    /// Ends without removing the rules: a successor has made them its own.
    pub fn leave(mut self) {
        self.end(Ending::Leave);
    }

    fn end(&mut self, ending: Ending) {
        let Some(thread) = self.thread.take() else {
            return;
        };
        self.shared.lock().ending = Some(ending);
        self.shared.changed.notify_one();
        if thread.join().is_err() {
            error!("The thread of the kernel path has panicked");
        }
    }
}

impl Drop for Path {
    fn drop(&mut self) {
        self.end(Ending::Remove);
    }
}

/// What the system does not allow that `frontends` need, a sentence each.
#[must_use]
pub fn forwarding_faults(frontends: &[KernelFrontend]) -> Vec<String> {
    let listens = || frontends.iter().flat_map(|frontend| &frontend.listen);
    [
        (
            listens().any(SocketAddr::is_ipv4),
            "net.ipv4.ip_forward",
            "/proc/sys/net/ipv4/ip_forward",
        ),
        (
            listens().any(SocketAddr::is_ipv6),
            "net.ipv6.conf.all.forwarding",
            "/proc/sys/net/ipv6/conf/all/forwarding",
        ),
    ]
    .into_iter()
    .filter(|(needed, _, path)| {
        *needed && std::fs::read_to_string(path).is_ok_and(|value| value.trim() == "0")
    })
    .map(|(_, name, _)| {
        format!("{name} is 0: the kernel drops what other machines send through frontends of the kernel path")
    })
    .collect()
}

//--- The thread

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    wanted: Option<Vec<KernelFrontend>>,
    ending: Option<Ending>,
    status: Status,
}

#[derive(Debug, Clone, Copy)]
enum Ending {
    Remove,
    Leave,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change is one assignment, which a panic cannot leave half made.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the thread owns.
#[derive(Debug)]
struct Keeper {
    nft: Nft,
    /// The rules as they were last made.
    ruleset: Ruleset,
    /// What could not be made yet.
    wanted: Option<Vec<KernelFrontend>>,
    /// What the counter of each server has counted, in tables before this one and in this one.
    totals: BTreeMap<String, (u64, u64)>,
    status: Status,
}

impl Keeper {
    fn run(mut self, shared: &Shared, interval: Duration) {
        loop {
            let state = shared.lock();
            let (mut state, _) = shared
                .changed
                .wait_timeout_while(state, interval, |state| {
                    state.wanted.is_none() && state.ending.is_none()
                })
                .unwrap_or_else(PoisonError::into_inner);
            let (wanted, ending) = (state.wanted.take(), state.ending);
            drop(state);
            match ending {
                None => {}
                Some(Ending::Leave) => return,
                Some(Ending::Remove) => return self.remove(),
            }
            match wanted.or_else(|| self.wanted.take()) {
                Some(frontends) => self.change(frontends),
                None => self.look_after(),
            }
            shared.lock().status = self.status.clone();
        }
    }

    fn install(&mut self, frontends: Vec<KernelFrontend>) -> Result<(), PathError> {
        let ruleset = Ruleset {
            table: self.ruleset.table.clone(),
            frontends,
        };
        self.nft.apply(&ruleset.install())?;
        self.status.changes += 1;
        let mut gone = changes::gone(&[], &ruleset.frontends);
        gone.extend(changes::unforwarded(&ruleset.frontends));
        self.ruleset = ruleset;
        self.forget(&gone);
        Ok(())
    }

    fn change(&mut self, frontends: Vec<KernelFrontend>) {
        if self.ruleset.frontends == frontends && self.status.error.is_none() {
            return;
        }
        let next = Ruleset {
            table: self.ruleset.table.clone(),
            frontends,
        };
        let update = next.update(&self.ruleset);
        let result = match (update.as_str(), &self.status.error) {
            ("", None) => Ok(()),
            (_, None) => self
                .nft
                .apply(&update)
                // What the update builds on may be gone: make it all anew.
                .or_else(|_| self.nft.apply(&next.install())),
            (_, Some(_)) => self.nft.apply(&next.install()),
        };
        if let Err(failure) = result {
            self.status.failures += 1;
            self.report(&failure, "Rules of the kernel path could not be changed");
            self.wanted = Some(next.frontends);
            return;
        }
        self.status.changes += 1;
        self.status.error = None;
        let mut gone = changes::gone(&self.ruleset.frontends, &next.frontends);
        let added = next.frontends.iter().filter(|frontend| {
            !self
                .ruleset
                .frontends
                .iter()
                .any(|old| old.name == frontend.name && old.listen == frontend.listen)
        });
        gone.extend(changes::unforwarded(added));
        self.ruleset = next;
        self.forget(&gone);
    }

    /// Reads the counters; without them there is no table, and it is made anew.
    fn look_after(&mut self) {
        match self.nft.counters(&self.ruleset.table) {
            Ok(counters) => self.count(&counters),
            Err(failure) => match self.install(self.ruleset.frontends.clone()) {
                Ok(()) => {
                    self.status.repairs += 1;
                    warn!("The table of the kernel path was gone and is made anew");
                }
                Err(_) => self.report(&failure, "The table of the kernel path cannot be read"),
            },
        }
    }

    fn count(&mut self, counters: &BTreeMap<String, u64>) {
        self.status.error = None;
        self.status.connections.clear();
        let mut totals = BTreeMap::new();
        for frontend in &self.ruleset.frontends {
            for server in &frontend.servers {
                let name = Ruleset::counter(frontend, server);
                let (mut before, last) = self.totals.get(&name).copied().unwrap_or_default();
                let value = counters.get(&name).copied().unwrap_or(0);
                if value < last {
                    before += last;
                }
                totals.insert(name, (before, value));
                self.status.connections.push(Connections {
                    frontend: Arc::clone(&frontend.name),
                    server: Arc::clone(&server.name),
                    total: before + value,
                });
            }
        }
        self.totals = totals;
    }

    fn forget(&mut self, gone: &[changes::Gone]) {
        if gone.is_empty() {
            return;
        }
        let scope = match gone.iter().all(changes::Gone::are_forwarded) {
            true => Scope::Forwarded,
            false => Scope::All,
        };
        let is_gone = |entry: &Entry| gone.iter().any(|gone| gone.is_of(entry));
        match sessions::forget(scope, is_gone) {
            Ok(0) => {}
            Ok(n_flows) => {
                self.status.forgotten += n_flows;
                info!(n_flows, "Flows of servers that went are forgotten");
            }
            Err(error) => {
                warn!(%error, "Flows of servers that went could not be forgotten");
            }
        }
    }

    fn remove(&self) {
        if let Err(failure) = self.nft.apply(&self.ruleset.remove()) {
            let reason = daemon_base::exit::chain(&failure);
            warn!(reason, "The table of the kernel path could not be removed");
        }
    }

    /// Says once what is wrong.
    fn report(&mut self, failure: &PathError, sentence: &'static str) {
        let reason = daemon_base::exit::chain(failure);
        if self.status.error.as_ref() != Some(&reason) {
            error!(reason, sentence);
        }
        self.status.error = Some(reason);
    }
}

/// True when a listener at `address` is where a packet to `destination` goes.
fn is_at(listen: SocketAddr, destination: SocketAddr) -> bool {
    let is_ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => destination.is_ipv4(),
        IpAddr::V6(ip) if ip.is_unspecified() => destination.is_ipv6(),
        ip => ip == destination.ip(),
    };
    is_ip && listen.port() == destination.port()
}

/// The exit code for a path that cannot start: 77 when the system refused, 78 when what is asked for
/// is not there.
#[must_use]
pub fn exit_code(error: &PathError) -> u8 {
    match error {
        PathError::NotPermitted { .. } => daemon_base::exit::NO_PERMISSION,
        PathError::NoCommand | PathError::Refused { .. } => daemon_base::exit::CONFIG,
        PathError::Run(error) | PathError::Thread(error) => io_code(error),
        PathError::Answer(_) => daemon_base::exit::SOFTWARE,
    }
}

fn io_code(error: &io::Error) -> u8 {
    daemon_base::exit::code_of_io(error)
}
