//! The Kubernetes cluster on the nodes: the source from which clusterd knows it.

use std::path::{Component, Path, PathBuf};

use config::site as file;
use config::{Step, at};

use super::builder::Builder;
use super::{Holds, Named};
use site::service::Service;
use site::{Cluster, ClusterSource, Node, paths};

impl Builder<'_, '_> {
    /// The cluster, if the file has one.
    pub(super) fn kubernetes(
        &mut self,
        spec: Option<&file::Cluster>,
        nodes: &[Node],
    ) -> Option<Cluster> {
        let is_lost = self.report.is_lost(&at!["cluster"]);
        let Some(spec) = spec else {
            if !is_lost {
                self.no_cluster(nodes);
            }
            return None;
        };
        let span = self.report.span(&at!["cluster"]);
        let is_run = nodes
            .iter()
            .any(|node| node.services.contains(&Service::Clusterd));
        // A node that could not be read may run it.
        if !is_run && !self.report.is_lost(&at!["node"]) {
            self.report.wrong(
                span.clone(),
                "no node runs clusterd; add it to the `services` of a master, or take [cluster] out",
            );
        }
        let port = paths::admin(Service::Clusterd).port();
        let who = "clusterd's admin listener".to_owned();
        self.ports.claim(&mut self.report, port, span, who);
        Some(Cluster {
            source: self.cluster_source(spec),
        })
    }

    /// Nodes that run clusterd without a cluster.
    fn no_cluster(&mut self, nodes: &[Node]) {
        for (index, node) in nodes.iter().enumerate() {
            if node.services.contains(&Service::Clusterd) {
                let span = self.report.span(&at!["node", index, "services"]);
                let message = format!(
                    "`{}` runs clusterd, and the file has no [cluster]; add the table, or take clusterd out of `services`",
                    node.name
                );
                self.report.wrong(span, message);
            }
        }
    }

    fn cluster_source(&mut self, spec: &file::Cluster) -> ClusterSource {
        self.one_source(spec);
        if let Some(path) = &spec.kubeconfig {
            self.named.push(Named {
                what: "the kubeconfig of clusterd",
                holds: Holds::Kubeconfig,
                path: path.clone(),
                position: self.report.position(&at!["cluster", "kubeconfig"]),
            });
        }
        let place = |builder: &mut Self, path: Option<&PathBuf>, key| {
            let path = path?;
            builder.on_node(path, &at!["cluster", key]);
            Some(path.clone())
        };
        let token = place(self, spec.token_file.as_ref(), "token-file");
        let authorities = place(self, spec.ca_file.as_ref(), "ca-file");
        let manifests = place(self, spec.manifests.as_ref(), "manifests");
        match (manifests, token, authorities) {
            (Some(manifests), ..) => ClusterSource::Manifests(manifests),
            (None, Some(token), Some(authorities)) => ClusterSource::Token { token, authorities },
            (None, Some(_), None) => {
                let span = self.report.span(&at!["cluster", "token-file"]);
                let message = "clusterd cannot verify the API servers: a token has no authorities; write `ca-file`, as in ca-file = \"/etc/outpost/clusterd/ca.crt\"";
                self.report.wrong(span, message);
                ClusterSource::Kubeconfig(None)
            }
            (None, None, Some(_)) => {
                let span = self.report.span(&at!["cluster", "ca-file"]);
                let message = "`ca-file` belongs to `token-file`, and a kubeconfig has the authorities itself; take it out, or write `token-file`";
                self.report.wrong(span, message);
                ClusterSource::Kubeconfig(None)
            }
            (None, None, None) => ClusterSource::Kubeconfig(spec.kubeconfig.clone()),
        }
    }

    /// Refuses a second source.
    fn one_source(&mut self, spec: &file::Cluster) {
        let sources = [
            ("kubeconfig", spec.kubeconfig.is_some()),
            ("token-file", spec.token_file.is_some()),
            ("manifests", spec.manifests.is_some()),
        ];
        let mut given = sources.iter().filter(|(_, is_given)| *is_given);
        if let (Some((first, _)), Some((second, _))) = (given.next(), given.next()) {
            let span = self.report.span(&at!["cluster", *second]);
            let message =
                format!("clusterd has one source, and `{first}` is one; take one of them out");
            self.report.wrong(span, message);
        }
    }

