//! README's section "Two commands" on a bare Debian 12: its own lines, in a shell there, as root and as a user.
//!
//! The machine has the packages that the section names, and no other. Two things are not covered. The compile: it takes a
//! quarter of an hour, so cargo is a stand-in (`tests/nodes/built/cargo`) that finds the programs under test built, and that a C
//! compiler and Rust are enough for it is not shown here. And `tests/run`, of which this is a part.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, ExitStatus, Stdio};
use std::time::Duration;

use tests::binaries::checkout;
use tests::daemon::run;
use tests::node::bare::{BareMachine, User};
use tests::node::bare_or_skip;
use tests::scratch::Scratch;
use tests::wait;

#[test]
#[ignore = "needs root for namespaces; tests/run runs it"]
fn root_follows_readme_on_a_bare_machine() {
    follow(User::Root);
}

#[test]
#[ignore = "needs root for namespaces; tests/run runs it"]
fn a_user_follows_readme_on_a_bare_machine() {
    follow(User::Plain);
}

fn follow(user: User) {
    let readme = Readme::read(user);
    let Some(root) = bare_or_skip(&readme.packages) else {
        return;
    };
    let machine = BareMachine::start(&root, user);

    let mut up = Up::start(&machine, &readme.up);
    for line in &readme.to_try {
        assert_works(&machine, line);
    }
    assert_works(&machine, &readme.chronyd);
    // The promise of the last line that was tried: master-1 is out of the answers.
    let dig = "dig +short @127.0.0.1 -p 5300 api.ocp4.redhat.ren";
    wait::for_it("master-1 is in no answer", PATIENCE, || {
        (0..10).all(|_| {
            let (status, out, complaint) = run(machine.shell(dig));
            assert!(status.success(), "{out}{complaint}");
            !out.contains("127.0.0.14")
        })
    });
    // The command prints lines too: all of them are for programs that are here.
    for line in up.suggestions() {
        assert!(!line.contains("apt-get install"), "{line}");
        let (status, out, complaint) = run(machine.shell(&line));
        assert!(status.success(), "{line}: {status}\n{out}{complaint}");
    }
    up.end(&machine);
    let (_, asked, _) = run(machine.shell("cat ~/cargo-build"));
    let services = "--bin healthd --bin dns-authd --bin dns-recursor --bin lb-proxy --bin registry-svc --bin timesync-agent";
    assert!(asked.contains("--profile release"), "{asked}");
    assert!(asked.contains(services), "{asked}");

    let (status, out, complaint) = run(machine.shell(&readme.manifests));
    assert!(status.success(), "{out}{complaint}");
    let mut up = Up::start(&machine, &readme.up_with_cluster);
    for line in &readme.to_try_with_cluster {
        assert_works(&machine, line);
    }
    up.end(&machine);
}

/// A line of README's does what README says.
fn assert_works(machine: &BareMachine, line: &str) {
    let (_, parts) = OUTCOMES
        .iter()
        .find(|(part, _)| line.contains(part))
        .unwrap_or_else(|| panic!("this test does not know what comes of: {line}"));
    let is_endless = line.contains(" watch ");
    let mut last = String::new();
    // The state of what has just started comes within moments.
    wait::for_it(line, PATIENCE, || {
        // One that shows every change shows what is there first.
        let bounded = match is_endless {
            true => format!("timeout 2 {line}"),
            false => line.to_owned(),
        };
        let (status, out, complaint) = run(machine.shell(&bounded));
        last = format!("{status}\n{out}{complaint}");
        let is_over = status.success() || is_endless && status.code() == Some(124);
        let works = is_over && parts.iter().all(|part| out.contains(part));
        if !works {
            eprintln!("{line}: {last}");
        }
        works
    });
    println!("{line}\n{last}");
}

/// A part of each line of README's, and what it prints.
const OUTCOMES: [(&str, &[&str]); 8] = [
    ("api.ocp4", &["status: NOERROR", "ANSWER: 1,"]),
    ("c.apps.ocp4", &["status: NOERROR", "ANSWER: 1,"]),
    ("curl ", &["master-"]),
    (" push ", &[]),
    ("master down", &["master-1 is down"]),
    ("web.shop.svc", &["status: NOERROR", "172.30.0.20"]),
    ("clusterd ", &["web"]),
    ("chronyd ", &[]),
];

