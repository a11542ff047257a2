//! One object.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use cluster::{
    AddressType, Endpoint, EndpointPort, EndpointSlice, Ingress, IpFamily, Key, Kind, Meta,
    Namespace, Node, NodeAddress, Object, Protocol, Ready, Service, ServicePort, ServiceType,
    Taint, TargetPort,
};
use serde_json::Value;

use crate::fields::{self, Texts};

/// The label by which a slice names its Service.
const SERVICE_LABEL: &str = "kubernetes.io/service-name";

/// The annotations that are kept: those that name an address, a name or a pool for a Service. Everything else,
/// `kubectl.kubernetes.io/last-applied-configuration` first of all, is weight.
const ANNOTATIONS: [&str; 10] = [
    "coredns.io/",
    "external-dns.alpha.kubernetes.io/",
    "external-dns.kubernetes.io/",
    "keepalived-operator.redhat-cop.io/",
    "kube-vip.io/",
    "lbipam.cilium.io/",
    "metallb.io/",
    "metallb.universe.tf/",
    "outpost.",
    "service.beta.kubernetes.io/",
];

/// The longest value of a label or an annotation that is kept.
const LONGEST_TEXT: usize = 4096;
/// Labels, and annotations, of one object that are kept.
const MOST_TEXTS: usize = 128;
/// Kubernetes' own bound on endpoints of a slice; Endpoints of a manifest have it for each slice too.
const MOST_ENDPOINTS: usize = 1000;
/// The bound on the other lists of an object: ports, addresses, taints.
const MOST_ITEMS: usize = 1000;
/// The longest name (RFC 1123).
const LONGEST_NAME: usize = 253;

/// An object that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectError {
    /// The key, as far as it could be read.
    pub key: Option<Key>,
    /// Its name as people would look for it.
    pub name: String,
    /// The problem.
    pub problem: String,
}

impl fmt::Display for ObjectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cannot be read: {}", self.name, self.problem)
    }
}

impl std::error::Error for ObjectError {}

/// Reads an object of a kind. For other kinds than those of [`Kind`] there is [`crate::manifest`].
///
/// # Errors
///
/// When a field has another form or an illegal value.
pub fn read(kind: Kind, value: Value) -> Result<Object, ObjectError> {
    let key = key(kind, &value);
    let name = key
        .as_ref()
        .map_or_else(|| format!("a {kind} without a name"), ToString::to_string);
    let object = match kind {
        Kind::Node => fields::of(value).and_then(node),
        Kind::Namespace => fields::of(value).and_then(namespace),
        Kind::Service => fields::of(value).and_then(service),
        Kind::EndpointSlice => fields::of(value).and_then(slice),
        Kind::Dns => fields::of(value).and_then(dns),
    };
    object.map_err(|problem| ObjectError { key, name, problem })
}

/// The key of an object, also of one that cannot be read otherwise.
#[must_use]
pub fn key(kind: Kind, value: &Value) -> Option<Key> {
    let text = |path| value.pointer(path).and_then(Value::as_str);
    let name = text("/metadata/name").filter(|name| is_name(name))?;
    let namespace = text("/metadata/namespace").unwrap_or_default();
    let namespace = match kind.is_namespaced() {
        true => Some(namespace).filter(|namespace| is_name(namespace))?,
        false => "",
    };
    Some(Key {
        kind,
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    })
}

/// A DNS subdomain as Kubernetes means it (RFC 1123).
fn is_name(text: &str) -> bool {
    let is_letter =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    (1..=LONGEST_NAME).contains(&text.len()) && text.bytes().all(is_letter)
}

//--- Kinds

fn meta(metadata: fields::Metadata, kind: Kind) -> Result<Meta, String> {
    let fields::Metadata {
        name,
        namespace,
        uid,
        creation_timestamp,
        deletion_timestamp,
        labels,
        annotations,
        ..
    } = metadata;
    if !is_name(&name) {
        return Err(format!("metadata.name {name:?} is no name"));
    }
    if kind.is_namespaced() && !is_name(&namespace) {
        return Err(format!("metadata.namespace {namespace:?} is no name"));
    }
    let is_kept = |key: &str| ANNOTATIONS.iter().any(|prefix| key.starts_with(prefix));
    let mut annotations = annotations;
    annotations.retain(|key, _| is_kept(key));
    Ok(Meta {
        name,
        namespace: match kind.is_namespaced() {
            true => namespace,
            false => String::new(),
        },
        uid,
        created: creation_timestamp,
        deleting: !deletion_timestamp.is_empty(),
        labels: texts(labels),
        annotations: texts(annotations),
    })
}

