//! The task of the virtual routers that move together (usually one).
//!
//! ```text
//!   datagrams, frames ──┐
//!   links, addresses ───┤      ┌───────┐  advertisements, announcements
//!   observations, leases┼─────►│ Group │─► addresses, demands
//!   commands ───────────┤      └───────┘  flows reset, script, log, board
//!   deadline ───────────┘
//! ```
//!
//! One turn: everything that has come is handed over, then a deadline that has passed, then what the
//! group wants done is done in its order. Messages that have come go first because after a pause the timer has
//! run out too, and the others' messages meanwhile decide what that means.
//!
//! Never waits for anything but the kernel's answer about an address, and, for part of an interval, for
//! the last clients of one that goes.

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::net::IpAddr;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use daemon::clock;
use daemon::latest::Reader;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tracing::{debug, info, warn};
use vrrp::address_drain::AddressDrain;
use vrrp::group::Group;
use vrrp::machine::{
    Action, Demand, Departure, Fault, Input, Lease, Machine, Reason, Start, State,
};
use vrrp::packet::{self, MAX_LENGTH};
use vrrp::settings::RouterSettings;

use super::member::Member;
use super::netlink::{Netlink, View};
use super::report;
use super::router::{Hooks, LeaseDemand, LeaseStates, Observations, VirtualRouter};
use super::socket::LONGEST_HEADER;
use super::status::{Board, RouterStatus};

/// Datagrams, and frames, taken of one router before timers are looked at.
const RECEIVE_BATCH: usize = 64;

/// How long an ending task waits for its scripts to be told so.
const SCRIPTS_LIMIT: Duration = Duration::from_secs(2);

/// The parts that all tasks share.
#[derive(Clone, Debug)]
pub(super) struct Context {
    pub(super) netlink: Arc<Netlink>,
    pub(super) observations: Reader<Observations>,
    pub(super) leases: Reader<LeaseStates>,
    pub(super) hooks: Hooks,
    pub(super) board: Arc<Board>,
    /// Random: operations that fail on several nodes at once are not tried again at once on all.
    pub(super) seed: u64,
}

/// A command to a task.
#[derive(Debug)]
pub(super) enum Command {
    /// These are the routers, some of which come from another task; says when those that are gone have
    /// let go.
    Apply(Vec<VirtualRouter>, Vec<Carried>, oneshot::Sender<()>),
    /// These continue in another task.
    GiveAway(Vec<Arc<RouterSettings>>, oneshot::Sender<Vec<Carried>>),
    /// End.
    ShutDown(Departure),
}

/// A router on its way from one task to another, as it is: it does not notice.
#[derive(Debug)]
pub(super) struct Carried {
    machine: Machine,
    member: Member,
}

/// Routers that share a task.
#[derive(Debug)]
pub(super) struct Session {
    number: u64,
    context: Context,
    commands: mpsc::Receiver<Command>,
    view: Reader<View>,
    group: Group,
    /// One for each of the group's.
    members: Vec<Member>,
    is_ending: bool,
    /// The last demands.
    demands: BTreeMap<Arc<str>, LeaseDemand>,
    /// Scripts of routers that have gone; only the end of the task waits for them.
    scripts: JoinSet<()>,
    buffer: Box<[u8]>,
}

/// Why a turn begins.
enum Wake {
    Readable,
    Command(Option<Command>),
    View,
    Observations,
    Leases,
    Deadline,
}

impl Session {
    pub(super) fn new(number: u64, context: Context, commands: mpsc::Receiver<Command>) -> Self {
        Self {
            number,
            view: context.netlink.reader(),
            context,
            commands,
            group: Group::new(Vec::new()),
            members: Vec::new(),
            is_ending: false,
            demands: BTreeMap::new(),
            scripts: JoinSet::new(),
            buffer: vec![0; MAX_LENGTH + LONGEST_HEADER].into(),
        }
    }

