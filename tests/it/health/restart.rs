//! lb-proxy is restarted, and killed and started, at the node that holds a virtual address: its ports serve for as long as its
//! process is there, and the address is without a holder for moments.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use tests::gap::Gap;
use tests::netns::Machine;
use tests::sockets::Held;
use tests::wait;

use super::exchange::Site;
use super::leases::{LIMIT, Nodes, VIP};

/// Where clients of a node connect, and what the node's own server listens on.
const FRONT: u16 = 9445;
const SERVER: &str = "127.0.0.1:6443";

const PROXY: &str = r#"
[[frontend]]
name = "api"
listen = ["0.0.0.0:9445"]
backend = "api"

[[backend]]
name = "api"
check = "none"

[[backend.server]]
name = "own"
address = "127.0.0.1:6443"
"#;

/// The admin address of lb-proxy, and how long it is attacked.
const ADMIN: &str = "127.0.0.1:9404";
const PROBES: Duration = Duration::from_secs(8);

/// A process that is there again within this time has the lease of the one before it: it ends later.
const BACK: Duration = Duration::from_millis(1_200);

/// Answers every client with its own octets, on a machine.
fn echo(machine: &Machine) {
    let listener = machine.inside(|| TcpListener::bind(SERVER).unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                let mut back = stream.try_clone().unwrap();
                std::io::copy(&mut &stream, &mut back).ok();
            });
        }
    });
}

fn say(stream: &mut TcpStream) -> std::io::Result<()> {
    stream.set_read_timeout(Some(LIMIT))?;
    stream.write_all(b"ping")?;
    stream.read_exact(&mut [0; 4])
}

fn started() -> (Nodes, Machine) {
    let (site, client) = Site::new();
    let held = |machine: &Machine| {
        let address = SocketAddr::from(([0, 0, 0, 0], FRONT));
        let held = machine.inside(|| Held::bind(address));
        Some(("api", held))
    };
    let nodes = Nodes::start(site, PROXY, held);
    for node in 0..3 {
        echo(nodes.machine(node));
    }
    (nodes, client)
}

fn front(nodes: &Nodes, node: usize) -> SocketAddr {
    let own = &nodes.machine(node).own_addresses()[0];
    let own = own.split('/').next().unwrap();
    SocketAddr::new(own.parse().unwrap(), FRONT)
}

fn became_active(nodes: &Nodes) -> Vec<u64> {
    let of = |node| nodes.vip(node)["became_active"].as_u64().unwrap_or(0);
    (0..3).map(of).collect()
}

#[test]
#[ignore = "needs root for network namespaces"]
fn a_node_serves_while_its_proxy_ends_and_its_address_goes_first() {
    let (mut nodes, client) = started();
    let holder = nodes.wait_holder(&[0, 1, 2]);
    let front = front(&nodes, holder);
    let mut long = client.inside(|| TcpStream::connect(front).unwrap());
    say(&mut long).unwrap();
    let gap = Gap::start(&client, VIP);
    let begun = Instant::now();
    let mut old = nodes.proxies[holder].daemon.take().unwrap();
    old.signal(Signal::TERM);
    wait::for_it("another node has the address", LIMIT, || {
        let holders = nodes.holders(&[0, 1, 2]);
        !holders.is_empty() && !holders.contains(&holder)
    });
    println!(
        "restart: another has the address after {:?}",
        begun.elapsed()
    );
    // Its long session keeps the process, and the process serves others meanwhile.
    for _ in 0..20 {
        let mut stream = client.inside(|| TcpStream::connect(front).unwrap());
        say(&mut stream).unwrap();
    }
    assert!(old.is_running(), "{}", old.log());
    say(&mut long).unwrap();
    drop(long);
    let status = old.wait();
    assert!(status.success(), "{status}\n{}", old.log());
    // A client that comes while there is no process waits for the next.
    let mut between = client.inside(|| TcpStream::connect(front).unwrap());
    nodes.start_proxy(holder);
    say(&mut between).unwrap();
    println!("restart: the address was silent for {:?}", gap.stop());
}

#[test]
#[ignore = "needs root for network namespaces"]
fn a_proxy_that_is_back_soon_keeps_the_address() {
    let (mut nodes, client) = started();
    let holder = nodes.wait_holder(&[0, 1, 2]);
    let before = became_active(&nodes);
    // How often its healthd has seen the lease end.
    let n_lost = |nodes: &Nodes| {
        nodes
            .healthd_log(holder)
            .matches("the lease no more")
            .count()
    };
    let gap = Gap::start(&client, VIP);
    nodes.proxies[holder].daemon.take().unwrap().kill();
    let killed = Instant::now();
    nodes.start_proxy(holder);
    let away = killed.elapsed();
    let second = nodes.wait_holder(&[0, 1, 2]);
    println!(
        "killed, and ready again after {away:?}: the address was silent for {:?}",
        gap.stop()
    );
    // On a machine that is too busy for that the lease has ended before.
    if away < BACK {
        let mut after = before;
        after[holder] = 1;
        assert_eq!(second, holder, "{}", nodes.logs());
        assert_eq!(became_active(&nodes), after, "{}", nodes.logs());
        assert_eq!(n_lost(&nodes), 0, "{}", nodes.logs());
    }
}

#[test]
#[ignore = "needs root for network namespaces"]
fn half_requests_to_its_admin_address_do_not_make_a_service_down() {
    let (nodes, _client) = started();
    let state = || {
        let body = nodes.ask_healthd(0, "/status");
        let status: Value = serde_json::from_str(&body).unwrap();
        let targets = status["detail"]["targets"].as_array().unwrap();
        let own = targets.iter().find(|one| one["address"] == ADMIN);
        own.map_or(Value::Null, |own| own["liveness"].clone())
    };
    wait::for_it("healthd finds lb-proxy up", LIMIT, || state() == "up");
    // More than the admin listener has room for, for several probes and less than a head may take.
    let half: Vec<TcpStream> = (0..200)
        .filter_map(|_| {
            let stream = nodes.machine(0).inside(|| TcpStream::connect(ADMIN));
            let mut stream = stream.ok()?;
            stream.write_all(b"GET /readyz HTTP/1.1\r\n").ok()?;
            Some(stream)
        })
        .collect();
    let begun = Instant::now();
    while begun.elapsed() < PROBES {
        assert_eq!(state(), "up", "{}", nodes.logs());
        std::thread::sleep(Duration::from_millis(500));
    }
    drop(half);
}
