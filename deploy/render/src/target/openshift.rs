//! Objects and patches by which OpenShift gives its DNS and its virtual IPs over to the site, and takes them back.
//!
//! | files | effect |
//! | --- | --- |
//! | `dns-1` to `dns-4` | pods ask dns-recursor of the nodes, and /etc/hosts of the nodes has the services of the cluster |
//! | `dns-back` | OpenShift's DNS operator makes all of that as it was |
//! | `vip-install-config` | a new cluster holds no virtual IP itself |
//! | `vip-1`, `vip-2` | a cluster that runs does not hold them any more |
//!
//! The fields are those of `operator.openshift.io/v1` DNS, of the DNS operator's own Service and `DaemonSet`, and of the static
//! pods of the Machine Config Operator. docs/openshift.md has the commands, and what to look at after each.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::ignition::Config;
use super::unit::{Host, file};
use super::yaml::Yaml;
use crate::config::{Output, Part};
use site::service::Service;
use site::{Node, Role, Site, VipRole, paths};

/// The namespace of OpenShift's DNS.
const NAMESPACE: &str = "openshift-dns";
/// The account of our pods.
const ACCOUNT: &str = "outpost-node-hosts";
/// The `DaemonSet` of nodes that run dns-recursor: its pods stand for it.
const RESOLVER: &str = "outpost-resolver";
/// The `DaemonSet` of all other nodes.
const NODE_HOSTS: &str = "outpost-node-hosts";
/// The label by which Services and policies know our pods.
const LABEL: &str = "outpost/pod";
/// The label by which OpenShift's Service knows CoreDNS.
const COREDNS: &str = "dns.operator.openshift.io/daemonset-dns";
/// The services that nodes themselves look up: those of OpenShift's own node-resolver.
const SERVICES: &str = "image-registry.openshift-image-registry.svc";
/// A label that no node has.
const NOWHERE: &str = "outpost/nowhere";
/// The directory of the kubelet's static pods.
const STATIC_PODS: &str = "/etc/kubernetes/manifests";

/// The first release whose installer knows `loadBalancer`, and the first in which that is no preview.
const FIRST_USER_MANAGED: (u8, u8) = (4, 13);
/// See [`FIRST_USER_MANAGED`].
const USER_MANAGED: (u8, u8) = (4, 16);
/// The first release with policies for changes of files.
const POLICIES: (u8, u8) = (4, 17);

/// Everything for a site with OpenShift. DNS is there only where the site knows the names of the cluster: pods without them
/// would find no Service.
pub(super) fn outputs(site: &Site) -> Vec<Output> {
    let Some(release) = site.platform.openshift else {
        return Vec::new();
    };
    let mut outputs = Vec::new();
    let domain = site.cluster.as_ref().and_then(|it| it.domain.as_deref());
    let resolvers: Vec<&Node> = with_resolver(site).collect();
    if let (Some(domain), false) = (domain, resolvers.is_empty()) {
        outputs.extend(dns(site, domain, &resolvers));
    }
    outputs.extend(vips(site, release));
    outputs
}

fn with_resolver(site: &Site) -> impl Iterator<Item = &Node> {
    let runs = |node: &&Node| node.services.contains(&Service::DnsRecursor);
    site.nodes.iter().filter(runs)
}

fn output(name: &str, contents: String) -> Output {
    Output {
        path: PathBuf::from(name),
        mode: 0o644,
        contents: contents.into_bytes(),
        node: None,
    }
}

fn document(value: Value, comments: &[&str]) -> String {
    Yaml::from(value).document(comments)
}

//--- DNS

