//! The configuration of registry-svc.

use std::net::SocketAddr;

use ::config::registry_svc::{
    Access, Anonymous, Certificate, Cluster, Mirror, NodeFiles, Peer, Quota, RegistrySvc, Space,
    Tls, Token, everywhere,
};
use ::config::{
    Address, Admin, AdminListen, ByteSize, HumanDuration, TextError, Whole, Written, at,
};

use super::{Layout, in_utf8, renewal, shown_certificate, unwritten, written};
use site::paths;
use site::service::Service;
use site::{Node, Site};

/// Renders the file.
pub(super) fn render(site: &Site, layout: &Layout) -> String {
    let file = match configuration(site, layout) {
        Ok(config) => commented(&config),
        Err(error) => unwritten(Service::RegistrySvc, &error),
    };
    file.to_string()
}

/// The configuration. An error means a mirror that no site file has.
fn configuration(site: &Site, layout: &Layout) -> Result<RegistrySvc, TextError> {
    let config = RegistrySvc {
        drain: HumanDuration(layout.drain),
        listen: layout.registry.iter().copied().map(Address).collect(),
        root: in_utf8(&layout.state.join("registry")),
        admin: Admin {
            listen: AdminListen::At(*layout.admin.of(Service::RegistrySvc)),
        },
        ..RegistrySvc::default()
    };
    match layout.node() {
        None => Ok(demonstration(config)),
        Some(node) => of_node(config, site, node),
    }
}

/// The file of a configuration, with comments on access.
fn commented(config: &RegistrySvc) -> Written {
    let file = written(Service::RegistrySvc, config);
    match (&config.access.htpasswd, config.access.anonymous) {
        (None, Some(Anonymous::All)) => file.comment(
            &at!["access"],
            "Every client that reaches the registry may pull, push and delete: it is open.",
        ),
        (None, _) => file.comment(
            &at!["access"],
            "Clients only pull: the site file names no users, and does not say that the registry is open.",
        ),
        (Some(_), _) => file.comment(
            &at!["access", "token"],
            "Each node accepts the tokens of every other.",
        ),
    }
}

/// A registry for everybody on this machine, without TLS, which clients accept from loopback.
fn demonstration(config: RegistrySvc) -> RegistrySvc {
    RegistrySvc {
        plain: true,
        access: Access {
            anonymous: Some(Anonymous::All),
            ..Access::default()
        },
        // A demonstration must work although the disk is nearly full.
        space: Space {
            warn: Whole::clamped(99),
            stop: Whole::clamped(100),
            free: ByteSize(64 << 20),
            reserve: ByteSize(0),
            quota: Vec::new(),
        },
        ..config
    }
}

fn of_node(config: RegistrySvc, site: &Site, node: &Node) -> Result<RegistrySvc, TextError> {
    let certificate = Certificate {
        certificate: shown_certificate(site, node, Service::RegistrySvc),
        key: paths::key_of(Service::RegistrySvc),
        names: Vec::new(),
    };
    Ok(RegistrySvc {
        tls: Some(Tls {
            certificates: vec![certificate],
            ..Tls::default()
        }),
        access: access(site),
        space: Space {
            quota: quotas(site),
            ..Space::default()
        },
        cluster: Some(cluster(site, node)),
        renewal: renewal(site, node, Service::RegistrySvc),
        mirror: site
            .registry
            .mirrors
            .iter()
            .map(mirror)
            .collect::<Result<_, _>>()?,
        ..config
    })
}

/// The access rules. Without users clients only pull, as the nodes' own pulls need; they push where the site says that
/// its registry is open.
fn access(site: &Site) -> Access {
    if site.registry.users.is_none() {
        return Access {
            anonymous: Some(match site.registry.open {
                true => Anonymous::All,
                false => Anonymous::Pull,
            }),
            ..Access::default()
        };
    }
    Access {
        htpasswd: Some(paths::registry_users()),
        anonymous: Some(match site.registry.anonymous_pull {
            true => Anonymous::Pull,
            false => Anonymous::None,
        }),
        token: Token {
            key: Some(paths::registry_token_key()),
            ..Token::default()
        },
        ..Access::default()
    }
}

/// The most that repositories may hold.
fn quotas(site: &Site) -> Vec<Quota> {
    let quota = |quota: &site::Quota| Quota {
        repositories: quota.repositories.clone(),
        size: ByteSize(quota.size),
    };
    site.registry.quotas.iter().map(quota).collect()
}

fn mirror(mirror: &site::Mirror) -> Result<Mirror, TextError> {
    let upstreams = mirror.upstreams.iter().map(|url| url.parse());
    let usual = Mirror::new(upstreams.collect::<Result<_, _>>()?, mirror.prefix.parse()?);
    let credentials = mirror.credentials.as_ref();
    let authority = mirror.ca.as_ref();
    Ok(Mirror {
        namespace: mirror.namespace.clone(),
        ttl: mirror.ttl.map_or(usual.ttl, HumanDuration),
        credentials: credentials.map(|_| paths::mirror_credentials(&mirror.prefix)),
        ca: authority.map(|_| paths::mirror_authority(&mirror.prefix)),
        ..usual
    })
}

