//! What the nodes are, and what happens to them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::invariants::{Bounds, Invariants};
use super::network::Network;
use super::nodes::{next_address, populate};
use crate::group::Group;
use crate::machine::{Departure, Eligibility, Input, Reason, Start, State};
use crate::packet::Version;
use crate::settings::{Peers, RouterSettings};

/// Things that happen in one run.
const ACTS: usize = 14;

/// One run.
#[derive(Debug)]
pub(super) struct Scenario {
    network: Network,
    invariants: Invariants,
    bounds: Bounds,
    /// The longest interval that anybody ever has.
    interval: Duration,
    agenda: BTreeMap<(Instant, u64), Act>,
    /// What a hung process learns when it runs again.
    deferred: Vec<(usize, Act)>,
    /// A node that hands over with nothing in the way, and when anything had last happened.
    handing_over: Option<(usize, Instant)>,
    pub(super) acts: BTreeSet<&'static str>,
}

#[derive(Clone, Debug)]
enum Act {
    Crash(usize),
    Start(usize),
    Pause(usize),
    Resume(usize),
    Part,
    Heal,
    Lose(u64),
    Link(usize, bool),
    Stand(usize, Eligibility),
    Edit(usize, Vec<Arc<RouterSettings>>),
    Leave(usize, Departure),
    Swap(usize),
    Duplicate(usize),
}

impl Act {
    /// What it is called.
    fn kind(&self) -> &'static str {
        match self {
            Self::Crash(_) => "crash",
            Self::Start(_) => "start",
            Self::Pause(_) => "pause",
            Self::Resume(_) => "resume",
            Self::Part => "part",
            Self::Heal => "heal",
            Self::Lose(_) => "lose",
            Self::Link(..) => "link",
            Self::Stand(..) => "stand",
            Self::Edit(..) => "edit",
            Self::Leave(_, Departure::HandOver) => "hand over",
            Self::Leave(..) => "release",
            Self::Swap(_) => "swap",
            Self::Duplicate(_) => "duplicate",
        }
    }

    /// The node whose process has to hear of it.
    fn needs_to_run(&self) -> Option<usize> {
        match self {
            Self::Link(node, _)
            | Self::Stand(node, _)
            | Self::Edit(node, _)
            | Self::Leave(node, _)
            | Self::Swap(node)
            | Self::Duplicate(node) => Some(*node),
            _ => None,
        }
    }
}

/// What has happened in all runs.
#[derive(Debug, Default)]
pub(super) struct Seen {
    acts: BTreeSet<&'static str>,
    reasons: BTreeSet<&'static str>,
    events: BTreeSet<String>,
    worst_vacancy: f64,
}

impl Seen {
    pub(super) fn add(&mut self, scenario: &Scenario) {
        self.acts.extend(&scenario.acts);
        self.events.extend(scenario.network.events.iter().cloned());
        self.worst_vacancy = self.worst_vacancy.max(scenario.invariants.worst_vacancy);
        let moves = scenario.network.moves.iter();
        self.reasons.extend(moves.map(|step| name(step.reason)));
    }

    pub(super) fn assert_everything_happened(&self) {
        let acts = [
            "crash",
            "duplicate",
            "edit",
            "hand over",
            "heal",
            "link",
            "lose",
            "part",
            "pause",
            "release",
            "resume",
            "stand",
            "start",
            "swap",
        ];
        assert_eq!(self.acts.iter().copied().collect::<Vec<_>>(), acts);
        for event in ["AddressTaken", "HandOverTimedOut", "LeftAlone"] {
            assert!(self.events.contains(event), "{event}: {:?}", self.events);
        }
        let reasons = [
            "active stopped",
            "fault",
            "faults cleared",
            "group",
            "handed over",
            "higher heard",
            "nobody heard",
            "owner",
            "paused",
            "preempted",
            "resumed",
            "started",
            "stopped",
        ];
        assert_eq!(self.reasons.iter().copied().collect::<Vec<_>>(), reasons);
        // A bound that nothing comes near is none.
        assert!(self.worst_vacancy > 0.9, "{}", self.worst_vacancy);
    }
}

