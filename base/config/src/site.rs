//! The site file, `site.toml`: everything that Outpost has to know about a site.
//!
//! `outpost` renders the files of all services from it. The rules between its keys are those of `site-file`.

mod service;
mod values;

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use service::{Service, UnknownService};
pub use values::{Network, Openshift, Podman, Port, RouterId, SiteValueError, Ttl};

use crate::address_range::AddressRange;
use crate::healthd::Schedule;
use crate::nodes::ClusterNodes;
use crate::renewal::LifeDays;
use crate::{ByteSize, DnsAddress, HumanDuration, Ip};

const NODE: &str = r#"
[[node]]
name = "master-0"
role = "master"
address = "192.168.7.13"
"#;

/// A zone elsewhere, for the manual.
const FORWARD: &str = r#"
[[dns.forward]]
zone = "corp.example.com"
upstreams = ["192.0.2.10", "192.0.2.11"]
"#;

const RECORD: &str = r#"
[[record]]
name = "mirror"
type = "CNAME"
value = "helper"
ttl = 600
"#;

const VIP: &str = r#"
[[vip]]
name = "api"
role = "api"
address = "192.168.7.100"
"#;

const QUOTA: &str = r#"
[[registry.quota]]
repositories = "dev/**"
size = "20GiB"
"#;

const MIRROR: &str = r#"
[[registry.mirror]]
prefix = "quay"
upstream = "https://quay.example.com"
namespace = "quay.example.com"
ttl = "5m"
credentials = "quay.credentials"
ca = "quay.crt"
"#;

const PAGE: &str = r#"
[page]
names = ["status"]
users = "page.users"
"#;

const CLUSTER: &str = r#"
[cluster]
kubeconfig = "clusterd.kubeconfig"
domain = "cluster.local"
reverse = ["172.30.0.0/16", "10.128.0.0/14"]
follow = ["masters", "ingress"]
"#;

const PUBLISH: &str = r#"
[[publish]]
name = "api"
port = 6443
proxy-port = 9445
names = ["@", "api", "api-int"]
role = "api"

[[publish]]
name = "machine-config"
port = 22623
proxy-port = 9623
role = "api"

[[publish]]
name = "ingress"
port = 443
proxy-port = 9443
names = ["*.apps"]
role = "ingress"

[[publish]]
name = "ingress-http"
port = 80
proxy-port = 9080
role = "ingress"
"#;

