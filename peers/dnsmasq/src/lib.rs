//! dnsmasq.conf: the parts that forward and cache.
//!
//! ```text
//! no-resolv
//! server=192.0.2.53
//! server=/cluster.local/127.0.0.1#5301
//! cache-size=10000
//! ```
//!
//! Only the DNS settings are read; DHCP, TFTP and router advertisements belong to another program.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use config_text::{Files, Position, Problem};
use dns_wire::Name;
use peer_forwarder::{
    Forward, Forwarder, GivenName, Rejected, Setting, address, name_servers, position,
};

/// The most included files: more is a circle.
const MAX_FILES: usize = 50;
/// The file of upstreams that dnsmasq reads without `no-resolv`.
const RESOLV_CONF: &str = "/etc/resolv.conf";
/// The file of names that dnsmasq reads without `no-hosts`.
const HOSTS: &str = "/etc/hosts";

/// Reads a dnsmasq.conf and its includes.
///
/// # Errors
/// Everything that is wrong with it, and the remarks about the rest.
pub fn read(path: &Path, files: &mut dyn Files) -> Result<Forwarder, Rejected> {
    let mut reader = Reader {
        files,
        found: Forwarder::default(),
        zones: BTreeMap::new(),
        listen: Vec::new(),
        port: 53,
        resolv: Some(RESOLV_CONF.to_owned()),
        has_hosts: true,
        errors: Vec::new(),
        n_files: 0,
    };
    reader.file(path);
    reader.finish()
}

struct Reader<'f> {
    files: &'f mut dyn Files,
    found: Forwarder,
    zones: BTreeMap<String, Forward>,
    listen: Vec<IpAddr>,
    port: u16,
    /// The file of the servers for all other names, unless `no-resolv`.
    resolv: Option<String>,
    /// Whether names of /etc/hosts are answered.
    has_hosts: bool,
    errors: Vec<Problem>,
    n_files: usize,
}

