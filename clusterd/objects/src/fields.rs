//! The fields of Kubernetes' objects as they are written, trimmed to those that are read.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};

/// A field that is missing or `null` is empty.
fn lenient<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// Keys to texts; a value that is no text is left out, since labels and annotations of other tools do no harm.
pub(crate) type Texts = BTreeMap<String, serde_json::Value>;

macro_rules! fields {
    ($($(#[$note:meta])* $name:ident { $($(#[$attribute:meta])* $field:ident: $type:ty,)* })*) => {
        $(
            $(#[$note])*
            #[derive(Debug, Default, Deserialize)]
            #[serde(default, rename_all = "camelCase")]
            pub(crate) struct $name {
                $(
                    $(#[$attribute])*
                    #[serde(deserialize_with = "lenient")]
                    pub(crate) $field: $type,
                )*
            }
        )*
    };
}

fields! {
    Metadata {
        name: String,
        namespace: String,
        uid: String,
        resource_version: String,
        creation_timestamp: String,
        deletion_timestamp: String,
        labels: Texts,
        annotations: Texts,
    }
    Node {
        metadata: Metadata,
        spec: NodeSpec,
        status: NodeStatus,
    }
    NodeSpec {
        unschedulable: bool,
        taints: Vec<Taint>,
    }
    Taint {
        key: String,
        value: String,
        effect: String,
    }
    NodeStatus {
        addresses: Vec<NodeAddress>,
        conditions: Vec<Condition>,
    }
    NodeAddress {
        r#type: String,
        address: String,
    }
    Condition {
        r#type: String,
        status: String,
    }
    Namespace {
        metadata: Metadata,
    }
    Dns {
        metadata: Metadata,
        spec: DnsSpec,
    }
    DnsSpec {
        servers: Vec<DnsServer>,
        upstream_resolvers: DnsResolvers,
        cache: DnsCache,
        log_level: String,
    }
    DnsServer {
        name: String,
        zones: Vec<String>,
        forward_plugin: DnsPlugin,
    }
    DnsPlugin {
        upstreams: Vec<String>,
        policy: String,
        transport_config: DnsTransport,
        protocol_strategy: String,
    }
    DnsResolvers {
        upstreams: Vec<DnsResolver>,
        policy: String,
        transport_config: DnsTransport,
        protocol_strategy: String,
    }
    DnsResolver {
        r#type: String,
        address: String,
        port: Option<i64>,
    }
    DnsTransport {
        transport: String,
        tls: DnsTls,
    }
    DnsTls {
        server_name: String,
        ca_bundle: DnsBundle,
    }
    DnsBundle {
        name: String,
    }
    DnsCache {
        #[serde(rename = "positiveTTL")]
        positive_ttl: String,
        #[serde(rename = "negativeTTL")]
        negative_ttl: String,
    }
    Service {
        metadata: Metadata,
        spec: ServiceSpec,
        status: ServiceStatus,
    }
    ServiceSpec {
        r#type: String,
        #[serde(rename = "clusterIP")]
        cluster_ip: String,
        #[serde(rename = "clusterIPs")]
        cluster_ips: Vec<String>,
        ip_families: Vec<String>,
        ip_family_policy: String,
        #[serde(rename = "externalIPs")]
        external_ips: Vec<String>,
        external_name: String,
        ports: Vec<ServicePort>,
        selector: Texts,
        publish_not_ready_addresses: bool,
        external_traffic_policy: String,
        internal_traffic_policy: String,
        #[serde(rename = "loadBalancerIP")]
        load_balancer_ip: String,
        load_balancer_class: String,
        load_balancer_source_ranges: Vec<String>,
        allocate_load_balancer_node_ports: Option<bool>,
        health_check_node_port: i64,
        session_affinity: String,
    }
    ServicePort {
        name: String,
        protocol: String,
        port: i64,
        target_port: Option<Port>,
        node_port: i64,
        app_protocol: String,
    }
    ServiceStatus {
        load_balancer: LoadBalancer,
    }
    LoadBalancer {
        ingress: Vec<Ingress>,
    }
    Ingress {
        ip: String,
        hostname: String,
        ip_mode: String,
    }
    /// The slices of `v1` and of `v1beta1`, which has `topology` in place of `nodeName` and `zone`.
    EndpointSlice {
        metadata: Metadata,
        address_type: String,
        endpoints: Vec<Endpoint>,
        ports: Vec<EndpointPort>,
    }
    Endpoint {
        addresses: Vec<String>,
        conditions: Conditions,
        hostname: String,
        node_name: String,
        zone: String,
        topology: Texts,
        target_ref: TargetRef,
    }
    Conditions {
        ready: Option<bool>,
        serving: Option<bool>,
        terminating: Option<bool>,
    }
    TargetRef {
        kind: String,
        namespace: String,
        name: String,
    }
    EndpointPort {
        name: String,
        protocol: String,
        port: i64,
        app_protocol: String,
    }
    /// `v1` Endpoints, which manifests still have.
    Endpoints {
        metadata: Metadata,
        subsets: Vec<Subset>,
    }
    Subset {
        addresses: Vec<SubsetAddress>,
        not_ready_addresses: Vec<SubsetAddress>,
        ports: Vec<EndpointPort>,
    }
    SubsetAddress {
        ip: String,
        hostname: String,
        node_name: String,
        target_ref: TargetRef,
    }
}

/// A port by number or by name.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Port {
    Number(i64),
    Name(String),
}

/// Reads fields out of an object.
pub(crate) fn of<T: DeserializeOwned>(value: serde_json::Value) -> Result<T, String> {
    T::deserialize(value).map_err(|error| error.to_string())
}