/// Everything that Outpost has to know about a site.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Site {
    /// The name of the cluster: metadata.name of install-config.yaml. Outpost computes the numbers of virtual routers from
    /// it, as OpenShift does.
    pub name: String,
    /// The domain that the site answers for. OpenShift's is NAME.BASEDOMAIN.
    pub domain: String,
    /// The networks of the nodes and of the virtual IPs. The site serves their reverse zones, and answers DNS and NTP
    /// queries of their hosts.
    pub networks: Vec<Network>,
    /// Addresses of routers in these networks. `outpost check` refuses them for anything else; no service uses them.
    #[serde(default)]
    #[schemars(extend("x-example" = "[\"192.168.7.1\"]"))]
    pub gateways: Vec<Ip>,
    /// Other networks whose DNS and NTP queries the site answers. The default with OpenShift is the network of its pods
    /// (networking.clusterNetwork of install-config.yaml); without OpenShift there is none.
    #[serde(default)]
    #[schemars(extend("x-example" = "[\"10.128.0.0/14\"]"))]
    pub clients: Option<Vec<Network>>,
    /// The interface of virtual IPs, for every node that names no other. The default with OpenShift is OVN-Kubernetes'
    /// bridge.
    #[serde(default)]
    #[schemars(extend("x-example" = "\"br-ex\""))]
    pub interface: Option<String>,
    /// The directory of certificates and keys, relative to this file. `outpost pki make` fills it.
    #[serde(default = "pki")]
    pub pki: PathBuf,
    /// How many days clients of a node believe its certificate after the node was given it. `outpost pki make` signs the
    /// certificates of years ahead at once. A node has its first; the other nodes have the rest, and give each out when the one
    /// before is about to end, and none to a revoked node. A node has 250 at most: with fewer than 15 days, make them for less than
    /// five years (`outpost pki make --days`). Default: each node has one certificate, as long as `outpost pki make`
    /// makes it.
    #[serde(default)]
    #[schemars(extend("x-example" = "30"))]
    pub certificate_days: Option<LifeDays>,
    /// Nodes. Masters run the services of the site. With OpenShift they also get the names etcd-0, etcd-1, …, in this order.
    #[serde(default)]
    #[schemars(extend("x-example" = NODE))]
    pub node: Vec<Node>,
    /// DNS.
    #[serde(default)]
    pub dns: Dns,
    /// Further records, below the domain: `address` (or `addresses`) for a host, `type` and `value` for any other record of
    /// a zone file.
    #[serde(default)]
    #[schemars(extend("x-example" = RECORD))]
    pub record: Vec<Record>,
    /// Time.
    #[serde(default)]
    pub time: Time,
    /// The schedule of healthd's probes, for names, balancer and page alike. API servers that lb-proxy asks for /readyz are
    /// confirmed after 2s, with a rise of 3 and a fall of 2, as OpenShift's own balancer does.
    #[serde(default)]
    pub health: Schedule,
    /// Virtual IPs. One of the nodes that run lb-proxy holds each. The names of the API and of the ingress resolve to the
    /// virtual IP of that role; without one they resolve to the nodes on which the port is up.
    #[serde(default)]
    #[schemars(extend("x-example" = VIP))]
    pub vip: Vec<Vip>,
    /// The registry. Every node that runs registry-svc holds the same content.
    #[serde(default)]
    pub registry: Registry,
    /// The site's page, published over TLS with a login by the healthd of every node that runs it. Without this table the page is
    /// on loopback alone.
    #[serde(default)]
    #[schemars(extend("x-example" = PAGE))]
    pub page: Option<Page>,
    /// The Kubernetes cluster on the nodes. With this table the masters run clusterd, which watches the cluster once for all
    /// services of its node: over the API of its own node first, then over those of the other masters. Without any key in it,
    /// clusterd waits until `/etc/outpost/clusterd/kubeconfig` is on its node: a cluster that is not installed yet has no
    /// kubeconfig.
    #[serde(default)]
    #[schemars(extend("x-example" = CLUSTER))]
    pub cluster: Option<Cluster>,
    /// Ports of the site, and their names. The default with OpenShift is these four and the registry; without OpenShift, the
    /// registry alone. An entry with the name of a default changes that default; an entry with another name adds to them.
    #[serde(default)]
    #[schemars(extend("x-example" = PUBLISH))]
    pub publish: Vec<Publish>,
    /// How nodes run the services.
    #[serde(default)]
    pub platform: Platform,
}

fn pki() -> PathBuf {
    "pki".into()
}

impl Site {
    /// A site without nodes, and with the defaults.
    #[must_use]
    pub fn new(name: impl Into<String>, domain: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            domain: domain.into(),
            networks: Vec::new(),
            gateways: Vec::new(),
            clients: None,
            interface: None,
            pki: pki(),
            certificate_days: None,
            node: Vec::new(),
            dns: Dns::default(),
            record: Vec::new(),
            time: Time::default(),
            health: Schedule::default(),
            vip: Vec::new(),
            registry: Registry::default(),
            page: None,
            cluster: None,
            publish: Vec::new(),
            platform: Platform::default(),
        }
    }
}

//--- Nodes

