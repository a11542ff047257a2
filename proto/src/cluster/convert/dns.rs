//! The object of OpenShift's DNS operator.

use ::cluster::{Dns, DnsForward, DnsPolicy, DnsServer, DnsTls, DnsUpstream, Meta};

use super::Unreadable;
use crate::wire::cluster as wire;

impl From<&Dns> for wire::Dns {
    fn from(dns: &Dns) -> Self {
        let servers = dns.servers.iter().map(|server| wire::DnsServer {
            name: server.name.clone(),
            zones: server.zones.clone(),
            forward: Some((&server.forward).into()),
        });
        Self {
            servers: servers.collect(),
            resolvers: Some((&dns.resolvers).into()),
            positive_ttl: dns.positive_ttl.unwrap_or(0),
            negative_ttl: dns.negative_ttl.unwrap_or(0),
            log_level: dns.log_level.clone(),
        }
    }
}

impl From<&DnsForward> for wire::DnsForward {
    fn from(forward: &DnsForward) -> Self {
        let upstreams = forward.upstreams.iter().map(|upstream| wire::DnsUpstream {
            address: match upstream {
                DnsUpstream::System => String::new(),
                DnsUpstream::Address(address) => address.to_string(),
            },
        });
        let policy = match forward.policy {
            DnsPolicy::Sequential => wire::DnsPolicy::Sequential,
            DnsPolicy::RoundRobin => wire::DnsPolicy::RoundRobin,
            DnsPolicy::Random => wire::DnsPolicy::Random,
        };
        Self {
            upstreams: upstreams.collect(),
            policy: policy.into(),
            tcp: forward.is_tcp,
            tls: forward.tls.as_ref().map(|tls| wire::DnsTls {
                server_name: tls.server_name.clone(),
                ca_bundle: tls.ca_bundle.clone(),
            }),
        }
    }
}

/// Reads the object.
pub(super) fn dns(meta: Meta, dns: wire::Dns) -> Result<Dns, Unreadable> {
    let servers = dns.servers.into_iter().map(|server| {
        Ok(DnsServer {
            name: server.name,
            zones: server.zones,
            forward: forward(server.forward)?,
        })
    });
    let ttl = |seconds| Some(seconds).filter(|seconds| *seconds > 0);
    Ok(Dns {
        meta,
        servers: servers.collect::<Result<_, Unreadable>>()?,
        resolvers: forward(dns.resolvers)?,
        positive_ttl: ttl(dns.positive_ttl),
        negative_ttl: ttl(dns.negative_ttl),
        log_level: dns.log_level,
    })
}

fn forward(forward: Option<wire::DnsForward>) -> Result<DnsForward, Unreadable> {
    let forward = forward.unwrap_or_default();
    let policy = match forward.policy() {
        wire::DnsPolicy::Sequential => DnsPolicy::Sequential,
        wire::DnsPolicy::RoundRobin => DnsPolicy::RoundRobin,
        wire::DnsPolicy::Random => DnsPolicy::Random,
    };
    let upstreams = forward.upstreams.iter().map(|upstream| {
        let address = &upstream.address;
        match address.is_empty() {
            true => Ok(DnsUpstream::System),
            false => address.parse().map(DnsUpstream::Address),
        }
    });
    let upstreams: Result<Vec<_>, _> = upstreams.collect();
    Ok(DnsForward {
        upstreams: upstreams.map_err(|_| Unreadable)?,
        policy,
        is_tcp: forward.tcp,
        tls: forward.tls.map(|tls| DnsTls {
            server_name: tls.server_name,
            ca_bundle: tls.ca_bundle,
        }),
    })
}
