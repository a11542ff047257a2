//! Nodes, their interfaces and the link between them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Random;
use crate::group::Group;
use crate::machine::{
    Action, Audience, Eligibility, Event, Fault, Input, Machine, Reason, Start, State,
};
use crate::packet::{Datagram, HOP_LIMIT, PRIORITY_STOPPED};
use crate::settings::RouterSettings;

/// Lines of what happened that a failure prints.
const TRACE: usize = 60;

/// What a hung process finds in its socket at most.
const SOCKET_BUFFER: usize = 64;

/// The link and everybody on it.
#[derive(Debug)]
pub(super) struct Network {
    pub(super) now: Instant,
    start: Instant,
    pub(super) seed: u64,
    pub(super) step: u64,
    pub(super) random: Random,
    queue: BTreeMap<(Instant, u64), Pending>,
    /// When the last datagram from one to another arrives: a link keeps them in order.
    arrivals: BTreeMap<(usize, usize), Instant>,
    sequence: u64,
    pub(super) nodes: Vec<Node>,
    /// Of a thousand datagrams, so many are lost.
    pub(super) loss: u64,
    /// When one was lost last.
    pub(super) lost: Option<Instant>,
    /// A datagram takes this long at most.
    pub(super) latency: Duration,
    /// A timer is this late at most.
    pub(super) lateness: Duration,
    /// When anything last happened that may make addresses move.
    pub(super) disturbed: Instant,
    pub(super) moves: Vec<Move>,
    /// What was reported, by name.
    pub(super) events: BTreeSet<String>,
    /// Counts everything that may change who holds what, or who could.
    pub(super) generation: u64,
    trace: VecDeque<String>,
    verbose: bool,
}

/// What an event is called.
fn name_of(event: &Event) -> String {
    let text = format!("{event:?}");
    text.split([' ', '{']).next().unwrap_or_default().to_owned()
}

fn assert_or(holds: bool, fail: impl FnOnce()) {
    if !holds {
        fail();
    }
}

/// A change of state.
#[derive(Clone, Copy, Debug)]
pub(super) struct Move {
    pub(super) node: usize,
    pub(super) member: usize,
    pub(super) from: State,
    pub(super) to: State,
    pub(super) reason: Reason,
}

#[derive(Debug)]
pub(super) struct Node {
    /// One for each member of the group.
    pub(super) sources: Vec<IpAddr>,
    pub(super) settings: Vec<Arc<RouterSettings>>,
    /// `None`: off.
    pub(super) group: Option<Group>,
    /// What is on the interface, for each member.
    pub(super) interface: Vec<BTreeSet<IpAddr>>,
    pub(super) paused: bool,
    pub(super) link: bool,
    pub(super) standing: Eligibility,
    /// Which part of a parted network it is in.
    pub(super) part: u8,
    /// How often it began as a backup.
    pub(super) n_starts: u32,
    buffer: VecDeque<Parcel>,
    timer: Option<Instant>,
}

#[derive(Clone, Debug)]
struct Parcel {
    member: usize,
    source: IpAddr,
    destination: IpAddr,
    octets: Arc<[u8]>,
}

#[derive(Debug)]
enum Pending {
    Arrival {
        from: usize,
        to: usize,
        parcel: Parcel,
    },
    Claim {
        from: usize,
        to: usize,
        member: usize,
        address: IpAddr,
    },
    Timer {
        node: usize,
    },
}

impl Node {
    pub(super) fn new(sources: Vec<IpAddr>, settings: Vec<Arc<RouterSettings>>) -> Self {
        let priority = settings[0].priority;
        Self {
            interface: vec![BTreeSet::new(); settings.len()],
            sources,
            settings,
            group: None,
            paused: false,
            link: true,
            standing: Eligibility::Able(priority),
            part: 0,
            n_starts: 0,
            buffer: VecDeque::new(),
            timer: None,
        }
    }

