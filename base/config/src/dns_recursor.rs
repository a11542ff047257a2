//! The configuration of dns-recursor.

mod names;
mod records;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use cidrs::Cidrs;
use health::HealthdArg;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Admin, Authentication, ByteSize, Cookies, DnsAddress, DurationWithin, HumanDuration, Ip, Log,
    Networks, Positive, ResponseRateLimit, Upstream, Whole, doh_path, is_doh_path,
};

pub use names::{GivenName, Hosts, PolicyAction, ProbePort, ResponsePolicy};
pub use records::{Dnstap, DnstapMessage, QueryClass, QueryLog};

/// The port of dns-recursor's admin listener.
pub const ADMIN_PORT: u16 = 9403;

/// The addresses of the server unless the configuration has others; without IPv6 in the kernel, those of IPv4 only.
pub const LISTEN: [SocketAddr; 2] = [
    SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), DnsAddress::PORT),
    SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), DnsAddress::PORT),
];

/// The shortest and the longest time that a failure is remembered, in milliseconds. RFC 9520 §3.2 demands at least a
/// second; after more than five, a returned upstream goes unnoticed for too long.
pub const FAILURE_TTL: [u64; 2] = [1000, 5000];
/// The bounds of `write-every`, in milliseconds.
pub const WRITE_EVERY: [u64; 2] = [1000, 86_400_000];
/// The hold-downs of keys: from a second, for tests of a rollover, to ten years.
pub type Holddown = DurationWithin<1000, 315_360_000_000>;

/// Zones, for the manual.
const FORWARD: &str = r#"
[[forward]]
zone = "ocp4.redhat.ren"
upstreams = ["127.0.0.1:5301"]

[[forward]]
zone = "."
upstreams = ["192.0.2.53", "192.0.2.54"]
recursive = true
"#;

/// Encrypted transports, for the manual.
const TLS: &str = r#"
[tls]
listen = ["0.0.0.0:853", "[::]:853"]
doh = ["0.0.0.0:443", "[::]:443"]
doq = ["0.0.0.0:853", "[::]:853"]
certificate = "/etc/outpost/tls/dns.crt"
key = "/etc/outpost/tls/dns.key"
"#;

/// Validation, for the manual.
const DNSSEC: &str = r#"
[dnssec]
mode = "validate"
negative-trust-anchors = ["broken.example until 2026-12-05"]
"#;

/// A name with addresses, for the manual.
const NAME: &str = r#"
[[name]]
name = "*.apps.ocp4.redhat.ren"
addresses = ["192.168.7.11", "192.168.7.12"]
probe-port = 443
"#;

/// DNS64, for the manual.
const DNS64: &str = r#"
[dns64]
prefixes = ["2001:db8:64::/96"]
clients = ["2001:db8:7::/64"]
"#;

/// Questions that are changed, for the manual.
const REWRITE: &str = r#"
[[rewrite]]
match = "suffix"
from = ".old.example"
to = ".new.example"
"#;

/// Rules for names, for the manual.
const RESPONSE_POLICY: &str = r#"
[[response-policy]]
zone = "rpz.ocp4.redhat.ren"
file = "/etc/outpost/rpz.zone"

[[response-policy]]
file = "/etc/outpost/block.list"
action = "null-address"
"#;

/// The forwards of a cluster, for the manual.
const CLUSTER: &str = r#"
[cluster]
socket = "/run/outpost/clusterd/clusterd.sock"
"#;

/// dnstap, for the manual.
const DNSTAP: &str = r#"
[dnstap]
socket = "/run/dnstap/dnstap.sock"
messages = ["client-query", "client-response"]
"#;

