//! The account of clusterd in its cluster: a manifest for people to apply.
//!
//! The rules are those of the requests that clusterd makes (`cluster::Kind`); a test of clusterd compares its requests with
//! the same constants.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use ::config::clusterd::LEASE_NAMESPACE;
use cluster::Kind;
use cluster::rules::{ADDRESSES, DNSES, ELECTION, Rule};

use crate::config::Output;
use site::{ClusterSource, Site};

/// The name of the account, the role and the binding.
const NAME: &str = "outpost-clusterd";
/// The namespace of the account.
const NAMESPACE: &str = "kube-system";

/// The manifest, for a site whose clusterd asks the API.
pub fn outputs(site: &Site) -> Vec<Output> {
    let source = site.cluster.as_ref().map(|cluster| &cluster.source);
    let asks = matches!(
        source,
        Some(ClusterSource::Kubeconfig(_) | ClusterSource::Token { .. })
    );
    let cluster = site.cluster.as_ref();
    let gives = cluster.is_some_and(|cluster| !cluster.addresses.is_empty());
    let forwards = cluster.is_some_and(|cluster| cluster.forwards);
    let output = || Output {
        path: PathBuf::from("clusterd-rbac.yaml"),
        mode: 0o644,
        contents: manifest(gives, forwards).into_bytes(),
        node: None,
    };
    asks.then(output).into_iter().collect()
}

/// The `ServiceAccount`, its `ClusterRole`, and the `ClusterRoleBinding` of both; if clusterd gives addresses, the `Role` of its
/// election too.
fn manifest(gives: bool, forwards: bool) -> String {
    let does = match gives {
        true => {
            "It reads, writes the addresses of Services (their status, Events) and the Lease of its election, and sees no secret."
        }
        false => "It reads, and neither changes anything nor sees a secret.",
    };
    let mut text = format!(
        "# clusterd's account in the cluster, rendered by `outpost`: kubectl apply -f clusterd-rbac.yaml\n\
         # {does}\n\
         apiVersion: v1\n\
         kind: ServiceAccount\n\
         metadata:\n  name: {NAME}\n  namespace: {NAMESPACE}\n\
         automountServiceAccountToken: false\n\
         ---\n\
         apiVersion: rbac.authorization.k8s.io/v1\n\
         kind: ClusterRole\n\
         metadata:\n  name: {NAME}\n\
         rules:\n{rules}",
        rules = rules(),
    );
    if forwards {
        text.push_str(&written(&[DNSES]));
    }
    if gives {
        text.push_str(&written(&ADDRESSES));
    }
    text.push_str(&format!(
        "---\n\
         apiVersion: rbac.authorization.k8s.io/v1\n\
         kind: ClusterRoleBinding\n\
         metadata:\n  name: {NAME}\n\
         roleRef:\n  apiGroup: rbac.authorization.k8s.io\n  kind: ClusterRole\n  name: {NAME}\n\
         subjects:\n- kind: ServiceAccount\n  name: {NAME}\n  namespace: {NAMESPACE}\n"
    ));
    if gives {
        text.push_str(&format!(
            "---\n\
             apiVersion: rbac.authorization.k8s.io/v1\n\
             kind: Role\n\
             metadata:\n  name: {NAME}\n  namespace: {LEASE_NAMESPACE}\n\
             rules:\n{rules}\
             ---\n\
             apiVersion: rbac.authorization.k8s.io/v1\n\
             kind: RoleBinding\n\
             metadata:\n  name: {NAME}\n  namespace: {LEASE_NAMESPACE}\n\
             roleRef:\n  apiGroup: rbac.authorization.k8s.io\n  kind: Role\n  name: {NAME}\n\
             subjects:\n- kind: ServiceAccount\n  name: {NAME}\n  namespace: {NAMESPACE}\n",
            rules = written(&ELECTION),
        ));
    }
    text
}