//--- The site

/// `up` on a machine.
struct Up {
    child: Child,
    printed: PathBuf,
    files: Scratch,
}

impl Up {
    /// Starts it with a line of README's, and waits until it says how to stop it.
    fn start(machine: &BareMachine, line: &str) -> Self {
        let files = Scratch::new("readme");
        let printed = files.join("printed");
        let out = File::create(&printed).expect("scratch files are writable");
        let complaints =
            File::create(files.join("complaints")).expect("scratch files are writable");
        let mut command = machine.shell(&format!("echo $$ >/tmp/up.pid; exec {line}"));
        command.stdin(Stdio::null()).stdout(out).stderr(complaints);
        let mut up = Self {
            child: command.spawn().expect("util-linux is installed"),
            printed,
            files,
        };
        wait::for_it("the site is up", PATIENCE, || {
            let ended = up.child.try_wait().expect("own child");
            assert!(ended.is_none(), "{line}: {ended:?}\n{}", up.said());
            up.said().contains("Ctrl-C stops")
        });
        up
    }

    fn said(&self) -> String {
        let read = |path: PathBuf| std::fs::read_to_string(path).unwrap_or_default();
        read(self.printed.clone()) + &read(self.files.join("complaints"))
    }

    /// The lines that it says to try.
    fn suggestions(&self) -> Vec<String> {
        let said = self.said();
        let (_, lines) = said.split_once("in another terminal:\n").expect("a list");
        let (lines, _) = lines.split_once("Ctrl-C stops").expect("its end");
        let lines = lines.lines().filter_map(|line| line.strip_prefix("    "));
        lines.map(str::to_owned).collect()
    }

    /// Ends it as Ctrl-C does: nothing of it is left.
    fn end(&mut self, machine: &BareMachine) {
        let kill = "kill -INT $(cat /tmp/up.pid)";
        assert!(run(machine.shell(kill)).0.success());
        let ended: ExitStatus = wait::until("the site ends", PATIENCE, || {
            self.child.try_wait().expect("own child")
        });
        assert!(ended.success(), "{ended}\n{}", self.said());
        let (status, left, _) = run(machine.shell("ls -d /tmp/outpost-up-*"));
        assert!(!status.success(), "{left}");
    }
}

//--- README

/// The lines of the section, as its reader types them.
struct Readme {
    packages: Vec<String>,
    up: String,
    to_try: Vec<String>,
    chronyd: String,
    manifests: String,
    up_with_cluster: String,
    to_try_with_cluster: Vec<String>,
}

impl Readme {
    fn read(user: User) -> Self {
        let text = std::fs::read_to_string(checkout().join("README.md")).expect("README is there");
        let (_, rest) = text.split_once("\n## Two commands\n").expect("the section");
        let (section, _) = rest.split_once("\n## ").expect("another one");
        // README says that the number is that of the user.
        let section = section.replace("outpost-up-1000", &format!("outpost-up-{}", user.number()));
        let mut blocks = section.split("```sh\n").skip(1).map(|block| {
            let (block, _) = block.split_once("```").expect("a block has an end");
            block.to_owned()
        });
        let mut block = || blocks.next().expect("three blocks");
        let lines = |block: &str| block.lines().map(str::to_owned).collect::<Vec<_>>();
        let (commands, to_try, cluster) = (lines(&block()), lines(&block()), block());
        assert_eq!(commands.len(), 2, "{commands:?}");
        let (manifests, rest) = cluster
            .split_once("cargo run")
            .expect("a site with a cluster");
        let mut rest = lines(&format!("cargo run{rest}")).into_iter();
        let chronyd = section.split('`').find(|part| part.starts_with("chronyd "));
        let named = section
            .split("apt-get install ")
            .skip(1)
            .filter_map(|part| {
                let (names, _) = part.split_once('`')?;
                Some(names.split_whitespace().map(str::to_owned))
            });
        Self {
            packages: named.flatten().collect(),
            up: commands[0].clone(),
            to_try,
            chronyd: chronyd.expect("a line with chronyd").to_owned(),
            manifests: manifests.to_owned(),
            up_with_cluster: rest.next().expect("a line with cargo"),
            to_try_with_cluster: rest.collect(),
        }
    }
}

/// How long anything may take. Wide: the machine may be building at the same time.
const PATIENCE: Duration = Duration::from_secs(60);
