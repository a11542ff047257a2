//! The configuration of dns-authd.

mod cluster;
mod transfers;

use std::path::PathBuf;
use std::time::Duration;

use health::HealthdArg;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::healthd::{StandInAfter, stand_in_after};
use crate::site::Network;
use crate::{
    Address, Admin, ByteSize, Cookies, Every, HumanDuration, Ip, Log, Networks, Positive,
    ResponseRateLimit, Whole, doh_path, is_doh_path,
};

use cluster::CLUSTER;
pub use cluster::Cluster;
pub use transfers::{LuaForm, PrimaryTls, TransferPeer, TransferTransport, Transfers};

/// The port of dns-authd's admin listener.
pub const ADMIN_PORT: u16 = 9402;

/// The default port for queries, on the loopback address.
pub const PORT: u16 = 5301;

/// A zone, for the manual.
const ZONE: &str = r#"
[[zone]]
name = "ocp4.redhat.ren"
file = "/etc/outpost/zones/ocp4.redhat.ren.zone"
"#;

/// Two versions of a zone, for the manual.
const VIEW: &str = r#"
[[view]]
name = "internal"
match-clients = ["192.168.0.0/16"]
match-keys = ["transfer.ocp4.redhat.ren"]

[[view]]
name = "external"

[[zone]]
name = "ocp4.redhat.ren"
view = "internal"
file = "/etc/outpost/zones/internal/ocp4.redhat.ren.zone"

[[zone]]
name = "ocp4.redhat.ren"
view = "external"
file = "/etc/outpost/zones/external/ocp4.redhat.ren.zone"
"#;

/// The names of a cluster, for the manual.
const KUBERNETES: &str = r#"
[kubernetes]
domain = "cluster.local"
reverse = ["172.30.0.0/16", "10.128.0.0/14"]
pods = "verified"
"#;

/// The probe of a port, for the manual.
const PORT_PROBE: &str = r#"
[[health.port]]
port = 6443
path = "/readyz"
"#;

/// The changes that a key may make, for the manual.
const UPDATE: &str = r#"
[[zone]]
name = "ocp4.redhat.ren"
file = "/etc/outpost/zones/ocp4.redhat.ren.zone"

[[zone.update]]
key = "external-dns.ocp4.redhat.ren"
names = ["*.apps.ocp4.redhat.ren"]
types = ["A", "AAAA", "CNAME", "TXT"]
"#;

/// A zone that is transferred over TLS, for the manual.
const PRIMARY_TLS: &str = r#"
[[zone]]
name = "ocp4.redhat.ren"
file = "/var/lib/outpost/dns-authd/ocp4.redhat.ren.zone"
primaries = ["192.168.7.13:853"]

[zone.tls]
server-name = "master-0.ocp4.redhat.ren"
ca = "/etc/outpost/tls/dns-ca.crt"
"#;

/// A catalog that is read over TLS, for the manual.
const CATALOG_TLS: &str = r#"
[[catalog]]
name = "catalog.ocp4.redhat.ren"
file = "/var/lib/outpost/dns-authd/catalog.zone"
primaries = ["192.168.7.13:853"]
directory = "/var/lib/outpost/dns-authd/members"

[catalog.tls]
server-name = "master-0.ocp4.redhat.ren"
ca = "/etc/outpost/tls/dns-ca.crt"
"#;

/// A group of a catalog whose servers are reached over TLS, for the manual.
const GROUP_TLS: &str = r#"
[[catalog.group]]
name = "external"
primaries = ["192.168.7.15:853"]

[catalog.group.tls]
server-name = "master-2.ocp4.redhat.ren"
ca = "/etc/outpost/tls/dns-ca.crt"
"#;

/// A catalog that is read, for the manual.
const CATALOG: &str = r#"
[[catalog]]
name = "catalog.ocp4.redhat.ren"
file = "/var/lib/outpost/dns-authd/catalog.zone"
primaries = ["192.168.7.13:5301"]
key = "transfer.ocp4.redhat.ren"
directory = "/var/lib/outpost/dns-authd/members"
"#;

/// A group of a catalog, for the manual.
const CATALOG_GROUP: &str = r#"
[[catalog.group]]
name = "internal"
primaries = ["192.168.7.14:5301"]
"#;

/// A key, for the manual.
const KEY: &str = r#"
[[key]]
name = "transfer.ocp4.redhat.ren"
algorithm = "hmac-sha256"
secret-file = "/etc/outpost/tsig/transfer.secret"
"#;

/// Encrypted transports, for the manual.
const TLS: &str = r#"
[tls]
certificate = "/etc/outpost/tls/dns.crt"
key = "/etc/outpost/tls/dns.key"
dot = ["0.0.0.0:853"]
doh = ["0.0.0.0:443"]
doq = ["0.0.0.0:853"]
doh-path = "/dns-query"
"#;