/// The configuration of dns-recursor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct DnsRecursor {
    /// Addresses to listen on, over UDP and TCP. dns-recursor uses sockets that systemd hands over under the name `dns`
    /// instead. Without IPv6 in the kernel the default is IPv4 alone.
    #[schemars(extend("x-reload" = "restart"))]
    pub listen: Vec<DnsAddress>,
    /// The number of threads that answer datagrams, at most 64; 0 is one per core.
    #[schemars(extend("x-reload" = "restart"))]
    pub threads: usize,
    /// Networks whose queries are answered. Default: loopback and the private networks of the node, which dns-recursor
    /// looks up every minute. `!` excludes a network; the most specific entry decides.
    #[schemars(extend("x-example" = "[\"127.0.0.0/8\", \"::1\", \"192.168.7.0/24\"]"))]
    pub allow_from: Option<Networks>,
    /// The response to other clients.
    pub outsiders: Outsiders,
    /// Networks whose NOTIFY drops a zone from the cache, its denials too, so that clients see a changed zone at once. The
    /// upstreams of a zone that are authoritative for it may send it too, for that zone. At most 10 a second are taken: the senders
    /// of others hear nothing, and send them again.
    pub notify_from: Networks,
    /// Source addresses of queries to upstreams, at most one for IPv4 and one for IPv6. Otherwise the kernel chooses.
    pub source_addresses: Vec<Ip>,
    /// How long dns-recursor may take to finish running queries when it stops.
    pub drain: HumanDuration,
    /// How long dns-recursor keeps answering when it stops, while `/readyz` says that it is not ready: load balancers and
    /// endpoints of a Service notice before queries are lost, as with `lameduck` of CoreDNS. It is a part of `drain`, and shorter.
    /// Not used with sockets of systemd, which stay open for the successor.
    pub lameduck: HumanDuration,
    /// The log.
    pub log: Log,
    /// A line of the log for each query. `dns-recursor query-log on` logs queries for a while without a change of the file.
    pub query_log: QueryLog,
    /// A copy of queries and responses for other programs, by dnstap; off without this table. A program that does not keep up
    /// loses messages, and no client waits for it.
    #[schemars(extend("x-example" = DNSTAP, "x-reload" = "restart"))]
    pub dnstap: Option<Dnstap>,
    /// The admin listener.
    pub admin: Admin<ADMIN_PORT>,
    /// Zones and their upstreams. The zone with the longest matching suffix decides. dns-recursor responds SERVFAIL at
    /// once to a name that no zone matches.
    #[schemars(extend("x-example" = FORWARD))]
    pub forward: Vec<Forward>,
    /// The cache. It is full when the entries or the memory reach their bound, whichever is first.
    pub cache: Cache,
    /// Stale answers (RFC 8767).
    pub stale: Stale,
    /// Queries to upstreams.
    pub resolve: Resolve,
    /// Queries from the root's servers downwards, for zones with `mode = "recurse"` or `"forward-first"`.
    pub recursion: Recursion,
    /// DNS cookies (RFC 7873, RFC 9018). A valid cookie proves that a client owns its address. dns-recursor never sends more than
    /// 1232 octets over UDP, so a larger `nocookie-udp-size` has no effect.
    pub cookies: Cookies,
    /// Response-rate limiting: how many responses over UDP a client may get that has not proven its address. It bounds what
    /// queries with a forged source address send to a victim.
    pub rate_limit: ResponseRateLimit,
    /// Bounds of TCP (RFC 7766 §6), DNS over TLS and DNS over HTTPS together. Connections over QUIC have the same bounds, and
    /// are counted apart.
    pub tcp: Tcp,
    /// DNS over TLS, HTTPS and QUIC; off without this table. dns-recursor reads the certificate again when its file changes,
    /// and on SIGHUP.
    #[schemars(extend("x-example" = TLS))]
    pub tls: Option<Tls>,
    /// Validation by DNSSEC (RFC 4035).
    #[schemars(extend("x-example" = DNSSEC))]
    pub dnssec: Dnssec,
    /// AAAA records made of A records, for clients that reach IPv4 through a NAT64 (RFC 6147); off without this table.
    /// dns-recursor answers `ipv4only.arpa` itself then, so that clients find the prefix (RFC 7050, RFC 8880), and reverse names
    /// below a prefix are aliases of those of the IPv4 address. A `[[forward]]` of such a name, other than that of `.`, overrides
    /// it.
    #[schemars(extend("x-example" = DNS64))]
    pub dns64: Option<Dns64>,
    /// Rules that change the name or the type of a question before anything else is done with it, as `rewrite` of CoreDNS does.
    /// The first one that matches decides. The answer has no signatures.
    #[schemars(extend("x-example" = REWRITE))]
    pub rewrite: Vec<Rewrite>,
    /// Special names, and what dns-recursor says of itself.
    pub local: Local,
    /// Names with addresses or an alias. They come before hosts files, the cache and every `[[forward]]`.
    #[schemars(extend("x-example" = NAME))]
    pub name: Vec<GivenName>,
    /// Names of hosts files. They come after `[[name]]`, and before the cache and every `[[forward]]`.
    pub hosts: Hosts,
    /// Rules for names: response policy zones, and lists of names. The first one with a rule for the name of a query decides; names
    /// of `[[name]]` and of hosts files have none. A file that cannot be read or has a problem stops the start. dns-recursor reads
    /// a file again when it changes; one with a problem changes nothing.
    #[schemars(extend("x-example" = RESPONSE_POLICY))]
    pub response_policy: Vec<ResponsePolicy>,
    /// Liveness of upstreams, and of addresses with a `probe-port`.
    pub health: Health,
    /// The forwards of an OpenShift cluster: those of the object `default` of its DNS operator, as clusterd has it. Without this table
    /// dns-recursor forwards what the file says and nothing else.
    #[schemars(extend("x-example" = CLUSTER, "x-reload" = "restart"))]
    pub cluster: Option<Cluster>,
}

