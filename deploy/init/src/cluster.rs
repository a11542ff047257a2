//! Reads a site from a cluster that runs: its nodes, its domain, its virtual IPs.
//!
//! ```text
//! kubeconfig ─► API ─┐
//!                    ├─ source ─► Objects ─► learn ─► Draft, with a note for each thing that no object says
//! manifests ─────────┘
//! ```
//!
//! [`source`] alone reads files and asks servers. Nothing that is secret gets into a draft: the credentials of the kubeconfig are
//! those of a person, and clusterd gets an account of its own.

mod network;
mod node;
mod service;
pub(crate) mod source;

use std::net::IpAddr;

use config::nodes::ClusterNodes;
use daemon::config::Document;
use ipnet::IpNet;
use serde_json::Value;

use crate::draft::{Draft, DraftCluster};
use crate::openshift;

/// The group of OpenShift's configuration.
const CONFIG: &str = "config.openshift.io";
/// The group of OpenShift's operators.
const OPERATOR: &str = "operator.openshift.io";
/// The namespace of what kubeadm and OpenShift's installer leave behind.
const SYSTEM: &str = "kube-system";
/// The domain of nearly every cluster, where no object says another one.
const USUAL_DOMAIN: &str = "cluster.local";
/// The name that kubeadm gives to every cluster.
const KUBEADM_NAME: &str = "kubernetes";
/// The name of install-config.yaml in problems.
const INSTALL_CONFIG: &str = "install-config of kube-system/cluster-config-v1";

/// The objects of a cluster, and what of it could not be read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Objects {
    pub(crate) values: Vec<Value>,
    /// The things that could not be read, each with the reason.
    pub(crate) unread: Vec<(String, String)>,
    /// The URL of the API server, if one was asked.
    pub(crate) server: Option<String>,
}

impl Objects {
    /// The objects of a kind of an API group; the core group has no name.
    fn all<'a>(&'a self, group: &'a str, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.values.iter().filter(move |value| {
            let version = text(value, "/apiVersion");
            let of = version.rsplit_once('/').map_or("", |(group, _)| group);
            of == group && text(value, "/kind") == kind
        })
    }

    /// The object of a kind without namespaces by its name.
    fn one(&self, group: &str, kind: &str, name: &str) -> Option<&Value> {
        let mut all = self
            .values
            .iter()
            .filter(|value| text(value, "/metadata/name") == name);
        all.find(|value| {
            let version = text(value, "/apiVersion");
            let of = version.rsplit_once('/').map_or("", |(group, _)| group);
            of == group && text(value, "/kind") == kind
        })
    }

    /// A text of a `ConfigMap` in `kube-system`.
    fn system_text(&self, name: &str, key: &str) -> Option<&str> {
        let mut maps = self.all("", "ConfigMap");
        let map = maps.find(|map| {
            text(map, "/metadata/namespace") == SYSTEM && text(map, "/metadata/name") == name
        });
        map?.get("data")?.get(key)?.as_str()
    }
}

/// Adds everything that the objects say to a draft; values of the draft stay.
pub(crate) fn learn(objects: &Objects, draft: &mut Draft) {
    if let Some(server) = &objects.server {
        draft.note(&format!("learned from the cluster at {server}"));
    }
    for (what, why) in &objects.unread {
        not_learned(draft, what, why);
    }
    let infrastructure = objects.one(CONFIG, "Infrastructure", "cluster");
    let mut learner = Learner {
        objects,
        install: install_config(objects, draft),
        kubeadm: kubeadm(objects, draft),
        infrastructure,
        vips: Vec::new(),
        draft,
    };
    learner.release();
    learner.names();
    learner.networks();
    learner.addresses_of_the_api();
    learner.nodes();
    learner.virtual_ips();
    learner.ways_out();
    learner.registry();
    learner.routers();
    learner.cluster();
}

/// A thing that no object says.
fn not_learned(draft: &mut Draft, what: &str, why: &str) {
    draft.note(&format!("not learned: {what}: {why}"));
}

