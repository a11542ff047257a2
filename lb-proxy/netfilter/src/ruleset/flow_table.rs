//! The flow table: a way for established connections past all rules.
//!
//! Once a connection is in it, its packets are rewritten and sent on as they come in from a device,
//! before routing, rules and the table of connections (`nf_flowtable` in the kernel's documentation).
//! The first and the last go the ordinary way: packets that open a connection, and FIN and RST, which take it
//! out. So does one that has been quiet for half a minute.
//!
//! - Only what a frontend forwards to a server that keeps its sessions: one that goes gets nothing in
//!   again that was taken out.
//! - After the rules of everybody else have had their say, once: they see no more of a connection then.
//! - With any number of frontends, a packet that is not in it yet takes two lookups: the port that
//!   its client connected to, and among the servers of that port its own. nftables has no key of both.

use std::collections::{BTreeMap, BTreeSet};

use super::elements::Element;
use super::{Devices, Family, KernelFrontend, line};

/// The flow table's name within its table.
pub(super) const NAME: &str = "established";

/// Behind what anybody would filter forwarded packets by.
const PRIORITY: u32 = 300;

/// The flow table itself.
pub(super) fn declaration(devices: &Devices) -> String {
    let devices: Vec<String> = devices.names().map(|name| format!("\"{name}\"")).collect();
    let devices = devices.join(", ");
    // With a counter, the kernel's byte counts of a connection stay right.
    format!(
        "\tflowtable {NAME} {{\n\t\thook ingress priority 0\n\t\tdevices = {{ {devices} }}\n\t\tcounter\n\t}}\n"
    )
}

/// The rules that put connections into it: a chain for each port that clients connect to, and then the hook that
/// leads to them.
pub(super) fn chains(frontends: &[KernelFrontend]) -> Vec<(String, String)> {
    let by_port = servers_by_port(frontends);
    let mut hook = format!("\t\ttype filter hook forward priority {PRIORITY}; policy accept;\n");
    hook.push_str("\t\tct status and dnat != dnat return\n\t\tct state != established return\n");
    if !by_port.is_empty() {
        let ports = by_port
            .keys()
            .map(|port| format!("{port} : goto {}", port_chain(*port)));
        let ports = ports.collect::<Vec<_>>().join(", ");
        // A port is one of a protocol's, or nftables does not know what it reads.
        line(
            &mut hook,
            format_args!(
                "\t\tmeta l4proto {{ tcp, udp }} ct original proto-dst vmap {{ {ports} }}"
            ),
        );
    }
    let mut chains: Vec<(String, String)> = by_port
        .iter()
        .map(|(port, servers)| (port_chain(*port), rules(*port, servers)))
        .collect();
    chains.push(("forward".to_owned(), hook));
    chains
}

/// The servers that get what clients send to one port, those that keep their sessions.
type Servers = BTreeMap<Family, BTreeSet<Element>>;

/// Servers that keep no sessions have a place in the rules and none in the sets.
fn servers_by_port(frontends: &[KernelFrontend]) -> BTreeMap<u16, Servers> {
    let mut by_port: BTreeMap<u16, Servers> = BTreeMap::new();
    for frontend in frontends {
        for listen in &frontend.listen {
            let family = Family::of(listen.ip());
            for server in frontend.servers_of(family) {
                let servers = by_port.entry(listen.port()).or_default();
                let of_family = servers.entry(family).or_default();
                if server.keeps {
                    of_family.insert(Element::Flow(frontend.protocol, server.address));
                }
            }
        }
    }
    by_port
}

/// The sets that the rules look into: their names and elements.
pub(super) fn sets(
    frontends: &[KernelFrontend],
) -> impl Iterator<Item = (String, Family, BTreeSet<Element>)> {
    let by_port = servers_by_port(frontends).into_iter();
    by_port.flat_map(|(port, servers)| {
        let named = move |(family, elements)| (set(port, family), family, elements);
        servers.into_iter().map(named)
    })
}

fn set(port: u16, family: Family) -> String {
    format!("{NAME}/{port}/{}", family.version())
}

fn port_chain(port: u16) -> String {
    format!("{NAME}/{port}")
}

fn rules(port: u16, servers: &Servers) -> String {
    let mut text = String::new();
    for family in servers.keys() {
        let (word, set) = (family.word(), set(port, *family));
        line(
            &mut text,
            format_args!("\t\t{word} daddr . meta l4proto . th dport @{set} flow add @{NAME}"),
        );
    }
    text
}

/// A table named as `table` with a flow table and a rule for it, to find out whether there can be one.
pub(super) fn trial(table: &super::TableName) -> String {
    let devices = "\t\thook ingress priority 0\n\t\tdevices = { \"lo\" }\n\t\tcounter\n";
    format!(
        "table inet {table}\ndelete table inet {table}\ntable inet {table} {{\n\
         \tflowtable {NAME} {{\n{devices}\t}}\n\
         \tchain forward {{\n\t\ttype filter hook forward priority {PRIORITY}; policy accept;\n\
         \t\tmeta l4proto tcp flow add @{NAME}\n\t}}\n}}\n"
    )
}
