use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use balance::pool::{
    Algorithm, Eligibility, Registry, Server, ServerSettings, Settings as PoolSettings,
};
use balance::table::{Backend, Frontend, Policy, Route};

use super::*;

const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Default)]
struct Reported(AtomicU64);

impl Report for Reported {
    fn connect_failed(&self, _: &Arc<str>, _: &Arc<Server>, _: &io::Error) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
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
    let (a, b) = (socket(), socket());
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

    // The server dies and nobody has noticed yet: what it refused goes to the other.
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
