//! Balancing of UDP by lb-proxy, on machines of their own.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use balance::pool::{Algorithm, Eligibility, Registry};
use balance::table::{Backend, Frontend, Policy, Route, Table};
use daemon::latest::Latest;
use l4::datagram::{Balancer, Listener};
use l4::relay::{NoReport, Report};
use l4_core::flow::Settings;
use tests::netns::{Machine, Network};
use tests::wait;

use crate::lb_kernel::{UP, pool};

const PATIENCE: Duration = Duration::from_secs(5);

const A: &str = "192.168.7.13:5300";
const B: &str = "192.168.7.14:5300";

struct Site {
    _network: Network,
    balancer: Machine,
    client: Machine,
    servers: [Machine; 2],
    registry: Registry,
}

impl Site {
    fn new() -> Self {
        let mut network = Network::new();
        let balancer = network.machine("lb", "192.168.7.100/24");
        for address in ["192.168.7.101/24", "fd00:7::100/64", "fd00:7::101/64"] {
            add_address(&balancer, address);
        }
        let client = network.machine("client", "192.168.7.20/24");
        add_address(&client, "fd00:7::20/64");
        let servers = [("a", "192.168.7.13/24"), ("b", "192.168.7.14/24")];
        let servers = servers.map(|(name, address)| network.machine(name, address));
        Self {
            _network: network,
            balancer,
            client,
            servers,
            registry: Registry::new(),
        }
    }

    fn table(&mut self, algorithm: Algorithm, eligibilities: [Eligibility; 2]) -> Table {
        let [a, b] = eligibilities;
        Table {
            generation: 0,
            frontends: vec![Arc::new(Frontend::new("dns", Vec::new(), Route::to(0)))],
            backends: vec![Arc::new(Backend {
                pool: pool(&mut self.registry, algorithm, &[(A, a), (B, b)]),
                policy: Policy::default(),
            })],
        }
    }

    fn start(&mut self, cell: &Arc<Latest<Table>>, settings: Settings) -> Balancer {
        let report: Arc<dyn Report> = Arc::new(NoReport);
        self.balancer.inside(|| {
            let listener = Listener {
                frontend: "dns".into(),
                sockets: vec![UdpSocket::bind("[::]:53").unwrap()],
                settings,
            };
            Balancer::start(vec![listener], cell, &report).unwrap()
        })
    }

    fn serve(&self) -> [JoinHandle<()>; 2] {
        [(0, "a"), (1, "b")].map(|(n, name)| {
            let socket = self.servers[n].inside(|| UdpSocket::bind("0.0.0.0:5300").unwrap());
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            thread::spawn(move || answer(&socket, name))
        })
    }

    /// A client that sends to `to` and hears no other.
    fn client(&self, to: &str) -> Client {
        let to: SocketAddr = to.parse().unwrap();
        let from = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = self.client.inside(|| UdpSocket::bind(from).unwrap());
        socket.connect(to).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Client(socket)
    }
}

struct Client(UdpSocket);

impl Client {
    fn ask(&self) -> std::io::Result<String> {
        self.0.send(b"?")?;
        let mut buffer = [0; 64];
        let length = wait::uninterrupted(|| self.0.recv(&mut buffer))?;
        Ok(String::from_utf8_lossy(&buffer[..length]).into_owned())
    }
}

fn add_address(machine: &Machine, address: &str) {
    let mut command = machine.command("ip");
    command.args(["addr", "add", address, "dev", "eth0"]);
    if address.contains(':') {
        command.arg("nodad");
    }
    assert!(command.status().unwrap().success(), "{address}");
}

/// Answers until the word `die`, or until it is quiet for long.
fn answer(socket: &UdpSocket, name: &str) {
    let mut buffer = [0; 64];
    while let Ok((length, peer)) = wait::uninterrupted(|| socket.recv_from(&mut buffer)) {
        if &buffer[..length] == b"die" {
            return;
        }
        let answer = [name.as_bytes(), &buffer[..length]].concat();
        drop(socket.send_to(&answer, peer));
    }
}