/// The other nodes that have a registry. A node that stands alone has the table too: its journal contains its name
/// permanently, and others may join it.
fn cluster(site: &Site, node: &Node) -> Cluster {
    let port = site.registry.cluster_port;
    let files = NodeFiles {
        ca: paths::authority_of(Service::RegistrySvc),
        certificate: paths::certificate_of(Service::RegistrySvc),
        key: paths::key_of(Service::RegistrySvc),
    };
    let peers = site
        .nodes
        .iter()
        .filter(|peer| peer.name != node.name && peer.services.contains(&Service::RegistrySvc));
    let peer = |peer: &Node| Peer {
        name: peer.name.clone(),
        address: SocketAddr::new(peer.address(), port).to_string(),
    };
    Cluster {
        listen: everywhere(port).map(Address).to_vec(),
        peers: peers.map(peer).collect(),
        ..Cluster::new(&node.name, files)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::tests::demo;
    use super::*;
    use site::secrets::Secrets;

    #[test]
    fn the_registry_is_on_loopback_and_in_the_run_directory() {
        let (site, layout) = demo();
        assert_eq!(
            render(&site, &layout),
            r#"# registry-svc, rendered by `outpost`.
version = "v1"
listen = ["127.0.0.1:5000"]
plain = true
root = "/run/user/1000/outpost-up/state/registry"
drain = "2s"

# Every client that reaches the registry may pull, push and delete: it is open.
[access]
anonymous = "all"

[space]
warn = 99
stop = 100
free = "64MiB"
reserve = "0"
"#
        );
    }

    #[test]
    fn users_are_asked_for_and_pulls_are_let_through_as_the_site_says() {
        let mut site = Site::example();
        site.registry.users = Some("users".into());
        for (anonymous_pull, word) in [(true, "pull"), (false, "none")] {
            site.registry.anonymous_pull = anonymous_pull;
            let text = render(&site, &Layout::of_node(&site, &site.nodes[0]));
            assert!(
                text.contains(&format!("anonymous = \"{word}\"\n")),
                "{text}"
            );
            assert!(
                text.contains("key = \"/etc/outpost/registry-svc/pki/token.key\""),
                "{text}"
            );
        }
    }

    #[test]
    fn without_users_clients_only_pull_unless_the_registry_is_open() {
        let mut site = Site::example();
        for (open, word) in [(false, "pull"), (true, "all")] {
            site.registry.open = open;
            let text = render(&site, &Layout::of_node(&site, &site.nodes[0]));
            let line = format!("[access]\nanonymous = \"{word}\"\n");
            assert!(text.contains(&line), "{text}");
        }
    }

    #[test]
    fn what_a_mirror_needs_lies_on_the_node_and_its_password_for_the_service_alone() {
        let mut site = Site::example();
        site.registry.mirrors = vec![site::Mirror {
            upstreams: vec!["https://hub.example.net".to_owned()],
            prefix: "mirror/hub".to_owned(),
            namespace: None,
            ttl: None,
            credentials: Some("a".into()),
            ca: Some("b".into()),
        }];
        let secrets = Secrets {
            mirrors: [
                ("a".into(), b"secret".to_vec()),
                ("b".into(), b"authority".to_vec()),
            ]
            .into(),
            ..Secrets::default()
        };
        let text = render(&site, &Layout::of_node(&site, &site.nodes[0]));
        let files = super::super::node(&site, &site.nodes[0], &secrets);
        for (key, name, contents, mode) in [
            (
                "credentials",
                "mirror-mirror+hub.credentials",
                "secret",
                0o600,
            ),
            ("ca", "mirror-mirror+hub.crt", "authority", 0o644),
        ] {
            let place = format!("/etc/outpost/registry-svc/pki/{name}");
            assert!(text.contains(&format!("{key} = \"{place}\"\n")), "{text}");
            let file = files
                .iter()
                .find(|file| file.path == Path::new(&place))
                .unwrap();
            assert_eq!(
                (file.contents.as_slice(), file.mode),
                (contents.as_bytes(), mode)
            );
        }
    }

    #[test]
    fn peers_are_the_other_nodes_that_have_a_registry() {
        let mut site = Site::example();
        site.nodes[2].services.clear();
        let text = render(&site, &Layout::of_node(&site, &site.nodes[1]));
        assert!(text.contains("node = \"master-1\"\n"), "{text}");
        assert!(
            text.contains(
                "[[cluster.peers]]\nname = \"master-0\"\naddress = \"192.168.7.13:5444\"\n"
            ),
            "{text}"
        );
        assert_eq!(text.matches("[[cluster.peers]]").count(), 1, "{text}");
    }
}