impl Reader<'_> {
    fn file(&mut self, path: &Path) {
        self.n_files += 1;
        if self.n_files > MAX_FILES {
            return;
        }
        let text = match self.files.read(path) {
            Ok(text) => text,
            Err(error) => {
                self.errors.push(Problem {
                    position: None,
                    message: format!("cannot read {}: {error}", path.display()),
                });
                return;
            }
        };
        let text = String::from_utf8_lossy(&text);
        let file = Arc::from(path);
        for (number, line) in text.lines().enumerate() {
            // A comment begins a line, or has white space before it.
            let comment = line.char_indices().find(|(at, letter)| {
                let before = line.get(..*at).and_then(|before| before.chars().last());
                *letter == '#' && before.is_none_or(char::is_whitespace)
            });
            let end = comment.map_or(line.len(), |(at, _)| at);
            let content = line.get(..end).unwrap_or_default().trim();
            if !content.is_empty() {
                let column = line
                    .chars()
                    .take_while(|letter| letter.is_whitespace())
                    .count()
                    + 1;
                let (key, value) = content.split_once('=').unwrap_or((content, ""));
                let at = position(&file, number + 1, column);
                self.option(key.trim(), value.trim(), &at);
            }
        }
    }

    fn option(&mut self, key: &str, value: &str, at: &Position) {
        match key {
            "server" | "local" => self.server(value, at),
            "port" => match value.parse() {
                Ok(port) => self.port = port,
                Err(_) => self.error(at, format!("`{value}` is no port")),
            },
            "listen-address" => {
                for word in value.split(',') {
                    match word.trim().parse() {
                        Ok(address) => self.listen.push(address),
                        Err(_) => self.error(at, format!("`{word}` is no address")),
                    }
                }
            }
            "no-resolv" => self.resolv = None,
            "resolv-file" if self.resolv.is_some() => self.resolv = Some(value.to_owned()),
            "conf-file" | "servers-file" => self.file(Path::new(value)),
            "conf-dir" => self.directory(value, at),
            "cache-size" => self.number(Setting::Entries, value, at),
            "max-cache-ttl" => self.number(Setting::MaxTtl, value, at),
            "min-cache-ttl" => self.number(Setting::MinTtl, value, at),
            "dns-forward-max" => self.number(Setting::MaxQuestions, value, at),
            "no-negcache" => self.found.set(Setting::NegativeEntries(0)),
            "use-stale-cache" => match value {
                "" => {}
                age => {
                    let setting = |age| Setting::StaleMaxAge(format!("{age}s"));
                    self.number(setting, age, at);
                }
            },
            "no-hosts" => self.has_hosts = false,
            "addn-hosts" => self.found.add_hosts(Path::new(value)),
            "local-ttl" => self.number(Setting::HostsTtl, value, at),
            "log-queries" => self.found.set(Setting::QueryLog(vec!["all".to_owned()])),
            "domain-needed" => self.found.set(Setting::DomainNeeded),
            "address" => self.address(value, at),
            "host-record" => self.host_record(value, at),
            "cname" => self.alias(value, at),
            "bogus-priv" => self.found.set(Setting::PrivateReverse),
            "strict-order" | "no-poll" | "bind-interfaces" | "bind-dynamic" | "min-port"
            | "max-port" | "user" | "group" | "pid-file" | "log-facility" | "log-async"
            | "keep-in-foreground" | "no-daemon" | "edns-packet-max" | "dns-loop-detect"
            | "clear-on-reload" | "fast-dns-retry" | "query-port" | "all-servers" => {}
            _ => self.lost(key, value, at),
        }
    }

    /// `[/zone/[zone/]][address[#port]]`; without an address, no upstream gets the zone.
    fn server(&mut self, value: &str, at: &Position) {
        let (zones, target) = match value
            .strip_prefix('/')
            .and_then(|rest| rest.rsplit_once('/'))
        {
            Some((zones, target)) => (zones.split('/').collect(), target),
            None => (vec!["."], value),
        };
        // The part behind `@` is the source address; this server has one setting for all, source-addresses.
        let (target, way) = target.split_once('@').unwrap_or((target, ""));
        if !way.is_empty() {
            self.found
                .not_carried(at, value, "set source-addresses, for all upstreams");
        }
        if target.is_empty() || target == "#" {
            self.found.not_carried(
                at,
                value,
                "a zone without upstreams is served by dns-authd, or left out",
            );
            return;
        }
        let Some(upstream) = address(target, '#', 53) else {
            self.error(at, format!("`{target}` is no address"));
            return;
        };
        for zone in zones {
            let zone = zone.trim_start_matches("*.").trim_start_matches('*');
            match Name::parse(if zone.is_empty() { "." } else { zone }) {
                Ok(name) => self.upstream(&name, upstream),
                Err(_) => self.error(at, format!("`{zone}` is no zone")),
            }
        }
    }

    /// `/name/[name/]address`: the addresses of the names and of all below.
    fn address(&mut self, value: &str, at: &Position) {
        let parts = value
            .strip_prefix('/')
            .and_then(|rest| rest.rsplit_once('/'));
        let Some((names, target)) = parts else {
            self.error(at, format!("`{value}` has not the form `/name/address`"));
            return;
        };
        let Ok(address) = target.parse::<IpAddr>() else {
            match target {
                "" | "#" => self.found.not_carried(
                    at,
                    &format!("address={value}"),
                    "write these names into a list and name it in [[response-policy]]",
                ),
                _ => self.error(at, format!("`{target}` is no address")),
            }
            return;
        };
        for name in names.split('/') {
            let Ok(name) = Name::parse(name) else {
                self.error(at, format!("`{name}` is no name"));
                continue;
            };
            for name in [name.to_string(), format!("*.{name}")] {
                self.found.give(GivenName {
                    name,
                    addresses: vec![address],
                    alias: None,
                    ttl: None,
                    has_reverse: false,
                });
            }
        }
    }

    /// `name[,name…][,address…][,ttl]`.
    fn host_record(&mut self, value: &str, at: &Position) {
        let (mut names, mut addresses, mut ttl) = (Vec::new(), Vec::new(), None);
        for word in value.split(',').map(str::trim) {
            match (
                word.parse::<IpAddr>(),
                word.parse::<u32>(),
                Name::parse(word),
            ) {
                (Ok(address), ..) => addresses.push(address),
                (_, Ok(seconds), _) => ttl = Some(seconds),
                (.., Ok(name)) => names.push(name.to_string()),
                _ => self.error(at, format!("`{word}` is neither a name nor an address")),
            }
        }
        if names.is_empty() || addresses.is_empty() {
            self.error(at, format!("`{value}` names no name or no address"));
        }
        for (index, name) in names.into_iter().enumerate() {
            self.found.give(GivenName {
                name,
                addresses: addresses.clone(),
                alias: None,
                ttl,
                has_reverse: index == 0,
            });
        }
    }

    /// `name[,name…],target[,ttl]`.
    fn alias(&mut self, value: &str, at: &Position) {
        let mut words: Vec<&str> = value.split(',').map(str::trim).collect();
        let ttl = words.last().and_then(|word| word.parse().ok());
        if ttl.is_some() {
            words.pop();
        }
        let parsed: Result<Vec<Name>, _> = words.iter().map(|word| Name::parse(word)).collect();
        let Some([names @ .., target]) = parsed.as_deref().ok().filter(|it| it.len() > 1) else {
            self.error(at, format!("`{value}` has not the form `name,target`"));
            return;
        };
        for name in names {
            self.found.give(GivenName {
                name: name.to_string(),
                addresses: Vec::new(),
                alias: Some(target.to_string()),
                ttl,
                has_reverse: false,
            });
        }
    }

    fn upstream(&mut self, zone: &Name, upstream: SocketAddr) {
        let zone = zone.to_string();
        let forward = self.zones.entry(zone.clone()).or_insert_with(|| Forward {
            zone,
            upstreams: Vec::new(),
            policy: None,
            tcp: false,
            tls: None,
        });
        if !forward.upstreams.contains(&upstream) {
            forward.upstreams.push(upstream);
        }
    }

    /// A name server of the system, unless it is this server: dnsmasq skips its own addresses too.
    fn name_server(&mut self, server: SocketAddr, resolv: &str) {
        let ip = server.ip();
        let listens = |address: &IpAddr| {
            *address == ip || (address.is_unspecified() && address.is_ipv4() == ip.is_ipv4())
        };
        let is_heard = self.listen.is_empty() || self.listen.iter().any(listens);
        if ip.is_loopback() && server.port() == self.port && is_heard {
            let message = format!("{resolv}: name server {ip} is this server itself and left out");
            self.found.odd(None, message);
        } else {
            self.upstream(&Name::root(), server);
        }
    }

    /// `DIR[,EXTENSION…]`: only files with the extensions marked `*` are read; files with the others are
    /// skipped.
    fn directory(&mut self, value: &str, at: &Position) {
        let mut parts = value.split(',').map(str::trim);
        let directory = parts.next().unwrap_or_default();
        let ends: Vec<&str> = parts.collect();
        match self.files.list(Path::new(directory)) {
            Ok(mut paths) => {
                paths.sort();
                for path in paths {
                    let name = path.file_name().unwrap_or_default().to_string_lossy();
                    let only = ends.iter().filter_map(|end| end.strip_prefix('*'));
                    let wanted = only.clone().next().is_none()
                        || only.clone().any(|end| name.ends_with(end));
                    let passed_over = ends
                        .iter()
                        .any(|end| !end.starts_with('*') && name.ends_with(end));
                    let temporary = name.starts_with(['.', '#']) || name.ends_with('~');
                    if wanted && !passed_over && !temporary {
                        self.file(&path);
                    }
                }
            }
            Err(error) => self.error(at, format!("cannot read {directory}: {error}")),
        }
    }

    fn lost(&mut self, key: &str, value: &str, at: &Position) {
        let what = match value {
            "" => key.to_owned(),
            value => format!("{key}={value}"),
        };
        let reason = match key {
            "srv-host" | "mx-host" | "txt-record" | "ptr-record" | "expand-hosts" | "domain"
            | "localise-queries" | "auth-zone" => "serve these names with dns-authd",
            "interface" | "except-interface" => "listeners are named by address",
            "dnssec" | "trust-anchor" | "dnssec-check-unsigned" => "answers are not validated",
            key if key.starts_with("dhcp")
                || key.starts_with("tftp")
                || key.starts_with("enable-ra") =>
            {
                "this server is for DNS only"
            }
            _ => "it has no counterpart in this server",
        };
        self.found.not_carried(at, &what, reason);
    }

    fn number(&mut self, setting: impl FnOnce(u32) -> Setting, value: &str, at: &Position) {
        match value.parse() {
            Ok(number) => self.found.set(setting(number)),
            Err(_) => self.error(at, format!("`{value}` is no number")),
        }
    }

    fn error(&mut self, at: &Position, message: String) {
        self.errors.push(Problem {
            position: Some(at.clone()),
            message,
        });
    }

    fn finish(mut self) -> Result<Forwarder, Rejected> {
        if let Some(resolv) = self.resolv.take() {
            match name_servers(Path::new(&resolv), self.files) {
                Ok(servers) => {
                    for server in servers {
                        self.name_server(server, &resolv);
                    }
                }
                Err(message) => self.errors.push(Problem {
                    position: None,
                    message,
                }),
            }
        }
        if !self.errors.is_empty() {
            return Err(Rejected {
                problems: self.errors,
                remarks: self.found.remarks,
            });
        }
        if self.has_hosts {
            self.found.add_hosts(Path::new(HOSTS));
        }
        if self.listen.is_empty() {
            self.listen = vec![IpAddr::from([0; 4]), IpAddr::from([0; 16])];
        }
        let port = self.port;
        let listen = self
            .listen
            .iter()
            .map(|address| SocketAddr::new(*address, port));
        Ok(Forwarder {
            listen: listen.collect(),
            forwards: self.zones.into_values().collect(),
            ..self.found
        })
    }
}
