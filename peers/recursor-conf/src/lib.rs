//! The recursor.conf of the `PowerDNS` Recursor: the settings that have a counterpart.
//!
//! ```text
//! local-address=0.0.0.0 ::
//! allow-from=192.168.7.0/24
//! forward-zones=ocp4.example=127.0.0.1:5301
//! forward-zones-recurse=.=192.0.2.53;192.0.2.54
//! ```
//!
//! Lines are read as `pdns_recursor` reads them, by [`pdns_settings`]. Settings of the command
//! line come after those of the files. `include-dir`, `allow-from-file` and
//! `forward-zones-file` are followed.
//!
//! A setting that pdns knows but that has no counterpart here is listed in [`RecursorConf::dropped`] with
//! the reason; one that pdns does not know either is an error, as it is for pdns. `None` leaves a setting
//! to this server's own default.
//!
//! A file that has these settings as YAML, as recursor.yml of pdns 5 does, is read too ([`is_yaml`](RecursorConf::is_yaml)).
//!
//! Reads files only through [`Files`], and never panics on any input.

mod forwards;
mod keys;
mod policy;
mod yaml;

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use config_text::{Files, MAX_WARNINGS, OneFile, Rejected};
pub use config_text::{Position, Problem};
use dns_wire::Name;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
pub use pdns_settings::Dropped;
use pdns_settings::{Setting, Settings, items};

pub use forwards::Forward;
pub use policy::{Action, Policy};
use yaml::Structured;

/// The settings of a recursor.conf that have a counterpart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecursorConf {
    /// The addresses to listen on for queries.
    pub listen: Vec<SocketAddr>,
    /// The clients with access; the most specific network decides.
    pub allow_from: Vec<Network>,
    /// `allow-notify-from`: the clients whose NOTIFY counts.
    pub allow_notify_from: Vec<Network>,
    /// The servers of each forwarded zone; no zone is here twice.
    pub forwards: Vec<Forward>,
    /// `dont-query`: the addresses that no referral may lead to; `None` when it is not set. Forwarders are
    /// exempt.
    pub dont_query: Option<Vec<Network>>,
    /// `dnssec`.
    pub dnssec: Option<Dnssec>,
    /// The places of `dnssec` and `dont-query` in the files.
    pub places: BTreeMap<&'static str, Position>,
    /// The settings of the cache.
    pub cache: Cache,
    /// The settings for clients.
    pub clients: Clients,
    pub upstreams: Upstreams,
    /// Names that the server answers itself.
    pub local: Local,
    /// `dnssec.trustanchors`: DS records with their owner; none when it is not set.
    pub trust_anchors: Option<Vec<String>>,
    /// `dnssec.negative_trustanchors`: zones that are not validated.
    pub negative_anchors: Vec<String>,
    /// `recursor.rpzs`: response policy zones in files.
    pub policies: Vec<Policy>,
    /// Whether the settings are YAML, which has other names for them ([`full_name`]).
    pub is_yaml: bool,
    pub dropped: Vec<Dropped>,
    /// Settings that are understood, but odd, file by file and line by line.
    pub warnings: Vec<Problem>,
    /// Every file that was read, recursor.conf itself first.
    pub files: Vec<PathBuf>,
}

/// An entry of a list of networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    pub addresses: IpNet,
    /// Whether `!` takes them off the list.
    pub excluded: bool,
}

impl RecursorConf {
    /// Whether the file asks for DNSSEC validation.
    #[must_use]
    pub const fn validates(&self) -> bool {
        matches!(
            self.dnssec,
            Some(Dnssec::Process | Dnssec::LogFail | Dnssec::Validate)
        )
    }
}

impl Network {
    const fn on(addresses: IpNet) -> Self {
        Self {
            addresses,
            excluded: false,
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let not = if self.excluded { "!" } else { "" };
        write!(f, "{not}{}", self.addresses)
    }
}

/// `dnssec`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dnssec {
    /// No DNSSEC records, even for clients that ask for them.
    Off,
    /// DNSSEC records for clients that ask.
    ProcessNoValidate,
    /// Validation for clients that ask.
    Process,
    /// Validation of everything, and failures are logged.
    LogFail,
    /// Validation of everything.
    Validate,
}

impl fmt::Display for Dnssec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Off => "off",
            Self::ProcessNoValidate => "process-no-validate",
            Self::Process => "process",
            Self::LogFail => "log-fail",
            Self::Validate => "validate",
        })
    }
}

