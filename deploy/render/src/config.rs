//! From a [`Site`] and a [`Layout`] to the files that its services read.
//!
//! ```text
//! Site + Layout ──► render ──► files of one place: `outpost up` writes them below its run directory
//! Site + Node + Secrets ──► node ──► the same on a node, with its certificates and keys
//! ```
//!
//! Pure: the same site and layout give the same bytes. Nothing here writes a file, looks at this
//! machine or reads a clock; `crate::up` and the verb `render` write what is rendered.

mod clusterd;
mod dns_authd;
mod dns_recursor;
mod healthd;
pub mod layout;
pub mod lb_proxy;
mod lists;
mod node_file;
pub mod own_targets;
mod registry_svc;
mod reverse;
mod timesync_agent;
mod zone;
mod zone_list;

use std::error::Error;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

use ::config::renewal::Renewal;
use ::config::{Networks, Whole, Written};

use health::{Endpoint, HealthdArg};
use ipnet::IpNet;
use schemars::JsonSchema;
use serde::Serialize;

pub use self::layout::{Layout, Place};
pub use self::node_file::{NodeFile, Output, Part};
use site::facts;
use site::paths;
use site::secrets::Secrets;
use site::service::Service;
use site::{Node, Site};

/// A rendered file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Its name below [`Layout::directory`]; it may be in a directory there.
    pub name: String,
    /// The content.
    pub text: String,
    /// The service that reads it.
    pub service: Service,
}

/// Renders every file of the services that run in a place.
pub fn render(site: &Site, layout: &Layout) -> Vec<File> {
    let services = Service::ALL
        .into_iter()
        .filter(|service| layout.runs(*service));
    services
        .flat_map(|service| {
            let zones = match service {
                Service::DnsAuthd => zones(site),
                _ => Vec::new(),
            };
            let config = File {
                name: paths::config_name(service),
                text: configuration(service, site, layout),
                service,
            };
            [config].into_iter().chain(zones)
        })
        .collect()
}

/// Renders what a node of the site reads: the configuration of each of its services, its zones and
/// its certificates, in the order of their paths.
pub fn node(site: &Site, node: &Node, secrets: &Secrets) -> Vec<NodeFile> {
    let layout = Layout::of_node(site, node);
    let rendered = render(site, &layout).into_iter().map(|file| NodeFile {
        path: layout.directory_of(file.service).join(file.name),
        mode: READABLE,
        owner: None,
        contents: file.text.into_bytes(),
        part: Part::Service(file.service),
    });
    let mut files: Vec<NodeFile> = rendered.collect();
    files.extend(secret_files(site, node, secrets));
    files.sort_by(|one, other| one.path.cmp(&other.path));
    files
}

//--- Pieces

fn configuration(service: Service, site: &Site, layout: &Layout) -> String {
    match service {
        Service::Healthd => healthd::render(site, layout),
        Service::Clusterd => clusterd::render(site, layout),
        Service::DnsAuthd => dns_authd::render(site, layout),
        Service::DnsRecursor => dns_recursor::render(site, layout),
        Service::LbProxy => lb_proxy::render(site, layout),
        Service::RegistrySvc => registry_svc::render(site, layout),
        Service::TimesyncAgent => timesync_agent::render(site, layout),
    }
}

/// The kubeconfig of a node's clusterd, if the site file names one.
fn kubeconfig(node: &Node, secrets: &Secrets) -> Option<NodeFile> {
    let contents = secrets.kubeconfig.as_ref()?;
    let is_run = node.services.contains(&Service::Clusterd);
    is_run.then(|| private(Service::Clusterd, paths::kubeconfig(), contents))
}

/// The networks that may query: the node itself, the networks of the site, and those of its clients, such as
/// pods, whose own resolver asks the node's.
fn askers(site: &Site) -> Networks {
    let own = [
        IpNet::new_assert(Ipv4Addr::LOCALHOST.into(), 8).trunc(),
        IpNet::from(IpAddr::from(Ipv6Addr::LOCALHOST)),
    ];
    let networks = site.networks.iter().chain(&site.clients);
    let networks = networks.map(IpNet::trunc);
    own.into_iter().chain(networks).collect()
}

