//! The trimmed objects.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::dns::Dns;
use crate::meta::Meta;

/// A kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// `v1` Node.
    Node,
    /// `v1` Namespace.
    Namespace,
    /// `v1` Service.
    Service,
    /// `discovery.k8s.io` `EndpointSlice`.
    EndpointSlice,
    /// `operator.openshift.io` DNS.
    Dns,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 5] = [
        Self::Node,
        Self::Namespace,
        Self::Service,
        Self::EndpointSlice,
        Self::Dns,
    ];

    /// The verbs of the API with which clusterd reads every kind, in the whole cluster; it uses no other one.
    pub const VERBS: [&'static str; 2] = ["list", "watch"];

    /// The name in lower case, as commands, metrics and the status have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Namespace => "namespace",
            Self::Service => "service",
            Self::EndpointSlice => "endpointslice",
            Self::Dns => "dns",
        }
    }

    /// The resource in the paths of the API.
    #[must_use]
    pub const fn resource(self) -> &'static str {
        match self {
            Self::Node => "nodes",
            Self::Namespace => "namespaces",
            Self::Service => "services",
            Self::EndpointSlice => "endpointslices",
            Self::Dns => "dnses",
        }
    }

    /// The API group; that of the core is empty.
    #[must_use]
    pub const fn group(self) -> &'static str {
        match self {
            Self::Node | Self::Namespace | Self::Service => "",
            Self::EndpointSlice => "discovery.k8s.io",
            Self::Dns => "operator.openshift.io",
        }
    }

    /// The name of the only object of this kind that counts; `None` if all do.
    #[must_use]
    pub const fn only(self) -> Option<&'static str> {
        match self {
            Self::Dns => Some("default"),
            Self::Node | Self::Namespace | Self::Service | Self::EndpointSlice => None,
        }
    }

    /// Whether a cluster may lack the kind, and clusterd reads it only when asked to.
    #[must_use]
    pub const fn is_optional(self) -> bool {
        matches!(self, Self::Dns)
    }

    /// Whether an object of this kind lies in a namespace.
    #[must_use]
    pub const fn is_namespaced(self) -> bool {
        matches!(self, Self::Service | Self::EndpointSlice)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Kind {
    type Err = UnknownKind;

    fn from_str(text: &str) -> Result<Self, UnknownKind> {
        let text = text.to_ascii_lowercase();
        let mut kinds = Self::ALL.into_iter();
        let found = kinds.find(|kind| kind.name() == text || kind.resource() == text);
        found.ok_or(UnknownKind(text))
    }
}

/// The text names no kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownKind(String);

impl fmt::Display for UnknownKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(text) = self;
        write!(
            f,
            "{text:?} is no kind: write node, namespace, service, endpointslice or dns"
        )
    }
}

impl std::error::Error for UnknownKind {}

/// The name of an object, which no other one has at the same time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Key {
    /// The kind.
    pub kind: Kind,
    /// The namespace; empty for kinds that lie in none.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl fmt::Display for Key {
    /// `service default/kubernetes`, `node master-0`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kind,
            namespace,
            name,
        } = self;
        match namespace.is_empty() {
            true => write!(f, "{kind} {name}"),
            false => write!(f, "{kind} {namespace}/{name}"),
        }
    }
}

/// A node of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// The fields that every object has.
    pub meta: Meta,
    /// The addresses, in the order of the API.
    pub addresses: Vec<NodeAddress>,
    /// The condition `Ready`.
    pub ready: Ready,
    /// Whether the condition `NetworkUnavailable` is true.
    pub network_unavailable: bool,
    /// Whether it is cordoned.
    pub unschedulable: bool,
    /// The taints.
    pub taints: Vec<Taint>,
}

/// An address of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeAddress {
    /// `InternalIP`, `ExternalIP`, `Hostname` …
    pub kind: String,
    /// An IP address or a name.
    pub address: String,
}

/// The status of a condition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ready {
    /// The API does not say.
    #[default]
    Unknown,
    /// It is.
    True,
    /// It is not.
    False,
}