/// The texts that are kept.
fn texts(texts: Texts) -> BTreeMap<String, String> {
    let texts = texts.into_iter().filter_map(|(key, value)| match value {
        Value::String(value) if value.len() <= LONGEST_TEXT => Some((key, value)),
        _ => None,
    });
    texts.take(MOST_TEXTS).collect()
}

fn node(node: fields::Node) -> Result<Object, String> {
    let fields::Node {
        metadata,
        spec,
        status,
    } = node;
    bounded("status.addresses", &status.addresses, MOST_ITEMS)?;
    bounded("spec.taints", &spec.taints, MOST_ITEMS)?;
    let condition = |name: &str| {
        let mut conditions = status.conditions.iter();
        let found = conditions.find(|condition| condition.r#type == name);
        found.map(|condition| condition.status.as_str())
    };
    let ready = match condition("Ready") {
        Some("True") => Ready::True,
        Some("False") => Ready::False,
        _ => Ready::Unknown,
    };
    let network_unavailable = condition("NetworkUnavailable") == Some("True");
    let addresses = status.addresses.into_iter().map(|address| NodeAddress {
        kind: address.r#type,
        address: address.address,
    });
    let taints = spec.taints.into_iter().map(|taint| Taint {
        key: taint.key,
        value: taint.value,
        effect: taint.effect,
    });
    Ok(Object::Node(Node {
        meta: meta(metadata, Kind::Node)?,
        addresses: addresses.collect(),
        ready,
        network_unavailable,
        unschedulable: spec.unschedulable,
        taints: taints.collect(),
    }))
}

fn namespace(namespace: fields::Namespace) -> Result<Object, String> {
    let meta = meta(namespace.metadata, Kind::Namespace)?;
    Ok(Object::Namespace(Namespace { meta }))
}

fn dns(dns: fields::Dns) -> Result<Object, String> {
    let meta = meta(dns.metadata, Kind::Dns)?;
    crate::dns::read(meta, dns.spec)
}

fn service(service: fields::Service) -> Result<Object, String> {
    let fields::Service {
        metadata,
        spec,
        status,
    } = service;
    let kind = match spec.r#type.as_str() {
        "" | "ClusterIP" => ServiceType::ClusterIP,
        "NodePort" => ServiceType::NodePort,
        "LoadBalancer" => ServiceType::LoadBalancer,
        "ExternalName" => ServiceType::ExternalName,
        other => return Err(format!("spec.type {other:?} is unknown")),
    };
    // Servers before 1.20 have `clusterIP` alone.
    let mut cluster_ips = spec.cluster_ips;
    if cluster_ips.is_empty() && !spec.cluster_ip.is_empty() {
        cluster_ips.push(spec.cluster_ip);
    }
    let headless = cluster_ips.first().is_some_and(|ip| ip == "None");
    if headless {
        cluster_ips.clear();
    }
    let families = spec.ip_families.iter().map(|family| match family.as_str() {
        "IPv4" => Ok(IpFamily::V4),
        "IPv6" => Ok(IpFamily::V6),
        other => Err(format!("spec.ipFamilies has {other:?}")),
    });
    let ports = bounded("spec.ports", &spec.ports, MOST_ITEMS)
        .and_then(|()| spec.ports.into_iter().map(service_port).collect())?;
    let ingress = status.load_balancer.ingress;
    bounded("status.loadBalancer.ingress", &ingress, MOST_ITEMS)?;
    Ok(Object::Service(Box::new(Service {
        meta: meta(metadata, Kind::Service)?,
        kind,
        headless,
        cluster_ips: addresses("spec.clusterIPs", &cluster_ips)?,
        ip_families: families.collect::<Result<_, _>>()?,
        ip_family_policy: spec.ip_family_policy,
        external_ips: addresses("spec.externalIPs", &spec.external_ips)?,
        external_name: spec.external_name,
        ports,
        selector: texts(spec.selector),
        publish_not_ready: spec.publish_not_ready_addresses,
        external_local: spec.external_traffic_policy == "Local",
        internal_local: spec.internal_traffic_policy == "Local",
        load_balancer_ip: spec.load_balancer_ip,
        load_balancer_class: spec.load_balancer_class,
        source_ranges: spec.load_balancer_source_ranges,
        allocates_node_ports: spec.allocate_load_balancer_node_ports.unwrap_or(true),
        health_check_node_port: port_or_none(
            "spec.healthCheckNodePort",
            spec.health_check_node_port,
        )?,
        ingress: ingress
            .into_iter()
            .map(ingress_point)
            .collect::<Result<_, _>>()?,
        client_affinity: spec.session_affinity == "ClientIP",
    })))
}

