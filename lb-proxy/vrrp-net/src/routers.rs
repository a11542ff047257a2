//! The virtual routers of this node: starts their tasks, edits them, ends them.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use daemon::latest::Reader;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tracing::{info, warn};
use vrrp::machine::{Departure, Start};
use vrrp::settings::RouterSettings;

use super::netlink::Netlink;
use super::router::{Hooks, LeaseStates, Observations, VirtualRouter};
use super::session::{Carried, Command, Context, Session};
use super::status::{Board, RouterStatus};

/// Commands that a task has not carried out: callers wait for one at a time.
const COMMANDS: usize = 4;

/// Why virtual routers cannot be.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Not allowed.
    #[error("virtual IPs need the capabilities NET_ADMIN and NET_RAW; missing: {missing}")]
    NotAllowed {
        /// The addresses and interfaces that are missing.
        missing: String,
    },
    /// No way to the kernel.
    #[error("cannot open rtnetlink")]
    Netlink(#[source] io::Error),
    /// The process before holds addresses that this one could not advertise.
    #[error("cannot take over the virtual IP {router}, which the process before keeps")]
    CannotTakeOver {
        /// The first of them.
        router: Arc<str>,
    },
}

impl StartError {
    /// The exit code for it (sysexits.h).
    #[must_use]
    pub fn code(&self) -> u8 {
        match self {
            Self::NotAllowed { .. } => daemon::exit::NO_PERMISSION,
            Self::Netlink(source) => daemon::exit::code_of_io(source),
            Self::CannotTakeOver { .. } => daemon::exit::UNAVAILABLE,
        }
    }
}

/// The running virtual routers.
#[derive(Debug)]
pub struct Vrrp {
    context: Context,
    tasks: BTreeMap<TaskKey, Task>,
    n_started: u64,
}

/// The key of a task: a group of routers, or the one of none.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum TaskKey {
    Group(Arc<str>),
    Router(Arc<str>, u8, bool),
}

/// Routers by the task that they are to share.
type DesiredTasks = BTreeMap<TaskKey, Vec<VirtualRouter>>;

#[derive(Debug)]
struct Task {
    commands: mpsc::Sender<Command>,
    handle: JoinHandle<()>,
    /// Its description.
    routers: Vec<Arc<RouterSettings>>,
}

/// Virtual routers that have everything they need and have not been started: everything that can fail has not.
#[derive(Debug)]
pub struct Prepared {
    vrrp: Vrrp,
    routers: Vec<VirtualRouter>,
    sessions: Vec<(TaskKey, Session, mpsc::Sender<Command>)>,
}

impl Prepared {
    /// Opens what these virtual routers need, on the runtime this is called on, and touches nothing
    /// that a process before may be using.
    ///
    /// `resumed` names those that it is active for.
    ///
    /// # Errors
    ///
    /// Not allowed to, the kernel does not talk, or one that is to be resumed could not advertise here.
    /// One that is not may come to it later: an interface appears, an address.
    pub async fn new(
        routers: Vec<VirtualRouter>,
        resumed: &BTreeSet<Arc<str>>,
        observations: Reader<Observations>,
        leases: Reader<LeaseStates>,
        hooks: Hooks,
    ) -> Result<Self, StartError> {
        check_capabilities()?;
        let netlink = Netlink::start().await.map_err(StartError::Netlink)?;
        let context = Context {
            netlink: Arc::new(netlink),
            observations,
            leases,
            hooks,
            board: Arc::new(Board::default()),
            seed: seed(),
        };
        let mut vrrp = Vrrp {
            context,
            tasks: BTreeMap::new(),
            n_started: 0,
        };
        let mut sessions = Vec::new();
        for (key, members) in by_task(routers.clone()) {
            let (mut session, commands) = vrrp.session(&members);
            session.prepare();
            if let Some(router) = session.first_unable(resumed) {
                return Err(StartError::CannotTakeOver { router });
            }
            sessions.push((key, session, commands));
        }
        Ok(Self {
            vrrp,
            routers,
            sessions,
        })
    }

    /// Starts them.
    ///
    /// `resumed` names those whose addresses a predecessor of this process has just handed over, with
    /// [`Departure::Swap`]. Whatever other addresses of ours are on this node's links are leftovers of a
    /// process that could not clean up, and are removed.
    pub async fn begin(self, resumed: &BTreeSet<Arc<str>>) -> Vrrp {
        let mut vrrp = self.vrrp;
        remove_leftovers(&vrrp.context.netlink, &self.routers).await;
        for (key, mut session, commands) in self.sessions {
            session.resume(resumed);
            vrrp.run(key, session, commands).await;
        }
        vrrp
    }
}

