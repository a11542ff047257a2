//! From a [`Site`] and a [`Layout`] to the files that its services read.
//!
//! Pure: the same site and layout give the same bytes. Nothing here writes a file, looks at this
//! machine or reads a clock; [`crate::up`] writes what is rendered.

mod dns_authd;
mod dns_recursor;
mod healthd;
mod lb_proxy;
#[expect(dead_code, reason = "made by the verb that renders nodes")]
mod node_file;
#[expect(dead_code, reason = "asked by the verb that renders nodes")]
pub(crate) mod places;
mod registry_svc;
mod timesync_agent;
mod zone;

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use config_text::toml::{duration, quoted};

#[expect(unused_imports, reason = "made by the verb that renders nodes")]
pub(crate) use self::node_file::{NodeFile, Part};
use crate::secrets::Secrets;
use crate::service::{PerService, Service};
use crate::site::{Node, Site};

/// Where the services of one node listen and keep their files, and what differs between a node
/// and a demonstration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Where the rendered files lie. Absolute.
    pub(crate) directory: PathBuf,
    /// Where services keep state. Absolute.
    pub(crate) state: PathBuf,
    /// The socket of healthd.
    pub(crate) healthd_socket: PathBuf,
    /// Where a new lb-proxy asks the old one for its connections.
    pub(crate) swap_socket: PathBuf,
    /// Where dns-recursor listens.
    pub(crate) dns: SocketAddr,
    /// Where dns-authd listens.
    pub(crate) authority: SocketAddr,
    /// Where lb-proxy listens, on the port of whatever the masters offer.
    pub(crate) proxy: IpAddr,
    /// Where registry-svc listens, in plain text: what the masters offer as registry leads there.
    pub(crate) registry: SocketAddr,
    /// Where timesync-agent answers.
    pub(crate) time: SocketAddr,
    /// The admin listeners.
    pub(crate) admin: PerService<SocketAddr>,
    /// How often each port of each master is probed.
    pub(crate) probe_interval: Duration,
    /// How long a service may take to finish what has begun.
    pub(crate) drain: Duration,
    /// Servers that resolve names outside the site. Empty: such names are refused at once.
    pub(crate) upstreams: Vec<SocketAddr>,
}

/// A rendered file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct File {
    /// Its name below [`Layout::directory`].
    pub(crate) name: String,
    /// What is in it.
    pub(crate) text: String,
}

/// Renders every file of a site's node.
pub(crate) fn render(site: &Site, layout: &Layout) -> Vec<File> {
    let mut files = vec![File {
        name: zone_name(site),
        text: zone::render(site),
    }];
    for service in Service::ALL {
        let text = match service {
            Service::Healthd => healthd::render(layout),
            Service::DnsAuthd => dns_authd::render(site, layout),
            Service::DnsRecursor => dns_recursor::render(site, layout),
            Service::LbProxy => lb_proxy::render(site, layout),
            Service::RegistrySvc => registry_svc::render(layout),
            Service::TimesyncAgent => timesync_agent::render(layout),
        };
        files.push(File {
            name: config_name(service),
            text,
        });
    }
    files
}

/// Renders what a node of the site reads: the configuration of each of its services, its zones and
/// its certificates, in the order of their paths.
#[expect(dead_code, reason = "asked by the verb that renders nodes")]
pub(crate) fn node(_site: &Site, _node: &Node, _secrets: &Secrets) -> Vec<NodeFile> {
    Vec::new()
}

/// The name of a service's configuration file.
pub(crate) fn config_name(service: Service) -> String {
    format!("{service}.toml")
}

/// The name of the zone's master file.
fn zone_name(site: &Site) -> String {
    format!("{}.zone", site.domain)
}

/// The lines that every configuration begins with: no table is open after them.
fn head(service: Service, layout: &Layout) -> String {
    format!(
        "# {service}, rendered by `outpost`.\nversion = \"v1\"\ndrain = {}\n",
        duration(layout.drain)
    )
}

/// The table of the admin listener.
fn admin(service: Service, layout: &Layout) -> String {
    format!(
        "\n[admin]\nlisten = {}\n",
        quoted(&layout.admin.of(service).to_string())
    )
}

/// The healthd of the node, as its subscribers name it.
fn endpoint(layout: &Layout) -> String {
    format!("unix:{}", layout.healthd_socket.display())
}

//--- TOML

/// A path. One that is no UTF-8 cannot be written in TOML; its wrong bytes are replaced, and the
/// service that reads it says that there is no such file.
fn path(path: &Path) -> String {
    quoted(&path.to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A demonstration as `outpost up` lays it out.
    pub(super) fn demo() -> (Site, Layout) {
        let masters = [13, 14, 15].map(|last| [127, 0, 0, last].into());
        let site = Site::example().with_masters_at(&masters, |port| match port {
            443 => Some(8443),
            5443 | 6443 => Some(port),
            _ => None,
        });
        let at = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let layout = Layout {
            directory: "/run/user/1000/outpost-up".into(),
            state: "/run/user/1000/outpost-up/state".into(),
            healthd_socket: "/run/user/1000/outpost-up/healthd.sock".into(),
            swap_socket: "/run/user/1000/outpost-up/lb-proxy.swap".into(),
            dns: at(5300),
            authority: at(5301),
            proxy: at(0).ip(),
            registry: at(5000),
            time: at(11_123),
            admin: PerService {
                healthd: at(9401),
                dns_authd: at(9402),
                dns_recursor: at(9403),
                lb_proxy: at(9404),
                registry_svc: at(9405),
                timesync_agent: at(9406),
            },
            probe_interval: Duration::from_millis(500),
            drain: Duration::from_secs(2),
            upstreams: Vec::new(),
        };
        (site, layout)
    }

    #[test]
    fn every_configuration_is_toml_whatever_the_paths_are() {
        let (site, mut layout) = demo();
        layout.directory = "/tmp/a \"b\"\\c\n\u{7f}d".into();
        layout.healthd_socket = layout.directory.join("healthd.sock");
        for file in render(&site, &layout)
            .iter()
            .filter(|file| file.name.ends_with(".toml"))
        {
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
}
