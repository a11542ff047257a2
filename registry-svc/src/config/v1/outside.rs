//! Others that the registry deals with: nodes, mirrors, webhooks and the object store.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::Range;
use std::time::Duration;

use toml::Spanned;

use super::Reader;
use super::spec::{AcknowledgeSpec, ClusterSpec, MirrorSpec, S3Spec, WebhookSpec};
use crate::config::{Acknowledge, Cluster, ClusterPeer, Mirror, S3, Webhook};

/// The default port for nodes.
const DEFAULT_CLUSTER_PORT: u16 = 5444;

/// A cluster keeps everything on every node: more of them only cost.
const MOST_PEERS: usize = 15;

/// The actions of events, as distribution names them.
const EVENTS: [&str; 4] = ["push", "pull", "mount", "delete"];

impl Reader<'_> {
    pub(super) fn cluster(&mut self, spec: ClusterSpec) -> Cluster {
        let any = [
            IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        ];
        let listen = spec.listen.unwrap_or_else(|| {
            any.map(|ip| SocketAddr::new(ip, DEFAULT_CLUSTER_PORT))
                .into()
        });
        let mut names = BTreeSet::from([spec.node.get_ref().clone()]);
        self.node_name(&spec.node);
        for peer in &spec.peers {
            self.node_name(&peer.name);
            if !names.insert(peer.name.get_ref().clone()) {
                self.problem(peer.name.span(), "that is the name of another node");
            }
            self.host_and_port(&peer.address);
        }
        if spec.peers.len() > MOST_PEERS {
            self.problem(
                spec.node.span(),
                format!("a cluster has at most {MOST_PEERS} peers"),
            );
        }
        let peers = spec.peers.into_iter().map(|peer| ClusterPeer {
            name: peer.name.into_inner(),
            address: peer.address.into_inner(),
        });
        let (second, day) = (Duration::from_secs(1), Duration::from_hours(24));
        Cluster {
            node: spec.node.into_inner(),
            listen,
            peers: peers.collect(),
            ca: spec.ca,
            certificate: spec.certificate,
            key: spec.key,
            acknowledge: match spec.acknowledge {
                AcknowledgeSpec::MajorityOfReachable => Acknowledge::MajorityOfReachable,
                AcknowledgeSpec::Strict => Acknowledge::Strict,
            },
            acknowledge_timeout: spec.acknowledge_timeout.map_or(second * 5, Duration::from),
            compare: self.time(spec.compare.as_ref(), Duration::from_mins(10), second..=day),
            rate: spec
                .rate
                .as_ref()
                .map(|rate| self.size(Some(rate), 0, 64 << 10..=u64::MAX)),
            fetches: self.count(spec.fetches.as_ref(), 4),
            clock_bound: self.time(
                spec.clock_bound.as_ref(),
                Duration::from_hours(1),
                second..=day,
            ),
        }
    }

    /// A name as a host has it: it is in upload sessions' identifiers and in certificates.
    fn node_name(&mut self, name: &Spanned<String>) {
        let text = name.get_ref();
        let is_known =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-".contains(&byte);
        let is_end = |text: Option<char>| text.is_some_and(|end| end.is_ascii_alphanumeric());
        let is_name = (1..=63).contains(&text.len())
            && text.bytes().all(is_known)
            && is_end(text.chars().next())
            && is_end(text.chars().last());
        if !is_name {
            self.problem(
                name.span(),
                "a node's name is of small letters, digits, `-` and `.`, 63 at most",
            );
        }
    }

    fn host_and_port(&mut self, address: &Spanned<String>) {
        let text = address.get_ref();
        let is_fit = text.parse::<SocketAddr>().is_ok()
            || text.rsplit_once(':').is_some_and(|(host, port)| {
                !host.is_empty() && !host.contains([':', '/']) && port.parse::<u16>().is_ok()
            });
        if !is_fit {
            self.problem(
                address.span(),
                "an address with its port is wanted, as in \"192.168.7.14:5444\"",
            );
        }
    }

    fn url(&mut self, text: &str, place: Range<usize>) {
        let rest = text
            .strip_prefix("https://")
            .or_else(|| text.strip_prefix("http://"));
        let is_fit = rest.is_some_and(|rest| {
            let host = rest.split('/').next().unwrap_or_default();
            !host.is_empty() && !host.contains('@')
        });
        if !is_fit || text.chars().any(|c| c.is_whitespace() || c.is_control()) {
            self.problem(
                place,
                "a URL is wanted that begins with https:// or http:// and holds no credentials",
            );
        }
    }

    pub(super) fn mirrors(&mut self, specs: Vec<MirrorSpec>) -> Vec<Mirror> {
        let mut prefixes = BTreeSet::new();
        let mut mirrors = Vec::new();
        for spec in specs {
            let upstreams = &spec.upstream.get_ref().0;
            for url in upstreams {
                self.url(url, spec.upstream.span());
            }
            if upstreams.is_empty() {
                self.problem(spec.prefix.span(), "this mirror has no upstream");
            }
            let prefix = spec.prefix.get_ref().trim_matches('/').to_owned();
            if !prefixes.insert(prefix.clone()) {
                self.problem(spec.prefix.span(), "another mirror has this prefix");
            }
            let is_known = |byte: u8| {
                byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-/".contains(&byte)
            };
            if !prefix.bytes().all(is_known) || prefix.contains("//") {
                self.problem(
                    spec.prefix.span(),
                    "a prefix is the beginning of a repository's name",
                );
            }
            mirrors.push(Mirror {
                upstreams: upstreams
                    .iter()
                    .map(|url| url.trim_end_matches('/').to_owned())
                    .collect(),
                prefix,
                namespace: spec.namespace,
                ttl: spec.ttl.map_or(Duration::from_mins(5), Duration::from),
                credentials: spec.credentials,
                ca: spec.ca,
            });
        }
        mirrors
    }

    pub(super) fn webhooks(&mut self, specs: Vec<WebhookSpec>) -> Vec<Webhook> {
        let mut names = BTreeSet::new();
        let mut webhooks = Vec::new();
        for spec in specs {
            let is_known = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
            let name = spec.name.get_ref();
            if !(1..=63).contains(&name.len()) || !name.bytes().all(is_known) {
                self.problem(
                    spec.name.span(),
                    "a webhook's name is of letters, digits, `.`, `_` and `-`",
                );
            }
            if !names.insert(name.clone()) {
                self.problem(spec.name.span(), "another webhook has this name");
            }
            self.url(spec.url.get_ref(), spec.url.span());
            for action in &spec.ignore.actions {
                if !EVENTS.contains(&action.get_ref().as_str()) {
                    let text = format!("an action is one of {}", EVENTS.join(", "));
                    self.problem(action.span(), text);
                }
            }
            if let Some(threshold) = &spec.threshold
                && *threshold.get_ref() == 0
            {
                self.problem(threshold.span(), "has to be at least 1");
            }
            let (short, second) = (Duration::from_millis(10), Duration::from_secs(1));
            let hour = Duration::from_hours(1);
            webhooks.push(Webhook {
                timeout: self.time(spec.timeout.as_ref(), second * 5, short..=hour),
                threshold: spec.threshold.map_or(5, Spanned::into_inner),
                backoff: self.time(spec.backoff.as_ref(), second, short..=hour),
                name: spec.name.into_inner(),
                url: spec.url.into_inner(),
                headers: spec.headers,
                ignored_media_types: spec.ignore.media_types,
                ignored_actions: spec
                    .ignore
                    .actions
                    .into_iter()
                    .map(Spanned::into_inner)
                    .collect(),
                ca: spec.ca,
            });
        }
        webhooks
    }

    pub(super) fn s3(&mut self, spec: S3Spec) -> S3 {
        if let Some(endpoint) = &spec.endpoint {
            self.url(endpoint.get_ref(), endpoint.span());
            if endpoint.get_ref().starts_with("http://") && !spec.allow_http {
                self.problem(
                    endpoint.span(),
                    "plain HTTP is used only with `allow-http = true`",
                );
            }
        }
        S3 {
            bucket: spec.bucket,
            endpoint: spec.endpoint.map(Spanned::into_inner),
            region: spec.region.unwrap_or_else(|| "us-east-1".to_owned()),
            prefix: spec.prefix,
            access_key: spec.access_key_file,
            secret_key: spec.secret_key_file,
            ca: spec.ca,
            allow_http: spec.allow_http,
        }
    }
}
