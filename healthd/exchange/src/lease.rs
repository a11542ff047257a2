//! Leases: a name, such as that of a virtual router, belongs to one node for a time, because a majority of the nodes
//! has promised it.
//!
//! ```text
//! candidate                               every voter (itself included)
//!    │ prepare(counter) ───────────────────► no other node has it: promises to accept no lower ballot
//!    │ majority ◄──────────────────────────  granted
//!    │ propose(counter, term) ─────────────► accepts it for the term, from now on
//!    │ majority ◄──────────────────────────  granted: the candidate has it for the horizon, from the *sending* on
//!    │ propose again, each twelfth of a term
//! ```
//!
//! There is no log and nothing on disk. This is `PaxosLease` (arXiv 1209.4187), with these rules besides. For safety:
//!
//! - A holder counts four fifths of the term, less a margin: two clocks that are slewed may run 17 % apart.
//!   So it has stopped before the first voter's promise ends.
//! - A voter that has just started may have forgotten a promise. It grants nothing for longer than the longest term, except
//!   to a node that holds the lease now: no other node can have a majority then.
//! - A voter that knows of another holder refuses a prepare and makes no promise, so a candidate does not disturb a holder.
//! - A renewal names the last grant that its sender has heard. A voter whose grants are not heard ceases to extend, or a
//!   node that hears nothing would keep the lease from all for ever.
//! - A holder keeps its lease whatever priority others have. It learns of a node that may preempt it, and releases the lease itself.
//!
//! For speed, which is bounded by the term and two rounds (the simulation of `vrrp` asserts it). None of these rules grants anything:
//!
//! - A candidate that hears of a holder asks again when the first grant ends, and not by a timer of its own.
//! - A ballot is higher than all that its node knows. One that has lost is followed by the next at once, and when two candidates
//!   outbid each other, by one after a random wait.
//! - A proposal that a majority cannot accept any more is released, or those who have accepted it would keep the lease from all
//!   for a term. Its late answers do not count, and voters refuse it when it comes late.
//! - A candidate prepares only if a majority may promise, by the last answers. Else it asks with the lowest number ([`QUESTION`]):
//!   one that is half cut off would outbid those that could have the lease.
//!
//! Pure: the caller sends, and proves the name of each sender.

mod round;

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

use self::round::{Round, Vote};
use crate::members::{Contact, MIN_NODES, PeerId};

/// The longest term: a voter that has just started waits for longer than this.
pub const LONGEST_TERM: Duration = Duration::from_secs(3);

/// Leases that are known at once. A site has a few virtual addresses.
pub const MAX_LEASES: usize = 64;

/// How long a voter without memory grants nothing: the longest term on a clock that runs fast.
const QUIET: Duration = Duration::from_millis(3_600);

/// The part of its time that a holder leaves for the removal of addresses.
const MARGIN: Duration = Duration::from_millis(20);

/// Renewals in a term.
const ROUNDS_A_TERM: u32 = 12;

/// Rounds of all leases that a candidate may begin before it hears of one, to preempt a holder.
const MAX_UNHEARD: u64 = 12;

/// The number of a prepare that asks whether a majority answers. It is lower than any promise, so it outbids no candidate.
const QUESTION: u64 = 0;

/// Rounds whose answers count.
const MAX_ROUNDS: usize = 8;

/// How long a holder may take its lease to be its own, counted from when it sent the renewal.
#[must_use]
pub fn horizon(term: Duration) -> Duration {
    (term * 4 / 5).saturating_sub(MARGIN)
}

/// The time between two renewals.
#[must_use]
pub fn round_time(term: Duration) -> Duration {
    term / ROUNDS_A_TERM
}

/// Whether leases decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// They do: a majority of the nodes is heard.
    Leases,
    /// They may: this node has just started.
    Joining,
    /// They do, and this node is cut off.
    CutOff,
    /// They do not: there are fewer than three nodes.
    FewNodes,
    /// They do not: the healthds of most other nodes are away.
    Alone,
}

