//! Leases of this node, such as those of virtual routers: asked for, kept and given up through its healthd.
//!
//! [`LeaseClient`] says what the service wants of each lease, call after call, and publishes what it has. While healthd is
//! away, a lease that is known holds until its end. Then the rule is [`Rule::Away`], and the service decides by other means.
//!
//! The end of a lease is counted from when a call is sent, so that no delay makes it later than it is.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use daemon::clock;
use daemon::latest::{Latest, Reader};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tonic::Code;
use tonic::transport::Channel;

use crate::connection::{Connection, Sentences};
use crate::endpoint::{self, Endpoint};
use crate::reconnect::{backoff, chain};
use crate::wire;
use crate::wire::health_client::HealthClient;

/// healthd answers within a part of a second; one that does not is away.
const CALL_LIMIT: Duration = Duration::from_secs(1);

/// A healthd of an earlier version grants no leases; this is the time until the next try.
const UNKNOWN_WAIT: Duration = Duration::from_secs(5);

const SENTENCES: Sentences = Sentences {
    connected: "healthd answers for leases",
    lost: "healthd does not answer for leases; those that are known hold until their end",
};

/// The kind of a demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// Nothing yet: only to know its state. A lease that an earlier process of the service has is left to it.
    Nothing,
    /// To have it.
    Ask,
    /// To have it, from a holder of a lower priority too.
    Preempt,
    /// Not to have it.
    Drop,
}

/// The demand of a service for a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// The kind.
    pub want: Want,
    /// Its priority.
    pub priority: u8,
    /// The term.
    pub term: Duration,
    /// Whether it holds what the lease is for.
    pub is_active: bool,
}

/// The demands by the name of the lease.
pub type Demands = BTreeMap<Arc<str>, Demand>;

/// Whether leases decide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rule {
    /// Nothing is heard of healthd yet, or it has just started.
    #[default]
    Awaited,
    /// They do.
    Leases,
    /// They do, and this node is cut off from most others.
    CutOff,
    /// They do not: there are fewer than three nodes, or healthd grants none.
    FewNodes,
    /// They do not: the healthds of most other nodes are away.
    Alone,
    /// They do not: the healthd of this node is away.
    Away,
}

/// A lease as this node knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// No node has it.
    Free,
    /// Another node has it.
    Other {
        /// Its name.
        holder: Arc<str>,
        /// Its priority.
        priority: u8,
    },
    /// This node has it.
    Own {
        /// Until when.
        until: Instant,
        /// The highest priority of a node that is to preempt this one; 0 without any.
        preempting: u8,
    },
}

/// All leases of a service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leases {
    /// Whether they decide.
    pub rule: Rule,
    /// Those that were asked about.
    pub states: BTreeMap<Arc<str>, State>,
}

/// Calls healthd until it is dropped.
#[derive(Debug)]
pub struct LeaseClient {
    demands: watch::Sender<Demands>,
    leases: Arc<Latest<Leases>>,
    task: JoinHandle<()>,
}

impl LeaseClient {
    /// Begins to call as soon as there is a demand; needs a tokio runtime. Without healthd no lease is needed.
    #[must_use]
    pub fn start(endpoint: Option<Endpoint>) -> Self {
        let (demands, read) = watch::channel(Demands::new());
        let leases = Latest::new(Leases::default());
        let published = Arc::clone(&leases);
        let task = tokio::spawn(async move {
            let mut asked = read.clone();
            match endpoint {
                Some(endpoint) => {
                    let caller = Caller {
                        demands: read,
                        leases: published,
                        connection: Connection::new(endpoint, SENTENCES),
                        client: None,
                        number: 0,
                        heard: clock::now(),
                    };
                    caller.run().await;
                }
                None => {
                    let asked = asked.wait_for(|demands| !demands.is_empty()).await;
                    if asked.is_ok() {
                        published.publish(Leases {
                            rule: Rule::FewNodes,
                            states: BTreeMap::new(),
                        });
                    }
                }
            }
        });
        Self {
            demands,
            leases,
            task,
        }
    }

    /// Reads the leases, and waits for changes of them.
    #[must_use]
    pub fn reader(&self) -> Reader<Leases> {
        self.leases.reader()
    }

    /// Takes demands, each by its name.
    #[must_use]
    pub fn demands(&self) -> DemandSender {
        DemandSender(self.demands.clone())
    }
}

impl Drop for LeaseClient {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Says demands; clones share them.
#[derive(Clone, Debug)]
pub struct DemandSender(watch::Sender<Demands>);

impl DemandSender {
    /// Says what the service wants of a lease.
    pub fn say(&self, name: &Arc<str>, demand: Demand) {
        self.0.send_if_modified(|demands| {
            let before = demands.insert(Arc::clone(name), demand);
            before != Some(demand)
        });
    }
}

/// The task behind a [`LeaseClient`].
struct Caller {
    demands: watch::Receiver<Demands>,
    leases: Arc<Latest<Leases>>,
    connection: Connection,
    client: Option<HealthClient<Channel>>,
    /// The number of the last response.
    number: u64,
    /// When healthd answered last, or the calls began.
    heard: Instant,
}

/// Why a call had no answer.
struct Failure {
    reason: String,
    /// healthd does not know the call.
    is_unknown: bool,
}

impl Caller {
    async fn run(mut self) {
        let mut wait = backoff();
        loop {
            let mut read = self.demands.clone();
            if read.wait_for(|demands| !demands.is_empty()).await.is_err() {
                return;
            }
            let demands = read.borrow_and_update().clone();
            let sent = clock::now();
            let answered = tokio::select! {
                answered = self.call(&demands, sent) => Some(answered),
                // Said at once; the call before is given up.
                changed = read.changed() => match changed {
                    Ok(()) => None,
                    Err(_) => return,
                },
            };
            match answered {
                None => {}
                Some(Ok(response)) => {
                    wait = backoff();
                    self.connection.connected();
                    self.take(&response, sent);
                }
                Some(Err(failure)) => {
                    self.client = None;
                    self.connection.lost(&failure.reason);
                    let pause = match failure.is_unknown {
                        true => {
                            self.publish(Rule::FewNodes, BTreeMap::new());
                            UNKNOWN_WAIT
                        }
                        false => wait.next_wait(),
                    };
                    self.pause(pause, &demands).await;
                }
            }
        }
    }