/// The forwards of an OpenShift cluster. dns-recursor takes `servers`, `upstreamResolvers` and `cache` of the object
/// `dnses.operator.openshift.io/default`, and follows its changes. A zone that the file forwards stays as it is, and of two bounds
/// on TTLs the lower one counts. An object that demands TLS to upstreams, or names this server as one, changes nothing:
/// `/readyz` and `dns-recursor status` say so. While clusterd is away, everything stays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Cluster {
    /// The Unix socket of clusterd, whose file has `dnses = true` in `[api]`.
    pub socket: PathBuf,
    /// The file with the name servers of the node, for upstreams of the type `SystemResolvConf`. dns-recursor follows it, and leaves
    /// itself out.
    pub resolv_conf: PathBuf,
    /// The directory in which dns-recursor keeps the last object, with a checksum. A start while clusterd is away forwards by it, and
    /// the status says so. Default: none, and such a start forwards what the file says.
    #[schemars(extend("x-example" = "\"/var/lib/outpost/dns-recursor/cluster\""))]
    pub state: Option<PathBuf>,
}

impl Default for Cluster {
    fn default() -> Self {
        Self {
            socket: crate::clusterd::SOCKET.into(),
            resolv_conf: "/etc/resolv.conf".into(),
            state: None,
        }
    }
}

impl Default for DnsRecursor {
    fn default() -> Self {
        let networks = ["127.0.0.0/8", "::1/128"];
        Self {
            listen: LISTEN.map(DnsAddress).to_vec(),
            threads: 0,
            allow_from: None,
            outsiders: Outsiders::Refuse,
            notify_from: Networks(Cidrs::from_items(networks).unwrap_or_default()),
            source_addresses: Vec::new(),
            drain: HumanDuration(Duration::from_secs(10)),
            lameduck: HumanDuration(Duration::ZERO),
            log: Log::default(),
            query_log: QueryLog::default(),
            dnstap: None,
            admin: Admin::default(),
            forward: Vec::new(),
            cache: Cache::default(),
            stale: Stale::default(),
            resolve: Resolve::default(),
            recursion: Recursion::default(),
            cookies: Cookies::default(),
            rate_limit: ResponseRateLimit::default(),
            tcp: Tcp::default(),
            tls: None,
            dnssec: Dnssec::default(),
            dns64: None,
            rewrite: Vec::new(),
            local: Local::default(),
            name: Vec::new(),
            hosts: Hosts::default(),
            response_policy: Vec::new(),
            health: Health::default(),
            cluster: None,
        }
    }
}

/// The treatment of clients without access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Outsiders {
    /// REFUSED, and a TCP or TLS connection is closed after it.
    #[default]
    Refuse,
    /// Nothing, and connections are closed at once.
    Ignore,
}

//--- Forwarding

