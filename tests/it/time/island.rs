//! Nodes on a wire, at the ports that everybody knows: chronyd on both sides, and an island without anybody else.
//!
//! All machines have one clock, that of the machine that runs the tests: an offset shows a mistake of an agent.

use std::net::Ipv4Addr;

use serde_json::Value;
use tests::daemon::Daemon;
use tests::netns::{Machine, Network};
use tests::time::{Agent, Chronyd, PATIENCE, Says, Server, chronyd_measures};
use tests::wait;

const NODES: [&str; 3] = ["master-0", "master-1", "master-2"];

fn ip(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(192, 168, 7, last)
}

fn machine(network: &mut Network, name: &str, last: u8) -> Machine {
    network.machine(name, &format!("{}/24", ip(last)))
}

/// A node of an island: its machine, its agent, and the process while it runs.
struct Node {
    machine: Machine,
    agent: Agent,
    daemon: Option<Daemon>,
}

impl Node {
    fn new(network: &mut Network, number: u8, lines: &str) -> Self {
        let last = 13 + number;
        let machine = machine(network, NODES[usize::from(number)], last);
        let others: String = (13..16)
            .filter(|other| *other != last)
            .map(|other| format!("server {} iburst minpoll -1 maxpoll -1\n", ip(other)))
            .collect();
        let lines =
            format!("{others}{lines}allow 192.168.7.0/24\nlocal stratum 10 orphan distance 0.05\n");
        let agent = Agent::on(&machine, ip(last), &lines);
        Self {
            machine,
            agent,
            daemon: None,
        }
    }

    fn start(&mut self) {
        self.daemon = Some(self.agent.start());
    }

    fn is_local(&self) -> bool {
        self.daemon.is_some() && self.agent.status()["state"] == "local"
    }
}

/// Waits until one node gives its own time and all others follow it, and says which.
#[track_caller]
fn wait_leader(nodes: &[Node]) -> usize {
    wait::until("one leads and the others follow", PATIENCE, || {
        let leaders: Vec<usize> = (0..nodes.len()).filter(|n| nodes[*n].is_local()).collect();
        let [leader] = leaders[..] else { return None };
        let address = ip(13 + u8::try_from(leader).unwrap()).to_string();
        let follow = |node: &Node| {
            let status = node.agent.status();
            status["state"] == "locked" && status["stratum"] == 11 && follows(&status, &address)
        };
        let mut others = nodes.iter().enumerate();
        let all = others.all(|(n, node)| n == leader || node.daemon.is_none() || follow(node));
        all.then_some(leader)
    })
}

fn follows(status: &Value, address: &str) -> bool {
    let sources = status["sources"].as_array();
    let mut sources = sources.into_iter().flatten();
    sources.any(|source| source["state"] == "best" && source["address"] == address)
}

fn assert_never_stepped(nodes: &[Node]) {
    for node in nodes.iter().filter(|node| node.daemon.is_some()) {
        let status = node.agent.status();
        assert_eq!(status["steps"], 0, "{status:#}");
        let offset = status["correction_seconds"].as_f64().unwrap();
        assert!(offset.abs() < 0.05, "{status:#}");
    }
}

#[test]
#[ignore = "needs network namespaces"]
fn three_nodes_alone_have_one_time_whoever_is_killed() {
    let mut network = Network::new();
    let upstream_machine = machine(&mut network, "upstream", 11);
    let upstream = format!("server {} iburst minpoll -1 maxpoll -1\n", ip(11));
    let mut nodes: Vec<Node> = (0..3)
        .map(|n| Node::new(&mut network, n, &upstream))
        .collect();
    for node in &mut nodes {
        node.start();
    }
    let first = wait_leader(&nodes);
    assert_never_stepped(&nodes);

    // The leader dies without a word.
    nodes[first].daemon.take().unwrap().kill();
    let second = wait_leader(&nodes);
    assert_ne!(second, first);
    assert_never_stepped(&nodes);

    // It comes back, and there is one again.
    nodes[first].start();
    wait_leader(&nodes);

    // So does the rest of the world: everybody follows it, and no clock jumps.
    let chronyd = Chronyd::on(&upstream_machine, "local stratum 2\nallow\ncmdport 0\n");
    for node in &nodes {
        let address = ip(11).to_string();
        node.agent
            .wait_status("the upstream is followed", |status| {
                status["state"] == "locked" && status["stratum"] == 3 && follows(status, &address)
            });
    }
    assert_never_stepped(&nodes);

    // And away again: one continues by itself, with its learned frequency or with its own time, and the others follow.
    drop(chronyd);
    wait::for_it("they have one time again", PATIENCE, || {
        let states: Vec<Value> = nodes
            .iter()
            .map(|node| node.agent.status()["state"].clone())
            .collect();
        let n = |wanted: &[&str]| {
            let wanted = |state: &&Value| wanted.iter().any(|wanted| **state == *wanted);
            states.iter().filter(wanted).count()
        };
        let upstream = ip(11).to_string();
        let is_gone = nodes
            .iter()
            .all(|node| !follows(&node.agent.status(), &upstream));
        is_gone && n(&["local", "holdover"]) == 1 && n(&["locked"]) == 2
    });
    assert_never_stepped(&nodes);
    for node in &mut nodes {
        node.daemon.take().unwrap().stop();
    }
}