/// A machine of the site.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Node {
    /// The host name, below the domain.
    pub name: String,
    /// The role.
    pub role: Role,
    /// The address. Other nodes connect to the first of a node's addresses.
    #[serde(default)]
    pub address: Option<Ip>,
    /// One address of each family, instead of `address`.
    #[serde(default)]
    #[schemars(extend("x-example" = "[\"192.168.7.13\", \"fd00:7::13\"]", "x-instead-of" = "address"))]
    pub addresses: Vec<Ip>,
    /// The interface of virtual IPs on this node, if it is not the site's.
    #[serde(default)]
    #[schemars(extend("x-example" = "\"br-ex\""))]
    pub interface: Option<String>,
    /// The services that the node runs. A master runs all, clusterd only with `[cluster]`; a worker only timesync-agent.
    /// dns-authd and lb-proxy need healthd on the same node, dns-recursor needs dns-authd.
    #[serde(default)]
    #[schemars(extend("x-example" = "[\"healthd\", \"clusterd\", \"dns-authd\", \"dns-recursor\", \"lb-proxy\", \"registry-svc\", \"timesync-agent\"]"))]
    pub services: Option<Vec<Service>>,
}

/// The role of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Runs the control plane, etcd, and the services of the site.
    Master,
    /// Runs workloads only.
    Worker,
}

//--- DNS and time

/// DNS.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Dns {
    /// Servers that resolve names outside the site. Without them the site is an island: queries for outside names fail at
    /// once.
    #[schemars(extend("x-example" = "[\"192.0.2.53\", \"192.0.2.54:5353\"]"))]
    pub upstreams: Vec<DnsAddress>,
    /// Zones that other servers have, such as those of a head office: names in them go there, and not to `upstreams`.
    #[schemars(extend("x-example" = FORWARD))]
    pub forward: Vec<Forward>,
    /// The TTL of the zone's records, in seconds.
    pub ttl: Ttl,
    /// The zone's mailbox, below the domain.
    pub contact: String,
    /// The serial number of the zone (RFC 1982). By default `outpost render` and `outpost bundle` move it with the content of
    /// the zone, beginning with the time, and keep it in `zone.serial` beside this file. A number of your own has to rise with
    /// each change: they warn when it does not, because secondary servers then keep the old zone.
    #[schemars(extend("x-example" = "2014080704"))]
    pub serial: Option<u32>,
    /// The refresh time of the zone's SOA record, as zone files write times.
    pub refresh: String,
    /// The retry time.
    pub retry: String,
    /// The time after which a secondary server gives the zone up.
    pub expire: String,
    /// How long resolvers may cache a negative answer.
    pub minimum: String,
    /// The name servers of the zone. The default is ns1, ns2, …: the nodes that run dns-recursor.
    pub name_servers: Option<Vec<NameServer>>,
}

/// A zone that other servers have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Forward {
    /// The zone, without a final dot; a name in several of them is in the longest.
    pub zone: String,
    /// The servers, tried in order.
    pub upstreams: Vec<DnsAddress>,
    /// Whether the servers resolve names for others, so that queries ask for recursion (RD); otherwise they have the zone
    /// themselves.
    #[serde(default)]
    pub recursive: bool,
}

impl Default for Dns {
    fn default() -> Self {
        Self {
            upstreams: Vec::new(),
            forward: Vec::new(),
            ttl: Ttl::DEFAULT,
            contact: "postmaster".to_owned(),
            serial: None,
            refresh: "3H".to_owned(),
            retry: "30M".to_owned(),
            expire: "2W".to_owned(),
            minimum: "3M".to_owned(),
            name_servers: None,
        }
    }
}

/// A name server of the zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct NameServer {
    /// Its name, below the domain.
    pub name: String,
    /// Its address.
    pub address: Ip,
}

/// A record of the zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Record {
    /// The owner's name, below the domain; `@` is the domain itself.
    pub name: String,
    /// The address of a host.
    #[serde(default)]
    pub address: Option<Ip>,
    /// One address of each family, instead of `address`.
    #[serde(default)]
    #[schemars(extend("x-example" = "[\"192.168.7.11\", \"fd00:7::11\"]", "x-instead-of" = "address"))]
    pub addresses: Vec<Ip>,
    /// The type of another record.
    #[serde(default, rename = "type")]
    pub rtype: Option<String>,
    /// Its value, as in a zone file.
    #[serde(default)]
    pub value: Option<String>,
    /// The TTL in seconds, if it is not that of the zone.
    #[serde(default)]
    pub ttl: Option<Ttl>,
}