fn dns(site: &Site, domain: &str, resolvers: &[&Node]) -> Vec<Output> {
    vec![
        output("dns-1-node-hosts.yaml", node_hosts(site, domain, resolvers)),
        output(
            "dns-2-operator.yaml",
            document(
                json!({"spec": {"managementState": "Unmanaged"}}),
                &[
                    "OpenShift's DNS operator leaves its objects as they are from here on (OpenShift 4.10 and later).",
                    "oc patch dns.operator.openshift.io default --type merge --patch-file dns-2-operator.yaml",
                ],
            ),
        ),
        output(
            "dns-3-node-resolver.yaml",
            document(
                json!({"spec": {"template": {"spec": {"nodeSelector": {NOWHERE: ""}}}}}),
                &[
                    "OpenShift's node-resolver runs on no node: /etc/hosts is node-hosts' alone.",
                    "oc patch daemonset node-resolver --namespace openshift-dns --type merge --patch-file dns-3-node-resolver.yaml",
                ],
            ),
        ),
        output("dns-4-service.yaml", service()),
        output(
            "dns-back.yaml",
            document(
                json!({"spec": {"managementState": "Managed"}}),
                &[
                    "The way back: the operator makes the Service and node-resolver as they were, and pods ask CoreDNS again.",
                    "oc patch dns.operator.openshift.io default --type merge --patch-file dns-back.yaml",
                    "oc delete --filename dns-1-node-hosts.yaml",
                ],
            ),
        ),
    ]
}

/// The Service of the cluster's DNS: its address stays, and leads to port 53 of the nodes whose dns-recursor is ready.
fn service() -> String {
    let port = |name: &str, protocol: &str, port: u16, target: Value| json!({"name": name, "protocol": protocol, "port": port, "targetPort": target});
    let patch = json!({"spec": {
        "selector": {COREDNS: null, LABEL: RESOLVER},
        "ports": [
            port("dns", "UDP", 53, paths::DNS_PORT.into()),
            port("dns-tcp", "TCP", 53, paths::DNS_PORT.into()),
            // CoreDNS' own; our pods have none, and the operator's monitor finds nothing there.
            port("metrics", "TCP", 9154, "metrics".into()),
        ],
    }});
    document(
        patch,
        &[
            "The address of the cluster's DNS leads to dns-recursor of the nodes in place of CoreDNS.",
            "oc patch service dns-default --namespace openshift-dns --type merge --patch-file dns-4-service.yaml",
        ],
    )
}

/// The account and the pods that look services of the cluster up for /etc/hosts. Those of a node that runs dns-recursor are ready
/// while it is, and stand for it in the Service.
fn node_hosts(site: &Site, domain: &str, resolvers: &[&Node]) -> String {
    let account = json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": ACCOUNT, "namespace": NAMESPACE},
        "automountServiceAccountToken": false,
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": ACCOUNT, "namespace": NAMESPACE},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            // /etc of the node, and its network.
            "name": "system:openshift:scc:privileged",
        },
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}],
    });
    let servers: Vec<String> = resolvers
        .iter()
        .flat_map(|node| node.addresses.first())
        .map(ToString::to_string)
        .collect();
    let own = daemon_set(site, domain, resolvers, RESOLVER, &servers.join(","));
    let others = daemon_set(site, domain, resolvers, NODE_HOSTS, &servers.join(","));
    [
        document(
            account,
            &[
                "Services of the cluster in /etc/hosts of every node, by `dns-recursor node-hosts`.",
                "The image has to be in the site's registry: docs/openshift.md.",
                "oc apply --filename dns-1-node-hosts.yaml",
            ],
        ),
        document(binding, &[]),
        document(own, &["Nodes that run dns-recursor."]),
        document(others, &["All other nodes."]),
    ]
    .join("---\n")
}

