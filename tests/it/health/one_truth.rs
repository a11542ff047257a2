//! Three nodes as `outpost` renders them, each with healthd, dns-authd and lb-proxy: a port of the masters is closed and opened, and
//! the names and the balancer of every node have the same set in the same generation.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::Value;
use tests::binaries::binary;
use tests::daemon::{Daemon, http_get};
use tests::dns::{self, ask_a};
use tests::masters::Master;
use tests::wait;

use super::exchange::{Node, Site};

/// Longer than anything here takes, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

const N_FLIPS: usize = 40;

/// The interval of healthd's probes unless its file says otherwise, and the earliest part of it that a probe may start before.
const INTERVAL: Duration = Duration::from_secs(2);
const EARLY: f64 = 0.9;

/// The port of the ingress: names and balancer watch it in the same way.
const PORT: u16 = 443;
const ADDRESSES: [&str; 3] = ["192.168.7.13", "192.168.7.14", "192.168.7.15"];

/// The addresses that are up, as one service has them.
type Set = BTreeSet<String>;

/// dns-authd and lb-proxy of a node.
pub(super) struct Services {
    _authd: Daemon,
    _lb: Daemon,
}

impl Services {
    /// Starts the services of a node by their rendered files; only the places of their own files are others.
    pub(super) fn start(node: &Node) -> Self {
        let path = |name: &str| node.directory.join(name);
        let endpoint = format!("unix:{}", path("healthd.sock").display());
        let serve = |service: &str, config: PathBuf| {
            let mut serve = node.machine.command(binary(service));
            serve.args(["serve", "--healthd", &endpoint, "--config"]);
            serve.arg(config).arg("--admin-socket");
            serve.arg(path(&format!("{service}.admin")));
            Daemon::start(service, serve)
        };
        let read = |file: &str| std::fs::read_to_string(node.rendered.join(file)).unwrap();
        let text = read("dns-authd/dns-authd.toml")
            .replace("/etc/outpost", &node.rendered.display().to_string())
            .replace("/var/lib/outpost", &node.directory.display().to_string());
        std::fs::write(path("dns-authd.toml"), text).unwrap();
        let places = format!(
            "version = \"v1\"\nstate = \"{}\"\nswap.socket = \"none\"\n",
            path("lb-proxy").display()
        );
        let text = read("lb-proxy/lb-proxy.toml").replacen("version = \"v1\"\n", &places, 1);
        std::fs::write(path("lb-proxy.toml"), text).unwrap();
        Self {
            _authd: serve("dns-authd", path("dns-authd.toml")),
            _lb: serve("lb-proxy", path("lb-proxy.toml")),
        }
    }
}

fn get(port: u16, path: &str) -> String {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    http_get(address, path).expect("an answer").1
}

fn detail(port: u16) -> Value {
    let status: Value = serde_json::from_str(&get(port, "/status")).expect("JSON");
    status["detail"].clone()
}

pub(super) fn authority() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 5301))
}

/// The set of the ingress' names, on the machine of the caller.
fn names() -> Set {
    let detail = detail(9402);
    let zones = detail["zones"]["shown"].as_array().expect("zones");
    let sets = zones
        .iter()
        .filter_map(|zone| zone["live"].as_array())
        .flatten();
    let mut sets = sets.filter(|set| set["owner"] == "*.apps.ocp4.redhat.ren.");
    let members = sets.next().and_then(|set| set["members"].as_array());
    let members = members.into_iter().flatten().filter_map(Value::as_str);
    members.map(str::to_owned).collect()
}

/// The generation and the set of the ingress' backend, on the machine of the caller.
fn balancer() -> (u64, Set) {
    let detail = detail(9404);
    let backends = detail["backends"].as_array().expect("backends");
    let ingress = backends.iter().find(|one| one["name"] == "ingress");
    let servers = ingress.expect("the ingress")["servers"].as_array();
    let chosen = servers.into_iter().flatten();
    let chosen = chosen.filter(|server| server["chosen"] == true);
    let set = chosen.filter_map(|server| {
        let address: SocketAddr = server["address"].as_str()?.parse().ok()?;
        Some(address.ip().to_string())
    });
    let generation = detail["healthd"]["generation"].as_u64();
    (generation.expect("a generation"), set.collect())
}

/// Waits until names and balancer of a node have this set in the same generation, and each answer is one of it.
fn settle(node: &Node, working: &Set) {
    node.machine.inside(|| {
        wait::for_it("one generation and one set", LIMIT, || {
            let (generation, chosen) = balancer();
            chosen == *working
                && names() == *working
                && dns::generation(authority()) == Some(generation)
        });
        for _ in 0..4 {
            let answer = ask_a(authority(), "x.apps.ocp4.redhat.ren").expect("an answer");
            let answered: Set = answer.addresses().iter().map(ToString::to_string).collect();
            assert!(answered.is_subset(working), "{answered:?} of {working:?}");
        }
    });
}