/// The zones of a site, and the list of them.
pub fn zones(site: &Site) -> Vec<File> {
    let reverse = reverse::zones(site);
    let names = reverse.iter().map(|zone| zone.name.as_str());
    let list = zone_list::render([site.domain.as_str()].into_iter().chain(names));
    let file = |name: String, text: String| File {
        name,
        text,
        service: Service::DnsAuthd,
    };
    let mut files = vec![
        file(zone_list::NAME.to_owned(), list),
        file(zone_list::file_name(&site.domain), zone::render(site)),
    ];
    for zone in &reverse {
        let text = reverse::render(site, zone);
        files.push(file(zone_list::file_name(&zone.name), text));
    }
    files
}

/// Certificates, keys and passwords, each where the one service that needs it reads it.
fn secret_files(site: &Site, node: &Node, secrets: &Secrets) -> Vec<NodeFile> {
    let mut files = Vec::new();
    if !secrets.authority.is_empty() {
        files.push(NodeFile {
            path: paths::CA.into(),
            mode: READABLE,
            owner: None,
            contents: secrets.authority.clone(),
            part: Part::Common,
        });
    }
    let has_registry = node.services.contains(&Service::RegistrySvc);
    let pair = secrets.nodes.get(&node.name);
    for service in [Service::Healthd, Service::RegistrySvc] {
        let is_verified = node.services.contains(&service) && !secrets.authority.is_empty();
        if is_verified {
            let path = paths::authority_of(service);
            let mut trusted = secrets.authority.clone();
            // The nodes refuse each other's revoked certificates; other clients of the authority have their own ways.
            trusted.extend(secrets.revoked.iter().flatten());
            files.push(readable(service, path, &trusted));
        }
        let has_key = match service {
            Service::Healthd => site.observes(node) || site.shows_page(node).is_some(),
            _ => has_registry,
        };
        if let Some(pair) = pair.filter(|_| has_key) {
            let path = paths::certificate_of(service);
            files.push(readable(service, path, &pair.certificate));
            files.push(private(service, paths::key_of(service), &pair.key));
        }
        files.extend(served(site, node, service, secrets));
    }
    for service in [Service::DnsAuthd, Service::DnsRecursor] {
        let secret = secrets.cookies.get(service.name());
        if let Some(secret) = secret.filter(|_| node.services.contains(&service)) {
            files.push(private(service, paths::cookie(service), secret));
        }
    }
    files.extend(kubeconfig(node, secrets));
    files.extend(page_files(site, node, secrets));
    if !has_registry {
        return files;
    }
    let registry = Service::RegistrySvc;
    for mirror in &site.registry.mirrors {
        let of = |named: &Option<PathBuf>| secrets.mirrors.get(named.as_ref()?);
        if let Some(password) = of(&mirror.credentials) {
            let path = paths::mirror_credentials(&mirror.prefix);
            files.push(private(registry, path, password));
        }
        if let Some(authority) = of(&mirror.ca) {
            let path = paths::mirror_authority(&mirror.prefix);
            files.push(readable(registry, path, authority));
        }
    }
    if site.registry.users.is_none() {
        return files;
    }
    if let Some(users) = &secrets.registry_users {
        files.push(private(registry, paths::registry_users(), users));
    }
    if let Some(key) = &secrets.registry_token_key {
        files.push(private(registry, paths::registry_token_key(), key));
    }
    files
}

/// The first certificate of a node for clients of a service, and all certificates for clients of the other nodes.
fn served(site: &Site, node: &Node, service: Service, secrets: &Secrets) -> Vec<NodeFile> {
    if !site.renews(service, node) {
        return Vec::new();
    }
    let first = secrets.first_served(&node.name);
    let path = paths::served_certificate_of(service);
    let first = first.map(|pem| readable(service, path, pem));
    let others = secrets
        .served
        .iter()
        .filter(|(name, _)| **name != node.name);
    let later = others.map(|(name, pem)| {
        let path = paths::later_certificates(service).join(format!("{name}.crt"));
        readable(service, path, pem)
    });
    first.into_iter().chain(later).collect()
}

/// The renewal of the certificate that clients of a service see.
fn renewal(site: &Site, node: &Node, service: Service) -> Option<Renewal> {
    let days = site
        .certificate_days
        .filter(|_| site.renews(service, node))?;
    Some(Renewal {
        days: Whole::clamped(i64::from(days)),
        certificate: paths::served_certificate_of(service),
        later: paths::later_certificates(service),
        renewed: paths::renewed_certificate_of(service),
    })
}

