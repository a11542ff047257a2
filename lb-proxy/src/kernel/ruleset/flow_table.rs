//! The flow table: where established connections go past all rules.
//!
//! Once a connection is in it, its packets are rewritten and sent on as they come in from a device,
//! before routing, rules and the table of connections (`nf_flowtable` in the kernel's documentation).
//! The first and the last go the ordinary way: what opens a connection, and FIN and RST, which take it
//! out. So does one that has been quiet for half a minute.
//!
//! - Only what a frontend forwards to a server that keeps its sessions: one that goes gets nothing in
//!   again that was taken out.
//! - After the rules of everybody else have had their say, once: they see no more of a connection then.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use super::{Devices, Family, KernelFrontend, list};

/// The flow table's name within its table.
pub(super) const NAME: &str = "established";

/// Behind what anybody would filter forwarded packets by.
const PRIORITY: u32 = 300;

/// The flow table itself.
pub(super) fn declaration(devices: &Devices) -> String {
    let devices: Vec<String> = devices.names().map(|name| format!("\"{name}\"")).collect();
    let devices = devices.join(", ");
    // With a counter, what the kernel knows of a connection's bytes goes on being right.
    format!(
        "\tflowtable {NAME} {{\n\t\thook ingress priority 0\n\t\tdevices = {{ {devices} }}\n\t\tcounter\n\t}}\n"
    )
}

/// What puts connections into it.
pub(super) fn chain(frontends: &[KernelFrontend]) -> String {
    let mut text = format!("\t\ttype filter hook forward priority {PRIORITY}; policy accept;\n");
    text.push_str("\t\tct status and dnat != dnat return\n\t\tct state != established return\n");
    for frontend in frontends {
        for family in frontend.families() {
            if let Some(rule) = rule(frontend, family) {
                text.push_str(&rule);
            }
        }
    }
    text
}

fn rule(frontend: &KernelFrontend, family: Family) -> Option<String> {
    let servers: BTreeSet<String> = frontend
        .servers_of(family)
        .filter(|server| server.keeps)
        .map(|server| format!("{} . {}", server.address.ip(), server.address.port()))
        .collect();
    if servers.is_empty() {
        return None;
    }
    let ports: BTreeSet<String> = frontend
        .listen
        .iter()
        .map(SocketAddr::port)
        .map(|port| port.to_string())
        .collect();
    let (word, protocol) = (family.word(), frontend.protocol);
    let (ports, servers) = (list(&ports), list(&servers));
    Some(format!(
        "\t\tmeta l4proto {protocol} ct original proto-dst {{ {ports} }} \
         {word} daddr . {protocol} dport {{ {servers} }} flow add @{NAME}\n"
    ))
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