/// The configuration of dns-authd.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct DnsAuthd {
    /// Addresses to listen on, over UDP and TCP. Beside dns-recursor on the same node, listen on loopback; without it,
    /// on `["0.0.0.0:53", "[::]:53"]`. dns-authd uses sockets that systemd hands over under the name `dns` instead.
    #[schemars(extend("x-reload" = "restart"))]
    pub listen: Vec<Address>,
    /// The number of UDP threads, and of sockets for each address; 0 is one for each processor.
    #[schemars(extend("x-reload" = "restart"))]
    pub threads: usize,
    /// The receive buffer of each UDP socket, for bursts. More than `net.core.rmem_max` needs `CAP_NET_ADMIN`, or a
    /// socket unit with `ReceiveBuffer=`. Default: the system's.
    #[schemars(extend("x-reload" = "restart", "x-example" = "\"1MiB\""))]
    pub receive_buffer: Option<ByteSize>,
    /// Networks whose queries are answered; all without this key. The node itself always gets an answer. dns-authd
    /// responds REFUSED to other clients and closes their connections. Beside dns-recursor, list only the other nodes;
    /// for a public server, leave the key out. `!` excludes a network; the most specific entry decides.
    #[schemars(extend("x-example" = "[\"192.168.7.0/24\"]"))]
    pub allow_from: Option<Networks>,
    /// How long dns-authd may take to finish running requests when it stops.
    pub drain: HumanDuration,
    /// The log.
    pub log: Log,
    /// The admin listener.
    pub admin: Admin<ADMIN_PORT>,
    /// One table for each zone.
    #[schemars(extend("x-example" = ZONE))]
    pub zone: Vec<Zone>,
    /// One table for each view, as in BIND: a version of some zones for some clients. A query sees one view: the first whose
    /// `match-keys` has the key that signs it, or else the first whose `match-clients` has its address. It sees the zones of that
    /// view, and those without a `view` whose names the view does not have. A client of no view sees only zones without one. A zone of
    /// a view is known as `NAME..VIEW` to the commands, in the log and in metrics.
    #[schemars(extend("x-example" = VIEW))]
    pub view: Vec<View>,
    /// One table for each catalog zone (RFC 9432), whose records list other zones. With `primaries` dns-authd reads it: it serves
    /// the listed zones as their secondary, and stops when they are listed no more. Otherwise dns-authd writes it, out of the zones of
    /// this file, for secondaries.
    #[schemars(extend("x-example" = CATALOG))]
    pub catalog: Vec<Catalog>,
    /// Lists of zones, and how zone files are read.
    pub zones: Zones,
    /// The names of a Kubernetes cluster, as clusterd knows it; none without this table. They follow the DNS specification of
    /// Kubernetes 1.1.0, and CoreDNS where the specification leaves a choice. dns-authd keeps its last snapshot while clusterd is
    /// away. Before the first snapshot the names get SERVFAIL.
    #[schemars(extend("x-example" = KUBERNETES))]
    pub kubernetes: Option<Kubernetes>,
    /// The nodes of a Kubernetes cluster that LUA records can name with `clusternodes('LIST')`; none without this table.
    #[schemars(extend("x-example" = CLUSTER))]
    pub cluster: Option<Cluster>,
    /// Programs of LUA records.
    pub lua: Lua,
    /// Liveness.
    pub health: Health,
    /// Answers.
    pub answers: Answers,
    /// DNS cookies (RFC 7873, RFC 9018). A valid cookie proves that a client owns its address.
    pub cookies: Cookies,
    /// Response-rate limiting: how many responses over UDP a client may get that has not proven its address. It bounds what
    /// queries with a forged source address send to a victim.
    pub rate_limit: ResponseRateLimit,
    /// Bounds of TCP (RFC 7766 §6), DNS over TLS and DNS over HTTPS together.
    pub tcp: Tcp,
    /// One table for each key of transaction signatures (TSIG, RFC 8945). dns-authd answers a query that is signed with
    /// one of them with a signature, and refuses signatures of other keys. It reads the secrets again on SIGHUP.
    #[schemars(extend("x-example" = KEY))]
    pub key: Vec<Key>,
    /// The versions of zones that dns-authd published, kept as the differences between them: for incremental transfers (IXFR),
    /// and for `dns-authd zone history`, `zone diff` and `zone rollback`.
    pub history: History,
    /// Zone transfers, and what other name servers get of zones with LUA records.
    pub transfers: Transfers,
    /// Notification of secondaries (NOTIFY, RFC 1996).
    pub notify: Notify,
    /// Encrypted transports; off without this table. dns-authd reads the certificate again when its file changes, and on
    /// SIGHUP. The limits of `[tcp]` apply to `dot` and `doh` together with TCP, and once more to `doq`; dns-authd
    /// closes a `doq` connection after 10 silent seconds.
    #[schemars(extend("x-example" = TLS))]
    pub tls: Option<Tls>,
}

