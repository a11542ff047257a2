//! A podman that works in places like this one, with a store and archives of its own.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use tests::binaries::{ALL_SERVICES, binary};
use tests::bundle::text;
use tests::daemon::run;
use tests::scratch::Scratch;

/// A store and archives of a node's own, and a podman that may run where limits are low and there is
/// no systemd.
pub(super) struct Node {
    pub(super) files: Scratch,
}

impl Node {
    pub(super) fn new() -> Self {
        let files = Scratch::new("node");
        let at = |name: &str| text(&files.join(name));
        let (root, run) = (at("storage"), at("run"));
        files.write(
            "storage.conf",
            &format!(
                "[storage]\ndriver = \"overlay\"\ngraphroot = \"{root}\"\nrunroot = \"{run}\"\n"
            ),
        );
        files.write("containers.conf", CONTAINERS);
        fs::create_dir(files.join("images")).unwrap();
        Self { files }
    }

    /// Puts archives on its shelf.
    pub(super) fn fill(&self, images: &Scratch) {
        for service in ALL_SERVICES {
            let name = format!("{service}.tar");
            fs::copy(images.join(&name), self.files.join("images").join(&name)).unwrap();
        }
        let sums = fs::read_to_string(images.join("SHA256SUMS")).unwrap();
        fs::write(self.files.join("images/SHA256SUMS"), sums).unwrap();
    }

    /// `outpost images VERB` on this node.
    pub(super) fn command(&self, verb: &str) -> Command {
        let mut command = Command::new(binary("outpost"));
        command
            .args(["images", verb, "--archives"])
            .arg(self.files.join("images"))
            .arg("--storage")
            .arg(self.files.join("storage.conf"))
            .env("CONTAINERS_CONF", self.files.join("containers.conf"));
        command
    }

    /// The same, expected to go well.
    pub(super) fn images(&self, verb: &str) -> String {
        let (status, stdout, stderr) = run(self.command(verb));
        assert!(status.success(), "{stdout}{stderr}");
        stdout
    }

    /// podman with its store.
    pub(super) fn podman(&self, arguments: &[&str]) -> (bool, String) {
        let mut command = Command::new("podman");
        command
            .args(arguments)
            .env("CONTAINERS_STORAGE_CONF", self.files.join("storage.conf"))
            .env("CONTAINERS_CONF", self.files.join("containers.conf"));
        let (status, stdout, stderr) = run(command);
        (status.success(), format!("{stdout}{stderr}"))
    }

    /// Files of images in its store, by the end of their paths.
    pub(super) fn stored(&self, end: &str) -> Vec<PathBuf> {
        let layers = fs::read_dir(self.files.join("storage/overlay")).unwrap();
        layers
            .map(|layer| layer.unwrap().path().join("diff").join(end))
            .filter(|path| path.exists())
            .collect()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // podman mounts the directory of its driver on itself, and so it cannot be removed.
        for entry in fs::read_dir(self.files.path())
            .into_iter()
            .flatten()
            .flatten()
        {
            let mut command = Command::new("umount");
            command.arg("--lazy").arg(entry.path().join("overlay"));
            drop(command.output());
        }
    }
}

/// Limits that hold where CAP_SYS_RESOURCE is missing, and no cgroups that only a systemd would give.
const CONTAINERS: &str = r#"
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
pids_limit = 0
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
"#;
