//! The zone, further records, and the servers for outside names and for the time.

use std::net::{IpAddr, SocketAddr};

use super::builder::Builder;
use super::spec::{DnsSpec, RecordSpec, Text, TimeSpec};
use super::{master_file, names};
use site::service::Service;
use site::{Host, Node, Record, Time, ZoneHead};

impl Builder<'_> {
    pub(super) fn zone_head(&mut self, spec: &DnsSpec, domain: &str, nodes: &[Node]) -> ZoneHead {
        let ttl = spec.ttl.as_ref().map_or(180, |ttl| self.ttl(ttl));
        let mut time = |text: &Option<Text>, otherwise: &str| {
            let Some(text) = text else {
                return otherwise.to_owned();
            };
            if let Err(why) = master_file::check_time(text.get_ref()) {
                self.report.wrong(text.span(), why);
            }
            text.get_ref().clone()
        };
        let refresh = time(&spec.refresh, "3H");
        let retry = time(&spec.retry, "30M");
        let expire = time(&spec.expire, "2W");
        let minimum = time(&spec.minimum, "3M");
        let contact = match &spec.contact {
            Some(contact) => self.name(contact, names::label),
            None => "postmaster".to_owned(),
        };
        let mut name_servers = Vec::new();
        for server in spec.name_servers.iter().flatten() {
            let name = self.name(&server.name, names::host);
            if let Some(address) = self.parsed(&server.address, "an IP address") {
                self.names
                    .claim_host(&mut self.report, &name, address, server.name.span());
                name_servers.push(Host { name, address });
            }
        }
        if spec.name_servers.is_none() {
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
        if name_servers.is_empty() {
            self.report.wrong(
                0..0,
                format!("no server answers for {domain}: no node runs dns-recursor, and [dns] has no name-servers"),
            );
        }
        ZoneHead {
            ttl,
            contact,
            serial: spec.serial.unwrap_or(1),
            refresh,
            retry,
            expire,
            minimum,
            name_servers,
        }
    }

    fn ttl(&mut self, ttl: &toml::Spanned<u32>) -> u32 {
        if i32::try_from(*ttl.get_ref()).is_err() {
            self.report
                .wrong(ttl.span(), "a TTL is at most 2147483647 (RFC 2181 §8)");
        }
        *ttl.get_ref()
    }

    pub(super) fn records(
        &mut self,
        specs: &[RecordSpec],
        domain: &str,
    ) -> (Vec<Host>, Vec<Record>) {
        let (mut hosts, mut records) = (Vec::new(), Vec::new());
        for spec in specs {
            let is_host = spec.address.is_some() || !spec.addresses.is_empty();
            match (&spec.rtype, &spec.value) {
                (None, None) if spec.ttl.is_none() => hosts.extend(self.host(spec)),
                (None, None) => {
                    // A host with a TTL of its own is a record of its own.
                    let ttl = spec.ttl.as_ref().map(|ttl| self.ttl(ttl));
                    records.extend(self.host(spec).into_iter().map(|host| Record {
                        rtype: rtype(host.address).to_owned(),
                        value: host.address.to_string(),
                        name: host.name,
                        ttl,
                    }));
                }
                (Some(rtype), Some(value)) if !is_host => {
                    records.extend(self.record(spec, rtype, value, domain));
                }
                _ => self.report.wrong(
                    spec.name.span(),
                    format!(
                        "`{}` has either `address` (or `addresses`), or `type` and `value`",
                        spec.name.get_ref()
                    ),
                ),
            }
        }
        (hosts, records)
    }

    fn host(&mut self, spec: &RecordSpec) -> Vec<Host> {
        let name = self.name(&spec.name, names::owner);
        let mut hosts = Vec::new();
        for (address, _) in self.address_list(spec.address.as_ref(), &spec.addresses, &spec.name) {
            self.names
                .claim_host(&mut self.report, &name, address, spec.name.span());
            let name = name.clone();
            hosts.push(Host { name, address });
        }
        hosts
    }

    fn record(
        &mut self,
        spec: &RecordSpec,
        rtype: &Text,
        value: &Text,
        domain: &str,
    ) -> Option<Record> {
        let record = Record {
            name: self.name(&spec.name, names::record_owner),
            ttl: spec.ttl.as_ref().map(|ttl| self.ttl(ttl)),
            rtype: rtype.get_ref().to_ascii_uppercase(),
            value: value.get_ref().clone(),
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
            self.names
                .claim(&mut self.report, &record.name, spec.name.span(), who);
        }
        if names::host(domain).is_ok()
            && let Err(why) = master_file::check_record(domain, &record)
        {
            self.report.wrong(value.span(), why);
        }
        Some(record)
    }

    pub(super) fn upstreams(&mut self, texts: &[Text], nodes: &[Node]) -> Vec<SocketAddr> {
        let mut upstreams = Vec::new();
        for text in texts {
            let alone = text.get_ref().parse().map(|ip| SocketAddr::new(ip, 53));
            let upstream = match alone {
                Ok(upstream) => Some(upstream),
                Err(_) => self.parsed(text, "an IP address, with or without a port"),
            };
            let Some(upstream) = upstream else { continue };
            let loops = upstream.port() == 53
                && nodes.iter().any(|node| {
                    node.services.contains(&Service::DnsRecursor)
                        && node.addresses.contains(&upstream.ip())
                });
            if loops {
                self.report.wrong(
                    text.span(),
                    format!("{upstream} is a node of the site itself: it would ask in circles"),
                );
            } else if upstreams.contains(&upstream) {
                self.report
                    .wrong(text.span(), format!("{upstream} is given twice"));
            }
            upstreams.push(upstream);
        }
        upstreams
    }

    pub(super) fn time(&mut self, spec: &TimeSpec, domain: &str, upstreams: &[SocketAddr]) -> Time {
        let mut servers = Vec::new();
        for text in &spec.servers {
            let server = text.get_ref().clone();
            if server.parse::<IpAddr>().is_err() {
                self.name(text, names::host);
                let inside = server
                    .strip_suffix(domain)
                    .and_then(|rest| rest.strip_suffix('.'));
                match inside {
                    Some(name) if !self.names.has(name) => self.report.wrong(
                        text.span(),
                        format!("`{server}` is a name of this site that nothing has"),
                    ),
                    None if upstreams.is_empty() => self.report.warn(
                        text.span(),
                        format!("`{server}` cannot be resolved: [dns] has no upstreams"),
                    ),
                    _ => {}
                }
            }
            servers.push(server);
        }
        Time {
            servers,
            correct_clock: spec.correct_clock.unwrap_or(true),
        }
    }
}

/// The type of a record with an address.
fn rtype(address: IpAddr) -> &'static str {
    if address.is_ipv4() { "A" } else { "AAAA" }
}
