//! The paths and addresses of Outpost on a node; no other place defines them.
//!
//! Configurations, units and the verbs that run on a node all take it from here. Nothing here
//! looks whether anything is there.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use crate::service::Service;
use crate::slot::Slot;

/// The configuration of a node. Rendered from the site file; nothing in it is state.
pub const ETC: &str = "/etc/outpost";
/// The authority of the site's certificates, for everybody on the node.
pub const CA: &str = "/etc/outpost/pki/ca.crt";

/// The files in which the nodes of a role differ, below the name of each node.
pub const NODES: &str = "/etc/outpost/nodes";

/// The part of the configuration that is a service's own: no other service can open it.
pub fn etc(service: Service) -> PathBuf {
    Path::new(ETC).join(service.name())
}

/// The certificates and keys of a service. Each service that needs the node's has its own copy.
fn pki(service: Service, name: &str) -> PathBuf {
    etc(service).join("pki").join(name)
}

/// A service's copy of the authority of the site's certificates.
pub fn authority_of(service: Service) -> PathBuf {
    pki(service, "ca.crt")
}

/// A service's copy of the node's certificate, with what leads to the authority.
pub fn certificate_of(service: Service) -> PathBuf {
    pki(service, "node.crt")
}

/// A service's copy of the node's first certificate for clients, where the nodes renew those.
pub fn served_certificate_of(service: Service) -> PathBuf {
    pki(service, "served.crt")
}

/// The directory of a service with the certificates for clients of the other nodes.
pub fn later_certificates(service: Service) -> PathBuf {
    pki(service, "later")
}

/// The newest certificate for clients that another node has given to a service.
pub fn renewed_certificate_of(service: Service) -> PathBuf {
    state(service).join("served.crt")
}

/// A service's copy of its key.
pub fn key_of(service: Service) -> PathBuf {
    pki(service, "node.key")
}

/// Users of the registry, as `htpasswd -B` writes them.
pub fn registry_users() -> PathBuf {
    etc(Service::RegistrySvc).join("users")
}

/// Users of the site's page, as `htpasswd -B` writes them.
pub fn page_users() -> PathBuf {
    etc(Service::Healthd).join("users")
}

/// The authority of the page's clients.
pub fn page_clients() -> PathBuf {
    pki(Service::Healthd, "page-clients.crt")
}

/// The key that signs the registry's tokens: the same on every node.
pub fn registry_token_key() -> PathBuf {
    pki(Service::RegistrySvc, "token.key")
}

/// The secret of a service's DNS cookies: the same on every node.
pub fn cookie(service: Service) -> PathBuf {
    pki(service, "cookie.secret")
}

/// The kubeconfig of clusterd.
pub fn kubeconfig() -> PathBuf {
    etc(Service::Clusterd).join("kubeconfig")
}

/// The credentials for a mirror's upstream.
pub fn mirror_credentials(prefix: &str) -> PathBuf {
    mirror(prefix, "credentials")
}

/// The authority of a mirror's upstream.
pub fn mirror_authority(prefix: &str) -> PathBuf {
    mirror(prefix, "crt")
}

/// No prefix has the sign that stands for its slashes: two mirrors never share a file.
fn mirror(prefix: &str, ending: &str) -> PathBuf {
    let name = prefix.replace('/', "+");
    pki(Service::RegistrySvc, &format!("mirror-{name}.{ending}"))
}

/// The state of a node; back it up.
pub const STATE: &str = "/var/lib/outpost";

/// Sockets, gone with the power.
pub const RUN: &str = "/run/outpost";
/// The socket of healthd.
pub const HEALTHD_SOCKET: &str = config::healthd::SOCKET;
/// The socket of clusterd.
pub const CLUSTERD_SOCKET: &str = config::clusterd::SOCKET;
/// The handover socket of lb-proxy.
pub const SWAP_SOCKET: &str = config::lb_proxy::SWAP_SOCKET;

/// The directory of a service's own sockets.
pub fn run(service: Service) -> PathBuf {
    Path::new(RUN).join(service.name())
}

/// The sockets at which services take changes; each has a directory of its own, which no other service sees.
pub const ADMIN_RUN: &str = "/run/outpost-admin";
/// The group of people who may use these sockets.
pub const OPERATORS: &str = "outpost-operators";

/// The directory of a service's admin sockets.
pub fn admin_directory(service: Service) -> PathBuf {
    Path::new(ADMIN_RUN).join(service.name())
}

/// The admin socket of the process in a slot.
pub fn admin_socket(service: Service, slot: Slot) -> PathBuf {
    admin_directory(service).join(format!("{slot}.sock"))
}

/// The DNS port of nodes.
pub const DNS_PORT: u16 = 53;
/// The NTP port of nodes.
pub const TIME_PORT: u16 = 123;
/// The directory of the socket that chronyc connects to.
pub const CHRONY_RUN: &str = "/run/chrony";
/// The socket for chronyc and programs with its protocol.
pub const CHRONY_SOCKET: &str = "/run/chrony/chronyd.sock";

/// The name of a service's configuration file.
pub fn config_name(service: Service) -> String {
    format!("{service}.toml")
}

/// The configuration of a service.
pub fn config(service: Service) -> PathBuf {
    etc(service).join(config_name(service))
}

/// The state of a service.
pub fn state(service: Service) -> PathBuf {
    let name = match service {
        Service::Healthd => "healthd",
        Service::Clusterd => "clusterd",
        Service::RegistrySvc => "registry",
        Service::TimesyncAgent => "timesync-agent",
        Service::DnsRecursor => "dns-recursor",
        Service::LbProxy => "lb-proxy",
        Service::DnsAuthd => "dns-authd",
    };
    Path::new(STATE).join(name)
}

/// The admin listener of a service.
pub fn admin(service: Service) -> SocketAddr {
    let port = match service {
        Service::Healthd => 9401,
        Service::DnsAuthd => 9402,
        Service::DnsRecursor => 9403,
        Service::LbProxy => 9404,
        Service::RegistrySvc => 9405,
        Service::TimesyncAgent => 9406,
        Service::Clusterd => config::clusterd::ADMIN_PORT,
    };
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)
}

/// The port on which healthd answers the healthds of other nodes.
pub const EXCHANGE_PORT: u16 = config::healthd::EXCHANGE_PORT;

/// The address on which dns-authd answers dns-recursor.
pub const AUTHORITY_PORT: u16 = 5301;

/// The address for the dns-recursor of its own node.
pub fn authority() -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), AUTHORITY_PORT)
}