    /// Whether it takes part in the election.
    pub(super) fn is_able(&self) -> bool {
        let is_started = self.group.as_ref().is_some_and(|group| {
            let mut members = group.members().iter();
            members.all(|machine| machine.state() != State::Initialize)
        });
        let able = matches!(self.standing, Eligibility::Able(_));
        is_started && able && !self.paused && self.link
    }

    /// Whether clients of a member's addresses are served here.
    pub(super) fn holds(&self, member: usize) -> bool {
        !self.interface[member].is_empty() && self.group.is_some() && !self.paused && self.link
    }

    pub(super) fn is_handing_over(&self) -> bool {
        let members = self.group.iter().flat_map(Group::members);
        members.into_iter().any(Machine::is_handing_over)
    }

    pub(super) fn priority(&self) -> u8 {
        match self.standing {
            Eligibility::Able(priority) => priority,
            Eligibility::Unable => 0,
        }
    }
}

impl Network {
    pub(super) fn new(seed: u64, start: Instant, verbose: bool) -> Self {
        Self {
            now: start,
            start,
            seed,
            step: 0,
            random: Random(seed),
            queue: BTreeMap::new(),
            arrivals: BTreeMap::new(),
            sequence: 0,
            nodes: Vec::new(),
            loss: 0,
            lost: None,
            latency: Duration::ZERO,
            lateness: Duration::ZERO,
            disturbed: start,
            moves: Vec::new(),
            events: BTreeSet::new(),
            generation: 0,
            trace: VecDeque::new(),
            verbose,
        }
    }

    pub(super) fn n_members(&self) -> usize {
        self.nodes[0].settings.len()
    }

    pub(super) fn note(&mut self, line: &str) {
        let at = self.now.duration_since(self.start);
        let line = format!("{at:>12.3?} {line}");
        if self.verbose {
            eprintln!("{line}");
        }
        if self.trace.len() == TRACE {
            self.trace.pop_front();
        }
        self.trace.push_back(line);
    }

    #[track_caller]
    pub(super) fn fail(&self, what: &str) -> ! {
        let mut text = String::new();
        for line in &self.trace {
            writeln!(text, "{line}").unwrap();
        }
        panic!(
            "{text}{what}: seed {} step {} at {:?}",
            self.seed,
            self.step,
            self.now.duration_since(self.start)
        );
    }

    pub(super) fn disturb(&mut self, what: &str) {
        self.generation += 1;
        self.disturbed = self.now;
        self.note(what);
    }

    pub(super) fn are_connected(&self, one: usize, other: usize) -> bool {
        let (one, other) = (&self.nodes[one], &self.nodes[other]);
        one.link && other.link && one.part == other.part
    }

    /// When something happens next.
    pub(super) fn next(&self) -> Option<Instant> {
        self.queue.first_key_value().map(|((at, _), _)| *at)
    }

    /// Lets the next thing happen.
    pub(super) fn advance(&mut self) {
        let Some(((at, _), pending)) = self.queue.pop_first() else {
            return;
        };
        self.now = at;
        self.step += 1;
        match pending {
            Pending::Timer { node } => {
                if self.nodes[node].timer == Some(at) {
                    self.nodes[node].timer = None;
                }
                if !self.nodes[node].paused {
                    self.tell(node, 0, Input::Deadline);
                }
            }
            Pending::Arrival { from, to, parcel } => {
                // What is on its way when the network parts does not arrive.
                if !self.are_connected(from, to) {
                    return;
                }
                self.arrive(to, parcel);
            }
            Pending::Claim {
                from,
                to,
                member,
                address,
            } => {
                if !self.nodes[to].paused && self.are_connected(from, to) {
                    let by = [2, 0, 0, 0, 0, u8::try_from(from).unwrap()];
                    self.tell(to, member, Input::DuplicateSeen { address, by });
                }
            }
        }
    }

