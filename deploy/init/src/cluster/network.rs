//! Networks, virtual IPs and the ways out of the site.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::Value;

use super::{CONFIG, Learner, OPERATOR, host_of, is_inside, items, parsed, push_new, text};

/// The annotations in which a network of pods has the address of a node with the length of its network: Calico's.
const PLAIN_PREFIXES: [&str; 2] = [
    "projectcalico.org/IPv4Address",
    "projectcalico.org/IPv6Address",
];
/// The same in JSON: OVN-Kubernetes'. Keys and items may be anything; addresses among them count.
const JSON_PREFIXES: [&str; 2] = ["k8s.ovn.org/node-primary-ifaddr", "k8s.ovn.org/host-cidrs"];
/// The annotation in which OVN-Kubernetes has the router of a node.
const GATEWAY: &str = "k8s.ovn.org/l3-gateway-config";

impl<'a> Learner<'a> {
    /// The platform, as OpenShift describes it: VIPs, networks, balancer.
    fn platforms(&self) -> Vec<&'a Value> {
        let status = self
            .infrastructure
            .and_then(|it| it.pointer("/status/platformStatus"));
        let tables = status.and_then(Value::as_object);
        let tables = tables.into_iter().flat_map(|tables| tables.values());
        tables.filter(|value| value.is_object()).collect()
    }

    /// The networks of the nodes.
    pub(super) fn networks(&mut self) {
        let of_platform: Vec<IpNet> = self
            .platforms()
            .into_iter()
            .flat_map(|platform| parsed::<IpNet>(platform, "/machineNetworks"))
            .collect();
        let of_install = std::mem::take(&mut self.install.networks);
        let of_nodes: Vec<IpNet> = self
            .machines()
            .flat_map(prefixes_of_node)
            .map(|prefix| prefix.trunc())
            .collect();
        let addresses: Vec<IpAddr> = self.machines().flat_map(super::node::internal).collect();
        // A network in which no node is says nothing about this site.
        let all = of_platform.into_iter().chain(of_install).chain(of_nodes);
        for network in all {
            if addresses.iter().any(|address| network.contains(address)) {
                self.draft.network(network);
            }
        }
        if self.draft.networks.is_empty() {
            self.not_learned(
                "the network of the nodes",
                "addresses of nodes have no prefix length in the API; --network gives it",
            );
        }
        for gateway in self.routers_of_nodes() {
            push_new(&mut self.draft.gateways, gateway);
        }
        if self.draft.gateways.is_empty() {
            self.not_learned("addresses of routers", "no object has them; add `gateways`");
        }
    }

    /// The routers of the nodes that are no nodes themselves.
    fn routers_of_nodes(&self) -> BTreeSet<IpAddr> {
        let nodes: Vec<IpAddr> = self
            .objects
            .all("", "Node")
            .flat_map(super::node::internal)
            .collect();
        let configs = self
            .objects
            .all("", "Node")
            .filter_map(|node| annotation(node, GATEWAY))
            .filter_map(|text| serde_json::from_str::<Value>(text).ok());
        let hops = configs.flat_map(|config| {
            let mut hops = parsed::<IpAddr>(&config, "/default/next-hops");
            hops.extend(parsed::<IpAddr>(&config, "/default/next-hop"));
            hops
        });
        hops.filter(|hop| is_inside(&self.draft.networks, *hop) && !nodes.contains(hop))
            .collect()
    }

    /// The virtual IPs, which no node may have as its own.
    pub(super) fn addresses_of_the_api(&mut self) {
        let found: Vec<(Vec<IpAddr>, Vec<IpAddr>)> = self
            .platforms()
            .into_iter()
            .map(|platform| {
                let several = |list: &str, one: &str| match parsed::<IpAddr>(platform, list) {
                    none if none.is_empty() => parsed(platform, one),
                    found => found,
                };
                (
                    several("/apiServerInternalIPs", "/apiServerInternalIP"),
                    several("/ingressIPs", "/ingressIP"),
                )
            })
            .collect();
        let has_given = !self.draft.api_vips.is_empty();
        for (api, ingress) in found {
            // A node that holds one has it among its own, also if the site is to have others.
            self.vips.extend(api.iter().chain(&ingress));
            for address in api.into_iter().filter(|_| !has_given) {
                push_new(&mut self.draft.api_vips, address);
            }
            for address in ingress.into_iter().filter(|_| !has_given) {
                push_new(&mut self.draft.ingress_vips, address);
            }
        }
        if self.is_openshift() || !self.draft.api_vips.is_empty() {
            return;
        }
        // The address at which everything reaches the API, if it is no node's.
        let nodes: Vec<IpAddr> = self
            .objects
            .all("", "Node")
            .filter(|node| super::node::is_master(node))
            .filter_map(|node| super::node::internal(node).into_iter().next())
            .collect();
        let servers = [
            text(&self.kubeadm, "/controlPlaneEndpoint"),
            self.objects.server.as_deref().unwrap_or_default(),
        ];
        let vip = servers
            .iter()
            .filter_map(|url| host_of(url).parse::<IpAddr>().ok())
            .find(|address| is_inside(&self.draft.networks, *address) && !nodes.contains(address));
        let Some(vip) = vip else { return };
        match self.draft.interface {
            Some(_) => self.draft.api_vips.push(vip),
            None => self.not_learned(
                &format!("the virtual IP {vip} of the API"),
                "no object says on which interface it is; --interface gives that, and --api-vip the address",
            ),
        }
    }

    /// Notes that OpenShift holds the virtual IPs itself.
    pub(super) fn virtual_ips(&mut self) {
        if !self.is_openshift() {
            return;
        }
        if self.draft.api_vips.is_empty() {
            self.not_learned(
                "virtual IPs",
                "the platform of the cluster has none; names lead to the nodes on which the port is up, or give --api-vip and --ingress-vip",
            );
            return;
        }
        let kinds = self.platforms();
        let mut kinds = kinds
            .iter()
            .map(|platform| text(platform, "/loadBalancer/type"));
        if !kinds.any(|kind| kind == "UserManaged") {
            self.draft.note(
                "OpenShift's own keepalived holds these virtual IPs, and the type of the load balancer of a running cluster cannot be changed: docs/openshift.md says what to do",
            );
        }
    }

    /// The DNS servers outside.
    pub(super) fn upstreams(&mut self) {
        let dns = self.objects.one(OPERATOR, "DNS", "default");
        let listed: Vec<&Value> = dns
            .into_iter()
            .flat_map(|dns| items(dns, "/spec/upstreamResolvers/upstreams"))
            .filter(|upstream| text(upstream, "/type") == "Network")
            .collect();
        for upstream in listed {
            let Ok(address) = text(upstream, "/address").parse::<IpAddr>() else {
                continue;
            };
            let port = upstream.get("port").and_then(Value::as_u64);
            let server = match (address, port.unwrap_or(53)) {
                (address, 53) => address.to_string(),
                (IpAddr::V4(address), port) => format!("{address}:{port}"),
                (IpAddr::V6(address), port) => format!("[{address}]:{port}"),
            };
            if crate::values::upstream(&server).is_ok() {
                push_new(&mut self.draft.upstreams, server);
            }
        }
        for server in std::mem::take(&mut self.install.upstreams) {
            push_new(&mut self.draft.upstreams, server);
        }
        if self.draft.upstreams.is_empty() {
            self.not_learned(
                "DNS servers outside the site",
                "the cluster asks those of its nodes, and no object has them; --upstream gives them, /etc/resolv.conf of a node says which they are",
            );
        }
    }

    /// The networks of pods, of Services, and those of both that have names.
    pub(super) fn pods_and_services(&self) -> (Vec<IpNet>, Vec<IpNet>) {
        let network = self.objects.one(CONFIG, "Network", "cluster");
        let of = |part: &str| -> Vec<IpNet> {
            let network = network.and_then(|network| network.pointer(&format!("/{part}")));
            let Some(network) = network else {
                return Vec::new();
            };
            let pods = items(network, "/clusterNetwork");
            pods.filter_map(|entry| text(entry, "/cidr").parse().ok())
                .collect()
        };
        // The networks in use count, not the wanted ones.
        let mut pods = match of("status") {
            none if none.is_empty() => of("spec"),
            found => found,
        };
        let services = |part: &str| -> Vec<IpNet> {
            network.map_or_else(Vec::new, |network| {
                parsed(network, &format!("/{part}/serviceNetwork"))
            })
        };
        let mut of_services = match services("status") {
            none if none.is_empty() => services("spec"),
            found => found,
        };
        pods.extend(parsed::<IpNet>(&self.kubeadm, "/networking/podSubnet"));
        of_services.extend(parsed::<IpNet>(&self.kubeadm, "/networking/serviceSubnet"));
        let trunc = |networks: Vec<IpNet>| networks.iter().map(IpNet::trunc).collect();
        (trunc(pods), trunc(of_services))
    }

    /// The networks of Services and pods whose addresses get names, and the clients that pods are.
    pub(super) fn reverse(&mut self) -> Vec<IpNet> {
        let (pods, services) = self.pods_and_services();
        if pods.is_empty() && services.is_empty() {
            self.not_learned(
                "the networks of pods and Services",
                "no object has them; `clients` lets pods ask for names, `reverse` in [cluster] gives their addresses names",
            );
        }
        let mut reverse: Vec<IpNet> = Vec::new();
        for (network, is_of_pods) in services
            .iter()
            .map(|network| (network, false))
            .chain(pods.iter().map(|network| (network, true)))
        {
            let overlaps = |other: &IpNet| other.contains(network) || network.contains(other);
            if self.draft.networks.iter().any(overlaps) || reverse.iter().any(overlaps) {
                self.draft.note(&format!(
                    "not carried: the network {network} of the cluster, which overlaps another one"
                ));
                continue;
            }
            if is_of_pods {
                push_new(&mut self.draft.clients, *network);
            }
            reverse.push(*network);
        }
        reverse
    }

    /// The nodes of routers, if the site file has them elsewhere by default.
    pub(super) fn routers(&mut self) {
        let has_workers = self
            .draft
            .nodes
            .iter()
            .any(|node| node.role == Some(site::Role::Worker));
        let ingress = self.objects.one(CONFIG, "Ingress", "cluster");
        let placement = ingress.map_or("", |it| text(it, "/status/defaultPlacement"));
        self.draft.has_routers_on_masters = has_workers && placement == "ControlPlane";
    }
}

