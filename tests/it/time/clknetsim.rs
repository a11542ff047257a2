//! The agent in clknetsim, the simulator that chrony is tested with: the real program, with the clock and the network of a
//! library that is loaded before all others, and a time that passes as fast as it is asked for.
//!
//! clknetsim is in no package. The test runs with
//!
//! ```text
//! OUTPOST_CLKNETSIM=DIR cargo test -p tests --test it -- time::clknetsim --nocapture
//! ```
//!
//! where DIR has `clknetsim` and `clknetsim.so`, built by its `make`, and in a shell without tests/target.sh: a library can be loaded
//! into a program that is linked dynamically alone.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tests::binaries::binary;
use tests::daemon::run;
use tests::scratch::Scratch;
use tests::time::PATIENCE;
use tests::wait;

/// The directory of clknetsim.
const VARIABLE: &str = "OUTPOST_CLKNETSIM";

/// The clock of the second node is 50 ms and 20 ppm wrong, and its frequency walks at random; each way takes 100 µs and
/// exponential 100 µs more. Scenario B of docs/time-accuracy.md.
const WORLD: &str = "node2_offset = 0.05\n\
                     node2_freq = (+ 2e-5 (sum (* 1e-9 (normal))))\n\
                     node1_delay2 = (+ 1e-4 (* 1e-4 (exponential)))\n\
                     node2_delay1 = (+ 1e-4 (* 1e-4 (exponential)))\n";
const SERVER: &str = "local stratum 1\nallow\n";
const PEERS: [&str; 2] = [
    "local stratum 1\npeer 192.168.123.2 minpoll 4 maxpoll 6\n",
    "peer 192.168.123.1 minpoll 4 maxpoll 6\nmakestep 1.0 3\n",
];
const CLIENT: &str = "server 192.168.123.1 iburst minpoll 4 maxpoll 6\nmakestep 1.0 3\n";

/// In simulated seconds: the whole run, and from when on its figures count.
const LENGTH: &str = "10000";
const SETTLED: &str = "2000";
/// Other seeds are other walks and delays.
const SEEDS: [&str; 3] = ["1", "2", "3"];

/// The largest RMS offset of a client, in seconds; a third of it is usual.
const RMS_BOUND: f64 = 50e-6;
/// The largest offset of a client, in seconds; a tenth of it is usual.
const MAX_BOUND: f64 = 500e-6;

/// The program of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Program {
    Agent,
    Chronyd,
}

/// The figures of a client.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Figures {
    rms_offset: f64,
    max_offset: f64,
    rms_frequency: f64,
}

/// A simulated world with two nodes.
struct World {
    clknetsim: PathBuf,
    files: Scratch,
    nodes: Vec<Child>,
}

impl World {
    /// Starts the program of the next node.
    fn start(&mut self, program: Program, lines: &str, seed: &str) {
        let node = (self.nodes.len() + 1).to_string();
        let config = self.files.write(
            &format!("chrony-{node}.conf"),
            &format!(
                "{lines}driftfile {}\npidfile {}\nbindcmdaddress /\ncmdport 0\n",
                self.files.join(&format!("drift-{node}")).display(),
                self.files.join(&format!("pid-{node}")).display(),
            ),
        );
        let log = std::fs::File::create(self.log(&node)).expect("a scratch file is made");
        // The library may not be where it is needed, and the clock of this machine is not to be set then. The library itself is
        // only for the program.
        let mut command = Command::new("setpriv");
        if rustix::process::geteuid().is_root() {
            command.args(["--inh-caps=-sys_time", "--bounding-set=-sys_time"]);
        }
        command
            .arg("env")
            .arg(format!(
                "LD_PRELOAD={}",
                self.clknetsim.join("clknetsim.so").display()
            ))
            .arg(format!("CLKNETSIM_NODE={node}"))
            .arg(format!("CLKNETSIM_SOCKET={}", self.socket().display()))
            .arg("CLKNETSIM_CONNECT_TIMEOUT=60")
            .arg(format!("CLKNETSIM_RANDOM_SEED={seed}{node}"));
        match program {
            Program::Agent => command
                .arg(binary("timesync-agent"))
                .args(["solo", "--chrony-conf"])
                .arg(config),
            Program::Chronyd => command
                .args(["chronyd", "-d", "-U", "-u", "root", "-f"])
                .arg(config),
        };
        command
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a descriptor"))
            .stderr(log);
        self.nodes.push(command.spawn().expect("setpriv runs"));
    }

    fn log(&self, node: &str) -> PathBuf {
        self.files.join(&format!("log-{node}"))
    }

    fn socket(&self) -> PathBuf {
        self.files.join("socket")
    }

