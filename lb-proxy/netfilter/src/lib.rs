//! Frontends that the kernel forwards by itself.
//!
//! For a frontend that looks into nothing and counts nothing (no names, no PROXY header, no queue), a
//! rule of nftables does what a relay would, at the price of plain routing. A thread keeps one table
//! of rules as the pools stand; each change is one transaction, and connections that exist continue
//! through it.
//!
//! ```text
//!  apply ──▶ wanted (the newest alone) ──▶ thread ──▶ netlink         elements of maps: servers that come, go or weigh other
//!                                            ├──────▶ nft -f -        rules: frontends and servers that are new or gone
//!                                            ├──────▶ conntrack       forget flows of servers that went
//!                                            └◀────── nft -j list     counters; table gone? make it anew
//! ```
//!
//! - The liveness and weights of servers are elements of maps and sets, and a change of them is one message to the kernel
//!   (`batch.rs`), as long for a thousand servers as for two.
//! - For the rest, the `nft` command is driven with text. It speaks every version of the kernel's interface, checks
//!   what it is given and names the place of a fault; a change costs some milliseconds. It also makes a change of elements
//!   that the kernel refuses.
//! - If sessions are to be reset when their server goes, clients hear it at once: those that send by
//!   a rule, and those that wait through a probe (`reset`), for which the process needs
//!   `CAP_NET_RAW` besides `CAP_NET_ADMIN`.
//! - Packets of established connections go by a flow table where the kernel has one, past all rules
//!   (`kernel/ruleset/flow_table.rs`). Kernels before 6.4 forget nothing that is in it; it is taken away
//!   for a moment then, and connections that stay come back by themselves.
//! - The table is removed at the end, left alone when a successor takes over ([`Path::leave`]), and
//!   made again at the start, whatever a crashed predecessor left.
//! - A program that flushes all rules of the machine takes ours along. The worker notices when it reads
//!   counters, and mends it; connections in which nothing was sent meanwhile continue.
//!
//! Forwarding must be allowed by the system ([`forwarding_faults`]); it is never switched on here.
//! Never waits on a caller's thread, but for [`Path::start`] and the end.

mod batch;
mod changes;
pub mod conntrack;
mod devices;
mod netlink;
mod nft;
mod reset;
pub mod ruleset;
mod sessions;
mod worker;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tracing::error;

use self::nft::Nft;
use self::ruleset::Ruleset;
use self::worker::RuleWorker;

pub use self::nft::PathError;
pub use self::ruleset::{Devices, KernelFrontend, KernelServer, Protocol, Share, TableName};
pub use self::sessions::{Forwarded, SessionState, Sessions, kill_to};

/// The longest wait for the flow table to go: as long as a command may take on a machine
/// that is very busy.
const PAUSE_LIMIT: Duration = Duration::from_secs(5);

/// How a path is made.
#[derive(Debug, Clone)]
pub struct Options {
    /// The table of rules.
    pub table: TableName,
    /// The interval at which the worker reads counters and checks the table.
    pub interval: Duration,
    /// Whether established connections go by a flow table, if the kernel has one.
    pub flow_table: bool,
    /// The command, if it is not found by itself.
    pub nft: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            table: TableName::default(),
            interval: Duration::from_secs(2),
            flow_table: true,
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
    /// Those of them that changed elements alone.
    pub element_changes: u64,
    /// Transactions that failed.
    pub failures: u64,
    /// How often the table was gone and made again.
    pub repairs: u64,
    /// Flows that were forgotten because their server went.
    pub forgotten: u64,
    /// Whether there is a flow table.
    pub flow_table: FlowTable,
    /// Why the rules are not as they should be.
    pub error: Option<String>,
}

