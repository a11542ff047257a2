//! The leases of a site on this node. The crate `exchange` decides; this carries requests and wakes those who wait.
//!
//! | task | does | ends |
//! | --- | --- | --- |
//! | rounds | sends the requests that are due, follows the contact with the other nodes | with the drain |
//! | a request, one a voter and round | carries one request, takes in its response | at its timeout |
//!
//! A lease is renewed only while its subscriber calls: one that has ended does not keep an address from the others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::healthd::Lease;
use daemon::clock;
use exchange::lease::{Answer, Demand, Kind, Leases, MAX_LEASES, Request, Response, Rule, State};
use exchange::members::{Contact, PeerId, Settings};
use parking_lot::Mutex;
use proto::lease::{millis, priority};
use proto::wire;
use proto::wire::exchange_client::ExchangeClient;
use tokio::sync::{Notify, watch};
use tonic::transport::Channel;

use crate::trail::{Change, Trail};

/// How long a call waits for a change. The lease of a subscriber that has died is renewed for no longer than this and
/// [`BETWEEN_CALLS`].
const CALL: Duration = Duration::from_millis(150);

/// How long a demand counts beyond that: until the next call has come.
const BETWEEN_CALLS: Duration = Duration::from_millis(100);

/// The longest name that counts.
const MAX_NAME: usize = 64;

/// The leases as they were after a step.
#[derive(Clone, Debug, PartialEq, Eq)]
struct View {
    /// Grows with each change.
    number: u64,
    /// Whether leases decide.
    rule: Rule,
    /// The states by name.
    states: States,
}

/// The states of leases by name.
type States = BTreeMap<Arc<str>, State>;

/// The leases; clones share them.
#[derive(Clone, Debug)]
pub(crate) struct LeaseTable {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// `None` without an exchange.
    leases: Mutex<Option<Leases>>,
    /// The recent past.
    trail: Arc<Mutex<Trail>>,
    /// The connections to peers that are heard.
    channels: Mutex<BTreeMap<PeerId, Channel>>,
    view: watch::Sender<View>,
    wake: Notify,
}

impl LeaseTable {
    /// No lease decides until [`begin`](Self::begin).
    ///
    /// Changes of a holder go to `trail`.
    pub(crate) fn new(trail: Arc<Mutex<Trail>>) -> Self {
        let view = View {
            number: 1,
            rule: Rule::FewNodes,
            states: BTreeMap::new(),
        };
        Self {
            shared: Arc::new(Shared {
                leases: Mutex::new(None),
                trail,
                channels: Mutex::default(),
                view: watch::Sender::new(view),
                wake: Notify::new(),
            }),
        }
    }

    /// Takes part in leases from now on.
    pub(crate) fn begin(&self, settings: &Settings) {
        let now = clock::now();
        let mut leases = Leases::new(&settings.node, &settings.peers, now);
        leases.set_rule(Rule::of(Contact::Joining, settings.peers.len() + 1), now);
        *self.shared.leases.lock() = Some(leases);
        self.step(|_, _| ());
    }

    /// The connection to a peer, while there is one.
    pub(crate) fn set_channel(&self, peer: PeerId, channel: Option<Channel>) {
        let mut channels = self.shared.channels.lock();
        let before = match channel {
            Some(channel) => channels.insert(peer, channel),
            None => channels.remove(&peer),
        };
        drop(channels);
        drop(before);
    }

    /// The connection to a peer, if there is one.
    pub(crate) fn channel(&self, peer: PeerId) -> Option<Channel> {
        self.shared.channels.lock().get(&peer).cloned()
    }

    fn view(&self) -> View {
        self.shared.view.borrow().clone()
    }

    /// The leases, for people; `node` is this node.
    pub(crate) fn shown(&self, node: &str) -> Vec<Lease> {
        let view = self.view();
        let states = view.states.into_iter();
        let shown = states.map(|(name, state)| Lease {
            name: name.to_string(),
            holder: holder(node, &state),
        });
        shown.collect()
    }