/// A zone and its upstreams.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Forward {
    /// The zone's apex; `.` matches every name.
    pub zone: String,
    /// The source of its answers.
    #[serde(default)]
    pub mode: ForwardMode,
    /// The servers that answer for it. Further servers answer while the node's own server is away. With `mode = "recurse"`
    /// there are none. Each is an IP address, with its port unless that is the usual one: 53, 853 over TLS and QUIC, 443 over
    /// HTTPS. `#` and a name behind it, as in `192.0.2.53#dns.example.org`, is the name in its certificate, and comes before
    /// `server-name`.
    #[serde(default)]
    pub upstreams: Vec<Upstream>,
    /// `false`: the upstreams are authoritative for the zone, and queries have no RD flag. dns-recursor itself follows a
    /// referral to the servers of a child zone (at port 53). `true`: the upstreams are recursive, and queries have RD. In
    /// both cases it believes records of the zone's names only, less those of zones with a `[[forward]]` of their own; a
    /// CNAME that leads elsewhere it follows by the zones here.
    #[serde(default)]
    pub recursive: bool,
    /// The order of healthy upstreams. dns-recursor skips an upstream that does not answer until it does.
    #[serde(default)]
    pub policy: Policy,
    /// The transport. Over all but UDP, connections are kept and used again, and many queries are under way on one at once.
    #[serde(default)]
    pub protocol: Protocol,
    /// How encrypted upstreams prove who they are, for the protocols `tls`, `https` and `quic`. Without this table the system's
    /// authorities have to have signed a certificate for the name behind `#`, or for the address.
    #[serde(default)]
    pub tls: Option<ForwardTls>,
    /// Whether dns-recursor passes on the AD flag of the upstreams (authentic data). Only for a path on which no third
    /// party can forge responses.
    #[serde(default)]
    pub trust_ad: bool,
    /// The mode of validation for the zone. Default: that of `[dnssec]` for the zone `.`, for a zone with a trust anchor of
    /// its own, and for one with `mode = "recurse"`. Another zone is not validated by default: a site's own zone is often
    /// unsigned and unknown to the internet, so that a proof there would deny it.
    #[serde(default)]
    pub dnssec: Option<DnssecMode>,
    /// How long a client waits for the zone's servers before it gets a stale answer. Default: `stale.wait`, and for the zone `.` and
    /// one with `mode = "recurse"`, `stale.wait-outside`.
    #[serde(default)]
    pub stale_wait: Option<HumanDuration>,
    /// How long the last good answer wins over a sudden NXDOMAIN or an answer without records, from the first one on; `"0s"`: not
    /// at all. For a zone whose servers lose records for a while, as after a bad reload. Clients get the answer as a stale one.
    /// dns-recursor asks again at least every 30 seconds; a good answer ends it, and so does a NOTIFY. It reaches as far as
    /// `stale.max-age`.
    #[serde(default)]
    pub keep_last_good: HumanDuration,
}

impl Forward {
    /// A zone with authoritative upstreams, and the defaults.
    #[must_use]
    pub fn new(zone: impl Into<String>, upstreams: &[SocketAddr]) -> Self {
        Self {
            zone: zone.into(),
            mode: ForwardMode::default(),
            upstreams: upstreams.iter().copied().map(Upstream::from).collect(),
            recursive: false,
            policy: Policy::default(),
            protocol: Protocol::default(),
            tls: None,
            trust_ad: false,
            dnssec: None,
            stale_wait: None,
            keep_last_good: HumanDuration::default(),
        }
    }
}

/// The identity of encrypted upstreams (RFC 8310).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct ForwardTls {
    /// Whether upstreams have to prove who they are.
    pub authentication: Authentication,
    /// The name in the certificates of upstreams that have none behind `#`; dns-recursor sends it to them, too (SNI). Default: the
    /// address of the upstream.
    #[schemars(extend("x-example" = "\"dns.example.org\""))]
    pub server_name: Option<String>,
    /// The certificates of the authorities that may sign theirs, in PEM. dns-recursor reads the file again at a reload. Default:
    /// those that the system trusts.
    #[schemars(extend("x-example" = "\"/etc/outpost/tls/upstreams-ca.crt\""))]
    pub ca: Option<PathBuf>,
    /// The SHA-256 of public keys, in base64 (RFC 7858 §4.2), as `kdig +tls` shows them. An upstream has to have one of these
    /// keys. Without `ca`, its certificate may be signed by any authority then.
    #[schemars(extend("x-example" = "[\"MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\"]"))]
    pub pins: Vec<String>,
    /// The path of DNS over HTTPS.
    pub doh_path: String,
}

impl Default for ForwardTls {
    fn default() -> Self {
        Self {
            authentication: Authentication::default(),
            server_name: None,
            ca: None,
            pins: Vec::new(),
            doh_path: doh_path(),
        }
    }
}

/// The source of the answers for a zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ForwardMode {
    /// Its upstreams. dns-recursor sends no packet to an address that is neither configured nor named by a referral of
    /// theirs.
    #[default]
    Forward,
    /// Its upstreams. When each of them is silent or refuses, dns-recursor asks from the root's servers downwards. A denial
    /// (NXDOMAIN) is an answer, and SERVFAIL stays one: an upstream that validates says so about a forged answer.
    ForwardFirst,
    /// The servers of the internet, from the root's downwards. A zone with this mode cannot have the options about
    /// upstreams: `upstreams`, `recursive`, `policy`, `protocol`, `trust-ad`.
    Recurse,
}

