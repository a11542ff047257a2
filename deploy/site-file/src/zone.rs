//! The zone, further records, and the servers for outside names and for the time.

use std::net::{IpAddr, SocketAddr};

use config::site as file;
use config::{DnsAddress, Step, at};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use super::builder::{Builder, MAX_LISTED};
use super::{master_file, names};
use site::service::Service;
use site::{Cluster, Forward, Host, Node, Record, Time, ZoneHead};

impl Builder<'_, '_> {
    pub(super) fn zone_head(&mut self, spec: &file::Dns, domain: &str, nodes: &[Node]) -> ZoneHead {
        for (key, text) in [
            ("refresh", &spec.refresh),
            ("retry", &spec.retry),
            ("expire", &spec.expire),
            ("minimum", &spec.minimum),
        ] {
            if let Err(why) = master_file::check_time(text) {
                let span = self.report.span(&at!["dns", key]);
                self.report.wrong(span, why);
            }
        }
        ZoneHead {
            ttl: spec.ttl.get(),
            contact: self.name(&spec.contact, &at!["dns", "contact"], names::label),
            serial: spec.serial,
            refresh: spec.refresh.clone(),
            retry: spec.retry.clone(),
            expire: spec.expire.clone(),
            minimum: spec.minimum.clone(),
            name_servers: self.name_servers(spec, domain, nodes),
        }
    }

    fn name_servers(&mut self, spec: &file::Dns, domain: &str, nodes: &[Node]) -> Vec<Host> {
        let mut name_servers = Vec::new();
        for (index, server) in spec.name_servers.iter().flatten().enumerate() {
            let way = at!["dns", "name-servers", index, "name"];
            let name = self.name(&server.name, &way, names::host);
            let span = self.report.span(&way);
            let address = server.address.0;
            self.names
                .claim_host(&mut self.report, &name, address, span);
            name_servers.push(Host { name, address });
        }
        let is_lost = self.report.is_lost(&at!["dns", "name-servers"]);
        if spec.name_servers.is_none() && !is_lost {
            let asked = nodes
                .iter()
                .filter(|node| node.services.contains(&Service::DnsRecursor));
            for (index, node) in asked.enumerate() {
                let name = format!("ns{}", index + 1);
                let who = format!("the name server on {}", node.name);
                self.names.claim(&mut self.report, &name, 0..0, who);
                name_servers.extend(node.addresses.iter().map(|&address| Host {
                    name: name.clone(),
                    address,
                }));
            }
        }
        // Nodes without a good address are problems already.
        let may_follow = is_lost
            || self.report.is_lost(&at!["node"])
            || nodes.iter().any(|node| node.addresses.is_empty());
        if name_servers.is_empty() && !may_follow {
            self.report.wrong(
                0..0,
                format!("no server answers for {domain}: no node runs dns-recursor, and [dns] has no `name-servers`; add one or the other"),
            );
        }
        name_servers
    }

    pub(super) fn records(
        &mut self,
        specs: &[file::Record],
        domain: &str,
    ) -> (Vec<Host>, Vec<Record>) {
        let (mut hosts, mut records) = (Vec::new(), Vec::new());
        for (index, spec) in specs.iter().enumerate() {
            let is_lost = |key| self.report.is_lost(&at!["record", index, key]);
            let lacks_other = is_lost("type") || is_lost("value");
            let is_host = spec.address.is_some()
                || !spec.addresses.is_empty()
                || is_lost("address")
                || is_lost("addresses");
            match (&spec.rtype, &spec.value) {
                _ if lacks_other => {}
                (None, None) if spec.ttl.is_none() => hosts.extend(self.host(index, spec)),
                (None, None) => {
                    // A host with a TTL of its own is a record of its own.
                    let ttl = spec.ttl.map(file::Ttl::get);
                    records.extend(self.host(index, spec).into_iter().map(|host| Record {
                        rtype: rtype(host.address).to_owned(),
                        value: host.address.to_string(),
                        name: host.name,
                        ttl,
                    }));
                }
                (Some(rtype), Some(value)) if !is_host => {
                    records.extend(self.record(index, spec, rtype, value, domain));
                }
                _ => {
                    let span = self.report.span(&at!["record", index, "name"]);
                    self.report.wrong(
                        span,
                        format!(
                            "`{}` has either `address` (or `addresses`), or `type` and `value`; write the two that are meant",
                            spec.name
                        ),
                    );
                }
            }
        }
        (hosts, records)
    }

    fn host(&mut self, index: usize, spec: &file::Record) -> Vec<Host> {
        let way = at!["record", index];
        let at_name = [&way[..], &[Step::Key("name")]].concat();
        let name = self.name(&spec.name, &at_name, names::owner);
        let span = self.report.span(&at_name);
        let mut hosts = Vec::new();
        for (address, _) in self.address_list(spec.address, &spec.addresses, &way, &spec.name) {
            self.names
                .claim_host(&mut self.report, &name, address, span.clone());
            let name = name.clone();
            hosts.push(Host { name, address });
        }
        hosts
    }

