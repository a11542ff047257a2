//! The configuration of clusterd.

use std::net::SocketAddr;
use std::path::PathBuf;

use ::config::clusterd::{Addresses, Api, Clusterd, IpMode, Pool};
use ::config::lb_proxy::Role;
use ::config::site::ServiceForward;
use ::config::{Admin, AdminListen, HumanDuration};

use super::lb_proxy::{SERVICE_POOL, frontend_role};
use super::{Layout, in_utf8, written};
use site::paths;
use site::service::Service;
use site::{Cluster, ClusterSource, Node, Site};

/// The port of API servers, where the site publishes none.
const API_PORT: u16 = 6443;

/// The name that the certificate of every API server has. Those of older masters lack the addresses of newer ones.
const SERVER_NAME: &str = "kubernetes.default.svc";

/// Renders the file.
pub(super) fn render(site: &Site, layout: &Layout) -> String {
    let source = site.cluster.as_ref().map(|cluster| &cluster.source);
    let manifests = match (layout.node(), source) {
        (None, _) => layout.manifests.as_deref().map(in_utf8),
        (Some(_), Some(ClusterSource::Manifests(directory))) => Some(in_utf8(directory)),
        (Some(_), _) => None,
    };
    let api = layout
        .node()
        .zip(site.cluster.as_ref())
        .filter(|_| manifests.is_none())
        .map(|(node, cluster)| api(site, node, cluster));
    let config = Clusterd {
        drain: HumanDuration(layout.drain),
        socket: in_utf8(&layout.clusterd_socket),
        state: in_utf8(&layout.state.join("clusterd")),
        manifests,
        admin: Admin {
            listen: AdminListen::At(*layout.admin.of(Service::Clusterd)),
        },
        api,
        addresses: addresses(site, layout),
        pool: pools(site),
        ..Clusterd::default()
    };
    written(Service::Clusterd, &config).to_string()
}

/// The addresses that clusterd gives to Services.
fn pools(site: &Site) -> Vec<Pool> {
    let cluster = site.cluster.as_ref();
    let addresses = cluster.map_or(&[][..], |cluster| &cluster.addresses);
    let pool = || Pool {
        name: SERVICE_POOL.to_owned(),
        addresses: addresses.to_vec(),
        automatic: true,
        namespaces: Vec::new(),
        avoid_buggy: false,
    };
    (!addresses.is_empty()).then(pool).into_iter().collect()
}

/// How they are given.
fn addresses(site: &Site, layout: &Layout) -> Addresses {
    let gives = !pools(site).is_empty();
    let forward = site.cluster.as_ref().map(|cluster| cluster.forward);
    Addresses {
        identity: layout
            .node()
            .filter(|_| gives)
            .map(|node| node.name.clone()),
        mode: match forward.filter(|_| gives) {
            None | Some(ServiceForward::KubeProxy) => IpMode::Vip,
            Some(ServiceForward::NodePorts | ServiceForward::Endpoints) => IpMode::Proxy,
        },
        ..Addresses::default()
    }
}

/// The API servers of the site, the node's own first, and the credentials for them.
fn api(site: &Site, node: &Node, cluster: &Cluster) -> Api {
    let mut published = site.published.iter();
    let port = published
        .find(|one| frontend_role(one) == Role::Api)
        .map_or(API_PORT, |one| one.port);
    let address = |master: &Node| format!("https://{}", SocketAddr::new(master.address(), port));
    let (kubeconfig, token_file, ca_file): (Option<PathBuf>, _, _) = match &cluster.source {
        ClusterSource::Token { token, authorities } => {
            (None, Some(in_utf8(token)), Some(in_utf8(authorities)))
        }
        ClusterSource::Kubeconfig(_) | ClusterSource::Manifests(_) => {
            (Some(paths::kubeconfig()), None, None)
        }
    };
    Api {
        kubeconfig,
        addresses: site.api_servers(node).into_iter().map(address).collect(),
        server_name: Some(SERVER_NAME.to_owned()),
        ca_file,
        token_file,
        dnses: cluster.forwards,
        ..Api::default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::demo;
    use super::*;

    fn site_from(source: ClusterSource) -> Site {
        let mut site = Site::example();
        site.cluster = Some(Cluster::new(source));
        for node in &mut site.nodes {
            node.services = Service::of(node.role, true);
        }
        site
    }

    fn of_master_1(site: &Site) -> String {
        render(site, &Layout::of_node(site, &site.nodes[1]))
    }

    #[test]
    fn a_master_asks_its_own_api_server_first() {
        let site = site_from(ClusterSource::Kubeconfig(Some("k".into())));
        assert_eq!(
            of_master_1(&site),
            r#"# clusterd, rendered by `outpost`.
version = "v1"

[api]
kubeconfig = "/etc/outpost/clusterd/kubeconfig"
addresses = ["https://192.168.7.14:6443", "https://192.168.7.15:6443", "https://192.168.7.13:6443"]
server-name = "kubernetes.default.svc"
"#
        );
    }

    #[test]
    fn the_port_is_that_of_the_published_api() {
        let mut site = site_from(ClusterSource::Kubeconfig(None));
        site.published[0].port = 7443;
        site.nodes[1].addresses = vec!["fd00:7::14".parse().unwrap()];
        let text = of_master_1(&site);
        let addresses = "addresses = [\"https://[fd00:7::14]:7443\", \"https://192.168.7.15:7443\"";
        assert!(text.contains(addresses), "{text}");
        site.published.clear();
        let text = of_master_1(&site);
        assert!(text.contains("\"https://192.168.7.15:6443\""), "{text}");
    }

    #[test]
    fn a_token_and_manifests_stand_for_the_kubeconfig() {
        let site = site_from(ClusterSource::Token {
            token: "/etc/outpost/clusterd/token".into(),
            authorities: "/etc/outpost/clusterd/ca.crt".into(),
        });
        let text = of_master_1(&site);
        assert!(
            text.contains("ca-file = \"/etc/outpost/clusterd/ca.crt\"\ntoken-file = \"/etc/outpost/clusterd/token\"\n"),
            "{text}"
        );
        assert!(!text.contains("kubeconfig"), "{text}");
        let site = site_from(ClusterSource::Manifests(
            "/etc/outpost/clusterd/manifests".into(),
        ));
        let text = of_master_1(&site);
        assert!(
            text.contains("manifests = \"/etc/outpost/clusterd/manifests\"\n")
                && !text.contains("[api]"),
            "{text}"
        );
    }

    #[test]
    fn a_demonstration_reads_manifests() {
        let (site, mut layout) = demo();
        layout.manifests = Some("/srv/manifests".into());
        assert_eq!(
            render(&site, &layout),
            r#"# clusterd, rendered by `outpost`.
version = "v1"
drain = "2s"
socket = "/run/user/1000/outpost-up/clusterd.sock"
state = "/run/user/1000/outpost-up/state/clusterd"
manifests = "/srv/manifests"
"#
        );
    }
}
