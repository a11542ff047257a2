//! The configuration of healthd.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ::config::healthd::{
    Exchange, Healthd, Kind, Listen, Override, Page, PageServices, PageTls, Target, Verify,
};
use ::config::lb_proxy::Role;
use ::config::nodes::{NodeFiles, Peer};
use ::config::{Address, Admin, AdminListen, DurationWithin, HumanDuration, Whole, at};

use super::layout::everywhere;
use super::lb_proxy::frontend_role;
use super::own_targets::{OwnTarget, Question, own_targets};
use super::{Layout, in_utf8, renewal, shown_certificate, written};
use site::paths;
use site::service::Service;
use site::{Node, Published, Site};

/// Renders the file.
///
/// It names the services of its own node alone: a service that needs another target asks for it.
pub(super) fn render(site: &Site, layout: &Layout) -> String {
    let targets = layout
        .node()
        .map_or_else(Vec::new, |node| own_targets(site, node));
    let config = Healthd {
        drain: HumanDuration(layout.drain),
        listen: listen(layout).into_iter().collect(),
        state: in_utf8(&layout.state.join("healthd")),
        admin: Admin {
            listen: AdminListen::At(*layout.admin.of(Service::Healthd)),
        },
        schedule: layout.schedule,
        overrides: api_schedules(site, layout),
        exchange: layout.node().and_then(|node| exchange(site, node)),
        renewal: layout
            .node()
            .and_then(|node| renewal(site, node, Service::Healthd)),
        page: Page {
            tls: layout.node().and_then(|node| published(site, node)),
            services: asked(layout),
        },
        target: targets.iter().map(target).collect(),
        ..Healthd::default()
    };
    let services = targets.iter().enumerate();
    let named = services.fold(
        written(Service::Healthd, &config),
        |file, (index, target)| {
            file.comment(&at!["target", index], &format!("{}.", target.service))
        },
    );
    let overrides = 0..config.overrides.len();
    let named = overrides.fold(named, |file, index| {
        let words = "API servers, as OpenShift has its own balancer probe them.";
        file.comment(&at!["override", index], words)
    });
    named.to_string()
}

/// The other nodes whose healthds exchange findings with that of this node.
fn exchange(site: &Site, node: &Node) -> Option<Exchange> {
    if !site.observes(node) {
        return None;
    }
    let files = NodeFiles {
        ca: paths::authority_of(Service::Healthd),
        certificate: paths::certificate_of(Service::Healthd),
        key: paths::key_of(Service::Healthd),
    };
    let peer = |peer: &Node| Peer {
        name: peer.name.clone(),
        address: SocketAddr::new(peer.address(), paths::EXCHANGE_PORT).to_string(),
    };
    let observers = site.observers().into_iter();
    let others = observers.filter(|other| other.name != node.name);
    Some(Exchange {
        peers: others.map(peer).collect(),
        ..Exchange::new(&node.name, files)
    })
}

/// The site's page as a node publishes it.
fn published(site: &Site, node: &Node) -> Option<PageTls> {
    let page = site.shows_page(node)?;
    let (certificate, key) = (
        shown_certificate(site, node, Service::Healthd),
        paths::key_of(Service::Healthd),
    );
    Some(PageTls {
        listen: everywhere(page.port).into_iter().map(Address).collect(),
        users: page.users.as_ref().map(|_| paths::page_users()),
        client_ca: page.client_ca.as_ref().map(|_| paths::page_clients()),
        open: page.open,
        ..PageTls::new(certificate, key)
    })
}

/// The services that the page asks: those of the node, where each is beside healthd.
fn asked(layout: &Layout) -> PageServices {
    let of = |service| (!layout.runs(service)).then_some(AdminListen::None);
    PageServices {
        dns_authd: of(Service::DnsAuthd),
        dns_recursor: of(Service::DnsRecursor),
        lb_proxy: of(Service::LbProxy),
        registry_svc: of(Service::RegistrySvc),
        timesync_agent: of(Service::TimesyncAgent),
        clusterd: of(Service::Clusterd),
    }
}

/// The schedules of API servers, which lb-proxy asks for `/readyz`.
///
/// OpenShift's own: a server is out after two failures 2 s apart, well within the 30 s that it has after `/readyz`
/// fails, and back after three good answers. A connection that fails is confirmed at once all the same.
fn api_schedules(site: &Site, layout: &Layout) -> Vec<Override> {
    if layout.node().is_none() {
        return Vec::new();
    }
    let asked = |published: &&Published| frontend_role(published) == Role::Api;
    let ports: BTreeSet<u16> = site
        .published
        .iter()
        .filter(asked)
        .map(|one| one.port)
        .collect();
    let each = ports.into_iter().map(|port| Override {
        kind: Some(Kind::Https),
        port: Some(Whole::clamped(i64::from(port))),
        fast_interval: Some(DurationWithin::clamped(API_FAST_INTERVAL)),
        timeout: Some(DurationWithin::clamped(API_TIMEOUT)),
        rise: Some(Whole::clamped(3)),
        fall: Some(Whole::clamped(2)),
        ..Override::default()
    });
    each.collect()
}