/// The order of a zone's healthy upstreams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// The first healthy one, in the order of the configuration.
    #[default]
    Sequential,
    /// Each in turn.
    RoundRobin,
    /// A random one.
    Random,
}

/// The transport that a query to an upstream begins with.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// UDP, and TCP when the response is truncated.
    #[default]
    Udp,
    /// Always TCP.
    Tcp,
    /// DNS over TLS (RFC 7858).
    Tls,
    /// DNS over HTTPS, by HTTP/2 (RFC 8484).
    Https,
    /// DNS over QUIC (RFC 9250).
    Quic,
}

impl Protocol {
    /// Whether queries are sent as datagrams, which are lost, and forged.
    #[must_use]
    pub const fn is_datagram(self) -> bool {
        matches!(self, Self::Udp)
    }

    /// Whether it is encrypted.
    #[must_use]
    pub const fn is_encrypted(self) -> bool {
        matches!(self, Self::Tls | Self::Https | Self::Quic)
    }

    /// The usual port.
    #[must_use]
    pub const fn port(self) -> u16 {
        match self {
            Self::Udp | Self::Tcp => DnsAddress::PORT,
            Self::Tls | Self::Quic => 853,
            Self::Https => 443,
        }
    }
}

//--- Answers

/// The cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Cache {
    /// The largest number of positive answers.
    #[schemars(extend("x-reload" = "restart"))]
    pub entries: usize,
    /// The memory of positive answers.
    #[schemars(extend("x-reload" = "restart"))]
    pub size: ByteSize,
    /// The smallest TTL. A minimum above zero also delays health-checked answers.
    pub min_ttl: HumanDuration,
    /// The largest TTL.
    pub max_ttl: HumanDuration,
    /// The largest number of negative answers (NXDOMAIN and NODATA).
    #[schemars(extend("x-reload" = "restart"))]
    pub negative_entries: usize,
    /// The memory of negative answers.
    #[schemars(extend("x-reload" = "restart"))]
    pub negative_size: ByteSize,
    /// The largest TTL of negative answers. They live as long as the SOA record and its MINIMUM field allow (RFC 2308),
    /// and at most this long.
    pub negative_max_ttl: HumanDuration,
    /// How long dns-recursor remembers a failure. A stale answer comes before a failure.
    pub failure_ttl: DurationWithin<{ FAILURE_TTL[0] }, { FAILURE_TTL[1] }>,
    /// Whether dns-recursor refreshes names in demand in the last tenth of their TTL.
    pub prefetch: bool,
    /// The file that keeps the cache over a restart. dns-recursor reads it when it starts, writes it at intervals and when
    /// it stops, and takes over what the process before it has written. Default: no file.
    #[schemars(extend("x-reload" = "restart"))]
    pub file: Option<PathBuf>,
    /// The interval of writes to that file. A power cut loses what was learned since.
    #[schemars(extend("x-reload" = "restart"))]
    pub write_every: DurationWithin<{ WRITE_EVERY[0] }, { WRITE_EVERY[1] }>,
}

impl Default for Cache {
    fn default() -> Self {
        Self {
            entries: 100_000,
            size: ByteSize(64 << 20),
            min_ttl: HumanDuration(Duration::ZERO),
            max_ttl: HumanDuration(Duration::from_hours(24)),
            negative_entries: 50_000,
            negative_size: ByteSize(16 << 20),
            negative_max_ttl: HumanDuration(Duration::from_hours(1)),
            failure_ttl: DurationWithin::clamped(Duration::from_secs(1)),
            prefetch: true,
            file: None,
            write_every: DurationWithin::clamped(Duration::from_mins(5)),
        }
    }
}

/// Stale answers (RFC 8767).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Stale {
    /// How long dns-recursor keeps expired answers, for when no upstream answers; `"0s"` turns stale answers off. RFC 8767
    /// §5 recommends one to three days.
    #[schemars(extend("x-reload" = "restart"))]
    pub max_age: HumanDuration,
    /// The TTL of a stale answer. RFC 8767 §4 recommends 30 seconds.
    pub ttl: HumanDuration,
    /// How long a client waits for an upstream before it gets a stale answer. Without a healthy upstream it gets the stale
    /// answer at once. A zone's `stale-wait` overrides it.
    pub wait: HumanDuration,
    /// The same for names of the outside: those of the zone `.` and of zones with `mode = "recurse"`. Their servers are far, and a
    /// slow answer is better than an old one. RFC 8767 §5 recommends 1.8 seconds.
    pub wait_outside: HumanDuration,
}

