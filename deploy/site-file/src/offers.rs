//! Virtual IPs, and what is published where.

use ipnet::IpNet;

use super::builder::Builder;
use super::names;
use super::spec::{PublishSpec, RegistrySpec, Spec, Text, VipSpec};
use site::service::Service;
use site::{Node, OfferedBy, Platform, Published, Registry, Role, Vip, VipRole};

impl Builder<'_> {
    pub(super) fn vips(
        &mut self,
        specs: &[VipSpec],
        cluster: &Text,
        interface: Option<&str>,
        nodes: &[Node],
    ) -> Vec<Vip> {
        let mut vips: Vec<Vip> = Vec::new();
        for spec in specs {
            let vip = self.vip(spec, cluster.get_ref());
            if let Some(other) = vips.iter().find(|other| other.name == vip.name) {
                let message = format!("there is a [[vip]] `{}` already", other.name);
                self.report.wrong(spec.name.span(), message);
            }
            if let Some(role) = &spec.role
                && vip.role != VipRole::Plain
                && let Some(other) = vips.iter().find(|other| other.role == vip.role)
            {
                let message = format!("`{}` is the virtual IP of this role already", other.name);
                self.report.wrong(role.span(), message);
            }
            self.router_ids(spec, &vip, &vips, cluster.get_ref());
            vips.push(vip);
        }
        if let Some(first) = specs.first() {
            self.holders(&first.name, interface, nodes);
        }
        for (spec, vip) in specs.iter().zip(&vips) {
            self.families(&spec.name, vip, nodes);
        }
        vips
    }

    fn vip(&mut self, spec: &VipSpec, cluster: &str) -> Vip {
        let name = self.name(&spec.name, names::label);
        let role = spec
            .role
            .as_ref()
            .map_or(VipRole::Plain, |role| (*role.get_ref()).into());
        let who = format!("virtual IP {name}");
        let mut addresses = Vec::new();
        for (address, span) in self.address_list(spec.address.as_ref(), &spec.addresses, &spec.name)
        {
            self.addresses.claim(&mut self.report, address, span, &who);
            let network = self.addresses.network_of(address);
            let length = network.map(|network| network.prefix_len());
            let alone = if address.is_ipv4() { 32 } else { 128 };
            addresses.extend(IpNet::new(address, length.unwrap_or(alone)));
        }
        if let Some(id) = spec.router_id.as_ref().filter(|id| *id.get_ref() == 0) {
            self.report
                .wrong(id.span(), "the number of a virtual router is 1 to 255");
        }
        let given = spec.router_id.as_ref().map(|id| *id.get_ref());
        let router_id = match role {
            VipRole::Plain => given.or_else(|| Some(fletcher8(&format!("{cluster}-{name}")) + 1)),
            VipRole::Api | VipRole::Ingress => given,
        };
        Vip {
            name,
            role,
            addresses,
            router_id,
        }
    }

    /// Two virtual routers of one number and family on one link disturb each other (RFC 9568 §1).
    fn router_ids(&mut self, spec: &VipSpec, vip: &Vip, others: &[Vip], cluster: &str) {
        let id = router_id(vip, cluster);
        let clash = others.iter().find(|other| {
            router_id(other, cluster) == id
                && other.addresses.iter().any(|one| {
                    let is_v4 = one.addr().is_ipv4();
                    vip.addresses
                        .iter()
                        .any(|address| address.addr().is_ipv4() == is_v4)
                })
        });
        if let Some(other) = clash {
            let span = spec
                .router_id
                .as_ref()
                .map_or_else(|| spec.name.span(), toml::Spanned::span);
            self.report.wrong(
                span,
                format!(
                    "`{}` and `{}` are both virtual router {id}; give one of them another `router-id`",
                    other.name, vip.name
                ),
            );
        }
    }

    /// Checks that a node can hold an address.
    fn holders(&mut self, first: &Text, interface: Option<&str>, nodes: &[Node]) {
        let mut holders = nodes
            .iter()
            .filter(|node| node.services.contains(&Service::LbProxy))
            .peekable();
        if holders.peek().is_none() {
            self.report.wrong(
                first.span(),
                "no node can hold a virtual IP: no node runs lb-proxy",
            );
        }
        let bare: Vec<&str> = holders
            .filter(|node| node.interface.is_none() && interface.is_none())
            .map(|node| node.name.as_str())
            .collect();
        if !bare.is_empty() {
            self.report.wrong(
                first.span(),
                format!(
                    "on which interface are virtual IPs on {}? There is no `interface` of the site or of the node",
                    bare.join(", ")
                ),
            );
        }
    }

    /// A node announces an address from one of its own of the same family.
    fn families(&mut self, at: &Text, vip: &Vip, nodes: &[Node]) {
        for address in &vip.addresses {
            let is_v4 = address.addr().is_ipv4();
            let lacking = nodes.iter().find(|node| {
                node.services.contains(&Service::LbProxy)
                    && !node.addresses.is_empty()
                    && !node.addresses.iter().any(|own| own.is_ipv4() == is_v4)
            });
            if let Some(node) = lacking {
                let family = if is_v4 { "IPv4" } else { "IPv6" };
                self.report.wrong(
                    at.span(),
                    format!(
                        "{} cannot be held by node {}, which has no {family} address",
                        address.addr(),
                        node.name
                    ),
                );
            }
        }
    }

    pub(super) fn published(
        &mut self,
        spec: &Spec,
        registry: &Registry,
        platform: &Platform,
        vips: &[Vip],
        nodes: &[Node],
    ) -> Vec<Published> {
        let has_registry = nodes
            .iter()
            .any(|node| node.services.contains(&Service::RegistrySvc));
        let mut published = match platform.openshift {
            Some(_) => Published::usual(registry),
            None => vec![Published::registry(registry)],
        };
        published.retain(|one| has_registry || one.offered_by != running_registry());
        for one in &mut published {
            one.vip = vip_of(one.role, vips);
        }
        for publish in &spec.publish {
            self.publish(publish, &mut published, vips);
        }
        for one in &published {
            self.claim(one, spec);
        }
        published
    }

    fn publish(&mut self, spec: &PublishSpec, published: &mut Vec<Published>, vips: &[Vip]) {
        let what = spec.name.get_ref();
        self.name(&spec.name, |name| names::label(&name.to_ascii_lowercase()));
        let known = published
            .iter()
            .position(|one| one.what.eq_ignore_ascii_case(what));
        let mut one = match known {
            Some(index) => published.remove(index),
            None => Published {
                what: what.clone(),
                role: VipRole::Plain,
                port: 0,
                proxy_port: None,
                names: Vec::new(),
                vip: None,
                offered_by: OfferedBy::Roles(vec![Role::Master]),
            },
        };
        if known.is_none() && spec.port.is_none() {
            self.report
                .wrong(spec.name.span(), format!("`{what}` has no `port`"));
        }
        if let Some(role) = spec.role {
            one.role = role.into();
            one.vip = vip_of(one.role, vips);
        }
        if let Some(port) = &spec.port {
            one.port = *port.get_ref();
        }
        if let Some(port) = &spec.proxy_port {
            one.proxy_port = Some(*port.get_ref());
        }
        if let Some(names) = &spec.names {
            one.names = names.iter().map(|name| name.get_ref().clone()).collect();
        }
        if let Some(roles) = &spec.offered_by {
            one.offered_by = OfferedBy::Roles(roles.iter().map(|&role| role.into()).collect());
        }
        if let Some(vip) = &spec.vip {
            if !vips.iter().any(|known| known.name == *vip.get_ref()) {
                self.report.wrong(
                    vip.span(),
                    format!("there is no [[vip]] `{}`", vip.get_ref()),
                );
            }
            one.vip = Some(vip.get_ref().clone());
        }
        let at = known.unwrap_or(published.len());
        published.insert(at, one);
    }

    /// Claims the ports and names of a published port.
    fn claim(&mut self, one: &Published, spec: &Spec) {
        let written = spec
            .publish
            .iter()
            .find(|publish| publish.name.get_ref().eq_ignore_ascii_case(&one.what));
        let is_registry = one.offered_by == running_registry();
        let RegistrySpec { names, port, .. } = &spec.registry;
        let written_port = written
            .and_then(|publish| publish.port.as_ref())
            .or_else(|| port.as_ref().filter(|_| is_registry));
        let written_names = written
            .and_then(|publish| publish.names.as_deref())
            .or_else(|| names.as_deref().filter(|_| is_registry));
        // A value that is not written has its place in the head of the file: the name of the cluster.
        let home = written.map_or_else(|| spec.name.span(), |publish| publish.name.span());
        let what = one.what.clone();
        // A port that is missing has been told already.
        if one.port > 0 || written_port.is_some() {
            let span = written_port.map_or_else(|| home.clone(), toml::Spanned::span);
            self.ports
                .claim(&mut self.report, one.port, span, what.clone());
        }
        if let Some(port) = one.proxy_port {
            let span = written
                .and_then(|publish| publish.proxy_port.as_ref())
                .map_or_else(|| home.clone(), toml::Spanned::span);
            let who = format!("lb-proxy for {what}");
            self.ports.claim(&mut self.report, port, span, who);
        }
        for (index, name) in one.names.iter().enumerate() {
            let span = written_names
                .and_then(|names| names.get(index))
                .map_or_else(|| home.clone(), toml::Spanned::span);
            if let Err(why) = names::owner(name) {
                self.report.wrong(span.clone(), format!("`{name}` {why}"));
            }
            self.names
                .claim(&mut self.report, name, span, format!("a name of {what}"));
        }
    }
}

