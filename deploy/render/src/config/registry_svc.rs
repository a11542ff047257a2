//! The configuration of registry-svc.

use std::net::SocketAddr;

use config_text::toml::{duration, list, quoted, size};

use super::{Layout, admin, head, path};
use site::places;
use site::service::Service;
use site::{Mirror, Node, Quota, Site};

/// Renders the file.
pub(super) fn render(site: &Site, layout: &Layout) -> String {
    let head = [
        head(Service::RegistrySvc, layout),
        format!("listen = {}\n", list(&layout.registry)),
        format!("root = {}\n", path(&layout.state.join("registry"))),
    ]
    .concat();
    let rest = match layout.node() {
        None => demonstration(layout),
        Some(node) => [
            admin(Service::RegistrySvc, layout),
            tls(),
            access(site),
            quotas(site),
            cluster(site, node),
            mirrors(site),
        ]
        .concat(),
    };
    head + &rest
}

/// A registry for everybody on this machine, without TLS, which clients accept from loopback.
fn demonstration(layout: &Layout) -> String {
    [
        "plain = true\n".to_owned(),
        admin(Service::RegistrySvc, layout),
        // A demonstration must work although the disk is nearly full.
        "\n[space]\nwarn = 99\nstop = 100\nfree = \"64MiB\"\nreserve = \"0\"\n".to_owned(),
    ]
    .concat()
}

fn tls() -> String {
    format!(
        "\n[tls]\ncertificates = [{{ certificate = {}, key = {} }}]\n",
        quoted(places::CERTIFICATE),
        quoted(places::KEY)
    )
}

/// The access rules. A registry without users is open to every client, as the nodes' own pulls need.
fn access(site: &Site) -> String {
    if site.registry.users.is_none() {
        return "\n# Whoever reaches the registry may pull and push: the site file names no users.\n[access]\nanonymous = \"all\"\n".to_owned();
    }
    let anonymous = if site.registry.anonymous_pull {
        "pull"
    } else {
        "none"
    };
    format!(
        "\n[access]\nhtpasswd = {}\nanonymous = \"{anonymous}\"\n\n# Tokens of one node are good at every other.\n[access.token]\nkey = {}\n",
        quoted(places::REGISTRY_USERS),
        quoted(places::REGISTRY_TOKEN_KEY)
    )
}

/// The most that repositories may hold.
fn quotas(site: &Site) -> String {
    let quota = |quota: &Quota| {
        format!(
            "\n[[space.quota]]\nrepositories = {}\nsize = {}\n",
            quoted(&quota.repositories),
            size(quota.size)
        )
    };
    site.registry.quotas.iter().map(quota).collect()
}

/// The mirrors.
fn mirrors(site: &Site) -> String {
    let mirror = |mirror: &Mirror| {
        let mut text = format!(
            "\n[[mirror]]\nupstream = {}\nprefix = {}\n",
            list(&mirror.upstreams),
            quoted(&mirror.prefix)
        );
        let mut set = |key: &str, value: Option<String>| {
            if let Some(value) = value {
                text.push_str(&format!("{key} = {value}\n"));
            }
        };
        set("namespace", mirror.namespace.as_deref().map(quoted));
        set("ttl", mirror.ttl.map(duration));
        let credentials = mirror.credentials.as_ref();
        let credentials = credentials.map(|_| places::mirror_credentials(&mirror.prefix));
        set("credentials", credentials.as_deref().map(path));
        let authority = mirror.ca.as_ref();
        let authority = authority.map(|_| places::mirror_authority(&mirror.prefix));
        set("ca", authority.as_deref().map(path));
        text
    };
    site.registry.mirrors.iter().map(mirror).collect()
}

/// The other nodes that have a registry. A node that stands alone has the table too: its name is
/// in its journal for ever, and others may join it.
fn cluster(site: &Site, node: &Node) -> String {
    let port = site.registry.cluster_port;
    let listen = super::layout::everywhere(port);
    let mut text = format!(
        "\n[cluster]\nnode = {}\nlisten = {}\n",
        quoted(&node.name),
        list(&listen)
    );
    let peers = site
        .nodes
        .iter()
        .filter(|peer| peer.name != node.name && peer.services.contains(&Service::RegistrySvc));
    let peers: Vec<String> = peers
        .map(|peer| {
            let address = SocketAddr::new(peer.address(), port).to_string();
            format!(
                "  {{ name = {}, address = {} }},\n",
                quoted(&peer.name),
                quoted(&address)
            )
        })
        .collect();
    if !peers.is_empty() {
        text.push_str(&format!("peers = [\n{}]\n", peers.concat()));
    }
    text.push_str(&format!(
        "ca = {}\ncertificate = {}\nkey = {}\n",
        quoted(places::CA),
        quoted(places::CERTIFICATE),
        quoted(places::KEY)
    ));
    text
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
drain = "2s"
listen = ["127.0.0.1:5000"]
root = "/run/user/1000/outpost-up/state/registry"
plain = true

[admin]
listen = "127.0.0.1:9405"

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
                text.contains("key = \"/etc/outpost/pki/registry-token.key\""),
                "{text}"
            );
        }
    }

    #[test]
    fn what_a_mirror_needs_lies_on_the_node_and_its_password_for_the_service_alone() {
        let mut site = Site::example();
        site.registry.mirrors = vec![Mirror {
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
            let place = format!("/etc/outpost/pki/{name}");
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
                "peers = [\n  { name = \"master-0\", address = \"192.168.7.13:5444\" },\n]\n"
            ),
            "{text}"
        );
    }
}
