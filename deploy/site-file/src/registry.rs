//! The registry: its addresses, users, quotas and mirrors.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use config::site as file;
use config::{Step, at};
use ipnet::IpNet;

use super::builder::{Builder, MAX_LISTED};
use super::zone::Outside;
use super::{Holds, Named, names};
use site::{Mirror, Node, Platform, Quota, Registry, Runtime};

/// The context that names of upstreams are compared with.
pub(super) struct UpstreamContext<'s> {
    pub(super) domain: &'s str,
    pub(super) nodes: &'s [Node],
    /// Networks of pods and of other hosts that ask the site.
    pub(super) clients: &'s [IpNet],
    pub(super) platform: &'s Platform,
    /// The servers of outside names.
    pub(super) outside: Outside<'s>,
    /// Whether the list of these has a problem.
    pub(super) is_lost: bool,
}

impl Builder<'_, '_> {
    pub(super) fn registry(
        &mut self,
        spec: &file::Registry,
        around: &UpstreamContext<'_>,
    ) -> Registry {
        let cluster_port = spec.cluster_port.get();
        let span = self.report.span(&at!["registry", "cluster-port"]);
        let who = "the nodes of the registry".to_owned();
        self.ports.claim(&mut self.report, cluster_port, span, who);
        self.names_file(
            "the users of the registry",
            Holds::Users,
            spec.users.as_ref(),
            &at!["registry", "users"],
        );
        let mut registry = Registry {
            names: spec.names.clone(),
            port: spec.port.get(),
            cluster_port,
            users: spec.users.clone(),
            anonymous_pull: spec.anonymous_pull,
            open: self.is_open(spec, around),
            quotas: Vec::new(),
            mirrors: Vec::new(),
        };
        for (index, quota) in spec.quota.iter().take(MAX_LISTED).enumerate() {
            let quota = self.quota(index, quota, &registry.quotas);
            registry.quotas.push(quota);
        }
        for (index, mirror) in spec.mirror.iter().take(MAX_LISTED).enumerate() {
            let mirror = self.mirror(index, mirror, &registry, around);
            registry.mirrors.push(mirror);
        }
        registry
    }

    /// Whether every client may push and delete. It is said who that is.
    fn is_open(&mut self, spec: &file::Registry, around: &UpstreamContext<'_>) -> bool {
        if !spec.open {
            return false;
        }
        let span = self.report.span(&at!["registry", "open"]);
        if spec.users.is_some() {
            let why = "a registry with `users` is not open; take `open` or `users` out";
            self.report.wrong(span, why);
            return false;
        }
        let pods: Vec<String> = around.clients.iter().map(ToString::to_string).collect();
        let reach = match pods.is_empty() {
            true => "every host that reaches a node".to_owned(),
            false => format!(
                "every host that reaches a node, and every pod ({}),",
                pods.join(", ")
            ),
        };
        self.report.warn(
            span,
            format!("{reach} may overwrite and delete every image; write a file of `users` in place of `open`"),
        );
        true
    }