impl Default for Stale {
    fn default() -> Self {
        Self {
            max_age: HumanDuration(Duration::from_hours(24)),
            ttl: HumanDuration(Duration::from_secs(30)),
            wait: HumanDuration(Duration::from_millis(400)),
            wait_outside: HumanDuration(Duration::from_millis(1800)),
        }
    }
}

/// The shortest deadline of a question, in milliseconds.
pub const MIN_DEADLINE: u64 = 1;

/// Queries to upstreams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Resolve {
    /// How long dns-recursor tries to resolve a question: shorter than clients' own deadline.
    pub deadline: DurationWithin<MIN_DEADLINE>,
    /// The largest number of questions in flight. When it is reached, the client with the most of them loses its oldest
    /// one to a client with fewer, and among the questions of one client the zone with the most to a zone with fewer.
    pub max_questions: Positive<usize>,
    /// The largest number of clients that wait for questions in flight. Queries of one client fill at most a quarter of
    /// these places.
    pub max_clients: Positive<usize>,
    /// Whether queries have random letter case, against forged responses.
    pub randomize_case: bool,
}

impl Default for Resolve {
    fn default() -> Self {
        Self {
            deadline: DurationWithin::clamped(Duration::from_secs(4)),
            max_questions: Whole::clamped(10_000),
            max_clients: Whole::clamped(20_000),
            randomize_case: true,
        }
    }
}

/// Queries from the root's servers downwards.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Recursion {
    /// A file with the names and addresses of the root's servers, in the form of `named.root`. Default: the servers of the
    /// public root. dns-recursor asks one of them for the current ones (RFC 9609).
    #[schemars(extend("x-example" = "\"/etc/outpost/named.root\""))]
    pub root_hints: Option<PathBuf>,
    /// Networks that no referral leads to, nor the list of the root's servers, as with `dont-query` of pdns; `!` excludes a network. The upstreams of a
    /// `[[forward]]` get queries wherever they are: with `["0.0.0.0/0", "::/0"]` no query goes to an address that the configuration does not have.
    #[schemars(extend("x-example" = "[\"10.0.0.0/8\", \"172.16.0.0/12\", \"192.168.0.0/16\", \"fc00::/7\"]"))]
    pub dont_query: Networks,
}

/// Validation by DNSSEC. Upstreams have to pass on signatures; servers from the root downwards do. dns-recursor responds SERVFAIL to a bogus answer, with the
/// reason as an extended error (RFC 8914); when a stale answer is there, it sends that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Dnssec {
    /// The mode of zones that have none of their own.
    pub mode: DnssecMode,
    /// The keys that trust begins with: DS or DNSKEY records, in the form of master files. Default: those of the root.
    #[schemars(extend("x-example" = "[\". DS 38696 8 2 683D2D0ACB8C9B712A1948B27F741219298D0A450D612C483AF444A4C0FB2B16\"]"))]
    pub trust_anchors: Option<Vec<String>>,
    /// The directory in which dns-recursor keeps the keys of the zones that it follows (RFC 5011): a new key counts once it was seen for `add-holddown`, and a
    /// revoked one never again. Default: none, and every trust anchor stays as it is written. It is `managed-keys-directory` of BIND.
    #[schemars(extend("x-example" = "\"/var/lib/outpost/dns-recursor/keys\"", "x-reload" = "restart"))]
    pub managed_keys_directory: Option<PathBuf>,
    /// The keys that trust begins with in zones whose keys are followed, in the form of `trust-anchors`; keys that were learned since count more. Default with
    /// `managed-keys-directory`: those of the root, unless `trust-anchors` has some. They are `initial-key` and `initial-ds` of BIND.
    #[schemars(extend("x-example" = "[\"corp.example DNSKEY 257 3 15 CI+NE5VUVzm4DFM8YxqQI2EtQk/6+r7i9Gxn1Nvr5Jw=\"]"))]
    pub initial_anchors: Option<Vec<String>>,
    /// How long a new key of a zone is seen before it counts, as `add-holddown` of unbound. Below ten hours, dns-recursor asks more often than once an hour.
    pub add_holddown: Holddown,
    /// How long a revoked key is shown as such, as `del-holddown` of unbound.
    pub del_holddown: Holddown,
    /// How long a key that its zone no longer has stays trusted, as `keep-missing` of unbound; `0` is for ever.
    pub keep_missing: HumanDuration,
    /// Zones at and below which dns-recursor does not validate (RFC 7646), such as one whose signatures are known to be
    /// broken. A trust anchor below counts nevertheless. `"ZONE until TIME"` ends by itself; TIME is a day such as
    /// `2026-12-05` (in UTC), or `2026-12-05T09:30:00Z`.
    pub negative_trust_anchors: Vec<String>,
    /// Whether dns-recursor denies names by what it has validated of their zones: a signed denial covers all names in a gap
    /// (RFC 8198). A zone whose signer says less than it has is to be a negative trust anchor.
    pub aggressive_nsec: bool,
}

