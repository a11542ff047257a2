//! The site's zone as a BIND master file (RFC 1035 §5), health records as pdns has them.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use std::net::IpAddr;

use ipnet::IpNet;

use super::lists;
use site::{Published, Record, Role, Site};

/// Renders the zone of a site.
pub(super) fn render(site: &Site) -> String {
    let mut text = String::new();
    match write_zone(&mut text, site) {
        Ok(()) | Err(fmt::Error) => text,
    }
}

/// The beginning of any of the site's zones: its SOA record and its name servers.
pub(super) fn head(site: &Site, apex: &str, title: &str) -> String {
    let mut text = String::new();
    match write_head(&mut text, site, apex, title) {
        Ok(()) | Err(fmt::Error) => text,
    }
}

fn write_head(text: &mut String, site: &Site, apex: &str, title: &str) -> fmt::Result {
    let domain = &site.domain;
    let zone = &site.zone;
    let primary = zone
        .name_servers
        .first()
        .map_or_else(|| domain.clone(), |host| format!("{}.{domain}", host.name));
    writeln!(text, "; {title} of site {}.", site.name)?;
    writeln!(text, "$ORIGIN {apex}.")?;
    writeln!(text, "$TTL {}", zone.ttl)?;
    writeln!(text, "@ IN SOA {primary}. {}.{domain}. (", zone.contact)?;
    let serial = zone.serial.unwrap_or(1);
    writeln!(text, "        {serial:<11} ; serial")?;
    writeln!(text, "        {:<11} ; refresh", zone.refresh)?;
    writeln!(text, "        {:<11} ; retry", zone.retry)?;
    writeln!(text, "        {:<11} ; expire", zone.expire)?;
    let minimum = format!("{} )", zone.minimum);
    writeln!(text, "        {minimum:<11} ; minimum")?;
    let mut known = BTreeSet::new();
    for host in &zone.name_servers {
        // One with an address of each family is one name server.
        if known.insert(&host.name) {
            writeln!(text, "        IN NS {}.{domain}.", host.name)?;
        }
    }
    Ok(())
}

fn write_zone(text: &mut String, site: &Site) -> fmt::Result {
    write_head(text, site, &site.domain, "The zone")?;
    for host in &site.zone.name_servers {
        write_address(text, &host.name, host.address)?;
    }
    for published in &site.published {
        if !published.names.is_empty() {
            write_published(text, site, published)?;
        }
    }

    writeln!(text, "\n; Nodes.")?;
    for node in &site.nodes {
        for address in &node.addresses {
            write_address(text, &node.name, *address)?;
        }
    }
    if site.platform.openshift.is_some() {
        write_etcd(text, site)?;
    }
    if !site.hosts.is_empty() {
        writeln!(text, "\n; Other hosts.")?;
    }
    for host in &site.hosts {
        write_address(text, &host.name, host.address)?;
    }
    if !site.records.is_empty() {
        writeln!(text, "\n; Other records.")?;
    }
    for record in &site.records {
        write_record(text, record)?;
    }
    Ok(())
}

/// The names that the members of etcd have in OpenShift.
fn write_etcd(text: &mut String, site: &Site) -> fmt::Result {
    writeln!(text, "\n; etcd runs on the masters.")?;
    for (index, node) in site.masters().enumerate() {
        for address in &node.addresses {
            write_address(text, &format!("etcd-{index}"), *address)?;
        }
    }
    if !lists::follows_etcd(site) {
        return Ok(());
    }
    writeln!(text, "; So does it on masters that join.")?;
    for index in site.masters().count()..lists::MOST_ETCD {
        for family in families(&site.networks) {
            let list = lists::ETCD;
            writeln!(
                text,
                "{:<15} IN LUA   {family} \"clusternodes('{list}', {index})\"",
                format!("etcd-{index}")
            )?;
        }
    }
    Ok(())
}