    /// Adds a router; it begins with [`Session::begin`].
    pub(super) fn add(&mut self, router: VirtualRouter, start: Start) {
        self.group.push(Machine::new(Arc::clone(&router.settings)));
        let seed = self.context.seed ^ (self.number << 32) ^ self.members.len() as u64;
        self.members.push(Member::new(router, start, seed));
    }

    /// Opens what the routers need, and starts none.
    pub(super) fn prepare(&mut self) {
        self.look_at_links(clock::now());
    }

    /// The first of these routers that is here and could not advertise.
    pub(super) fn first_unable(&self, among: &BTreeSet<Arc<str>>) -> Option<Arc<str>> {
        let mut unable = self
            .members
            .iter()
            .filter(|member| member.sockets.is_none());
        let unable = unable.find(|member| among.contains(&member.router.settings.name));
        unable.map(|member| Arc::clone(&member.router.settings.name))
    }

    /// The routers whose addresses a predecessor has left. Messages that came since
    /// [`Session::prepare`] were for the predecessor.
    pub(super) fn resume(&mut self, resumed: &BTreeSet<Arc<str>>) {
        for member in &mut self.members {
            if resumed.contains(&member.router.settings.name) {
                member.start = Start::Resume;
            }
            if let Some(sockets) = &member.sockets {
                let stale = std::iter::from_fn(|| sockets.receive(&mut self.buffer).map(drop));
                stale.take(RECEIVE_BATCH).for_each(drop);
            }
        }
    }

    /// Starts the routers that have not been.
    pub(super) async fn begin(&mut self) {
        let now = clock::now();
        self.look_at_links(now);
        self.observe(now);
        self.tell_standings(now);
        self.tell_leases(now);
        for index in 0..self.members.len() {
            if self.machine_state(index) == State::Initialize
                && let Some(member) = self.members.get(index)
            {
                let start = member.start;
                self.group.handle(index, Input::Startup(start), now);
            }
        }
        self.perform().await;
        self.publish();
    }

    /// Inputs of its routers
    pub(super) fn routers(&self) -> Vec<Arc<RouterSettings>> {
        let members = self.members.iter();
        let routers = members.map(|member| Arc::clone(&member.router.settings));
        routers.collect()
    }

    /// Runs until all routers have ended.
    pub(super) async fn run(mut self) {
        while !(self.is_ending && self.members.is_empty()) {
            let wake = self.wait().await;
            self.turn(wake).await;
        }
        while self.scripts.join_next().await.is_some() {}
        self.context.board.publish(self.number, Vec::new());
    }