    /// Notes a file that a key may name.
    pub(super) fn names_file(
        &mut self,
        what: &'static str,
        holds: Holds,
        path: Option<&PathBuf>,
        way: &[Step<'_>],
    ) {
        let Some(path) = path else { return };
        self.named.push(Named {
            what,
            holds,
            path: path.clone(),
            position: self.report.position(way),
        });
    }

    fn quota(&mut self, index: usize, spec: &file::Quota, others: &[Quota]) -> Quota {
        let text = &spec.repositories;
        let place =
            |builder: &Self, key| builder.report.span(&at!["registry", "quota", index, key]);
        let is_known = |byte: u8| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-/*?".contains(&byte)
        };
        if text.is_empty() || !text.bytes().all(is_known) {
            self.report.wrong(
                place(self, "repositories"),
                format!("`{text}` is no pattern of repositories, as in \"dev/**\": small letters, digits, . _ - / and the wildcards * ** ?"),
            );
        }
        if others.iter().any(|other| other.repositories == *text) {
            self.report.wrong(
                place(self, "repositories"),
                format!("`{text}` has a quota already; take one of them out"),
            );
        }
        if spec.size.0 == 0 {
            let why = "a quota of zero: no client could push; write a size, as in \"20GiB\"";
            self.report.wrong(place(self, "size"), why);
        }
        Quota {
            repositories: text.clone(),
            size: spec.size.0,
        }
    }

    fn mirror(
        &mut self,
        index: usize,
        spec: &file::Mirror,
        registry: &Registry,
        around: &UpstreamContext<'_>,
    ) -> Mirror {
        let way = at!["registry", "mirror", index];
        let key = |key| [&way[..], &[Step::Key(key)]].concat();
        let prefix = &spec.prefix;
        let at_prefix = self.report.span(&key("prefix"));
        if !is_prefix(prefix) {
            self.report.wrong(
                at_prefix.clone(),
                format!("`{prefix}` is not the beginning of a repository's name, as in \"quay\" or \"mirror/quay\""),
            );
        }
        if registry.mirrors.iter().any(|other| other.prefix == *prefix) {
            let message =
                format!("`{prefix}` is the prefix of another mirror already; choose another one");
            self.report.wrong(at_prefix.clone(), message);
        }
        let is_lost =
            self.report.is_lost(&key("upstream")) || self.report.is_lost(&key("upstreams"));
        if spec.upstream.is_none() && spec.upstreams.is_empty() && !is_lost {
            let message = format!(
                "the mirror `{prefix}` has no `upstream`; write its address, as in upstream = \"https://quay.example.com\""
            );
            self.report.wrong(at_prefix.clone(), message);
        }
        let one = spec.upstream.iter().map(|url| (url, key("upstream")));
        let several = spec.upstreams.iter().enumerate();
        let several = several.map(|(place, url)| {
            let way = [&key("upstreams")[..], &[Step::Item(place)]].concat();
            (url, way)
        });
        let mut upstreams = Vec::new();
        for (url, way) in one.chain(several) {
            self.upstream_registry(url, &way, registry, around);
            upstreams.push(url.trim_end_matches('/').to_owned());
        }
        let asks_securely = upstreams.iter().any(|url| url.starts_with("https://"));
        if spec.ca.is_none() && asks_securely && around.platform.runtime != Runtime::Native {
            self.report.note(
                at_prefix,
                format!("the mirror `{prefix}` has no `ca`: its upstream is known by the public authorities that `outpost image build --ca-bundle` puts into the image"),
            );
        }
        self.names_file(
            "the credentials of a mirror",
            Holds::Credentials,
            spec.credentials.as_ref(),
            &key("credentials"),
        );
        self.names_file(
            "the authority of a mirror's upstream",
            Holds::Certificates,
            spec.ca.as_ref(),
            &key("ca"),
        );
        Mirror {
            upstreams,
            prefix: prefix.clone(),
            namespace: spec.namespace.clone(),
            ttl: spec.ttl.map(Duration::from),
            credentials: spec.credentials.clone(),
            ca: spec.ca.clone(),
        }
    }

    /// A registry elsewhere: `https://HOST[:PORT]`.
    fn upstream_registry(
        &mut self,
        url: &str,
        way: &[Step<'_>],
        registry: &Registry,
        around: &UpstreamContext<'_>,
    ) {
        let span = self.report.span(way);
        let Some((host, port)) = host_of(url) else {
            self.report.wrong(
                span,
                format!("`{url}` is no registry; write https:// and a host, and a port if it is not the usual one, without a path or a user"),
            );
            return;
        };
        let address: Option<IpAddr> = host.parse().ok();
        let inside = host
            .strip_suffix(around.domain)
            .and_then(|rest| rest.strip_suffix('.'));
        let is_own = match (address, inside) {
            (Some(address), _) => {
                let mut nodes = around.nodes.iter();
                nodes.any(|node| node.addresses.contains(&address))
            }
            (None, Some(name)) => {
                registry.names.iter().any(|own| own == name)
                    || around.nodes.iter().any(|node| node.name == name)
            }
            (None, None) => false,
        };
        if is_own && port == Some(registry.port) {
            let message = format!(
                "{url} is the registry of the site itself: it would ask in circles; name one outside"
            );
            self.report.wrong(span, message);
        } else if address.is_none()
            && inside.is_none()
            && !around.is_lost
            && !around.outside.resolves(&host)
        {
            self.report.warn(
                span,
                format!("`{host}` cannot be resolved: [dns] has no upstreams; add them, or write an address"),
            );
        }
    }
}

/// The host of a URL, and its port if it says one.
fn host_of(url: &str) -> Option<(String, Option<u16>)> {
    let rest = url
        .strip_prefix("https://")
        .or_else(|| url.strip_prefix("http://"))?;
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let (host, port) = match rest.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']')?;
            host.parse::<std::net::Ipv6Addr>().ok()?;
            (
                host,
                rest.strip_prefix(':')
                    .or_else(|| (!rest.is_empty()).then_some("")),
            )
        }
        None => match rest.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (rest, None),
        },
    };
    let port = match port {
        Some(port) => Some(port.parse().ok()?),
        None => None,
    };
    let is_address = host.parse::<IpAddr>().is_ok();
    (is_address || names::host(host).is_ok()).then(|| (host.to_owned(), port))
}

/// Whether a text can begin the name of a repository (distribution specification: components of small
/// letters and digits, with separators between them).
fn is_prefix(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    text.len() <= 128
        && text.split('/').all(|part| {
            let octets = part.as_bytes();
            let ends = [octets.first(), octets.last()];
            ends.iter().all(|end| end.is_some_and(|end| is_plain(*end)))
                && octets
                    .iter()
                    .all(|octet| is_plain(*octet) || b"._-".contains(octet))
        })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{check, document, site};
    use super::*;

    #[test]
    fn what_is_kept_and_fetched_is_as_it_is_written() {
        let site = site(
            "dns.upstreams = [\"192.0.2.1\"]",
            "",
            "[[registry.quota]]\nrepositories = \"dev/**\"\nsize = \"20GiB\"\n\
             [[registry.mirror]]\nprefix = \"mirror/quay\"\nupstreams = [\"https://a.example/\", \"http://[2001:db8::1]:5000\"]\n\
             namespace = \"quay.io\"\nttl = \"1h\"\ncredentials = \"x\"",
        );
        assert_eq!(site.registry.quotas[0].size, 20 << 30);
        assert_eq!(
            site.registry.mirrors,
            [Mirror {
                upstreams: vec![
                    "https://a.example".to_owned(),
                    "http://[2001:db8::1]:5000".to_owned()
                ],
                prefix: "mirror/quay".to_owned(),
                namespace: Some("quay.io".to_owned()),
                ttl: Some(Duration::from_hours(1)),
                credentials: Some("x".into()),
                ca: None,
            }]
        );
    }

    /// What stands at the end of the file, and what is said.
    const WRONG: &[(&str, &str)] = &[
        (
            "[[registry.quota]]\nrepositories = \"Dev\"\nsize = \"1GiB\"",
            "22:16: `Dev` is no pattern",
        ),
        (
            "[[registry.quota]]\nrepositories = \"a\"\nsize = \"1 heap\"",
            "23:8: ",
        ),
        (
            "[[registry.quota]]\nrepositories = \"a\"\nsize = \"0\"",
            "23:8: a quota of zero",
        ),
        (
            "[[registry.quota]]\nrepositories = \"a\"\nsize = \"1G\"\n[[registry.quota]]\nrepositories = \"a\"\nsize = \"2G\"",
            "25:16: `a` has a quota already",
        ),
        (
            "[[registry.quota]]\nrepositories = \"a\"",
            "21:1: missing key `size`",
        ),
        (
            "[[registry.mirror]]\nprefix = \"q\"",
            "22:10: the mirror `q` has no `upstream`",
        ),
        (
            "[[registry.mirror]]\nprefix = \"q\"\nca = \"x\"\nupstream = \"quay.io\"",
            "24:12: `quay.io` is no registry",
        ),
        (
            "[[registry.mirror]]\nprefix = \"q\"\nca = \"x\"\nupstream = \"https://a:b@192.0.2.7\"",
            "24:12: ",
        ),
        (
            "[[registry.mirror]]\nprefix = \"q\"\nca = \"x\"\nupstream = \"https://192.0.2.7/v2\"",
            "24:12: ",
        ),
        (
            "[[registry.mirror]]\nprefix = \"q\"\nca = \"x\"\nupstream = \"https://192.0.2.7:port\"",
            "24:12: ",
        ),
        (
            "[[registry.mirror]]\nprefix = \"/q\"\nca = \"x\"\nupstream = \"https://192.0.2.7\"",
            "22:10: `/q` is not the beginning",
        ),
        (
            "[[registry.mirror]]\nprefix = \"\"\nca = \"x\"\nupstream = \"https://192.0.2.7\"",
            "22:10: `` is not the beginning",
        ),
        (
            "[[registry.mirror]]\nprefix = \"q\"\nca = \"x\"\nupstream = \"https://a.example\"",
            "24:12: warning: `a.example` cannot be resolved",
        ),
        (
            "[[registry.mirror]]\nprefix = \"q\"\nupstream = \"https://192.0.2.7\"",
            "22:10: note: the mirror `q` has no `ca`",
        ),
        (
            "[[registry.mirror]]\nprefix = \"q\"\nca = \"x\"\nupstream = \"https://192.0.2.14:5443\"",
            "24:12: https://192.0.2.14:5443 is the registry of the site itself",
        ),
        (
            "[[registry.mirror]]\nprefix = \"q\"\nca = \"x\"\nupstream = \"https://registry.north.example.org:5443\"",
            "24:12: https://registry.north.example.org:5443 is the registry of the site itself",
        ),
        (
            "[[registry.mirror]]\nprefix = \"q\"\nupstream = \"http://192.0.2.7\"\n[[registry.mirror]]\nprefix = \"q\"\nupstream = \"http://192.0.2.8\"",
            "25:10: `q` is the prefix of another mirror already",
        ),
    ];

    #[test]
    fn what_would_not_work_is_said_where_it_stands() {
        for (end, begins) in WRONG {
            check(&document("", "", end), begins);
        }
    }
}
