//! `forward-zones`, `forward-zones-recurse` and `forward-zones-file`.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use config_text::Position;
use dns_wire::Name;
use pdns_settings::{Setting, address};

use super::yaml::{self, YamlForward};
use super::{DNS_PORT, Reader};

/// The port on which pdns would speak DNS over TLS (RFC 7858).
const TLS_PORT: u16 = 853;

/// A zone and its servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forward {
    /// The zone's apex.
    pub zone: Name,
    /// Whether the upstreams are recursive servers (queries with RD), or authoritative for the zone.
    pub recursive: bool,
    /// Whether NOTIFY for the zone counts (`^` in `forward-zones-file`).
    pub notify: bool,
    /// The upstreams in the order they are written; never empty.
    pub upstreams: Vec<SocketAddr>,
    /// Whether they get queries over TLS. pdns verifies no certificate.
    pub tls: bool,
    /// Its place; `None` on the command line.
    pub position: Option<Position>,
}

/// Forwards by zone.
#[derive(Default)]
struct Found {
    forwards: Vec<Forward>,
    places: HashMap<Name, usize>,
}

impl Reader<'_> {
    pub(super) fn forwards(&mut self) -> Vec<Forward> {
        let mut found = Found::default();
        for (key, recursive) in [("forward-zones", false), ("forward-zones-recurse", true)] {
            if let Some(setting) = self.set(key) {
                self.list(key, &setting, recursive, &mut found);
            }
        }
        let structured = std::mem::take(&mut self.structured.forwards);
        self.structured(structured, &mut found);
        if let Some(setting) = self.filled("forward-zones-file") {
            self.file(&setting, &mut found);
        }
        if !found.places.contains_key(&Name::root()) {
            let message = "no zone `.` is forwarded: this server does not resolve other names, where pdns would query the root servers";
            self.warn(None, message.to_owned());
        }
        found.forwards
    }

    /// `zone=address;address,zone=address`
    fn list(&mut self, key: &str, setting: &Setting, recursive: bool, found: &mut Found) {
        let position = &setting.position;
        let items = setting.value.split([' ', '\t', ',']);
        for item in items.filter(|item| !item.is_empty()) {
            let Some((zone, addresses)) = item.split_once('=') else {
                let hint = match address(item, DNS_PORT) {
                    Some(_) => "; addresses of one zone are separated by `;`",
                    None => "; no blanks go around `=`",
                };
                let message = format!("`{key}` takes `zone=address`, not `{item}`{hint}");
                self.settings.problem(position.clone(), message);
                continue;
            };
            let addresses = addresses.split(';').map(|item| (item, position.clone()));
            let forward = Forward {
                zone: Name::root(),
                recursive,
                notify: false,
                upstreams: Vec::new(),
                tls: false,
                position: position.clone(),
            };
            self.forward(forward, zone, addresses, found);
        }
    }

    /// Lines `zone=address,address`; `+` before the zone sets RD, `^` allows NOTIFY.
    fn file(&mut self, setting: &Setting, found: &mut Found) {
        let Some(text) = self.settings.other_file(setting, self.files) else {
            return;
        };
        let path = Path::new(&setting.value);
        if yaml::ends_with_yml(path) {
            match yaml::zones(path, &text) {
                Ok(zones) => self.structured(zones, found),
                Err(problems) => {
                    for problem in problems {
                        self.settings.problem(problem.position, problem.message);
                    }
                }
            }
            return;
        }
        Lines::new(&setting.value, &text).each(|line, position| {
            // A `#` in a zone's name is part of it.
            if line.starts_with('#') {
                return;
            }
            let (zone, addresses) = line.split_once('=').unwrap_or((line, ""));
            let offset = position.column + zone.chars().count() + 1;
            let addresses = addresses.split('#').next().unwrap_or_default();
            let name = zone.trim_start_matches(['+', '^']);
            let marks = || zone.chars().take_while(|mark| matches!(mark, '+' | '^'));
            let forward = Forward {
                zone: Name::root(),
                recursive: marks().any(|mark| mark == '+'),
                notify: marks().any(|mark| mark == '^'),
                upstreams: Vec::new(),
                tls: false,
                position: Some(position.clone()),
            };
            let addresses = split(addresses).map(|(column, item)| {
                let column = offset + column;
                (
                    item,
                    Some(Position {
                        column,
                        ..position.clone()
                    }),
                )
            });
            self.forward(forward, name.trim(), addresses, found);
        });
    }

    /// Zones of YAML.
    fn structured(&mut self, zones: Vec<YamlForward>, found: &mut Found) {
        for zone in zones {
            let forward = Forward {
                zone: Name::root(),
                recursive: zone.recursive,
                notify: zone.notify,
                upstreams: Vec::new(),
                tls: false,
                position: Some(zone.position),
            };
            let servers = zone.servers.iter();
            let servers = servers.map(|(text, position)| (text.as_str(), Some(position.clone())));
            self.forward(forward, &zone.zone, servers, found);
        }
    }

    /// Fills in the zone and the upstreams.
    fn forward<'a>(
        &mut self,
        mut forward: Forward,
        zone: &str,
        addresses: impl Iterator<Item = (&'a str, Option<Position>)>,
        found: &mut Found,
    ) {
        let before = forward.position.clone();
        if zone.is_empty() {
            let message = "the zone before `=` is missing; for all names, write `.`";
            self.settings.problem(before, message.to_owned());
            return;
        }
        match Name::parse(zone) {
            Ok(name) => forward.zone = name,
            Err(error) => {
                let message = format!("`{zone}` is not a zone name: {error}");
                self.settings.problem(before, message);
                return;
            }
        }
        let (mut slips, mut places) = (false, Vec::new());
        for (item, position) in addresses.filter(|(item, _)| !item.is_empty()) {
            match upstream(item) {
                Ok(upstream) => {
                    places.push((upstream, position));
                    forward.upstreams.push(upstream);
                }
                Err(reason) => {
                    slips = true;
                    let message = format!("`{zone}` is forwarded to `{item}`: {reason}");
                    self.settings.problem(position, message);
                }
            }
        }
        if forward.upstreams.is_empty() {
            if !slips {
                let message = format!("`{zone}` has no address to forward to");
                self.settings.problem(before, message);
            }
            return;
        }
        forward.tls = self.is_encrypted(&places);
        self.add(forward, found);
    }

    /// Adds a forward. When two are for one zone the later counts.
    fn add(&mut self, forward: Forward, found: &mut Found) {
        let place = found.places.get(&forward.zone);
        match place.and_then(|place| found.forwards.get_mut(*place)) {
            Some(earlier) => {
                let message = format!("`{}` is forwarded twice; the last one counts", forward.zone);
                *earlier = forward.clone();
                self.warn(forward.position, message);
            }
            None => {
                found
                    .places
                    .insert(forward.zone.clone(), found.forwards.len());
                found.forwards.push(forward);
            }
        }
    }

    /// Whether pdns would ask these upstreams over TLS. One zone has one transport here, so that one with both kinds has TLS for
    /// none.
    fn is_encrypted(&mut self, upstreams: &[(SocketAddr, Option<Position>)]) -> bool {
        if !self.settings.switch("dot-to-port-853", true) {
            return false;
        }
        let is_tls = |upstream: &SocketAddr| upstream.port() == TLS_PORT;
        if upstreams.iter().all(|(upstream, _)| is_tls(upstream)) {
            return true;
        }
        for (upstream, position) in upstreams.iter().filter(|(upstream, _)| is_tls(upstream)) {
            let message = format!(
                "`{upstream}` gets queries over UDP and TCP, where pdns would speak TLS: other upstreams of the zone do not"
            );
            self.warn(position.clone(), message);
        }
        false
    }
}