/// The settings of OpenShift's installer, where the cluster still has them. Hosts and numbers of machines are those of that day.
fn install_config(objects: &Objects, draft: &mut Draft) -> Draft {
    let mut install = Draft::default();
    let Some(text) = objects.system_text("cluster-config-v1", "install-config") else {
        return install;
    };
    let document = Document::inline(INSTALL_CONFIG, text);
    if let Err(problems) = openshift::import(&document, &mut install) {
        let first = problems.0.first().map(ToString::to_string);
        not_learned(draft, "install-config", &first.unwrap_or_default());
    }
    install
}

/// The settings of kubeadm; nothing where there is no kubeadm.
fn kubeadm(objects: &Objects, draft: &mut Draft) -> Value {
    let Some(text) = objects.system_text("kubeadm-config", "ClusterConfiguration") else {
        return Value::Null;
    };
    match cluster_objects::manifest::values(text) {
        Ok(values) => values.into_iter().next().unwrap_or_default(),
        Err(problem) => {
            not_learned(draft, "kubeadm-config", &problem);
            Value::Null
        }
    }
}

/// The objects, and the draft that they fill.
struct Learner<'a> {
    objects: &'a Objects,
    /// The settings of OpenShift's installer.
    install: Draft,
    /// The settings of kubeadm.
    kubeadm: Value,
    /// OpenShift's description of its infrastructure; none without OpenShift.
    infrastructure: Option<&'a Value>,
    /// The virtual IPs that OpenShift has.
    vips: Vec<IpAddr>,
    draft: &'a mut Draft,
}

impl Learner<'_> {
    const fn is_openshift(&self) -> bool {
        self.infrastructure.is_some()
    }

    fn not_learned(&mut self, what: &str, why: &str) {
        not_learned(self.draft, what, why);
    }

    /// The release of OpenShift, or that there is none.
    fn release(&mut self) {
        if !self.is_openshift() {
            self.draft
                .openshift
                .get_or_insert_with(|| "none".to_owned());
            return;
        }
        let version = self.objects.one(CONFIG, "ClusterVersion", "version");
        let version = version.map_or("", |version| text(version, "/status/desired/version"));
        let mut parts = version.split('.');
        let release = match (parts.next(), parts.next()) {
            (Some(major), Some(minor)) => crate::values::release(&format!("{major}.{minor}")).ok(),
            _ => None,
        };
        match release {
            Some(release) => {
                self.draft.openshift.get_or_insert(release);
            }
            None if self.draft.openshift.is_none() => {
                self.draft.openshift = Some(crate::USUAL_RELEASE.to_owned());
                self.not_learned(
                    "the release of OpenShift",
                    &format!(
                        "no object says it; {} is written, --openshift gives it",
                        crate::USUAL_RELEASE
                    ),
                );
            }
            None => {}
        }
    }

    /// The name of the cluster, and the domain of the site.
    fn names(&mut self) {
        let dns = self.objects.one(CONFIG, "DNS", "cluster");
        let base = dns.map_or("", |dns| text(dns, "/spec/baseDomain"));
        let endpoint = text(&self.kubeadm, "/controlPlaneEndpoint");
        let servers = [
            endpoint,
            self.infrastructure
                .map_or("", |it| text(it, "/status/apiServerURL")),
            self.objects.server.as_deref().unwrap_or_default(),
        ];
        let below_api = servers
            .iter()
            .find_map(|url| host_of(url).strip_prefix("api."));
        let domain = [base, below_api.unwrap_or_default()]
            .into_iter()
            .find_map(|text| crate::values::domain(text).ok());
        let domain = domain.or_else(|| self.install.domain.clone());
        match domain {
            Some(domain) => {
                self.draft.domain.get_or_insert(domain);
            }
            None if self.draft.domain.is_none() => self.not_learned(
                "the domain of the site",
                "no object has it; --domain gives it",
            ),
            None => {}
        }
        let kubeadm = text(&self.kubeadm, "/clusterName");
        let first = self.draft.domain.as_deref().unwrap_or_default();
        let first = first.split('.').next().unwrap_or_default();
        let name = [
            self.install.name.as_deref().unwrap_or_default(),
            kubeadm,
            first,
        ]
        .into_iter()
        .filter(|name| *name != KUBEADM_NAME)
        .find_map(|name| crate::values::label(name).ok());
        if let Some(name) = name {
            self.draft.name.get_or_insert(name);
        }
    }

    /// DNS servers, time servers and routers.
    fn ways_out(&mut self) {
        self.upstreams();
        let servers = std::mem::take(&mut self.install.time_servers);
        for server in servers {
            push_new(&mut self.draft.time_servers, server);
        }
        if self.draft.time_servers.is_empty() {
            self.not_learned(
                "time servers",
                "no object has them; --time-server gives them, chrony.conf of a node says which they are",
            );
        }
    }

    /// The names of the site's registry, by the mirrors that the cluster pulls from.
    fn registry(&mut self) {
        for name in std::mem::take(&mut self.install.registry_names) {
            push_new(&mut self.draft.registry_names, name);
        }
        self.draft.registry_port = self.draft.registry_port.or(self.install.registry_port);
        if self.draft.registry_names.is_empty() {
            self.not_learned(
                "names of the registry",
                "no mirror of the cluster is below the domain; `registry` is the default",
            );
        }
    }

    /// The table `[cluster]`.
    fn cluster(&mut self) {
        let mut cluster = DraftCluster {
            follow: match self.is_openshift() {
                true => vec![ClusterNodes::Masters, ClusterNodes::Ingress],
                false => vec![ClusterNodes::Masters],
            },
            proposals: vec![
                "An account for clusterd, and its kubeconfig beside this file: docs/deploy/clusterd.md has the commands.".to_owned(),
                "kubeconfig = \"clusterd.kubeconfig\"".to_owned(),
            ],
            ..DraftCluster::default()
        };
        match self.cluster_domain() {
            Some(domain) => {
                cluster.domain = Some(domain);
                cluster.reverse = self.reverse();
            }
            None => {
                self.not_learned(
                    "the domain of the cluster's Services",
                    "no object has it; a line in [cluster] proposes the usual one",
                );
                cluster
                    .proposals
                    .push(format!("domain = \"{USUAL_DOMAIN}\""));
            }
        }
        cluster.forwards = self.forwards();
        cluster.proposals.extend(self.pools());
        self.draft.cluster = Some(cluster);
    }

    /// The domain of Services and pods.
    fn cluster_domain(&self) -> Option<String> {
        let dns = self.objects.one(OPERATOR, "DNS", "default");
        let corefile = self.objects.system_text("coredns", "Corefile");
        let of_corefile = corefile.and_then(|corefile| {
            let mut lines = corefile.lines().map(str::trim);
            lines.find_map(|line| line.strip_prefix("kubernetes ")?.split_whitespace().next())
        });
        [
            dns.map_or("", |dns| text(dns, "/status/clusterDomain")),
            text(&self.kubeadm, "/networking/dnsDomain"),
            of_corefile.unwrap_or_default(),
        ]
        .into_iter()
        .find_map(|text| crate::values::domain(text).ok())
    }
}