impl Default for Dnssec {
    fn default() -> Self {
        Self {
            mode: DnssecMode::Off,
            trust_anchors: None,
            managed_keys_directory: None,
            initial_anchors: None,
            add_holddown: Holddown::clamped(Duration::from_hours(30 * 24)),
            del_holddown: Holddown::clamped(Duration::from_hours(30 * 24)),
            keep_missing: HumanDuration(Duration::from_hours(366 * 24)),
            negative_trust_anchors: Vec::new(),
            aggressive_nsec: true,
        }
    }
}

/// Whether answers are validated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DnssecMode {
    /// Never. dns-recursor passes on the flags DO and CD of clients.
    #[default]
    Off,
    /// For clients that ask for it, with the flag DO or AD.
    Process,
    /// For all clients, except with the flag CD.
    Validate,
}

/// Special names, and what dns-recursor says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Local {
    /// Whether dns-recursor itself answers special names (RFC 6761): `localhost` and its reverse name this host; `invalid`,
    /// `onion`, `alt`, `home.arpa`, `service.arpa` and the names in `resolver.arpa` do not exist. A `[[forward]]` of such a zone overrides it.
    pub special_names: bool,
    /// Whether reverse names of private addresses do not exist unless a `[[forward]]` matches (RFC 6303).
    pub private_reverse: bool,
    /// Whether names of one label, such as `printer`, have no addresses: dns-recursor denies them (NXDOMAIN), and asks no upstream.
    /// A `[[forward]]` other than that of `.` overrides it.
    pub domain_needed: bool,
    /// The answer to CHAOS TXT `version.bind` and `version.server`. Without it dns-recursor refuses the query.
    #[schemars(extend("x-example" = "\"dns-recursor\""))]
    pub version: Option<String>,
    /// The answer to CHAOS TXT `id.server` and `hostname.bind`. Without it dns-recursor refuses the query.
    #[schemars(extend("x-example" = "\"master-0\""))]
    pub id: Option<String>,
}

impl Default for Local {
    fn default() -> Self {
        Self {
            special_names: true,
            private_reverse: true,
            domain_needed: false,
            version: None,
            id: None,
        }
    }
}

/// A rule that changes questions. Names are texts in lower case with a final dot, which `from` and `to` get if they lack it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Rewrite {
    /// The part of a question that `from` is compared with.
    #[serde(default, rename = "match")]
    pub kind: RewriteMatch,
    /// The text that is replaced: a name or a part of one, a regular expression, or a type of records.
    pub from: String,
    /// The text in its place. In the place of a regular expression, `{1}` is its first group.
    pub to: String,
    /// Whether names in the answer are changed back. Clients reject an answer for another name than they have asked for.
    #[serde(default = "crate::yes")]
    pub answer: bool,
    /// Further changes of the owners of records in the answer.
    #[serde(default)]
    pub answer_name: Vec<AnswerChange>,
    /// Further changes of the names in the data of these records, for CNAME, DNAME, MX, NAPTR, NS, PTR, SOA and SRV.
    #[serde(default)]
    pub answer_value: Vec<AnswerChange>,
    /// The treatment of the rules behind this one when it matches.
    #[serde(default)]
    pub then: RewriteThen,
}

/// A change of names in an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct AnswerChange {
    /// The regular expression that the name matches.
    pub from: String,
    /// The name in its place; `{1}` is the first group.
    pub to: String,
}

/// The part of a question that a rule compares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RewriteMatch {
    /// The whole name.
    #[default]
    Exact,
    /// The beginning of the name, whole labels.
    Prefix,
    /// The end of the name.
    Suffix,
    /// Any part of the name, wherever it is.
    Substring,
    /// The name, by a regular expression.
    Regex,
    /// The type.
    Type,
}

/// The rules behind one that has matched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RewriteThen {
    /// They do not count.
    #[default]
    Stop,
    /// They are applied to the changed question.
    Continue,
}