impl Rule {
    /// The rule for a node in such contact with the others.
    #[must_use]
    pub const fn of(contact: Contact, n_nodes: usize) -> Self {
        match contact {
            _ if n_nodes < MIN_NODES => Self::FewNodes,
            Contact::Connected => Self::Leases,
            Contact::Joining => Self::Joining,
            Contact::CutOff => Self::CutOff,
            Contact::Alone => Self::Alone,
        }
    }

    /// Whether nodes need a lease.
    #[must_use]
    pub const fn needs_lease(self) -> bool {
        matches!(self, Self::Leases | Self::Joining | Self::CutOff)
    }
}

/// The demand of this node for a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// Whether it wants to have it.
    pub wants: bool,
    /// Whether a holder of a lower priority is to give it up.
    pub preempts: bool,
    /// Its priority.
    pub priority: u8,
    /// The term; no longer than [`LONGEST_TERM`] counts.
    pub term: Duration,
    /// Until when it holds the addresses by an earlier grant, or has held them without leases.
    pub holds_until: Option<Instant>,
    /// Until when the demand counts. Then the lease is not renewed, and not released either.
    pub counts_until: Instant,
}

/// The state of a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// This node has it.
    Own {
        /// Until when, by this node's clock.
        until: Instant,
        /// The highest priority of a node that is to preempt this one; 0 without any.
        preempting: u8,
    },
    /// Another node has it.
    Other {
        /// Its name.
        holder: Arc<str>,
        /// Its priority.
        priority: u8,
    },
    /// No node is known to have it.
    Free,
}

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// May this ballot be proposed?
    Prepare,
    /// Grant the lease, or extend it.
    Propose,
    /// The sender does not have the lease any more.
    Release,
}

/// A request to a voter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The name of the lease.
    pub name: Arc<str>,
    /// The kind.
    pub kind: Kind,
    /// The ballot's number; with the sender's name, no two ballots are the same.
    pub counter: u64,
    /// Names the request; a response has the same.
    pub round: u64,
    /// The newest request that this voter has granted, or refused because another node has the lease, as far as the sender has
    /// heard.
    pub echo: u64,
    /// The term.
    pub term: Duration,
    /// The sender's priority.
    pub priority: u8,
    /// Whether a holder of a lower priority is to give the lease up.
    pub preempts: bool,
    /// Whether the sender has the lease now.
    pub holds: bool,
}

/// A voter's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Yes.
    Granted {
        /// The highest priority of a node that is to preempt the sender; 0 without any.
        preempting: u8,
    },
    /// Another node has the lease.
    Held {
        /// Its name.
        holder: Arc<str>,
        /// Its priority.
        priority: u8,
        /// How much longer.
        left: Duration,
    },
    /// A ballot with this number has been promised.
    Outbid {
        /// The number.
        counter: u64,
    },
    /// The voter does not vote: it has just started, is not heard by the sender, or has no room.
    Abstained,
}

/// A response to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The name of the lease.
    pub name: Arc<str>,
    /// The request.
    pub round: u64,
    /// The answer.
    pub answer: Answer,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Ballot {
    counter: u64,
    node: Arc<str>,
}

/// A voter's grant.
#[derive(Clone, Debug)]
struct Grant {
    ballot: Ballot,
    priority: u8,
    until: Instant,
    /// The newest request that the holder has named as granted.
    echoed: u64,
    /// When it did.
    proven: Instant,
}

/// A node that wants to preempt the holder.
#[derive(Clone, Debug)]
struct Preempting {
    priority: u8,
    until: Instant,
}

/// Names a voter: a peer, or this node.
type Voter = Option<PeerId>;

/// The holder that another voter has named.
#[derive(Clone, Debug)]
struct Seen {
    holder: Arc<str>,
    priority: u8,
    /// When its grant ends there.
    until: Instant,
    /// The round in which it was named first.
    first: u64,
}