/// Whether there is a flow table, by which established connections go past rules.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum FlowTable {
    /// None is wanted.
    #[default]
    Off,
    /// There should be one; why there is none.
    Absent(String),
    /// There is, for what comes in by these devices.
    Used(Devices),
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
        let ruleset = Ruleset::new(options.table.clone(), frontends.to_vec(), None);
        Nft::find(options.nft.as_deref())?.check(&ruleset.install())
    }

    /// Makes the rules for `frontends`, and starts looking after them.
    ///
    /// # Errors
    ///
    /// Why the rules could not be made.
    pub fn start(options: &Options, frontends: Vec<KernelFrontend>) -> Result<Self, PathError> {
        let nft = Nft::find(options.nft.as_deref())?;
        let worker = RuleWorker::start(nft, options, frontends)?;
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                wanted: None,
                ending: None,
                pauses: 0,
                is_paused: false,
                has_ended: false,
                status: worker.status(),
            }),
            changed: Condvar::new(),
        });
        let thread = {
            let shared = Arc::clone(&shared);
            let interval = options.interval;
            thread::Builder::new()
                .name("kernel-path".into())
                .spawn(move || {
                    worker.run(&shared, interval);
                    shared.state.lock().has_ended = true;
                    shared.changed.notify_all();
                })
                .map_err(PathError::Thread)?
        };
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// The rules are to be for `frontends` from now on. Returns at once; the last of several calls in a row
    /// counts.
    pub fn apply(&self, frontends: Vec<KernelFrontend>) {
        self.shared.state.lock().wanted = Some(frontends);
        self.shared.changed.notify_all();
    }

    /// By which the flow table is taken away for a while.
    #[must_use]
    pub fn pauser(&self) -> Pauser {
        Pauser(Arc::clone(&self.shared))
    }

    /// How the rules stand.
    #[must_use]
    pub fn status(&self) -> Status {
        self.shared.state.lock().status.clone()
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
        self.shared.state.lock().ending = Some(ending);
        self.shared.changed.notify_all();
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

/// Takes the flow table of a path away for a while.
#[derive(Debug)]
pub struct Pauser(Arc<Shared>);

/// While this is there, there is no flow table.
#[derive(Debug)]
pub struct Pause(Arc<Shared>);

impl Pauser {
    /// Takes it away. Waits until it is gone, which takes some milliseconds.
    #[must_use]
    pub fn pause(self) -> Pause {
        let mut state = self.0.state.lock();
        state.pauses += 1;
        self.0.changed.notify_all();
        // The caller detects a flow table that is still there.
        let is_there = |state: &mut State| !state.is_paused && !state.has_ended;
        let changed = &self.0.changed;
        changed.wait_while_for(&mut state, is_there, PAUSE_LIMIT);
        drop(state);
        Pause(self.0)
    }
}

impl Drop for Pause {
    fn drop(&mut self) {
        self.0.state.lock().pauses -= 1;
        self.0.changed.notify_all();
    }
}

/// The needs of `frontends` that the system does not allow, a sentence each.
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
    /// How many need the flow table gone.
    pauses: u32,
    /// It is.
    is_paused: bool,
    /// The thread is gone.
    has_ended: bool,
    status: Status,
}

#[derive(Debug, Clone, Copy)]
enum Ending {
    Remove,
    Leave,
}

impl Shared {}

/// True when a listener at `address` is where a packet to `destination` goes.
fn is_at(listen: SocketAddr, destination: SocketAddr) -> bool {
    let is_ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => destination.is_ipv4(),
        IpAddr::V6(ip) if ip.is_unspecified() => destination.is_ipv6(),
        ip => ip == destination.ip(),
    };
    is_ip && listen.port() == destination.port()
}

/// The exit code for a path that cannot start: 77 when the system refused, 78 when a required part
/// is not there.
#[must_use]
pub fn exit_code(error: &PathError) -> u8 {
    match error {
        PathError::NotPermitted { .. } => daemon::exit::NO_PERMISSION,
        PathError::NoCommand | PathError::Refused { .. } => daemon::exit::CONFIG,
        PathError::Run(error) | PathError::Thread(error) => io_code(error),
        PathError::Answer(_) => daemon::exit::SOFTWARE,
    }
}

fn io_code(error: &io::Error) -> u8 {
    daemon::exit::code_of_io(error)
}