    /// Sends requests for as long as it is polled.
    pub(crate) async fn run(&self, mut contacts: watch::Receiver<Option<Contact>>) {
        loop {
            let contact = *contacts.borrow_and_update();
            let (requests, deadline) = self.plan(contact);
            for (peer, request) in requests {
                self.send(peer, request);
            }
            let due = async {
                match deadline {
                    Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.shared.wake.notified() => {}
                () = due => {}
                changed = contacts.changed() => if changed.is_err() {
                    return;
                },
            }
        }
    }

    fn plan(&self, contact: Option<Contact>) -> (Vec<(PeerId, Request)>, Option<Instant>) {
        let planned = self.step(|leases, now| {
            if let Some(contact) = contact {
                leases.set_rule(Rule::of(contact, leases.n_nodes()), now);
            }
            leases.advance(now);
            let requests = std::iter::from_fn(|| leases.poll_request()).collect();
            (requests, leases.next_deadline(now))
        });
        planned.unwrap_or_default()
    }

    /// Does one step, and tells those who wait of its changes.
    fn step<R>(&self, step: impl FnOnce(&mut Leases, Instant) -> R) -> Option<R> {
        let now = clock::now();
        let mut leases = self.shared.leases.lock();
        let leases = leases.as_mut()?;
        let result = step(leases, now);
        let rule = leases.rule();
        let names = leases.names();
        let states: BTreeMap<_, _> = names
            .map(|name| (Arc::clone(name), leases.state(name, now)))
            .collect();
        self.shared.view.send_if_modified(|view| {
            let is_changed = view.rule != rule || view.states != states;
            if is_changed {
                log_changes(view, rule, &states);
                self.note_changes(leases.node(), &view.states, &states);
                view.number += 1;
                view.rule = rule;
                view.states = states;
            }
            is_changed
        });
        Some(result)
    }

    /// Keeps the changes of holders for people; `node` is this node.
    fn note_changes(&self, node: &str, before: &States, after: &States) {
        let free = State::Free;
        let names: BTreeSet<&Arc<str>> = before.keys().chain(after.keys()).collect();
        for name in names {
            let of = |states: &States| holder(node, states.get(name).unwrap_or(&free));
            let (old, new) = (of(before), of(after));
            if old == new {
                continue;
            }
            let change = Change {
                what: format!("lease {name}"),
                state: new.unwrap_or_else(|| "free".to_owned()),
                why: old.map_or_else(String::new, |old| format!("{old} had it")),
                by: String::new(),
            };
            self.shared.trail.lock().note(clock::since_1970(), change);
        }
    }

    fn send(&self, peer: PeerId, request: Request) {
        let channel = self.channel(peer);
        // A peer that is not connected does not answer.
        let Some(channel) = channel else { return };
        let leases = self.clone();
        tokio::spawn(async move {
            // A later request says the same.
            let limit = request.term.max(CALL);
            let mut client = ExchangeClient::new(channel);
            let answered = tokio::time::timeout(limit, client.vote(to_wire(&request))).await;
            let Ok(Ok(response)) = answered else { return };
            let Some(answer) = from_wire(response.into_inner()) else {
                return;
            };
            let response = Response {
                name: request.name,
                round: request.round,
                answer,
            };
            leases.step(|leases, now| leases.hear(peer, &response, now));
            leases.shared.wake.notify_one();
        });
    }

    /// Answers the request of a peer.
    pub(crate) fn answer(&self, node: &str, request: &wire::VoteRequest) -> wire::VoteResponse {
        let answer = parse(request).and_then(|request| {
            let response = self.step(|leases, now| leases.answer(node, &request, now))?;
            self.shared.wake.notify_one();
            Some(response.answer)
        });
        let answer = match answer.unwrap_or(Answer::Abstained) {
            Answer::Granted { preempting } => {
                wire::vote_response::Answer::Granted(wire::VoteGranted {
                    preempting: preempting.into(),
                })
            }
            Answer::Held {
                holder,
                priority,
                left,
            } => wire::vote_response::Answer::Held(wire::VoteHeld {
                holder: holder.to_string(),
                priority: priority.into(),
                left_ms: millis(left),
            }),
            Answer::Outbid { counter } => {
                wire::vote_response::Answer::Outbid(wire::VoteOutbid { counter })
            }
            Answer::Abstained => wire::vote_response::Answer::Abstained(wire::VoteAbstained {}),
        };
        wire::VoteResponse {
            answer: Some(answer),
        }
    }

    /// Takes in the demands of a subscriber, and answers when there is a change, or after a while.
    pub(crate) async fn call(&self, request: wire::LeaseRequest) -> wire::LeaseResponse {
        let received = clock::now();
        let names: Vec<Arc<str>> = request
            .demands
            .iter()
            .take(MAX_LEASES)
            .filter(|demand| is_name(&demand.name))
            .map(|demand| demand.name.as_str().into())
            .collect();
        self.step(|leases, now| {
            for demand in request.demands.iter().take(MAX_LEASES) {
                if let Some(parsed) = parse_demand(demand, now) {
                    leases.demand(&demand.name.as_str().into(), parsed, now);
                }
            }
        });
        self.shared.wake.notify_one();
        let mut views = self.shared.view.subscribe();
        let changed = views.wait_for(|view| view.number != request.known);
        drop(tokio::time::timeout(CALL, changed).await);
        let view = self.view();
        let leases = names.iter().map(|name| {
            let state = view.states.get(name).unwrap_or(&State::Free);
            status(name, state, received)
        });
        wire::LeaseResponse {
            number: view.number,
            rule: match view.rule {
                Rule::Leases => wire::LeaseRule::Leases,
                Rule::Joining => wire::LeaseRule::Joining,
                Rule::CutOff => wire::LeaseRule::CutOff,
                Rule::FewNodes => wire::LeaseRule::FewNodes,
                Rule::Alone => wire::LeaseRule::Alone,
            }
            .into(),
            leases: leases.collect(),
        }
    }
}

/// The node that has a lease; `node` is this node.
fn holder(node: &str, state: &State) -> Option<String> {
    match state {
        State::Own { .. } => Some(node.to_owned()),
        State::Other { holder, .. } => Some(holder.to_string()),
        State::Free => None,
    }
}

fn log_changes(before: &View, rule: Rule, states: &BTreeMap<Arc<str>, State>) {
    if before.rule != rule {
        match rule {
            Rule::Leases => {
                tracing::info!(
                    "Leases of virtual addresses are granted by a majority of the nodes"
                );
            }
            Rule::CutOff => {
                tracing::warn!("This node is cut off: it has no lease of a virtual address");
            }
            Rule::Alone => tracing::warn!(
                "The healthds of most other nodes are away: virtual addresses go by VRRP alone"
            ),
            Rule::Joining | Rule::FewNodes => {}
        }
    }
    for (name, state) in states {
        match (before.states.get(name), state) {
            (Some(State::Own { .. }), State::Own { .. }) => {}
            (_, State::Own { .. }) => tracing::info!(%name, "This node has the lease"),
            (Some(State::Own { .. }), _) => {
                tracing::info!(%name, "This node has the lease no more");
            }
            (_, _) => {}
        }
    }
}

//--- Wire

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= MAX_NAME && !name.contains(char::is_control)
}