/// The certificate that clients of a service see.
fn shown_certificate(site: &Site, node: &Node, service: Service) -> PathBuf {
    match site.renews(service, node) {
        true => paths::served_certificate_of(service),
        false => paths::certificate_of(service),
    }
}

/// The users of the site's page, and the authority of its clients, where a node publishes it.
fn page_files(site: &Site, node: &Node, secrets: &Secrets) -> Vec<NodeFile> {
    let Some(page) = site.shows_page(node) else {
        return Vec::new();
    };
    let users = secrets.page_users.as_ref().filter(|_| page.users.is_some());
    let users = users.map(|users| private(Service::Healthd, paths::page_users(), users));
    let clients = secrets.page_clients.as_ref();
    let clients = clients.filter(|_| page.client_ca.is_some());
    let clients = clients.map(|ca| readable(Service::Healthd, paths::page_clients(), ca));
    users.into_iter().chain(clients).collect()
}

/// A file of a service without a secret in it: root's, so that the service cannot change it.
fn readable(service: Service, path: PathBuf, contents: &[u8]) -> NodeFile {
    NodeFile {
        path,
        mode: READABLE,
        owner: None,
        contents: contents.to_vec(),
        part: Part::Service(service),
    }
}

/// A secret of a service.
fn private(service: Service, path: PathBuf, contents: &[u8]) -> NodeFile {
    let user = facts::user(service).id;
    NodeFile {
        mode: PRIVATE,
        owner: Some((user, user)),
        ..readable(service, path, contents)
    }
}

/// The healthd of the node, as its subscribers name it.
fn endpoint(layout: &Layout) -> HealthdArg {
    let socket = in_utf8(&layout.healthd_socket);
    HealthdArg(
        layout
            .runs(Service::Healthd)
            .then_some(Endpoint::Unix(socket)),
    )
}

/// The file of a configuration, with its first line.
fn written<T: Serialize + JsonSchema>(service: Service, config: &T) -> Written {
    let head = format!("{service}, rendered by `outpost`.");
    match Written::new(config) {
        Ok(file) => file.head(&head),
        Err(error) => unwritten(service, &error),
    }
}

/// A file in the place of one that cannot be written: it says why, and the service names the key that is missing. No
/// value of a site leads here.
fn unwritten(service: Service, error: &impl Error) -> Written {
    Written::default().head(&format!("{service}, rendered by `outpost`. {error}"))
}

/// A path that a configuration can have: bytes that are no UTF-8 are replaced, and the service that reads it says that
/// there is no such file.
fn in_utf8(path: &Path) -> PathBuf {
    path.to_string_lossy().into_owned().into()
}

