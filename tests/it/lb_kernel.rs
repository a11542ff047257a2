//! The kernel path of lb-proxy: rules, and what clients see of them.
//!
//! Size: one site of machines, and a test for each thing that its clients see.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use balance::pool::{Algorithm, Eligibility, Pool, Registry, ServerSettings, Settings};
use netfilter::conntrack::{self, Entry, Scope};
use netfilter::{FlowTable, KernelFrontend, Options, Path, Protocol, SessionState, Sessions};
use tests::netns::{Machine, Network};
use tests::wait;

const PATIENCE: Duration = Duration::from_secs(5);

/// Within this a client has to hear that no server is there: without an answer, it would try for much longer.
const AT_ONCE: Duration = Duration::from_secs(2);

const VIP: &str = "192.168.7.100";
const VIP6: &str = "fd00:7::100";
const A: &str = "192.168.7.13:6443";
const B: &str = "192.168.7.14:6443";
const A6: &str = "[fd00:7::13]:6443";
const B6: &str = "[fd00:7::14]:6443";

/// A server that is up and has always been.
pub(crate) const UP: Eligibility = Eligibility::Up { since: None };

/// A pool with these servers, each called by its address.
pub(crate) fn pool(
    registry: &mut Registry,
    algorithm: Algorithm,
    servers: &[(&str, Eligibility)],
) -> Arc<Pool> {
    let mut settings = Settings::new("tested");
    settings.algorithm = algorithm;
    for (address, eligibility) in servers {
        let mut server = ServerSettings::new(*address, address.parse().unwrap());
        server.eligibility = *eligibility;
        settings.servers.push(server);
    }
    registry.pool(settings)
}

/// A balancer, two servers and a client on one wire.
struct Site {
    _network: Network,
    balancer: Machine,
    client: Machine,
    _servers: Vec<Machine>,
    registry: Registry,
}

impl Site {
    fn new() -> Self {
        let mut network = Network::new();
        let balancer = network.machine("lb", &format!("{VIP}/24"));
        let client = network.machine("client", "192.168.7.20/24");
        let servers = vec![
            network.machine("a", "192.168.7.13/24"),
            network.machine("b", "192.168.7.14/24"),
        ];
        for (machine, address) in [
            (&balancer, VIP6),
            (&client, "fd00:7::20"),
            (&servers[0], "fd00:7::13"),
            (&servers[1], "fd00:7::14"),
        ] {
            add_address(machine, &format!("{address}/64"));
        }
        balancer.inside(|| {
            for name in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
                std::fs::write(format!("/proc/sys/net/{name}"), "1").unwrap();
            }
        });
        for (machine, name) in servers.iter().zip(["a", "b"]) {
            machine.inside(|| {
                serve(name);
                serve_datagrams(name);
            });
        }
        Self {
            _network: network,
            balancer,
            client,
            _servers: servers,
            registry: Registry::new(),
        }
    }

    fn frontend(&mut self, protocol: Protocol, servers: [Eligibility; 2]) -> KernelFrontend {
        let [a, b] = servers;
        let all = [(A, a), (B, b), (A6, a), (B6, b)];
        let pool = pool(&mut self.registry, Algorithm::RoundRobin, &all);
        let listen = [VIP, VIP6].map(|ip| SocketAddr::new(ip.parse().unwrap(), 6443));
        let mut frontend = KernelFrontend::new("api", protocol, listen.to_vec(), &pool);
        frontend.reset_on_down = true;
        frontend
    }

    fn start(&mut self, frontends: Vec<KernelFrontend>) -> Path {
        let options = Options {
            interval: Duration::from_millis(100),
            ..Options::default()
        };
        self.balancer
            .inside(|| Path::start(&options, frontends).unwrap())
    }

    /// Changes the rules, and waits until they are.
    fn apply(&self, path: &Path, frontends: Vec<KernelFrontend>) {
        let before = path.status().changes;
        path.apply(frontends);
        wait::for_it("the rules are changed", PATIENCE, || {
            path.status().changes > before
        });
        thread::sleep(Duration::from_millis(50));
    }

    fn connect(&self, ip: &str) -> std::io::Result<TcpStream> {
        self.client.inside(|| connect(ip))
    }

    /// How many flows go by a flow table.
    fn offloaded(&self) -> usize {
        let is_offloaded = |entry: &Entry| entry.is_offloaded;
        let list = || conntrack::list(Scope::Forwarded, 1000, is_offloaded);
        self.balancer.inside(list).unwrap().len()
    }

    fn ip(&self, arguments: &[&str]) {
        let status = self.balancer.command("ip").args(arguments).status();
        assert!(status.unwrap().success(), "{arguments:?}");
    }

    fn tables(&self) -> String {
        let output = self
            .balancer
            .command("nft")
            .args(["list", "tables"])
            .output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    }
}