fn name(reason: Reason) -> &'static str {
    match reason {
        Reason::Started => "started",
        Reason::Resumed => "resumed",
        Reason::Owner => "owner",
        Reason::NobodyHeard => "nobody heard",
        Reason::ActiveStopped => "active stopped",
        Reason::Preempted => "preempted",
        Reason::HigherHeard(_) => "higher heard",
        Reason::HandedOver(_) => "handed over",
        Reason::Paused => "paused",
        Reason::Fault(_) => "fault",
        Reason::FaultsCleared => "faults cleared",
        Reason::Leased => "leased",
        Reason::LeaseEnded => "lease ended",
        Reason::Group => "group",
        Reason::Stopped => "stopped",
    }
}

impl Scenario {
    pub(super) fn run(seed: u64, start: Instant, verbose: bool) -> Self {
        let mut network = Network::new(seed, start, verbose);
        let interval = populate(&mut network);
        network.latency = interval / 20;
        network.lateness = interval / 20;
        let late = network.latency + network.lateness;
        let overlap = (interval / 2).min(Duration::from_millis(250));
        // Kept until the heir's kernel has it, and asked for again.
        let is_ipv6 = network.nodes[0].settings.iter().any(|it| it.is_ipv6());
        let kept = match is_ipv6 {
            true => overlap / 2 + 2 * network.latency + network.lateness,
            false => Duration::ZERO,
        };
        let bounds = Bounds {
            vacancy: 3 * interval + 2 * late,
            patience: 3 * (interval + network.lateness),
            skew_unit: match network.nodes[0].settings[0].version {
                Version::V2 => Duration::from_secs(1),
                Version::V3 => interval,
            },
            exchange: 2 * network.latency + interval / 10 + network.lateness + kept,
            overlap: interval + 2 * late + if is_ipv6 { 2 * overlap } else { overlap },
            settling: 16 * interval + Duration::from_secs(1),
        };
        let mut scenario = Self {
            network,
            invariants: Invariants::default(),
            bounds,
            interval,
            agenda: BTreeMap::new(),
            deferred: Vec::new(),
            handing_over: None,
            acts: BTreeSet::new(),
        };
        for node in 0..scenario.network.nodes.len() {
            scenario.network.start(node, Start::Fresh);
        }
        scenario.live();
        scenario.settle();
        scenario
    }

    fn live(&mut self) {
        for number in 0..ACTS {
            let gap = self.network.random.pick(&[2, 6, 12, 40]);
            let gap = self.network.random.duration(gap * self.interval);
            self.run_until(self.network.now + gap);
            let act = self.choose();
            self.plan(self.network.now, number as u64, act);
        }
        self.run_until(self.network.now + 8 * self.interval);
    }

    /// Everything is repaired; then there is one holder, and it stays.
    fn settle(&mut self) {
        self.network.loss = 0;
        self.perform(Act::Heal);
        for node in 0..self.network.nodes.len() {
            self.perform(Act::Resume(node));
            if !self.network.nodes[node].link {
                self.perform(Act::Link(node, true));
            }
        }
        self.run_until(self.network.now + self.bounds.settling + 6 * self.interval);
        self.invariants.check_settled(&self.network);
        self.run_until(self.network.now + 12 * self.interval);
        self.invariants.check_settled(&self.network);
    }

    fn run_until(&mut self, end: Instant) {
        loop {
            let due = self.agenda.first_key_value().map(|((at, _), _)| *at);
            let next = self.network.next();
            let at = [due, next].into_iter().flatten().min().unwrap_or(end);
            if at > end {
                break;
            }
            self.invariants.check(&self.network, &self.bounds, at);
            if due.is_some_and(|due| due <= at) {
                let (_, act) = self.agenda.pop_first().unwrap();
                self.network.now = at;
                self.perform(act);
            } else if next.is_some() {
                self.network.advance();
            } else {
                break;
            }
            self.check_hand_over();
            self.invariants.check_moves(&self.network, &self.bounds);
        }
        self.invariants.check(&self.network, &self.bounds, end);
        self.network.now = end;
    }