fn service_port(port: fields::ServicePort) -> Result<ServicePort, String> {
    let number = match port_or_none("spec.ports.port", port.port)? {
        0 => return Err("spec.ports has an entry without a port".to_owned()),
        number => number,
    };
    let target = match port.target_port {
        // A manifest leaves out what the API fills in.
        None => TargetPort::Number(number),
        Some(fields::Port::Name(name)) => TargetPort::Name(name),
        Some(fields::Port::Number(target)) => match port_or_none("targetPort", target)? {
            0 => TargetPort::Number(number),
            target => TargetPort::Number(target),
        },
    };
    Ok(ServicePort {
        name: port.name,
        protocol: protocol(&port.protocol)?,
        port: number,
        target,
        node_port: port_or_none("spec.ports.nodePort", port.node_port)?,
        app_protocol: port.app_protocol,
    })
}

fn ingress_point(ingress: fields::Ingress) -> Result<Ingress, String> {
    let ip = match ingress.ip.as_str() {
        "" => None,
        ip => Some(address("status.loadBalancer.ingress.ip", ip)?),
    };
    Ok(Ingress {
        ip,
        hostname: ingress.hostname,
        mode: ingress.ip_mode,
    })
}

fn slice(slice: fields::EndpointSlice) -> Result<Object, String> {
    bounded("endpoints", &slice.endpoints, MOST_ENDPOINTS)?;
    let address_type = match slice.address_type.as_str() {
        "IPv4" => AddressType::IPv4,
        "IPv6" => AddressType::IPv6,
        "FQDN" => AddressType::Fqdn,
        other => return Err(format!("addressType {other:?} is unknown")),
    };
    let meta = meta(slice.metadata, Kind::EndpointSlice)?;
    let endpoints = match address_type {
        AddressType::Fqdn => Vec::new(),
        _ => slice
            .endpoints
            .into_iter()
            .map(endpoint)
            .collect::<Result<_, _>>()?,
    };
    Ok(Object::EndpointSlice(EndpointSlice {
        service: meta.labels.get(SERVICE_LABEL).cloned().unwrap_or_default(),
        meta,
        address_type,
        endpoints,
        ports: endpoint_ports(slice.ports)?,
    }))
}

fn endpoint(endpoint: fields::Endpoint) -> Result<Endpoint, String> {
    let mut topology = endpoint.topology;
    let mut place = |given: String, label: &str| match (given.is_empty(), topology.remove(label)) {
        (true, Some(Value::String(text))) => text,
        _ => given,
    };
    let conditions = endpoint.conditions;
    Ok(Endpoint {
        addresses: addresses("endpoints.addresses", &endpoint.addresses)?,
        ready: conditions.ready.unwrap_or(true),
        // Servers before 1.20 do not say: an endpoint that is ready serves.
        serving: conditions
            .serving
            .unwrap_or_else(|| conditions.ready.unwrap_or(true)),
        terminating: conditions.terminating.unwrap_or(false),
        hostname: endpoint.hostname,
        node: place(endpoint.node_name, "kubernetes.io/hostname"),
        zone: place(endpoint.zone, "topology.kubernetes.io/zone"),
        pod: pod(&endpoint.target_ref),
    })
}