impl Default for DnsAuthd {
    fn default() -> Self {
        Self {
            listen: vec![Address::loopback(PORT)],
            threads: 0,
            receive_buffer: None,
            allow_from: None,
            drain: HumanDuration(Duration::from_secs(10)),
            log: Log::default(),
            admin: Admin::default(),
            zone: Vec::new(),
            view: Vec::new(),
            catalog: Vec::new(),
            zones: Zones::default(),
            kubernetes: None,
            cluster: None,
            lua: Lua::default(),
            health: Health::default(),
            answers: Answers::default(),
            cookies: Cookies::default(),
            rate_limit: ResponseRateLimit::default(),
            tcp: Tcp::default(),
            key: Vec::new(),
            history: History::default(),
            transfers: Transfers::default(),
            notify: Notify::default(),
            tls: None,
        }
    }
}

//--- Zones

/// One zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Zone {
    /// The name of the zone.
    pub name: String,
    /// The view that the zone is in. Default: none; every client sees the zone unless its view has a zone of this name.
    #[schemars(extend("x-example" = "\"internal\""))]
    pub view: Option<String>,
    /// The zone file (RFC 1035 §5). A relative path starts at this file's directory, or at `zones.directory`. With
    /// `primaries` dns-authd writes it.
    pub file: PathBuf,
    /// The servers that the zone is transferred from (AXFR, IXFR): dns-authd is its secondary. It asks them as the SOA
    /// record says, and at once when one of them sends NOTIFY. It checks a transferred version like an edited file, keeps
    /// it in `file`, and answers from it until it expires.
    #[serde(default)]
    #[schemars(extend("x-example" = "[\"192.168.7.13:5301\"]"))]
    pub primaries: Vec<Address>,
    /// The key that signs the requests to the primaries, which then have to sign their responses.
    #[schemars(extend("x-example" = "\"transfer.ocp4.redhat.ren\""))]
    pub key: Option<String>,
    /// How the primaries prove who they are: with this table dns-authd asks them over TLS alone (RFC 9103), and without it over UDP
    /// and TCP. The usual port is 853.
    #[schemars(extend("x-example" = PRIMARY_TLS))]
    pub tls: Option<PrimaryTls>,
    /// Servers that dns-authd notifies of new versions of this zone, beside those of `notify.also`.
    #[serde(default)]
    #[schemars(extend("x-example" = "[\"192.168.7.21:53\"]"))]
    pub also_notify: Vec<Address>,
    /// The networks whose queries for names of this zone are answered. With this key or `allow-query-keys`, other clients get
    /// REFUSED with the extended error 18, Prohibited (RFC 8914), and no alias of another zone leads them here. Default: all that
    /// `allow-from` admits. Transfers over TCP do not depend on it.
    #[schemars(extend("x-example" = "[\"192.168.0.0/16\"]"))]
    pub allow_query: Option<Networks>,
    /// Keys whose holders get answers too, from any address that `allow-from` admits.
    #[serde(default)]
    #[schemars(extend("x-example" = "[\"internal.ocp4.redhat.ren\"]"))]
    pub allow_query_keys: Vec<String>,
    /// The networks that may transfer this zone. With this key or `allow-transfer-keys`, `transfers.allow` and
    /// `transfers.allow-keys` do not count for the zone; with `[]` there is no transfer of it.
    #[schemars(extend("x-example" = "[\"192.168.7.21\"]"))]
    pub allow_transfer: Option<Networks>,
    /// Keys whose holders may transfer this zone too, from any address.
    #[serde(default)]
    #[schemars(extend("x-example" = "[\"transfer.ocp4.redhat.ren\"]"))]
    pub allow_transfer_keys: Vec<String>,
    /// The transport of transfers of this zone, unless a `transfers.peer` says otherwise. Default: `transfers.transport`.
    #[schemars(extend("x-example" = "\"tls\""))]
    pub allow_transfer_transport: Option<TransferTransport>,
    /// One table for each grant of changes by DNS UPDATE (RFC 2136), as external-dns and cert-manager send them; without one
    /// dns-authd refuses them. The zone file stays as it is: the updates are kept in `history.directory`, which they need, and
    /// laid over the file, also when it is edited, until `dns-authd zone sync NAME` writes both into the file.
    #[serde(default)]
    #[schemars(extend("x-example" = UPDATE))]
    pub update: Vec<ZoneUpdate>,
}