/// The rules of a part.
fn written(rules: &[Rule]) -> String {
    let mut text = String::new();
    for rule in rules {
        let (resources, verbs) = (rule.resources.join(", "), rule.verbs.join(", "));
        text.push_str(&format!(
            "- apiGroups: [\"{}\"]\n  resources: [{resources}]\n",
            rule.group
        ));
        if !rule.names.is_empty() {
            text.push_str(&format!("  resourceNames: [{}]\n", rule.names.join(", ")));
        }
        text.push_str(&format!("  verbs: [{verbs}]\n"));
    }
    text
}

/// One rule for each API group.
fn rules() -> String {
    let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for kind in Kind::ALL.into_iter().filter(|kind| !kind.is_optional()) {
        groups
            .entry(kind.group())
            .or_default()
            .push(kind.resource());
    }
    let verbs = Kind::VERBS.join(", ");
    let mut text = String::new();
    for (group, resources) in groups {
        let resources = resources.join(", ");
        // Writing to a `String` cannot fail.
        let _infallible = write!(
            text,
            "- apiGroups: [\"{group}\"]\n  resources: [{resources}]\n  verbs: [{verbs}]\n"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use site::Cluster;

    #[test]
    fn the_role_is_as_people_have_read_it() {
        assert_eq!(
            rules(),
            "- apiGroups: [\"\"]\n  resources: [nodes, namespaces, services]\n  verbs: [list, watch]\n\
             - apiGroups: [\"discovery.k8s.io\"]\n  resources: [endpointslices]\n  verbs: [list, watch]\n"
        );
        let documents: Vec<serde_json::Value> =
            serde_saphyr::from_multiple(&manifest(false, false)).unwrap();
        let kinds: Vec<&str> = documents
            .iter()
            .map(|document| document["kind"].as_str().unwrap())
            .collect();
        assert_eq!(
            kinds,
            ["ServiceAccount", "ClusterRole", "ClusterRoleBinding"]
        );
        assert_eq!(
            documents[2]["roleRef"]["name"],
            documents[1]["metadata"]["name"]
        );
        assert_eq!(
            documents[2]["subjects"][0]["name"],
            documents[0]["metadata"]["name"]
        );
        assert_eq!(
            documents[2]["subjects"][0]["namespace"],
            documents[0]["metadata"]["namespace"]
        );
    }

    #[test]
    fn giving_addresses_takes_a_status_events_and_one_lease() {
        let text = manifest(true, true);
        let documents: Vec<serde_json::Value> = serde_saphyr::from_multiple(&text).unwrap();
        let kinds: Vec<&str> = documents
            .iter()
            .map(|document| document["kind"].as_str().unwrap())
            .collect();
        let read = ["ServiceAccount", "ClusterRole", "ClusterRoleBinding"];
        assert_eq!(kinds, [&read[..], &["Role", "RoleBinding"]].concat());
        for said in [
            "- apiGroups: [\"\"]\n  resources: [services/status]\n  verbs: [patch]\n",
            "- apiGroups: [\"\"]\n  resources: [events]\n  verbs: [create]\n",
            "- apiGroups: [\"operator.openshift.io\"]\n  resources: [dnses]\n  resourceNames: [default]\n  verbs: [list, watch]\n",
            "- apiGroups: [\"coordination.k8s.io\"]\n  resources: [leases]\n  resourceNames: [outpost-clusterd]\n  verbs: [get, update]\n",
        ] {
            assert!(text.contains(said), "{text}");
        }
        assert!(
            !manifest(false, true).contains("patch") && !manifest(false, false).contains("dnses")
        );
    }

    #[test]
    fn a_site_whose_clusterd_asks_no_api_needs_no_account() {
        let mut site = Site::example();
        assert_eq!(outputs(&site), []);
        let of = |source| Some(Cluster::new(source));
        site.cluster = of(ClusterSource::Manifests("/etc/outpost/m".into()));
        assert_eq!(outputs(&site), []);
        site.cluster = of(ClusterSource::Kubeconfig(None));
        assert_eq!(outputs(&site).len(), 1);
    }
}