    async fn wait(&mut self) -> Wake {
        let deadline = self.next_deadline();
        let members = &self.members;
        tokio::select! {
            biased;
            () = readable(members) => Wake::Readable,
            command = self.commands.recv(), if !self.is_ending => Wake::Command(command),
            () = self.view.changed() => Wake::View,
            () = self.context.observations.changed() => Wake::Observations,
            () = self.context.leases.changed() => Wake::Leases,
            () = sleep_until(deadline) => Wake::Deadline,
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let members = self.members.iter();
        let own = members.flat_map(|member| {
            let priority = member.priority.next_deadline();
            let (kernel, opening) = (member.kernel.again(), member.opening.again());
            [priority, kernel, opening, member.renewal()]
        });
        own.flatten().chain(self.group.next_deadline()).min()
    }

    async fn turn(&mut self, wake: Wake) {
        let now = clock::now();
        self.receive(now);
        match wake {
            Wake::View => {
                self.look_at_links(now);
                self.put_back(now).await;
            }
            Wake::Observations => self.observe(now),
            Wake::Leases => self.tell_leases(now),
            Wake::Command(Some(Command::Apply(routers, carried, done))) => {
                self.apply(routers, carried, now).await;
                if done.send(()).is_err() {
                    debug!("No caller waits for the edit");
                }
            }
            Wake::Command(Some(Command::GiveAway(routers, given))) => {
                let carried = self.give_away(&routers).await;
                if given.send(carried).is_err() {
                    warn!("No task takes virtual routers; their addresses are released");
                }
            }
            Wake::Command(Some(Command::ShutDown(departure))) => self.shut_down(departure, now),
            // The other end is gone: an end without a word.
            Wake::Command(None) => self.shut_down(Departure::Release, now),
            Wake::Readable | Wake::Deadline => {}
        }
        self.try_again(now);
        self.tell_standings(now);
        if self
            .group
            .next_deadline()
            .is_some_and(|deadline| deadline <= now)
        {
            self.group.handle(0, Input::Deadline, now);
        }
        self.perform().await;
        self.renew_addresses(now).await;
        self.forget_ended();
        self.publish();
    }

    fn publish(&mut self) {
        self.say_demands();
        let members = self.group.members().iter().zip(&self.members);
        let routers = members.map(|(machine, member)| RouterStatus {
            machine: machine.status(),
            tally: member.tally(),
            lease: member.router.lease.clone(),
        });
        self.context.board.publish(self.number, routers.collect());
    }

    fn machine_state(&self, index: usize) -> State {
        let machine = self.group.members().get(index);
        machine.map(Machine::state).unwrap_or_default()
    }
}

//--- Inputs

impl Session {
    /// Hands over what has come, without waiting.
    fn receive(&mut self, now: Instant) {
        for (index, member) in self.members.iter().enumerate() {
            let router_id = member.settings().router_id;
            for _ in 0..RECEIVE_BATCH {
                let Some(sockets) = &member.sockets else {
                    break;
                };
                let Some(datagram) = sockets.receive(&mut self.buffer) else {
                    break;
                };
                // A message for another router on the same link, or one too short to be for any.
                if packet::router_id(datagram.octets).is_none_or(|id| id == router_id) {
                    self.group.handle(index, Input::Datagram(datagram), now);
                }
            }
            for _ in 0..RECEIVE_BATCH {
                let Some(link_layer) = &member.link_layer else {
                    break;
                };
                match link_layer.receive() {
                    Some(Some((address, by))) => {
                        let input = Input::DuplicateSeen { address, by };
                        self.group.handle(index, input, now);
                    }
                    Some(None) => {}
                    None => break,
                }
            }
        }
    }

    /// Tells each machine how its link is.
    fn look_at_links(&mut self, now: Instant) {
        self.view.refresh();
        let view = self.view.shared();
        for (index, member) in self.members.iter_mut().enumerate() {
            let link = member.look_at_link(&view, now);
            // A link that is lost goes first: nothing can be said on it.
            if !link.is_up {
                self.group
                    .handle(index, Input::FaultFound(Fault::Link), now);
            }
            self.group.handle(index, Input::Source(link.source), now);
            if link.is_up {
                self.group
                    .handle(index, Input::FaultCleared(Fault::Link), now);
            }
        }
    }

    fn observe(&mut self, now: Instant) {
        self.context.observations.refresh();
        let observations = self.context.observations.shared();
        for member in &mut self.members {
            member.observe(&observations, now);
        }
    }

    fn tell_standings(&mut self, now: Instant) {
        for (index, member) in self.members.iter_mut().enumerate() {
            let standing = member.priority.standing(now);
            if member.standing != Some(standing) {
                member.standing = Some(standing);
                self.group.handle(index, Input::Eligibility(standing), now);
            }
        }
    }

    /// Tells each machine the lease of its addresses.
    fn tell_leases(&mut self, now: Instant) {
        self.context.leases.refresh();
        let leases = self.context.leases.shared();
        for (index, member) in self.members.iter_mut().enumerate() {
            let lease = match &member.router.lease {
                Some(name) => leases.get(name),
                None => Lease::Unneeded,
            };
            if member.lease != lease {
                member.lease = lease;
                self.group.handle(index, Input::Lease(lease), now);
            }
        }
    }

