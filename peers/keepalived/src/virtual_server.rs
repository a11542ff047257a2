//! `virtual_server`: a service of LVS, as a frontend and a backend.
//!
//! The kernel forwards where it can, as LVS does. A question that healthd cannot ask never makes a server count as up:
//! its port is probed instead.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use config::healthd::Verify;
use config::lb_proxy::{Backend, Balance, DataPath, Frontend, HealthCheck, Kind, Protocol, Server};
use config::{Class, DurationWithin, Notes, Whole};

use super::instance::seconds;
use super::tree::Node;

/// The block of a server.
const REAL: &str = "real_server";

/// The frontend and the backend of a service; none if it has no address or no server.
pub(super) fn service(node: &Node, notes: &mut Notes) -> Option<(Frontend, Backend)> {
    let mut lost = |reason: &str| {
        notes.lost(Class::Behaviour, &node.position, &node.text(), reason);
    };
    let Some(address) = address(node.word(1), node.word(2)) else {
        lost("lb-proxy listens on an address and a port, not for a mark or a group");
        return None;
    };
    let servers = node.children().iter();
    let servers: Vec<&Node> = servers.filter(|child| child.keyword() == REAL).collect();
    if servers.is_empty() {
        lost("it has no real_server");
        return None;
    }
    let protocol = match value(node, "protocol") {
        "UDP" => Protocol::Udp,
        "" | "TCP" => Protocol::Tcp,
        _ => {
            lost("lb-proxy balances TCP and UDP");
            return None;
        }
    };
    let name = match protocol {
        Protocol::Tcp => address.to_string(),
        Protocol::Udp => format!("{address}-udp"),
    }
    .replace(['[', ']'], "");
    let mut backend = Backend {
        balance: Some(balance(node, notes)),
        ..Backend::new(&name)
    };
    let mut check = None;
    for server in servers {
        real_server(server, (address, protocol), &mut backend, &mut check, notes);
    }
    backend.check = Some(check.map_or_else(unchecked, |check| timed(check, node)));
    sorry_server(node, &mut backend, notes);
    let frontend = Frontend {
        backend: Some(name.clone()),
        protocol,
        path: DataPath::KernelPreferred,
        masquerade: masquerade(node, notes),
        ..Frontend::new(name, vec![address.into()])
    };
    for child in node.children() {
        if let Some(reason) = reason(child.keyword()) {
            notes.lost(Class::Behaviour, &child.position, &child.text(), reason);
        }
    }
    Some((frontend, backend))
}

/// Why a keyword is not carried over; none for one that is, or that is so here anyway.
fn reason(keyword: &str) -> Option<&'static str> {
    Some(match keyword {
        "real_server"
        | "sorry_server"
        | "protocol"
        | "lb_algo"
        | "lvs_sched"
        | "lb_kind"
        | "lvs_method"
        | "persistence_timeout"
        | "delay_loop"
        | "virtualhost"
        | "retry"
        | "delay_before_retry"
        | "warmup"
        | "alpha"
        | "ops"
        | "ip_family" => return None,
        "quorum" | "quorum_up" | "quorum_down" | "hysteresis" | "omega" => {
            "`[[vip]]` has `track` and `notify`; there is no quorum"
        }
        "persistence_granularity" => "an IPv4 source is one address, an IPv6 source a /64",
        _ => "unknown here",
    })
}

fn balance(node: &Node, notes: &mut Notes) -> Balance {
    let find = |keyword: &str| {
        let mut children = node.children().iter();
        children.find(|child| child.keyword() == keyword)
    };
    let mut differs = |child: &Node, how: &str| {
        notes.differs(Class::Behaviour, &child.position, &child.text(), how);
    };
    if let Some(child) = find("persistence_timeout") {
        differs(
            child,
            "a source stays with its server as long as that is up",
        );
        return Balance::Source;
    }
    let Some(child) = find("lb_algo").or_else(|| find("lvs_sched")) else {
        return Balance::RoundRobin;
    };
    match child.word(1) {
        "rr" | "wrr" => Balance::RoundRobin,
        "lc" | "wlc" => Balance::LeastConnections,
        "sh" | "mh" => Balance::Source,
        _ => {
            differs(child, "the server with the fewest connections is chosen");
            Balance::LeastConnections
        }
    }
}

/// Whether servers see this node's address.
fn masquerade(node: &Node, notes: &mut Notes) -> bool {
    let mut children = node.children().iter();
    let kind = children.find(|child| matches!(child.keyword(), "lb_kind" | "lvs_method"));
    let Some(kind) = kind.filter(|kind| kind.word(1) != "NAT") else {
        return false;
    };
    let how = "answers come back through this node: servers see its address";
    notes.differs(Class::Behaviour, &kind.position, &kind.text(), how);
    true
}