/// A view: the clients that see a version of some zones.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct View {
    /// The name of the view: 1 to 63 letters, digits, `-` and `_`. The histories of its zones have a directory of this name in
    /// `history.directory`.
    pub name: String,
    /// The networks whose clients see the view. Default: all clients, or none if there are `match-keys`.
    #[schemars(extend("x-example" = "[\"192.168.0.0/16\"]"))]
    pub match_clients: Option<Networks>,
    /// The keys whose holders see the view, from any address. They come before the networks of all views.
    #[serde(default)]
    #[schemars(extend("x-example" = "[\"internal.ocp4.redhat.ren\"]"))]
    pub match_keys: Vec<String>,
    /// The key that signs NOTIFY messages about zones of the view, so that a secondary with views knows its own. Default:
    /// `notify.key`.
    #[schemars(extend("x-example" = "\"internal.ocp4.redhat.ren\""))]
    pub notify_key: Option<String>,
}

/// The changes of a zone that the holder of a key may make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ZoneUpdate {
    /// The key that signs the updates. dns-authd refuses updates without a signature.
    pub key: String,
    /// The names whose records the key may change; all names of the zone without this list. `*.NAME` stands for every name
    /// below NAME, and a `*` further to the right for one label.
    #[serde(default)]
    #[schemars(extend("x-example" = "[\"*.apps.ocp4.redhat.ren\"]"))]
    pub names: Vec<String>,
    /// The types of records that the key may change. Default: all but SOA and NS. No key may change LUA records, or
    /// those that belong to signatures.
    #[serde(default)]
    #[schemars(extend("x-example" = "[\"A\", \"AAAA\", \"CNAME\", \"TXT\"]"))]
    pub types: Vec<String>,
}

/// A catalog zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Catalog {
    /// The name of the catalog zone. Only those who may transfer zones get answers from it.
    pub name: String,
    /// The file that keeps the catalog zone; dns-authd writes it. A relative path starts at this file's directory, or at
    /// `zones.directory`.
    pub file: PathBuf,
    /// The servers that the catalog zone and the zones that it lists are transferred from. Without them dns-authd writes the catalog.
    #[serde(default)]
    #[schemars(extend("x-example" = "[\"192.168.7.13:5301\"]"))]
    pub primaries: Vec<Address>,
    /// The key that signs the requests to the primaries, which then have to sign their responses.
    #[schemars(extend("x-example" = "\"transfer.ocp4.redhat.ren\""))]
    pub key: Option<String>,
    /// How the primaries prove who they are; with it dns-authd asks them over TLS alone, as for `zone.tls`.
    #[schemars(extend("x-example" = CATALOG_TLS))]
    pub tls: Option<PrimaryTls>,
    /// The directory of the zones that the catalog lists; needed with `primaries`. dns-authd removes the file of a zone that has gone.
    /// A relative path starts where that of `file` does.
    #[schemars(extend("x-example" = "\"/var/lib/outpost/dns-authd/members\""))]
    pub directory: Option<PathBuf>,
    /// The most zones that the catalog may list. One that lists more changes nothing.
    #[serde(default = "max_members")]
    pub max_members: Whole<usize, 1, 100_000>,
    /// Servers that dns-authd notifies of new versions of the catalog zone, beside those of `notify.also`.
    #[serde(default)]
    #[schemars(extend("x-example" = "[\"192.168.7.21:53\"]"))]
    pub also_notify: Vec<Address>,
    /// The zones that the catalog lists when dns-authd writes it; all zones of this file and of `zones.named-conf` without this list.
    /// Zones of views are not among them: a catalog has no word for views.
    #[serde(default)]
    #[schemars(extend("x-example" = "[\"ocp4.redhat.ren\"]"))]
    pub zones: Vec<String>,
    /// One table for each group of the catalog: its zones, or the servers that they are transferred from.
    #[serde(default)]
    #[schemars(extend("x-example" = CATALOG_GROUP))]
    pub group: Vec<CatalogGroup>,
}

/// A group of zones in a catalog (RFC 9432 §4.3.2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct CatalogGroup {
    /// The name of the group, as the catalog has it. The first table that fits a zone counts.
    pub name: String,
    /// The zones of the group, in a catalog that dns-authd writes.
    #[serde(default)]
    #[schemars(extend("x-example" = "[\"ocp4.redhat.ren\"]"))]
    pub zones: Vec<String>,
    /// The servers that zones of the group are transferred from, in a catalog that dns-authd reads. Default: those of the catalog.
    #[serde(default)]
    #[schemars(extend("x-example" = "[\"192.168.7.14:5301\"]"))]
    pub primaries: Vec<Address>,
    /// The key for these servers. Default: that of the catalog.
    #[schemars(extend("x-example" = "\"transfer.ocp4.redhat.ren\""))]
    pub key: Option<String>,
    /// How these servers prove who they are. Default: as the catalog's.
    #[schemars(extend("x-example" = GROUP_TLS))]
    pub tls: Option<PrimaryTls>,
}

/// The default of [`Catalog::max_members`].
fn max_members() -> Whole<usize, 1, 100_000> {
    Whole::clamped(10_000)
}

