use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use balance::pool::{
    Algorithm, Eligibility, Registry, Server, ServerSettings, Settings as PoolSettings,
};
use balance::table::{Backend, Frontend, Policy, Route};

use super::*;

const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Default)]
struct Reported(AtomicU64);

impl Report for Reported {
    fn connect_failed(&self, _: &Arc<str>, _: &Arc<Server>, _: &io::Error) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn socket() -> UdpSocket {
    socket_at("127.0.0.1:0")
}

fn socket_at(address: &str) -> UdpSocket {
    let socket = UdpSocket::bind(address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

fn table(registry: &mut Registry, servers: &[(SocketAddr, Eligibility)]) -> Table {
    let mut settings = PoolSettings::new("dns");
    settings.algorithm = Algorithm::RoundRobin;
    for (address, eligibility) in servers {
        let mut server = ServerSettings::new(address.to_string(), *address);
        server.eligibility = *eligibility;
        settings.servers.push(server);
    }
    Table {
        generation: 7,
        frontends: vec![Arc::new(Frontend::new("dns", Vec::new(), Route::to(0)))],
        backends: vec![Arc::new(Backend {
            pool: registry.pool(settings),
            policy: Policy::default(),
        })],
    }
}

/// Passes one datagram through `server`, and gives it back with the server's name before it.
fn answer(server: &UdpSocket, name: &str) {
    let mut buffer = [0; 64];
    let (length, peer) = server.recv_from(&mut buffer).unwrap();
    let answer = [name.as_bytes(), &buffer[..length]].concat();
    server.send_to(&answer, peer).unwrap();
}

fn receive(client: &UdpSocket) -> String {
    let mut buffer = [0; 64];
    let (length, _) = client.recv_from(&mut buffer).unwrap();
    String::from_utf8(buffer[..length].to_vec()).unwrap()
}

#[test]
fn datagrams_go_to_servers_and_answers_come_back() {
    // No other test is given the port of a server that has died: it would swallow the datagram that has to be refused.
    let (a, b) = (socket(), socket_at("127.0.0.2:0"));
    let (at_a, at_b) = (a.local_addr().unwrap(), b.local_addr().unwrap());
    let up = Eligibility::Up { since: None };
    let mut registry = Registry::new();
    let cell = Latest::new(table(&mut registry, &[(at_a, up), (at_b, up)]));
    let reported = Arc::new(Reported::default());
    let report: Arc<dyn Report> = Arc::clone(&reported) as Arc<dyn Report>;
    let listener = socket();
    let address = listener.local_addr().unwrap();
    let listeners = vec![Listener {
        frontend: "dns".into(),
        sockets: vec![listener],
        settings: Settings::default(),
    }];
    let balancer = Balancer::start(listeners, &cell, &report).unwrap();
    let client = socket();
    client.connect(address).unwrap();

    client.send(b"1").unwrap();
    answer(&a, "a");
    assert_eq!(receive(&client), "a1");
    client.send(b"2").unwrap();
    answer(&a, "a");
    assert_eq!(receive(&client), "a2");

    // The server goes: the next datagram is the other's.
    cell.publish(table(
        &mut registry,
        &[(at_a, Eligibility::Down), (at_b, up)],
    ));
    client.send(b"3").unwrap();
    answer(&b, "b");
    assert_eq!(receive(&client), "b3");

    // The server has died, and the table still has it as up: the datagram that it refused goes to the other.
    cell.publish(table(&mut registry, &[(at_a, up), (at_b, up)]));
    drop(b);
    client.send(b"4").unwrap();
    answer(&a, "a");
    let answered = receive(&client);
    assert_eq!(answered, "a4");
    assert!(reported.0.load(Ordering::Relaxed) >= 1);

    let [status] = &balancer.status()[..] else {
        panic!("one frontend");
    };
    assert_eq!(status.flows, 1);
    assert_eq!((status.counts.moved, status.counts.refused), (1, 1));
    assert_eq!(balancer.flows(9, |_, _| true).len(), 1);
    assert_eq!(balancer.kill(|frontend, _| frontend == "dns"), 1);
    balancer.stop(PATIENCE);
}

/// A frontend with one server.
struct Rig {
    balancer: Balancer,
    client: UdpSocket,
    server: UdpSocket,
}

impl Rig {
    fn new(settings: Settings) -> Self {
        let server = socket();
        let up = Eligibility::Up { since: None };
        let servers = [(server.local_addr().unwrap(), up)];
        let cell = Latest::new(table(&mut Registry::new(), &servers));
        let report: Arc<dyn Report> = Arc::new(Reported::default());
        let listener = socket();
        let client = socket();
        client.connect(listener.local_addr().unwrap()).unwrap();
        let listeners = vec![Listener {
            frontend: "dns".into(),
            sockets: vec![listener],
            settings,
        }];
        Self {
            balancer: Balancer::start(listeners, &cell, &report).unwrap(),
            client,
            server,
        }
    }

    fn status(&self) -> Status {
        self.balancer.status().remove(0)
    }
}

/// The longest payload of a datagram over IPv4.
const LONGEST_OF_IPV4: usize = 65_507;

#[test]
fn datagrams_of_any_length_go_both_ways() {
    let rig = Rig::new(Settings::default());
    let mut buffer = vec![0; LONGEST];
    for length in [0, 1, 4096, 4097, 8192, 20_000, LONGEST_OF_IPV4] {
        let sent: Vec<u8> = (0..251).cycle().take(length).collect();
        rig.client.send(&sent).unwrap();
        let (received, peer) = rig.server.recv_from(&mut buffer).unwrap();
        assert!(buffer[..received] == sent, "{length}");
        rig.server.send_to(&sent, peer).unwrap();
        let received = rig.client.recv(&mut buffer).unwrap();
        assert!(buffer[..received] == sent, "{length}");
    }
    assert_eq!(rig.status().lost, Lost::default());
}

#[test]
fn datagrams_that_the_kernel_merges_stay_those_they_were() {
    let one_by_one = Settings {
        requests: Some(7),
        ..Settings::default()
    };
    for (settings, n_flows) in [(Settings::default(), 1), (one_by_one, 2)] {
        let rig = Rig::new(settings);
        let mut sent: Vec<u8> = (0..12_u8).flat_map(|number| [number; 1000]).collect();
        sent.extend([12; 13]);
        let source = sys::source::Source::Bound;
        let peer = |socket: &UdpSocket| {
            let mut received = Vec::new();
            let mut buffer = [0; 9999];
            let mut peers = std::collections::BTreeSet::new();
            for _ in 0..13 {
                let (length, peer) = socket.recv_from(&mut buffer).unwrap();
                assert!(length <= 1000);
                received.extend_from_slice(&buffer[..length]);
                peers.insert(peer);
            }
            assert!(received == sent);
            peers
        };
        let each = |sent: io::Result<usize>| assert!(sent.is_ok());
        sys::message::send_merged(&rig.client, &sent, 1000, None, &source, each).unwrap();
        let flows = peer(&rig.server);
        assert_eq!(flows.len(), n_flows);
        let info = rig.balancer.flows(9, |_, _| true);
        assert_eq!(info.iter().map(|(_, flow)| flow.requests).sum::<u64>(), 13);

        // Answers, too.
        let to = flows.first().copied();
        let each = |sent: io::Result<usize>| assert!(sent.is_ok());
        sys::message::send_merged(&rig.server, &sent, 1000, to, &source, each).unwrap();
        peer(&rig.client);
        let answered = || {
            let info = rig.balancer.flows(9, |_, _| true);
            info.iter().map(|(_, flow)| flow.responses).sum::<u64>()
        };
        // They are counted after they were sent.
        let deadline = clock::now() + PATIENCE;
        while answered() < 13 {
            assert!(clock::now() < deadline, "{}", answered());
            thread::yield_now();
        }
    }
}

#[test]
fn flows_continue_in_the_same_process_after_a_pause() {
    let mut rig = Rig::new(Settings::default());
    let mut buffer = [0; 64];
    for letter in [b"a", b"b"] {
        rig.client.send(letter).unwrap();
        let (length, peer) = rig.server.recv_from(&mut buffer).unwrap();
        rig.balancer.pause();
        assert_eq!(rig.balancer.give().len(), 1);
        // It waits in the socket.
        rig.server.send_to(&buffer[..length], peer).unwrap();
        rig.balancer.run().unwrap();
        let length = rig.client.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..length], letter);
    }
}