/// The settings of the cache.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cache {
    /// `max-cache-entries`.
    pub entries: Option<usize>,
    /// `max-cache-ttl`.
    pub max_ttl: Option<Duration>,
    /// `max-negative-ttl`.
    pub max_negative_ttl: Option<Duration>,
    /// `minimum-ttl-override`.
    pub min_ttl: Option<Duration>,
    /// `serve-stale-extensions`, 30 s each: the time that answers outlive their TTL.
    pub stale: Option<Duration>,
    /// `refresh-on-ttl-perc`: refresh a name in demand when this part of its TTL is left, or less; 0 is
    /// never.
    pub refresh_percent: Option<u8>,
    /// The cache of whole answers, beside that of records.
    pub packets: Packets,
}

/// The cache of whole answers: the packet cache of pdns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packets {
    /// `disable-packetcache`.
    pub disabled: bool,
    /// `max-packetcache-entries`.
    pub entries: Option<usize>,
    /// `packetcache-ttl`.
    pub ttl: Option<Duration>,
    /// `packetcache-negative-ttl`.
    pub negative_ttl: Option<Duration>,
    /// `packetcache-servfail-ttl`: the time that a failure is remembered.
    pub failure_ttl: Option<Duration>,
}

/// The settings for clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clients {
    /// `threads`; never 0.
    pub threads: Option<usize>,
    /// `client-tcp-timeout`.
    pub tcp_idle: Option<Duration>,
    /// `max-tcp-clients`.
    pub tcp_connections: Option<usize>,
    /// `max-tcp-per-client`; 0 is no limit.
    pub tcp_per_client: Option<usize>,
    /// `max-concurrent-requests-per-tcp-connection`.
    pub tcp_pipeline: Option<usize>,
    /// `udp-truncation-threshold`: the longest answer over UDP; never below 512.
    pub udp_limit: Option<u16>,
}

/// The settings of queries to upstreams.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Upstreams {
    /// `network-timeout`: the time that one upstream has to answer.
    pub timeout: Option<Duration>,
    /// `max-total-msec`: the time after which a question fails; zero is never.
    pub deadline: Option<Duration>,
    /// `edns-outgoing-bufsize`; never below 512.
    pub udp_size: Option<u16>,
    /// `use-incoming-edns-subnet`: the client's subnet is passed on.
    pub client_subnet: bool,
    /// `query-local-address`: the source addresses of queries; the unspecified address is the kernel's
    /// choice.
    pub sources: Vec<IpAddr>,
}

/// Names that the server answers itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Local {
    /// `serve-rfc1918`: the reverse zones of private networks are empty, unless forwarded.
    pub private_reverse: bool,
    /// `dns64-prefix`: AAAA records are made of A records with it.
    pub dns64_prefix: Option<String>,
    /// `version-string`: the answer to `version.bind`.
    pub version: Option<String>,
    /// `server-id`: the answer to `id.server`; `None` is the host's name.
    pub server_id: Option<String>,
    /// `quiet=no`: questions and answers are logged.
    pub logs_queries: bool,
    /// `export-etc-hosts`: the names of a hosts file.
    pub hosts: Option<Hosts>,
}

/// A hosts file with names to answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hosts {
    /// `etc-hosts-file`.
    pub file: PathBuf,
    /// `export-etc-hosts-search-suffix`: also answers names of one label below it.
    pub suffix: Option<Name>,
}

/// Reads the recursor.conf at `path`, its includes, and then `arguments`: settings of `pdns_recursor`'s
/// command line, without their `--`.
///
/// # Errors
/// When a file cannot be read, a setting is unknown or its value makes no sense.
pub fn parse(
    path: &Path,
    files: &mut dyn Files,
    arguments: &[(String, String)],
) -> Result<RecursorConf, Rejected> {
    let is_yaml = match files.read(path) {
        Ok(text) => yaml::is_yaml(path, &text),
        Err(_) => yaml::ends_with_yml(path),
    };
    let (settings, structured) = match is_yaml {
        true => yaml::read(path, files, arguments),
        false => {
            let settings = Settings::read(&keys::CATALOGUE, path, files, arguments);
            (settings, Structured::default())
        }
    };
    let reader = Reader {
        settings,
        structured,
        files,
        warnings: Vec::new(),
    };
    let read = reader.finish(is_yaml);
    match is_yaml {
        true => read.map(with_full_names).map_err(|mut rejected| {
            rename(&mut rejected.problems);
            rejected
        }),
        false => read,
    }
}