fn running_registry() -> OfferedBy {
    OfferedBy::Running(Service::RegistrySvc)
}

/// The virtual IP of a role; plain ones are named where they are meant.
fn vip_of(role: VipRole, vips: &[Vip]) -> Option<String> {
    let vip = vips
        .iter()
        .find(|vip| vip.role == role && role != VipRole::Plain)?;
    Some(vip.name.clone())
}

/// The number of a virtual IP's router.
fn router_id(vip: &Vip, cluster: &str) -> u8 {
    let suffix = match vip.role {
        VipRole::Api => "api",
        VipRole::Ingress => "ingress",
        VipRole::Plain => vip.name.as_str(),
    };
    vip.router_id
        .unwrap_or_else(|| fletcher8(&format!("{cluster}-{suffix}")) + 1)
}

/// Fletcher's checksum of 8 bits as OpenShift computes the numbers of its virtual routers with it
/// (baremetal-runtimecfg, `PopulateVRIDs`): 0 to 238.
fn fletcher8(text: &str) -> u8 {
    let step = |(low, high): (u8, u8), octet: u8| {
        let low = low.wrapping_add(octet) % 15;
        (low, (high + low) % 15)
    };
    let (low, high) = text.bytes().fold((0, 0), step);
    high << 4 | low
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Clusters whose rendered keepalived.conf people have published in bug reports.
    #[test]
    fn numbers_are_those_of_clusters_in_the_field() {
        assert_eq!(fletcher8("oc2-yw674-api") + 1, 1);
        assert_eq!(fletcher8("oc2-yw674-ingress") + 1, 223);
        assert_eq!(fletcher8("piyushv6-api") + 1, 214);
    }
}