    fn arrive(&mut self, to: usize, parcel: Parcel) {
        let node = &mut self.nodes[to];
        if node.paused {
            if node.buffer.len() < SOCKET_BUFFER {
                node.buffer.push_back(parcel);
            }
            return;
        }
        let octets = Arc::clone(&parcel.octets);
        let datagram = Datagram {
            source: parcel.source,
            destination: parcel.destination,
            hop_limit: Some(HOP_LIMIT),
            octets: &octets,
        };
        self.tell(to, parcel.member, Input::Datagram(datagram));
    }

    fn put(&mut self, at: Instant, pending: Pending) {
        self.sequence += 1;
        self.queue.insert((at, self.sequence), pending);
    }

    //--- What happens to nodes

    pub(super) fn start(&mut self, node: usize, start: Start) {
        let entry = &mut self.nodes[node];
        let machines = entry.settings.iter().cloned().map(Machine::new).collect();
        entry.group = Some(Group::new(machines));
        entry.paused = false;
        entry.n_starts += u32::from(start == Start::Fresh);
        entry.buffer.clear();
        let sources = entry.sources.clone();
        let standing = entry.standing;
        let link = entry.link;
        for (member, source) in sources.into_iter().enumerate() {
            self.tell(node, member, Input::Source(Some(source)));
            self.tell(node, member, Input::Eligibility(standing));
            if !link {
                self.tell(node, member, Input::FaultFound(Fault::Link));
            }
        }
        for member in 0..self.n_members() {
            self.tell(node, member, Input::Startup(start));
        }
    }

    /// Power off.
    pub(super) fn crash(&mut self, node: usize) {
        let entry = &mut self.nodes[node];
        entry.group = None;
        entry.paused = false;
        entry.buffer.clear();
        entry.interface.iter_mut().for_each(BTreeSet::clear);
    }

    pub(super) fn resume(&mut self, node: usize) {
        let entry = &mut self.nodes[node];
        entry.paused = false;
        let parcels: Vec<_> = entry.buffer.drain(..).collect();
        // What has arrived is read before any timer is looked at.
        for parcel in parcels {
            self.arrive(node, parcel);
        }
        self.tell(node, 0, Input::Deadline);
    }

    pub(super) fn set_link(&mut self, node: usize, up: bool) {
        self.nodes[node].link = up;
        for member in 0..self.n_members() {
            self.tell(
                node,
                member,
                if up {
                    Input::FaultCleared(Fault::Link)
                } else {
                    Input::FaultFound(Fault::Link)
                },
            );
        }
    }

    pub(super) fn set_standing(&mut self, node: usize, standing: Eligibility) {
        self.nodes[node].standing = standing;
        for member in 0..self.n_members() {
            self.tell(node, member, Input::Eligibility(standing));
        }
    }

    pub(super) fn reconfigure(&mut self, node: usize, settings: Vec<Arc<RouterSettings>>) {
        self.nodes[node].settings.clone_from(&settings);
        for (member, settings) in settings.into_iter().enumerate() {
            self.tell(node, member, Input::Reconfigured(settings));
        }
    }

    //--- What nodes do

    /// Tells a running node's member something and does what it wants done.
    pub(super) fn tell(&mut self, node: usize, member: usize, input: Input<'_>) {
        let now = self.now;
        let kept = match &input {
            Input::Reconfigured(settings) => {
                let entries = settings.addresses.iter();
                entries.map(|entry| entry.address).collect()
            }
            _ => BTreeSet::new(),
        };
        let Some(group) = &mut self.nodes[node].group else {
            return;
        };
        group.handle(member, input, now);
        let mut batch = Vec::new();
        while let Some(action) = group.poll_action() {
            batch.push(action);
        }
        if batch.is_empty() {
            self.arm(node);
            return;
        }
        self.check_order(node, &batch, &kept);
        for (member, action) in batch {
            self.act(node, member, action);
        }
        self.check_interface(node);
        self.arm(node);
    }