/// One lease: this node as a voter, and as a candidate.
#[derive(Debug, Default)]
struct Slot {
    //--- The voter
    promised: Option<Ballot>,
    grant: Option<Grant>,
    preempting: Option<Preempting>,
    //--- The candidate
    demand: Option<Demand>,
    /// Until when this node holds by what its subscriber has said; it does not say so again when it hears that the lease is free.
    held_until: Option<Instant>,
    counter: u64,
    rounds: VecDeque<Round>,
    /// When the next round begins.
    next: Option<Instant>,
    until: Option<Instant>,
    /// When the voters' promise of the newest lease of this node ends, by this node's clock.
    promised_until: Option<Instant>,
    /// The present ballot can get no majority, or a voter refuses renewals of it: the next round prepares.
    is_outbid: bool,
    /// The highest number that a voter has named.
    highest: u64,
    /// How many ballots in a row have lost against others.
    n_lost: u32,
    echoes: BTreeMap<Voter, u64>,
    preempted_by: BTreeMap<Voter, u8>,
    seen: Option<Seen>,
    /// When the last request came.
    touched: Option<Instant>,
}

/// All leases of a site, as one node knows them.
#[derive(Debug)]
pub struct Leases {
    node: Arc<str>,
    peers: Vec<Arc<str>>,
    rule: Rule,
    quiet_until: Instant,
    slots: BTreeMap<Arc<str>, Slot>,
    n_rounds: u64,
    requests: VecDeque<(PeerId, Request)>,
}

impl Leases {
    /// No lease is known, and none is granted for a while.
    #[must_use]
    pub fn new(node: &str, peers: &[String], now: Instant) -> Self {
        Self {
            node: node.into(),
            peers: peers.iter().map(|name| name.as_str().into()).collect(),
            rule: Rule::Joining,
            quiet_until: now + QUIET,
            slots: BTreeMap::new(),
            n_rounds: 0,
            requests: VecDeque::new(),
        }
    }

    /// Whether leases decide.
    #[must_use]
    pub const fn rule(&self) -> Rule {
        self.rule
    }

    /// How many nodes there are.
    #[must_use]
    pub const fn n_nodes(&self) -> usize {
        self.peers.len() + 1
    }

    /// This node.
    #[must_use]
    pub fn node(&self) -> &str {
        &self.node
    }

    /// The names of the leases that are known.
    pub fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.slots.keys()
    }

    /// Leases decide from now on, or do not.
    pub fn set_rule(&mut self, rule: Rule, now: Instant) {
        if rule == self.rule {
            return;
        }
        let began = !self.rule.needs_lease() && rule.needs_lease();
        self.rule = rule;
        if began {
            // A node that holds addresses without a lease asks first.
            for slot in self.slots.values_mut() {
                slot.next = slot.next.map(|_| now);
            }
        }
    }

    /// Takes in what this node wants. Without a demand it does not ask.
    pub fn demand(&mut self, name: &Arc<str>, demand: Demand, now: Instant) {
        let is_known = self.slots.contains_key(name);
        if !is_known && (!demand.wants || !self.has_room(now)) {
            return;
        }
        let slot = self.slots.entry(Arc::clone(name)).or_default();
        let before = slot.demand.replace(demand);
        slot.held_until = match demand.wants {
            true => slot.held_until.max(demand.holds_until),
            false => None,
        };
        let wanted = before.is_some_and(|before| before.wants);
        if demand.wants && slot.next.is_none() {
            slot.next = Some(now);
        }
        if wanted && !demand.wants {
            self.release(name, now);
        }
        self.advance(now);
    }

    /// The state of a lease, while [`Rule::needs_lease`].
    #[must_use]
    pub fn state(&self, name: &str, now: Instant) -> State {
        let Some(slot) = self.slots.get(name) else {
            return State::Free;
        };
        if let Some(until) = slot.until.filter(|until| now < *until) {
            let preempting = slot.preempting_by(self.majority());
            return State::Own { until, preempting };
        }
        let grant = slot.grant.as_ref().filter(|grant| now < grant.until);
        let grant = grant.filter(|grant| grant.ballot.node != self.node);
        if let Some(grant) = grant {
            return State::Other {
                holder: Arc::clone(&grant.ballot.node),
                priority: grant.priority,
            };
        }
        match &slot.seen {
            Some(seen) if now < seen.until => State::Other {
                holder: Arc::clone(&seen.holder),
                priority: seen.priority,
            },
            _ => State::Free,
        }
    }

    /// Whether there is room for another lease. One that no node has asked for lately is forgotten first.
    fn has_room(&mut self, now: Instant) -> bool {
        if self.slots.len() >= MAX_LEASES {
            let lately = |touched: Instant| now < touched + QUIET;
            self.slots.retain(|_, slot| {
                slot.demand.is_some_and(|demand| demand.wants) || slot.touched.is_some_and(lately)
            });
        }
        self.slots.len() < MAX_LEASES
    }

    fn majority(&self) -> usize {
        self.n_nodes() / 2 + 1
    }
}

