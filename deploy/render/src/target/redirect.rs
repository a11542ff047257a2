//! Virtual IPs whose ports the platform has taken on every address of a node: traffic to them
//! goes to lb-proxy, by a table of nftables, as OpenShift's own load balancer does it.

use super::scope::Scope;
use super::slot;
use super::text::Text;
use super::unit::{Host, Unit, file};
use crate::config::Part;
use site::service::Service;

const TABLE: &str = "inet outpost_redirect";
const FILE: &str = "/etc/outpost/redirect.nft";
const NFT: &str = "/usr/sbin/nft";

/// Adds the table and what loads it, if there is anything to redirect.
pub(super) fn add(host: &mut Host, scope: &Scope<'_>) {
    let rules = rules(scope);
    if rules.is_empty() || !scope.runs(Service::LbProxy) {
        return;
    }
    let part = Part::Service(Service::LbProxy);
    host.files.push(file(FILE, table(&rules), part));
    let text = Text::new(&[])
        .section("Unit")
        .set(
            "Description",
            "Outpost: ports of virtual IPs that lead to lb-proxy",
        )
        .set("ConditionPathExists", FILE)
        .comments(&["Those empty all tables when they begin."])
        .set("After", "nftables.service firewalld.service")
        .section("Service")
        .set("Type", "oneshot")
        .set("RemainAfterExit", "yes")
        .set("ExecStart", format_args!("{NFT} --file {FILE}"))
        .comments(&["In one transaction: no packet sees half of it."])
        .set("ExecReload", format_args!("{NFT} --file {FILE}"))
        .set("ExecStop", format_args!("{NFT} delete table {TABLE}"));
    host.units.push(Unit::new(
        "outpost-redirect.service",
        slot::install(text).finish(),
        part,
    ));
}

/// One for each address and port.
fn rules(scope: &Scope<'_>) -> Vec<String> {
    let site = scope.site;
    let mut rules = Vec::new();
    for published in &site.published {
        let Some(to) = published.proxy_port.filter(|to| *to != published.port) else {
            continue;
        };
        let vip = site
            .vips
            .iter()
            .find(|vip| published.vip.as_ref() == Some(&vip.name));
        for network in vip.into_iter().flat_map(|vip| &vip.addresses) {
            let family = match network.addr().is_ipv4() {
                true => "ip",
                false => "ip6",
            };
            rules.push(format!(
                "fib daddr type local {family} daddr {} tcp dport {} redirect to :{to}",
                network.addr(),
                published.port,
            ));
        }
    }
    rules
}

fn table(rules: &[String]) -> String {
    let mut text = format!(
        "# What arrives at a virtual IP goes to lb-proxy: on all other addresses the ports are the\n\
         # platform's. Only on the node that has the address.\n\
         table {TABLE}\n\
         delete table {TABLE}\n\
         \n\
         table {TABLE} {{\n"
    );
    for (chain, why) in [
        ("prerouting", "From other machines and from pods."),
        ("output", "From this node itself."),
    ] {
        let rules: String = rules.iter().map(|rule| format!("\t\t{rule}\n")).collect();
        text.push_str(&format!(
            "\t# {why}\n\tchain {chain} {{\n\
             \t\ttype nat hook {chain} priority -100; policy accept;\n{rules}\t}}\n"
        ));
    }
    text.push_str("}\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use site::Site;

    #[test]
    fn a_virtual_ip_leads_to_where_lb_proxy_listens() {
        let mut site = Site::example();
        let mut host = Host::default();
        add(&mut host, &Scope::node(&site, &site.nodes[0]));
        assert_eq!(host, Host::default(), "there is no virtual IP");
        let vip = crate::target::tests::vip();
        site.published[0].vip = Some(vip.name.clone());
        site.vips.push(vip);
        add(&mut host, &Scope::node(&site, &site.nodes[0]));
        let text = String::from_utf8(host.files[0].contents.clone()).unwrap();
        let rule =
            "\t\tfib daddr type local ip daddr 192.168.7.100 tcp dport 6443 redirect to :9445\n";
        assert_eq!(text.matches(rule).count(), 2, "{text}");
        assert_eq!(host.units.len(), 1);
    }

    #[test]
    fn a_worker_without_lb_proxy_redirects_nothing() {
        let mut site = Site::example();
        let vip = crate::target::tests::vip();
        site.published[0].vip = Some(vip.name.clone());
        site.vips.push(vip);
        let mut host = Host::default();
        add(&mut host, &Scope::node(&site, &site.nodes[3]));
        assert_eq!(host, Host::default());
    }
}