/// Lists of zones, and how zone files are read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Zones {
    /// A named.conf. dns-authd also serves its master, primary and native zones.
    #[schemars(extend("x-example" = "\"/etc/outpost/named.conf\""))]
    pub named_conf: Option<PathBuf>,
    /// The directory of relative zone files and `$INCLUDE` files.
    #[schemars(extend("x-example" = "\"/etc/outpost/zones\""))]
    pub directory: Option<PathBuf>,
    /// How often dns-authd checks the files for changes; `"never"` leaves it to SIGHUP and `dns-authd zone reload`.
    pub check_interval: Every,
    /// Whether dns-authd loads a changed file at once (inotify): when its writer closes it or moves it into its place.
    pub notify: bool,
    /// How long the size and time of a changed file must stay the same before dns-authd loads it without having seen its
    /// writer close it. On SIGHUP, dns-authd loads every changed file that it has not seen open.
    pub quiet: HumanDuration,
    /// Whether dns-authd holds back a new version of a zone if its serial is lower than before, or the same although its
    /// data differs: secondaries would keep the old data. `dns-authd zone accept NAME` publishes the version. With `false` it
    /// publishes such a version at once, and names it in the log and in `dns-authd zone list`.
    pub serial_must_rise: bool,
    /// The largest share of its records, in percent, that a zone may lose at once. dns-authd holds back a new version
    /// that loses more, until `dns-authd zone accept NAME`; 100 holds none back. It refuses a DNS UPDATE that takes away more,
    /// unless those are 64 records or fewer.
    pub largest_loss: Whole<u8, 0, 100>,
    /// The TTL of records without a TTL in their file, in seconds.
    pub default_ttl: u32,
    /// How deep `$INCLUDE` may nest.
    pub include_depth: usize,
    /// How many records `$GENERATE` may make in one zone; 0 means no limit.
    pub generate_steps: u32,
    /// Whether dns-authd leaves out records outside the zone, with a warning. Otherwise it refuses the zone.
    pub skip_out_of_zone: bool,
}

impl Default for Zones {
    fn default() -> Self {
        Self {
            named_conf: None,
            directory: None,
            check_interval: Every(Some(Duration::from_mins(5))),
            notify: true,
            quiet: HumanDuration(Duration::from_secs(10)),
            serial_must_rise: true,
            largest_loss: Whole::clamped(50),
            default_ttl: 3600,
            include_depth: 20,
            generate_steps: 1 << 20,
            skip_out_of_zone: false,
        }
    }
}

//--- Kubernetes

/// The names of a Kubernetes cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[expect(clippy::struct_excessive_bools, reason = "each is an option by itself")]
pub struct Kubernetes {
    /// The Unix socket of clusterd.
    pub socket: PathBuf,
    /// The domain of the cluster. dns-authd answers for all names below it; no other zone may have this name.
    pub domain: String,
    /// The networks of Services and pods whose addresses have names (PTR). dns-authd serves a zone below `in-addr.arpa` or
    /// `ip6.arpa` for each, or several for a network that ends within a label. A Service has the name of its cluster IPs. An
    /// endpoint has the name of its address if it has a hostname or its Service is headless.
    #[schemars(extend("x-example" = "[\"172.30.0.0/16\", \"10.128.0.0/14\"]"))]
    pub reverse: Vec<Network>,
    /// The zone of the addresses at which Services are reached from outside: `SERVICE.NAMESPACE.ZONE` has the external IPs and the
    /// addresses of load balancers, or is an alias of a load balancer's name; `_PORT._PROTOCOL` below it has SRV records. A Service
    /// without such an address has no name there.
    #[schemars(extend("x-example" = "\"services.ocp4.redhat.ren\""))]
    pub external: Option<String>,
    /// The zones in which Services may have the names that they ask for by annotations of external-dns:
    /// `external-dns.alpha.kubernetes.io/hostname` for the external IPs, the addresses of load balancers, the endpoints of a headless
    /// Service or an `ExternalName`, `internal-hostname` for the cluster IPs; `target`, `ttl` and `controller` are known too. dns-authd
    /// serves these zones, with these names alone. It refuses every other name, every wildcard and the apexes: log, status and a
    /// metric say so. When several Services ask for a name, the oldest has it.
    #[schemars(extend("x-example" = "[\"shops.ocp4.redhat.ren\"]"))]
    pub hostname_zones: Vec<String>,
    /// Whether the zone that is next above answers for addresses in `reverse` that have no name. Without such a zone the query
    /// is refused, so that dns-recursor asks another server.
    pub fallthrough: bool,
    /// The TTL of the names, in seconds, and that of negative answers.
    pub ttl: Whole<u32, 0, 3600>,
    /// The names of pods, such as `10-128-0-7.shop.pod.cluster.local`.
    pub pods: PodNames,
    /// The namespaces whose names are served; all without this key.
    #[schemars(extend("x-example" = "[\"shop\", \"openshift-image-registry\"]"))]
    pub namespaces: Vec<String>,
    /// A label selector of the namespaces whose names are served, as kubectl takes it.
    #[schemars(extend("x-example" = "\"environment=production\""))]
    pub namespace_labels: String,
    /// A label selector of the Services whose names are served, as kubectl takes it.
    #[schemars(extend("x-example" = "\"tier in (web, api),!internal\""))]
    pub labels: String,
    /// Whether there are the further names that OpenShift 3 had by `SkyDNS`: `SERVICE.NAMESPACE.endpoints.DOMAIN` and
    /// `_endpoints.SERVICE.NAMESPACE.svc.DOMAIN` have the endpoints of every Service; every name below a Service with a cluster IP leads
    /// to it; endpoints have the hash of their address as a name; pods have names unless `pods` is `verified`. The TTL was 30 there.
    pub skydns: bool,
    /// A label selector, as kubectl takes it, of the Services whose endpoints healthd probes by a TCP connection to their first TCP
    /// port; `""` selects all. Names that lead to endpoints leave out those that are down; when all of a name are down, it has all.
    /// Without this key the cluster alone says which endpoints are ready. healthd probes 4096 endpoints at most.
    #[schemars(extend("x-example" = "\"probe=tcp\""))]
    pub probe: Option<String>,
    /// Whether a Service with a cluster IP has no name while it has no ready endpoint.
    pub ignore_empty_service: bool,
    /// Whether an endpoint without a hostname has the name of its pod instead of its address with dashes.
    pub endpoint_pod_names: bool,
    /// The addresses of `ns.dns.DOMAIN`, which is the name server of the zones.
    #[schemars(extend("x-example" = "[\"192.168.7.13\"]"))]
    pub name_servers: Vec<Ip>,
}