/// Names settings as recursor.yml does.
fn with_full_names(mut conf: RecursorConf) -> RecursorConf {
    rename(&mut conf.warnings);
    for dropped in &mut conf.dropped {
        if let Some(name) = full_name(&dropped.key) {
            dropped.key = name;
        }
    }
    conf
}

fn rename(problems: &mut [Problem]) {
    for problem in problems {
        problem.message = yaml::renamed(&problem.message);
    }
}

/// The name in a recursor.yml, with its section, of a setting of a recursor.conf.
#[must_use]
pub fn full_name(setting: &str) -> Option<String> {
    yaml::full_name(setting)
}

/// The name in a recursor.conf of a setting of a recursor.yml.
#[must_use]
pub fn old_name(full: &str) -> Option<String> {
    yaml::old_name(full)
}

/// Reads a recursor.conf from octets, with nothing to include.
///
/// # Errors
/// As [`parse`].
pub fn parse_bytes(text: &[u8]) -> Result<RecursorConf, Rejected> {
    parse(Path::new("recursor.conf"), &mut OneFile(text), &[])
}

/// Reads a recursor.yml from octets, with nothing to include.
///
/// # Errors
/// As [`parse`].
pub fn parse_yaml_bytes(text: &[u8]) -> Result<RecursorConf, Rejected> {
    parse(Path::new("recursor.yml"), &mut OneFile(text), &[])
}

//--- Values

const DNS_PORT: u16 = 53;
/// The least limit of answers and buffers (RFC 6891 §6.2.3).
const MIN_UDP: u16 = 512;
/// The unit of `serve-stale-extensions`.
const STALE_EXTENSION: Duration = Duration::from_secs(30);

/// Settings that become a [`RecursorConf`].
struct Reader<'f> {
    settings: Settings,
    structured: Structured,
    files: &'f mut dyn Files,
    warnings: Vec<Problem>,
}

