//! The addresses of Services, and the forwards of the cluster.

use std::collections::BTreeSet;
use std::net::IpAddr;

use cluster::{Dns, Kind, Object};
use config::lb_proxy::AddressRange;
use serde_json::Value;

use super::{CONFIG, Learner, OPERATOR, is_inside, items, parsed, text};

/// The group of the pools of `MetalLB`.
const METALLB: &str = "metallb.io";
/// Addresses of Services that a proposal lists; more of them want a range by a person.
const MOST_ADDRESSES: usize = 32;

impl Learner<'_> {
    /// Whether dns-recursor can follow what OpenShift's DNS operator forwards.
    pub(super) fn forwards(&mut self) -> bool {
        let Some(value) = self.objects.one(OPERATOR, "DNS", "default") else {
            return false;
        };
        let read = cluster_objects::object::read(Kind::Dns, value.clone());
        let dns = match read {
            Ok(Object::Dns(dns)) => dns,
            Ok(_) => return false,
            Err(error) => {
                self.not_learned("forwards of the cluster", &error.to_string());
                return false;
            }
        };
        if has_tls(&dns) {
            self.draft.note(
                "dnses/default asks for TLS to upstreams: `dns-recursor status` says whether its forwards are followed",
            );
        }
        !dns.servers.is_empty()
    }

    /// Proposals for the addresses of Services of type `LoadBalancer`: pools that the cluster has, and addresses in use.
    pub(super) fn pools(&mut self) -> Vec<String> {
        let mut proposals = Vec::new();
        let networks = self.draft.networks.clone();
        let listed = |ranges: &BTreeSet<String>| {
            let ranges: Vec<String> = ranges.iter().map(|range| format!("\"{range}\"")).collect();
            ranges.join(", ")
        };
        let of_metallb: BTreeSet<String> = self
            .objects
            .all(METALLB, "IPAddressPool")
            .flat_map(|pool| items(pool, "/spec/addresses"))
            .filter_map(Value::as_str)
            .filter_map(|range| range.replace(' ', "").parse::<AddressRange>().ok())
            .map(|range| range.to_string())
            .collect();
        if !of_metallb.is_empty() {
            proposals.push(
                "The pools of MetalLB, which has to stop before this takes effect:".to_owned(),
            );
            proposals.push(format!("addresses = [{}]", listed(&of_metallb)));
        }
        let network = self.objects.one(CONFIG, "Network", "cluster");
        let assigned: BTreeSet<String> = network
            .into_iter()
            .flat_map(|network| parsed::<ipnet::IpNet>(network, "/spec/externalIP/autoAssignCIDRs"))
            .map(|network| network.to_string())
            .collect();
        if !assigned.is_empty() {
            proposals.push("The addresses that OpenShift gives to Services by itself:".to_owned());
            proposals.push(format!("follow-addresses = [{}]", listed(&assigned)));
        }
        let used: BTreeSet<IpAddr> = self
            .objects
            .all("", "Service")
            .filter(|service| text(service, "/spec/type") == "LoadBalancer")
            .flat_map(|service| items(service, "/status/loadBalancer/ingress"))
            .filter_map(|point| text(point, "/ip").parse().ok())
            .filter(|address| is_inside(&networks, *address))
            .collect();
        if of_metallb.is_empty() && assigned.is_empty() && !used.is_empty() {
            let used: BTreeSet<String> = used
                .iter()
                .take(MOST_ADDRESSES)
                .map(ToString::to_string)
                .collect();
            proposals.push("The addresses that Services have now; their load balancer has to stop before this takes effect:".to_owned());
            proposals.push(format!("addresses = [{}]", listed(&used)));
        }
        proposals
    }
}

/// Whether any part of the object asks for TLS.
fn has_tls(dns: &Dns) -> bool {
    let mut servers = dns.servers.iter();
    dns.resolvers.tls.is_some() || servers.any(|server| server.forward.tls.is_some())
}