impl Default for Kubernetes {
    fn default() -> Self {
        Self {
            socket: crate::clusterd::SOCKET.into(),
            domain: "cluster.local".to_owned(),
            reverse: Vec::new(),
            external: None,
            hostname_zones: Vec::new(),
            fallthrough: false,
            ttl: Whole::clamped(5),
            pods: PodNames::Disabled,
            namespaces: Vec::new(),
            namespace_labels: String::new(),
            labels: String::new(),
            skydns: false,
            probe: None,
            ignore_empty_service: false,
            endpoint_pod_names: false,
            name_servers: Vec::new(),
        }
    }
}

/// The names of pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PodNames {
    /// No pod has a name.
    #[default]
    Disabled,
    /// Every address has a name in every namespace, whether or not a pod has the address.
    Insecure,
    /// The pods that are endpoints of a Service have names in their own namespace. clusterd does not watch other pods.
    Verified,
}

//--- Liveness

/// Programs of LUA records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Lua {
    /// Whether dns-authd serves LUA records. Otherwise it leaves them out.
    pub enabled: bool,
    /// How many instructions one run of a snippet may take (`lua-records-exec-limit`); 0 means no limit.
    pub instructions: u32,
    /// The memory of one interpreter; each thread has one.
    pub memory: ByteSize,
    /// Whether dns-authd joins the strings of a LUA record with a blank between them.
    pub insert_whitespace: bool,
}

impl Default for Lua {
    fn default() -> Self {
        Self {
            enabled: true,
            instructions: 1000,
            memory: ByteSize(8 << 20),
            insert_whitespace: true,
        }
    }
}

/// Liveness. The schedule of probes is healthd's. A record's own `interval`, `timeout` and `minimumFailures`, and the
/// keys here that are set, only tighten it: dns-authd then sees a view of its own, a deviation in `healthd status`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Health {
    /// The address of healthd: `unix:/path` or `http://ADDRESS:PORT`. With `"none"` every target stays unknown.
    #[schemars(with = "String", extend("x-type" = "unix:/path, http://ADDRESS:PORT or none", "x-reload" = "restart"))]
    pub endpoint: HealthdArg,
    /// The time without healthd after which dns-authd probes the targets itself; until then healthd's last states hold. While
    /// it does, `/readyz` and a metric say so, health-checked answers have the smallest TTL and an extended DNS error, and
    /// healthd's word counts again when it is back.
    pub stand_in_after: StandInAfter,
    /// The longest interval of probes (`lua-health-checks-interval`). Default: healthd's.
    #[schemars(extend("x-example" = "\"5s\""))]
    pub interval: Option<HumanDuration>,
    /// The longest interval of probes while a target's state is undecided. Default: healthd's.
    #[schemars(extend("x-example" = "\"1s\""))]
    pub fast_interval: Option<HumanDuration>,
    /// The longest time for one probe. Default: healthd's.
    #[schemars(extend("x-example" = "\"2s\""))]
    pub timeout: Option<HumanDuration>,
    /// The good results in a row that make a target up for dns-authd. Default: healthd's.
    #[schemars(extend("x-example" = "1"))]
    pub rise: Option<Positive<u32>>,
    /// The bad results in a row that make a target down for dns-authd (`minimumFailures`). Default: healthd's.
    #[schemars(extend("x-example" = "1"))]
    pub fall: Option<Positive<u32>>,
    /// How long the first queries for a set of targets wait for the first results; `"0"` does not wait.
    #[schemars(extend("x-reload" = "restart"))]
    pub hold: HumanDuration,
    /// The answer while no member is known to be up and some were not probed yet.
    pub while_unknown: WhileUnknown,
    /// The largest TTL of the answer while no member is known to be up and some were not probed yet.
    pub unknown_ttl: HumanDuration,
    /// The answer when every member is down and the record has no `backupSelector`.
    pub all_down: AllDown,
    /// The smallest TTL of a health-checked answer. dns-authd otherwise limits the TTL to the time until a target can
    /// change its state.
    pub min_ttl: HumanDuration,
    /// Ports that `ifportup` probes with an HTTP request instead of a connection. lb-proxy's role `api` asks the same of the API
    /// servers' port, so that a name and the balancer have one state.
    #[schemars(extend("x-example" = PORT_PROBE))]
    pub port: Vec<PortProbe>,
}