    /// Says what the routers want of their leases, as far as that has changed. Those of a group have one lease, which goes
    /// when none of them wants it.
    fn say_demands(&mut self) {
        let mut demands: BTreeMap<Arc<str>, LeaseDemand> = BTreeMap::new();
        for (machine, member) in self.group.members().iter().zip(&self.members) {
            let (Some(name), Some(demand)) = (&member.router.lease, member.demand) else {
                continue;
            };
            let own = LeaseDemand {
                demand,
                priority: machine.priority(),
                interval: machine.settings().interval,
                is_active: machine.state() == State::Active,
            };
            let all = demands.entry(Arc::clone(name)).or_insert(own);
            all.is_active |= own.is_active;
            let is_weaker = match all.demand {
                Demand::Drop => true,
                Demand::Wait => own.demand != Demand::Drop,
                Demand::Ask { .. } => false,
            };
            if is_weaker {
                all.demand = own.demand;
            }
        }
        if demands != self.demands {
            for (name, demand) in &demands {
                (self.context.hooks.demand)(name, *demand);
            }
            self.demands = demands;
        }
    }

    /// Failed operations whose time has come.
    fn try_again(&mut self, now: Instant) {
        let mut opening = false;
        for (index, member) in self.members.iter_mut().enumerate() {
            if member.kernel.take_due(now) {
                self.group
                    .handle(index, Input::FaultCleared(Fault::Kernel), now);
            }
            opening |= member.opening.take_due(now);
        }
        if opening {
            self.look_at_links(now);
        }
    }

    /// Tells the kernel that this process still counts on its leases.
    async fn renew_addresses(&mut self, now: Instant) {
        for index in 0..self.members.len() {
            if self.machine_state(index) == State::Active
                && let Some(member) = self.members.get_mut(index)
            {
                member.renew(&self.context.netlink, now).await;
            }
        }
    }

    async fn put_back(&mut self, now: Instant) {
        for index in 0..self.members.len() {
            if self.machine_state(index) != State::Active {
                continue;
            }
            if let Some(member) = self.members.get_mut(index) {
                match member.put_back(&self.context.netlink, now).await {
                    Some(addresses) => {
                        let count = member.settings().announce.count;
                        member.announce(&addresses, count);
                    }
                    // The state it advertises is not there: another has to have it.
                    None => self
                        .group
                        .handle(index, Input::FaultFound(Fault::Kernel), now),
                }
            }
        }
    }

    /// Edits the routers in place. One that is not there goes at once, or another router's edit would
    /// wait for it.
    async fn apply(&mut self, routers: Vec<VirtualRouter>, carried: Vec<Carried>, now: Instant) {
        for index in 0..self.members.len() {
            let Some(member) = self.members.get_mut(index) else {
                break;
            };
            let settings = Arc::clone(&member.router.settings);
            let mut same = routers.iter();
            if same.any(|router| router.settings.is_same_router(&settings)) {
                continue;
            }
            member.is_leaving = true;
            let input = Input::Shutdown(Departure::Release);
            self.group.handle(index, input, now);
        }
        self.perform().await;
        self.forget_ended();
        for Carried { machine, member } in carried {
            self.group.push(machine);
            self.members.push(member);
        }
        for router in routers {
            let mut members = self.members.iter_mut().enumerate();
            let settings = &router.settings;
            let known = members.find(|(_, member)| member.settings().is_same_router(settings));
            if let Some((index, member)) = known {
                let settings = Arc::clone(settings);
                member.reconfigure(router);
                // Sockets first: the machine says at once what has changed.
                let view = self.context.netlink.current();
                let link = member.look_at_link(&view, now);
                self.group.handle(index, Input::Source(link.source), now);
                self.group.handle(index, Input::Reconfigured(settings), now);
            } else {
                self.add(router, Start::Fresh);
            }
        }
        self.begin().await;
    }

    /// Takes routers out, and leaves everything of theirs as it is.
    async fn give_away(&mut self, routers: &[Arc<RouterSettings>]) -> Vec<Carried> {
        // Their decisions are carried out here.
        self.perform().await;
        let mut carried = Vec::new();
        for settings in routers {
            let is_meant = |member: &Member| member.settings().is_same_router(settings);
            if let Some(index) = self.members.iter().position(is_meant)
                && let Some(machine) = self.group.remove(index)
            {
                let member = self.members.remove(index);
                carried.push(Carried { machine, member });
            }
        }
        carried
    }