    fn arm(&mut self, node: usize) {
        let deadline = self.nodes[node]
            .group
            .as_ref()
            .and_then(Group::next_deadline);
        let Some(deadline) = deadline else {
            return;
        };
        let at = deadline.max(self.now) + self.random.duration(self.lateness);
        let entry = &mut self.nodes[node];
        // One that is due before then will look again.
        if entry
            .timer
            .is_none_or(|timer| timer > at || timer < self.now)
        {
            entry.timer = Some(at);
            self.put(at, Pending::Timer { node });
        }
    }

    fn act(&mut self, node: usize, member: usize, action: Action) {
        match action {
            Action::Send { advertisement, to } => {
                let settings = Arc::clone(&self.nodes[node].settings[member]);
                let source = self.nodes[node].sources[member];
                let destinations = match to {
                    Audience::All => settings.destinations(),
                    Audience::One(guest) => vec![guest],
                };
                for destination in destinations {
                    let octets = advertisement.compose(
                        settings.authentication,
                        settings.checksum,
                        source,
                        destination,
                    );
                    let parcel = Parcel {
                        member,
                        source,
                        destination,
                        octets: octets.into(),
                    };
                    self.transmit(node, &parcel);
                }
            }
            Action::AddAddresses(entries) => {
                self.generation += 1;
                let addresses = entries.iter().map(|entry| entry.address);
                self.nodes[node].interface[member].extend(addresses);
            }
            Action::RemoveAddresses(entries) => {
                self.generation += 1;
                for entry in entries {
                    self.nodes[node].interface[member].remove(&entry.address);
                }
            }
            Action::StateChanged { from, to, reason } => {
                self.generation += 1;
                self.note(&format!("node {node}.{member}: {from} -> {to}: {reason}"));
                self.moves.push(Move {
                    node,
                    member,
                    from,
                    to,
                    reason,
                });
            }
            Action::Stopped => {
                self.disturb(&format!("node {node}.{member}: stopped"));
            }
            Action::Report(event) => {
                self.events.insert(name_of(&event));
                self.note(&format!("node {node}.{member}: {event:?}"));
            }
            Action::Announce { addresses, .. } => self.announce(node, member, &addresses),
            Action::Probe(addresses) => {
                for other in 0..self.nodes.len() {
                    let held = &self.nodes[other].interface[member];
                    let answers: Vec<_> = held
                        .intersection(&addresses.iter().copied().collect())
                        .copied()
                        .collect();
                    if other != node && self.nodes[other].link {
                        self.claim(other, node, member, &answers);
                    }
                }
            }
            Action::ResetFlows(_) | Action::WouldClaim | Action::Lease(_) => {}
        }
    }

    fn transmit(&mut self, from: usize, parcel: &Parcel) {
        for to in 0..self.nodes.len() {
            let is_for = parcel.destination.is_multicast()
                || self.nodes[to].sources[parcel.member] == parcel.destination;
            if !is_for || !self.are_connected(from, to) {
                continue;
            }
            // A sender hears its own multicasts on some systems.
            if to != from && self.is_lost() {
                continue;
            }
            let at = self.arrival(from, to);
            let parcel = parcel.clone();
            self.put(at, Pending::Arrival { from, to, parcel });
        }
    }

    /// Gratuitous ARP, or neighbour advertisements.
    fn announce(&mut self, from: usize, member: usize, addresses: &[IpAddr]) {
        for to in (0..self.nodes.len()).filter(|to| *to != from) {
            self.claim(from, to, member, addresses);
        }
    }

    /// One says to another to have addresses.
    fn claim(&mut self, from: usize, to: usize, member: usize, addresses: &[IpAddr]) {
        for address in addresses.iter().copied() {
            if !self.are_connected(from, to) || self.is_lost() {
                continue;
            }
            let at = self.arrival(from, to);
            let claim = Pending::Claim {
                from,
                to,
                member,
                address,
            };
            self.put(at, claim);
        }
    }