    /// Lets the time of the world pass, and returns the figures of the second node.
    fn pass(mut self, seed: &str) -> Figures {
        let world = self.files.write("world", WORLD);
        // A node that fails at its start would be waited for without an end.
        let mut command = Command::new("timeout");
        command
            .arg("600")
            .arg(self.clknetsim.join("clknetsim"))
            .env("CLKNETSIM_RANDOM_SEED", seed)
            .args(["-l", LENGTH, "-r", SETTLED, "-s"])
            .arg(self.socket())
            .arg(world)
            .arg(self.nodes.len().to_string());
        let (status, text, errors) = run(command);
        // At the end the simulator has each node end by SIGTERM.
        for node in &mut self.nodes {
            wait::for_it("the nodes end", PATIENCE, || {
                node.try_wait().is_ok_and(|status| status.is_some())
            });
        }
        let logs = ["1", "2"].map(|node| std::fs::read_to_string(self.log(node)));
        assert!(status.success(), "{errors}{text}{logs:#?}");
        figures(&text).unwrap_or_else(|| panic!("no figures in {text}{logs:#?}"))
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for node in &mut self.nodes {
            drop(node.kill());
            drop(node.wait());
        }
    }
}

/// The figures of the last node.
fn figures(text: &str) -> Option<Figures> {
    let (_, text) = text.rsplit_once("RMS offset:")?;
    let number = |rest: &str| rest.split_whitespace().next()?.parse().ok();
    let named = |name: &str| number(text.split_once(name)?.1);
    Some(Figures {
        rms_offset: number(text)?,
        max_offset: named("Maximum absolute offset:")?,
        rms_frequency: named("RMS frequency:")?,
    })
}

/// One run of two programs with their configurations.
fn simulate(clknetsim: &Path, nodes: [(Program, &str); 2], seed: &str) -> Figures {
    let mut world = World {
        clknetsim: clknetsim.to_owned(),
        files: Scratch::new("clknetsim"),
        nodes: Vec::new(),
    };
    for (program, lines) in nodes {
        world.start(program, lines, seed);
    }
    world.pass(seed)
}

/// Whether another library can be loaded into a program: it names the loader.
fn is_dynamic(program: &Path) -> bool {
    let octets = std::fs::read(program).expect("the agent is built");
    octets.windows(8).any(|octets| octets == b"/ld-linu")
}

/// The directory of clknetsim, if there is one.
fn directory() -> Option<PathBuf> {
    let Some(clknetsim) = std::env::var_os(VARIABLE).map(PathBuf::from) else {
        eprintln!("left out: {VARIABLE} names no directory of clknetsim");
        return None;
    };
    assert!(
        is_dynamic(&binary("timesync-agent")),
        "the agent is static: build it in a shell without tests/target.sh"
    );
    Some(clknetsim)
}

fn has_chronyd() -> bool {
    Command::new("chronyd").arg("-v").output().is_ok()
}

fn check(what: &str, figures: Figures) {
    eprintln!("{what}: {figures:?}");
    assert!(figures.rms_offset < RMS_BOUND, "{what}: {figures:?}");
    assert!(figures.max_offset < MAX_BOUND, "{what}: {figures:?}");
}

#[test]
fn the_agent_keeps_the_time_in_clknetsim() {
    let Some(clknetsim) = directory() else {
        return;
    };
    let server = (Program::Agent, SERVER);
    for seed in SEEDS {
        if has_chronyd() {
            let chronyd = simulate(&clknetsim, [server, (Program::Chronyd, CLIENT)], seed);
            eprintln!("seed {seed}: chronyd   {chronyd:?}");
        }
        let agent = simulate(&clknetsim, [server, (Program::Agent, CLIENT)], seed);
        check(&format!("seed {seed}: the agent"), agent);
    }
}

#[test]
fn the_agent_is_a_peer_of_chronyd_and_of_another_one_in_clknetsim() {
    let Some(clknetsim) = directory() else {
        return;
    };
    let programs = [
        [Program::Agent, Program::Agent],
        [Program::Agent, Program::Chronyd],
        [Program::Chronyd, Program::Agent],
    ];
    for programs in programs {
        if programs.contains(&Program::Chronyd) && !has_chronyd() {
            eprintln!("left out: there is no chronyd");
            continue;
        }
        for seed in SEEDS {
            let [leader, follower] = programs;
            let nodes = [(leader, PEERS[0]), (follower, PEERS[1])];
            let figures = simulate(&clknetsim, nodes, seed);
            check(
                &format!("seed {seed}: {follower:?} after {leader:?}"),
                figures,
            );
        }
    }
}