/// The HTTP request by which a port is probed. The status 200 means up; the certificate is not checked, as the probe is of the
/// address and not of a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PortProbe {
    /// The port.
    pub port: Whole<u16, 1, 65_535>,
    /// `http` or `https`. Default: `https`.
    #[serde(default)]
    pub kind: PortProbeKind,
    /// The path with its query.
    pub path: String,
}

/// The protocol of a [`PortProbe`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PortProbeKind {
    /// HTTP.
    Http,
    /// HTTP over TLS.
    #[default]
    Https,
}

impl Default for Health {
    fn default() -> Self {
        Self {
            endpoint: HealthdArg::default(),
            stand_in_after: stand_in_after(),
            interval: None,
            fast_interval: None,
            timeout: None,
            rise: None,
            fall: None,
            hold: HumanDuration(Duration::from_millis(150)),
            while_unknown: WhileUnknown::All,
            unknown_ttl: HumanDuration(Duration::from_secs(5)),
            all_down: AllDown::Random,
            min_ttl: HumanDuration(Duration::from_secs(1)),
            port: Vec::new(),
        }
    }
}

impl Health {
    /// How long queries wait for first results: not at all when none will come.
    #[must_use]
    pub const fn hold(&self) -> Duration {
        match self.endpoint.0 {
            Some(_) => self.hold.0,
            None => Duration::ZERO,
        }
    }
}

/// The answer when every target is down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AllDown {
    /// One member of the first set that has any, at random, as in PowerDNS.
    #[default]
    Random,
    /// All members of the first set that has any.
    All,
    /// No member: an empty answer.
    Empty,
    /// SERVFAIL.
    Servfail,
}

/// The answer while no target is known to be up and some are not yet probed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WhileUnknown {
    /// All members that may be up.
    #[default]
    All,
    /// The same as when every member is down.
    AsDown,
}

//--- Answers

/// Answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Answers {
    /// The answer to CHAOS TXT `version.bind` and `version.server`; `"none"` gives none.
    pub version: String,
    /// The answer to CHAOS TXT `id.server` and `hostname.bind`, and the NSID (RFC 5001), cut to 128 characters; `"none"`
    /// gives none. Default: the node's name.
    #[schemars(extend("x-example" = "\"master-0\""))]
    pub id: Option<String>,
    /// The answer to type ANY.
    pub any: Any,
    /// The largest UDP response, in octets.
    pub udp_payload: Whole<u16, 512, 4096>,
    /// Whether hashed answers use an EDNS client subnet (RFC 7871) as the client's address.
    pub client_subnet: bool,
}

impl Default for Answers {
    fn default() -> Self {
        Self {
            version: "none".to_owned(),
            id: None,
            any: Any::One,
            udp_payload: Whole::clamped(1232),
            client_subnet: false,
        }
    }
}

/// The answer to a question of type ANY (RFC 8482 §4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Any {
    /// One RRset of the name.
    #[default]
    One,
    /// All RRsets over TCP; over UDP an empty answer with the TC bit.
    AllOverTcp,
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
    /// How long dns-authd waits for a whole query before it closes a connection. While over half of the connections are
    /// taken, idle ones end sooner.
    #[schemars(extend("x-reload" = "restart"))]
    pub idle: HumanDuration,
    /// How many queries of one connection may wait for first results; 0 is read as 1.
    #[schemars(extend("x-reload" = "restart"))]
    pub pipeline: usize,
}

impl Default for Tcp {
    fn default() -> Self {
        Self {
            connections: 512,
            per_client: 64,
            idle: HumanDuration(Duration::from_secs(10)),
            pipeline: 16,
        }
    }
}

