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
        real_server(
            server,
            node,
            (address, protocol),
            &mut backend,
            &mut check,
            notes,
        );
    }
    backend.check = Some(check.unwrap_or_else(unchecked));
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
        | "connect_timeout"
        | "warmup"
        | "ip_family" => return None,
        "alpha" => ALPHA,
        "ops" => "a client's datagrams stay with one server while they come",
        "ha_suspend" => "servers are probed on every node",
        "smtp_alert" => "notifications are for what watches the metrics",
        "snmp_name" => "the admin listener has /status and /metrics",
        "inhibit_on_failure" => "a server that is down gets no connections",
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
    service: &Node,
    (listen, protocol): (SocketAddr, Protocol),
    backend: &mut Backend,
    check: &mut Option<HealthCheck>,
    notes: &mut Notes,
) {
    let written = match node.word(2) {
        // LVS leaves the port as it is.
        "" | "0" => listen.port().to_string(),
        port => port.to_owned(),
    };
    let Some(address) = address(node.word(1), &written) else {
        let reason = "it has no address and port";
        return notes.lost(Class::Behaviour, &node.position, &node.text(), reason);
    };
    let weight = value(node, "weight").parse().unwrap_or(1_i64);
    let mut server = Server {
        weight: Whole::clamped(weight.clamp(0, 256)),
        check: false,
        ..Server::new(address.to_string().replace(['[', ']'], ""), address)
    };
    for child in node.children() {
        if CHECKS.contains(&child.keyword()) {
            let levels = Levels {
                check: child,
                server: node,
                service,
            };
            checked(levels, protocol, &mut server, check, notes);
            continue;
        }
        let reason = match child.keyword() {
            "weight" if (0..=256).contains(&weight) => continue,
            "weight" => "weights are 0 to 256: it has the nearest",
            "retry" | "delay_before_retry" | "delay_loop" | "connect_timeout" | "virtualhost"
            | "warmup" => continue,
            "alpha" => ALPHA,
            "uthreshold" | "lthreshold" => {
                "see `max-connections` of the server; `path = \"kernel\"` cannot count"
            }
            "notify_up" | "notify_down" | "smtp_alert" | "snmp_name" => {
                "the admin listener has /status and /metrics"
            }
            "inhibit_on_failure" => "a server that is down gets no connections",
            _ => "unknown here",
        };
        notes.lost(Class::Behaviour, &child.position, &child.text(), reason);
    }
    backend.server.push(server);
}

/// The checks of a server.
const CHECKS: [&str; 10] = [
    "TCP_CHECK",
    "HTTP_GET",
    "SSL_GET",
    "MISC_CHECK",
    "SMTP_CHECK",
    "DNS_CHECK",
    "UDP_CHECK",
    "PING_CHECK",
    "BFD_CHECK",
    "FILE_CHECK",
];

/// A server is probed in the place of its check; `common` is the probe of the servers before it.
fn checked(
    levels: Levels<'_>,
    protocol: Protocol,
    server: &mut Server,
    common: &mut Option<HealthCheck>,
    notes: &mut Notes,
) {
    let node = levels.check;
    let own = probe(levels, protocol);
    server.check = true;
    let port = value(node, "connect_port").parse().ok();
    server.check_port = port.filter(|port| *port > 0).map(Whole::clamped);
    let mut lost = |reason: &str| {
        notes.lost(Class::Behaviour, &node.position, &node.text(), reason);
    };
    if common.as_ref().is_some_and(|known| *known != own) {
        lost("the servers of a backend are probed in one way, that of the first");
    }
    common.get_or_insert(own);
    match (is_asked(node), protocol) {
        (true, _) => note_settings(node, notes),
        (false, Protocol::Tcp) => lost("healthd does not ask that: it connects to the port"),
        (false, Protocol::Udp) => {
            lost("healthd does not ask that, and no probe stands in for it");
        }
    }
}

/// Whether healthd asks the same.
fn is_asked(check: &Node) -> bool {
    matches!(
        check.keyword(),
        "TCP_CHECK" | "HTTP_GET" | "SSL_GET" | "DNS_CHECK"
    )
}

/// Settings that a check has, or its server, or its service: the innermost counts.
#[derive(Debug, Clone, Copy)]
struct Levels<'a> {
    check: &'a Node,
    server: &'a Node,
    service: &'a Node,
}