fn daemon_set(site: &Site, domain: &str, resolvers: &[&Node], name: &str, servers: &str) -> Value {
    let is_resolver = name == RESOLVER;
    let operator = if is_resolver { "In" } else { "NotIn" };
    json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "selector": {"matchLabels": {LABEL: name}},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}},
            "template": {
                "metadata": {"labels": {LABEL: name}},
                "spec": {
                    "serviceAccountName": ACCOUNT,
                    "hostNetwork": true,
                    "dnsPolicy": "Default",
                    "priorityClassName": "system-node-critical",
                    "tolerations": [{"operator": "Exists"}],
                    "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{"matchExpressions": [
                            {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
                            {
                                "key": "kubernetes.io/hostname",
                                "operator": operator,
                                "values": host_names(site, resolvers),
                            },
                        ]}],
                    }}},
                    "containers": [container(site, domain, servers, is_resolver)],
                    "volumes": [{"name": "etc", "hostPath": {"path": "/etc", "type": "Directory"}}],
                },
            },
        },
    })
}

fn container(site: &Site, domain: &str, servers: &str, is_resolver: bool) -> Value {
    let variable = |name: &str, value: &str| json!({"name": name, "value": value});
    let mut container = json!({
        "name": "node-hosts",
        "image": image(site),
        "imagePullPolicy": "IfNotPresent",
        "args": ["node-hosts", "--hosts-file", "/host/etc/hosts", "--replace-node-resolver"],
        "env": [
            variable("SERVICES", SERVICES),
            variable("NAMESERVER", servers),
            variable("CLUSTER_DOMAIN", domain),
        ],
        "resources": {"requests": {"cpu": "5m", "memory": "10Mi"}},
        "securityContext": {
            "runAsUser": 0,
            "readOnlyRootFilesystem": true,
            "allowPrivilegeEscalation": false,
            "capabilities": {"drop": ["ALL"]},
            "seLinuxOptions": {"type": "spc_t"},
        },
        "volumeMounts": [{"name": "etc", "mountPath": "/host/etc"}],
    });
    if is_resolver && let Some(fields) = container.as_object_mut() {
        let admin = paths::admin(Service::DnsRecursor);
        // The node's dns-recursor and not this process: the pod has the node's network.
        let probe = json!({
            "httpGet": {"host": admin.ip().to_string(), "port": admin.port(), "path": "/readyz"},
            "periodSeconds": 2,
            "timeoutSeconds": 1,
            "failureThreshold": 2,
        });
        fields.insert("readinessProbe".to_owned(), probe);
    }
    container
}

/// Both forms in which nodes name themselves.
fn host_names(site: &Site, nodes: &[&Node]) -> Vec<String> {
    let both = |node: &&Node| [node.name.clone(), format!("{}.{}", node.name, site.domain)];
    nodes.iter().flat_map(both).collect()
}

/// The image in the site's registry: CRI-O does not see the store of images of the site's own services.
fn image(site: &Site) -> String {
    let name = site
        .registry
        .names
        .first()
        .map_or("registry", String::as_str);
    format!(
        "{name}.{}:{}/outpost/{}:{}",
        site.domain,
        site.registry.port,
        Service::DnsRecursor,
        env!("CARGO_PKG_VERSION")
    )
}

//--- Virtual IPs

fn vips(site: &Site, release: (u8, u8)) -> Vec<Output> {
    let addresses = |role: VipRole| -> Vec<String> {
        let vips = site.vips.iter().filter(|vip| vip.role == role);
        vips.flat_map(|vip| &vip.addresses)
            .map(|address| address.addr().to_string())
            .collect()
    };
    let (api, ingress) = (addresses(VipRole::Api), addresses(VipRole::Ingress));
    if api.is_empty() && ingress.is_empty() {
        return Vec::new();
    }
    let mut outputs = Vec::new();
    if !api.is_empty() && release >= FIRST_USER_MANAGED {
        outputs.push(install_config(&api, &ingress, release));
    }
    if release >= POLICIES {
        outputs.push(policy());
    }
    let roles = [Role::Master, Role::Worker].into_iter();
    outputs.extend(roles.filter_map(|role| static_pods(site, role)));
    outputs
}

