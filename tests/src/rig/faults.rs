//! What goes wrong on a site: each fault begins, lasts, and ends.

use std::fmt;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use socket2::{Domain, Protocol, Socket, Type};
use vrrp::checksum::ChecksumForm;
use vrrp::packet::{Advertisement, Authentication, Version};

use crate::binaries::SERVICES;
use crate::daemon::run;
use crate::dns::{A, Question};
use crate::installed::nobody;
use crate::netns::Machine;

use super::load::{self, Kind};
use super::site::{API, NODES, SILENT, Site, fill};

/// How long a slow link takes in each direction: a satellite's.
const ONE_WAY: Duration = Duration::from_millis(300);

/// The node that a fault strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The one that holds the virtual address of the API.
    Holder,
    /// Another one.
    Other,
}

/// A fault or an attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    Nothing,
    /// A service crashes, and systemd starts it again.
    Crash(&'static str, Place),
    /// All services of a node crash.
    CrashAll(Place),
    /// A service stands still for as long as the fault lasts.
    Pause(&'static str, Place),
    /// `systemctl restart`.
    Restart(&'static str, Place),
    /// The other slot takes over.
    Swap(&'static str, Place),
    /// A service is away on every node.
    Away(&'static str),
    /// Every service loads its files again.
    Reload,
    /// Every service is told to load files that are cut short.
    ReloadBad,
    /// The cable of a node is pulled.
    Unplugged(Place),
    /// A node is cut off behind its switch.
    CutOff(Place),
    /// Holder and another node do not hear each other; everybody else hears both.
    Apart,
    /// The holder hears no other node; clients hear all.
    Deaf,
    /// A third of all packets to a node is lost.
    Loss(Place),
    /// The link of a node is slow.
    Slow(Place),
    /// The disk of a node is full.
    DiskFull(Place),
    /// The name server outside is away.
    UpstreamAway,
    /// A node loses its power, and boots.
    PowerCut(Place),
    /// A local user without rights tells every service to hand over, to reload and to flush.
    PostsByNobody,
    /// Advertisements of the highest priority, four a second.
    ForgedAdvertisements,
    /// Hundreds of idle connections to every port.
    IdleConnections,
    /// A local user without rights begins requests at every admin port, and does not end them.
    HalfRequests,
    /// Names below a zone whose server is silent, hundreds a second.
    SilentZone,
    /// Clients push large layers to the holder at once.
    LargePushes,
    /// Every node gets a new certificate, and so does the authority.
    NewCertificates,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = |place: &Place| match place {
            Place::Holder => "holder",
            Place::Other => "another node",
        };
        match self {
            Self::Nothing => f.write_str("nothing"),
            Self::Crash(service, place) => write!(f, "kill -9 {service}, {}", at(place)),
            Self::CrashAll(place) => write!(f, "kill -9 all services, {}", at(place)),
            Self::Pause(service, place) => write!(f, "SIGSTOP {service}, {}", at(place)),
            Self::Restart(service, place) => write!(f, "restart {service}, {}", at(place)),
            Self::Swap(service, place) => write!(f, "swap {service}, {}", at(place)),
            Self::Away(service) => write!(f, "{service} away on all nodes"),
            Self::Reload => f.write_str("reload all"),
            Self::ReloadBad => f.write_str("reload all, files cut short"),
            Self::Unplugged(place) => write!(f, "link down, {}", at(place)),
            Self::CutOff(place) => write!(f, "cut off, {}", at(place)),
            Self::Apart => f.write_str("holder and one node apart"),
            Self::Deaf => f.write_str("holder apart from both, clients reach all"),
            Self::Loss(place) => write!(f, "30 % loss, {}", at(place)),
            Self::Slow(place) => write!(
                f,
                "{} ms there and back, {}",
                2 * ONE_WAY.as_millis(),
                at(place)
            ),
            Self::DiskFull(place) => write!(f, "disk full, {}", at(place)),
            Self::UpstreamAway => f.write_str("upstream away"),
            Self::PowerCut(place) => write!(f, "power cut and boot, {}", at(place)),
            Self::PostsByNobody => f.write_str("attack: POSTs by a local user"),
            Self::ForgedAdvertisements => f.write_str("attack: forged VRRP"),
            Self::IdleConnections => f.write_str("attack: idle connections"),
            Self::HalfRequests => f.write_str("attack: half requests at admin ports"),
            Self::SilentZone => f.write_str("attack: random names, silent zone"),
            Self::LargePushes => f.write_str("4 clients push 40 MiB each, holder"),
            Self::NewCertificates => f.write_str("new certificates"),
        }
    }
}

impl Fault {
    /// Every fault that the rig knows.
    #[must_use]
    pub fn all() -> Vec<Self> {
        use Place::{Holder, Other};
        let mut all = Vec::new();
        for service in SERVICES {
            let services: [fn(&'static str, Place) -> Self; 4] =
                [Self::Crash, Self::Pause, Self::Restart, Self::Swap];
            all.extend(services.map(|fault| fault(service, Holder)));
            all.push(Self::Crash(service, Other));
        }
        all.extend(["healthd", "dns-authd", "timesync-agent"].map(Self::Away));
        for place in [Holder, Other] {
            let places: [fn(Place) -> Self; 7] = [
                Self::CrashAll,
                Self::Unplugged,
                Self::CutOff,
                Self::Loss,
                Self::Slow,
                Self::DiskFull,
                Self::PowerCut,
            ];
            all.extend(places.map(|fault| fault(place)));
        }
        all.extend([
            Self::Reload,
            Self::ReloadBad,
            Self::Apart,
            Self::Deaf,
            Self::UpstreamAway,
            Self::PostsByNobody,
            Self::ForgedAdvertisements,
            Self::IdleConnections,
            Self::HalfRequests,
            Self::SilentZone,
            Self::LargePushes,
            Self::NewCertificates,
        ]);
        all
    }

    /// Whether it may cost exchanges of this kind, because no second node and no older answer can take the place of what is away.
    #[must_use]
    pub fn may_cost(self, kind: Kind) -> bool {
        match kind {
            // A stream is on one node.
            Kind::Stream => matches!(
                self,
                Self::Crash("lb-proxy", _)
                    // Its lease ends, and another node takes the address.
                    | Self::Pause("healthd", Place::Holder)
                    | Self::CrashAll(_)
                    | Self::Restart("lb-proxy", _)
                    | Self::Pause("lb-proxy", _)
                    | Self::Unplugged(_)
                    | Self::CutOff(_)
                    | Self::Loss(_)
                    | Self::Slow(Place::Holder)
                    | Self::Deaf
                    | Self::Apart
                    | Self::PowerCut(_)
            ),
            // Names that were never asked for are nowhere else.
            Kind::Outside => matches!(self, Self::UpstreamAway),
            Kind::Name => matches!(self, Self::Away("dns-authd")),
            Kind::Time => matches!(self, Self::Away("timesync-agent")),
            Kind::Connection | Kind::Pull | Kind::Push => false,
        }
    }

    /// Does it, lets it last, and ends it.
    pub(super) fn run(self, site: &mut Site, lasts: Duration) -> Vec<String> {
        let holder = site.holder(API).unwrap_or(0);
        let number = |place| match place {
            Place::Holder => holder,
            Place::Other => (holder + 1) % NODES.len(),
        };
        let wait = || std::thread::sleep(lasts);
        match self {
            Self::Nothing => wait(),
            Self::Crash(service, place) => {
                site.nodes[number(place)].kill(service);
                wait();
            }
            Self::CrashAll(place) => {
                for service in SERVICES {
                    site.nodes[number(place)].kill(service);
                }
                wait();
            }
            Self::Pause(service, place) => {
                site.nodes[number(place)].signal(service, Signal::STOP);
                wait();
                site.nodes[number(place)].signal(service, Signal::CONT);
            }
            Self::Restart(service, place) => {
                site.nodes[number(place)].restart(service);
                wait();
            }
            Self::Swap(service, place) => {
                site.nodes[number(place)].swap(service);
                wait();
            }
            Self::Away(service) => {
                site.nodes.iter().for_each(|node| node.stop(service));
                wait();
                site.nodes.iter().for_each(|node| node.want(service));
            }
            Self::Reload => {
                reload(site);
                wait();
            }
            Self::ReloadBad => reload_bad(site, lasts),
            Self::Unplugged(place) => {
                site.nodes[number(place)].machine().lose_carrier();
                wait();
                site.nodes[number(place)].machine().regain_carrier();
            }
            Self::CutOff(place) => {
                site.nodes[number(place)].machine().cut_off();
                wait();
                site.nodes[number(place)].machine().join();
            }
            Self::Apart => apart(site, holder, &[(holder + 1) % NODES.len()], lasts),
            Self::Deaf => {
                let others = [(holder + 1) % NODES.len(), (holder + 2) % NODES.len()];
                apart(site, holder, &others, lasts);
            }
            Self::Loss(place) => {
                let machine = site.nodes[number(place)].machine();
                filter(machine, &["numgen random mod 100 < 30".to_owned()], &[]);
                wait();
                unfilter(machine);
            }
            Self::Slow(place) => {
                let slow = site.nodes[number(place)].machine().slow_down(ONE_WAY);
                wait();
                drop(slow);
            }
            Self::DiskFull(place) => {
                let disk = site.nodes[number(place)].installed.root.join("var/lib");
                fill(&disk, true);
                wait();
                fill(&disk, false);
            }
            Self::UpstreamAway => {
                site.set_upstream(false);
                wait();
                site.set_upstream(true);
            }
            Self::PowerCut(place) => {
                site.nodes[number(place)].cut_power();
                wait();
                site.nodes[number(place)].start();
            }
            Self::PostsByNobody => {
                let obeyed = post_as_nobody(site);
                wait();
                return obeyed;
            }
            Self::ForgedAdvertisements => forge_advertisements(&site.attacker, lasts),
            Self::IdleConnections => idle_connections(site, lasts),
            Self::HalfRequests => half_requests(site, lasts),
            Self::SilentZone => ask_silent_zone(&site.attacker, lasts),
            Self::LargePushes => return push_large(site, NODES[holder].1, lasts),
            Self::NewCertificates => {
                site.renew_certificates();
                reload(site);
                wait();
                return site.old_certificates();
            }
        }
        Vec::new()
    }
}

fn reload(site: &Site) {
    for node in &site.nodes {
        for service in SERVICES {
            node.signal(service, Signal::HUP);
        }
    }
}

/// Files are loaded that end in the middle, and then whole ones.
fn reload_bad(site: &Site, lasts: Duration) {
    let mut whole = Vec::new();
    for node in &site.nodes {
        for service in SERVICES {
            let path = node
                .installed
                .root
                .join(&format!("etc/outpost/{service}/{service}.toml"));
            let text = std::fs::read(&path).expect("a rendered file");
            let end = text.len() / 2;
            // In place, as a person without an editor would: its owner and its mode stay.
            std::fs::write(&path, [&text[..end], b"\n= ["].concat()).expect("the disk has room");
            whole.push((path, text));
        }
    }
    reload(site);
    std::thread::sleep(lasts);
    for (path, text) in whole {
        std::fs::write(path, text).expect("the disk has room");
    }
    reload(site);
}

/// Two groups of nodes do not hear each other.
fn apart(site: &Site, holder: usize, others: &[usize], lasts: Duration) {
    let address = |node: &usize| NODES[*node].1;
    let rules = |word: &str| {
        others
            .iter()
            .map(|node| format!("ip {word} {}", address(node)))
            .collect::<Vec<_>>()
    };
    let machine = site.nodes[holder].machine();
    filter(machine, &rules("saddr"), &rules("daddr"));
    std::thread::sleep(lasts);
    unfilter(machine);
}

/// Drops what comes in or goes out by these rules.
fn filter(machine: &Machine, inward: &[String], outward: &[String]) {
    let rules = |rules: &[String]| {
        rules
            .iter()
            .map(|rule| format!("{rule} drop; "))
            .collect::<String>()
    };
    let script = format!(
        "table inet rig {{ chain in {{ type filter hook input priority -300; {} }}\n\
         chain out {{ type filter hook output priority -300; {} }}\n}}",
        rules(inward),
        rules(outward)
    );
    nft(machine, &script);
}

fn unfilter(machine: &Machine) {
    nft(machine, "delete table inet rig");
}

fn nft(machine: &Machine, script: &str) {
    let mut command = machine.command("nft");
    command.arg(script);
    let (status, _, stderr) = run(command);
    assert!(status.success(), "{script}: {stderr}");
}

//--- Attacks

/// The admin ports of the services.
const ADMIN: std::ops::RangeInclusive<u16> = 9401..=9406;

/// The requests that a local user without rights was not refused.
fn post_as_nobody(site: &Site) -> Vec<String> {
    let mut obeyed = Vec::new();
    for node in &site.nodes {
        for port in ADMIN {
            for path in [
                "hand-over",
                "reload",
                "cache/flush",
                "sessions/kill",
                "zones/reload",
            ] {
                let url = format!("http://127.0.0.1:{port}/{path}");
                let lines = node.installed.lines(
                    &nobody(),
                    "curl",
                    &[
                        "-s",
                        "-m",
                        "5",
                        "-o",
                        "/dev/null",
                        "-w",
                        "%{http_code}",
                        "-X",
                        "POST",
                        &url,
                    ],
                );
                if !lines.iter().any(|code| code.starts_with('4')) {
                    obeyed.push(format!("POST {url} by nobody: {lines:?}"));
                }
            }
        }
    }
    obeyed
}

fn forge_advertisements(attacker: &Machine, lasts: Duration) {
    const GROUP: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 18);
    let source = Ipv4Addr::new(192, 168, 7, 30);
    let socket = attacker.inside(|| {
        let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(112)));
        let socket = socket.expect("root has raw sockets");
        socket.set_multicast_ttl_v4(255).expect("an option of IPv4");
        socket
            .set_multicast_if_v4(&source)
            .expect("its own address");
        socket.set_ttl_v4(255).expect("an option of IPv4");
        socket
    });
    let forged = Advertisement {
        version: Version::V3,
        router_id: 51,
        priority: 255,
        interval: Duration::from_secs(1),
        addresses: vec![API],
    };
    let until = Instant::now() + lasts;
    while Instant::now() < until {
        let targets = NODES.iter().map(|node| node.1).chain([GROUP]);
        for to in targets {
            let octets = forged.compose(
                Authentication::None,
                ChecksumForm::PseudoHeader,
                IpAddr::V4(source),
                IpAddr::V4(to),
            );
            let to = SocketAddr::V4(SocketAddrV4::new(to, 0));
            // A node may be away.
            drop(socket.send_to(&octets, &to.into()));
        }
        std::thread::sleep(Duration::from_millis(250));
    }
}

/// The ports that a site opens to its network.
const PORTS: [u16; 7] = [53, 5301, 5443, 5444, 5445, 9443, 9445];
/// The idle connections to each.
const N_IDLE: usize = 150;

fn idle_connections(site: &Site, lasts: Duration) {
    let targets: Vec<SocketAddr> = NODES
        .iter()
        .flat_map(|node| PORTS.map(|port| (node.1, port).into()))
        .collect();
    let until = Instant::now() + lasts;
    site.attacker.inside(|| {
        let mut held: Vec<Option<TcpStream>> = Vec::new();
        'opening: for _ in 0..N_IDLE {
            for target in &targets {
                held.push(TcpStream::connect_timeout(target, Duration::from_millis(200)).ok());
                if Instant::now() >= until {
                    break 'opening;
                }
            }
        }
        std::thread::sleep(until.saturating_duration_since(Instant::now()));
    });
}

fn half_requests(site: &Site, lasts: Duration) {
    let held: Vec<TcpStream> = site
        .nodes
        .iter()
        .flat_map(|node| {
            node.machine().inside(|| {
                let connect = |port| {
                    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
                    let mut stream =
                        TcpStream::connect_timeout(&address, Duration::from_secs(1)).ok()?;
                    stream.write_all(b"GET /readyz HTTP/1.1\r\n").ok()?;
                    Some(stream)
                };
                let half = ADMIN.flat_map(|port| (0..80).map(move |_| port));
                half.filter_map(connect).collect::<Vec<_>>()
            })
        })
        .collect();
    std::thread::sleep(lasts);
    drop(held);
}

/// Queries for names of the silent zone, in a second.
const SILENT_RATE: u32 = 300;

fn ask_silent_zone(attacker: &Machine, lasts: Duration) {
    let until = Instant::now() + lasts;
    attacker.inside(|| {
        let socket = std::net::UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("a port is free");
        let mut number: u16 = 0;
        while Instant::now() < until {
            let name = format!("x{number}.{SILENT}");
            let node = NODES[usize::from(number) % NODES.len()].1;
            let query = Question::new(&name, A).to_wire(number);
            // A node may be away.
            drop(socket.send_to(&query, (node, 53)));
            number = number.wrapping_add(1);
            std::thread::sleep(Duration::from_secs(1) / SILENT_RATE);
        }
    });
}

/// Clients that push large layers.
const N_LARGE: u64 = 4;

/// Each client begins another push until the time is over. The pushes that were refused.
fn push_large(site: &Site, node: Ipv4Addr, lasts: Duration) -> Vec<String> {
    let until = Instant::now() + lasts;
    let pushing = |client: u64| {
        let mut number = client << 32;
        while Instant::now() < until {
            if let Err(why) = load::push_large(&site.https, node, number) {
                return Some(why);
            }
            number += 1;
        }
        None
    };
    let results = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..N_LARGE)
            .map(|client| scope.spawn(move || site.client.inside(|| pushing(client))))
            .collect();
        let ended = threads.into_iter().map(|thread| thread.join());
        ended
            .map(|ended| ended.expect("pushing does not panic"))
            .collect::<Vec<_>>()
    });
    results.into_iter().flatten().collect()
}
