//! The leases of this node's virtual IPs: their states go from healthd to the virtual routers, and the demands of those to healthd.
//!
//! Advertisements decide if leases do not although they are configured. The log says so, and `/readyz` as a detail.

use std::sync::Arc;

use daemon::latest::{Latest, Reader};
use daemon::readiness::Readiness;
use proto::endpoint::Endpoint;
use proto::lease::{DemandSender, LeaseClient, Leases, Rule, State, Want};
use tokio::task::JoinHandle;
use vrrp::machine::{Demand, Lease};
use vrrp_net::{DemandLease, LeaseDemand, LeaseStates};

/// The key of the detail on `/readyz`.
const DETAIL: &str = "leases";

/// Quarters of an interval in a term. RFC 9568 has an address without a holder for three intervals and the skew time. A term of
/// nine quarters takes 2.45 intervals at a voter whose clock is slewed down as far as it may be; the rest is for
/// the last demand of a router that has died, and for two rounds of requests.
const QUARTERS_A_TERM: u32 = 9;

/// The longest term that healthd grants.
const LONGEST_TERM: std::time::Duration = std::time::Duration::from_secs(3);

/// The leases of virtual IPs.
#[derive(Debug)]
pub(crate) struct VipLeases {
    client: LeaseClient,
    states: Arc<Latest<LeaseStates>>,
    follower: JoinHandle<()>,
}

impl VipLeases {
    /// Asks healthd once a virtual router wants a lease.
    pub(crate) fn start(endpoint: Option<Endpoint>, readiness: Readiness) -> Self {
        let client = LeaseClient::start(endpoint);
        let states = Latest::new(LeaseStates::default());
        let (mut leases, published) = (client.reader(), Arc::clone(&states));
        let follower = tokio::spawn(async move {
            let mut rule = Rule::Awaited;
            loop {
                let newest = leases.shared();
                if newest.rule != rule {
                    rule = newest.rule;
                    say(rule, &readiness);
                }
                published.publish_if_changed(states_of(&newest));
                leases.changed().await;
            }
        });
        Self {
            client,
            states,
            follower,
        }
    }

    /// The leases, for virtual routers.
    pub(crate) fn reader(&self) -> Reader<LeaseStates> {
        self.states.reader()
    }

    /// The leases, for the status.
    pub(crate) fn client(&self) -> Reader<Leases> {
        self.client.reader()
    }

    /// Hears the demands of virtual routers.
    pub(crate) fn demands(&self) -> DemandLease {
        let sender: DemandSender = self.client.demands();
        Arc::new(move |name, demand| sender.say(name, to_healthd(demand)))
    }
}

impl Drop for VipLeases {
    fn drop(&mut self) {
        self.follower.abort();
    }
}

/// Why advertisements decide although leases are configured; `None` where leases do, or may soon.
pub(crate) const fn why_vrrp_alone(rule: Rule) -> Option<&'static str> {
    match rule {
        Rule::Awaited | Rule::Leases | Rule::CutOff => None,
        Rule::FewNodes => {
            Some("healthd grants no leases: it exchanges findings with fewer than two other nodes")
        }
        Rule::Alone => Some("the healthds of most other nodes are away"),
        Rule::Away => Some("the healthd of this node is away"),
    }
}

/// The rule in a word, for the status.
pub(crate) const fn word(rule: Rule) -> &'static str {
    match rule {
        Rule::Awaited => "awaited",
        Rule::Leases => "leases",
        Rule::CutOff => "cut off",
        Rule::FewNodes => "few nodes",
        Rule::Alone => "others away",
        Rule::Away => "healthd away",
    }
}

fn say(rule: Rule, readiness: &Readiness) {
    let reason = match (why_vrrp_alone(rule), rule) {
        (Some(reason), _) => {
            tracing::warn!(reason, "Virtual IPs go by VRRP alone");
            Some(format!("virtual IPs go by VRRP alone: {reason}"))
        }
        (None, Rule::CutOff) => {
            tracing::warn!("This node is cut off from most others; it holds no virtual IP");
            Some("this node is cut off from most others; it holds no virtual IP".to_owned())
        }
        (None, Rule::Leases) => {
            tracing::info!("Virtual IPs go by leases");
            None
        }
        (None, _) => None,
    };
    readiness.set_reason(DETAIL, reason);
}

fn states_of(leases: &Leases) -> LeaseStates {
    let without = match leases.rule {
        Rule::Awaited => Lease::Awaited,
        Rule::Leases => Lease::Free,
        Rule::CutOff => Lease::Withheld,
        Rule::FewNodes | Rule::Alone | Rule::Away => Lease::Unneeded,
    };
    let states = leases.states.iter().map(|(name, state)| {
        let lease = match state {
            _ if without == Lease::Unneeded => Lease::Unneeded,
            State::Own { until, preempting } => Lease::Own {
                until: *until,
                preempting: *preempting,
            },
            State::Other { priority, .. } if leases.rule == Rule::Leases => Lease::Other {
                priority: *priority,
            },
            State::Free | State::Other { .. } => without,
        };
        (Arc::clone(name), lease)
    });
    LeaseStates {
        without,
        by_name: states.collect(),
    }
}

fn to_healthd(demand: LeaseDemand) -> proto::lease::Demand {
    proto::lease::Demand {
        want: match demand.demand {
            Demand::Ask { preempts: false } => Want::Ask,
            Demand::Ask { preempts: true } => Want::Preempt,
            Demand::Drop => Want::Drop,
            Demand::Wait => Want::Nothing,
        },
        priority: demand.priority,
        term: (demand.interval * QUARTERS_A_TERM / 4).min(LONGEST_TERM),
        is_active: demand.is_active,
    }
}