/// A part of install-config.yaml.
fn install_config(api: &[String], ingress: &[String], release: (u8, u8)) -> Output {
    // With a balancer of the user both may be the same.
    let ingress = if ingress.is_empty() { api } else { ingress };
    let mut config = json!({"platform": {"baremetal": {
        "apiVIPs": api,
        "ingressVIPs": ingress,
        "loadBalancer": {"type": "UserManaged"},
    }}});
    let mut comments = vec![
        "A part of install-config.yaml for a new cluster: OpenShift starts neither keepalived nor haproxy.",
        "The platforms vsphere, nutanix and openstack have the same keys. The type cannot be changed after the installation.",
    ];
    if release < USER_MANAGED
        && let Some(fields) = config.as_object_mut()
    {
        fields.insert("featureSet".to_owned(), "TechPreviewNoUpgrade".into());
        comments
            .push("Before 4.16 it is a preview, and a cluster with previews cannot be upgraded.");
    }
    output("vip-install-config.yaml", document(config, &comments))
}

/// The static pods that hold what the site holds, or listen where it listens.
fn pods_of(site: &Site, role: Role) -> Vec<&'static str> {
    let of_role = || site.nodes.iter().filter(move |node| node.role == role);
    let mut pods = vec!["keepalived"];
    if role == Role::Master {
        pods.push("haproxy");
    }
    if of_role().any(|node| node.services.contains(&Service::DnsRecursor)) {
        pods.push("coredns");
    }
    match of_role().next() {
        Some(_) => pods,
        None => Vec::new(),
    }
}

fn path_of(pod: &str) -> String {
    format!("{STATIC_PODS}/{pod}.yaml")
}

/// A `MachineConfig` that leaves the kubelet nothing to run of these pods.
fn static_pods(site: &Site, role: Role) -> Option<Output> {
    let pods = pods_of(site, role);
    if pods.is_empty() {
        return None;
    }
    let label = match role {
        Role::Master => "master",
        Role::Worker => "worker",
    };
    let text = |pod: &str| format!("# {pod} is off: the site's own services do its work.\n");
    let host = Host {
        files: pods
            .iter()
            .map(|pod| file(path_of(pod), text(pod), Part::Common))
            .collect(),
        ..Host::default()
    };
    let name = format!("99-{label}-outpost-static-pods");
    let manifest = Yaml::Map(vec![
        (
            "apiVersion",
            Yaml::text("machineconfiguration.openshift.io/v1"),
        ),
        ("kind", Yaml::text("MachineConfig")),
        (
            "metadata",
            Yaml::from(json!({
                "labels": {"machineconfiguration.openshift.io/role": label},
                "name": name,
            })),
        ),
        (
            "spec",
            Yaml::Map(vec![("config", Config::of(&host).value().into())]),
        ),
    ]);
    let file_name = format!("vip-2-static-pods-{label}.yaml");
    let listed = format!("No {} on every {label}.", pods.join(", no "));
    let (go, back) = (
        format!("oc apply --filename {file_name}"),
        format!("The way back: oc delete machineconfig {name}"),
    );
    let contents = manifest.document(&[&listed, &go, &back]);
    Some(output(&file_name, contents))
}

/// The effect of that change on a node: none beside that the kubelet stops the pods.
fn policy() -> Output {
    let entry = |pod: &&str| json!({"path": path_of(pod), "actions": [{"type": "None"}]});
    let files: Vec<Value> = ["coredns", "haproxy", "keepalived"]
        .iter()
        .map(entry)
        .collect();
    let policy = json!({
        "apiVersion": "operator.openshift.io/v1",
        "kind": "MachineConfiguration",
        "metadata": {"name": "cluster"},
        "spec": {"nodeDisruptionPolicy": {"files": files}},
    });
    output(
        "vip-1-policy.yaml",
        document(
            policy,
            &[
                "A change of these static pods restarts no node (OpenShift 4.17 and later).",
                "oc apply --server-side --field-manager outpost-static-pods --filename vip-1-policy.yaml",
            ],
        ),
    )
}

