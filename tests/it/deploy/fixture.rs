//! Common parts of the tests of images, bundles and installs: small static programs in the place
//! of the services, the seed's site, keys, and a podman that works in places like this one.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tests::binaries::{ALL_SERVICES, binary, checkout};
use tests::daemon::run;
use tests::scratch::Scratch;

/// Runs `outpost`, and gives its exit code, what it prints, and what it complains of.
pub(super) fn outpost(arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(binary("outpost"));
    command.args(arguments);
    let (status, stdout, stderr) = run(command);
    (status.code(), stdout, stderr)
}

/// Runs it, and expects that it goes well.
pub(super) fn well(arguments: &[&str]) -> String {
    let (code, stdout, stderr) = outpost(arguments);
    assert_eq!(code, Some(0), "{arguments:?}\n{stdout}{stderr}");
    stdout
}

/// Runs a program, and expects that it goes well.
pub(super) fn other(program: &str, arguments: &[&str]) -> String {
    let mut command = Command::new(program);
    command.args(arguments);
    let (status, stdout, stderr) = run(command);
    assert!(
        status.success(),
        "{program} {arguments:?}\n{stdout}{stderr}"
    );
    stdout
}

/// Static programs named as the services, which say a version and then wait.
pub(super) fn programs(version: &str) -> Scratch {
    let files = Scratch::new("programs");
    let source = files.write("program.c", PROGRAM);
    let (source, built) = (text(&source), text(&files.join("program")));
    let define = format!("-DVERSION=\"{version}\"");
    other(
        "cc",
        &["-static", "-O1", "-s", &define, &source, "-o", &built],
    );
    for name in ALL_SERVICES.iter().chain(&["outpost"]) {
        fs::copy(&built, files.join(name)).unwrap();
    }
    files
}

const PROGRAM: &str = r#"
#include <stdio.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv) {
    const char *name = strrchr(argv[0], '/');
    if (argc > 1 && strcmp(argv[1], "--version") == 0) {
        printf("%s %s (git 1a2b3c4d5, built 2026-11-21)\n", name ? name + 1 : argv[0], VERSION);
        return 0;
    }
    for (;;) pause();
}
"#;

/// Archives of such programs: the tests that run at the same time share them.
pub(super) fn images(version: &str) -> Arc<Scratch> {
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(files) = shared.get(version).and_then(Weak::upgrade) {
        return files;
    }
    let (programs, files) = (programs(version), Arc::new(Scratch::new("images")));
    build(&programs, files.path(), &[]);
    shared.insert(version.to_owned(), Arc::downgrade(&files));
    files
}

static SHARED: Mutex<BTreeMap<String, Weak<Scratch>>> = Mutex::new(BTreeMap::new());

/// `image build` of such programs.
pub(super) fn build(programs: &Scratch, output: &Path, more: &[&str]) -> String {
    let (binaries, output, checkout) = (text(programs.path()), text(output), text(checkout()));
    let arguments = [
        "image",
        "build",
        "--binaries",
        &binaries,
        "--output",
        &output,
        "--checkout",
        &checkout,
    ];
    well(&[&arguments[..], more].concat())
}

/// A site with its certificates, and a pair of keys.
pub(super) struct Site {
    pub(super) files: Scratch,
}

impl Site {
    pub(super) fn new() -> Self {
        let from = checkout().join("tests/data/deploy/seed/site.toml");
        let site = Self::of(&fs::read_to_string(from).unwrap());
        site.make_keys();
        site
    }

    /// A site file, as yet without keys.
    pub(super) fn of(text: &str) -> Self {
        let files = Scratch::new("site");
        files.write("site.toml", text);
        Self { files }
    }

    pub(super) fn make_keys(&self) {
        well(&["pki", "make", &self.path("site.toml")]);
        well(&["key", "generate", "--output", &self.path("maker")]);
    }

    pub(super) fn path(&self, name: &str) -> String {
        text(&self.files.join(name))
    }

    /// Makes a bundle of these images.
    pub(super) fn bundle(&self, images: &Scratch, name: &str) -> String {
        let (site, images, key) = (
            self.path("site.toml"),
            text(images.path()),
            self.path("maker.key"),
        );
        let output = self.path(name);
        well(&[
            "bundle", "--site", &site, "--images", &images, "--key", &key, "--output", &output,
        ]);
        output
    }
}

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

pub(super) fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}