    /// Waits before another try. healthd counts as away when the leases that it has granted are over.
    async fn pause(&mut self, pause: Duration, demands: &Demands) {
        let end = clock::now() + pause;
        let terms = demands.values().map(|demand| demand.term);
        let away = self.heard + terms.max().unwrap_or_default();
        if away < end {
            tokio::time::sleep_until(away.into()).await;
            if self.leases.current().rule != Rule::FewNodes {
                self.publish(Rule::Away, BTreeMap::new());
            }
        }
        tokio::time::sleep_until(end.into()).await;
    }

    async fn call(
        &mut self,
        demands: &Demands,
        sent: Instant,
    ) -> Result<wire::LeaseResponse, Failure> {
        let failed = |reason: String| Failure {
            reason,
            is_unknown: false,
        };
        let request = self.request(demands, sent);
        let answered = tokio::time::timeout(CALL_LIMIT, async {
            if self.client.is_none() {
                let channel = endpoint::connect(self.connection.endpoint()).await;
                let channel = channel.map_err(|error| failed(chain(&error)))?;
                self.client = Some(HealthClient::new(channel));
            }
            let Some(client) = &mut self.client else {
                return Err(failed("not connected".to_owned()));
            };
            let answered = client.lease(request).await;
            answered.map_err(|status| Failure {
                reason: status.message().to_owned(),
                is_unknown: status.code() == Code::Unimplemented,
            })
        });
        match answered.await {
            Ok(answered) => answered.map(tonic::Response::into_inner),
            Err(_) => Err(failed(format!("no answer within {CALL_LIMIT:?}"))),
        }
    }

    fn request(&self, demands: &Demands, now: Instant) -> wire::LeaseRequest {
        let leases = self.leases.current();
        let demand = |(name, demand): (&Arc<str>, &Demand)| wire::LeaseDemand {
            name: name.to_string(),
            want: match demand.want {
                Want::Nothing => wire::LeaseWant::Unspecified,
                Want::Ask => wire::LeaseWant::Ask,
                Want::Preempt => wire::LeaseWant::Preempt,
                Want::Drop => wire::LeaseWant::Drop,
            }
            .into(),
            priority: demand.priority.into(),
            term_ms: millis(demand.term),
            holds_ms: match (demand.is_active, leases.states.get(name)) {
                (false, _) => 0,
                (true, Some(State::Own { until, .. })) => {
                    millis(until.saturating_duration_since(now))
                }
                // Active without a lease, because none was needed or known.
                (true, _) => match leases.rule {
                    Rule::Leases | Rule::CutOff => 0,
                    Rule::Awaited | Rule::FewNodes | Rule::Alone | Rule::Away => {
                        millis(demand.term)
                    }
                },
            },
        };
        wire::LeaseRequest {
            known: self.number,
            demands: demands.iter().map(demand).collect(),
        }
    }

    fn take(&mut self, response: &wire::LeaseResponse, sent: Instant) {
        self.number = response.number;
        self.heard = clock::now();
        let rule = match response.rule() {
            wire::LeaseRule::Leases => Rule::Leases,
            wire::LeaseRule::Joining => Rule::Awaited,
            wire::LeaseRule::CutOff => Rule::CutOff,
            wire::LeaseRule::Alone => Rule::Alone,
            wire::LeaseRule::Unspecified | wire::LeaseRule::FewNodes => Rule::FewNodes,
        };
        let before = self.leases.current();
        let states = response.leases.iter().map(|lease| {
            let state = state(lease, sent);
            // A healthd that has just started knows nothing of a lease that it has granted before.
            let known = before.states.get(lease.name.as_str());
            let state = match (rule, state, known) {
                (Rule::Awaited, State::Free, Some(known @ State::Own { .. })) => known.clone(),
                (_, state, _) => state,
            };
            (lease.name.as_str().into(), state)
        });
        let states = states.collect();
        self.publish(rule, states);
    }

    fn publish(&self, rule: Rule, states: BTreeMap<Arc<str>, State>) {
        self.leases.publish_if_changed(Leases { rule, states });
    }
}

/// A time in whole milliseconds.
#[must_use]
pub fn millis(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}

/// A priority, the highest for a number beyond it.
#[must_use]
pub fn priority(number: u32) -> u8 {
    u8::try_from(number).unwrap_or(u8::MAX)
}

fn state(lease: &wire::LeaseStatus, sent: Instant) -> State {
    if lease.own_ms > 0 {
        State::Own {
            until: sent + Duration::from_millis(lease.own_ms.into()),
            preempting: priority(lease.preempting),
        }
    } else if lease.holder.is_empty() {
        State::Free
    } else {
        State::Other {
            holder: lease.holder.as_str().into(),
            priority: priority(lease.holder_priority),
        }
    }
}