/// The versions of zones that were published.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct History {
    /// The directory that keeps them, a file for each zone. Without this key they last until a restart, and dns-authd
    /// refuses `zone rollback` and updates: the next start would undo them.
    #[schemars(extend("x-example" = "\"/var/lib/outpost/dns-authd\""))]
    pub directory: Option<PathBuf>,
    /// How many versions of a zone are kept before the one in service; 0 keeps none, and turns IXFR off.
    pub versions: Whole<usize, 0, 1000>,
    /// The octets that the differences of one zone may take, in memory and on disk. A larger difference is not kept, and
    /// those before it are dropped. The records by which updates (`zone.update`) have changed a zone since its file was written
    /// may take as much once more; dns-authd refuses further ones.
    pub size: ByteSize,
}

impl Default for History {
    fn default() -> Self {
        Self {
            directory: None,
            versions: Whole::clamped(32),
            size: ByteSize(1 << 20),
        }
    }
}

/// A key of transaction signatures: a secret that two servers share.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Key {
    /// The name of the key, which both servers know it by.
    pub name: String,
    /// The algorithm.
    #[serde(default)]
    pub algorithm: KeyAlgorithm,
    /// The secret, in base 64. Anyone who reads the configuration knows it; `secret-file` is better.
    #[schemars(extend("x-example" = "\"NjRiYXNlIHNlY3JldCBvZiAzMiBvY3RldHMgb3Igc28=\""))]
    pub secret: Option<String>,
    /// A file with the secret, in base 64. A relative path starts at this file's directory.
    #[schemars(extend("x-example" = "\"/etc/outpost/tsig/transfer.secret\""))]
    pub secret_file: Option<PathBuf>,
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The secret stays out of logs.
        f.debug_struct("Key")
            .field("name", &self.name)
            .field("algorithm", &self.algorithm)
            .field("secret_file", &self.secret_file)
            .finish_non_exhaustive()
    }
}

/// The algorithm of a key (RFC 8945 §6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum KeyAlgorithm {
    /// HMAC-MD5, for old peers that know no other.
    HmacMd5,
    /// HMAC-SHA1.
    HmacSha1,
    /// HMAC-SHA224.
    HmacSha224,
    /// HMAC-SHA256.
    #[default]
    HmacSha256,
    /// HMAC-SHA384.
    HmacSha384,
    /// HMAC-SHA512.
    HmacSha512,
}

/// Notification of secondaries. dns-authd notifies them of every new version of a zone that it publishes, over UDP, and
/// repeats a message until the secondary responds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Notify {
    /// Servers to notify of new versions of every zone.
    #[schemars(extend("x-example" = "[\"192.168.7.21:53\"]"))]
    pub also: Vec<Address>,
    /// Whether dns-authd also notifies the servers of a zone's NS records, except the one that its SOA record names. It
    /// knows the addresses of those that are in its own zones.
    pub name_servers: bool,
    /// The key that signs the messages. Default: they are not signed.
    #[schemars(extend("x-example" = "\"transfer.ocp4.redhat.ren\""))]
    pub key: Option<String>,
    /// How many messages dns-authd sends to a server that does not respond, before it gives up on this version.
    pub attempts: Whole<u32, 1, 20>,
    /// How long dns-authd waits for the response to the first message; it waits twice as long for each further one.
    pub timeout: HumanDuration,
}

impl Default for Notify {
    fn default() -> Self {
        Self {
            also: Vec::new(),
            name_servers: false,
            key: None,
            attempts: Whole::clamped(6),
            timeout: HumanDuration(Duration::from_secs(2)),
        }
    }
}

/// Encrypted transports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Tls {
    /// The certificate chain, in PEM.
    pub certificate: PathBuf,
    /// Its key, in PEM.
    pub key: PathBuf,
    /// Addresses for DNS over TLS (RFC 7858).
    #[serde(default)]
    #[schemars(extend("x-reload" = "restart"))]
    pub dot: Vec<Address>,
    /// Addresses for DNS over HTTPS (RFC 8484).
    #[serde(default)]
    #[schemars(extend("x-reload" = "restart"))]
    pub doh: Vec<Address>,
    /// Addresses for DNS over QUIC (RFC 9250).
    #[serde(default)]
    #[schemars(extend("x-reload" = "restart"))]
    pub doq: Vec<Address>,
    /// The path of DNS over HTTPS.
    #[serde(default = "doh_path")]
    #[schemars(extend("x-reload" = "restart"))]
    pub doh_path: String,
}

impl Tls {
    /// Whether [`Tls::doh_path`] can be the path of a request: it begins with a slash and holds no `?` or `#`.
    #[must_use]
    pub fn is_path(&self) -> bool {
        is_doh_path(&self.doh_path)
    }
}
