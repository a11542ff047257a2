//! Where a swap finds and leaves what it needs on a node.

use std::path::{Path, PathBuf};

use site::places;
use site::service::Service;
use site::slot::Slot;

/// The directories of a node.
#[derive(Clone, Debug)]
pub struct NodePaths {
    /// What outlives the power: `/var/lib/outpost`.
    state: PathBuf,
    /// What does not: `/run/outpost`.
    run: PathBuf,
}

impl NodePaths {
    /// Those of this node; below `root`, where that is not `/`.
    pub fn below(root: &Path) -> Self {
        let below = |path: &str| root.join(path.trim_start_matches('/'));
        Self {
            state: below(places::STATE),
            run: below(places::RUN),
        }
    }

    /// What is known of the slots, for people and for `outpost status`.
    pub fn record(&self, service: Service) -> PathBuf {
        self.slots().join(format!("{service}.json"))
    }

    /// While it is there slot b is on record, otherwise slot a: what units look for at boot.
    pub fn mark(&self, service: Service) -> PathBuf {
        self.slots().join(format!("{service}.{}", Slot::B))
    }

    /// What has to outlive the power.
    pub fn slots(&self) -> PathBuf {
        self.state.join("slots")
    }

    /// While this file is there the slot may be started beside the one that serves. It is gone with the
    /// power, so that only the slot on record comes up again.
    pub fn permit(&self, service: Service, slot: Slot) -> PathBuf {
        self.permits().join(format!("{service}.{slot}"))
    }

    /// Where permits lie, which one swap at a time has.
    pub fn permits(&self) -> PathBuf {
        self.run.join("swap")
    }

    /// Where the process in a slot can be asked, whoever has the admin address.
    pub fn admin_socket(&self, service: Service, slot: Slot) -> PathBuf {
        self.run.join(format!("admin/{service}-{slot}.sock"))
    }

    /// Where healthd is asked.
    pub fn healthd(&self) -> PathBuf {
        self.run.join("healthd.sock")
    }
}
