//! Virtual IPs, and what is published where.

use config::site as file;
use config::{Step, at};
use ipnet::IpNet;

use super::builder::{Builder, MAX_LISTED};
use super::names;
use site::service::Service;
use site::{Node, OfferedBy, Page, Platform, Published, Registry, Role, Vip, VipRole};

impl Builder<'_, '_> {
    pub(super) fn vips(
        &mut self,
        specs: &[file::Vip],
        cluster: &str,
        interface: Option<&str>,
        nodes: &[Node],
    ) -> Vec<Vip> {
        let mut vips: Vec<Vip> = Vec::new();
        for (index, spec) in specs.iter().take(MAX_LISTED).enumerate() {
            let vip = self.vip(index, spec, cluster);
            if let Some(other) = vips.iter().find(|other| other.name == vip.name) {
                let message = format!(
                    "there is a [[vip]] `{}` already; give one of them another name",
                    other.name
                );
                let span = self.report.span(&at!["vip", index, "name"]);
                self.report.wrong(span, message);
            }
            if vip.role != VipRole::Plain
                && let Some(other) = vips.iter().find(|other| other.role == vip.role)
            {
                let message = format!(
                    "`{}` is the virtual IP of this role already; give one of them another role",
                    other.name
                );
                let span = self.report.span(&at!["vip", index, "role"]);
                self.report.wrong(span, message);
            }
            self.router_ids(index, spec, &vip, &vips, cluster);
            vips.push(vip);
        }
        if !specs.is_empty() {
            self.holders(interface, nodes);
        }
        for (index, vip) in vips.iter().enumerate() {
            self.families(index, vip, nodes);
        }
        vips
    }

    fn vip(&mut self, index: usize, spec: &file::Vip, cluster: &str) -> Vip {
        let name = self.name(&spec.name, &at!["vip", index, "name"], names::label);
        let who = format!("virtual IP {name}");
        let mut addresses = Vec::new();
        for (address, span) in self.address_list(
            spec.address,
            &spec.addresses,
            &at!["vip", index],
            &spec.name,
        ) {
            self.addresses.claim(&mut self.report, address, span, &who);
            let network = self.addresses.network_of(address);
            let length = network.map(|network| network.prefix_len());
            let alone = if address.is_ipv4() { 32 } else { 128 };
            addresses.extend(IpNet::new(address, length.unwrap_or(alone)));
        }
        let given = spec.router_id.map(file::RouterId::get);
        let router_id = match spec.role {
            VipRole::Plain => given.or_else(|| Some(fletcher8(&format!("{cluster}-{name}")) + 1)),
            VipRole::Api | VipRole::Ingress => given,
        };
        Vip {
            name,
            role: spec.role,
            addresses,
            router_id,
        }
    }

