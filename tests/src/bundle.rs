//! Images and bundles of a site: small static programs in the place of the services, the seed's site, and keys.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::binaries::{ALL_SERVICES, binary, checkout};
use crate::daemon::run;
use crate::scratch::Scratch;

/// Runs `outpost`, and gives its exit code, what it prints, and what it complains of.
pub fn outpost(arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(binary("outpost"));
    command.args(arguments);
    let (status, stdout, stderr) = run(command);
    (status.code(), stdout, stderr)
}

/// Runs it, and expects that it goes well.
pub fn well(arguments: &[&str]) -> String {
    let (code, stdout, stderr) = outpost(arguments);
    assert_eq!(code, Some(0), "{arguments:?}\n{stdout}{stderr}");
    stdout
}

/// Runs a program, and expects that it goes well.
pub fn other(program: &str, arguments: &[&str]) -> String {
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
pub fn programs(version: &str) -> Scratch {
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
pub fn images(version: &str) -> Arc<Scratch> {
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
pub fn build(programs: &Scratch, output: &Path, more: &[&str]) -> String {
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
pub struct Site {
    pub files: Scratch,
}

impl Site {
    /// The site of the seed.
    #[must_use]
    pub fn seed() -> Self {
        let from = checkout().join("tests/data/deploy/seed/site.toml");
        let site = Self::of(&fs::read_to_string(from).unwrap());
        site.make_keys();
        site
    }

    /// A site file, as yet without keys.
    pub fn of(text: &str) -> Self {
        let files = Scratch::new("site");
        files.write("site.toml", text);
        Self { files }
    }

    pub fn make_keys(&self) {
        well(&["pki", "make", &self.path("site.toml")]);
        well(&["key", "generate", "--output", &self.path("maker")]);
    }

    pub fn path(&self, name: &str) -> String {
        text(&self.files.join(name))
    }

    /// Makes a bundle of these images.
    pub fn bundle(&self, images: &Scratch, name: &str) -> String {
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

pub fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}
