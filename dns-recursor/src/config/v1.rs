//! `version = "v1"` of the configuration, as people write it.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use daemon::acl::Cidrs;
use daemon::config::{AdminSpec, ByteSize, Common, Document, HumanDuration, LogSpec, Problems};
use dns_cache::cache::{CacheOptions, Capacity};
use dns_cache::message::TtlLimits;
use dns_front::local::LocalOptions;
use dns_front::policy::Outsiders;
use dns_resolve::forward::{Mode, Policy, Protocol};
use dns_resolve::resolver;
use dns_wire::Name;
use proto::endpoint::Endpoint;
use serde::Deserialize;
use toml::Spanned;

use super::{
    Access, Allow, Config, DEFAULT_ADMIN, DEFAULT_LISTEN, Forward, Network, Serve, Source,
    TcpLimits, Tls,
};

/// The port of DNS.
const PORT: u16 = 53;
/// RFC 8767 §4 recommends 30 seconds.
const STALE_TTL: Duration = Duration::from_secs(30);
/// RFC 8767 §5 recommends one to three days.
const STALE_AGE: Duration = Duration::from_secs(86_400);
/// RFC 9520 §3.2: a failure is remembered for at least a second.
const RECHECK: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(5)];
/// The most threads for datagrams: with more, locks in the kernel are the limit.
const MAX_THREADS: usize = 64;