/// When names and balancer of a node had this set first, as polled.
fn changes(node: &Node, working: &Set) -> [Instant; 2] {
    let wait = |has: fn() -> Set| {
        wait::for_it("a change", LIMIT, || has() == *working);
        Instant::now()
    };
    node.machine.inside(|| {
        std::thread::scope(|scope| {
            let names = scope.spawn(|| wait(names));
            let balancer = scope.spawn(|| wait(|| balancer().1));
            [names, balancer].map(|thread| thread.join().expect("a thread"))
        })
    })
}

/// The number of TCP probes that a node has run, and of the targets that they are of.
fn probes() -> (u64, usize) {
    let text = get(9401, "/metrics");
    let lines = text
        .lines()
        .filter(|line| line.starts_with("healthd_probes_total{") && line.contains("\"tcp\""));
    let counts = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
    let detail = detail(9401);
    let targets = detail["targets"].as_array().expect("targets");
    let targets = targets.iter().filter(|target| target["kind"] == "tcp");
    (counts.sum(), targets.count())
}

/// The records of an API server: what each asks, and the services that follow it.
fn api_records(address: &str) -> Vec<(String, Set)> {
    let text = get(9401, &format!("/explain?target={address}:6443"));
    let explained: Value = serde_json::from_str(&text).expect("JSON");
    let targets = explained["targets"].as_array().expect("targets");
    let record = |target: &Value| {
        let name = target["target"]["target"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let followers = target["subscribers"].as_array().into_iter().flatten();
        let followers = followers.filter_map(|one| one.as_str().map(str::to_owned));
        (name, followers.collect())
    };
    targets.iter().map(record).collect()
}

#[test]
#[ignore = "needs root for network namespaces"]
fn names_and_balancer_of_each_node_have_one_set_in_one_generation() {
    let (mut site, _beside) = Site::new();
    for node in &mut site.nodes {
        node.start();
    }
    let _services: Vec<Services> = site.nodes.iter().map(Services::start).collect();
    let mut masters: Vec<(Master<'_>, bool)> = site
        .nodes
        .iter()
        .zip(ADDRESSES)
        .map(|(node, address)| {
            let address = format!("{address}:{PORT}").parse().unwrap();
            (Master::on(&node.machine, vec![address]), true)
        })
        .collect();
    let mut working: Set = ADDRESSES.map(str::to_owned).into();
    for node in &site.nodes {
        settle(node, &working);
    }
    // A name and the balancer ask the API servers the same: there is one record of each.
    let both: Set = ["dns-authd", "lb-proxy"].map(str::to_owned).into();
    for (node, address) in site.nodes.iter().zip(ADDRESSES) {
        let asked = format!("https {address}:6443/readyz");
        let records = node.machine.inside(|| api_records(address));
        assert_eq!(records, [(asked, both.clone())]);
    }
    for node in &site.nodes {
        // No probe is early by more than a tenth, so more of them would mean a second stream.
        let (each, intervals) = node.machine.inside(|| {
            let (before, n_targets) = probes();
            let begun = Instant::now();
            std::thread::sleep(3 * INTERVAL);
            let n_probes = probes().0 - before;
            let intervals = begun.elapsed().as_secs_f64() / INTERVAL.mul_f64(EARLY).as_secs_f64();
            (n_probes as f64 / n_targets as f64, intervals)
        });
        println!("{each:.2} probes a target in {intervals:.2} shortest intervals");
        assert!(each <= intervals + 1.0 && each >= 1.0, "{each} probes");
    }
    let mut apart = Vec::new();
    for round in 0..N_FLIPS {
        // One stays up: with none left, every server is chosen.
        let number = round % 2;
        let (master, is_up) = &mut masters[number];
        let address = ADDRESSES[number].to_owned();
        *is_up = !*is_up;
        match *is_up {
            true => {
                master.up();
                working.insert(address);
            }
            false => {
                master.down();
                working.remove(&address);
            }
        }
        let observed = &site.nodes[round % site.nodes.len()];
        let [names, balancer] = changes(observed, &working);
        apart.push(names.max(balancer) - names.min(balancer));
        for node in &site.nodes {
            settle(node, &working);
        }
    }
    apart.sort_unstable();
    println!(
        "names and balancer differ by {:?} (median), {:?} (most) in {} flips, as polled",
        apart[apart.len() / 2],
        apart[apart.len() - 1],
        apart.len()
    );
}