impl<'a> Levels<'a> {
    fn value(self, keyword: &str) -> &'a str {
        let all = [self.check, self.server, self.service];
        let mut values = all.into_iter().map(|node| value(node, keyword));
        values.find(|value| !value.is_empty()).unwrap_or_default()
    }

    fn time(self, keyword: &str) -> Option<Duration> {
        seconds(self.value(keyword)).filter(|time| !time.is_zero())
    }
}

/// The probe of a server.
fn probe(levels: Levels<'_>, protocol: Protocol) -> HealthCheck {
    let node = levels.check;
    // A TCP probe of a port for datagrams would find every server down.
    if protocol == Protocol::Udp && !is_asked(node) {
        return unchecked();
    }
    let retries = levels.value("retry");
    let retries = if retries.is_empty() {
        value(node, "nb_get_retry")
    } else {
        retries
    };
    let retries: Option<u32> = retries.parse().ok();
    let interval = levels.time("delay_loop");
    let check = HealthCheck {
        interval: interval
            .filter(|time| *time >= Duration::from_millis(100))
            .map(DurationWithin::clamped),
        timeout: levels.time("connect_timeout").map(DurationWithin::clamped),
        // The first try and those after it.
        fall: retries.map(|retries| Whole::clamped(i64::from(retries) + 1)),
        fast_interval: levels
            .time("delay_before_retry")
            .map(DurationWithin::clamped),
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
        let host = match of_url("virtualhost") {
            "" => levels.value("virtualhost"),
            host => host,
        };
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
        "DNS_CHECK" => {
            let name = value(node, "name");
            HealthCheck {
                kind: Some(Kind::Dns),
                name: (!name.is_empty() && name != ".").then(|| name.to_owned()),
                ..check
            }
        }
        _ => HealthCheck {
            kind: Some(Kind::Tcp),
            ..check
        },
    }
}

/// Says which settings of a check that healthd asks are not asked.
fn note_settings(check: &Node, notes: &mut Notes) {
    let is_http = matches!(check.keyword(), "HTTP_GET" | "SSL_GET");
    let mut lost = |at: &Node, class: Class, reason: &str| {
        let what = format!("{} {}", check.keyword(), at.text());
        notes.lost(class, &at.position, &what, reason);
    };
    let mut n_urls = 0;
    for child in check.children() {
        match child.keyword() {
            "connect_port" | "connect_timeout" | "retry" | "nb_get_retry"
            | "delay_before_retry" | "delay_loop" => {}
            // When the first probes go out is healthd's affair.
            "warmup" => {}
            "virtualhost" if is_http => {}
            "name" if check.keyword() == "DNS_CHECK" => {}
            "enable_sni" | "log_all_failures" => {
                lost(child, Class::Cosmetic, "healthd does so anyway");
            }
            "alpha" => lost(child, Class::Behaviour, ALPHA),
            "connect_ip" => {
                let reason = "a server is probed at its own address; see `check-port`";
                lost(child, Class::Behaviour, reason);
            }
            "url" if is_http => {
                n_urls += 1;
                if n_urls > 1 {
                    lost(child, Class::Behaviour, "healthd asks one URL, the first");
                    continue;
                }
                let decides = |word: &&str| !value(child, word).is_empty();
                if !["status_code", "digest", "regex"].iter().any(decides) {
                    lost(
                        child,
                        Class::Behaviour,
                        "the status 200 means up, and no other up to 299",
                    );
                }
                for setting in child.children() {
                    let status: Result<u16, _> = setting.word(1).parse();
                    let reason = match setting.keyword() {
                        "path" | "virtualhost" => continue,
                        "status_code" if status.is_ok() && setting.words.len() == 2 => continue,
                        "status_code" => "healthd wants one status, and here it is 200",
                        "digest" | "regex" => "healthd looks for a text: see `body`",
                        _ => "healthd has no such setting",
                    };
                    lost(setting, Class::Behaviour, reason);
                }
            }
            _ => lost(child, Class::Behaviour, "healthd has no such setting"),
        }
    }
}

/// Why `alpha` is not carried over.
const ALPHA: &str = "a server gets connections until a probe of it fails";

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