impl Vrrp {
    /// Starts these virtual routers on the runtime this is called on: [`Prepared`], and begun.
    ///
    /// # Errors
    ///
    /// As [`Prepared::new`].
    pub async fn start(
        routers: Vec<VirtualRouter>,
        resumed: &BTreeSet<Arc<str>>,
        observations: Reader<Observations>,
        leases: Reader<LeaseStates>,
        hooks: Hooks,
    ) -> Result<Self, StartError> {
        let prepared = Prepared::new(routers, resumed, observations, leases, hooks).await?;
        Ok(prepared.begin(resumed).await)
    }

    /// The routers' status; it stays when this ends.
    #[must_use]
    pub fn board(&self) -> Arc<Board> {
        Arc::clone(&self.context.board)
    }

    /// The status of the routers.
    #[must_use]
    pub fn status(&self) -> Vec<RouterStatus> {
        self.context.board.routers()
    }

    /// Makes these the virtual routers. Those that stay are edited in place, also where they join a group
    /// or leave it; those that go hand over their addresses, unless another one here wants them.
    pub async fn apply(&mut self, routers: Vec<VirtualRouter>) {
        let wanted = by_task(routers);
        let mut carried = self.take_out(&wanted).await;
        self.end_unwanted(&wanted).await;
        // Removals within groups come before what may want their addresses.
        let (running, new): (BTreeMap<_, _>, BTreeMap<_, _>) = wanted
            .into_iter()
            .partition(|(key, _)| self.tasks.contains_key(key));
        for (key, routers) in running.into_iter().chain(new) {
            let carried = carried.remove(&key).unwrap_or_default();
            self.edit(key, routers, carried).await;
        }
    }

    /// Takes routers that are to share another task out of the one they are in; by the task to come.
    async fn take_out(&mut self, wanted: &DesiredTasks) -> BTreeMap<TaskKey, Vec<Carried>> {
        let mut carried: BTreeMap<TaskKey, Vec<Carried>> = BTreeMap::new();
        for (key, routers) in wanted {
            for (other, task) in self.tasks.iter_mut().filter(|(other, _)| *other != key) {
                let stays = wanted.get(other).map_or(&[][..], Vec::as_slice);
                let moving = task.part_with(routers, stays);
                if moving.is_empty() {
                    continue;
                }
                let (given, are_given) = oneshot::channel();
                task.say(Command::GiveAway(moving, given)).await;
                // A task that has ended has said why, and its routers begin again.
                let given = are_given.await.unwrap_or_default();
                carried.entry(key.clone()).or_default().extend(given);
            }
        }
        carried
    }

    async fn end_unwanted(&mut self, wanted: &DesiredTasks) {
        let all: BTreeSet<IpAddr> = wanted.values().flat_map(|list| addresses(list)).collect();
        let gone: Vec<TaskKey> = self.tasks.keys().cloned().collect();
        for key in gone.into_iter().filter(|key| !wanted.contains_key(key)) {
            let Some(task) = self.tasks.remove(&key) else {
                continue;
            };
            if task.routers.is_empty() || task.addresses().any(|address| all.contains(&address)) {
                task.say(Command::ShutDown(Departure::Release)).await;
                finish(task).await;
            } else {
                // On its own: it may take five intervals.
                task.say(Command::ShutDown(Departure::HandOver)).await;
            }
        }
    }

    /// Tells a task what its routers are, and starts it if there is none.
    async fn edit(&mut self, key: TaskKey, routers: Vec<VirtualRouter>, carried: Vec<Carried>) {
        if !self.tasks.contains_key(&key) {
            let (session, commands) = self.session(&[]);
            self.run(key.clone(), session, commands).await;
        }
        if let Some(task) = self.tasks.get_mut(&key) {
            let settings = routers.iter().map(|router| Arc::clone(&router.settings));
            task.routers = settings.collect();
            let (done, is_done) = oneshot::channel();
            task.say(Command::Apply(routers, carried, done)).await;
            // A task that has ended has said why.
            drop(is_done.await);
        }
    }

    /// Ends all virtual routers, and returns when the addresses are off the interfaces (or, after a
    /// swap, the successor's). Handing over takes five intervals at most.
    pub async fn shut_down(&mut self, departure: Departure) {
        for task in self.tasks.values() {
            task.say(Command::ShutDown(departure)).await;
        }
        while let Some((_, task)) = self.tasks.pop_first() {
            finish(task).await;
        }
    }

