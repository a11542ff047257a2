//! What clients would see, and what must not be.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::network::{Network, Node};
use crate::machine::{Reason, State};
use crate::settings::Preempt;

/// Watches a network.
#[derive(Debug, Default)]
pub(super) struct Invariants {
    /// Parts of the network where nobody holds a member's addresses, by who could.
    vacant: BTreeMap<(usize, Vec<Candidate>), Since>,
    /// Two that hold a member's addresses and hear each other.
    overlaps: BTreeMap<(usize, usize, usize), Since>,
    /// What of the network has been looked at.
    generation: Option<u64>,
    /// The longest time without a holder that was seen, in parts of what is allowed.
    pub(super) worst_vacancy: f64,
    n_moves: usize,
}

/// A node that could hold the addresses, and how often it has been started.
type Candidate = (usize, u32);

/// Something that must not last.
#[derive(Clone, Copy, Debug)]
struct Since {
    since: Instant,
    allowed: Duration,
}

/// How long things may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Until somebody takes over, but for a skew time: three intervals, messages and late timers.
    pub(super) vacancy: Duration,
    /// How much longer it may be where the kernel of a hung node answers for the addresses, and whoever
    /// could take over has just been started.
    pub(super) patience: Duration,
    /// What skew times are parts of.
    pub(super) skew_unit: Duration,
    /// Until an heir that nothing keeps from it has been heard to advertise and to announce, and the
    /// moment after.
    pub(super) exchange: Duration,
    /// Until the next advertisement, and one exchange in which announcements were lost.
    pub(super) overlap: Duration,
    /// Until nothing moves any more.
    pub(super) settling: Duration,
}

impl Invariants {
    /// Looks at the network as it has been since the step before; `now` is when the next thing happens.
    pub(super) fn check(&mut self, network: &Network, bounds: &Bounds, now: Instant) {
        if self.generation != Some(network.generation) {
            self.generation = Some(network.generation);
            for member in 0..network.n_members() {
                self.find_vacancies(network, bounds, member);
                self.find_overlaps(network, bounds, member);
            }
        }
        for ((member, _), vacancy) in &self.vacant {
            let lasted = now.saturating_duration_since(vacancy.since);
            let used = lasted.as_secs_f64() / vacancy.allowed.as_secs_f64();
            self.worst_vacancy = self.worst_vacancy.max(used);
            if lasted > vacancy.allowed {
                let allowed = vacancy.allowed;
                network.fail(&format!(
                    "nobody held member {member} for {lasted:?}, more than {allowed:?}"
                ));
            }
        }
        for ((member, one, other), overlap) in &mut self.overlaps {
            // What was lost may be what would have ended it.
            if network.disturbed >= overlap.since {
                overlap.since = network.disturbed;
                overlap.allowed = bounds.overlap;
            }
            let lasted = now.saturating_duration_since(overlap.since);
            if lasted > overlap.allowed {
                let allowed = overlap.allowed;
                network.fail(&format!(
                    "{one} and {other} both held member {member} for {lasted:?}, more than {allowed:?}"
                ));
            }
        }
    }

    /// Looks at the moves of the last step.
    pub(super) fn check_moves(&mut self, network: &Network, bounds: &Bounds) {
        for step in &network.moves[self.n_moves..] {
            let calm = network.now - network.disturbed > bounds.settling;
            if calm && step.to == State::Active && step.reason != Reason::Resumed {
                network.fail("an address moved though nothing had happened");
            }
            if let Reason::HandedOver(to) = step.reason {
                // The heir may have found somebody better, or crashed, since it spoke.
                let mut nodes = network.nodes.iter();
                let heir = nodes.find(|node| node.sources[step.member] == to);
                let is_there = heir.is_some_and(Node::is_able);
                let held = network.nodes.iter().any(|node| node.holds(step.member));
                let lost = network.lost;
                let lossy = lost.is_some_and(|lost| network.now < lost + bounds.vacancy);
                if is_there && !held && !lossy {
                    network.fail("handed over to somebody who does not hold the addresses");
                }
            }
        }
        self.n_moves = network.moves.len();
    }