/// AAAA records made of A records. A name that does not exist has none, and neither does one with an AAAA record of its own.
/// A client that disables checking (CD), or that asks for signatures (DO) of a signed answer, gets the answer as it is (RFC
/// 6147 §5.5): it may validate, and would reject another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Dns64 {
    /// The prefixes of the NAT64, of 32, 40, 48, 56, 64 or 96 bits (RFC 6052): an AAAA record is made with each.
    pub prefixes: Vec<String>,
    /// The clients that get such records. Default: all that may query.
    #[schemars(extend("x-example" = "[\"2001:db8:7::/64\"]"))]
    pub clients: Option<Networks>,
    /// IPv6 networks whose AAAA records count as if they were not there. `"::/0"` has every name with A records answered by
    /// these.
    pub exclude: Vec<String>,
    /// IPv4 networks whose addresses are mapped. Default: all; with the well-known prefix `64:ff9b::/96` only public
    /// addresses, as RFC 6052 §3.1 demands.
    #[schemars(extend("x-example" = "[\"0.0.0.0/0\", \"!10.0.0.0/8\"]"))]
    pub mapped: Option<Networks>,
    /// Whether clients that ask for signatures (DO) get records made of signed ones, which they reject if they validate.
    pub break_dnssec: bool,
}

impl Default for Dns64 {
    fn default() -> Self {
        Self {
            prefixes: vec!["64:ff9b::/96".to_owned()],
            clients: None,
            exclude: vec!["::ffff:0:0/96".to_owned()],
            mapped: None,
            break_dnssec: false,
        }
    }
}

//--- Transports

/// Bounds of TCP (RFC 7766 §6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Tcp {
    /// The largest number of connections. When all are taken, the oldest idle one of the client that has the most gives way to
    /// a new one.
    #[schemars(extend("x-reload" = "restart"))]
    pub connections: usize,
    /// The largest number of connections of one client: an address, or a /64 of IPv6. A /24 or a /48 has four times as many.
    #[schemars(extend("x-reload" = "restart"))]
    pub per_client: usize,
    /// How long a connection may be silent. While over half of the connections are taken, idle ones end sooner.
    #[schemars(extend("x-reload" = "restart"))]
    pub idle: HumanDuration,
    /// How many queries of one connection may wait for answers.
    #[schemars(extend("x-reload" = "restart"))]
    pub pipeline: Positive<usize>,
}

impl Default for Tcp {
    fn default() -> Self {
        Self {
            connections: 1024,
            per_client: 128,
            idle: HumanDuration(Duration::from_secs(10)),
            pipeline: Whole::clamped(100),
        }
    }
}

/// Encrypted transports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Tls {
    /// Addresses for DNS over TLS (RFC 7858).
    #[serde(default)]
    #[schemars(extend("x-reload" = "restart"))]
    pub listen: Vec<crate::Address>,
    /// Addresses for DNS over HTTPS (RFC 8484).
    #[serde(default)]
    #[schemars(extend("x-reload" = "restart"))]
    pub doh: Vec<crate::Address>,
    /// Addresses for DNS over QUIC (RFC 9250).
    #[serde(default)]
    #[schemars(extend("x-reload" = "restart"))]
    pub doq: Vec<crate::Address>,
    /// The path of DNS over HTTPS.
    #[serde(default = "doh_path")]
    #[schemars(extend("x-reload" = "restart"))]
    pub doh_path: String,
    /// The certificate chain, in PEM.
    #[schemars(extend("x-reload" = "restart"))]
    pub certificate: PathBuf,
    /// Its key, in PEM.
    #[schemars(extend("x-reload" = "restart"))]
    pub key: PathBuf,
}

impl Tls {
    /// Whether [`Tls::doh_path`] can be the path of a request.
    #[must_use]
    pub fn is_path(&self) -> bool {
        is_doh_path(&self.doh_path)
    }
}

/// Liveness of upstreams.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Health {
    /// The address of healthd, such as `unix:/run/outpost/healthd/healthd.sock`, or `"none"`. With healthd, dns-recursor leaves an
    /// upstream that is down before it loses a query; without it, only its own timeouts tell.
    #[schemars(with = "String", extend("x-type" = "unix:/path, http://ADDRESS:PORT or none", "x-reload" = "restart"))]
    pub endpoint: HealthdArg,
}

impl Default for Health {
    fn default() -> Self {
        Self {
            endpoint: HealthdArg(None),
        }
    }
}