/// As HAProxy's `fastinter` there.
const API_FAST_INTERVAL: Duration = Duration::from_secs(2);

/// A loaded API server takes its time for `/readyz`.
const API_TIMEOUT: Duration = Duration::from_secs(2);

fn listen(layout: &Layout) -> Option<Listen> {
    let socket: PathBuf = in_utf8(&layout.healthd_socket);
    layout
        .runs(Service::Healthd)
        .then_some(Listen::Unix(socket))
}

fn target(own: &OwnTarget) -> Target {
    let of_kind = |kind| Target::new(kind, own.address);
    match &own.question {
        Question::Dns { name } => Target {
            name: Some(name.clone()),
            rcode: Some("NOERROR".to_owned()),
            ..of_kind(Kind::Dns)
        },
        Question::Ntp => of_kind(Kind::Ntp),
        Question::Http { path } => Target {
            path: Some(path.clone()),
            ..of_kind(Kind::Http)
        },
        Question::Https { host, path, status } => Target {
            path: Some(path.clone()),
            host: Some(host.clone()),
            status: Some(Whole::clamped(i64::from(*status))),
            verify: Some(Verify::Ca),
            ca_file: Some(paths::authority_of(Service::Healthd).display().to_string()),
            ..of_kind(Kind::Https)
        },
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::demo;
    use super::*;

    #[test]
    fn the_demonstration_is_this() {
        let (site, layout) = demo();
        assert_eq!(
            render(&site, &layout),
            r#"# healthd, rendered by `outpost`.
version = "v1"
drain = "2s"
listen = ["unix:/run/user/1000/outpost-up/healthd.sock"]
state = "/run/user/1000/outpost-up/state/healthd"

[schedule]
interval = "500ms"

[page.services]
clusterd = "none"
"#
        );
    }

    #[test]
    fn three_nodes_exchange_findings_and_two_have_no_majority() {
        let mut site = Site::example();
        let text = |site: &Site| render(site, &Layout::of_node(site, &site.nodes[1]));
        let three = text(&site);
        assert!(
            three.contains("[exchange]\nnode = \"master-1\"\n"),
            "{three}"
        );
        for (name, address) in [
            ("master-0", "192.168.7.13:5445"),
            ("master-2", "192.168.7.15:5445"),
        ] {
            let peer = format!("[[exchange.peers]]\nname = \"{name}\"\naddress = \"{address}\"\n");
            assert!(three.contains(&peer), "{three}");
        }
        assert!(
            three.contains("key = \"/etc/outpost/healthd/pki/node.key\"\n"),
            "{three}"
        );
        site.nodes[0].services.clear();
        assert!(!text(&site).contains("exchange"));
    }

    #[test]
    fn the_page_is_published_where_the_site_says_so_and_not_otherwise() {
        let mut site = Site::example();
        let text =
            |site: &Site, node: usize| render(site, &Layout::of_node(site, &site.nodes[node]));
        assert!(!text(&site, 0).contains("[page.tls]"));
        let page = site::Page {
            names: vec!["status".to_owned()],
            port: 8443,
            users: Some("page.users".into()),
            client_ca: None,
            open: false,
        };
        site.page = Some(page.clone());
        let with_users = text(&site, 0);
        let expected = "[page.tls]\nlisten = [\"0.0.0.0:8443\", \"[::]:8443\"]\n\
                        certificate = \"/etc/outpost/healthd/pki/node.crt\"\n\
                        key = \"/etc/outpost/healthd/pki/node.key\"\n\
                        users = \"/etc/outpost/healthd/users\"\n";
        assert!(with_users.contains(expected), "{with_users}");
        assert!(
            !text(&site, 3).contains("[page.tls]"),
            "a worker has no healthd"
        );
        site.page = Some(site::Page {
            users: None,
            client_ca: Some("clients.crt".into()),
            ..page
        });
        let with_clients = text(&site, 0);
        let expected = "client-ca = \"/etc/outpost/healthd/pki/page-clients.crt\"\n";
        assert!(with_clients.contains(expected), "{with_clients}");
        assert!(!with_clients.contains("users"), "{with_clients}");
    }

    #[test]
    fn a_node_probes_what_it_runs_and_nothing_else() {
        let mut site = Site::example();
        let all = render(&site, &Layout::of_node(&site, &site.nodes[0]));
        assert_eq!(all.matches("[[target]]").count(), 5, "{all}");
        site.nodes[0].services = vec![Service::Healthd, Service::TimesyncAgent];
        let few = render(&site, &Layout::of_node(&site, &site.nodes[0]));
        assert_eq!(few.matches("[[target]]").count(), 1, "{few}");
        assert!(
            few.contains("kind = \"ntp\"\naddress = \"192.168.7.13:123\"\n"),
            "{few}"
        );
    }
}