fn pod(target: &fields::TargetRef) -> String {
    match target.kind.as_str() {
        "Pod" => format!("{}/{}", target.namespace, target.name),
        _ => String::new(),
    }
}

fn endpoint_ports(ports: Vec<fields::EndpointPort>) -> Result<Vec<EndpointPort>, String> {
    bounded("ports", &ports, MOST_ITEMS)?;
    let ports = ports.into_iter().map(|port| {
        Ok(EndpointPort {
            name: port.name,
            protocol: protocol(&port.protocol)?,
            port: port_or_none("ports.port", port.port)?,
            app_protocol: port.app_protocol,
        })
    });
    ports.collect()
}

/// The slices of `v1` Endpoints: one for each subset and family that it has.
pub(crate) fn slices_of_endpoints(value: Value) -> Result<Vec<Object>, String> {
    let endpoints: fields::Endpoints = fields::of(value)?;
    let meta = meta(endpoints.metadata, Kind::EndpointSlice)?;
    bounded("subsets", &endpoints.subsets, MOST_ITEMS)?;
    let mut slices = Vec::new();
    for (number, subset) in (1..).zip(endpoints.subsets) {
        let ports = endpoint_ports(subset.ports)?;
        let ready = subset.addresses.into_iter().map(|address| (address, true));
        let unready = subset.not_ready_addresses.into_iter();
        let all = ready.chain(unready.map(|address| (address, false)));
        let all: Vec<Endpoint> = all
            .map(|(address, ready)| subset_endpoint(address, ready))
            .collect::<Result<_, _>>()?;
        bounded("subsets.addresses", &all, MOST_ENDPOINTS)?;
        let (v4, v6): (Vec<_>, Vec<_>) = all
            .into_iter()
            .partition(|endpoint| endpoint.addresses.iter().all(IpAddr::is_ipv4));
        for (family, address_type, endpoints) in [
            ("ipv4", AddressType::IPv4, v4),
            ("ipv6", AddressType::IPv6, v6),
        ] {
            if endpoints.is_empty() {
                continue;
            }
            slices.push(Object::EndpointSlice(EndpointSlice {
                service: meta.name.clone(),
                meta: Meta {
                    name: format!("{}-{number}-{family}", meta.name),
                    ..meta.clone()
                },
                address_type,
                endpoints,
                ports: ports.clone(),
            }));
        }
    }
    Ok(slices)
}

fn subset_endpoint(address: fields::SubsetAddress, ready: bool) -> Result<Endpoint, String> {
    Ok(Endpoint {
        addresses: vec![self::address("subsets.addresses.ip", &address.ip)?],
        ready,
        serving: ready,
        terminating: false,
        hostname: address.hostname,
        node: address.node_name,
        zone: String::new(),
        pod: pod(&address.target_ref),
    })
}

//--- Values

fn bounded<T>(what: &str, items: &[T], most: usize) -> Result<(), String> {
    match items.len() <= most {
        true => Ok(()),
        false => Err(format!(
            "{what} has {} entries; {most} are the most",
            items.len()
        )),
    }
}

fn addresses(what: &str, texts: &[String]) -> Result<Vec<IpAddr>, String> {
    bounded(what, texts, MOST_ITEMS)?;
    texts.iter().map(|text| address(what, text)).collect()
}

fn address(what: &str, text: &str) -> Result<IpAddr, String> {
    text.parse()
        .map_err(|_| format!("{what} has {text:?}, which is no IP address"))
}

/// A port; 0 when there is none.
fn port_or_none(what: &str, number: i64) -> Result<u16, String> {
    u16::try_from(number).map_err(|_| format!("{what} is {number}, which is no port"))
}

fn protocol(text: &str) -> Result<Protocol, String> {
    match text {
        "" | "TCP" => Ok(Protocol::Tcp),
        "UDP" => Ok(Protocol::Udp),
        "SCTP" => Ok(Protocol::Sctp),
        other => Err(format!("protocol {other:?} is unknown")),
    }
}
