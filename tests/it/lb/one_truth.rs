//! One truth: DNS, the balancer and healthd have one record of each target, in one generation.
//!
//! All three run with their default schedules, so that none of them deviates.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use tests::binaries::binary;
use tests::daemon::{Daemon, http_get, metric};
use tests::dns::{self, ask_a};
use tests::lb::{FRONT, Place, pair};
use tests::scratch::{at, loopback};
use tests::stream::{PATIENCE, Server};
use tests::wait;

const N_SERVERS: usize = 3;

/// The EDNS option of RFC 8914.
const EXTENDED_ERROR: u16 = 15;

/// The interval of healthd's probes unless its file says otherwise, and the earliest part of it that a probe may
/// start before.
const INTERVAL: Duration = Duration::from_secs(2);
const EARLY: f64 = 0.9;

struct Node {
    place: Place,
    servers: Vec<SocketAddr>,
    healthd: Option<Daemon>,
    authd: Daemon,
    lb: Daemon,
}

/// The addresses that are up, as one service has them.
type Set = BTreeSet<IpAddr>;

impl Node {
    fn start() -> Self {
        Self::start_with("")
    }

    /// Starts with a further line in the configuration of both subscribers.
    fn start_with(line: &str) -> Self {
        let place = Place::new();
        let servers: Vec<SocketAddr> = (0..N_SERVERS).map(|_| at(loopback(), FRONT)).collect();
        let members: Vec<String> = servers.iter().map(|it| format!("'{}'", it.ip())).collect();
        let zone = format!(
            "$TTL 60\n@ SOA ns1 hostmaster 1 3H 30M 2W 60\n NS ns1\nns1 A 192.0.2.53\n\
             api LUA A \"ifportup({FRONT}, {{{}}}, {{selector='all', backupSelector='empty'}})\"\n",
            members.join(", ")
        );
        place.files.write("one.example.zone", &zone);
        let authd = place.files.write(
            "dns-authd.toml",
            &format!(
                "version = \"v1\"\nlisten = [\"{}\"]\nadmin.listen = \"{}\"\n\
                 health.endpoint = \"unix:{}\"\n{line}\n\
                 [[zone]]\nname = \"one.example\"\nfile = \"one.example.zone\"\n",
                at(place.ip, 5301),
                at(place.ip, 9402),
                place.healthd_socket().display(),
            ),
        );
        let healthd = place.start_healthd("");
        let mut command = Command::new(binary("dns-authd"));
        command.arg("serve").arg("--config").arg(authd);
        let authd = Daemon::start("dns-authd", command);
        let pair = pair(&place, "", "balance = \"round-robin\"", &servers);
        let lb = place.start(&format!("{line}\n{pair}"));
        Self {
            healthd: Some(healthd),
            authd,
            lb,
            place,
            servers,
        }
    }

    fn authority(&self) -> SocketAddr {
        at(self.place.ip, 5301)
    }

    fn detail(&self, port: u16) -> Value {
        let (_, text) = http_get(at(self.place.ip, port), "/status").expect("a status");
        let status: Value = serde_json::from_str(&text).expect("JSON");
        status["detail"].clone()
    }

    /// healthd's generation and set.
    fn healthd(&self) -> (u64, Set) {
        let detail = self.detail(9401);
        let targets = detail["targets"].as_array().expect("targets");
        let up = targets.iter().filter(|target| target["liveness"] == "up");
        let up = up.filter_map(|target| target["address"].as_str());
        (generation(&detail), addresses(up))
    }

    /// The generation and set of lb-proxy.
    fn balancer(&self) -> (u64, Set) {
        let detail = self.detail(9404);
        let servers = detail["backends"][0]["servers"].as_array();
        let servers = servers.into_iter().flatten();
        let chosen = servers.filter(|server| server["chosen"] == true);
        let chosen = chosen.filter_map(|server| server["address"].as_str());
        (generation(&detail["healthd"]), addresses(chosen))
    }