/// The names of what nodes offer: those of its virtual IP, else of the nodes on which it is up.
fn write_published(text: &mut String, site: &Site, published: &Published) -> fmt::Result {
    let what = &published.what;
    let held = site
        .vips
        .iter()
        .find(|vip| published.vip.as_ref() == Some(&vip.name));
    if let Some(vip) = held {
        writeln!(text, "\n; {what}: the virtual IP {}.", vip.name)?;
        for name in &published.names {
            for address in &vip.addresses {
                write_address(text, name, address.addr())?;
            }
        }
        return Ok(());
    }
    let nodes = || site.offering(published);
    let who = match nodes().all(|node| node.role == Role::Master) {
        true => "masters",
        false => "nodes",
    };
    let port = published.port;
    writeln!(text, "\n; {what}: the {who} on which port {port} is up.")?;
    let addresses: Vec<IpAddr> = nodes().flat_map(|node| node.addresses.clone()).collect();
    for name in &published.names {
        match lists::followed(site, published) {
            Some(_) => write_followed(text, name, port, (&published.frontend(), &addresses))?,
            None => write_health(text, name, port, &addresses)?,
        }
    }
    Ok(())
}

/// A record as the site file has it, which has read its value.
fn write_record(text: &mut String, record: &Record) -> fmt::Result {
    let Record {
        name,
        ttl,
        rtype,
        value,
    } = record;
    let ttl = ttl.map_or_else(String::new, |ttl| format!("{ttl} "));
    writeln!(text, "{name:<15} {ttl}IN {rtype:<5} {value}")
}

fn write_address(text: &mut String, name: &str, address: IpAddr) -> fmt::Result {
    let rtype = rtype(address);
    writeln!(text, "{name:<15} IN {rtype:<5} {address}")
}

/// One LUA record for each address family that the nodes have.
fn write_health(text: &mut String, name: &str, port: u16, nodes: &[IpAddr]) -> fmt::Result {
    for family in ["A", "AAAA"] {
        let quoted: Vec<String> = nodes
            .iter()
            .filter(|address| rtype(**address) == family)
            .map(|address| format!("'{address}'"))
            .collect();
        if !quoted.is_empty() {
            let addresses = quoted.join(", ");
            writeln!(
                text,
                "{name:<15} IN LUA   {family} \"ifportup({port}, {{{addresses}}})\""
            )?;
        }
    }
    Ok(())
}

/// One LUA record for each address family that the written nodes have; nodes of the cluster join them.
fn write_followed(
    text: &mut String,
    name: &str,
    port: u16,
    (list, written): (&str, &[IpAddr]),
) -> fmt::Result {
    for family in ["A", "AAAA"] {
        if written.iter().any(|address| rtype(*address) == family) {
            writeln!(
                text,
                "{name:<15} IN LUA   {family} \"ifportup({port}, clusternodes('{list}'))\""
            )?;
        }
    }
    Ok(())
}

/// The families of networks.
fn families(networks: &[IpNet]) -> BTreeSet<&'static str> {
    networks
        .iter()
        .map(|network| rtype(network.addr()))
        .collect()
}

