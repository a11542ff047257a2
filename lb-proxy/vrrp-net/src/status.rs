//! The status of virtual routers, for `status` and metrics.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use vrrp::machine;

/// One virtual router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouterStatus {
    /// The status of the election.
    pub machine: machine::Status,
    /// The counters of this node.
    pub tally: Tally,
    /// The name of the lease, if it needs one.
    pub lease: Option<Arc<str>>,
}

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Announcements sent, one for each address and occasion.
    pub announcements: u64,
    /// Advertisements that the kernel would not send.
    pub send_errors: u64,
    /// Addresses that another program had taken off the interface, and that were put back.
    pub restored: u64,
    /// Times the kernel refused an address.
    pub address_errors: u64,
    /// Notify scripts that failed, took too long or were not run.
    pub notify_failures: u64,
}

/// The status of the routers, by task.
#[derive(Debug, Default)]
pub struct Board {
    tasks: Mutex<BTreeMap<u64, Vec<RouterStatus>>>,
}

impl Board {
    /// All virtual routers, in the order of their names.
    #[must_use]
    pub fn routers(&self) -> Vec<RouterStatus> {
        let mut routers: Vec<_> = self.tasks.lock().values().flatten().cloned().collect();
        routers.sort_by(|one, other| {
            let (one, other) = (&one.machine.settings, &other.machine.settings);
            (&one.name, one.is_ipv6()).cmp(&(&other.name, other.is_ipv6()))
        });
        routers
    }

    pub(super) fn publish(&self, task: u64, routers: Vec<RouterStatus>) {
        let before = if routers.is_empty() {
            self.tasks.lock().remove(&task)
        } else {
            self.tasks.lock().insert(task, routers)
        };
        // Freed outside the lock.
        drop(before);
    }
}

impl RouterStatus {
    /// The name for people.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        &self.machine.settings.name
    }
}