    fn is_lost(&mut self) -> bool {
        let is_lost = self.random.below(1000) < self.loss;
        if is_lost {
            self.disturbed = self.now;
            self.lost = Some(self.now);
        }
        is_lost
    }

    /// When what is sent now arrives.
    fn arrival(&mut self, from: usize, to: usize) -> Instant {
        let at = self.now + self.random.duration(self.latency);
        let last = self.arrivals.entry((from, to)).or_insert(at);
        *last = at.max(*last);
        *last
    }

    //--- What holds for each node at each step

    /// Takeover: addresses, advertisement, announcement. Release: advertisement, flows, addresses.
    fn check_order(&self, node: usize, batch: &[(usize, Action)], kept: &BTreeSet<IpAddr>) {
        let mut interface = self.nodes[node].interface.clone();
        let mut reset = BTreeSet::new();
        let mut sent = BTreeSet::new();
        let has_paused = |member: usize| {
            let mut own = batch.iter().filter(|(of, _)| *of == member);
            own.any(|(_, action)| matches!(action, Action::Report(Event::Paused { .. })))
        };
        let mut added = BTreeSet::new();
        let goes = |member: usize| {
            let mut own = batch.iter().filter(|(of, _)| *of == member);
            own.any(|(_, action)| {
                matches!(
                    action,
                    Action::StateChanged {
                        reason: Reason::HandedOver(_) | Reason::HigherHeard(_),
                        ..
                    }
                )
            })
        };
        for (member, action) in batch {
            match action {
                Action::Send { advertisement, .. } => {
                    if has_paused(*member) && !added.contains(member) {
                        self.fail("spoke before it stepped back");
                    }
                    let holds = !interface[*member].is_empty();
                    let is_last_word = goes(*member) && advertisement.priority != PRIORITY_STOPPED;
                    if !holds && !is_last_word {
                        self.fail("advertised what it does not hold");
                    }
                    if advertisement.priority == PRIORITY_STOPPED && !holds {
                        self.fail("gave up what it does not hold");
                    }
                    sent.insert(*member);
                }
                Action::AddAddresses(entries) => {
                    if interface[*member].is_empty() {
                        added.insert(*member);
                    }
                    interface[*member].extend(entries.iter().map(|entry| entry.address));
                }
                Action::Announce { addresses, .. } => {
                    let holds_all = addresses.iter().all(|one| interface[*member].contains(one));
                    assert_or(holds_all, || self.fail("announced what it does not hold"));
                    let is_silent = added.contains(member) && !sent.contains(member);
                    assert_or(!is_silent, || self.fail("announced before it advertised"));
                }
                Action::ResetFlows(addresses) => {
                    if !addresses.iter().all(|one| interface[*member].contains(one)) {
                        self.fail("reset flows to what it does not hold");
                    }
                    reset.extend(addresses.iter().copied());
                }
                Action::RemoveAddresses(entries) => {
                    for address in entries.iter().map(|entry| entry.address) {
                        if interface[*member].remove(&address) && !reset.contains(&address) {
                            self.fail("removed an address with flows to it");
                        }
                        if kept.contains(&address) {
                            self.fail("an edit moved an address that stays");
                        }
                    }
                }
                _ => {}
            }
        }
    }

    /// Addresses are on the interface of active routers, all of them, and of no other.
    fn check_interface(&self, node: usize) {
        let entry = &self.nodes[node];
        let machines = entry.group.iter().flat_map(Group::members);
        for (member, machine) in machines.enumerate() {
            let addresses = machine.settings().addresses.iter();
            let ours: BTreeSet<_> = addresses.map(|entry| entry.address).collect();
            let expected = match machine.state() {
                State::Active => ours,
                _ => BTreeSet::new(),
            };
            // A process that was replaced leaves its addresses to the next.
            let is_swapping = machine.state() == State::Initialize;
            if entry.interface[member] != expected && !is_swapping {
                self.fail("addresses and state do not agree");
            }
        }
    }
}