#[test]
#[ignore = "needs network namespaces"]
fn a_node_that_is_cut_off_leads_itself_and_follows_again() {
    let mut network = Network::new();
    let mut nodes: Vec<Node> = (0..3).map(|n| Node::new(&mut network, n, "")).collect();
    for node in &mut nodes {
        node.start();
    }
    let leader = wait_leader(&nodes);
    let other = (leader + 1) % 3;
    nodes[other].machine.cut_off();
    wait::for_it("it has a time of its own", PATIENCE, || {
        nodes[other].is_local()
    });
    nodes[other].machine.join();
    assert_eq!(wait_leader(&nodes), leader);
    assert_never_stepped(&nodes);
}

#[test]
#[ignore = "needs network namespaces"]
fn chronyd_is_on_both_sides_and_chronyc_waits_as_at_boot() {
    let mut network = Network::new();
    let upstream = machine(&mut network, "upstream", 11);
    let node = machine(&mut network, "master-0", 13);
    let client = machine(&mut network, "worker-0", 21);
    let _chronyd = Chronyd::on(&upstream, "local stratum 3\nallow\ncmdport 0\n");
    let lines = format!(
        "server {} iburst minpoll -1 maxpoll -1 xleave\nallow 192.168.7.0/24\n",
        ip(11)
    );
    let agent = Agent::on(&node, ip(13), &lines);
    let daemon = agent.start();
    let status = agent.wait_state(&["locked"]);
    assert_eq!(status["stratum"], 4);

    // A client that keeps asking, and one that asks once.
    let follower = Chronyd::on(
        &client,
        &format!(
            "server {} iburst minpoll -1 maxpoll -1 xleave\ncmdport 0\n",
            ip(13)
        ),
    );
    let tracking = follower.wait_synchronised();
    assert_eq!(tracking[2], "5", "{tracking:?}");
    // The offset of one exchange is wrong by half of the time that either side waited for its turn.
    wait::for_it("it follows closely", PATIENCE, || {
        let offset: f64 = follower.wait_synchronised()[4].parse().unwrap();
        offset.abs() < 0.01
    });
    wait::for_it("it measures the same", PATIENCE, || {
        let server = format!("server {} iburst", ip(13));
        chronyd_measures(client.command("chronyd"), &server).abs() < 0.01
    });

    // The unit that OpenShift's nodes wait for has these very words.
    let mut chronyc = node.command("chronyc");
    chronyc.args(["-h", "127.0.0.1,::1", "waitsync", "30", "0.1", "0.0", "1"]);
    let (status, stdout, stderr) = tests::daemon::run(chronyc);
    assert!(status.success(), "{stdout}{stderr}");
    daemon.stop();
}

/// The last column of the only source in `chronyc -c sources`, in seconds; none before its first sample.
fn error_of((_, text): (Option<i32>, String)) -> Option<f64> {
    let fields: Vec<&str> = text.trim().split(',').collect();
    let [.., error] = fields[..] else { return None };
    error.parse().ok().filter(|error| *error > 0.0)
}

#[test]
#[ignore = "needs network namespaces"]
fn the_error_of_a_source_is_the_one_that_chronyd_shows() {
    let mut network = Network::new();
    let upstream = machine(&mut network, "upstream", 11);
    let node = machine(&mut network, "master-0", 13);
    let beside = machine(&mut network, "worker-0", 21);
    // Far from a primary source: 4 / 2 + 4 seconds, and the way to it.
    let says = Says {
        stratum: 3,
        root_delay: 4,
        root_dispersion: 4,
        ..Says::default()
    };
    let _server = Server::on(&upstream, ip(11), says);
    let lines = format!("server {} iburst\n", ip(11));
    let chronyd = Chronyd::on(&beside, &format!("{lines}cmdport 0\n"));
    let agent = Agent::on(&node, ip(13), &lines);
    let daemon = agent.start();
    let expected = wait::until("chronyd has a sample", PATIENCE, || {
        error_of(chronyd.chronyc(&["-c", "sources"]))
    });
    // A busy machine may add to a round trip, and never takes from it.
    let is_near = |error: f64| (6.0..6.5).contains(&error);
    assert!(is_near(expected), "{expected}");
    let told = wait::until("the agent has a sample", PATIENCE, || {
        error_of(agent.chronyc(&["-c", "sources"]))
    });
    let status = agent.status();
    let typed = status["sources"][0]["error_seconds"].as_f64();
    let metric = || {
        let (_, metrics) = agent.get("/metrics").ok()?;
        let mut lines = metrics.lines();
        let line = lines.find(|line| line.starts_with("timesync_source_error_seconds{"))?;
        line.rsplit_once(' ')?.1.parse().ok()
    };
    let all = [Some(told), typed, metric()];
    let near = all.map(|error| error.is_some_and(is_near));
    assert_eq!(near, [true; 3], "chronyd {expected}, the agent {all:?}");
    let (_, page) = agent.get("/").unwrap();
    assert!(page.contains("<td class=\"number\">6."), "{page}");
    daemon.stop();
}
