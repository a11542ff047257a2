//! Three nodes with the addresses of the example site, each with lb-proxy and healthd, that share a
//! virtual IP in front of the API and the ingress: what a client sees when something breaks.

use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tests::binaries::binary;
use tests::daemon::{Daemon, run};
use tests::netns::{Machine, Network};
use tests::scratch::Scratch;
use tests::stream::{End, Server, end_within, try_line};
use tests::wait;

const ADDRESSES: [&str; 3] = ["192.168.7.13", "192.168.7.14", "192.168.7.15"];
const VIP: &str = "192.168.7.100";
const API: u16 = 6443;
const INGRESS: u16 = 443;

/// The interval of probes.
const PROBE: Duration = Duration::from_millis(500);

/// The interval of advertisements.
const ADVERTISEMENT: Duration = Duration::from_millis(200);

/// Three advertisements that did not come, and the skew of the lowest priority in use.
const TAKEOVER: Duration = Duration::from_millis(3 * 200 + 200 * (256 - 80) / 256);

/// The time that a loaded machine may add to any bound.
const SLACK: Duration = Duration::from_millis(1500);

/// The time limit of an attempt that measures an outage, and of one that has to succeed.
const BRIEF: Duration = Duration::from_millis(100);
const PATIENT: Duration = Duration::from_secs(5);

/// A node: its files and services, and the servers of the cluster that run on it.
struct Node<'n> {
    machine: &'n Machine,
    number: usize,
    files: Scratch,
    healthd: Option<Daemon>,
    lb: Option<Daemon>,
    api: Option<Server>,
    ingress: Option<Server>,
}

impl<'n> Node<'n> {
    fn new(machine: &'n Machine, number: usize) -> Self {
        let mut node = Self {
            machine,
            number,
            files: Scratch::new("node"),
            healthd: None,
            lb: None,
            api: None,
            ingress: None,
        };
        node.start_servers();
        node.configure();
        let config = node.files.join("healthd.toml");
        let healthd = node.command("healthd", &["serve", "--config", config.to_str().unwrap()]);
        node.healthd = Some(Daemon::start("healthd", healthd));
        node.start_lb();
        node
    }

    fn start_servers(&mut self) {
        // The old ones first: the addresses are the same.
        self.api = None;
        self.ingress = None;
        let number = self.number;
        let at = |port| -> SocketAddr { format!("{}:{port}", ADDRESSES[number]).parse().unwrap() };
        let server = |port, kind: &str| {
            let name = format!("{kind}-{number}");
            self.machine.inside(|| Server::named(at(port), &name))
        };
        self.api = Some(server(API, "api"));
        self.ingress = Some(server(INGRESS, "ingress"));
    }

    fn configure(&self) {
        let path = |name: &str| self.files.join(name).display().to_string();
        self.files.write(
            "healthd.toml",
            &format!(
                "version = \"v1\"\nlisten = [\"unix:{}\"]\nstate = \"{}\"\n",
                path("healthd.sock"),
                path("state"),
            ),
        );
        let interval = ADVERTISEMENT.as_millis();
        let peers: Vec<String> = (0..3)
            .filter(|n| *n != self.number)
            .map(|n| format!("\"{}\"", ADDRESSES[n]))
            .collect();
        let mut text = format!(
            "version = \"v1\"\nhealth.endpoint = \"unix:{}\"\nswap.socket = \"{}\"\n\
             state = \"{}\"\n\
             [[frontend]]\nname = \"api\"\nlisten = [\"{VIP}:{API}\"]\nbackend = \"api\"\n\
             [[frontend]]\nname = \"ingress\"\nlisten = [\"{VIP}:{INGRESS}\"]\nbackend = \"ingress\"\n\
             [[vip]]\nname = \"api\"\naddresses = [\"{VIP}/24\"]\ninterface = \"eth0\"\n\
             router-id = 51\nversion = 3\npriority = {}\ninterval = \"{interval}ms\"\n\
             peers = [{}]\ntrack = [\"frontend:api\"]\n",
            path("healthd.sock"),
            path("swap.sock"),
            path("lb-proxy-state"),
            100 - 10 * self.number,
            peers.join(", "),
        );
        for (name, port) in [("api", API), ("ingress", INGRESS)] {
            text.push_str(&format!(
                "[[backend]]\nname = \"{name}\"\nbalance = \"round-robin\"\non-down = \"reset\"\n\
                 connect-timeout = \"300ms\"\n\
                 check = {{ kind = \"tcp\", interval = \"{}ms\", fast-interval = \"200ms\", timeout = \"200ms\" }}\n",
                PROBE.as_millis(),
            ));
            for (n, address) in ADDRESSES.iter().enumerate() {
                text.push_str(&format!(
                    "[[backend.server]]\nname = \"m{n}\"\naddress = \"{address}:{port}\"\n"
                ));
            }
        }
        self.files.write("lb-proxy.toml", &text);
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = self.machine.command(binary(program));
        command.args(arguments);
        command
    }

