//! The paths of a swap on a node.

use std::path::{Path, PathBuf};

use site::paths;
use site::service::Service;
use site::slot::Slot;

/// The directories of a node.
#[derive(Clone, Debug)]
pub struct NodePaths {
    /// State that survives a reboot: `/var/lib/outpost`.
    state: PathBuf,
    /// State that does not: `/run/outpost`.
    run: PathBuf,
    /// The root of all paths.
    root: PathBuf,
}

impl NodePaths {
    /// Those of this node; below `root`, where that is not `/`.
    pub fn below(root: &Path) -> Self {
        Self {
            state: below(root, Path::new(paths::STATE)),
            run: below(root, Path::new(paths::RUN)),
            root: root.to_owned(),
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
        let socket = below(&self.root, &paths::admin_socket(service, slot));
        // A process of the version before listens here until it is swapped.
        let former = self.run.join(format!("admin/{service}-{slot}.sock"));
        match former.exists() && !socket.exists() {
            true => former,
            false => socket,
        }
    }

    /// The socket of healthd.
    pub fn healthd(&self) -> PathBuf {
        below(&self.root, Path::new(paths::HEALTHD_SOCKET))
    }
}

fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_of_before_is_found_until_it_is_swapped() {
        let root = tempfile::tempdir().unwrap();
        let paths = NodePaths::below(root.path());
        let socket = || paths.admin_socket(Service::LbProxy, Slot::B);
        let new = root.path().join("run/outpost-admin/lb-proxy/b.sock");
        assert_eq!(socket(), new);
        let former = root.path().join("run/outpost/admin/lb-proxy-b.sock");
        for (path, expected) in [(&former, &former), (&new, &new)] {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
            assert_eq!(&socket(), expected);
        }
    }
}