    fn record(
        &mut self,
        index: usize,
        spec: &file::Record,
        rtype: &str,
        value: &str,
        domain: &str,
    ) -> Option<Record> {
        let at_name = at!["record", index, "name"];
        let record = Record {
            name: self.name(&spec.name, &at_name, names::record_owner),
            ttl: spec.ttl.map(file::Ttl::get),
            rtype: rtype.to_ascii_uppercase(),
            value: value.to_owned(),
        };
        if names::record_owner(&record.name).is_err() {
            return None;
        }
        // A name that stands for another cannot be anything itself (RFC 2181 §10.1), and what
        // leads to nodes that are up has addresses of its own.
        if matches!(
            record.rtype.as_str(),
            "A" | "AAAA" | "CNAME" | "LUA" | "DNAME"
        ) && self.names.has(&record.name)
        {
            let who = format!("the record {}", record.name);
            let span = self.report.span(&at_name);
            self.names.claim(&mut self.report, &record.name, span, who);
        }
        if names::host(domain).is_ok()
            && let Err(why) = master_file::check_record(domain, &record)
        {
            let span = self.report.span(&at!["record", index, "value"]);
            self.report.wrong(span, why);
        }
        Some(record)
    }

    /// Servers for names outside the site, which stand in `list`.
    pub(super) fn upstreams(
        &mut self,
        specs: &[DnsAddress],
        nodes: &[Node],
        list: &[Step<'_>],
    ) -> Vec<SocketAddr> {
        let mut upstreams = Vec::new();
        for (index, &DnsAddress(upstream)) in specs.iter().take(MAX_LISTED).enumerate() {
            let loops = upstream.port() == DnsAddress::PORT
                && nodes.iter().any(|node| {
                    node.services.contains(&Service::DnsRecursor)
                        && node.addresses.contains(&upstream.ip())
                });
            let way = [list, &at![index]].concat();
            let span = self.report.span(&way);
            if loops {
                self.report.wrong(
                    span,
                    format!("{upstream} is a node of the site itself: it would ask in circles; name a server outside"),
                );
            } else if upstreams.contains(&upstream) {
                self.report.wrong(
                    span,
                    format!("{upstream} is given twice; take one of them out"),
                );
            }
            upstreams.push(upstream);
        }
        upstreams
    }

    /// Zones that other servers have.
    pub(super) fn forwards(
        &mut self,
        specs: &[file::Forward],
        domain: &str,
        networks: &[IpNet],
        nodes: &[Node],
    ) -> Vec<Forward> {
        let mut forwards: Vec<Forward> = Vec::new();
        for (index, spec) in specs.iter().take(MAX_LISTED).enumerate() {
            let way = at!["dns", "forward", index, "zone"];
            let span = self.report.span(&way);
            let zone = &spec.zone;
            if zone == "." {
                let message = "`.` is every name outside: its servers stand in `dns.upstreams`";
                self.report.wrong(span, message);
                continue;
            }
            self.name(zone, &way, zone_name);
            if zone == domain {
                let message = format!("`{zone}` is the zone of this site: its own nodes have it");
                self.report.wrong(span, message);
            } else if networks.iter().any(|network| is_reverse(zone, *network)) {
                let message = format!(
                    "`{zone}` has addresses of `networks`: the nodes of this site have their names"
                );
                self.report.wrong(span, message);
            } else if forwards.iter().any(|known| known.zone == *zone) {
                let message = format!("`{zone}` is given twice; list all its servers in one place");
                self.report.wrong(span, message);
            }
            let list = at!["dns", "forward", index, "upstreams"];
            self.bound(
                &at!["dns", "forward", index, "upstreams", MAX_LISTED],
                spec.upstreams.len(),
            );
            if spec.upstreams.is_empty() && !self.report.is_lost(&list) {
                let span = self.report.span(&list);
                let message = format!("`{zone}` has no servers; add them, or take it out");
                self.report.wrong(span, message);
            }
            forwards.push(Forward {
                zone: zone.clone(),
                upstreams: self.upstreams(&spec.upstreams, nodes, &list),
                recursive: spec.recursive,
            });
        }
        forwards
    }

    /// Refuses a zone that the cluster has, whose names the site itself answers.
    pub(super) fn not_of_cluster(&mut self, forwards: &[Forward], cluster: Option<&Cluster>) {
        let Some(cluster) = cluster else {
            return;
        };
        for (index, forward) in forwards.iter().enumerate() {
            let zone = &forward.zone;
            let is_domain = cluster.domain.as_ref() == Some(zone);
            if is_domain || cluster.reverse.iter().any(|it| is_reverse(zone, *it)) {
                let span = self.report.span(&at!["dns", "forward", index, "zone"]);
                let message =
                    format!("`{zone}` is a zone of [cluster]: the nodes of this site have it");
                self.report.wrong(span, message);
            }
        }
    }

    pub(super) fn time(
        &mut self,
        spec: &file::Time,
        domain: &str,
        outside: &Outside<'_>,
        nodes: &[Node],
    ) -> Time {
        for (index, server) in spec.servers.iter().enumerate() {
            let way = at!["time", "servers", index];
            let address: Option<IpAddr> = server.parse().ok();
            let inside = server
                .strip_suffix(domain)
                .and_then(|rest| rest.strip_suffix('.'));
            let is_server = |node: &&Node| {
                let is_node = match address {
                    Some(address) => node.addresses.contains(&address),
                    None => inside == Some(node.name.as_str()),
                };
                is_node && node.services.contains(&Service::TimesyncAgent)
            };
            if let Some(node) = nodes.iter().find(is_server) {
                let span = self.report.span(&way);
                self.report.warn(
                    span,
                    format!(
                        "`{server}` is node {} of the site itself: name a server outside; the nodes follow each other anyway",
                        node.name
                    ),
                );
            }
            if address.is_some() {
                continue;
            }
            self.name(server, &way, names::host);
            let names_may_lack = ["node", "record", "publish"]
                .iter()
                .any(|list| self.report.is_lost(&at![*list]));
            match inside {
                Some(name) if !self.names.has(name) && !names_may_lack => {
                    let span = self.report.span(&way);
                    self.report.wrong(
                        span,
                        format!("`{server}` is a name of this site that nothing has; correct it, or add a [[record]]"),
                    );
                }
                None if !outside.resolves(server)
                    && !self.report.is_lost(&at!["dns", "upstreams"]) =>
                {
                    let span = self.report.span(&way);
                    self.report.warn(
                        span,
                        format!("`{server}` cannot be resolved: [dns] has no upstreams; add them, or write an address"),
                    );
                }
                _ => {}
            }
        }
        if spec.servers.is_empty() && !self.report.is_lost(&at!["time", "servers"]) {
            let at = self.report.span(&at!["name"]);
            self.report.note(
                at,
                "no [time] servers: the nodes agree on a time, which may be wrong together",
            );
        }
        Time {
            servers: spec.servers.clone(),
            correct_clock: spec.correct_clock,
        }
    }
}

/// The servers of names outside the site.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outside<'s> {
    pub(super) upstreams: &'s [DnsAddress],
    pub(super) forwards: &'s [file::Forward],
}