#[cfg(test)]
mod tests {
    use site::{Cluster, ClusterSource};

    use super::super::tests::vip;
    use super::*;

    fn names(site: &Site) -> Vec<String> {
        let outputs = outputs(site).into_iter();
        outputs
            .map(|output| output.path.display().to_string())
            .collect()
    }

    fn documents(site: &Site, name: &str) -> Vec<Value> {
        let outputs = outputs(site).into_iter();
        let mut found = outputs.filter(|output| output.path.as_os_str() == name);
        let contents = found.next().map(|output| output.contents).unwrap();
        serde_saphyr::from_multiple(&String::from_utf8(contents).unwrap()).unwrap()
    }

    /// The example with the names of a cluster, and with virtual IPs.
    fn whole(release: (u8, u8)) -> Site {
        let mut site = Site::example();
        let mut cluster = Cluster::new(ClusterSource::Kubeconfig(None));
        cluster.domain = Some("cluster.local".to_owned());
        site.cluster = Some(cluster);
        site.vips = vec![vip()];
        site.platform.openshift = Some(release);
        site
    }

    const DNS: [&str; 5] = [
        "dns-1-node-hosts.yaml",
        "dns-2-operator.yaml",
        "dns-3-node-resolver.yaml",
        "dns-4-service.yaml",
        "dns-back.yaml",
    ];

    #[test]
    fn a_site_gets_what_its_release_has() {
        let pods = [
            "vip-2-static-pods-master.yaml",
            "vip-2-static-pods-worker.yaml",
        ];
        let config = ["vip-install-config.yaml"];
        let policy = ["vip-1-policy.yaml"];
        for (release, vips) in [
            ((4, 12), vec![&pods[..]]),
            ((4, 13), vec![&config[..], &pods[..]]),
            ((4, 16), vec![&config[..], &pods[..]]),
            ((4, 17), vec![&config[..], &policy[..], &pods[..]]),
        ] {
            let wanted = [&DNS[..], &vips.concat()].concat();
            assert_eq!(names(&whole(release)), wanted, "{release:?}");
        }
        let featured = |release| {
            let config = documents(&whole(release), "vip-install-config.yaml");
            config[0]["featureSet"].clone()
        };
        assert_eq!(featured((4, 15)), json!("TechPreviewNoUpgrade"));
        assert_eq!(featured((4, 16)), Value::Null);
    }

    #[test]
    fn nothing_is_rendered_that_would_take_names_away() {
        let mut site = whole((4, 18));
        site.vips = Vec::new();
        assert_eq!(names(&site), DNS);
        // Pods that ask servers without the names of the cluster find no Service.
        site.cluster = None;
        assert_eq!(names(&site), [""; 0]);
        let mut site = whole((4, 18));
        for node in &mut site.nodes {
            node.services.retain(|one| *one != Service::DnsRecursor);
        }
        assert!(names(&site).iter().all(|name| !name.starts_with("dns-")));
        let mut site = whole((4, 18));
        site.platform.openshift = None;
        assert_eq!(names(&site), [""; 0]);
    }

    /// A merge of JSON (RFC 7396), as the API server does it.
    fn merged(mut object: Value, patch: &Value) -> Value {
        let Some(changes) = patch.as_object() else {
            return patch.clone();
        };
        if !object.is_object() {
            object = json!({});
        }
        for (key, change) in changes {
            let fields = object.as_object_mut().unwrap();
            match change {
                Value::Null => drop(fields.remove(key)),
                change => {
                    let before = fields.remove(key).unwrap_or_default();
                    fields.insert(key.clone(), merged(before, change));
                }
            }
        }
        object
    }

