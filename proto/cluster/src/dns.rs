//! The object of OpenShift's DNS operator.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::meta::Meta;

/// `operator.openshift.io` DNS: the zones that a cluster forwards, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dns {
    /// The fields that every object has.
    pub meta: Meta,
    /// The zones with upstreams of their own.
    pub servers: Vec<DnsServer>,
    /// The upstreams of all other names.
    pub resolvers: DnsForward,
    /// The longest TTL of a kept answer, in seconds; `None` for the operator's default.
    pub positive_ttl: Option<u32>,
    /// The longest TTL of a kept denial, in seconds; `None` for the operator's default.
    pub negative_ttl: Option<u32>,
    /// `Normal`, `Debug` or `Trace`; may be empty.
    pub log_level: String,
}

/// Zones with upstreams of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DnsServer {
    /// The name of the entry, for people.
    pub name: String,
    /// The zones.
    pub zones: Vec<String>,
    /// Their upstreams.
    pub forward: DnsForward,
}

/// Upstreams, and how queries reach them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DnsForward {
    /// The upstreams in their order.
    pub upstreams: Vec<DnsUpstream>,
    /// The order in which they get queries.
    pub policy: DnsPolicy,
    /// Whether queries go over TCP only.
    pub is_tcp: bool,
    /// TLS, if queries go over it.
    pub tls: Option<DnsTls>,
}

/// An upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DnsUpstream {
    /// The name servers of the node (`SystemResolvConf`).
    System,
    /// This address.
    Address(SocketAddr),
}

/// The order of upstreams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum DnsPolicy {
    /// The first that answers.
    #[default]
    Sequential,
    /// In turn.
    RoundRobin,
    /// At random.
    Random,
}

/// TLS to upstreams.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DnsTls {
    /// The name that the certificates are verified for.
    pub server_name: String,
    /// The `ConfigMap` of the authorities; empty for those of the system.
    pub ca_bundle: String,
}