    /// Looks at a network that has been calm for long.
    pub(super) fn check_settled(&self, network: &Network) {
        for part in parts(network) {
            for member in 0..network.n_members() {
                let nodes = part.iter().map(|(node, _)| *node);
                let holders: Vec<_> = nodes
                    .filter(|node| network.nodes[*node].holds(member))
                    .collect();
                let [holder] = holders[..] else {
                    network.fail(&format!("{part:?}: member {member} is held by {holders:?}"));
                };
                // Whoever preempts has a reason not to.
                let priority = network.nodes[holder].priority();
                for node in part.iter().map(|(node, _)| &network.nodes[*node]) {
                    let preempts = node.settings[member].preempt != Preempt::Never;
                    if preempts && node.priority() > priority {
                        network.fail("a router of lower priority is active");
                    }
                }
            }
        }
    }

    fn find_vacancies(&mut self, network: &Network, bounds: &Bounds, member: usize) {
        let parts = parts(network);
        let is_current = |key: &(usize, Vec<Candidate>)| key.0 != member || parts.contains(&key.1);
        self.vacant.retain(|key, _| is_current(key));
        for part in parts {
            let mut nodes = part.iter().map(|(node, _)| &network.nodes[*node]);
            let held = nodes.any(|node| node.holds(member)) || is_half_left(network, &part);
            let mut nodes = network.nodes.iter();
            let is_answered = nodes.any(|node| node.paused && !node.interface[member].is_empty());
            let patience = match is_answered {
                true => bounds.patience,
                false => Duration::ZERO,
            };
            let allowed = bounds.vacancy + skew_time(network, bounds, &part) + patience;
            let key = (member, part);
            if held {
                self.vacant.remove(&key);
                continue;
            }
            let vacancy = self.vacant.entry(key).or_insert(Since {
                since: network.now,
                allowed,
            });
            // Priorities may have fallen meanwhile.
            vacancy.allowed = vacancy.allowed.max(allowed);
        }
    }

    fn find_overlaps(&mut self, network: &Network, bounds: &Bounds, member: usize) {
        let holders: Vec<_> = (0..network.nodes.len())
            .filter(|node| network.nodes[*node].holds(member))
            .collect();
        let is_overlap = |&(of, one, other): &(usize, usize, usize)| {
            of != member
                || holders.contains(&one)
                    && holders.contains(&other)
                    && network.are_connected(one, other)
        };
        self.overlaps.retain(|key, _| is_overlap(key));
        let calm = network.now - network.disturbed > bounds.settling;
        let allowed = if calm {
            bounds.exchange
        } else {
            bounds.overlap
        };
        for (index, one) in holders.iter().enumerate() {
            for other in &holders[index + 1..] {
                if network.are_connected(*one, *other) {
                    let key = (member, *one, *other);
                    self.overlaps.entry(key).or_insert(Since {
                        since: network.now,
                        allowed,
                    });
                }
            }
        }
    }
}

/// Whether the members of a group that hands over have left in part: the heir of the first has failed
/// before it was heard to have the others, and everybody waits for those.
fn is_half_left(network: &Network, part: &[Candidate]) -> bool {
    let number = part.first().map(|(node, _)| network.nodes[*node].part);
    let mut nodes = network.nodes.iter();
    nodes.any(|node| Some(node.part) == number && node.is_handing_over() && !node.is_able())
}

/// The skew time of whoever takes over.
fn skew_time(network: &Network, bounds: &Bounds, part: &[Candidate]) -> Duration {
    let priorities = part.iter().map(|(node, _)| network.nodes[*node].priority());
    bounds.skew_unit * (256 - u32::from(priorities.max().unwrap_or(0))) / 256
}

/// The connected parts of the network, each as those in it that could hold the addresses.
fn parts(network: &Network) -> Vec<Vec<Candidate>> {
    let mut parts: BTreeMap<u8, Vec<Candidate>> = BTreeMap::new();
    for (index, node) in network.nodes.iter().enumerate() {
        if node.is_able() {
            parts
                .entry(node.part)
                .or_default()
                .push((index, node.n_starts));
        }
    }
    parts.into_values().collect()
}