    /// With nothing in the way, a hand-over ends with an heir.
    fn check_hand_over(&mut self) {
        let Some((node, calm_since)) = self.handing_over else {
            return;
        };
        let left = self.network.moves.iter().rfind(|step| {
            step.node == node && step.from == State::Active && step.to == State::Initialize
        });
        let is_over = !self.network.nodes[node].is_handing_over();
        if let Some(step) = left.filter(|_| is_over) {
            let alone = !matches!(step.reason, Reason::HandedOver(_));
            // Its own end counts as a disturbance, at that very moment.
            let disturbed = self.network.disturbed;
            let quiet = disturbed == calm_since || disturbed == self.network.now;
            if alone && quiet {
                self.network.fail("handed over to nobody");
            }
        }
        let disturbed = self.network.disturbed != calm_since;
        if is_over || disturbed {
            self.handing_over = None;
        }
    }

    //--- What happens

    fn choose(&mut self) -> Act {
        let random = &mut self.network.random;
        let node = random.index(self.network.nodes.len());
        let kind = random.below(16);
        let chosen = &self.network.nodes[node];
        let runs = chosen.group.as_ref().is_some_and(|group| {
            let mut members = group.members().iter();
            members.any(|machine| machine.state() != State::Initialize)
        });
        if !runs {
            return Act::Start(node);
        }
        if chosen.paused {
            return Act::Resume(node);
        }
        match kind {
            0 => Act::Crash(node),
            1 => Act::Pause(node),
            2 => Act::Part,
            3 => Act::Heal,
            4 => Act::Lose(self.network.random.pick(&[0, 0, 50, 300])),
            5 | 6 => Act::Link(node, !chosen.link),
            7 => Act::Stand(node, Eligibility::Unable),
            8 | 9 => {
                let priority = self.network.random.pick(&[1, 2, 50, 150, 254]);
                Act::Stand(node, Eligibility::Able(priority))
            }
            10 => Act::Swap(node),
            11 => Act::Duplicate(node),
            12 | 13 => self.edit(node),
            14 => Act::Leave(node, Departure::Release),
            _ => Act::Leave(node, Departure::HandOver),
        }
    }

    /// Where everybody has to be edited, they are one after the other.
    fn edit(&mut self, node: usize) -> Act {
        let kind = self.network.random.below(5);
        let nodes = self.network.nodes.len();
        let stagger = 2 * self.interval;
        let is_v3 = self.network.nodes[node].settings[0].version == Version::V3;
        let extra = self.network.random.below(2) == 0;
        let interval = self
            .network
            .random
            .pick(&[self.interval, self.interval / 2]);
        let change = |index: usize, change: &dyn Fn(&mut RouterSettings)| {
            let mut settings = self.network.nodes[index].settings.clone();
            for entry in &mut settings {
                change(Arc::make_mut(entry));
            }
            Act::Edit(index, settings)
        };
        if kind == 0 {
            return change(node, &|settings| settings.announce.count = 3);
        }
        if kind == 1 {
            return change(node, &|settings| settings.priority = 77);
        }
        let sources: Vec<Vec<IpAddr>> = (0..nodes)
            .map(|index| self.network.nodes[index].sources.clone())
            .collect();
        let acts: Vec<_> = (0..nodes)
            .map(|index| {
                change(index, &|settings| match kind {
                    2 if is_v3 => settings.interval = interval,
                    3 => edit_peers(settings, &sources, index),
                    _ => edit_addresses(settings, extra),
                })
            })
            .collect();
        let mut at = self.network.now;
        for (index, act) in acts.into_iter().enumerate() {
            at += self.network.random.duration(stagger);
            self.plan(at, 1000 + index as u64, act);
        }
        Act::Duplicate(node)
    }

    fn plan(&mut self, at: Instant, order: u64, act: Act) {
        self.agenda.insert((at, order), act);
    }