#[test]
#[ignore = "needs network namespaces; tests/run runs it"]
fn answers_come_from_the_address_that_was_asked() {
    let mut site = Site::new();
    site.serve();
    let cell = Latest::new(site.table(Algorithm::Source, [UP, UP]));
    let balancer = site.start(&cell, Settings::default());
    let mut answers = Vec::new();
    for to in [
        "192.168.7.100:53",
        "192.168.7.101:53",
        "[fd00:7::100]:53",
        "[fd00:7::101]:53",
    ] {
        let client = site.client(to);
        // A connected socket hears no other address than the one it asked.
        answers.push(client.ask().unwrap());
        assert_eq!(client.ask().unwrap(), *answers.last().unwrap());
    }
    // One source, one server.
    assert_eq!(answers[0], answers[1]);
    assert_eq!(answers[2], answers[3]);
    assert_eq!(balancer.status()[0].flows, 4);
    balancer.stop(Duration::ZERO);
}

#[test]
#[ignore = "needs network namespaces; tests/run runs it"]
fn clients_of_a_server_that_dies_are_answered_by_another() {
    let mut site = Site::new();
    let [dies, _] = site.serve();
    let cell = Latest::new(site.table(Algorithm::RoundRobin, [UP, UP]));
    let balancer = site.start(&cell, Settings::default());
    let clients: Vec<Client> = (0..10).map(|_| site.client("192.168.7.100:53")).collect();
    for (turn, client) in clients.iter().enumerate() {
        let expected = ["a?", "b?"][turn % 2];
        assert_eq!(client.ask().unwrap(), expected);
    }
    // The process dies: the kernel says that no process listens, before any probe does.
    site.client.inside(|| {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        socket.send_to(b"die", A).unwrap();
    });
    dies.join().unwrap();
    for client in &clients {
        // The client asks until it is answered: the kernel limits ICMP errors over all namespaces, and may hold many back while other
        // tests run.
        wait::for_it("the other server answers", 12 * PATIENCE, || {
            client.ask().is_ok_and(|answer| answer == "b?")
        });
    }
    assert_eq!(balancer.status()[0].counts.refused, 5);

    // The other machine is unplugged, which nothing but a probe can tell.
    cell.publish(site.table(Algorithm::RoundRobin, [UP, Eligibility::Down]));
    let moved = || balancer.status()[0].counts.moved;
    wait::for_it("flows leave the server", PATIENCE, || moved() == 10);
}

#[test]
#[ignore = "needs network namespaces; tests/run runs it"]
fn a_flood_of_sources_stays_within_bounds() {
    let mut site = Site::new();
    site.serve();
    let cell = Latest::new(site.table(Algorithm::RoundRobin, [UP, UP]));
    let settings = Settings {
        max_flows: 100,
        ..Settings::default()
    };
    let balancer = site.start(&cell, settings);
    let sockets = || {
        // The sockets of this machine alone: the listening one, and one of each flow.
        let read = || std::fs::read_to_string("/proc/thread-self/net/udp").unwrap();
        site.balancer.inside(read).lines().skip(1).count()
    };
    let regular = site.client("192.168.7.100:53");
    regular.ask().unwrap();
    // As many sources as there are ports, a few at a time so that the client stays within its limits.
    for _ in 0..50 {
        let clients: Vec<Client> = (0..40).map(|_| site.client("192.168.7.100:53")).collect();
        for client in &clients {
            client.0.send(b"?").unwrap();
        }
        // A flow in use is not what makes room.
        assert!(regular.ask().is_ok());
    }
    let status = &balancer.status()[0];
    assert!(status.flows <= 100, "{status:?}");
    assert!(status.counts.evicted >= 1_800, "{status:?}");
    assert!(sockets() <= 101, "{} sockets", sockets());
    assert_eq!(balancer.kill(|_, _| true), status.flows);
    wait::for_it("their sockets are closed", PATIENCE, || sockets() <= 1);
}