/// The address of an upstream.
fn upstream(text: &str) -> Result<SocketAddr, &'static str> {
    let upstream = address(text, DNS_PORT).ok_or("not an address")?;
    if upstream.port() == 0 {
        return Err("no server listens on port 0");
    }
    let nobody = match upstream.ip() {
        IpAddr::V4(address) => address.is_multicast() || address.is_broadcast(),
        IpAddr::V6(address) => address.is_multicast(),
    };
    if nobody || upstream.ip().is_unspecified() {
        return Err("not the address of a server");
    }
    Ok(upstream)
}

/// Addresses that commas, semicolons and blanks separate, each with the number of letters before it.
fn split(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut before = 0;
    let parts = text.split([',', ';', ' ', '\t']).map(move |part| {
        let at = before;
        before += part.chars().count() + 1;
        (at, part)
    });
    parts.filter(|(_, part)| !part.is_empty())
}

/// The lines of a file that a setting names.
pub(super) struct Lines<'a> {
    file: Arc<Path>,
    text: &'a [u8],
}

impl<'a> Lines<'a> {
    pub(super) fn new(path: &str, text: &'a [u8]) -> Self {
        Self {
            file: Path::new(path).into(),
            text,
        }
    }

    /// Calls `read` with each line that is not empty, without blanks around it, and its place.
    pub(super) fn each(self, mut read: impl FnMut(&str, Position)) {
        let lines = self.text.split(|octet| *octet == b'\n');
        for (line, text) in (1..).zip(lines) {
            let text = String::from_utf8_lossy(text);
            let indent = text.chars().take_while(|it| it.is_whitespace()).count();
            let text = text.trim();
            let position = Position {
                file: Arc::clone(&self.file),
                line,
                column: indent + 1,
            };
            if !text.is_empty() {
                read(text, position);
            }
        }
    }
}