//--- The candidate

impl Leases {
    /// Begins the rounds that are due.
    pub fn advance(&mut self, now: Instant) {
        let due: Vec<Arc<str>> = self
            .slots
            .iter()
            .filter(|(_, slot)| slot.next.is_some_and(|next| next <= now))
            .map(|(name, _)| Arc::clone(name))
            .collect();
        for name in due {
            self.begin_round(&name, now);
        }
    }

    /// The next request to send.
    pub fn poll_request(&mut self) -> Option<(PeerId, Request)> {
        self.requests.pop_front()
    }

    /// When to [`advance`](Self::advance), or to look at the states again.
    #[must_use]
    pub fn next_deadline(&self, now: Instant) -> Option<Instant> {
        let slots = self.slots.values();
        let deadlines = slots.flat_map(|slot| {
            let grant = slot.grant.as_ref().map(|grant| grant.until);
            let seen = slot.seen.as_ref().map(|seen| seen.until);
            let ends = [grant, seen, slot.until].into_iter().flatten();
            ends.filter(|end| now < *end)
                .chain(slot.next)
                .collect::<Vec<_>>()
        });
        deadlines.min()
    }

    /// Takes in a response of a peer.
    pub fn hear(&mut self, peer: PeerId, response: &Response, now: Instant) {
        if peer.0 < self.peers.len() {
            self.take(Some(peer), response, now);
        }
        self.advance(now);
    }

    fn begin_round(&mut self, name: &Arc<str>, now: Instant) {
        let (needs_lease, majority) = (self.rule.needs_lease(), self.majority());
        if self
            .slots
            .get(name)
            .is_some_and(|slot| slot.is_refused(now))
        {
            self.withdraw(name, now);
        }
        let n_rounds = &mut self.n_rounds;
        let Some(slot) = self.slots.get_mut(name) else {
            return;
        };
        let demand = slot
            .demand
            .filter(|demand| demand.wants && now < demand.counts_until);
        let Some(demand) = demand else {
            slot.rest();
            return;
        };
        let term = demand.term.min(LONGEST_TERM);
        if !needs_lease {
            // Looked at again when leases decide.
            slot.next = Some(now + round_time(term));
            return;
        }
        let holds = slot.holds(now);
        if !holds && slot.until.take().is_some() {
            slot.is_outbid = true;
        }
        let (kind, counter) = slot.next_ballot(majority, now);
        *n_rounds += 1;
        let number = *n_rounds;
        if kind == Kind::Prepare {
            slot.rounds.retain(|round| round.kind == Kind::Propose);
            slot.is_outbid = false;
        }
        if slot.rounds.len() == MAX_ROUNDS {
            slot.rounds.pop_front();
        }
        slot.rounds.push_back(Round {
            number,
            kind,
            counter,
            term,
            sent: now,
            answers: BTreeMap::new(),
            free_at: None,
        });
        let spread = match holds {
            true => Duration::ZERO,
            false => spread(&self.node, number, term),
        };
        slot.next = Some(now + round_time(term) + spread);
        let request = Request {
            name: Arc::clone(name),
            kind,
            counter,
            round: number,
            echo: 0,
            term,
            priority: demand.priority,
            preempts: demand.preempts,
            holds: holds || slot.held_until.is_some_and(|until| now < until),
        };
        self.send_round(&request, now);
    }

