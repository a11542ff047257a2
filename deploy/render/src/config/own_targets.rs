//! The targets that show whether a node's own services work: healthd probes them, the status page shows them, and a
//! swap waits for them.
//!
//! A probe sends the query that clients send. A connection alone tells nothing here: systemd
//! holds the sockets and accepts for a service that is away.

use std::net::{IpAddr, SocketAddr};

use super::timesync_agent::gives_time;
use site::paths;
use site::service::Service;
use site::{Node, Site};

/// How one of a node's own services is probed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnTarget {
    /// The service.
    pub service: Service,
    /// The address to probe.
    pub address: SocketAddr,
    /// The probe.
    pub question: Question,
}

/// A probe of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// The SOA record of a name that exists.
    Dns {
        /// The name.
        name: String,
    },
    /// The time, from a clock that is synchronised.
    Ntp,
    /// A path in plain text, answered with 200.
    Http {
        /// The path.
        path: String,
    },
    /// A path over TLS, from a server with a certificate of the site's authority.
    Https {
        /// The name that the certificate is for.
        host: String,
        /// The path.
        path: String,
        /// The status of the answer.
        status: u16,
    },
}

/// The targets of a node's own services, in the order in which those start.
///
/// healthd is none of them: it cannot be told that it is away.
pub fn own_targets(site: &Site, node: &Node) -> Vec<OwnTarget> {
    let services = Service::ALL
        .into_iter()
        .filter(|service| node.services.contains(service));
    services
        .filter_map(|service| own_target(site, node, service))
        .collect()
}

fn own_target(site: &Site, node: &Node, service: Service) -> Option<OwnTarget> {
    let own: IpAddr = node.address();
    let dns = || Question::Dns {
        name: site.domain.clone(),
    };
    let (address, question) = match service {
        Service::Healthd => return None,
        Service::DnsAuthd => (paths::authority(), dns()),
        Service::DnsRecursor => (SocketAddr::new(own, paths::DNS_PORT), dns()),
        Service::Clusterd | Service::LbProxy => (paths::admin(service), ready()),
        Service::RegistrySvc => (
            SocketAddr::new(own, site.registry.port),
            Question::Https {
                host: format!("{}.{}", node.name, site.domain),
                path: "/v2/".to_owned(),
                status: version_status(site),
            },
        ),
        Service::TimesyncAgent if gives_time(node) => {
            (SocketAddr::new(own, paths::TIME_PORT), Question::Ntp)
        }
        // It answers no client.
        Service::TimesyncAgent => (paths::admin(service), ready()),
    };
    Some(OwnTarget {
        service,
        address,
        question,
    })
}

/// The probe of a service that has no clients of its own, or answers none by itself: whether it is ready.
fn ready() -> Question {
    Question::Http {
        path: "/readyz".to_owned(),
    }
}

/// The status of a registry's answer to `GET /v2/` without credentials: 401 if it has users.
fn version_status(site: &Site) -> u16 {
    if site.registry.users.is_some() {
        401
    } else {
        200
    }
}