/// A taint of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taint {
    /// The key.
    pub key: String,
    /// The value; may be empty.
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule`, `NoExecute`.
    pub effect: String,
}

/// A namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Namespace {
    /// The fields that every object has.
    pub meta: Meta,
}

/// A Service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "they are independent fields of the API"
)]
pub struct Service {
    /// The fields that every object has.
    pub meta: Meta,
    /// The type.
    pub kind: ServiceType,
    /// Whether its cluster IP is `None`: names lead to the endpoints.
    pub headless: bool,
    /// The cluster IPs, the first family first.
    pub cluster_ips: Vec<IpAddr>,
    /// The families, the first one first.
    pub ip_families: Vec<IpFamily>,
    /// `SingleStack`, `PreferDualStack`, `RequireDualStack`; empty where the server does not know it.
    pub ip_family_policy: String,
    /// The external IPs of the spec.
    pub external_ips: Vec<IpAddr>,
    /// The name that an `ExternalName` Service stands for.
    pub external_name: String,
    /// The ports.
    pub ports: Vec<ServicePort>,
    /// The labels that select its pods; empty for a Service without selector.
    pub selector: BTreeMap<String, String>,
    /// Whether endpoints that are not ready are published too.
    pub publish_not_ready: bool,
    /// Whether traffic from outside stays on the node that it came to (`externalTrafficPolicy: Local`).
    pub external_local: bool,
    /// Whether traffic from inside stays on its node (`internalTrafficPolicy: Local`).
    pub internal_local: bool,
    /// The address that its owner asks for (`spec.loadBalancerIP`).
    pub load_balancer_ip: String,
    /// The class of the load balancer; empty for the default one.
    pub load_balancer_class: String,
    /// The networks that may use the load balancer; empty for all.
    pub source_ranges: Vec<String>,
    /// Whether a load balancer gets node ports.
    pub allocates_node_ports: bool,
    /// The port at which a node says whether it has endpoints; 0 for none.
    pub health_check_node_port: u16,
    /// The addresses that a load balancer has given (`status.loadBalancer.ingress`).
    pub ingress: Vec<Ingress>,
    /// Whether a client stays with the endpoint that it has (`sessionAffinity: ClientIP`).
    #[serde(default)]
    pub client_affinity: bool,
}

/// The type of a Service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ServiceType {
    /// Reached inside the cluster.
    #[default]
    ClusterIP,
    /// At a port of every node too.
    NodePort,
    /// At an address of a load balancer too.
    LoadBalancer,
    /// Another name.
    ExternalName,
}

/// An address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum IpFamily {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// A transport protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Protocol {
    /// TCP.
    #[default]
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

impl Protocol {
    /// The name, as Kubernetes writes it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Sctp => "SCTP",
        }
    }
}

/// A port of a Service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServicePort {
    /// The name; empty when it is the only port.
    pub name: String,
    /// The protocol.
    pub protocol: Protocol,
    /// The port.
    pub port: u16,
    /// The port of the pods.
    pub target: TargetPort,
    /// The port of the nodes; 0 for none.
    pub node_port: u16,
    /// The protocol above, such as `kubernetes.io/h2c`; may be empty.
    pub app_protocol: String,
}

/// The port of the pods.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum TargetPort {
    /// A number.
    Number(u16),
    /// The name of a port of the pods.
    Name(String),
}

/// An address that a load balancer has given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ingress {
    /// The address.
    pub ip: Option<IpAddr>,
    /// A name in place of an address; may be empty.
    pub hostname: String,
    /// `VIP` or `Proxy`; empty where the server does not know it.
    pub mode: String,
}

/// A part of the endpoints of a Service, of one address family.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointSlice {
    /// The fields that every object has.
    pub meta: Meta,
    /// The Service in the same namespace that it belongs to; empty for none.
    pub service: String,
    /// The family of the addresses.
    pub address_type: AddressType,
    /// The endpoints.
    pub endpoints: Vec<Endpoint>,
    /// The ports of all of them.
    pub ports: Vec<EndpointPort>,
}

/// The family of a slice's addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AddressType {
    /// IPv4.
    IPv4,
    /// IPv6.
    IPv6,
    /// Names: such a slice has no endpoints here, since Kubernetes itself uses none.
    #[serde(rename = "FQDN")]
    Fqdn,
}

/// An endpoint: a pod, as a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// The addresses, which are the same endpoint.
    pub addresses: Vec<IpAddr>,
    /// Whether it takes traffic; true when the API does not say.
    pub ready: bool,
    /// Whether it still answers, though it may be terminating; true when the API does not say.
    pub serving: bool,
    /// Whether it is about to end; false when the API does not say.
    pub terminating: bool,
    /// The name below the Service's; may be empty.
    pub hostname: String,
    /// The node; may be empty.
    pub node: String,
    /// The zone; may be empty.
    pub zone: String,
    /// The pod, as `namespace/name`; empty for an endpoint without a pod.
    pub pod: String,
}

/// A port of a slice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointPort {
    /// The name, which is that of the Service's port; may be empty.
    pub name: String,
    /// The protocol.
    pub protocol: Protocol,
    /// The port; 0 for all of them.
    pub port: u16,
    /// The protocol above; may be empty.
    pub app_protocol: String,
}

/// An object of any kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "object", rename_all = "lowercase")]
pub enum Object {
    /// A node.
    Node(Node),
    /// A namespace.
    Namespace(Namespace),
    /// A Service.
    Service(Box<Service>),
    /// A part of a Service's endpoints.
    EndpointSlice(EndpointSlice),
    /// The zones that the cluster forwards.
    Dns(Box<Dns>),
}

impl Object {
    /// The kind.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Node(_) => Kind::Node,
            Self::Namespace(_) => Kind::Namespace,
            Self::Service(_) => Kind::Service,
            Self::EndpointSlice(_) => Kind::EndpointSlice,
            Self::Dns(_) => Kind::Dns,
        }
    }

    /// The fields that every object has.
    #[must_use]
    pub const fn meta(&self) -> &Meta {
        match self {
            Self::Node(node) => &node.meta,
            Self::Namespace(namespace) => &namespace.meta,
            Self::Service(service) => &service.meta,
            Self::EndpointSlice(slice) => &slice.meta,
            Self::Dns(dns) => &dns.meta,
        }
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> Key {
        let meta = self.meta();
        Key {
            kind: self.kind(),
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
        }
    }
}