    /// Asks every voter, this node included.
    fn send_round(&mut self, request: &Request, now: Instant) {
        let n_peers = self.peers.len();
        let Some(slot) = self.slots.get(&request.name) else {
            return;
        };
        let to = |voter: Voter| Request {
            echo: slot.echoes.get(&voter).copied().unwrap_or(0),
            ..request.clone()
        };
        let peers = (0..n_peers).map(PeerId);
        self.requests
            .extend(peers.map(|peer| (peer, to(Some(peer)))));
        let own = to(None);
        let node = Arc::clone(&self.node);
        let answer = self.vote(&node, &own, now);
        let response = Response {
            name: own.name,
            round: own.round,
            answer,
        };
        self.take(None, &response, now);
    }

    fn take(&mut self, voter: Voter, response: &Response, now: Instant) {
        let majority = self.majority();
        let Some(slot) = self.slots.get_mut(&response.name) else {
            return;
        };
        let Some(round) = slot
            .rounds
            .iter_mut()
            .find(|round| round.number == response.round)
        else {
            return;
        };
        round.note(voter, &response.answer, now);
        let is_current = round.counter == slot.counter;
        let (kind, term, n_granted) = (round.kind, round.term, round.count(Vote::Granted));
        // The voters have granted the term that they were asked for, whatever is wanted by now.
        let (until, promised_until) = (round.sent + horizon(round.term), now + round.term);
        if round.counter == QUESTION && round.n_open() == majority {
            slot.seen = None;
            slot.next = slot.next.map(|_| now);
        }
        let free_at = round.free_at;
        match &response.answer {
            Answer::Granted { preempting } => {
                slot.note_echo(voter, response.round);
                slot.preempted_by.insert(voter, *preempting);
                let wants = slot.demand.is_some_and(|demand| demand.wants);
                if !is_current || !wants || n_granted < majority {
                    return;
                }
                match kind {
                    Kind::Prepare if slot.is_prepared(majority) => slot.next = Some(now),
                    Kind::Propose => {
                        slot.until = slot.until.max(Some(until));
                        slot.promised_until = Some(promised_until);
                        slot.seen = None;
                        slot.n_lost = 0;
                    }
                    Kind::Prepare | Kind::Release => {}
                }
            }
            Answer::Held {
                holder,
                priority,
                left,
            } => {
                slot.note_echo(voter, response.round);
                // Until the next round has asked whether it has it still.
                let until = now + (*left).min(LONGEST_TERM) + round_time(term);
                slot.see(holder, *priority, until, response.round);
                let is_candidate = !slot.holds(now) && !slot.is_prepared(majority);
                if is_candidate && slot.has_seen_before(response.round) {
                    slot.ask_when_free(free_at);
                }
            }
            Answer::Outbid { counter } => {
                slot.highest = slot.highest.max(*counter);
                slot.is_outbid |= slot.holds(now);
            }
            Answer::Abstained => {}
        }
        self.give_up_if_lost(&response.name, response.round, now);
    }

    /// Ends the present ballot if it can get no majority any more.
    fn give_up_if_lost(&mut self, name: &Arc<str>, number: u64, now: Instant) {
        let (majority, n_nodes) = (self.majority(), self.n_nodes());
        let node = Arc::clone(&self.node);
        let Some(slot) = self.slots.get_mut(name) else {
            return;
        };
        if slot.holds(now) || slot.is_outbid || !slot.is_lost(number, majority, n_nodes) {
            return;
        }
        slot.is_outbid = true;
        let round = slot.rounds.iter().find(|round| round.number == number);
        let is_outbid = round.is_some_and(|round| round.count(Vote::Outbid) > 0);
        let was_proposed = round.is_some_and(|round| round.kind == Kind::Propose);
        if is_outbid {
            slot.ask_after_loss(&node, number, now);
        }
        if was_proposed {
            self.withdraw(name, now);
        }
    }

