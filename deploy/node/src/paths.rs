//! The paths of a swap on a node.

use std::path::{Path, PathBuf};

use site::places;
use site::service::Service;
use site::slot::Slot;

/// The directories of a node.
#[derive(Clone, Debug)]
pub struct NodePaths {
    /// State that survives a reboot: `/var/lib/outpost`.
    state: PathBuf,
    /// State that does not: `/run/outpost`.
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

    /// The record of the slots, for people and for `outpost status`.
    pub fn record(&self, service: Service) -> PathBuf {
        self.slots().join(format!("{service}.json"))
    }

    /// While it is there slot b is on record, otherwise slot a: units look for it at boot.
    pub fn mark(&self, service: Service) -> PathBuf {
        self.slots().join(format!("{service}.{}", Slot::B))
    }

    /// The directory of state that must survive a reboot.
    pub fn slots(&self) -> PathBuf {
        self.state.join("slots")
    }

    /// While this file is there the slot may be started beside the one that serves. It is gone with the
    /// power, so that only the slot on record comes up again.
    pub fn permit(&self, service: Service, slot: Slot) -> PathBuf {
        self.permits().join(format!("{service}.{slot}"))
    }

    /// The directory of permits, which one swap at a time has.
    pub fn permits(&self) -> PathBuf {
        self.run.join("swap")
    }

    /// The socket of the process in a slot, which answers whichever process has the admin address.
    pub fn admin_socket(&self, service: Service, slot: Slot) -> PathBuf {
        self.run.join(format!("admin/{service}-{slot}.sock"))
    }

    /// The socket of healthd.
    pub fn healthd(&self) -> PathBuf {
        self.run.join("healthd.sock")
    }
}