fn add_address(machine: &Machine, address: &str) {
    let status = machine
        .command("ip")
        .args(["addr", "add", address, "dev", "eth0", "nodad"])
        .status();
    assert!(status.unwrap().success(), "{address}");
}

/// Answers each line of each connection with the server's name and the line; `port` with the port that
/// it comes from.
fn serve(name: &'static str) {
    let listener = TcpListener::bind("[::]:6443").unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            let port = stream.peer_addr().map_or(0, |peer| peer.port());
            thread::spawn(move || {
                let mut buffer = [0; 64];
                while let Ok(length @ 1..) = stream.read(&mut buffer) {
                    let mut answer = [name.as_bytes(), &buffer[..length]].concat();
                    if buffer.starts_with(b"port") {
                        answer = port.to_string().into_bytes();
                    }
                    if stream.write_all(&answer).is_err() {
                        break;
                    }
                }
            });
        }
    });
}

fn serve_datagrams(name: &'static str) {
    let socket = UdpSocket::bind("[::]:6443").unwrap();
    thread::spawn(move || {
        let mut buffer = [0; 64];
        while let Ok((length, peer)) = socket.recv_from(&mut buffer) {
            let answer = [name.as_bytes(), &buffer[..length]].concat();
            drop(socket.send_to(&answer, peer));
        }
    });
}