    /// Routers that share a task, not started, and how that task will be told what to do.
    fn session(&mut self, routers: &[VirtualRouter]) -> (Session, mpsc::Sender<Command>) {
        self.n_started += 1;
        let (commands, received) = mpsc::channel(COMMANDS);
        let mut session = Session::new(self.n_started, self.context.clone(), received);
        for router in routers {
            session.add(router.clone(), Start::Fresh);
        }
        (session, commands)
    }

    async fn run(&mut self, key: TaskKey, mut session: Session, commands: mpsc::Sender<Command>) {
        session.begin().await;
        let task = Task {
            commands,
            routers: session.routers(),
            handle: tokio::spawn(session.run()),
        };
        self.tasks.insert(key, task);
    }
}

impl Task {
    async fn say(&self, command: Command) {
        if self.commands.send(command).await.is_err() {
            warn!("A virtual router's task has ended");
        }
    }

    /// The indices of its routers that are among `others`, which are another task's from here on.
    fn part_with(
        &mut self,
        others: &[VirtualRouter],
        stays: &[VirtualRouter],
    ) -> Vec<Arc<RouterSettings>> {
        let is_in = |list: &[VirtualRouter], own: &RouterSettings| {
            list.iter().any(|one| one.settings.is_same_router(own))
        };
        let goes = |own: &Arc<RouterSettings>| is_in(others, own) && !is_in(stays, own);
        let (gone, kept) = std::mem::take(&mut self.routers)
            .into_iter()
            .partition(goes);
        self.routers = kept;
        gone
    }

    fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        let entries = self.routers.iter().flat_map(|router| &router.addresses);
        entries.map(|entry| entry.address)
    }
}

/// A number that other nodes do not have.
fn seed() -> u64 {
    let mut octets = [0; 8];
    // Before the kernel has gathered randomness all nodes may have the same, which does no harm.
    let _n = rustix::rand::getrandom(&mut octets, rustix::rand::GetRandomFlags::NONBLOCK);
    u64::from_ne_bytes(octets)
}

async fn finish(task: Task) {
    if let Err(error) = task.handle.await {
        warn!(%error, "A virtual router's task did not end well");
    }
}

fn addresses(routers: &[VirtualRouter]) -> impl Iterator<Item = IpAddr> {
    let entries = routers.iter().flat_map(|router| &router.settings.addresses);
    entries.map(|entry| entry.address)
}

fn by_task(routers: Vec<VirtualRouter>) -> DesiredTasks {
    let mut tasks = DesiredTasks::new();
    for router in routers {
        let settings = &router.settings;
        let key = settings.group.as_ref().map_or_else(
            || {
                let interface = Arc::clone(&settings.interface);
                TaskKey::Router(interface, settings.router_id, settings.is_ipv6())
            },
            |group| TaskKey::Group(Arc::clone(group)),
        );
        tasks.entry(key).or_default().push(router);
    }
    tasks
}

/// Removes addresses that carry our mark and have no router. A router deals with its configured addresses
/// itself.
async fn remove_leftovers(netlink: &Netlink, routers: &[VirtualRouter]) {
    let wanted: BTreeSet<IpAddr> = addresses(routers).collect();
    let view = netlink.current();
    for link in view.links() {
        for known in &link.addresses {
            let entry = known.entry;
            if !known.is_ours || wanted.contains(&entry.address) {
                continue;
            }
            let address = entry.address;
            info!(%address, index = link.index, "Removing an address that was left behind");
            if let Err(error) = netlink.remove(link.index, entry).await {
                warn!(%address, error = daemon::exit::chain(&error), "Address stays");
            }
        }
    }
}

/// Whether this process may do what virtual routers need.
///
/// # Errors
///
/// The capabilities that are missing.
pub fn check_capabilities() -> Result<(), StartError> {
    use rustix::thread::{CapabilitySet, capabilities};
    let needed = [
        (CapabilitySet::NET_ADMIN, "NET_ADMIN"),
        (CapabilitySet::NET_RAW, "NET_RAW"),
    ];
    let held = capabilities(None).map_or_else(|_| CapabilitySet::empty(), |sets| sets.effective);
    let missing = needed.iter().filter(|(needed, _)| !held.contains(*needed));
    let missing: Vec<&str> = missing.map(|(_, name)| *name).collect();
    if missing.is_empty() {
        Ok(())
    } else {
        let missing = missing.join(", ");
        Err(StartError::NotAllowed { missing })
    }
}
