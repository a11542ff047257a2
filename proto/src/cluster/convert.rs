//! Between typed values and messages.

use std::net::IpAddr;

use ::cluster::{
    AddressType, Endpoint, EndpointPort, EndpointSlice, Freshness, Ingress, IpFamily, Key, Kind,
    Meta, Namespace, Node, NodeAddress, Object, Protocol, Ready, Service, ServicePort, ServiceType,
    Taint, TargetPort,
};

use crate::wire::cluster as wire;

mod dns;

/// A message that is no object: a kind that is unknown here, a text that is no address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the message is no object known here")]
pub struct Unreadable;

/// The kind of a number on the wire.
pub(super) fn kind(number: i32) -> Option<Kind> {
    match wire::Kind::try_from(number).ok()? {
        wire::Kind::Unspecified => None,
        wire::Kind::Node => Some(Kind::Node),
        wire::Kind::Namespace => Some(Kind::Namespace),
        wire::Kind::Service => Some(Kind::Service),
        wire::Kind::EndpointSlice => Some(Kind::EndpointSlice),
        wire::Kind::Dns => Some(Kind::Dns),
    }
}

macro_rules! same_names {
    ($($typed:ty, $wire:ty { $($one:ident = $other:ident),* $(,)? })*) => {
        $(
            impl From<$typed> for $wire {
                fn from(value: $typed) -> Self {
                    match value { $(<$typed>::$one => Self::$other,)* }
                }
            }

            impl From<$wire> for $typed {
                fn from(value: $wire) -> Self {
                    match value { $(<$wire>::$other => Self::$one,)* }
                }
            }
        )*
    };
}

same_names! {
    Freshness, wire::Freshness { Unread = Unread, Old = Old, Current = Current }
    Ready, wire::Condition { Unknown = Unknown, True = True, False = False }
    ServiceType, wire::ServiceType {
        ClusterIP = ClusterIp, NodePort = NodePort, LoadBalancer = LoadBalancer, ExternalName = ExternalName,
    }
    Protocol, wire::Protocol { Tcp = Tcp, Udp = Udp, Sctp = Sctp }
}

impl From<Kind> for wire::Kind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Node => Self::Node,
            Kind::Namespace => Self::Namespace,
            Kind::Service => Self::Service,
            Kind::EndpointSlice => Self::EndpointSlice,
            Kind::Dns => Self::Dns,
        }
    }
}

impl From<&Key> for wire::Key {
    fn from(key: &Key) -> Self {
        Self {
            kind: wire::Kind::from(key.kind).into(),
            namespace: key.namespace.clone(),
            name: key.name.clone(),
        }
    }
}

impl TryFrom<wire::Key> for Key {
    type Error = Unreadable;

    fn try_from(key: wire::Key) -> Result<Self, Unreadable> {
        Ok(Self {
            kind: kind(key.kind).ok_or(Unreadable)?,
            namespace: key.namespace,
            name: key.name,
        })
    }
}

//--- To the wire

impl From<&Object> for wire::Object {
    fn from(object: &Object) -> Self {
        let kind = match object {
            Object::Node(node) => wire::object::Kind::Node(node.into()),
            Object::Namespace(_) => wire::object::Kind::Namespace(wire::Namespace {}),
            Object::Service(service) => wire::object::Kind::Service((&**service).into()),
            Object::EndpointSlice(slice) => wire::object::Kind::EndpointSlice(slice.into()),
            Object::Dns(dns) => wire::object::Kind::Dns((&**dns).into()),
        };
        Self {
            meta: Some(object.meta().into()),
            kind: Some(kind),
        }
    }
}

impl From<&Meta> for wire::Meta {
    fn from(meta: &Meta) -> Self {
        Self {
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
            uid: meta.uid.clone(),
            created: meta.created.clone(),
            deleting: meta.deleting,
            labels: meta.labels.clone(),
            annotations: meta.annotations.clone(),
        }
    }
}

impl From<&Node> for wire::Node {
    fn from(node: &Node) -> Self {
        let addresses = node.addresses.iter().map(|address| wire::NodeAddress {
            kind: address.kind.clone(),
            address: address.address.clone(),
        });
        let taints = node.taints.iter().map(|taint| wire::Taint {
            key: taint.key.clone(),
            value: taint.value.clone(),
            effect: taint.effect.clone(),
        });
        Self {
            addresses: addresses.collect(),
            ready: wire::Condition::from(node.ready).into(),
            network_unavailable: node.network_unavailable,
            unschedulable: node.unschedulable,
            taints: taints.collect(),
        }
    }
}