/// For everybody, as configurations are.
const READABLE: u32 = 0o644;
/// For its service alone.
const PRIVATE: u32 = 0o600;

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::time::Duration;

    use health::Schedule;

    use super::*;
    use site::service::PerService;

    /// A demonstration as `outpost up` lays it out.
    pub(super) fn demo() -> (Site, Layout) {
        let masters = [13, 14, 15].map(|last| [127, 0, 0, last].into());
        let site = Site::example().with_masters_at(&masters, |port| match port {
            443 => Some(8443),
            6443 | 5443 => Some(port),
            _ => None,
        });
        let at = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let layout = Layout {
            directory: "/run/user/1000/outpost-up".into(),
            state: "/run/user/1000/outpost-up/state".into(),
            healthd_socket: "/run/user/1000/outpost-up/healthd.sock".into(),
            clusterd_socket: "/run/user/1000/outpost-up/clusterd.sock".into(),
            manifests: None,
            swap_socket: "/run/user/1000/outpost-up/lb-proxy.swap".into(),
            dns: vec![at(5300)],
            authority: vec![at(5301)],
            authorities: vec![at(5301)],
            proxy: vec![at(0).ip()],
            registry: vec![at(5000)],
            time: vec![at(11_123)],
            admin: PerService {
                healthd: at(9401),
                clusterd: at(9407),
                dns_authd: at(9402),
                dns_recursor: at(9403),
                lb_proxy: at(9404),
                registry_svc: at(9405),
                timesync_agent: at(9406),
            },
            schedule: Schedule {
                interval: Duration::from_millis(500),
                ..Schedule::default()
            }
            .into(),
            drain: Duration::from_secs(2),
            upstreams: Vec::new(),
            forwards: Vec::new(),
            place: Place::Demonstration,
        };
        (site, layout)
    }

    #[test]
    fn every_configuration_is_toml_whatever_the_paths_are() {
        let (site, mut layout) = demo();
        layout.directory = "/tmp/a \"b\"\\c\n\u{7f}d".into();
        layout.healthd_socket = layout.directory.join("healthd.sock");
        let of_node = Layout::of_node(&site, &site.nodes[0]);
        let files = [render(&site, &layout), render(&site, &of_node)].concat();
        for file in files.iter().filter(|file| file.name.ends_with(".toml")) {
            let parsed: Result<toml::Table, _> = toml::from_str(&file.text);
            assert!(parsed.is_ok(), "{}: {:?}\n{}", file.name, parsed, file.text);
            assert_eq!(
                parsed.unwrap().get("version").and_then(toml::Value::as_str),
                Some("v1")
            );
        }
    }

    #[test]
    fn files_do_not_depend_on_anything_but_site_and_layout() {
        let (site, layout) = demo();
        assert_eq!(render(&site, &layout), render(&site, &layout));
    }

    #[test]
    fn a_node_has_files_for_what_it_runs() {
        let site = Site::example();
        let paths = |of: &Node| -> Vec<String> {
            let files = node(&site, of, &Secrets::made_up(&site));
            files
                .iter()
                .map(|file| file.path.display().to_string())
                .collect()
        };
        assert_eq!(
            paths(&site.nodes[0]),
            [
                "/etc/outpost/dns-authd/dns-authd.toml",
                "/etc/outpost/dns-authd/pki/cookie.secret",
                "/etc/outpost/dns-authd/zones/7.168.192.in-addr.arpa",
                "/etc/outpost/dns-authd/zones/ocp4.redhat.ren",
                "/etc/outpost/dns-authd/zones.conf",
                "/etc/outpost/dns-recursor/dns-recursor.toml",
                "/etc/outpost/dns-recursor/pki/cookie.secret",
                "/etc/outpost/healthd/healthd.toml",
                "/etc/outpost/healthd/pki/ca.crt",
                "/etc/outpost/healthd/pki/node.crt",
                "/etc/outpost/healthd/pki/node.key",
                "/etc/outpost/lb-proxy/lb-proxy.toml",
                "/etc/outpost/pki/ca.crt",
                "/etc/outpost/registry-svc/pki/ca.crt",
                "/etc/outpost/registry-svc/pki/node.crt",
                "/etc/outpost/registry-svc/pki/node.key",
                "/etc/outpost/registry-svc/registry-svc.toml",
                "/etc/outpost/timesync-agent/timesync-agent.toml",
            ]
        );
        assert_eq!(
            paths(&site.nodes[3]),
            [
                "/etc/outpost/pki/ca.crt",
                "/etc/outpost/timesync-agent/timesync-agent.toml"
            ]
        );
    }

    #[test]
    fn secrets_are_for_one_service_alone_and_each_node_has_its_own() {
        let mut site = Site::example();
        site.registry.users = Some("users".into());
        let files = node(&site, &site.nodes[1], &Secrets::made_up(&site));
        let private: Vec<(String, String)> = files
            .iter()
            .filter(|file| file.mode == 0o600)
            .map(|file| {
                let contents = String::from_utf8(file.contents.clone()).unwrap();
                let Part::Service(service) = file.part else {
                    panic!("{} is of no service", file.path.display());
                };
                let user = facts::user(service).id;
                assert_eq!(file.owner, Some((user, user)), "{}", file.path.display());
                assert!(file.path.starts_with(paths::etc(service)));
                (file.path.display().to_string(), contents)
            })
            .collect();
        let expected = [
            (
                "/etc/outpost/dns-authd/pki/cookie.secret",
                "cookie of dns-authd\n",
            ),
            (
                "/etc/outpost/dns-recursor/pki/cookie.secret",
                "cookie of dns-recursor\n",
            ),
            ("/etc/outpost/healthd/pki/node.key", "key of master-1\n"),
            (
                "/etc/outpost/registry-svc/pki/node.key",
                "key of master-1\n",
            ),
            ("/etc/outpost/registry-svc/pki/token.key", "token key\n"),
            ("/etc/outpost/registry-svc/users", "users\n"),
        ];
        assert_eq!(
            private,
            expected.map(|(path, text)| (path.to_owned(), text.to_owned()))
        );
        for file in files.iter().filter(|file| file.owner.is_none()) {
            assert_eq!(file.mode, 0o644, "{}", file.path.display());
        }
    }
}