fn to_wire(request: &Request) -> wire::VoteRequest {
    let kind = match request.kind {
        Kind::Prepare => wire::VoteKind::Prepare,
        Kind::Propose => wire::VoteKind::Propose,
        Kind::Release => wire::VoteKind::Release,
    };
    wire::VoteRequest {
        name: request.name.to_string(),
        kind: kind.into(),
        counter: request.counter,
        round: request.round,
        echo: request.echo,
        term_ms: millis(request.term),
        priority: request.priority.into(),
        preempts: request.preempts,
        holds: request.holds,
    }
}

fn from_wire(response: wire::VoteResponse) -> Option<Answer> {
    Some(match response.answer? {
        wire::vote_response::Answer::Granted(granted) => Answer::Granted {
            preempting: priority(granted.preempting),
        },
        wire::vote_response::Answer::Held(held) => Answer::Held {
            holder: held
                .holder
                .chars()
                .take(MAX_NAME)
                .collect::<String>()
                .into(),
            priority: priority(held.priority),
            left: Duration::from_millis(held.left_ms.into()),
        },
        wire::vote_response::Answer::Outbid(outbid) => Answer::Outbid {
            counter: outbid.counter,
        },
        wire::vote_response::Answer::Abstained(_) => Answer::Abstained,
    })
}

/// A request of a kind that this version does not know is not answered with a grant.
fn parse(request: &wire::VoteRequest) -> Option<Request> {
    let kind = match wire::VoteKind::try_from(request.kind).ok()? {
        wire::VoteKind::Prepare => Kind::Prepare,
        wire::VoteKind::Propose => Kind::Propose,
        wire::VoteKind::Release => Kind::Release,
    };
    is_name(&request.name).then(|| Request {
        name: request.name.as_str().into(),
        kind,
        counter: request.counter,
        round: request.round,
        echo: request.echo,
        term: Duration::from_millis(request.term_ms.into()),
        priority: priority(request.priority),
        preempts: request.preempts,
        holds: request.holds,
    })
}

fn parse_demand(demand: &wire::LeaseDemand, now: Instant) -> Option<Demand> {
    let (wants, preempts) = match demand.want() {
        wire::LeaseWant::Unspecified => return None,
        wire::LeaseWant::Ask => (true, false),
        wire::LeaseWant::Preempt => (true, true),
        wire::LeaseWant::Drop => (false, false),
    };
    let holds = Duration::from_millis(demand.holds_ms.into()).min(exchange::lease::LONGEST_TERM);
    is_name(&demand.name).then(|| Demand {
        wants,
        preempts,
        priority: priority(demand.priority),
        term: Duration::from_millis(demand.term_ms.into()),
        holds_until: (demand.holds_ms > 0).then(|| now + holds),
        counts_until: now + CALL + BETWEEN_CALLS,
    })
}

fn status(name: &Arc<str>, state: &State, received: Instant) -> wire::LeaseStatus {
    let mut status = wire::LeaseStatus {
        name: name.to_string(),
        ..wire::LeaseStatus::default()
    };
    match state {
        State::Own { until, preempting } => {
            status.own_ms = millis(until.saturating_duration_since(received));
            status.preempting = (*preempting).into();
        }
        State::Other { holder, priority } => {
            status.holder = holder.to_string();
            status.holder_priority = (*priority).into();
        }
        State::Free => {}
    }
    status
}