    /// Takes back a proposal that a majority has not accepted: those who have would keep the lease from all for a term. Not where
    /// this node holds by an earlier grant, of before its healthd started, or has held until now: the voters' promise of that
    /// would go too, and with it the time that is left for the removal of addresses.
    fn withdraw(&mut self, name: &Arc<str>, now: Instant) {
        let Some(slot) = self.slots.get_mut(name) else {
            return;
        };
        // Late answers do not count any more.
        slot.rounds.retain(|round| round.kind == Kind::Prepare);
        slot.is_outbid = true;
        let is_over = |until: Option<Instant>| until.is_none_or(|until| until <= now);
        if is_over(slot.held_until) && is_over(slot.promised_until) {
            self.send_release(name, now);
        }
    }

    /// This node does not have the lease any more, and its addresses are gone, or are about to be another's.
    fn release(&mut self, name: &Arc<str>, now: Instant) {
        let Some(slot) = self.slots.get_mut(name) else {
            return;
        };
        slot.rest();
        slot.until = None;
        self.send_release(name, now);
    }

    /// Has the voters forget what they have promised to the present ballot.
    fn send_release(&mut self, name: &Arc<str>, now: Instant) {
        let Some(slot) = self.slots.get(name) else {
            return;
        };
        self.n_rounds += 1;
        let request = Request {
            name: Arc::clone(name),
            kind: Kind::Release,
            counter: slot.counter,
            round: self.n_rounds,
            echo: 0,
            term: Duration::ZERO,
            priority: slot.demand.map_or(0, |demand| demand.priority),
            preempts: false,
            holds: false,
        };
        for number in 0..self.peers.len() {
            self.requests.push_back((PeerId(number), request.clone()));
        }
        let node = Arc::clone(&self.node);
        self.vote(&node, &request, now);
    }
}

impl Slot {
    /// Asks no more.
    fn rest(&mut self) {
        self.next = None;
        self.rounds.clear();
        self.preempted_by.clear();
        self.is_outbid = true;
    }

    /// The highest priority that a majority of the voters knows of a node that is to preempt this one: such a node is in contact
    /// with a majority.
    fn preempting_by(&self, majority: usize) -> u8 {
        let mut all: Vec<u8> = self.preempted_by.values().copied().collect();
        all.sort_unstable_by(|one, other| other.cmp(one));
        all.get(majority - 1).copied().unwrap_or(0)
    }

    /// Whether a majority of the nodes has promised the present ballot.
    fn is_prepared(&self, majority: usize) -> bool {
        let mut current = self
            .rounds
            .iter()
            .filter(|round| round.kind == Kind::Prepare && round.counter == self.counter);
        !self.is_outbid && current.any(|round| round.count(Vote::Granted) >= majority)
    }

    fn holds(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }

    fn last(&self, kind: Kind) -> Option<&Round> {
        let mut rounds = self.rounds.iter().rev();
        rounds.find(|round| round.kind == kind)
    }

    /// Whether a ballot may win, by the answers to the last one: if not, it would only outbid those that may.
    fn may_win(&self, majority: usize, now: Instant) -> bool {
        self.last(Kind::Prepare).is_none_or(|round| {
            let is_over = round.free_at.is_some_and(|free_at| free_at <= now);
            round.n_open() >= majority || (is_over && round.answers.len() >= majority)
        })
    }

    /// Whether too few voters are left that could grant the request of this round.
    fn is_lost(&self, number: u64, majority: usize, n_nodes: usize) -> bool {
        let mut rounds = self.rounds.iter();
        let Some(round) = rounds.find(|round| round.number == number) else {
            return false;
        };
        let is_silent = |voter: &&Voter| !round.answers.contains_key(*voter);
        // A proposal goes to those who have answered before.
        let n_silent = match (round.kind, self.last(Kind::Prepare)) {
            (Kind::Propose, Some(asked)) => asked.answers.keys().filter(is_silent).count(),
            _ => n_nodes - round.answers.len(),
        };
        round.counter == self.counter && round.count(Vote::Granted) + n_silent < majority
    }

    /// Whether the last proposal was refused by a voter, and has no majority yet.
    fn is_refused(&self, now: Instant) -> bool {
        let is_refused = |round: &Round| {
            round.kind == Kind::Propose && round.count(Vote::Granted) < round.answers.len()
        };
        !self.holds(now) && self.until.is_none() && self.rounds.back().is_some_and(is_refused)
    }

