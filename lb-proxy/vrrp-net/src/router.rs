//! One virtual router as its owner describes it: its settings, the things it tracks, and its hooks.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use vrrp::machine::{Demand, Lease};
use vrrp::priority::PrioritySettings;
use vrrp::settings::RouterSettings;

use super::notify::Notify;

/// One virtual router as it is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VirtualRouter {
    /// The settings of the election.
    pub settings: Arc<RouterSettings>,
    /// The settings of the priority; its base is that of `settings`.
    pub priority: PrioritySettings,
    /// The script that hears of states.
    pub notify: Option<Notify>,
    /// The name of the lease that it needs to be active; none where advertisements decide alone. Those of a group have one.
    pub lease: Option<Arc<str>>,
}

/// The known facts about the things that priorities track: by name, whether good.
pub type Observations = BTreeMap<Arc<str>, bool>;

/// Actions that virtual routers leave to others.
#[derive(Clone)]
pub struct Hooks {
    /// Ends, with a reset, every connection that came to one of the addresses. The call itself must not
    /// wait.
    pub reset_flows: ResetFlows,
    /// Hears what virtual routers want of leases.
    pub demand: DemandLease,
}

/// The leases by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseStates {
    /// The state of a lease that is not among them.
    pub without: Lease,
    /// Those that are known.
    pub by_name: BTreeMap<Arc<str>, Lease>,
}

impl Default for LeaseStates {
    fn default() -> Self {
        Self {
            without: Lease::Awaited,
            by_name: BTreeMap::new(),
        }
    }
}

impl LeaseStates {
    /// The state of a lease.
    #[must_use]
    pub fn get(&self, name: &str) -> Lease {
        self.by_name.get(name).copied().unwrap_or(self.without)
    }
}

/// The demand of the virtual routers of a task for a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseDemand {
    /// The demand.
    pub demand: Demand,
    /// The priority of this node.
    pub priority: u8,
    /// The interval of their advertisements.
    pub interval: Duration,
    /// Whether they are active.
    pub is_active: bool,
}

/// Given the name of a lease, and what is wanted of it. The call must not wait.
pub type DemandLease = Arc<dyn Fn(&Arc<str>, LeaseDemand) + Send + Sync>;

/// Given the addresses that are about to go.
pub type ResetFlows = Arc<dyn Fn(&[IpAddr]) -> Resetting + Send + Sync>;

/// Ends when the clients have heard it. A caller that does not wait for it does not stop it.
pub type Resetting = Pin<Box<dyn Future<Output = ()> + Send>>;

impl fmt::Debug for Hooks {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Hooks").finish_non_exhaustive()
    }
}