impl From<&Service> for wire::Service {
    fn from(service: &Service) -> Self {
        let families = service.ip_families.iter().map(|family| match family {
            IpFamily::V4 => wire::Family::Ipv4.into(),
            IpFamily::V6 => wire::Family::Ipv6.into(),
        });
        let ingress = service.ingress.iter().map(|ingress| wire::Ingress {
            ip: ingress.ip.map(|ip| ip.to_string()).unwrap_or_default(),
            hostname: ingress.hostname.clone(),
            mode: ingress.mode.clone(),
        });
        Self {
            r#type: wire::ServiceType::from(service.kind).into(),
            headless: service.headless,
            cluster_ips: texts(&service.cluster_ips),
            ip_families: families.collect(),
            ip_family_policy: service.ip_family_policy.clone(),
            external_ips: texts(&service.external_ips),
            external_name: service.external_name.clone(),
            ports: service.ports.iter().map(wire::ServicePort::from).collect(),
            selector: service.selector.clone(),
            publish_not_ready: service.publish_not_ready,
            external_local: service.external_local,
            internal_local: service.internal_local,
            load_balancer_ip: service.load_balancer_ip.clone(),
            load_balancer_class: service.load_balancer_class.clone(),
            source_ranges: service.source_ranges.clone(),
            allocates_node_ports: service.allocates_node_ports,
            health_check_node_port: service.health_check_node_port.into(),
            ingress: ingress.collect(),
            client_affinity: service.client_affinity,
        }
    }
}

impl From<&ServicePort> for wire::ServicePort {
    fn from(port: &ServicePort) -> Self {
        let (target_port, target_name) = match &port.target {
            TargetPort::Number(number) => (u32::from(*number), String::new()),
            TargetPort::Name(name) => (0, name.clone()),
        };
        Self {
            name: port.name.clone(),
            protocol: wire::Protocol::from(port.protocol).into(),
            port: port.port.into(),
            target_port,
            target_name,
            node_port: port.node_port.into(),
            app_protocol: port.app_protocol.clone(),
        }
    }
}

impl From<&EndpointSlice> for wire::EndpointSlice {
    fn from(slice: &EndpointSlice) -> Self {
        let family = match slice.address_type {
            AddressType::IPv4 => wire::Family::Ipv4,
            AddressType::IPv6 => wire::Family::Ipv6,
            AddressType::Fqdn => wire::Family::Fqdn,
        };
        let endpoints = slice.endpoints.iter().map(|endpoint| wire::Endpoint {
            addresses: texts(&endpoint.addresses),
            ready: endpoint.ready,
            serving: endpoint.serving,
            terminating: endpoint.terminating,
            hostname: endpoint.hostname.clone(),
            node: endpoint.node.clone(),
            zone: endpoint.zone.clone(),
            pod: endpoint.pod.clone(),
        });
        let ports = slice.ports.iter().map(|port| wire::EndpointPort {
            name: port.name.clone(),
            protocol: wire::Protocol::from(port.protocol).into(),
            port: port.port.into(),
            app_protocol: port.app_protocol.clone(),
        });
        Self {
            service: slice.service.clone(),
            address_type: family.into(),
            endpoints: endpoints.collect(),
            ports: ports.collect(),
        }
    }
}

fn texts(addresses: &[IpAddr]) -> Vec<String> {
    addresses.iter().map(ToString::to_string).collect()
}

//--- From the wire

impl TryFrom<wire::Object> for Object {
    type Error = Unreadable;

    fn try_from(object: wire::Object) -> Result<Self, Unreadable> {
        let meta = object.meta.ok_or(Unreadable)?.into();
        Ok(match object.kind.ok_or(Unreadable)? {
            wire::object::Kind::Node(node) => Self::Node(self::node(meta, node)),
            wire::object::Kind::Namespace(_) => Self::Namespace(Namespace { meta }),
            wire::object::Kind::Service(service) => {
                Self::Service(Box::new(self::service(meta, service)?))
            }
            wire::object::Kind::EndpointSlice(slice) => {
                Self::EndpointSlice(self::slice(meta, slice)?)
            }
            wire::object::Kind::Dns(dns) => Self::Dns(Box::new(dns::dns(meta, dns)?)),
        })
    }
}

impl From<wire::Meta> for Meta {
    fn from(meta: wire::Meta) -> Self {
        Self {
            namespace: meta.namespace,
            name: meta.name,
            uid: meta.uid,
            created: meta.created,
            deleting: meta.deleting,
            labels: meta.labels,
            annotations: meta.annotations,
        }
    }
}