    /// Refuses a path that a service cannot see on its node.
    fn on_node(&mut self, path: &Path, way: &[Step<'_>]) {
        let is_plain = path
            .components()
            .all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
        let own = paths::etc(Service::Clusterd);
        let below = path.strip_prefix(&own);
        let is_below = below.is_ok_and(|rest| rest.components().next().is_some());
        if !(is_plain && is_below) {
            let span = self.report.span(way);
            let message = format!(
                "`{}` is not below {}, and clusterd sees no other directory of its node; write a path there",
                path.display(),
                own.display()
            );
            self.report.wrong(span, message);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::{check, document, site};

    use super::*;

    fn services(site: &site::Site) -> Vec<bool> {
        let nodes = site.nodes.iter();
        nodes
            .map(|node| node.services.contains(&Service::Clusterd))
            .collect()
    }

    #[test]
    fn masters_of_a_site_with_a_cluster_run_clusterd() {
        let worker = "[[node]]\nname = \"w\"\nrole = \"worker\"\naddress = \"192.0.2.20\"";
        let without = site("", "", worker);
        assert_eq!(services(&without), [false; 4]);
        assert_eq!(without.cluster, None);
        let with = site("", "", &format!("{worker}\n[cluster]"));
        assert_eq!(services(&with), [true, true, true, false]);
        let source = |lines: &str| {
            let site = site("", "", &format!("[cluster]\n{lines}"));
            site.cluster.unwrap().source
        };
        assert_eq!(source(""), ClusterSource::Kubeconfig(None));
        assert_eq!(
            source("kubeconfig = \"k\""),
            ClusterSource::Kubeconfig(Some("k".into()))
        );
        assert_eq!(
            source("manifests = \"/etc/outpost/clusterd/manifests\""),
            ClusterSource::Manifests("/etc/outpost/clusterd/manifests".into())
        );
        assert_eq!(
            source(
                "token-file = \"/etc/outpost/clusterd/t\"\nca-file = \"/etc/outpost/clusterd/c\""
            ),
            ClusterSource::Token {
                token: "/etc/outpost/clusterd/t".into(),
                authorities: "/etc/outpost/clusterd/c".into()
            }
        );
    }

    #[test]
    fn a_cluster_without_one_good_source_is_refused() {
        for (lines, begins) in [
            (
                "kubeconfig = \"k\"\nmanifests = \"/etc/outpost/clusterd/m\"",
                "23:13: clusterd has one source, and `kubeconfig` is one",
            ),
            (
                "manifests = \"/srv/m\"",
                "22:13: `/srv/m` is not below /etc/outpost/clusterd",
            ),
            (
                "manifests = \"/etc/outpost/clusterd/../m\"",
                "22:13: `/etc/outpost/clusterd/../m` is not below /etc/outpost/clusterd",
            ),
            (
                "manifests = \"/etc/outpost/clusterd\"",
                "22:13: `/etc/outpost/clusterd` is not below /etc/outpost/clusterd",
            ),
            (
                "token-file = \"/etc/outpost/clusterd/t\"",
                "22:14: clusterd cannot verify the API servers",
            ),
            (
                "ca-file = \"/etc/outpost/clusterd/c\"",
                "22:11: `ca-file` belongs to `token-file`",
            ),
        ] {
            check(&document("", "", &format!("[cluster]\n{lines}")), begins);
        }
    }

    #[test]
    fn clusterd_runs_where_there_is_a_cluster_and_a_cluster_where_clusterd_runs() {
        let runs = "services = [\"healthd\", \"clusterd\"]";
        check(
            &document("", runs, ""),
            "12:12: `master-0` runs clusterd, and the file has no [cluster]",
        );
        let none = "services = [\"healthd\"]";
        let text = document("", none, "[cluster]").text;
        let others = text
            .replace(
                "address = \"192.0.2.14\"",
                &format!("address = \"192.0.2.14\"\n{none}"),
            )
            .replace(
                "address = \"192.0.2.15\"",
                &format!("address = \"192.0.2.15\"\n{none}"),
            );
        let document = daemon::config::Document::inline("site.toml", others);
        let problems = crate::parse(&document).site.unwrap_err();
        let text = problems.to_string();
        assert!(text.contains("no node runs clusterd"), "{text}");
    }

    #[test]
    fn no_port_of_the_site_is_that_of_clusterd() {
        assert_eq!(site("registry.port = 9407", "", "").registry.port, 9407);
        check(
            &document("registry.port = 9407", "", "[cluster]"),
            "21:1: port 9407 for clusterd's admin listener is the port of",
        );
    }
}