/// The file as a whole.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Spec {
    log: LogSpec,
    admin: AdminSpec,
    drain: Option<HumanDuration>,
    listen: Option<Vec<Spanned<String>>>,
    threads: usize,
    allow_from: Option<Vec<Spanned<String>>>,
    outsiders: OutsidersSpec,
    notify_from: Option<Vec<Spanned<String>>>,
    source_addresses: Vec<Spanned<String>>,
    forward: Vec<ForwardSpec>,
    cache: CacheSpec,
    stale: StaleSpec,
    resolve: ResolveSpec,
    tcp: TcpSpec,
    tls: Option<TlsSpec>,
    local: LocalSpec,
    health: HealthSpec,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum OutsidersSpec {
    #[default]
    Refuse,
    Ignore,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct ForwardSpec {
    zone: Spanned<String>,
    upstreams: Spanned<Vec<Spanned<String>>>,
    #[serde(default)]
    recursive: bool,
    #[serde(default)]
    policy: PolicySpec,
    #[serde(default)]
    protocol: ProtocolSpec,
    #[serde(default)]
    trust_ad: bool,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum PolicySpec {
    #[default]
    Sequential,
    RoundRobin,
    Random,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ProtocolSpec {
    #[default]
    Udp,
    Tcp,
}

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct CacheSpec {
    entries: usize,
    size: ByteSize,
    min_ttl: HumanDuration,
    max_ttl: HumanDuration,
    negative_entries: usize,
    negative_size: ByteSize,
    negative_max_ttl: HumanDuration,
    failure_ttl: Spanned<HumanDuration>,
    prefetch: bool,
}

impl Default for CacheSpec {
    fn default() -> Self {
        let limits = TtlLimits::default();
        let seconds = |seconds: u32| HumanDuration(Duration::from_secs(seconds.into()));
        Self {
            entries: 100_000,
            size: ByteSize(64 << 20),
            min_ttl: seconds(limits.positive_min),
            max_ttl: seconds(limits.positive_max),
            negative_entries: 50_000,
            negative_size: ByteSize(16 << 20),
            negative_max_ttl: seconds(limits.negative_max),
            failure_ttl: Spanned::new(0..0, HumanDuration(RECHECK[0])),
            prefetch: true,
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct StaleSpec {
    max_age: HumanDuration,
    ttl: HumanDuration,
    wait: HumanDuration,
}

impl Default for StaleSpec {
    fn default() -> Self {
        Self {
            max_age: HumanDuration(STALE_AGE),
            ttl: HumanDuration(STALE_TTL),
            wait: HumanDuration(resolver::Settings::default().stale_wait),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct ResolveSpec {
    deadline: Spanned<HumanDuration>,
    max_questions: NonZeroUsize,
    max_clients: NonZeroUsize,
    randomize_case: bool,
}

impl Default for ResolveSpec {
    fn default() -> Self {
        let settings = resolver::Settings::default();
        let at_least_one = |n| NonZeroUsize::new(n).unwrap_or(NonZeroUsize::MIN);
        Self {
            deadline: Spanned::new(0..0, HumanDuration(settings.deadline)),
            max_questions: at_least_one(settings.max_flights),
            max_clients: at_least_one(settings.max_clients),
            randomize_case: settings.randomize_case,
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct TcpSpec {
    connections: Option<usize>,
    per_client: Option<usize>,
    idle: Option<HumanDuration>,
    pipeline: Option<NonZeroUsize>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct TlsSpec {
    listen: Vec<SocketAddr>,
    certificate: PathBuf,
    key: PathBuf,
}

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct LocalSpec {
    special_names: bool,
    private_reverse: bool,
    version: Option<String>,
    id: Option<String>,
}

impl Default for LocalSpec {
    fn default() -> Self {
        let options = LocalOptions::default();
        Self {
            special_names: options.special_names,
            private_reverse: options.private_reverse,
            version: options.version,
            id: options.id,
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct HealthSpec {
    endpoint: Option<Spanned<String>>,
}

impl Spec {
    /// Makes the config, or returns all problems of the file.
    ///
    /// # Errors
    /// Every problem, with its place.
    pub fn into_config(self, document: &Document) -> Result<Config, Problems> {
        let mut builder = Builder {
            document,
            problems: Problems::default(),
            warnings: Vec::new(),
        };
        let network = builder.network(&self);
        let access = builder.access(&self);
        let forwards = builder.forwards(&self.forward, &network);
        let health = builder.health(&self.health);
        let recheck = builder.recheck(&self.cache.failure_ttl);
        let resolve = builder.resolve(&self);
        let config = Config {
            common: Common::new(self.log, self.admin, self.drain, DEFAULT_ADMIN),
            network,
            access,
            forwards,
            cache: CacheOptions {
                positive: Capacity {
                    entries: self.cache.entries,
                    octets: octets(self.cache.size),
                },
                negative: Capacity {
                    entries: self.cache.negative_entries,
                    octets: octets(self.cache.negative_size),
                },
                stale: self.stale.max_age.0,
            },
            resolve,
            serve: Serve {
                stale_ttl: self.stale.ttl.0,
                recheck,
                prefetch: self.cache.prefetch,
            },
            local: LocalOptions {
                special_names: self.local.special_names,
                private_reverse: self.local.private_reverse,
                version: self.local.version,
                id: self.local.id,
            },
            health,
            warnings: builder.warnings,
        };
        builder.problems.unless_empty(config)
    }
}

struct Builder<'a> {
    document: &'a Document,
    problems: Problems,
    warnings: Vec<String>,
}

impl Builder<'_> {
    fn network(&mut self, spec: &Spec) -> Network {
        let listen = match &spec.listen {
            None => DEFAULT_LISTEN.to_vec(),
            Some(listen) => listen
                .iter()
                .filter_map(|text| self.address(text))
                .collect(),
        };
        let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let defaults = TcpLimits::default();
        Network {
            listen,
            threads: match spec.threads {
                0 => cores,
                n => n,
            }
            .min(MAX_THREADS),
            tcp: TcpLimits {
                connections: spec.tcp.connections.unwrap_or(defaults.connections),
                per_client: spec.tcp.per_client.unwrap_or(defaults.per_client),
                idle: spec.tcp.idle.map_or(defaults.idle, Duration::from),
                pipeline: spec
                    .tcp
                    .pipeline
                    .map_or(defaults.pipeline, NonZeroUsize::get),
            },
            tls: spec.tls.as_ref().map(|tls| Tls {
                listen: tls.listen.clone(),
                certificate: tls.certificate.clone(),
                key: tls.key.clone(),
            }),
            source: self.source(&spec.source_addresses),
        }
    }

    fn source(&mut self, addresses: &[Spanned<String>]) -> Source {
        let (mut v4, mut v6) = (None, None);
        for text in addresses {
            let before = match text.get_ref().parse() {
                Ok(IpAddr::V4(address)) => v4.replace(address).map(IpAddr::V4),
                Ok(IpAddr::V6(address)) => v6.replace(address).map(IpAddr::V6),
                Err(_) => {
                    self.problem(text, "is not an address");
                    None
                }
            };
            if let Some(before) = before {
                self.problem(text, &format!("is one too many: IPv4 and IPv6 have one source address each, and {before} is given"));
            }
        }
        let default = Source::default();
        Source {
            v4: v4.unwrap_or(default.v4),
            v6: v6.unwrap_or(default.v6),
        }
    }

    fn access(&mut self, spec: &Spec) -> Access {
        let allow = match &spec.allow_from {
            None => Allow::Local,
            Some(list) => Allow::Listed(self.networks(list)),
        };
        let notify = match &spec.notify_from {
            None => Cidrs::parse("127.0.0.0/8, ::1/128").unwrap_or_default(),
            Some(list) => self.networks(list),
        };
        Access {
            allow,
            outsiders: match spec.outsiders {
                OutsidersSpec::Refuse => Outsiders::Refuse,
                OutsidersSpec::Ignore => Outsiders::Ignore,
            },
            notify,
        }
    }

    fn networks(&mut self, list: &[Spanned<String>]) -> Cidrs {
        for text in list {
            match Cidrs::from_items([text.get_ref()]) {
                Ok(networks) => {
                    for warning in networks.warnings() {
                        let place = self.document.position(text.span().start);
                        self.warnings.push(format!("{place}: {warning}"));
                    }
                }
                Err(error) => {
                    let problem = self.document.problem(text.span(), error.to_string());
                    self.problems.push(problem);
                }
            }
        }
        Cidrs::from_items(list.iter().map(Spanned::get_ref)).unwrap_or_default()
    }

    fn forwards(&mut self, specs: &[ForwardSpec], network: &Network) -> Vec<Forward> {
        let mut forwards: Vec<Forward> = Vec::new();
        for spec in specs {
            let Ok(zone) = Name::parse(spec.zone.get_ref()) else {
                self.problem(&spec.zone, "is not a domain name");
                continue;
            };
            if forwards.iter().any(|known| known.zone == zone) {
                self.problem(
                    &spec.zone,
                    "is forwarded twice; list all its upstreams in one place",
                );
            }
            let list = spec.upstreams.get_ref();
            if list.is_empty() {
                let problem = self
                    .document
                    .problem(spec.upstreams.span(), "a zone needs at least one upstream");
                self.problems.push(problem);
            }
            let upstreams = list
                .iter()
                .filter_map(|text| self.upstream(text, network))
                .collect();
            forwards.push(Forward {
                zone,
                mode: match spec.recursive {
                    true => Mode::Recursive,
                    false => Mode::Authoritative,
                },
                upstreams,
                policy: match spec.policy {
                    PolicySpec::Sequential => Policy::Sequential,
                    PolicySpec::RoundRobin => Policy::RoundRobin,
                    PolicySpec::Random => Policy::Random,
                },
                protocol: match spec.protocol {
                    ProtocolSpec::Udp => Protocol::Udp,
                    ProtocolSpec::Tcp => Protocol::Tcp,
                },
                trust_ad: spec.trust_ad,
            });
        }
        forwards
    }

    fn upstream(&mut self, text: &Spanned<String>, network: &Network) -> Option<SocketAddr> {
        let address = self.address(text)?;
        if address.ip().is_unspecified() || address.port() == 0 {
            self.problem(text, "is not the address of a server");
            return None;
        }
        let own = network.listen.iter().any(|listen| {
            let everywhere = listen.ip().is_unspecified()
                && listen.is_ipv4() == address.is_ipv4()
                && address.ip().is_loopback();
            listen.port() == address.port() && (listen.ip() == address.ip() || everywhere)
        });
        if own {
            self.problem(
                text,
                "is this server itself: its queries would go in a circle",
            );
            return None;
        }
        Some(address)
    }

    fn resolve(&mut self, spec: &Spec) -> resolver::Settings {
        let deadline = spec.resolve.deadline.get_ref().0;
        if deadline.is_zero() {
            let span = spec.resolve.deadline.span();
            let problem = self
                .document
                .problem(span, "the deadline must be above zero");
            self.problems.push(problem);
        }
        resolver::Settings {
            deadline,
            stale_wait: spec.stale.wait.0,
            max_flights: spec.resolve.max_questions.get(),
            max_clients: spec.resolve.max_clients.get(),
            limits: TtlLimits {
                positive_min: seconds(spec.cache.min_ttl),
                positive_max: seconds(spec.cache.max_ttl),
                negative_max: seconds(spec.cache.negative_max_ttl),
            },
            randomize_case: spec.resolve.randomize_case,
        }
    }

    fn recheck(&mut self, failure_ttl: &Spanned<HumanDuration>) -> Duration {
        let [least, most] = RECHECK;
        let wanted = failure_ttl.get_ref().0;
        if wanted < least || wanted > most {
            let problem = self.document.problem(
                failure_ttl.span(),
                "failures are remembered for 1 to 5 seconds (RFC 9520 demands at least 1; after more than 5, a returned upstream goes unnoticed for too long)",
            );
            self.problems.push(problem);
        }
        wanted.clamp(least, most)
    }

    fn health(&mut self, spec: &HealthSpec) -> Option<Endpoint> {
        let text = spec.endpoint.as_ref()?;
        if text.get_ref() == "none" {
            return None;
        }
        match text.get_ref().parse() {
            Ok(endpoint) => Some(endpoint),
            Err(error) => {
                let problem = self.document.problem(text.span(), format!("{error}"));
                self.problems.push(problem);
                None
            }
        }
    }

    fn address(&mut self, text: &Spanned<String>) -> Option<SocketAddr> {
        let parsed = parse_address(text.get_ref());
        if parsed.is_none() {
            self.problem(
                text,
                "is not an address, as in 192.168.7.1, 192.168.7.1:5300 or [fd00::1]:53",
            );
        }
        parsed
    }

    fn problem(&mut self, text: &Spanned<String>, what: &str) {
        let message = format!("`{}` {what}", text.get_ref());
        self.problems
            .push(self.document.problem(text.span(), message));
    }
}

/// An address with its port, or with that of DNS when none is written.
#[must_use]
pub fn parse_address(text: &str) -> Option<SocketAddr> {
    let bare = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    text.parse().ok().or_else(|| {
        let address: IpAddr = bare.unwrap_or(text).parse().ok()?;
        Some(SocketAddr::new(address, PORT))
    })
}

fn octets(size: ByteSize) -> usize {
    usize::try_from(size.0).unwrap_or(usize::MAX)
}

fn seconds(duration: HumanDuration) -> u32 {
    u32::try_from(duration.0.as_secs()).unwrap_or(u32::MAX)
}

/// Reads a configuration from its text.
///
/// # Errors
/// Every problem, with its place.
pub fn parse(document: &Document) -> Result<Config, Problems> {
    let spec: Spec = document.parse()?;
    spec.into_config(document)
}