    fn start_lb(&mut self) {
        let config = self.files.join("lb-proxy.toml");
        let command = self.command("lb-proxy", &["serve", "--config", config.to_str().unwrap()]);
        self.lb = Some(Daemon::start("lb-proxy", command));
    }

    fn has_vip(&self) -> bool {
        self.machine
            .addresses()
            .iter()
            .any(|address| address.starts_with(VIP))
    }
}

fn connect_within(address: SocketAddr, limit: Duration) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, limit)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(limit))?;
    Ok(stream)
}

/// A client beside the nodes.
struct Client<'n>(&'n Machine);

impl Client<'_> {
    /// The server of a connection to the virtual IP.
    fn visit(&self, port: u16) -> std::io::Result<String> {
        let address: SocketAddr = format!("{VIP}:{port}").parse().unwrap();
        self.0
            .inside(|| try_line(&connect_within(address, Duration::from_millis(400))?))
    }

    /// A session that stays.
    fn hold(&self, port: u16) -> (TcpStream, String) {
        let address: SocketAddr = format!("{VIP}:{port}").parse().unwrap();
        let stream = self
            .0
            .inside(|| connect_within(address, Duration::from_secs(5)).unwrap());
        let name = try_line(&stream).unwrap();
        (stream, name)
    }

    /// The longest time without a connection that worked while `event` happens and for `after` more,
    /// and how many attempts failed, of which each has `patience`. `--nocapture` shows both. Who holds
    /// the lock holds up the next attempt.
    fn watch(
        &self,
        what: &str,
        patience: Duration,
        after: Duration,
        event: impl FnOnce(&Mutex<()>),
    ) -> (Duration, usize) {
        let stop = AtomicBool::new(false);
        let attempt = Mutex::new(());
        std::thread::scope(|scope| {
            let watcher = scope.spawn(|| self.0.inside(|| attempts(&attempt, patience, &stop)));
            std::thread::sleep(Duration::from_millis(200));
            event(&attempt);
            std::thread::sleep(after);
            stop.store(true, Ordering::Relaxed);
            let (longest, failed) = watcher.join().unwrap();
            println!("{what}: {longest:?} without a connection, {failed} attempts failed");
            (longest, failed)
        })
    }
}