/// The addresses of a node with the lengths of their networks.
fn prefixes_of_node(node: &Value) -> Vec<IpNet> {
    let mut texts: Vec<String> = Vec::new();
    for name in PLAIN_PREFIXES {
        texts.extend(annotation(node, name).map(str::to_owned));
    }
    for name in JSON_PREFIXES {
        let parsed = annotation(node, name).and_then(|text| serde_json::from_str(text).ok());
        match parsed {
            Some(Value::Object(map)) => {
                let values = map.values().filter_map(Value::as_str);
                texts.extend(values.map(str::to_owned));
            }
            Some(Value::Array(list)) => {
                texts.extend(list.iter().filter_map(Value::as_str).map(str::to_owned));
            }
            _ => {}
        }
    }
    let own = super::node::internal(node);
    let prefixes = texts.iter().filter_map(|text| text.parse::<IpNet>().ok());
    // Other addresses of a node, such as virtual IPs that it holds, lead elsewhere.
    prefixes
        .filter(|prefix| {
            own.contains(&prefix.addr()) && prefix.prefix_len() < prefix.max_prefix_len()
        })
        .collect()
}

fn annotation<'a>(node: &'a Value, name: &str) -> Option<&'a str> {
    node.get("metadata")?
        .get("annotations")?
        .get(name)?
        .as_str()
}