    fn shut_down(&mut self, departure: Departure, now: Instant) {
        self.is_ending = true;
        for index in 0..self.members.len() {
            if let Some(member) = self.members.get_mut(index) {
                member.is_leaving = true;
                if departure == Departure::Swap {
                    member.leave_addresses();
                }
                self.group.handle(index, Input::Shutdown(departure), now);
            }
        }
    }
}

//--- Outputs

impl Session {
    /// Does what the group wants done, in its order.
    async fn perform(&mut self) {
        let mut farewell = AddressDrain::default();
        while let Some((index, action)) = self.group.poll_action() {
            self.act(index, action, &mut farewell).await;
        }
    }

    async fn act(&mut self, index: usize, action: Action, farewell: &mut AddressDrain) {
        let Some(member) = self.members.get_mut(index) else {
            return;
        };
        let netlink = &self.context.netlink;
        match action {
            Action::Send { advertisement, to } => member.send(&advertisement, to),
            Action::AddAddresses(entries) => {
                let now = clock::now();
                if !member.add(&entries, netlink, now).await {
                    self.group
                        .handle(index, Input::FaultFound(Fault::Kernel), now);
                }
            }
            Action::RemoveAddresses(entries) => member.remove(&entries, netlink).await,
            Action::Announce { addresses, count } => member.announce(&addresses, count),
            Action::Probe(addresses) => member.probe(&addresses),
            Action::ResetFlows(addresses) => {
                self.reset_flows(index, &addresses, farewell).await;
            }
            Action::StateChanged { from, to, reason } => self.changed(index, from, to, reason),
            Action::Report(event) => report::tell(&member.router.settings.name, &event),
            // The group asks its members itself.
            Action::WouldClaim => {}
            Action::Lease(demand) => member.demand = Some(demand),
            Action::Stopped => member.has_ended = true,
        }
    }

    async fn reset_flows(&self, index: usize, addresses: &[IpAddr], farewell: &mut AddressDrain) {
        let Some(member) = self.members.get(index) else {
            return;
        };
        let until = farewell.until(member.settings().interval, clock::now());
        let resetting = (self.context.hooks.reset_flows)(addresses);
        let heard = tokio::time::timeout_at(until.into(), resetting).await;
        if heard.is_err() {
            let router = &member.router.settings.name;
            warn!(%router, ?addresses, "Addresses go before all of their clients have heard it");
        }
    }

    fn changed(&mut self, index: usize, from: State, to: State, reason: Reason) {
        let (Some(member), Some(machine)) =
            (self.members.get_mut(index), self.group.members().get(index))
        else {
            return;
        };
        let router = &member.router.settings.name;
        info!(%router, %from, %to, %reason, "Virtual router changes state");
        if to != State::Active {
            member.forget_refusal();
        }
        if from == State::Backup {
            member.forget_answers();
        }
        if from == State::Active || to == State::Active {
            member.priority.moved(clock::now());
        }
        member.tell_script(machine);
    }

    /// Forgets routers that were to go and have ended.
    fn forget_ended(&mut self) {
        while self.scripts.try_join_next().is_some() {}
        let mut index = 0;
        while let Some(member) = self.members.get(index) {
            if !(member.is_leaving && member.has_ended) {
                index += 1;
                continue;
            }
            let mut member = self.members.remove(index);
            drop(self.group.remove(index));
            if let Some(notifier) = member.take_notifier() {
                let router = Arc::clone(&member.router.settings.name);
                self.scripts.spawn(async move {
                    let finished = tokio::time::timeout(SCRIPTS_LIMIT, notifier.finish());
                    if finished.await.is_err() {
                        warn!(%router, "Notify script is not done; it is left alone");
                    }
                });
            }
        }
    }
}

//--- Waiting

async fn readable(members: &[Member]) {
    poll_fn(|context| {
        let mut result = Poll::Pending;
        // All are polled, or those after the first would not wake the task.
        for member in members {
            if member.poll_readable(context).is_ready() {
                result = Poll::Ready(());
            }
        }
        result
    })
    .await;
}

async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}