/// Connects again and again: the longest time without a connection that worked, and how many failed.
fn attempts(attempt: &Mutex<()>, patience: Duration, stop: &AtomicBool) -> (Duration, usize) {
    let address: SocketAddr = format!("{VIP}:{API}").parse().unwrap();
    let (mut longest, mut failed) = (Duration::ZERO, 0);
    let mut last = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let under_way = attempt.lock().unwrap();
        let visit = connect_within(address, patience).and_then(|stream| try_line(&stream));
        drop(under_way);
        if visit.is_ok() {
            longest = longest.max(last.elapsed());
            last = Instant::now();
        } else {
            failed += 1;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    (longest.max(last.elapsed()), failed)
}

fn holders(nodes: &[Node<'_>]) -> Vec<usize> {
    let holding = nodes.iter().filter(|node| node.has_vip());
    holding.map(|node| node.number).collect()
}

#[test]
#[ignore = "needs network namespaces; tests/run runs it"]
fn whatever_breaks_the_next_connection_works_within_its_bound() {
    let mut network = Network::new();
    let machines =
        [0, 1, 2].map(|n| network.machine(&format!("m{n}"), &format!("{}/24", ADDRESSES[n])));
    let outside = network.machine("client", "192.168.7.20/24");
    let client = Client(&outside);
    let mut nodes: Vec<Node<'_>> = machines
        .iter()
        .enumerate()
        .map(|(number, machine)| Node::new(machine, number))
        .collect();
    settle(&nodes, &[0], &client);

    a_backend_dies(&mut nodes, &client);
    a_proxy_dies(&mut nodes, &client);
    a_link_is_cut(&nodes, &client);
    a_partition_heals(&nodes, &client);
    a_node_dies(&mut nodes, &client);
    a_proxy_is_stopped(&mut nodes, &client);
}

/// Waits until exactly these hold the address, and every server serves.
fn settle(nodes: &[Node<'_>], expected: &[usize], client: &Client<'_>) {
    let limit = Duration::from_secs(10);
    wait::for_it(&format!("{expected:?} hold the address"), limit, || {
        holders(nodes) == expected
    });
    for port in [API, INGRESS] {
        let mut missing = vec!["-0", "-1", "-2"];
        wait::for_it(&format!("servers of {port} serve"), limit, || {
            if let Ok(name) = client.visit(port) {
                missing.retain(|end| !name.ends_with(end));
            }
            missing.is_empty()
        });
    }
}

fn a_backend_dies(nodes: &mut [Node<'_>], client: &Client<'_>) {
    let held: Vec<_> = (0..3).map(|_| client.hold(API)).collect();
    let (gap, failed) = client.watch("a backend died", PATIENT, PROBE + SLACK, |attempt| {
        // Refuses, and its sessions stay as they are: as when the process hangs while it ends. Between two attempts,
        // because the kernel resets what the server has not yet accepted.
        let between = attempt.lock().unwrap();
        nodes[1].api.as_mut().unwrap().close();
        drop(between);
        let (stream, name) = held.iter().find(|(_, name)| name == "api-1").unwrap();
        let ended = end_within(stream, PROBE + SLACK);
        assert!(matches!(ended, End::Reset(_)), "{name}: {ended:?}");
    });
    assert_eq!(
        failed, 0,
        "connections failed while a backend died, gap {gap:?}"
    );
    assert_eq!(holders(nodes), [0]);
    nodes[1].start_servers();
    settle(nodes, &[0], client);
}

fn a_proxy_dies(nodes: &mut [Node<'_>], client: &Client<'_>) {
    let mut lb = None;
    let (gap, _) = client.watch("a proxy was killed", BRIEF, TAKEOVER + SLACK, |_| {
        lb = nodes[0].lb.take();
        if let Some(lb) = lb.take() {
            lb.kill();
        }
    });
    assert!(gap < TAKEOVER + SLACK, "after a proxy was killed: {gap:?}");
    assert!(nodes[1].has_vip());
    // It finds and removes the address that it left behind, and then becomes active again.
    let (gap, _) = client.watch("it came back", BRIEF, TAKEOVER + SLACK, |_| {
        nodes[0].start_lb()
    });
    assert!(gap < TAKEOVER + SLACK, "when it came back: {gap:?}");
    settle(nodes, &[0], client);
}

fn a_link_is_cut(nodes: &[Node<'_>], client: &Client<'_>) {
    let (gap, _) = client.watch("a link was cut", BRIEF, TAKEOVER + SLACK, |_| {
        nodes[0].machine.unplug()
    });
    assert!(
        gap < TAKEOVER + PROBE + SLACK,
        "after a link was cut: {gap:?}"
    );
    // It lets go by itself.
    wait::for_it("the unplugged node lets go", SLACK, || !nodes[0].has_vip());
    nodes[0].machine.plug();
    settle(nodes, &[0], client);
}

fn a_partition_heals(nodes: &[Node<'_>], client: &Client<'_>) {
    let (gap, _) = client.watch("a partition", BRIEF, TAKEOVER + SLACK, |_| {
        nodes[0].machine.cut_off()
    });
    assert!(gap < TAKEOVER + PROBE + SLACK, "after a partition: {gap:?}");
    // Either side has one that serves those that it can reach.
    assert!(nodes[1].has_vip());
    let (gap, _) = client.watch("it healed", BRIEF, Duration::from_secs(3), |_| {
        nodes[0].machine.join()
    });
    assert!(gap < TAKEOVER + PROBE + SLACK, "when it healed: {gap:?}");
    assert_eq!(holders(nodes), [0], "after a partition has healed");
    settle(nodes, &[0], client);
}

fn a_node_dies(nodes: &mut [Node<'_>], client: &Client<'_>) {
    let (gap, _) = client.watch("a node died", BRIEF, TAKEOVER + PROBE + SLACK, |_| {
        nodes[0].machine.unplug();
        nodes[0].lb.take().unwrap().kill();
        nodes[0].healthd.take().unwrap().kill();
        nodes[0].api = None;
        nodes[0].ingress = None;
    });
    assert!(gap < TAKEOVER + PROBE + SLACK, "after a node died: {gap:?}");
    for port in [API, INGRESS] {
        for _ in 0..10 {
            let name = client.visit(port).unwrap();
            assert!(!name.ends_with("-0"), "{name}");
        }
    }
    // As after a boot: without the address.
    let mut forget = nodes[0].machine.command("ip");
    forget.args(["addr", "del", &format!("{VIP}/24"), "dev", "eth0"]);
    drop(run(forget));
    nodes[0].machine.plug();
    nodes[0].start_servers();
    let config = nodes[0].files.join("healthd.toml");
    let healthd = nodes[0].command("healthd", &["serve", "--config", config.to_str().unwrap()]);
    nodes[0].healthd = Some(Daemon::start("healthd", healthd));
    nodes[0].start_lb();
    settle(nodes, &[0], client);
}

fn a_proxy_is_stopped(nodes: &mut [Node<'_>], client: &Client<'_>) {
    // The address moves before the one that has it lets go.
    let mut stopped = None;
    let (gap, failed) = client.watch("nothing", PATIENT, TAKEOVER + SLACK, |_| {
        stopped = nodes[0].lb.take()
    });
    assert_eq!(failed, 0, "{gap:?}");
    let mut stopped = stopped.unwrap();
    let (gap, _) = client.watch("a planned move", BRIEF, TAKEOVER + SLACK, |_| {
        stopped.signal(Signal::TERM);
        assert!(stopped.wait().success(), "{}", stopped.log());
    });
    assert!(gap < TAKEOVER + SLACK, "a planned move: {gap:?}");
    assert_eq!(holders(nodes), [1]);
    stopped.wait_log(&format!("handed over to {}", ADDRESSES[1]));
}