fn connect(ip: &str) -> std::io::Result<TcpStream> {
    let address = SocketAddr::new(ip.parse::<IpAddr>().unwrap(), 6443);
    let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// The server that answers.
fn ask(stream: &mut TcpStream) -> std::io::Result<String> {
    stream.write_all(b"?")?;
    listen(stream)
}

fn listen(stream: &mut TcpStream) -> std::io::Result<String> {
    let mut buffer = [0; 64];
    let length = wait::uninterrupted(|| stream.read(&mut buffer))?;
    Ok(String::from_utf8_lossy(&buffer[..length]).into_owned())
}

fn is_refused(result: &std::io::Result<TcpStream>) -> bool {
    result
        .as_ref()
        .is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}

#[test]
#[ignore = "needs network namespaces; tests/run runs it"]
fn the_kernel_shares_connections_and_follows_liveness() {
    let mut site = Site::new();
    let both = site.frontend(Protocol::Tcp, [UP, UP]);
    let path = site.start(vec![both.clone()]);
    for ip in [VIP, VIP6] {
        let mut answers: BTreeMap<String, u32> = BTreeMap::new();
        let mut open = Vec::new();
        for _ in 0..20 {
            let mut stream = site.connect(ip).unwrap();
            *answers.entry(ask(&mut stream).unwrap()).or_default() += 1;
            open.push(stream);
        }
        let expected = BTreeMap::from([("a?".to_owned(), 10), ("b?".to_owned(), 10)]);
        assert_eq!(answers, expected, "{ip}");

        // One server goes: its connections are reset, those of the other never notice.
        let only_b = site.frontend(Protocol::Tcp, [Eligibility::Down, UP]);
        site.apply(&path, vec![only_b]);
        for (turn, stream) in open.iter_mut().enumerate() {
            // Some wait for data and never say a word.
            let answer = if turn == 2 || turn == 4 {
                listen(stream)
            } else {
                ask(stream)
            };
            if turn % 2 == 0 {
                let error = answer.expect_err("connections of a are gone");
                assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
            } else {
                assert_eq!(answer.unwrap(), "b?");
            }
        }
        for _ in 0..4 {
            assert_eq!(ask(&mut site.connect(ip).unwrap()).unwrap(), "b?");
        }
        site.apply(&path, vec![both.clone()]);
        assert_eq!(ask(&mut open[1]).unwrap(), "b?");
    }
    let total = |server: &str| {
        let status = path.status();
        let mut connections = status.connections.iter();
        connections
            .find(|connections| &*connections.server == server)
            .map(|connections| connections.total)
    };
    // Counters continue through changes.
    wait::for_it("connections are counted", PATIENCE, || {
        (total(A), total(B), total(A6), total(B6)) == (Some(10), Some(14), Some(10), Some(14))
    });
    assert!(path.status().forgotten >= 20, "{:?}", path.status());

    // Clients on the node itself.
    let mut stream = site.balancer.inside(|| connect(VIP)).unwrap();
    assert!(ask(&mut stream).unwrap().ends_with('?'));

    // No server is left, and clients hear it at once.
    let none = site.frontend(Protocol::Tcp, [Eligibility::Down, Eligibility::Maintenance]);
    site.apply(&path, vec![none]);
    for ip in [VIP, VIP6] {
        let started = Instant::now();
        let refused = site.connect(ip);
        assert!(is_refused(&refused), "{refused:?}");
        assert!(started.elapsed() < AT_ONCE);
    }
    assert!(site.tables().contains("outpost_lb"));
    path.clear();
    assert_eq!(site.tables(), "");
}

#[test]
#[ignore = "needs network namespaces; tests/run runs it"]
fn rules_are_made_anew_whoever_removed_or_left_them() {
    let mut site = Site::new();
    let both = site.frontend(Protocol::Tcp, [UP, UP]);
    let first = site.start(vec![both.clone()]);
    let mut stream = site.connect(VIP).unwrap();
    assert_eq!(ask(&mut stream).unwrap(), "a?");

    // Another program flushes everything.
    let flushed = site
        .balancer
        .command("nft")
        .args(["flush", "ruleset"])
        .status();
    assert!(flushed.unwrap().success());
    wait::for_it("the table is back", PATIENCE, || {
        first.status().repairs == 1
    });
    assert_eq!(ask(&mut stream).unwrap(), "a?");
    assert!(site.connect(VIP).is_ok());

    // A successor takes over, as after a crash.
    let mut other = both.clone();
    other.deny = vec!["192.168.7.20/32".parse().unwrap()];
    let second = site.start(vec![other]);
    first.leave();
    assert_eq!(ask(&mut stream).unwrap(), "a?");
    assert!(site.tables().contains("outpost_lb"));
    // This client is not allowed any more, others are.
    assert!(is_refused(&site.connect(VIP)));
    assert!(site.balancer.inside(|| connect(VIP)).is_ok());
    // Without rules that translate addresses nothing is forwarded, and clients hear it at once.
    drop(second);
    assert_eq!(site.tables(), "");
    let error = ask(&mut stream).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
}

#[test]
#[ignore = "needs network namespaces; tests/run runs it"]
fn flows_of_datagrams_move_when_their_server_goes() {
    let mut site = Site::new();
    let both = site.frontend(Protocol::Udp, [UP, UP]);
    let socket = site.client.inside(|| UdpSocket::bind("0.0.0.0:0").unwrap());
    socket.connect((VIP, 6443)).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let ask = || {
        socket.send(b"?")?;
        let mut buffer = [0; 64];
        let length = wait::uninterrupted(|| socket.recv(&mut buffer))?;
        std::io::Result::Ok(String::from_utf8_lossy(&buffer[..length]).into_owned())
    };
    // Before there are rules, no process listens; that must not stick to the flow.
    assert_eq!(ask().unwrap_err().kind(), ErrorKind::ConnectionRefused);
    let path = site.start(vec![both.clone()]);
    let first = ask().unwrap();
    assert_eq!(ask().unwrap(), first);
    let (eligibilities, second) = match first.as_str() {
        "a?" => ([Eligibility::Down, UP], "b?"),
        _ => ([UP, Eligibility::Down], "a?"),
    };
    let one = site.frontend(Protocol::Udp, eligibilities);
    site.apply(&path, vec![one]);
    assert_eq!(ask().unwrap(), second);
    let none = site.frontend(Protocol::Udp, [Eligibility::Down, Eligibility::Down]);
    site.apply(&path, vec![none]);
    assert_eq!(ask().unwrap_err().kind(), ErrorKind::ConnectionRefused);
    site.apply(&path, vec![both]);
    assert!(ask().unwrap().ends_with('?'));
}

#[test]
#[ignore = "needs network namespaces; tests/run runs it"]
fn a_client_keeps_its_port_where_it_can() {
    let mut site = Site::new();
    let both = site.frontend(Protocol::Tcp, [UP, UP]);
    let _path = site.start(vec![both]);
    let port = |mut stream: &TcpStream| -> u16 {
        stream.write_all(b"port").unwrap();
        let mut buffer = [0; 16];
        let length = wait::uninterrupted(|| stream.read(&mut buffer)).unwrap();
        String::from_utf8_lossy(&buffer[..length]).parse().unwrap()
    };
    for ip in [VIP, VIP6] {
        for _ in 0..10 {
            let stream = site.connect(ip).unwrap();
            assert_eq!(port(&stream), stream.local_addr().unwrap().port(), "{ip}");
        }
    }
    // Two clients with the same port, at each server: one of them gets another.
    let from = |ip: &str| {
        let domain = socket2::Domain::IPV4;
        let socket = socket2::Socket::new(domain, socket2::Type::STREAM, None).unwrap();
        let own: SocketAddr = format!("{ip}:40404").parse().unwrap();
        let to: SocketAddr = format!("{VIP}:6443").parse().unwrap();
        socket.bind(&own.into()).unwrap();
        socket.connect(&to.into()).unwrap();
        TcpStream::from(socket)
    };
    for ip in ["192.168.7.21", "192.168.7.22", "192.168.7.23"] {
        add_address(&site.client, &format!("{ip}/24"));
    }
    let streams = site.client.inside(|| {
        [
            "192.168.7.20",
            "192.168.7.21",
            "192.168.7.22",
            "192.168.7.23",
        ]
        .map(from)
    });
    let mut ports: Vec<u16> = streams.iter().map(port).collect();
    ports.sort_unstable();
    let own = ports.iter().filter(|port| **port == 40404).count();
    assert_eq!(own, 2, "once at each server: {ports:?}");
}

#[test]
#[ignore = "needs network namespaces; tests/run runs it"]
fn what_the_kernel_forwards_is_listed_and_ended() {
    let mut site = Site::new();
    let tcp = site.frontend(Protocol::Tcp, [UP, UP]);
    let mut udp = site.frontend(Protocol::Udp, [UP, UP]);
    udp.name = "datagrams".into();
    let frontends = [tcp, udp];
    let path = site.start(frontends.to_vec());
    let sessions = Sessions::new(&frontends);
    let list = |most: usize, frontend: &str| {
        site.balancer.inside(|| {
            let is_wanted = |session: &netfilter::Forwarded| &*session.frontend == frontend;
            sessions.list(most, is_wanted).unwrap()
        })
    };
    let mut streams: Vec<TcpStream> = (0..6).map(|_| site.connect(VIP).unwrap()).collect();
    for stream in &mut streams {
        assert!(ask(stream).is_ok());
    }
    let socket = site.client.inside(|| UdpSocket::bind("0.0.0.0:0").unwrap());
    socket.connect((VIP, 6443)).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.send(b"?").unwrap();
    assert_eq!(
        wait::uninterrupted(|| socket.recv(&mut [0; 64])).unwrap(),
        2
    );

    let listed = list(100, "api");
    assert_eq!(listed.len(), 6);
    for session in &listed {
        assert_eq!(session.state, SessionState::Established);
        let is_own = |stream: &TcpStream| stream.local_addr().unwrap() == session.client;
        assert!(streams.iter().any(is_own), "{session:?}");
        assert_eq!(session.local, format!("{VIP}:6443").parse().unwrap());
        assert_eq!(
            session.server.as_deref(),
            Some(&*session.server_address.to_string())
        );
    }
    assert_eq!(list(4, "api").len(), 4);
    let [flow] = &list(100, "datagrams")[..] else {
        panic!("there is one flow");
    };
    assert_eq!(flow.state, SessionState::Flow);

    // Those of one server are ended, and their clients hear it.
    let ended = site.balancer.inside(|| {
        sessions
            .kill(
                |session| session.server.as_deref() == Some(A),
                || path.pauser().pause(),
            )
            .unwrap()
    });
    let (mut reset, mut alive) = (0, 0);
    for stream in &mut streams {
        match ask(stream) {
            Ok(answer) => {
                assert_eq!(answer, "b?");
                alive += 1;
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
                reset += 1;
            }
        }
    }
    assert_eq!((reset, alive), (3, 3));
    assert!((3..=4).contains(&ended), "{ended}");
    assert_eq!(list(100, "api").len(), 3);
    // An ended connection is no session, though the kernel remembers its ports for a while.
    drop(streams);
    wait::for_it("sessions end", PATIENCE, || list(100, "api").is_empty());
}

#[test]
#[ignore = "needs network namespaces; tests/run runs it"]
fn what_the_system_does_not_allow_is_said() {
    let mut site = Site::new();
    let frontend = site.frontend(Protocol::Tcp, [UP, UP]);
    let frontends = [frontend];
    let options = Options::default();
    let faults = || netfilter::forwarding_faults(&frontends);
    site.balancer.inside(|| {
        assert!(Path::check(&options, &frontends).is_ok());
        assert_eq!(faults(), Vec::<String>::new());
        std::fs::write("/proc/sys/net/ipv4/ip_forward", "0").unwrap();
        assert_eq!(faults().len(), 1);
    });
    assert_eq!(site.tables(), "", "a check changes nothing");
    let missing = Options {
        nft: Some("/nonexistent/nft".into()),
        ..Options::default()
    };
    let error = Path::check(&missing, &frontends).unwrap_err();
    assert_eq!(netfilter::exit_code(&error), 78);
}

fn devices(path: &Path) -> Vec<String> {
    match path.status().flow_table {
        FlowTable::Used(devices) => devices.names().map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

/// Whether the kernel has flow tables; if not, that is said.
fn has_flow_tables(path: &Path) -> bool {
    match path.status().flow_table {
        FlowTable::Absent(reason) => {
            // tests/vm/lb has a kernel with one.
            eprintln!("this kernel has no flow table: {reason}");
            false
        }
        flow_table => flow_table != FlowTable::Off,
    }
}

#[test]
#[ignore = "needs network namespaces; tests/run runs it"]
fn established_sessions_go_by_the_flow_table_and_end_with_their_server() {
    let mut site = Site::new();
    let both = site.frontend(Protocol::Tcp, [UP, UP]);
    let path = site.start(vec![both.clone()]);
    if !has_flow_tables(&path) {
        return;
    }
    let mut streams = Vec::new();
    for ip in [VIP, VIP6] {
        let more = (0..6).map(|_| site.connect(ip).unwrap());
        streams.extend(more);
    }
    let ask_all = |streams: &mut [TcpStream]| {
        for stream in streams {
            assert!(ask(stream).unwrap().ends_with('?'));
        }
    };
    ask_all(&mut streams);
    ask_all(&mut streams);
    assert_eq!(site.offloaded(), 12);

    // Rules change, and no client notices.
    for turn in 0..20 {
        let mut other = both.clone();
        other.deny = vec![format!("198.51.100.{turn}/32").parse().unwrap()];
        path.apply(vec![other]);
        ask_all(&mut streams);
    }
    site.apply(&path, vec![both.clone()]);
    assert_eq!(site.offloaded(), 12);

    // A server goes: its sessions are reset, those of the other continue.
    let only_b = site.frontend(Protocol::Tcp, [Eligibility::Down, UP]);
    site.apply(&path, vec![only_b]);
    let mut rest = Vec::new();
    for (turn, mut stream) in streams.into_iter().enumerate() {
        // Some wait for data and never say a word.
        let answer = if turn % 4 == 2 {
            listen(&mut stream)
        } else {
            ask(&mut stream)
        };
        match answer {
            Ok(answer) => {
                assert_eq!((answer.as_str(), turn % 2), ("b?", 1));
                rest.push(stream);
            }
            Err(error) => {
                assert_eq!((error.kind(), turn % 2), (ErrorKind::ConnectionReset, 0));
            }
        }
    }
    ask_all(&mut rest);
    assert_eq!(site.offloaded(), 6);

    // An ended connection leaves the table, however it ends.
    let frontends = [both];
    let sessions = Sessions::new(&frontends);
    drop(rest);
    wait::for_it("sessions end", PATIENCE, || {
        let listed = site
            .balancer
            .inside(|| sessions.list(100, |_| true).unwrap());
        listed.is_empty() && site.offloaded() == 0
    });
    path.clear();
    assert_eq!(site.tables(), "");
}

#[test]
#[ignore = "needs network namespaces; tests/run runs it"]
fn the_flow_table_follows_links_and_goes_when_it_is_not_wanted() {
    let mut site = Site::new();
    let both = site.frontend(Protocol::Tcp, [UP, UP]);
    let path = site.start(vec![both.clone()]);
    if !has_flow_tables(&path) {
        return;
    }
    let mut stream = site.connect(VIP).unwrap();
    assert!(ask(&mut stream).is_ok() && ask(&mut stream).is_ok());
    assert_eq!(devices(&path), ["eth0"]);
    assert_eq!(site.offloaded(), 1);
    for _ in 0..2 {
        site.ip(&["link", "add", "ex.1", "type", "veth", "peer", "name", "far"]);
        site.ip(&["addr", "add", "192.0.2.1/24", "dev", "ex.1"]);
        site.ip(&["link", "set", "ex.1", "up"]);
        wait::for_it("the link is in", PATIENCE, || devices(&path).len() == 2);
        assert!(ask(&mut stream).is_ok() && ask(&mut stream).is_ok());
        assert_eq!(site.offloaded(), 1);
        site.ip(&["link", "del", "ex.1"]);
        wait::for_it("the link is out", PATIENCE, || devices(&path) == ["eth0"]);
        assert!(ask(&mut stream).is_ok() && ask(&mut stream).is_ok());
    }
    // The offload is off while one process needs that.
    let pause = path.pauser().pause();
    wait::for_it("it is empty", PATIENCE, || site.offloaded() == 0);
    assert!(ask(&mut stream).is_ok());
    assert_eq!(site.offloaded(), 0);
    drop(pause);
    wait::for_it("it is back", PATIENCE, || {
        ask(&mut stream).is_ok() && site.offloaded() == 1
    });
    // A successor that wants none.
    let options = Options {
        flow_table: false,
        ..Options::default()
    };
    let second = site
        .balancer
        .inside(|| Path::start(&options, vec![both]).unwrap());
    path.leave();
    assert_eq!(second.status().flow_table, FlowTable::Off);
    wait::for_it("it is empty", PATIENCE, || site.offloaded() == 0);
    assert!(ask(&mut stream).is_ok());
}

/// Messages of the kernel about what changes in the rules of one machine.
struct Monitor(std::os::fd::OwnedFd);

/// What changed.
#[derive(Debug, Default, PartialEq, Eq)]
struct Changes {
    rules: usize,
    elements: usize,
    others: usize,
    octets: usize,
}

impl Monitor {
    fn start(machine: &Machine) -> Self {
        use rustix::net::netlink::{NETFILTER, SocketAddrNetlink};
        use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};
        machine.inside(|| {
            let (family, kind) = (AddressFamily::NETLINK, SocketType::RAW);
            let socket = socket_with(family, kind, SocketFlags::NONBLOCK, Some(NETFILTER)).unwrap();
            // The group of nftables is the seventh.
            bind(&socket, &SocketAddrNetlink::new(0, 1 << 6)).unwrap();
            Self(socket)
        })
    }

    /// What changed since the last time.
    fn changes(&self) -> Changes {
        let mut changes = Changes::default();
        let mut buffer = vec![0; 1 << 16];
        while let Ok(length) = rustix::io::read(&self.0, &mut buffer) {
            let mut octets = &buffer[..length];
            while octets.len() >= 16 {
                let length = u32::from_ne_bytes(*octets.first_chunk().unwrap());
                let length = usize::try_from(length).unwrap();
                // The low octet says which; the other one is the part of the kernel.
                match octets[4] {
                    6 | 8 => changes.rules += 1,
                    12 | 14 => changes.elements += 1,
                    // A new generation.
                    15 => {}
                    _ => changes.others += 1,
                }
                changes.octets += length;
                octets = octets.get(length.next_multiple_of(4)..).unwrap_or_default();
            }
        }
        changes
    }
}

const N_OTHERS: u16 = 1000;

impl Site {
    /// A frontend with the two servers of this site, and a thousand that have no machine.
    fn large(&mut self, algorithm: Algorithm, a: Eligibility, weight: u16) -> KernelFrontend {
        let mut settings = Settings::new("large");
        settings.algorithm = algorithm;
        let mut add = |address: &str, eligibility, weight| {
            let mut server = ServerSettings::new(address, address.parse().unwrap());
            server.eligibility = eligibility;
            server.weight = weight;
            settings.servers.push(server);
        };
        add(A, a, weight);
        add(B, UP, 100);
        for number in 0..N_OTHERS {
            let address = format!("10.7.{}.{}:6443", number / 250, number % 250 + 1);
            // They keep what they have, and get nothing new.
            add(&address, Eligibility::Drain, 100);
        }
        let pool = self.registry.pool(settings);
        let listen = vec![SocketAddr::new(VIP.parse().unwrap(), 6443)];
        let mut frontend = KernelFrontend::new("large", Protocol::Tcp, listen, &pool);
        frontend.reset_on_down = true;
        frontend
    }

    /// The elements of a map as `nft` lists them.
    fn elements(&self, map: &str) -> Vec<String> {
        let mut command = self.balancer.command("nft");
        command.args(["list", "map", "inet", "outpost_lb", map]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        let (_, elements) = text.split_once("elements = {").unwrap_or(("", "}"));
        let (elements, _) = elements.split_once('}').unwrap();
        let elements = elements.split(',').map(str::trim);
        elements
            .filter(|element| !element.is_empty())
            .map(str::to_owned)
            .collect()
    }
}

#[test]
#[ignore = "needs network namespaces; tests/run runs it"]
fn a_change_of_one_server_among_a_thousand_is_a_few_elements() {
    let mut site = Site::new();
    let both = site.large(Algorithm::RoundRobin, UP, 100);
    let path = site.start(vec![both.clone()]);
    let named = (0..10).map(|_| {
        let mut stream = site.connect(VIP).unwrap();
        (ask(&mut stream).unwrap(), stream)
    });
    let mut streams: Vec<(String, TcpStream)> = named.collect();
    let states = [
        (
            "down",
            site.large(Algorithm::RoundRobin, Eligibility::Down, 100),
        ),
        ("up", both.clone()),
        ("light", site.large(Algorithm::RoundRobin, UP, 50)),
        (
            "drains",
            site.large(Algorithm::RoundRobin, Eligibility::Drain, 100),
        ),
        ("back", both.clone()),
    ];
    let monitor = Monitor::start(&site.balancer);
    for (number, (name, frontend)) in states.into_iter().enumerate() {
        site.apply(&path, vec![frontend]);
        // One rule goes and one comes, which draws the number; the rest are elements.
        let changes = monitor.changes();
        println!("{name}: {changes:?}");
        assert!((1..=12).contains(&changes.elements), "{name}: {changes:?}");
        assert!(
            changes.rules <= 2 && changes.others == 0,
            "{name}: {changes:?}"
        );
        assert!(changes.octets < 4096, "{name}: {changes:?}");
        let status = path.status();
        let made = u64::try_from(number).unwrap() + 1;
        assert_eq!(
            (status.element_changes, status.failures),
            (made, 0),
            "{name}"
        );
        assert_eq!(status.repairs, 0);
        // Sessions of the server that went are reset, the others never notice.
        streams.retain_mut(|(server, stream)| match ask(stream) {
            Ok(answer) => {
                assert_eq!(answer, *server);
                true
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
                assert_eq!((name, server.as_str()), ("down", "a?"));
                false
            }
        });
        assert!(streams.len() >= 5, "{name}");
        let answers = (0..9).map(|_| ask(&mut site.connect(VIP).unwrap()).unwrap());
        let a = answers.filter(|answer| answer == "a?").count();
        let expected = match name {
            "down" | "drains" => 0..=0,
            "light" => 3..=3,
            _ => 4..=5,
        };
        assert!(expected.contains(&a), "{name}: {a}");
    }
    let expected = [
        format!("0 : goto server/large/{}", "192.168.7.13_6443"),
        format!("1 : goto server/large/{}", "192.168.7.14_6443"),
    ];
    let found = site.elements("share/large/v4");
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for (found, expected) in found.iter().zip(&expected) {
        assert!(found.starts_with(expected.as_str()), "{found} {expected}");
    }
}

/// Each change is whole. Other programs do not look on: `nft` reads a large map in several pieces, and takes a change in between for
/// the end of it.
#[test]
#[ignore = "needs network namespaces; tests/run runs it"]
fn a_thousand_elements_come_and_go_with_one_change() {
    let mut site = Site::new();
    let mut with = |a: Eligibility, weight: u16| {
        let mut frontend = site.large(Algorithm::LeastConnections, a, weight);
        for server in &mut frontend.servers {
            server.in_use =
                server.in_use || server.keeps && server.address.port() == 6443 && a == UP;
        }
        frontend
    };
    // The second has the thousand and other numbers for all that follow.
    let (one, other) = (with(UP, 100), with(Eligibility::Down, 100));
    let path = site.start(vec![one.clone()]);
    let many = site.elements("share/large/v4").len();
    assert!(many > 1000, "{many}");
    site.apply(&path, vec![other.clone()]);
    let few = site.elements("share/large/v4").len();
    assert!(few < 10, "{few}");
    for turn in 0..20 {
        let (next, expected) = if turn % 2 == 0 {
            (&one, many)
        } else {
            (&other, few)
        };
        site.apply(&path, vec![next.clone()]);
        assert_eq!(site.elements("share/large/v4").len(), expected);
    }
    let status = path.status();
    assert!(status.element_changes > 1, "{status:?}");
    assert_eq!((status.failures, status.repairs), (0, 0), "{status:?}");
}