/// Time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Time {
    /// NTP servers outside the site: addresses or names. Without them the nodes agree on a time among themselves.
    #[schemars(extend("x-example" = "[\"ntp1.core.example\", \"192.0.2.123\"]"))]
    pub servers: Vec<String>,
    /// Whether timesync-agent corrects the clocks of the nodes. Set it to false for nodes that are containers: they share
    /// the clock of their host.
    pub correct_clock: bool,
}

impl Default for Time {
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            correct_clock: true,
        }
    }
}

//--- Virtual IPs and ports

/// A virtual IP.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Vip {
    /// Its name.
    pub name: String,
    /// The ports behind it. A `[[publish]]` names a plain one.
    #[serde(default)]
    pub role: VipRole,
    /// The address.
    #[serde(default)]
    pub address: Option<Ip>,
    /// One address of each family, instead of `address`.
    #[serde(default)]
    #[schemars(extend("x-example" = "[\"192.168.7.100\", \"fd00:7::100\"]", "x-instead-of" = "address"))]
    pub addresses: Vec<Ip>,
    /// The number of its virtual router (VRID). Outpost computes the default from the cluster's name; for the roles `"api"`
    /// and `"ingress"` as OpenShift does.
    #[serde(default)]
    #[schemars(extend("x-example" = "51"))]
    pub router_id: Option<RouterId>,
}

/// The ports behind a virtual IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum VipRole {
    /// The API server and the machine configuration server.
    Api,
    /// The routers.
    Ingress,
    /// Other ports.
    #[default]
    Plain,
}

/// A port of the site, and its names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Publish {
    /// Its name, for people.
    pub name: String,
    /// The port on the nodes. A node offers it while the port is up.
    #[serde(default)]
    pub port: Option<Port>,
    /// The port on which lb-proxy listens on the nodes, since `port` itself is in use there. Without it lb-proxy does not
    /// balance the port, and the names resolve to the nodes themselves.
    #[serde(default)]
    pub proxy_port: Option<Port>,
    /// Names below the domain; `"@"` is the domain itself.
    #[serde(default)]
    pub names: Option<Vec<String>>,
    /// The role of a `[[vip]]`: the names resolve to that virtual IP if there is one.
    #[serde(default)]
    pub role: Option<VipRole>,
    /// The name of a `[[vip]]`, instead of its role.
    #[serde(default)]
    #[schemars(extend("x-example" = "\"api\"", "x-instead-of" = "role"))]
    pub vip: Option<String>,
    /// The roles of the nodes that offer the port. The default is `["master"]`; that of the ingress is `["worker"]` in a site
    /// with workers, where OpenShift runs its routers. Clients reach those of them on which the port is up.
    #[serde(default)]
    #[schemars(extend("x-example" = "[\"master\"]"))]
    pub offered_by: Option<Vec<Role>>,
}

//--- Registry

/// The registry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Registry {
    /// Its names, below the domain.
    pub names: Vec<String>,
    /// The port for clients.
    pub port: Port,
    /// The port between the nodes.
    pub cluster_port: Port,
    /// The users who may push: a file of `htpasswd -B` or `registry-svc password`, relative to this file. Without it no
    /// client may push, unless the registry is `open`.
    #[schemars(extend("x-example" = "\"registry.users\""))]
    pub users: Option<PathBuf>,
    /// Whether clients may pull without a password. Without `users` they always may.
    pub anonymous_pull: bool,
    /// Whether every client may push and delete without a password, where there are no `users`. Without `open` and without
    /// `users` clients only pull: images come by mirrors, or by `registry-svc import` while the service is stopped.
    pub open: bool,
    /// The largest size of each repository whose name matches; the longest pattern decides. The registry refuses a push
    /// beyond it with 403.
    #[schemars(extend("x-example" = QUOTA))]
    pub quota: Vec<Quota>,
    /// Mirrors. The registry fetches what clients pull below `prefix` from the upstream, keeps it, and serves it also while
    /// the upstream does not answer.
    #[schemars(extend("x-example" = MIRROR))]
    pub mirror: Vec<Mirror>,
}