    /// The generation and set of dns-authd; `None` when one began between the questions.
    fn names(&self) -> Option<(u64, Set)> {
        let before = dns::generation(self.authority())?;
        let answer = ask_a(self.authority(), "api.one.example").expect("an answer");
        let after = dns::generation(self.authority())?;
        (before == after).then(|| (after, answer.addresses()))
    }

    /// The answer of dns-authd: its set, its longest TTL and the extended error that it has.
    fn answer(&self) -> (Set, u32, Option<Vec<u8>>) {
        let answer = ask_a(self.authority(), "api.one.example").expect("an answer");
        let ttl = answer.answers.iter().map(|record| record.ttl).max();
        let options = answer.edns.iter().flat_map(|edns| &edns.options);
        let mut extended = options.filter(|(code, _)| *code == EXTENDED_ERROR);
        let extended = extended.next().map(|(_, data)| data.clone());
        (answer.addresses(), ttl.unwrap_or_default(), extended)
    }

    /// Whether dns-authd and lb-proxy say in each place that they probe the targets themselves.
    fn stand_in(&self) -> [bool; 8] {
        let ready = |port| http_get(at(self.place.ip, port), "/readyz").expect("an answer");
        let gauge = |port, name| {
            let (_, text) = http_get(at(self.place.ip, port), "/metrics").expect("metrics");
            metric(&text, name) == Some(1.0)
        };
        let (names, balancer) = (ready(9402), ready(9404));
        assert_eq!((names.0, balancer.0), (200, 200), "both are ready");
        [
            self.detail(9402)["health"]["stand_in"] == true,
            names.1.contains("dns-authd probes its targets itself"),
            gauge(9402, "dns_authd_health_stand_in"),
            self.answer().2.is_some(),
            self.detail(9404)["healthd"]["stand_in"] == true,
            balancer.1.contains("lb-proxy probes its targets itself"),
            gauge(9404, "lb_proxy_healthd_stand_in"),
            self.balancer().0 == 0,
        ]
    }

    /// Waits until all three have the same generation and the same set, this one.
    fn settle(&self, working: &Set) -> u64 {
        wait::until("one generation and one set everywhere", PATIENCE, || {
            let (generation, set) = self.healthd();
            let all = [self.balancer(), self.names()?];
            let same = all.iter().all(|one| *one == (generation, set.clone()));
            (same && set == *working).then_some(generation)
        })
    }
}

fn generation(value: &Value) -> u64 {
    value["generation"].as_u64().expect("a generation")
}

fn addresses<'a>(all: impl Iterator<Item = &'a str>) -> Set {
    all.map(|address| {
        let address: SocketAddr = address.parse().expect("an address");
        address.ip()
    })
    .collect()
}

/// The number of probes that have ended.
fn n_probes(node: &Node) -> u64 {
    let (_, text) = http_get(at(node.place.ip, 9401), "/metrics").expect("metrics");
    let lines = text.lines();
    let lines = lines.filter(|line| line.starts_with("healthd_probes_total"));
    let counts = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
    counts.sum()
}

#[test]
fn each_address_has_one_record_and_one_probe_an_interval() {
    let node = Node::start();
    let _servers: Vec<Server> = node
        .servers
        .iter()
        .map(|address| Server::named(*address, "s"))
        .collect();
    let all: Set = node.servers.iter().map(SocketAddr::ip).collect();
    node.settle(&all);
    let detail = node.detail(9401);
    let targets = detail["targets"].as_array().expect("targets");
    let mut listed: Vec<&str> = targets
        .iter()
        .filter_map(|target| target["address"].as_str())
        .collect();
    listed.sort_unstable();
    let mut expected: Vec<String> = node.servers.iter().map(ToString::to_string).collect();
    expected.sort_unstable();
    assert_eq!(listed, expected, "each address once");
    for target in targets {
        assert_eq!(target["deviations"].as_array().map(Vec::len), Some(0));
    }
    // No probe is early by more than a tenth, so more of them would mean a second stream.
    let begun = Instant::now();
    let before = n_probes(&node);
    std::thread::sleep(4 * INTERVAL);
    let probes = n_probes(&node) - before;
    let intervals = begun.elapsed().as_secs_f64() / INTERVAL.mul_f64(EARLY).as_secs_f64();
    let each = probes as f64 / N_SERVERS as f64;
    println!("{each:.2} probes a target in {intervals:.2} intervals");
    assert!(each <= intervals + 1.0, "{each} probes in {intervals}");
    assert!(each >= 1.0, "{each} probes in {intervals}");
}