impl Reader<'_> {
    fn finish(mut self, is_yaml: bool) -> Result<RecursorConf, Rejected> {
        let listen = self.listen();
        let allow_from = self.allow_from(&listen);
        let conf = RecursorConf {
            listen,
            allow_from,
            allow_notify_from: self.allow_notify_from(),
            forwards: self.forwards(),
            dont_query: self.networks("dont-query"),
            dnssec: self.dnssec(),
            places: ["dnssec", "dont-query"]
                .into_iter()
                .filter_map(|key| Some((key, self.set(key)?.position?)))
                .collect(),
            cache: self.cache(),
            clients: self.clients(),
            upstreams: self.upstreams(),
            local: self.local(),
            trust_anchors: self.structured.trust_anchors.take(),
            negative_anchors: std::mem::take(&mut self.structured.negative_anchors),
            policies: std::mem::take(&mut self.structured.policies),
            is_yaml,
            dropped: self.dropped(),
            warnings: Vec::new(),
            files: Vec::new(),
        };
        let (mut problems, files) = self.settings.into_parts();
        problems.sort_by(|a, b| a.position.cmp(&b.position));
        if !problems.is_empty() {
            return Err(Rejected { problems, files });
        }
        let mut warnings = self.warnings;
        warnings.sort_by(|a, b| a.position.cmp(&b.position));
        Ok(RecursorConf {
            warnings,
            files,
            ..conf
        })
    }

    fn dropped(&mut self) -> Vec<Dropped> {
        let mut dropped = self.settings.dropped();
        dropped.append(&mut self.structured.dropped);
        dropped.sort_by(|a, b| a.position.cmp(&b.position));
        dropped
    }

    fn listen(&mut self) -> Vec<SocketAddr> {
        let port = self.settings.number("local-port", DNS_PORT);
        let Some(setting) = self.set("local-address") else {
            return vec![SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port)];
        };
        if items(&setting.value).next().is_none() {
            let message = "`local-address` names no address to listen on".to_owned();
            self.settings.problem(setting.position, message);
        }
        let addresses = self.settings.addresses("local-address", port);
        addresses.unwrap_or_default()
    }

    fn allow_from(&mut self, listen: &[SocketAddr]) -> Vec<Network> {
        let list = self.set("allow-from");
        if let Some(file) = self.filled("allow-from-file") {
            if let Some(list) = list {
                let message = "`allow-from-file` replaces `allow-from`".to_owned();
                self.warn(list.position, message);
            }
            return self.networks_of_file("allow-from-file", &file);
        }
        let Some(setting) = list else {
            return items(keys::ALLOW_FROM)
                .filter_map(network)
                .map(|(network, _)| network)
                .collect();
        };
        let position = setting.position;
        if setting.value.is_empty() {
            self.warn(
                position,
                "`allow-from` is empty: every client has access".to_owned(),
            );
            let everybody = [Ipv4Net::default().into(), Ipv6Net::default().into()];
            return everybody.map(Network::on).to_vec();
        }
        let networks = self.networks("allow-from").unwrap_or_default();
        for (family, is_v4) in [("IPv4", true), ("IPv6", false)] {
            let heard = listen.iter().any(|address| address.is_ipv4() == is_v4);
            let allowed = |network: &Network| {
                !network.excluded && network.addresses.network().is_ipv4() == is_v4
            };
            if heard && !networks.iter().any(allowed) {
                let message = format!(
                    "`allow-from` names no {family} network: no client has access over {family}"
                );
                self.warn(position.clone(), message);
            }
        }
        networks
    }

    fn allow_notify_from(&mut self) -> Vec<Network> {
        match self.filled("allow-notify-from-file") {
            Some(file) => self.networks_of_file("allow-notify-from-file", &file),
            None => self.networks("allow-notify-from").unwrap_or_default(),
        }
    }

    /// Networks of a file, one on a line; `#` begins a comment anywhere.
    fn networks_of_file(&mut self, key: &str, setting: &Setting) -> Vec<Network> {
        let Some(text) = self.settings.other_file(setting, self.files) else {
            return Vec::new();
        };
        let mut networks = Vec::new();
        let path = Path::new(&setting.value);
        if yaml::ends_with_yml(path) {
            match yaml::items(path, &text) {
                Ok(items) => {
                    for (item, position) in items {
                        networks.extend(self.network(key, &item, Some(position)));
                    }
                }
                Err(problem) => self.settings.problem(problem.position, problem.message),
            }
            return networks;
        }
        let lines = forwards::Lines::new(&setting.value, &text);
        lines.each(|line, position| {
            let line = line.split('#').next().unwrap_or_default().trim();
            if !line.is_empty() {
                networks.extend(self.network(key, line, Some(position)));
            }
        });
        networks
    }

    fn dnssec(&mut self) -> Option<Dnssec> {
        let setting = self.set("dnssec")?;
        let mode = match setting.value.as_str() {
            "off" => Dnssec::Off,
            "process-no-validate" => Dnssec::ProcessNoValidate,
            "process" => Dnssec::Process,
            "log-fail" => Dnssec::LogFail,
            "validate" => Dnssec::Validate,
            other => {
                let message = format!(
                    "`dnssec` is `off`, `process-no-validate`, `process`, `log-fail` or \
                     `validate`, not `{other}`"
                );
                self.settings.problem(setting.position, message);
                return None;
            }
        };
        if matches!(mode, Dnssec::Process | Dnssec::LogFail | Dnssec::Validate) {
            let message = format!(
                "`dnssec={}`: validation is left to upstreams and clients",
                setting.value
            );
            self.warn(setting.position, message);
        }
        Some(mode)
    }

    fn cache(&mut self) -> Cache {
        let extensions = self.settings.number_if_set("serve-stale-extensions");
        Cache {
            entries: self.settings.number_if_set("max-cache-entries"),
            max_ttl: self.seconds("max-cache-ttl"),
            max_negative_ttl: self.seconds("max-negative-ttl"),
            min_ttl: self.seconds("minimum-ttl-override"),
            stale: extensions.map(|n: u16| STALE_EXTENSION * u32::from(n)),
            refresh_percent: self.settings.number_if_set("refresh-on-ttl-perc"),
            packets: Packets {
                disabled: self.settings.switch("disable-packetcache", false),
                entries: self.settings.number_if_set("max-packetcache-entries"),
                ttl: self.seconds("packetcache-ttl"),
                negative_ttl: self.seconds("packetcache-negative-ttl"),
                failure_ttl: self.seconds("packetcache-servfail-ttl"),
            },
        }
    }

    fn clients(&mut self) -> Clients {
        let threads: Option<usize> = self.settings.number_if_set("threads");
        if threads == Some(0) {
            let position = self.set("threads").and_then(|setting| setting.position);
            self.warn(position, "`threads=0` is taken for 1".to_owned());
        }
        Clients {
            threads: threads.map(|n| n.max(1)),
            tcp_idle: self.seconds("client-tcp-timeout"),
            tcp_connections: self.settings.number_if_set("max-tcp-clients"),
            tcp_per_client: self.settings.number_if_set("max-tcp-per-client"),
            tcp_pipeline: self
                .settings
                .number_if_set("max-concurrent-requests-per-tcp-connection"),
            udp_limit: self.udp_size("udp-truncation-threshold"),
        }
    }

    fn upstreams(&mut self) -> Upstreams {
        let sources = self.settings.addresses("query-local-address", 0);
        Upstreams {
            timeout: self.milliseconds("network-timeout"),
            deadline: self.milliseconds("max-total-msec"),
            udp_size: self.udp_size("edns-outgoing-bufsize"),
            client_subnet: self.settings.switch("use-incoming-edns-subnet", false),
            sources: sources
                .unwrap_or_default()
                .iter()
                .map(SocketAddr::ip)
                .collect(),
        }
    }

    fn local(&mut self) -> Local {
        Local {
            private_reverse: self.settings.switch("serve-rfc1918", true),
            dns64_prefix: self.set("dns64-prefix").map(|setting| setting.value),
            version: self.set("version-string").map(|setting| setting.value),
            server_id: self.filled("server-id").map(|setting| setting.value),
            logs_queries: !self.settings.switch("quiet", true),
            hosts: self.hosts(),
        }
    }

    fn hosts(&mut self) -> Option<Hosts> {
        let suffix = self.filled("export-etc-hosts-search-suffix");
        let suffix = suffix.and_then(|setting| {
            let name = Name::parse(&setting.value);
            name.map_err(|error| {
                let message = format!(
                    "`export-etc-hosts-search-suffix` takes a name, not `{}`: {error}",
                    setting.value
                );
                self.settings.problem(setting.position, message);
            })
            .ok()
        });
        if !self.settings.switch("export-etc-hosts", false) {
            return None;
        }
        let file = self.filled("etc-hosts-file");
        let file = file.map_or_else(|| "/etc/hosts".into(), |setting| setting.value.into());
        Some(Hosts { file, suffix })
    }
}