impl Default for Registry {
    fn default() -> Self {
        Self {
            names: vec!["registry".to_owned()],
            port: Port::REGISTRY,
            cluster_port: Port::REGISTRY_CLUSTER,
            users: None,
            anonymous_pull: true,
            open: false,
            quota: Vec::new(),
            mirror: Vec::new(),
        }
    }
}

/// The largest size of repositories.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Quota {
    /// The pattern of names. `*` matches within one component, `**` any number of components, `?` one character.
    pub repositories: String,
    /// The size.
    pub size: ByteSize,
}

/// A mirror of another registry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Mirror {
    /// The start of the names of its repositories here.
    pub prefix: String,
    /// The URL of the upstream registry.
    #[serde(default)]
    pub upstream: Option<String>,
    /// Several URLs, instead of `upstream`; the registry tries them in order.
    #[serde(default)]
    #[schemars(extend("x-example" = "[\"https://quay.example.com\", \"https://quay2.example.com\"]", "x-instead-of" = "upstream"))]
    pub upstreams: Vec<String>,
    /// The name by which containerd asks for the registry (`?ns=`). Requests with this name come here too, without the
    /// prefix.
    #[serde(default)]
    pub namespace: Option<String>,
    /// How long the registry serves a tag before it asks the upstream again.
    #[serde(default)]
    pub ttl: Option<HumanDuration>,
    /// A file with user:password, relative to this file.
    #[serde(default)]
    pub credentials: Option<PathBuf>,
    /// The authority that signs the upstream's certificate (PEM), relative to this file. Without it the registry trusts
    /// public authorities: `outpost image build --ca-bundle` puts them into the image.
    #[serde(default)]
    pub ca: Option<PathBuf>,
}

//--- The page

/// The site's page. It needs `users`, `client-ca` or `open`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Page {
    /// Its names, below the domain. They resolve to the nodes on which the page is up.
    pub names: Vec<String>,
    /// Its port on every node that runs healthd.
    pub port: Port,
    /// The users who may look: a file of `htpasswd -B` or `registry-svc password`, relative to this file.
    #[schemars(extend("x-example" = "\"page.users\""))]
    pub users: Option<PathBuf>,
    /// The authority whose clients may look, by their certificates (PEM), relative to this file. With `users` too, either is
    /// enough.
    #[schemars(extend("x-example" = "\"page-clients.crt\""))]
    pub client_ca: Option<PathBuf>,
    /// Whether every client may look, without a login.
    pub open: bool,
}

impl Default for Page {
    fn default() -> Self {
        Self {
            names: vec!["status".to_owned()],
            port: Port::PAGE,
            users: None,
            client_ca: None,
            open: false,
        }
    }
}

//--- Cluster

