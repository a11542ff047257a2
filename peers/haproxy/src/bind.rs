//! `bind`: the addresses of a proxy (configuration.txt §5.1).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use config::{Class, Notes};

use super::HostInfo;
use super::lexer::Line;
use super::values::{Host, address, is_any_v6};

/// The sockets of a `bind` line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Bind {
    pub(super) sockets: Vec<SocketAddr>,
    pub(super) accepts_proxy: bool,
    pub(super) max_connections: Option<u32>,
}

/// More ports than these in one range are a mistake, or want another way.
const MOST_PORTS: u16 = 1024;

/// A line, or none when nothing of it can be carried over.
pub(super) fn bind(line: &Line, notes: &mut Notes, surroundings: &dyn HostInfo) -> Option<Bind> {
    let at = line.position()?;
    let addresses = line.word(1)?;
    let text = line.text();
    let mut bind = Bind::default();
    let mut is_v6_only = false;
    let mut options = line.from(2).iter();
    while let Some(option) = options.next() {
        let name = option.text.as_str();
        let mut value = |wanted: bool| {
            let value = if wanted { options.next() } else { None };
            value.map_or("", |value| value.text.as_str())
        };
        match name {
            "accept-proxy" => bind.accepts_proxy = true,
            "v6only" => is_v6_only = true,
            // The options that are always so here.
            "v4v6" => {}
            "maxconn" => match value(true).parse() {
                Ok(number) => bind.max_connections = Some(number),
                Err(_) => notes.lost(
                    Class::Security,
                    &option.position,
                    name,
                    "its value is no number",
                ),
            },
            "ssl" => {
                let reason = "TLS is passed through, never ended here; nothing listens there";
                notes.lost(Class::Behaviour, at, &text, reason);
                return None;
            }
            "proto" | "namespace" | "accept-netscaler-cip" => {
                let reason = format!("`{name}` has no counterpart; nothing listens there");
                notes.lost(Class::Behaviour, at, &text, reason);
                return None;
            }
            _ => {
                let value = value(takes_value(name)).to_owned();
                let what = format!("bind option {name} {value}");
                let class = class(name);
                notes.lost(class, &option.position, what.trim_end(), reason(name));
            }
        }
    }
    for part in addresses.split(',') {
        match sockets(part, is_v6_only, surroundings) {
            Ok(sockets) => bind.sockets.extend(sockets),
            Err(reason) => notes.lost(Class::Behaviour, at, &format!("bind {part}"), reason),
        }
    }
    (!bind.sockets.is_empty()).then_some(bind)
}

fn takes_value(option: &str) -> bool {
    let flags = [
        "allow-0rtt",
        "defer-accept",
        "force-sslv3",
        "force-tlsv10",
        "force-tlsv11",
        "force-tlsv12",
        "force-tlsv13",
        "generate-certificates",
        "no-alpn",
        "no-ca-names",
        "no-sslv3",
        "no-tls-tickets",
        "no-tlsv10",
        "no-tlsv11",
        "no-tlsv12",
        "no-tlsv13",
        "prefer-client-ciphers",
        "quic-force-retry",
        "strict-sni",
        "tfo",
        "transparent",
    ];
    !flags.contains(&option)
}

fn class(option: &str) -> Class {
    match option {
        // Without it, clients of other interfaces connect too.
        "interface" => Class::Security,
        "backlog" | "defer-accept" | "id" | "name" | "guid-prefix" | "label" | "nice"
        | "process" | "shards" | "thread" | "tfo" => Class::Cosmetic,
        _ => Class::Behaviour,
    }
}

fn reason(option: &str) -> &'static str {
    match option {
        "backlog" => "the backlog is as long as the system allows",
        "defer-accept" | "tfo" | "mss" => "it is left to the system",
        "interface" => "listen on an address of that interface",
        "transparent" => "the address has to be the machine's own",
        "id" | "name" | "guid-prefix" | "label" => "listeners differ by their addresses",
        "nice" | "process" | "shards" | "thread" => "every worker listens everywhere",
        "tcp-ut" => "the user timeout is always on; see the template",
        "group" | "gid" | "level" | "mode" | "uid" | "user" => {
            "it is about sockets in the file system"
        }
        "alpn" | "ca-file" | "ciphers" | "ciphersuites" | "crt" | "crt-list" | "ssl-max-ver"
        | "ssl-min-ver" | "strict-sni" | "verify" => "TLS is passed through, never ended here",
        _ => "it has no counterpart",
    }
}

/// The sockets of one address with its ports.
fn sockets(
    text: &str,
    is_v6_only: bool,
    surroundings: &dyn HostInfo,
) -> Result<Vec<SocketAddr>, String> {
    let address = address(text).ok_or("it is no address of the Internet")?;
    let ports = address
        .port
        .and_then(ports)
        .ok_or("it has no port, or not such as there are")?;
    if ports.1 - ports.0 >= MOST_PORTS {
        return Err(format!(
            "more than {MOST_PORTS} ports; the kernel's path forwards ranges better"
        ));
    }
    let any_v4 = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    let any_v6 = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
    let hosts = match address.host {
        Host::Any => vec![any_v4],
        // Without `v6only`, Linux takes IPv4 there too.
        Host::Ip(ip) if is_any_v6(ip) && !is_v6_only => vec![any_v4, any_v6],
        Host::Ip(ip) => vec![ip],
        Host::Name(name) => {
            let found = surroundings.resolve(&name).into_iter().next();
            vec![found.ok_or_else(|| format!("no address is known of {name}"))?]
        }
    };
    let pairs = hosts
        .into_iter()
        .flat_map(|host| (ports.0..=ports.1).map(move |port| SocketAddr::new(host, port)));
    Ok(pairs.collect())
}

/// The first and the last port.
fn ports(text: &str) -> Option<(u16, u16)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first > 0 && first <= last).then_some((first, last))
}