#[test]
fn after_each_flip_names_and_balancer_have_the_same_set_in_the_same_generation() {
    let node = Node::start();
    let mut servers: Vec<Option<Server>> = node
        .servers
        .iter()
        .map(|address| Some(Server::named(*address, "s")))
        .collect();
    let mut working: Set = node.servers.iter().map(SocketAddr::ip).collect();
    node.settle(&working);
    let mut seen: BTreeMap<u64, Set> = BTreeMap::new();
    let mut apart = Vec::new();
    for round in 0..6 {
        let number = round % N_SERVERS;
        let address = node.servers[number];
        match servers[number].take() {
            Some(mut server) => {
                server.close();
                working.remove(&address.ip());
            }
            None => {
                servers[number] = Some(Server::named(address, "s"));
                working.insert(address.ip());
            }
        }
        // A generation means one set, whoever says it, also while the change is on its way.
        let mut changed: [Option<Instant>; 2] = [None; 2];
        wait::for_it("both have changed", PATIENCE, || {
            let told = [node.names(), Some(node.balancer())];
            for (told, changed) in told.into_iter().zip(&mut changed) {
                let Some((generation, set)) = told else {
                    continue;
                };
                if set == working {
                    changed.get_or_insert_with(Instant::now);
                }
                let other = seen.entry(generation).or_insert_with(|| set.clone());
                assert_eq!(*other, set, "generation {generation}, round {round}");
            }
            changed.iter().all(Option::is_some)
        });
        if let [Some(names), Some(balancer)] = changed {
            let difference = names.max(balancer) - names.min(balancer);
            apart.push(difference);
        }
        let generation = node.settle(&working);
        assert!(seen.keys().all(|before| *before <= generation));
    }
    apart.sort_unstable();
    println!(
        "names and balancer differ by {:?} (median), {:?} (most) in {} flips, as polled",
        apart[apart.len() / 2],
        apart[apart.len() - 1],
        apart.len()
    );
}

#[test]
fn a_healthd_that_stays_away_is_replaced_by_own_probes_until_it_is_back() {
    let mut node = Node::start_with("health.stand-in-after = \"1s\"");
    let mut servers: Vec<Server> = node
        .servers
        .iter()
        .map(|address| Server::named(*address, "s"))
        .collect();
    let mut working: Set = node.servers.iter().map(SocketAddr::ip).collect();
    node.settle(&working);
    assert_eq!(node.stand_in(), [false; 8]);
    node.healthd.take().expect("it runs").kill();
    wait::for_it("both say that they probe", PATIENCE, || {
        node.stand_in() == [true; 8]
    });
    for service in [&node.authd, &node.lb] {
        service.wait_log("healthd is away; this service probes its targets itself");
    }
    // A server that dies now is neither answered nor chosen.
    servers[0].close();
    working.remove(&node.servers[0].ip());
    wait::for_it("both have found it down", PATIENCE, || {
        let (set, ttl, extended) = node.answer();
        assert_eq!(ttl, 1);
        let extended = extended.expect("an extended error");
        assert!(extended.starts_with(b"\0\0healthd is away"), "{extended:?}");
        set == working && node.balancer().1 == working
    });
    // healthd's word counts again as soon as it is back.
    node.healthd = Some(node.place.start_healthd(""));
    node.settle(&working);
    assert_eq!(node.stand_in(), [false; 8]);
    for service in [&node.authd, &node.lb] {
        service.wait_log("healthd is back; this service has ended its own probes");
    }
}
