//! Three nodes as `outpost` renders them, whose healthds grant the lease of a virtual address: its holder is killed, cut off, and
//! attacked with advertisements.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use socket2::{Domain, Protocol, Socket, Type};
use tests::binaries::binary;
use tests::daemon::{Daemon, http_get, metric};
use tests::gap::Gap;
use tests::netns::Machine;
use tests::sockets::Held;
use tests::wait;
use vrrp::checksum::ChecksumForm;
use vrrp::packet::{Advertisement, Authentication, Version};

use super::exchange::Site;

/// Longer than anything here takes, even on a busy machine.
pub(super) const LIMIT: Duration = Duration::from_secs(60);

pub(super) const VIP: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 168, 7, 100));

/// VRRP's group, and its number among the protocols.
const GROUP: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 18);
const VRRP: i32 = 112;

/// How long the attack lasts: many down intervals.
const ATTACK: Duration = Duration::from_secs(12);

const CONFIG: &str = r#"version = "v1"
state = "STATE"
swap.socket = "none"

[health]
endpoint = "unix:SOCKET"

[[vip]]
name = "api"
addresses = ["192.168.7.100/24"]
interface = "eth0"
router-id = 51
lease = true
"#;

pub(super) struct Proxy {
    directory: PathBuf,
    /// What its configuration has besides.
    more: &'static str,
    /// The sockets that it gets as from systemd, with the name of their frontend.
    pub(super) held: Option<(&'static str, Held)>,
    pub(super) daemon: Option<Daemon>,
}

impl Proxy {
    pub(super) fn start(&mut self, machine: &Machine) {
        let config = self.directory.join("lb-proxy.toml");
        let state = self.directory.join("lb-proxy").display().to_string();
        let socket = self.directory.join("healthd.sock").display().to_string();
        std::fs::write(
            &config,
            CONFIG.replace("SOCKET", &socket).replace("STATE", &state) + self.more,
        )
        .unwrap();
        let mut serve = machine.command(binary("lb-proxy"));
        serve.args(["serve", "--config"]).arg(config);
        serve
            .arg("--admin-socket")
            .arg(self.directory.join("lb-proxy.admin"));
        if let Some((frontend, held)) = &self.held {
            serve = held.hand_to(frontend, &serve);
        }
        self.daemon = Some(Daemon::start("lb-proxy", serve));
    }