/// The Kubernetes cluster on the nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Cluster {
    /// A kubeconfig with its certificates and credentials in it, relative to this file. `outpost` puts it onto every node
    /// that runs clusterd, as `/etc/outpost/clusterd/kubeconfig`.
    pub kubeconfig: Option<PathBuf>,
    /// The file of a bearer token on the nodes, below `/etc/outpost/clusterd`. clusterd reads it again when it changes.
    #[schemars(extend("x-example" = "\"/etc/outpost/clusterd/token\"", "x-instead-of" = "kubeconfig"))]
    pub token_file: Option<PathBuf>,
    /// The file of the authorities of the API servers on the nodes (PEM), below `/etc/outpost/clusterd`. A token needs it; a
    /// kubeconfig has them itself.
    #[schemars(extend("x-example" = "\"/etc/outpost/clusterd/ca.crt\""))]
    pub ca_file: Option<PathBuf>,
    /// A directory of manifests on the nodes, below `/etc/outpost/clusterd`. clusterd follows its files, and asks no API.
    #[schemars(extend("x-example" = "\"/etc/outpost/clusterd/manifests\"", "x-instead-of" = "kubeconfig"))]
    pub manifests: Option<PathBuf>,
    /// The domain of the cluster. With this key dns-authd answers for the names of Services and endpoints, as CoreDNS does, and
    /// dns-recursor asks it for them, so that nodes and pods that ask dns-recursor get them. Without it the site does not know
    /// these names.
    #[schemars(extend("x-example" = "\"cluster.local\""))]
    pub domain: Option<String>,
    /// The networks of Services and pods whose addresses have names (PTR), with `domain`.
    #[schemars(extend("x-example" = "[\"172.30.0.0/16\", \"10.128.0.0/14\"]"))]
    pub reverse: Vec<Network>,
    /// The nodes of the cluster that join those of this file and leave them, as the cluster says: `masters` those of the
    /// API, `ingress` those of the ingress (the nodes that run a router of OpenShift), `workers` those of ports that workers
    /// offer. They join the servers of lb-proxy, and the nodes behind names of the zone that no virtual IP holds, such as `api` and
    /// `*.apps`; healthd probes them as the others. With `masters` they also get names `etcd-N` on OpenShift, and timesync-agent asks
    /// them for the time, fewer of them than of the file. A node joins with an address in `networks` of the site. Nodes of this file
    /// never leave. A cordoned node takes no new connections. Default: no nodes.
    #[schemars(extend("x-example" = "[\"masters\", \"ingress\"]"))]
    pub follow: Vec<ClusterNodes>,
    /// Whether dns-recursor takes the forwards of OpenShift's DNS operator (`dnses.operator.openshift.io`), and follows them. Zones
    /// that this file forwards, and `upstreams`, come first.
    pub forwards: bool,
    /// The addresses for Services of type `LoadBalancer`: `FIRST-LAST`, a network, or one address, each in a network of the
    /// site. clusterd gives a Service one of them, and lb-proxy holds it on a node. Without this key Services get none, and
    /// clusterd only reads. OpenShift gives addresses itself where its `networks.config` has `autoAssignCIDRs`: then write the same
    /// addresses in `follow-addresses`.
    #[schemars(extend("x-example" = "[\"192.168.7.200-192.168.7.220\"]"))]
    pub addresses: Vec<AddressRange>,
    /// Addresses that others give to Services, as OpenShift does: lb-proxy holds them, and clusterd gives none.
    #[schemars(extend("x-example" = "[\"192.168.7.32/27\"]"))]
    pub follow_addresses: Vec<AddressRange>,
    /// The destination of the traffic to these addresses: `kube-proxy` if the nodes forward it themselves, as seen from Kubernetes,
    /// `node-ports` or `endpoints` if lb-proxy connects to them.
    pub forward: ServiceForward,
}

/// The destination of the traffic to addresses of Services.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ServiceForward {
    /// lb-proxy holds the address alone.
    #[default]
    KubeProxy,
    /// To the port of the Service on the nodes.
    NodePorts,
    /// To the endpoints.
    Endpoints,
}

//--- Platform

/// How nodes run the services.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Platform {
    /// The release of OpenShift, 4.7 or later. It determines the release of podman. Without this key the site has no
    /// OpenShift.
    #[schemars(extend("x-example" = "\"4.18\""))]
    pub openshift: Option<Openshift>,
    /// The release of podman if it differs, or `"none"`: systemd then runs the services without containers. Without both keys
    /// `outpost render` writes quadlets for podman 4.4 or later.
    #[schemars(extend("x-example" = "\"5.2\""))]
    pub podman: Option<Podman>,
}

#[cfg(test)]
mod tests;