    fn perform(&mut self, act: Act) {
        self.acts.insert(act.kind());
        let calm = self.network.now - self.network.disturbed > self.bounds.settling;
        // A duplicate and a swap move nothing.
        if matches!(act, Act::Duplicate(_)) {
            self.network.note("duplicate");
        } else {
            self.handing_over = None;
            let text = match &act {
                Act::Edit(node, settings) => format!("--- edit {node}: {:?}", settings[0]),
                other => format!("--- {other:?}"),
            };
            self.network.disturb(&text);
        }
        if let Some(node) = act
            .needs_to_run()
            .filter(|node| self.network.nodes[*node].paused)
        {
            if let Act::Link(_, up) = act {
                self.network.nodes[node].link = up;
            }
            self.deferred.push((node, act));
            return;
        }
        let network = &mut self.network;
        match act {
            Act::Crash(node) => network.crash(node),
            Act::Start(node) => {
                // What was left of the process before is gone.
                network.crash(node);
                network.start(node, Start::Fresh);
            }
            Act::Pause(node) => network.nodes[node].paused = true,
            Act::Resume(node) => {
                if network.nodes[node].paused {
                    network.resume(node);
                    let deferred = std::mem::take(&mut self.deferred);
                    let (ours, others) = deferred.into_iter().partition(|(of, _)| *of == node);
                    self.deferred = others;
                    let ours: Vec<_> = ours;
                    for (_, act) in ours {
                        self.perform(act);
                    }
                }
            }
            Act::Part => {
                for node in 0..network.nodes.len() {
                    network.nodes[node].part = u8::from(network.random.percent(50));
                }
            }
            Act::Heal => network.nodes.iter_mut().for_each(|node| node.part = 0),
            Act::Lose(loss) => network.loss = loss,
            Act::Link(node, up) => network.set_link(node, up),
            Act::Stand(node, standing) => network.set_standing(node, standing),
            Act::Edit(node, settings) => self.take_edit(node, settings),
            Act::Leave(node, departure) => self.leave(node, departure, calm),
            Act::Swap(node) => self.swap(node),
            Act::Duplicate(node) => {
                let address = network.nodes[node].settings[0].addresses[0].address;
                let by = [2; 6];
                // Where nobody holds it, it would be waited for.
                if network.nodes[node].holds(0) {
                    network.tell(node, 0, Input::DuplicateSeen { address, by });
                }
            }
        }
    }

    /// The next process takes over from this one.
    fn swap(&mut self, node: usize) {
        let network = &mut self.network;
        let groups = network.nodes[node].group.iter();
        let mut machines = groups.flat_map(Group::members);
        let is_active = machines.any(|machine| machine.state() == State::Active);
        let is_leaving = network.nodes[node].is_handing_over();
        for member in 0..network.n_members() {
            network.tell(node, member, Input::Shutdown(Departure::Swap));
        }
        if is_leaving {
            network.crash(node);
        } else if is_active {
            network.start(node, Start::Resume);
        } else {
            network.start(node, Start::Fresh);
        }
    }

    /// An edited priority is what the node can do.
    fn take_edit(&mut self, node: usize, settings: Vec<Arc<RouterSettings>>) {
        let network = &mut self.network;
        let priority = settings[0].priority;
        let is_other = priority != network.nodes[node].settings[0].priority;
        network.reconfigure(node, settings);
        if is_other {
            network.set_standing(node, Eligibility::Able(priority));
        }
    }

    fn leave(&mut self, node: usize, departure: Departure, calm: bool) {
        let network = &mut self.network;
        let part = network.nodes[node].part;
        let heirs = network.nodes.iter().enumerate().filter(|(index, other)| {
            *index != node && other.part == part && other.is_able() && other.priority() > 1
        });
        let has_heir = heirs.count() > 0 && network.loss == 0;
        let relieved = network.nodes[node].priority() > 1;
        for member in 0..network.n_members() {
            network.tell(node, member, Input::Shutdown(departure));
        }
        let leaves = network.nodes[node].is_handing_over();
        if calm && has_heir && leaves && relieved {
            self.handing_over = Some((node, network.disturbed));
        }
    }
}

fn edit_peers(settings: &mut RouterSettings, sources: &[Vec<IpAddr>], own: usize) {
    if let Peers::Unicast(peers) = &mut settings.peers {
        let member = usize::from(settings.addresses[0].address.is_ipv6() && sources[0].len() > 1);
        let others = sources
            .iter()
            .enumerate()
            .filter(|(index, _)| *index != own);
        *peers = others.map(|(_, sources)| sources[member]).collect();
    }
}

fn edit_addresses(settings: &mut RouterSettings, extra: bool) {
    let first = settings.addresses[0];
    settings.addresses.truncate(1);
    if extra {
        settings.addresses.push(next_address(first, 9));
    }
}