impl<'s> Outside<'s> {
    pub(super) fn of(spec: &'s file::Dns) -> Self {
        Self {
            upstreams: &spec.upstreams,
            forwards: &spec.forward,
        }
    }

    /// Whether some server resolves a name.
    pub(super) fn resolves(&self, name: &str) -> bool {
        let mut forwards = self.forwards.iter();
        !self.upstreams.is_empty() || forwards.any(|forward| is_within(name, &forward.zone))
    }
}

fn is_within(name: &str, zone: &str) -> bool {
    let above = name.strip_suffix(zone);
    above.is_some_and(|above| above.is_empty() || above.ends_with('.'))
}

/// A zone's name: that of a host, but labels may begin with `_`.
fn zone_name(text: &str) -> Result<(), names::Wrong> {
    let plain: Vec<&str> = text
        .split('.')
        .map(|it| it.trim_start_matches('_'))
        .collect();
    names::host(&plain.join("."))
}

/// Whether a zone of the reverse tree has names of a network's addresses, and is no larger than the zones of the network.
fn is_reverse(zone: &str, network: IpNet) -> bool {
    let (labels, bits, most) = match network {
        IpNet::V4(_) => (zone.strip_suffix(".in-addr.arpa"), 8, 3),
        IpNet::V6(_) => (zone.strip_suffix(".ip6.arpa"), 4, 31),
    };
    let Some(labels) = labels else {
        return false;
    };
    let labels: Vec<&str> = labels.rsplit('.').collect();
    let own = usize::from(network.prefix_len())
        .div_ceil(bits)
        .clamp(1, most);
    let Some(zone) = reverse_network(&labels, &network) else {
        return false;
    };
    labels.len() >= own && (zone.contains(&network) || network.contains(&zone))
}

/// The network of the labels of a zone in the reverse tree, from the tree downwards.
fn reverse_network(labels: &[&str], like: &IpNet) -> Option<IpNet> {
    let n_labels = u8::try_from(labels.len()).ok()?;
    match like {
        IpNet::V4(_) => {
            let mut octets = [0; 4];
            for (index, label) in labels.iter().enumerate() {
                *octets.get_mut(index)? = label.parse().ok()?;
            }
            Ipv4Net::new(octets.into(), n_labels * 8)
                .ok()
                .map(IpNet::V4)
        }
        IpNet::V6(_) => {
            let mut address = 0_u128;
            for (index, label) in labels.iter().enumerate() {
                let digit = u128::from_str_radix(label, 16).ok().filter(|it| *it < 16)?;
                address |= digit.checked_shl(124 - 4 * u32::try_from(index).ok()?.min(31))?;
            }
            let length = n_labels.checked_mul(4)?;
            Ipv6Net::new(address.into(), length).ok().map(IpNet::V6)
        }
    }
}

/// The type of a record with an address.
fn rtype(address: IpAddr) -> &'static str {
    if address.is_ipv4() { "A" } else { "AAAA" }
}