    pub(super) fn log(&self) -> String {
        self.daemon.as_ref().map(Daemon::log).unwrap_or_default()
    }
}

/// The nodes with a healthd and an lb-proxy each.
pub(super) struct Nodes {
    site: Site,
    pub(super) proxies: Vec<Proxy>,
}

impl Nodes {
    /// Starts them; `more` is what the configuration of lb-proxy has besides, `held` are its sockets on a machine.
    pub(super) fn start(
        mut site: Site,
        more: &'static str,
        held: impl Fn(&Machine) -> Option<(&'static str, Held)>,
    ) -> Self {
        let mut proxies = Vec::new();
        for node in &mut site.nodes {
            node.start();
            let directory = node.directory.clone();
            let mut proxy = Proxy {
                directory,
                more,
                held: held(&node.machine),
                daemon: None,
            };
            proxy.start(&node.machine);
            proxies.push(proxy);
        }
        Self { site, proxies }
    }

    /// Starts the lb-proxy of a node that has none.
    pub(super) fn start_proxy(&mut self, node: usize) {
        self.proxies[node].start(&self.site.nodes[node].machine);
    }

    /// The log of a node's healthd.
    pub(super) fn healthd_log(&self, node: usize) -> String {
        let healthd = &self.site.nodes[node].healthd;
        healthd.as_ref().map(Daemon::log).unwrap_or_default()
    }

    /// The answer of a node's healthd at its admin address.
    pub(super) fn ask_healthd(&self, node: usize, path: &str) -> String {
        self.site.nodes[node].get(path).1
    }

    pub(super) fn machine(&self, node: usize) -> &Machine {
        &self.site.nodes[node].machine
    }

    /// The nodes that have the address, of those that `counts` names.
    pub(super) fn holders(&self, counts: &[usize]) -> Vec<usize> {
        let has = |node: &usize| self.machine(*node).has_address(VIP);
        counts.iter().copied().filter(has).collect()
    }

    /// Waits until one of these has the address by its lease, and none of them has it beside it at any time.
    pub(super) fn wait_holder(&self, among: &[usize]) -> usize {
        let mut holder = None;
        wait::for_it("one node has the address by its lease", LIMIT, || {
            let holders = self.holders(among);
            assert!(
                holders.len() <= 1,
                "{holders:?} have the address\n{}",
                self.logs()
            );
            holder = holders.first().copied();
            holder.is_some_and(|holder| self.lease(holder) == "own")
        });
        holder.unwrap()
    }

    fn get(&self, node: usize, path: &str) -> Option<String> {
        let admin: SocketAddr = "127.0.0.1:9404".parse().unwrap();
        let answer = self.machine(node).inside(|| http_get(admin, path));
        answer.ok().map(|(_, body)| body)
    }

    pub(super) fn vip(&self, node: usize) -> Value {
        let body = self.get(node, "/status").unwrap_or_default();
        let status: Value = serde_json::from_str(&body).unwrap_or_default();
        status["detail"]["vips"][0].clone()
    }

    pub(super) fn lease(&self, node: usize) -> String {
        self.vip(node)["lease"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    fn metric(&self, node: usize, name: &str) -> Option<f64> {
        metric(&self.get(node, "/metrics")?, name)
    }

    pub(super) fn logs(&self) -> String {
        let healthd = self
            .site
            .nodes
            .iter()
            .map(|node| node.healthd.as_ref().map(Daemon::log).unwrap_or_default());
        let logs = self.proxies.iter().map(Proxy::log).chain(healthd);
        logs.collect::<Vec<_>>().join("\n--\n")
    }
}

#[test]
#[ignore = "needs root for network namespaces"]
fn a_virtual_address_belongs_to_the_node_with_the_lease() {
    let (site, attacker) = Site::new();
    let nodes = Nodes::start(site, "", |_| None);
    let all = [0, 1, 2];
    let holder = nodes.wait_holder(&all);

    is_not_moved_by_forged_advertisements(&nodes, &attacker, holder);

    // The holder is cut off, and ends before another begins: no look finds two.
    nodes.machine(holder).cut_off();
    let cut = Instant::now();
    let others: Vec<usize> = all.into_iter().filter(|node| *node != holder).collect();
    wait::for_it("the node that is cut off has given it up", LIMIT, || {
        // The others first: it may give the address up between the looks, and not take it back.
        let theirs = nodes.holders(&others);
        let has = nodes.machine(holder).has_address(VIP);
        assert!(
            theirs.is_empty() || !has,
            "two have the address\n{}",
            nodes.logs()
        );
        !has
    });
    let second = nodes.wait_holder(&others);
    println!("cut off: another has the address after {:?}", cut.elapsed());
    wait::for_it("it says so", LIMIT, || {
        nodes.lease(holder).contains("cut off")
    });
    nodes.machine(holder).join();
    wait::for_it("it hears of the holder", LIMIT, || {
        nodes.lease(holder).starts_with("held by ")
    });
    assert_eq!(
        nodes.wait_holder(&all),
        second,
        "it stays\n{}",
        nodes.logs()
    );

    let third = holder_stands_still(&nodes, second);
    holder_is_killed(nodes, &attacker, third);
}

/// A process that stands still cannot give its address up: the kernel takes it off.
fn holder_stands_still(nodes: &Nodes, holder: usize) -> usize {
    let others: Vec<usize> = (0..3).filter(|node| *node != holder).collect();
    let signal = |signal| {
        nodes.proxies[holder]
            .daemon
            .as_ref()
            .unwrap()
            .signal(signal)
    };
    signal(Signal::STOP);
    let stopped = Instant::now();
    wait::for_it("the kernel takes the address off", LIMIT, || {
        !nodes.machine(holder).has_address(VIP)
    });
    println!(
        "stands still: the address is off after {:?}",
        stopped.elapsed()
    );
    let next = nodes.wait_holder(&others);
    signal(Signal::CONT);
    wait::for_it("it hears of the holder", LIMIT, || {
        nodes.lease(holder).starts_with("held by ")
    });
    assert_eq!(nodes.wait_holder(&[0, 1, 2]), next, "{}", nodes.logs());
    next
}

/// One advertisement of the highest priority each quarter of a second moves nothing.
fn is_not_moved_by_forged_advertisements(nodes: &Nodes, attacker: &Machine, holder: usize) {
    let forged = Advertisement {
        version: Version::V3,
        router_id: 51,
        priority: 255,
        interval: Duration::from_secs(1),
        addresses: vec![VIP],
    };
    // Over multicast every sender counts as a router of the link.
    let source: IpAddr = "192.168.7.40".parse().unwrap();
    let octets = forged.compose(
        Authentication::None,
        ChecksumForm::PseudoHeader,
        source,
        GROUP.into(),
    );
    let socket = attacker.inside(|| {
        let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(VRRP))).unwrap();
        socket.set_multicast_ttl_v4(255).unwrap();
        socket
            .set_multicast_if_v4(&Ipv4Addr::new(192, 168, 7, 40))
            .unwrap();
        socket
    });
    let moves = |node: usize| nodes.vip(node)["became_active"].as_u64().unwrap();
    let before: Vec<u64> = (0..3).map(moves).collect();
    let begun = Instant::now();
    while begun.elapsed() < ATTACK {
        let to = SocketAddr::V4(SocketAddrV4::new(GROUP, 0));
        socket.send_to(&octets, &to.into()).unwrap();
        assert_eq!(nodes.holders(&[0, 1, 2]), [holder], "{}", nodes.logs());
        std::thread::sleep(Duration::from_millis(250));
    }
    assert_eq!((0..3).map(moves).collect::<Vec<_>>(), before);
    let overruled = nodes.vip(holder)["overruled"].as_u64().unwrap();
    assert!(
        overruled > 10,
        "the attack arrives: {overruled}\n{}",
        nodes.logs()
    );
}

fn holder_is_killed(mut nodes: Nodes, client: &Machine, holder: usize) {
    let others: Vec<usize> = (0..3).filter(|node| *node != holder).collect();
    // The whole node is gone: an address that a dead process has left would answer for it.
    let gap = Gap::start(client, VIP);
    nodes.machine(holder).cut_off();
    nodes.proxies[holder].daemon.take().unwrap().kill();
    let killed = Instant::now();
    let third = nodes.wait_holder(&others);
    println!(
        "killed: another has the address after {:?}, it was silent for {:?}",
        killed.elapsed(),
        gap.stop()
    );
    nodes.machine(holder).join();
    assert_eq!(nodes.metric(third, "lb_proxy_vrrp_alone"), Some(0.0));

    // Without healthds, advertisements decide, and the holder stays.
    for node in &mut nodes.site.nodes {
        node.healthd.take().unwrap().kill();
    }
    wait::for_it("VRRP alone decides", LIMIT, || {
        others
            .iter()
            .all(|node| nodes.metric(*node, "lb_proxy_vrrp_alone") == Some(1.0))
    });
    wait::for_it("one has the address", LIMIT, || {
        nodes.holders(&others).len() == 1
    });
    let ready = nodes.get(others[0], "/readyz").unwrap();
    assert!(ready.contains("VRRP alone"), "{ready}");
    // They come back: leases decide again, and one of them has it. A node that advertisements made active gives it up when it
    // hears of the lease, which may be a moment after the other has taken it.
    for node in &mut nodes.site.nodes {
        node.start();
    }
    wait::for_it("one node has the address by its lease", LIMIT, || {
        let holders = nodes.holders(&others);
        holders.len() == 1 && nodes.lease(holders[0]) == "own"
    });
}