    #[test]
    fn the_service_leads_to_our_pods_alone_and_keeps_its_address() {
        // As the operator makes it.
        let service = json!({"spec": {
            "clusterIP": "172.30.0.10",
            "trafficDistribution": "PreferSameNode",
            "selector": {"dns.operator.openshift.io/daemonset-dns": "default"},
            "ports": [
                {"name": "dns", "port": 53, "targetPort": "dns", "protocol": "UDP"},
                {"name": "dns-tcp", "port": 53, "targetPort": "dns-tcp", "protocol": "TCP"},
                {"name": "metrics", "port": 9154, "targetPort": "metrics", "protocol": "TCP"},
            ],
        }});
        let site = whole((4, 18));
        let after = merged(service, &documents(&site, "dns-4-service.yaml")[0]);
        assert_eq!(after["spec"]["selector"], json!({LABEL: RESOLVER}));
        assert_eq!(after["spec"]["clusterIP"], "172.30.0.10");
        assert_eq!(after["spec"]["trafficDistribution"], "PreferSameNode");
        assert_eq!(after["spec"]["ports"][0]["targetPort"], 53);
        let sets = documents(&site, "dns-1-node-hosts.yaml");
        let set = |name: &str| {
            let mut sets = sets.iter();
            sets.find(|set| set["kind"] == "DaemonSet" && set["metadata"]["name"] == name)
                .unwrap()
        };
        let labels = &set(RESOLVER)["spec"]["template"]["metadata"]["labels"];
        assert_eq!(labels, &after["spec"]["selector"]);
        let pod = |name: &str| set(name)["spec"]["template"]["spec"].clone();
        let probe = pod(RESOLVER)["containers"][0]["readinessProbe"].clone();
        assert_eq!(
            probe["httpGet"],
            json!({"host": "127.0.0.1", "port": 9403, "path": "/readyz"})
        );
        assert_eq!(
            pod(NODE_HOSTS)["containers"][0]["readinessProbe"],
            Value::Null
        );
        // Every node is in one of the two.
        let terms = |name: &str| {
            let affinity = &pod(name)["affinity"]["nodeAffinity"];
            let terms = &affinity["requiredDuringSchedulingIgnoredDuringExecution"];
            terms["nodeSelectorTerms"][0]["matchExpressions"][1].clone()
        };
        assert_eq!(terms(RESOLVER)["operator"], "In");
        assert_eq!(terms(NODE_HOSTS)["operator"], "NotIn");
        assert_eq!(terms(RESOLVER)["values"], terms(NODE_HOSTS)["values"]);
        let values = terms(RESOLVER)["values"].to_string();
        assert!(
            values.contains("\"master-0\",\"master-0.ocp4.redhat.ren\""),
            "{values}"
        );
        assert!(!values.contains("worker"), "{values}");
    }

    #[test]
    fn static_pods_are_files_that_start_nothing() {
        let site = whole((4, 18));
        let paths = |name: &str| {
            let config = documents(&site, name).remove(0);
            let files = config["spec"]["config"]["storage"]["files"].clone();
            let files = files.as_array().unwrap().clone();
            files
                .iter()
                .map(|file| file["path"].as_str().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            paths("vip-2-static-pods-master.yaml"),
            [
                "/etc/kubernetes/manifests/coredns.yaml",
                "/etc/kubernetes/manifests/haproxy.yaml",
                "/etc/kubernetes/manifests/keepalived.yaml",
            ]
        );
        assert_eq!(
            paths("vip-2-static-pods-worker.yaml"),
            ["/etc/kubernetes/manifests/keepalived.yaml"]
        );
        let policy = documents(&site, "vip-1-policy.yaml").remove(0);
        let files = policy["spec"]["nodeDisruptionPolicy"]["files"].clone();
        let named: Vec<&str> = files
            .as_array()
            .unwrap()
            .iter()
            .map(|file| file["path"].as_str().unwrap())
            .collect();
        assert_eq!(named, paths("vip-2-static-pods-master.yaml"));
    }
}