    fn see(&mut self, holder: &Arc<str>, priority: u8, until: Instant, round: u64) {
        let known = self.seen.as_ref().filter(|seen| seen.holder == *holder);
        self.seen = Some(Seen {
            holder: Arc::clone(holder),
            priority,
            until,
            first: known.map_or(round, |seen| seen.first),
        });
    }

    /// Whether the holder was named in an earlier round too: it is more than a candidate that a few have accepted.
    fn has_seen_before(&self, round: u64) -> bool {
        self.seen.as_ref().is_some_and(|seen| seen.first < round)
    }

    /// The kind of the next round, and the number of its ballot.
    fn next_ballot(&mut self, majority: usize, now: Instant) -> (Kind, u64) {
        let holds = self.holds(now);
        if self.is_prepared(majority) || (holds && !self.is_outbid) {
            (Kind::Propose, self.counter)
        } else if holds || self.may_win(majority, now) {
            (Kind::Prepare, self.next_counter())
        } else {
            (Kind::Prepare, QUESTION)
        }
    }

    /// A number above all that are known: a lower one would only be refused.
    fn next_counter(&mut self) -> u64 {
        let promised = self.promised.as_ref().map_or(0, |ballot| ballot.counter);
        let known = self.counter.max(self.highest).max(promised);
        self.counter = known.saturating_add(1);
        self.counter
    }

    fn note_echo(&mut self, voter: Voter, round: u64) {
        let echo = self.echoes.entry(voter).or_default();
        *echo = (*echo).max(round);
    }

    /// Another node has the lease until then: asks when it may be free, the higher the priority, the sooner. One that is to
    /// preempt the holder asks on.
    fn ask_when_free(&mut self, free_at: Option<Instant>) {
        if let Some(demand) = self.demand.filter(|demand| !demand.preempts)
            && let Some(free_at) = free_at
            && self.next.is_some()
        {
            self.next = Some(free_at + preference(&demand));
        }
    }

    /// The lease is given back: asks soon, the higher the priority, the sooner.
    fn ask_soon(&mut self, now: Instant) {
        if let Some(demand) = &self.demand {
            let at = now + preference(demand);
            self.next = self.next.map(|next| next.min(at));
        }
    }

    /// Another candidate was quicker, or this one did not know the last number. The first time it asks at once; then those that
    /// outbid each other wait, the lower their priority, the longer, and not equally long.
    fn ask_after_loss(&mut self, node: &str, number: u64, now: Instant) {
        let Some(demand) = self.demand else { return };
        let drawn = spread(node, number, demand.term.min(LONGEST_TERM));
        let wait = (preference(&demand) + drawn) * self.n_lost.min(3);
        self.n_lost = self.n_lost.saturating_add(1);
        self.next = self.next.map(|next| next.min(now + wait));
    }
}

/// How long a candidate leaves a lease that has become free to those of a higher priority: a ninth of the term at most.
fn preference(demand: &Demand) -> Duration {
    let term = demand.term.min(LONGEST_TERM);
    term / 9 * (256 - u32::from(demand.priority)) / 256
}

/// Candidates that have begun together do not ask together again.
fn spread(node: &str, number: u64, term: Duration) -> Duration {
    let mut hasher = DefaultHasher::new();
    (node, number).hash(&mut hasher);
    let parts = u32::try_from(hasher.finish() % 16).unwrap_or(0);
    round_time(term) * parts / 16
}

//--- The voter

impl Leases {
    /// Answers a request of the peer of this name.
    pub fn answer(&mut self, from: &str, request: &Request, now: Instant) -> Response {
        let peer = self.peers.iter().find(|peer| ***peer == *from).cloned();
        let answer = match peer {
            Some(peer) => self.vote(&peer, request, now),
            None => Answer::Abstained,
        };
        Response {
            name: Arc::clone(&request.name),
            round: request.round,
            answer,
        }
    }