fn node(meta: Meta, node: wire::Node) -> Node {
    let ready = node.ready().into();
    let addresses = node.addresses.into_iter().map(|address| NodeAddress {
        kind: address.kind,
        address: address.address,
    });
    let taints = node.taints.into_iter().map(|taint| Taint {
        key: taint.key,
        value: taint.value,
        effect: taint.effect,
    });
    Node {
        meta,
        addresses: addresses.collect(),
        ready,
        network_unavailable: node.network_unavailable,
        unschedulable: node.unschedulable,
        taints: taints.collect(),
    }
}

fn service(meta: Meta, service: wire::Service) -> Result<Service, Unreadable> {
    let kind = service.r#type().into();
    let families = service.ip_families().filter_map(|family| match family {
        wire::Family::Ipv4 => Some(IpFamily::V4),
        wire::Family::Ipv6 => Some(IpFamily::V6),
        wire::Family::Unspecified | wire::Family::Fqdn => None,
    });
    let ip_families = families.collect();
    let ports = service.ports.into_iter().map(service_port);
    let ingress = service.ingress.into_iter().map(|ingress| {
        let ip = match ingress.ip.as_str() {
            "" => None,
            ip => Some(address(ip)?),
        };
        Ok(Ingress {
            ip,
            hostname: ingress.hostname,
            mode: ingress.mode,
        })
    });
    Ok(Service {
        meta,
        kind,
        headless: service.headless,
        cluster_ips: addresses(&service.cluster_ips)?,
        ip_families,
        ip_family_policy: service.ip_family_policy,
        external_ips: addresses(&service.external_ips)?,
        external_name: service.external_name,
        ports: ports.collect::<Result<_, _>>()?,
        selector: service.selector,
        publish_not_ready: service.publish_not_ready,
        external_local: service.external_local,
        internal_local: service.internal_local,
        load_balancer_ip: service.load_balancer_ip,
        load_balancer_class: service.load_balancer_class,
        source_ranges: service.source_ranges,
        allocates_node_ports: service.allocates_node_ports,
        health_check_node_port: port(service.health_check_node_port)?,
        ingress: ingress.collect::<Result<_, _>>()?,
        client_affinity: service.client_affinity,
    })
}

fn service_port(port: wire::ServicePort) -> Result<ServicePort, Unreadable> {
    let protocol = port.protocol().into();
    let target = match port.target_name.is_empty() {
        true => TargetPort::Number(self::port(port.target_port)?),
        false => TargetPort::Name(port.target_name),
    };
    Ok(ServicePort {
        name: port.name,
        protocol,
        port: self::port(port.port)?,
        target,
        node_port: self::port(port.node_port)?,
        app_protocol: port.app_protocol,
    })
}

fn slice(meta: Meta, slice: wire::EndpointSlice) -> Result<EndpointSlice, Unreadable> {
    let address_type = match slice.address_type() {
        wire::Family::Ipv4 => AddressType::IPv4,
        wire::Family::Ipv6 => AddressType::IPv6,
        wire::Family::Fqdn => AddressType::Fqdn,
        wire::Family::Unspecified => return Err(Unreadable),
    };
    let endpoints = slice.endpoints.into_iter().map(|endpoint| {
        Ok(Endpoint {
            addresses: addresses(&endpoint.addresses)?,
            ready: endpoint.ready,
            serving: endpoint.serving,
            terminating: endpoint.terminating,
            hostname: endpoint.hostname,
            node: endpoint.node,
            zone: endpoint.zone,
            pod: endpoint.pod,
        })
    });
    let ports = slice.ports.into_iter().map(|port| {
        let protocol = port.protocol().into();
        Ok(EndpointPort {
            name: port.name,
            protocol,
            port: self::port(port.port)?,
            app_protocol: port.app_protocol,
        })
    });
    Ok(EndpointSlice {
        meta,
        service: slice.service,
        address_type,
        endpoints: endpoints.collect::<Result<_, _>>()?,
        ports: ports.collect::<Result<_, _>>()?,
    })
}

fn addresses(texts: &[String]) -> Result<Vec<IpAddr>, Unreadable> {
    texts.iter().map(|text| address(text)).collect()
}

fn address(text: &str) -> Result<IpAddr, Unreadable> {
    text.parse().map_err(|_| Unreadable)
}

fn port(number: u32) -> Result<u16, Unreadable> {
    u16::try_from(number).map_err(|_| Unreadable)
}
