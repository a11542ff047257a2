//! `resolvers` sections (configuration.txt §5.3.2), and servers that have names.

use std::net::{IpAddr, SocketAddr};

use config::lb_proxy::{NAMESERVERS, Resolvers, Time};
use config::{Class, DnsAddress, HumanDuration, Notes, Whole};
use config_text::Position;

use super::HostInfo;
use super::proxy::Proxy;
use super::tree::{Kind, Section, Tree};
use super::values::{Host, address, time};

/// The table `[resolvers]` for the servers of all proxies.
///
/// HAProxy has sections of resolvers and a server names one; lb-proxy asks the same servers for all names.
pub(super) fn resolvers(
    tree: &Tree,
    proxies: &[Proxy<'_>],
    notes: &mut Notes,
    surroundings: &dyn HostInfo,
) -> Resolvers {
    let servers = proxies.iter().flat_map(|proxy| &proxy.servers);
    let used: Vec<&(String, Position)> = servers
        .filter(|server| server.has_name())
        .filter_map(|server| server.options.resolvers.as_ref())
        .collect();
    let sections = || tree.sections.iter().filter(|it| it.kind == Kind::Resolvers);
    let named = |name: &str| sections().find(|it| it.name().is_some_and(|own| own.text == name));
    let mut resolvers = Resolvers::default();
    let first = used.iter().find_map(|(name, _)| named(name));
    for section in sections() {
        let is_used = used
            .iter()
            .any(|(name, _)| section.name().is_some_and(|own| own.text == *name));
        let is_first = first.is_some_and(|first| std::ptr::eq(first, section));
        let Some(at) = section.head.position().filter(|_| !is_first) else {
            continue;
        };
        let (class, reason) = match (is_used, first.and_then(Section::name)) {
            (true, Some(first)) => (
                Class::Behaviour,
                format!(
                    "lb-proxy asks for all names at the servers of `resolvers {}`",
                    first.text
                ),
            ),
            _ => (
                Class::Cosmetic,
                "no server that has a name uses it".to_owned(),
            ),
        };
        notes.lost(class, at, &section.head.text(), reason);
    }
    for (name, at) in used {
        if named(name).is_none() {
            let what = format!("resolvers {name}");
            let reason = "there is no such section; lb-proxy asks 127.0.0.1";
            notes.lost(Class::Behaviour, at, &what, reason);
        }
    }
    if let Some(section) = first {
        read(section, &mut resolvers, notes, surroundings);
    }
    resolvers
}

fn read(
    section: &Section,
    resolvers: &mut Resolvers,
    notes: &mut Notes,
    surroundings: &dyn HostInfo,
) {
    let mut nameservers: Vec<DnsAddress> = Vec::new();
    for line in &section.lines {
        let Some(at) = line.position() else { continue };
        let mut lost = |class, reason: &str| notes.lost(class, at, &line.text(), reason);
        let value = line.word(2).and_then(time);
        let timed = value.map(Time::clamped);
        match (
            line.word(0).unwrap_or_default(),
            line.word(1).unwrap_or_default(),
        ) {
            ("nameserver", _) => match nameserver(line.word(2).unwrap_or_default()) {
                Some(address) if nameservers.len() < NAMESERVERS => nameservers.push(address),
                Some(_) => lost(Class::Behaviour, "lb-proxy asks at most 8 servers"),
                None => lost(
                    Class::Behaviour,
                    "it is no address and port over UDP, which comes first",
                ),
            },
            ("parse-resolv-conf", _) => {
                let found = surroundings.nameservers();
                let room = NAMESERVERS.saturating_sub(nameservers.len());
                let all = found.iter().take(room);
                nameservers.extend(all.map(|ip| DnsAddress(SocketAddr::new(*ip, 53))));
                let listed: Vec<String> = found.iter().map(IpAddr::to_string).collect();
                let how = format!("its servers are {} now", listed.join(" "));
                notes.differs(Class::Behaviour, at, &line.text(), how);
            }
            ("resolve_retries", number) => match number.parse::<i64>() {
                Ok(number) => resolvers.resolve_retries = Whole::clamped(number),
                Err(_) => lost(Class::Behaviour, "its value is no number that fits"),
            },
            ("timeout", "retry") if timed.is_some() => {
                resolvers.timeout_retry = timed.unwrap_or(resolvers.timeout_retry);
            }
            ("timeout", "resolve") if timed.is_some() => {
                resolvers.timeout_resolve = timed.unwrap_or(resolvers.timeout_resolve);
            }
            ("hold", "valid") if timed.is_some() => {
                resolvers.hold_valid = timed.unwrap_or(resolvers.hold_valid);
            }
            ("hold", "nx") if value.is_some() => {
                resolvers.hold_nx = HumanDuration(value.unwrap_or_default());
            }
            ("hold", "obsolete") if value.is_some() => {
                resolvers.hold_obsolete = HumanDuration(value.unwrap_or_default());
            }
            ("hold", "other" | "refused" | "timeout") => lost(
                Class::Behaviour,
                "a failed lookup takes no server out, however long it lasts",
            ),
            ("timeout" | "hold", _) => lost(Class::Behaviour, "its value is no time"),
            ("accepted_payload_size", _) => {
                lost(Class::Cosmetic, "longer answers come over TCP");
            }
            _ => lost(Class::Behaviour, "it has no counterpart"),
        }
    }
    if !nameservers.is_empty() {
        resolvers.nameservers = nameservers;
    }
}

/// The address of a name server; a port is usual, and may be missing.
fn nameserver(text: &str) -> Option<DnsAddress> {
    // Both ask over UDP first, whatever the family's prefix.
    let text = text.strip_prefix("udp@").unwrap_or(text);
    let text = text.strip_prefix("udp4@").unwrap_or(text);
    let text = text.strip_prefix("udp6@").unwrap_or(text);
    if text.starts_with("tcp") {
        return None;
    }
    let found = address(text)?;
    let Host::Ip(ip) = found.host else {
        return None;
    };
    let port = found.port.map_or(Ok(DnsAddress::PORT), str::parse).ok()?;
    Some(DnsAddress(SocketAddr::new(ip, port)))
}

#[cfg(test)]
mod tests;