    fn vote(&mut self, from: &Arc<str>, request: &Request, now: Instant) -> Answer {
        let is_known = self.slots.contains_key(&request.name);
        if !is_known && !self.has_room(now) {
            return Answer::Abstained;
        }
        let is_quiet = now < self.quiet_until;
        let slot = self.slots.entry(Arc::clone(&request.name)).or_default();
        slot.touched = Some(now);
        if slot.grant.as_ref().is_some_and(|grant| grant.until <= now) {
            slot.grant = None;
        }
        let ballot = Ballot {
            counter: request.counter,
            node: Arc::clone(from),
        };
        if request.kind == Kind::Release {
            return slot.take_back(ballot, now);
        }
        if let Some(grant) = &slot.grant
            && grant.ballot.node != *from
        {
            let answer = Answer::Held {
                holder: Arc::clone(&grant.ballot.node),
                priority: grant.priority,
                left: grant.until.saturating_duration_since(now),
            };
            // One that does not hear this voter could not get the lease.
            let hears =
                request.echo > 0 && request.round <= request.echo.saturating_add(MAX_UNHEARD);
            if request.preempts && hears {
                let until = now + request.term.min(LONGEST_TERM) / 2;
                slot.note_preempting(request.priority, until, now);
            }
            return answer;
        }
        if is_quiet && slot.grant.is_none() && !request.holds {
            return Answer::Abstained;
        }
        if let Some(promised) = slot
            .promised
            .as_ref()
            .filter(|promised| **promised > ballot)
        {
            return Answer::Outbid {
                counter: promised.counter,
            };
        }
        if request.kind == Kind::Propose && !slot.accept(&ballot, request, now) {
            return Answer::Abstained;
        }
        slot.promised = Some(ballot);
        let preempting = slot.preempting.as_ref();
        let preempting = preempting.filter(|preempting| now < preempting.until);
        Answer::Granted {
            preempting: preempting.map_or(0, |preempting| preempting.priority),
        }
    }
}

impl Slot {
    /// Grants the lease; false when the holder does not hear this voter.
    fn accept(&mut self, ballot: &Ballot, request: &Request, now: Instant) -> bool {
        let term = request.term.min(LONGEST_TERM);
        let before = self.grant.as_ref().filter(|grant| grant.ballot == *ballot);
        let (echoed, proven) = match before {
            Some(before) if request.echo > before.echoed => (request.echo, now),
            Some(before) => (before.echoed, before.proven),
            None => (request.echo, now),
        };
        if now.saturating_duration_since(proven) > term / 2 {
            return false;
        }
        self.grant = Some(Grant {
            ballot: ballot.clone(),
            priority: request.priority,
            until: now + term,
            echoed,
            proven,
        });
        true
    }

    /// The holder gives the lease back. Its proposals that come late do not count any more.
    fn take_back(&mut self, ballot: Ballot, now: Instant) -> Answer {
        let is_its = |of: &Ballot| of.node == ballot.node && *of <= ballot;
        let was_granted = self
            .grant
            .as_ref()
            .is_some_and(|grant| is_its(&grant.ballot));
        let was_promised = self.promised.as_ref().is_some_and(is_its);
        let was_seen = self
            .seen
            .as_ref()
            .is_some_and(|seen| seen.holder == ballot.node);
        if was_granted {
            self.grant = None;
            self.preempting = None;
        }
        if was_seen {
            self.seen = None;
        }
        if was_granted || was_seen {
            self.ask_soon(now);
        }
        if was_granted || was_promised {
            let after = Ballot {
                counter: ballot.counter.saturating_add(1),
                node: ballot.node,
            };
            self.promised = self.promised.take().max(Some(after));
        }
        Answer::Granted { preempting: 0 }
    }

    fn note_preempting(&mut self, priority: u8, until: Instant, now: Instant) {
        let known = self.preempting.as_ref();
        let is_lower = known.is_some_and(|known| now < known.until && priority < known.priority);
        if !is_lower {
            self.preempting = Some(Preempting { priority, until });
        }
    }
}

#[cfg(test)]
mod tests;