    /// Two virtual routers of one number and family on one link disturb each other (RFC 9568 §1).
    fn router_ids(
        &mut self,
        index: usize,
        spec: &file::Vip,
        vip: &Vip,
        others: &[Vip],
        cluster: &str,
    ) {
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
        let is_lost = self.report.is_lost(&at!["vip", index, "router-id"]);
        if let Some(other) = clash.filter(|_| !is_lost) {
            let key = match spec.router_id {
                Some(_) => "router-id",
                None => "name",
            };
            let span = self.report.span(&at!["vip", index, key]);
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
    fn holders(&mut self, interface: Option<&str>, nodes: &[Node]) {
        if self.report.is_lost(&at!["node"]) {
            return;
        }
        let first = self.report.span(&at!["vip", 0, "name"]);
        let mut holders = nodes
            .iter()
            .filter(|node| node.services.contains(&Service::LbProxy))
            .peekable();
        if holders.peek().is_none() {
            self.report.wrong(
                first.clone(),
                "no node can hold a virtual IP: no node runs lb-proxy; add it to the `services` of a node",
            );
        }
        let bare: Vec<&str> = holders
            .filter(|node| node.interface.is_none() && interface.is_none())
            .map(|node| node.name.as_str())
            .collect();
        let is_lost = self.report.is_lost(&at!["interface"]);
        if !is_lost && !bare.is_empty() {
            self.report.wrong(
                first,
                format!(
                    "no interface for virtual IPs on {}; write `interface` at the top of the file, or in the [[node]]",
                    bare.join(", ")
                ),
            );
        }
    }

    /// A node announces an address from one of its own of the same family.
    fn families(&mut self, index: usize, vip: &Vip, nodes: &[Node]) {
        for address in &vip.addresses {
            let is_v4 = address.addr().is_ipv4();
            let lacking = nodes.iter().find(|node| {
                node.services.contains(&Service::LbProxy)
                    && !node.addresses.is_empty()
                    && !node.addresses.iter().any(|own| own.is_ipv4() == is_v4)
            });
            if let Some(node) = lacking {
                let family = if is_v4 { "IPv4" } else { "IPv6" };
                let span = self.report.span(&at!["vip", index, "name"]);
                self.report.wrong(
                    span,
                    format!(
                        "{} cannot be held by node {}, which has no {family} address; add one to its `addresses`",
                        address.addr(),
                        node.name
                    ),
                );
            }
        }
    }

    pub(super) fn published(
        &mut self,
        spec: &file::Site,
        (registry, page): (&Registry, Option<&Page>),
        platform: &Platform,
        vips: &[Vip],
        nodes: &[Node],
    ) -> Vec<Published> {
        let has_registry = nodes
            .iter()
            .any(|node| node.services.contains(&Service::RegistrySvc));
        // OpenShift runs its routers on workers as soon as there are some, and masters take no ordinary pods.
        let has_workers = nodes.iter().any(|node| node.role == Role::Worker);
        let routers = match has_workers {
            true => Role::Worker,
            false => Role::Master,
        };
        let mut published = match platform.openshift {
            Some(_) => Published::usual(registry, routers),
            None => vec![Published::registry(registry)],
        };
        published.retain(|one| has_registry || one.offered_by != running_registry());
        published.extend(page.map(Published::page));
        for one in &mut published {
            one.vip = vip_of(one.role, vips);
        }
        for (index, publish) in spec.publish.iter().take(MAX_LISTED).enumerate() {
            self.publish(index, publish, &mut published, vips);
        }
        for one in &published {
            self.claim(one, spec);
        }
        published
    }

    /// Checks that a port stands behind each virtual IP. A file with problems may lack it for another reason.
    pub(super) fn led(&mut self, vips: &[Vip], published: &[Published]) {
        if self.report.has_problems() {
            return;
        }
        for (index, vip) in vips.iter().enumerate() {
            let is_led = |one: &Published| one.vip.as_deref() == Some(vip.name.as_str());
            if published.iter().any(is_led) {
                continue;
            }
            let remedy = match vip.role {
                VipRole::Plain => "name it in a [[publish]]",
                VipRole::Api | VipRole::Ingress => {
                    "set `openshift` in [platform], or add a [[publish]] of its role"
                }
            };
            let span = self.report.span(&at!["vip", index, "name"]);
            self.report.warn(
                span,
                format!(
                    "the virtual IP `{}` leads nowhere: no port is published behind it; {remedy}",
                    vip.name
                ),
            );
        }
    }

    fn publish(
        &mut self,
        index: usize,
        spec: &file::Publish,
        published: &mut Vec<Published>,
        vips: &[Vip],
    ) {
        let way = at!["publish", index];
        let key = |key| [&way[..], &[Step::Key(key)]].concat();
        let what = &spec.name;
        self.name(what, &key("name"), |name| {
            names::label(&name.to_ascii_lowercase())
        });
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
        if known.is_none() && spec.port.is_none() && !self.report.is_lost(&key("port")) {
            let span = self.report.span(&key("name"));
            self.report.wrong(span, format!("`{what}` has no `port`; write the TCP port that clients connect to, as in port = 8080"));
        }
        if let Some(role) = spec.role {
            one.role = role;
            one.vip = vip_of(one.role, vips);
        }
        if let Some(port) = spec.port {
            one.port = port.get();
        }
        if let Some(port) = spec.proxy_port {
            one.proxy_port = Some(port.get());
        }
        if let Some(names) = &spec.names {
            one.names.clone_from(names);
        }
        if let Some(roles) = &spec.offered_by {
            one.offered_by = OfferedBy::Roles(roles.clone());
        }
        if let Some(vip) = &spec.vip {
            let is_there = vips.iter().any(|known| known.name == *vip);
            if !is_there && !self.report.is_lost(&at!["vip"]) {
                let span = self.report.span(&key("vip"));
                self.report.wrong(
                    span,
                    format!("there is no [[vip]] `{vip}`; {}", known_vips(vips)),
                );
            }
            one.vip = Some(vip.clone());
        }
        let at = known.unwrap_or(published.len());
        published.insert(at, one);
    }

    /// Claims the ports and names of a published port.
    fn claim(&mut self, one: &Published, spec: &file::Site) {
        let mut written = spec.publish.iter().take(MAX_LISTED);
        let written = written.position(|publish| publish.name.eq_ignore_ascii_case(&one.what));
        let entry = written.and_then(|index| spec.publish.get(index));
        // Some are described by a table of their own.
        let table = match one.offered_by {
            OfferedBy::Running(Service::RegistrySvc) => Some("registry"),
            OfferedBy::Running(Service::Healthd) => Some("page"),
            OfferedBy::Running(_) | OfferedBy::Roles(_) => None,
        };
        // A value that is not written has its place in the head of the file: the name of the cluster.
        let home = match written {
            Some(index) => self.report.span(&at!["publish", index, "name"]),
            None => self.report.span(&at!["name"]),
        };
        let place = |builder: &Self, key: &str, rest: &[Step<'_>]| {
            if let Some(index) = written {
                let way = [&at!["publish", index, key][..], rest].concat();
                let span = builder.report.span(&way);
                // Without the key it is the place of the whole table.
                if span != builder.report.span(&at!["publish", index]) {
                    return span;
                }
            }
            let Some(table) = table else {
                return home.clone();
            };
            let way = [&at![table, key][..], rest].concat();
            let span = builder.report.span(&way);
            match span != builder.report.span(&at![table]) {
                true => span,
                false => home.clone(),
            }
        };
        let what = one.what.clone();
        // A port that is missing has been told already.
        if one.port > 0 {
            let span = place(self, "port", &[]);
            self.ports
                .claim(&mut self.report, one.port, span, what.clone());
        }
        if let Some(port) = one.proxy_port {
            let span = match entry.and_then(|entry| entry.proxy_port) {
                Some(_) => place(self, "proxy-port", &[]),
                None => home.clone(),
            };
            let who = format!("lb-proxy for {what}");
            self.ports.claim(&mut self.report, port, span, who);
        }
        for (index, name) in one.names.iter().enumerate() {
            let span = place(self, "names", &[Step::Item(index)]);
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

/// The virtual IPs that a port can name.
fn known_vips(vips: &[Vip]) -> String {
    let names: Vec<String> = vips.iter().map(|vip| format!("`{}`", vip.name)).collect();
    match names.is_empty() {
        true => "add a [[vip]] of this name".to_owned(),
        false => format!("there is {}", names.join(", ")),
    }
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
