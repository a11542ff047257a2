//! One virtual router as its owner describes it: its settings, the things it tracks, and its hooks.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

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
}

/// The known facts about the things that priorities track: by name, whether good.
pub type Observations = BTreeMap<Arc<str>, bool>;

/// Actions that virtual routers leave to others.
#[derive(Clone)]
pub struct Hooks {
    /// Ends, with a reset, every connection that came to one of the addresses. The call itself must not
    /// wait.
    pub reset_flows: ResetFlows,
}

/// Given the addresses that are about to go.
pub type ResetFlows = Arc<dyn Fn(&[IpAddr]) -> Resetting + Send + Sync>;

/// Ends when the clients have heard it. A caller that does not wait for it does not stop it.
pub type Resetting = Pin<Box<dyn Future<Output = ()> + Send>>;

impl fmt::Debug for Hooks {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Hooks").finish_non_exhaustive()
    }
}