//--- Kinds of values

impl Reader<'_> {
    fn set(&self, key: &str) -> Option<Setting> {
        self.settings.get(key).cloned()
    }

    /// A setting whose value is not empty.
    fn filled(&self, key: &str) -> Option<Setting> {
        self.set(key).filter(|setting| !setting.value.is_empty())
    }

    fn seconds(&mut self, key: &str) -> Option<Duration> {
        let number: Option<u32> = self.settings.number_if_set(key);
        number.map(|n| Duration::from_secs(n.into()))
    }

    fn milliseconds(&mut self, key: &str) -> Option<Duration> {
        let number: Option<u32> = self.settings.number_if_set(key);
        number.map(|n| Duration::from_millis(n.into()))
    }

    fn udp_size(&mut self, key: &str) -> Option<u16> {
        let size: Option<u16> = self.settings.number_if_set(key);
        size.map(|size| size.max(MIN_UDP))
    }

    /// A list of networks; `None` when it is not set.
    fn networks(&mut self, key: &str) -> Option<Vec<Network>> {
        let setting = self.set(key)?;
        let mut networks = Vec::new();
        for item in items(&setting.value) {
            networks.extend(self.network(key, item, setting.position.clone()));
        }
        Some(networks)
    }

    fn network(&mut self, key: &str, item: &str, position: Option<Position>) -> Option<Network> {
        let Some((network, rounded)) = network(item) else {
            let message = format!("`{key}` takes networks, not `{item}`");
            self.settings.problem(position, message);
            return None;
        };
        if rounded {
            let message = format!("`{item}` has bits beyond its prefix and is read as {network}");
            self.warn(position, message);
        }
        Some(network)
    }

    fn warn(&mut self, position: Option<Position>, message: String) {
        if self.warnings.len() < MAX_WARNINGS {
            self.warnings.push(Problem { position, message });
        }
    }
}

/// A network or an address, and whether bits beyond its prefix were cleared.
fn network(text: &str) -> Option<(Network, bool)> {
    let (text, excluded) = match text.strip_prefix('!') {
        Some(text) => (text, true),
        None => (text, false),
    };
    let written = text
        .parse()
        .or_else(|_| text.parse::<IpAddr>().map(IpNet::from))
        .ok()?;
    let addresses = written.trunc();
    let network = Network {
        addresses,
        excluded,
    };
    Some((network, addresses != written))
}

#[cfg(test)]
mod tests;