fn real_server(
    node: &Node,
    (service, protocol): (SocketAddr, Protocol),
    backend: &mut Backend,
    check: &mut Option<HealthCheck>,
    notes: &mut Notes,
) {
    let mut lost = |at: &Node, class: Class, reason: &str| {
        notes.lost(class, &at.position, &at.text(), reason);
    };
    let written = match node.word(2) {
        // LVS leaves the port as it is.
        "" | "0" => service.port().to_string(),
        port => port.to_owned(),
    };
    let Some(address) = address(node.word(1), &written) else {
        return lost(node, Class::Behaviour, "it has no address and port");
    };
    let weight = value(node, "weight").parse().unwrap_or(1_i64);
    let mut server = Server {
        weight: Whole::clamped(weight.clamp(0, 256)),
        check: false,
        ..Server::new(address.to_string().replace(['[', ']'], ""), address)
    };
    for child in node.children() {
        match child.keyword() {
            "weight" => {}
            "TCP_CHECK" | "HTTP_GET" | "SSL_GET" | "MISC_CHECK" | "SMTP_CHECK" | "DNS_CHECK"
            | "UDP_CHECK" | "PING_CHECK" | "BFD_CHECK" | "FILE_CHECK" => {
                let own = probe(child, protocol);
                server.check = true;
                let port = value(child, "connect_port").parse().ok();
                server.check_port = port.filter(|port| *port > 0).map(Whole::clamped);
                if !is_asked(child) {
                    let reason = match protocol {
                        Protocol::Tcp => "healthd does not ask that: it connects to the port",
                        Protocol::Udp => "healthd does not ask that, and no probe stands in for it",
                    };
                    lost(child, Class::Behaviour, reason);
                }
                if check.as_ref().is_some_and(|known| *known != own) {
                    let reason =
                        "the servers of a backend are probed in one way, that of the first";
                    lost(child, Class::Behaviour, reason);
                }
                check.get_or_insert(own);
            }
            "inhibit_on_failure" => {
                let reason = "a server that is down gets no connections";
                lost(child, Class::Behaviour, reason);
            }
            _ => lost(child, Class::Behaviour, "unknown here"),
        }
    }
    backend.server.push(server);
}

/// Whether healthd asks the same.
fn is_asked(check: &Node) -> bool {
    matches!(
        check.keyword(),
        "TCP_CHECK" | "HTTP_GET" | "SSL_GET" | "DNS_CHECK"
    )
}

/// The probe of a server.
fn probe(node: &Node, protocol: Protocol) -> HealthCheck {
    // A TCP probe of a port for datagrams would find every server down.
    if protocol == Protocol::Udp && !is_asked(node) {
        return unchecked();
    }
    let timeout = seconds(value(node, "connect_timeout")).filter(|time| !time.is_zero());
    let check = HealthCheck {
        timeout: timeout.map(DurationWithin::clamped),
        ..HealthCheck::default()
    };
    let url = || {
        let mut children = node.children().iter();
        children.find(|child| child.keyword() == "url")
    };
    let http = |kind| {
        let of_url = |keyword| url().map_or("", |url| value(url, keyword));
        let path = of_url("path");
        let status = of_url("status_code").parse().ok();
        let host = value(node, "virtualhost");
        HealthCheck {
            kind: Some(kind),
            path: (!path.is_empty() && path != "/").then(|| path.to_owned()),
            status: status.map(Whole::clamped),
            host: (!host.is_empty()).then(|| host.to_owned()),
            ..check.clone()
        }
    };
    match node.keyword() {
        "HTTP_GET" => http(Kind::Http),
        // keepalived verifies no certificate.
        "SSL_GET" => HealthCheck {
            verify: Some(Verify::None),
            ..http(Kind::Https)
        },
        "DNS_CHECK" => HealthCheck {
            kind: Some(Kind::Dns),
            ..check
        },
        _ => HealthCheck {
            kind: Some(Kind::Tcp),
            ..check
        },
    }
}

/// A check as often as its service says.
fn timed(check: HealthCheck, node: &Node) -> HealthCheck {
    let interval =
        seconds(value(node, "delay_loop")).filter(|time| *time >= Duration::from_millis(100));
    HealthCheck {
        interval: interval.map(DurationWithin::clamped),
        ..check
    }
}

fn unchecked() -> HealthCheck {
    HealthCheck {
        kind: Some(Kind::None),
        ..HealthCheck::default()
    }
}

/// The server for when no other is there.
fn sorry_server(node: &Node, backend: &mut Backend, notes: &mut Notes) {
    let mut children = node.children().iter();
    let Some(sorry) = children.find(|child| child.keyword() == "sorry_server") else {
        return;
    };
    let Some(address) = address(sorry.word(1), sorry.word(2)) else {
        let reason = "it has no address and port";
        return notes.lost(Class::Behaviour, &sorry.position, &sorry.text(), reason);
    };
    backend.server.push(Server {
        backup: true,
        check: false,
        ..Server::new("sorry", address)
    });
}

fn value<'a>(node: &'a Node, keyword: &str) -> &'a str {
    let mut children = node.children().iter();
    let child = children.rfind(|child| child.keyword() == keyword);
    child.map_or("", |child| child.word(1))
}

fn address(ip: &str, port: &str) -> Option<SocketAddr> {
    let ip: IpAddr = ip.parse().ok()?;
    let port = port.parse().ok().filter(|port| *port > 0)?;
    Some(SocketAddr::new(ip, port))
}