fn rtype(address: IpAddr) -> &'static str {
    match address {
        IpAddr::V4(_) => "A",
        IpAddr::V6(_) => "AAAA",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The zone that the example site is taken from, as its people wrote it.
    const ORIGINAL: &str = r#"
@       IN    LUA    A    "ifportup(6443, {'192.168.7.13', '192.168.7.14', '192.168.7.15'})"
ns1     IN A 8.8.8.8
ns2     IN A 8.8.4.4
helper  IN      A       192.168.7.11
api             IN    LUA    A    "ifportup(6443, {'192.168.7.13', '192.168.7.14', '192.168.7.15'})"
api-int         IN    LUA    A    "ifportup(6443, {'192.168.7.13', '192.168.7.14', '192.168.7.15'})"
*.apps          IN    LUA    A    "ifportup(443, {'192.168.7.13', '192.168.7.14', '192.168.7.15'})"
master-0                IN      A       192.168.7.13
master-1                IN      A       192.168.7.14
master-2                IN      A       192.168.7.15
worker-0                IN      A       192.168.7.16
worker-1                IN      A       192.168.7.17
worker-2                IN      A       192.168.7.18
etcd-0  IN      A       192.168.7.13
etcd-1  IN      A       192.168.7.14
etcd-2  IN      A       192.168.7.15
registry        IN    LUA    A    "ifportup(5443, {'192.168.7.13', '192.168.7.14', '192.168.7.15'})"
yum             IN      A       192.168.7.1
quay            IN    LUA    A    "ifportup(5443, {'192.168.7.13', '192.168.7.14', '192.168.7.15'})"
nexus           IN      A       192.168.7.1
git             IN      A       192.168.7.11
tmp-registry    IN      A       192.168.7.177
"#;

    /// The records below the zone's head, blanks made one.
    fn records(text: &str) -> BTreeSet<String> {
        text.lines()
            .filter(|line| !line.starts_with([';', '$', ' ']) && !line.contains("SOA"))
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .filter(|line| !line.is_empty())
            .collect()
    }

    #[test]
    fn the_example_site_has_exactly_the_records_of_the_zone_it_comes_from() {
        assert_eq!(records(&render(&Site::example())), records(ORIGINAL));
    }

    #[test]
    fn the_head_of_the_zone_is_as_people_write_it() {
        let text = render(&Site::example());
        let head: Vec<&str> = text.lines().take(13).collect();
        assert_eq!(
            head,
            [
                "; The zone of site ocp4.",
                "$ORIGIN ocp4.redhat.ren.",
                "$TTL 180",
                "@ IN SOA ns1.ocp4.redhat.ren. postmaster.ocp4.redhat.ren. (",
                "        2014080704  ; serial",
                "        3H          ; refresh",
                "        30M         ; retry",
                "        2W          ; expire",
                "        1W )        ; minimum",
                "        IN NS ns1.ocp4.redhat.ren.",
                "        IN NS ns2.ocp4.redhat.ren.",
                "ns1             IN A     8.8.8.8",
                "ns2             IN A     8.8.4.4",
            ]
        );
    }

    #[test]
    fn names_that_follow_the_cluster_name_their_list() {
        let mut site = Site::example();
        let mut cluster = site::Cluster::new(site::ClusterSource::Kubeconfig(None));
        cluster.follow = vec![::config::nodes::ClusterNodes::Masters];
        site.cluster = Some(cluster);
        let text = render(&site);
        let api = "api             IN LUA   A \"ifportup(6443, clusternodes('api'))\"\n";
        assert!(text.contains(api), "{text}");
        let own = text.lines().find(|line| line.starts_with("registry"));
        assert!(
            own.is_some_and(|line| !line.contains("clusternodes")),
            "{text}"
        );
        let etcd = "etcd-3          IN LUA   A \"clusternodes('etcd', 3)\"\n";
        assert!(text.contains(etcd), "{text}");
        assert!(
            text.contains("etcd-2          IN A     192.168.7.15\n"),
            "{text}"
        );
        assert!(!text.contains("etcd-7"), "{text}");
    }

    #[test]
    fn masters_of_both_families_get_a_record_for_each() {
        let mut site = Site::example();
        site.nodes.truncate(2);
        site.nodes[1].addresses = vec!["2001:db8::14".parse().unwrap()];
        let text = render(&site);
        assert!(text.contains("api             IN LUA   A \"ifportup(6443, {'192.168.7.13'})\"\n"));
        assert!(
            text.contains("api             IN LUA   AAAA \"ifportup(6443, {'2001:db8::14'})\"\n")
        );
        assert!(text.contains("etcd-1          IN AAAA  2001:db8::14\n"));
    }
}