//--- Values

/// The text at a JSON pointer (RFC 6901); empty when there is none.
fn text<'a>(value: &'a Value, path: &str) -> &'a str {
    value
        .pointer(path)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// The items of a list at a JSON pointer; none when there is no list.
fn items<'a>(value: &'a Value, path: &str) -> impl Iterator<Item = &'a Value> {
    let list = value.pointer(path).and_then(Value::as_array);
    list.into_iter().flatten()
}

/// The values of a list of texts that can be parsed, or of one text with several between commas.
fn parsed<T: std::str::FromStr>(value: &Value, path: &str) -> Vec<T> {
    let listed = items(value, path).filter_map(Value::as_str);
    let single = text(value, path).split(',').map(str::trim);
    listed
        .chain(single)
        .filter_map(|text| text.parse().ok())
        .collect()
}

/// The host of `https://HOST:PORT/` or `HOST:PORT`, without brackets.
fn host_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let rest = rest.split('/').next().unwrap_or_default();
    match rest.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None if rest.matches(':').count() > 1 => rest,
        None => rest.split(':').next().unwrap_or_default(),
    }
}

fn is_inside(networks: &[IpNet], address: IpAddr) -> bool {
    networks.iter().any(|network| network.contains(&address))
}

fn push_new<T: PartialEq>(list: &mut Vec<T>, value: T) {
    if !list.contains(&value) {
        list.push(value);
    }
}

#[cfg(test)]
mod tests;
