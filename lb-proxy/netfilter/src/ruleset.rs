//! The rules of nftables that forward connections, as text.
//!
//! Everything is in one table of our own. New connections go this way; all later packets follow the
//! first without looking at rules again:
//!
//! ```text
//!  prerouting ─┐                                                                      ┌─ server/api/a ── count, dnat
//!              ├─ services ── by destination ── frontend/api/v4 ── share/api/v4 ── map ┤
//!  output ─────┘ (local clients)                 ACL                draw a number      └─ server/api/b ── count, dnat
//!
//!  input, output ── stray: meant for a frontend and sent nowhere ── refuse
//!  postrouting ── masquerade
//!  output, before all else (untracked) ── questions to clients of forgotten connections are not tracked
//!  forward, after all else ── into the flow table, if there is one (`ruleset/flow_table.rs`)
//! ```
//!
//! - A packet from the middle of a TCP connection that the kernel knows nothing of is refused with a
//!   reset: a client whose connection was forgotten, because its server is down or the address moved
//!   here, connects again instead of waiting.
//!   Only where its address is on this node: to look at what is sent on would cost every packet of
//!   every connection a twentieth of its way.
//! - A frontend without a server refuses too, and so do sources that are not allowed: clients hear
//!   it at once, and nothing else that listens on this node gets their connection.
//! - A server that connects to itself through a frontend has its source rewritten in any case; its
//!   answers would not come back this way otherwise.
//!
//! Servers are elements of maps and sets with names, one map for each frontend and family (`share/api/v4`). When a server goes, comes back,
//! drains or changes its weight, its elements change and, with the sum of weights, the one rule that draws a number
//! ([`Ruleset::element_update`]): a change costs as much in a backend of a thousand servers as in one of two.
//!
//! Any other update replaces the rules of the chains that change, and leaves the others, their turns and the
//! counters of servers alone. All forms are one transaction: every packet sees the rules from before
//! or from after.
//!
//! Clients of TCP keep their port when their address is rewritten, if it is free. A server that has
//! closed a connection remembers it for a minute (TIME-WAIT), and takes another from the same port
//! only if it is newer by the sender's clock or sequence numbers (RFC 6191 §2). Ports by chance bring
//! together clients whose clocks have nothing to do with each other: half of those SYNs go unheard,
//! and a busy frontend is stalled.

mod devices;
mod element_update;
mod elements;
mod flow_table;
mod frontend;
mod name;
mod share;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};
use std::net::SocketAddr;

use ipnet::IpNet;

pub use self::devices::Devices;
pub(super) use self::element_update::ElementUpdate;
pub(super) use self::elements::Element;
use self::elements::{Collection, Collections, Kind};
pub use self::frontend::{KernelFrontend, KernelServer, Share};
use self::name::Family;
use self::share::Choice;
pub(super) use self::share::Draw;
pub use config::lb_proxy::TableName;

/// Marks packets that are no part of a connection and must not begin one.
pub(super) const QUESTION_MARK: u32 = 0x6f75_7470;

/// Protocols the kernel forwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// Frontends that the kernel forwards.
#[derive(Debug, Clone, PartialEq)]
pub struct Ruleset {
    /// The table of the rules.
    pub table: TableName,
    /// The frontends, each name once.
    pub frontends: Vec<KernelFrontend>,
    /// The devices of the flow table; none without one.
    pub flow_table: Option<Devices>,
    /// How servers share connections, by the names of the maps.
    choices: BTreeMap<String, Choice>,
}

impl Ruleset {
    /// A table for these frontends.
    #[must_use]
    pub fn new(
        table: TableName,
        frontends: Vec<KernelFrontend>,
        flow_table: Option<Devices>,
    ) -> Self {
        let none = Self {
            table,
            frontends: Vec::new(),
            flow_table,
            choices: BTreeMap::new(),
        };
        none.followed_by(frontends)
    }

    /// This table with other frontends. Servers that stay keep their connections' numbers as far as they can.
    #[must_use]
    pub fn followed_by(&self, frontends: Vec<KernelFrontend>) -> Self {
        let mut choices = BTreeMap::new();
        for frontend in &frontends {
            for family in frontend.families() {
                let name = frontend.share(family);
                let choice = Choice::new(frontend, family, self.choices.get(&name));
                choices.insert(name, choice);
            }
        }
        Self {
            table: self.table.clone(),
            frontends,
            flow_table: self.flow_table.clone(),
            choices,
        }
    }

    /// This table with a flow table of these devices.
    #[must_use]
    pub fn with_flow_table(&self, flow_table: Option<Devices>) -> Self {
        Self {
            flow_table,
            ..self.clone()
        }
    }

    /// From the rules of `previous` to these, if that takes elements and drawing rules alone.
    pub(super) fn element_update(&self, previous: &Self) -> Option<ElementUpdate> {
        if self.table != previous.table
            || self.flow_table != previous.flow_table
            || self.counters() != previous.counters()
        {
            return None;
        }
        let (old, new) = (previous.collections(), self.collections());
        let kinds = |all: &Collections| -> Vec<(String, Kind)> {
            let kinds = all.iter().map(|(name, one)| (name.clone(), one.kind));
            kinds.collect()
        };
        let (before, after) = (previous.chains(), self.chains());
        let names = |chains: &[(String, String)]| -> Vec<String> {
            chains.iter().map(|(name, _)| name.clone()).collect()
        };
        if kinds(&old) != kinds(&new) || names(&before) != names(&after) {
            return None;
        }
        let mut draws = Vec::new();
        for ((name, before), (_, after)) in before.iter().zip(&after) {
            if before == after {
                continue;
            }
            match self.choices.get(name).map(|choice| choice.draw) {
                Some(draw @ (Draw::Turn(_) | Draw::Chance(_))) => draws.push((name.clone(), draw)),
                Some(Draw::Source(_)) | None => return None,
            }
        }
        Some(ElementUpdate {
            table: self.table.clone(),
            draws,
            removed: elements::difference(&old, &new),
            added: elements::difference(&new, &old),
        })
    }

    /// Every map and set.
    fn collections(&self) -> Collections {
        let mut all = Collections::new();
        let mut add = |name: String, kind: Kind, elements: &mut dyn Iterator<Item = Element>| {
            let one = all.entry(name).or_insert_with(|| Collection {
                kind,
                elements: BTreeSet::new(),
            });
            one.elements.extend(elements);
        };
        for frontend in &self.frontends {
            for family in frontend.families() {
                let name = frontend.share(family);
                if let Some(choice) = self.choices.get(&name) {
                    add(name, Kind::Numbers, &mut choice.elements());
                }
                let servers = frontend.servers_of(family).map(|server| server.address);
                let name = frontend.servers_set(family);
                if frontend.masquerade {
                    let mut servers = servers.map(Element::Server);
                    add(name, Kind::Servers(family), &mut servers);
                } else {
                    let mut selves = servers.map(|server| Element::Itself(server.ip()));
                    add(name, Kind::Selves(family), &mut selves);
                }
            }
        }
        if self.flow_table.is_some() {
            for (name, family, elements) in flow_table::sets(&self.frontends) {
                add(name, Kind::Flows(family), &mut elements.into_iter());
            }
        }
        all
    }
}

//--- Text

impl Ruleset {
    /// The table made again, whatever was in a table of this name.
    #[must_use]
    pub fn install(&self) -> String {
        // The declaration makes sure that there is a table to delete.
        let mut text = format!("table inet {}\n", self.table);
        text.push_str(&self.remove());
        let collections = self.collections();
        let collections: Vec<_> = collections.iter().collect();
        let counters = self.counters();
        self.write_table(&mut text, true, &counters, &collections, &self.chains());
        text
    }

    /// From the rules of `previous` to these; nothing when they are the same. A flow table with other
    /// devices takes two steps, with none in between, or it makes everything again.
    #[must_use]
    pub fn update(&self, previous: &Self) -> String {
        let table = &self.table;
        let (had, has) = (&previous.flow_table, &self.flow_table);
        if had.is_some() && has.is_some() && had != has {
            return self.install();
        }
        let before: BTreeMap<String, String> = previous.chains().into_iter().collect();
        let mut chains = self.chains();
        let names: BTreeSet<String> = chains.iter().map(|(name, _)| name.clone()).collect();
        chains.retain(|(name, rules)| before.get(name) != Some(rules));
        let gone = || before.keys().filter(|name| !names.contains(*name));
        let mut text = String::new();
        // First all rules that lead to chains, maps and sets that go.
        let changed = chains.iter().map(|(name, _)| name);
        for chain in changed
            .filter(|name| before.contains_key(*name))
            .chain(gone())
        {
            line(&mut text, format_args!("flush chain inet {table} {chain}"));
        }
        let (old, new) = (previous.collections(), self.collections());
        let removed = elements::difference(&old, &new);
        elements::change(&mut text, "delete", table, &removed);
        for (name, one) in &old {
            if new.get(name).is_none_or(|new| new.kind != one.kind) {
                elements::delete(&mut text, table, name, one.kind);
            }
        }
        for chain in gone() {
            line(&mut text, format_args!("delete chain inet {table} {chain}"));
        }
        if had.is_some() && has.is_none() {
            let name = flow_table::NAME;
            line(
                &mut text,
                format_args!("delete flowtable inet {table} {name}"),
            );
        }
        let (counted, counts) = (previous.counters(), self.counters());
        for counter in counted.difference(&counts) {
            line(
                &mut text,
                format_args!("delete counter inet {table} {counter}"),
            );
        }
        let counters: Vec<&String> = counts.difference(&counted).collect();
        let fresh = new
            .iter()
            .filter(|(name, one)| old.get(*name).is_none_or(|old| old.kind != one.kind))
            .collect::<Vec<_>>();
        if !chains.is_empty() || !counters.is_empty() || !fresh.is_empty() {
            self.write_table(&mut text, had.is_none(), counters, &fresh, &chains);
        }
        let added = elements::difference(&new, &old);
        elements::change(&mut text, "add", table, &added);
        text
    }

    /// A table of this name with a flow table alone, to find out whether there can be one.
    #[must_use]
    pub fn trial(&self) -> String {
        flow_table::trial(&self.table)
    }

    /// The table gone.
    #[must_use]
    pub fn remove(&self) -> String {
        format!("delete table inet {}\n", self.table)
    }

    /// The counter of connections that `server` of `frontend` got.
    #[must_use]
    pub fn counter(frontend: &KernelFrontend, server: &KernelServer) -> String {
        frontend.server_chain(server)
    }

    fn counters(&self) -> BTreeSet<String> {
        self.frontends
            .iter()
            .flat_map(|frontend| {
                frontend
                    .servers
                    .iter()
                    .map(|server| frontend.server_chain(server))
            })
            .collect()
    }

    fn write_table<'a>(
        &self,
        text: &mut String,
        with_flow_table: bool,
        counters: impl IntoIterator<Item = &'a String>,
        collections: &[(&String, &Collection)],
        chains: &[(String, String)],
    ) {
        line(text, format_args!("table inet {} {{", self.table));
        if let Some(devices) = self.flow_table.as_ref().filter(|_| with_flow_table) {
            text.push_str(&flow_table::declaration(devices));
        }
        for counter in counters {
            line(text, format_args!("\tcounter {counter} {{\n\t}}"));
        }
        for (name, one) in collections {
            elements::declare(text, name, one);
        }
        for (name, rules) in chains {
            text.push_str(&format!("\tchain {name} {{\n{rules}\t}}\n"));
        }
        text.push_str("}\n");
    }

    /// Every chain and its rules, those that are led to first.
    fn chains(&self) -> Vec<(String, String)> {
        let mut chains = Vec::new();
        for frontend in &self.frontends {
            for server in &frontend.servers {
                let name = frontend.server_chain(server);
                let rules = server_rules(frontend, server, &name);
                chains.push((name, rules));
            }
            for family in frontend.families() {
                let share = frontend.share(family);
                if let Some(choice) = self.choices.get(&share) {
                    let rule = format!("\t\t{}\n", choice.draw.rule(&share));
                    chains.push((share, rule));
                }
                chains.push((frontend.chain(family), frontend_rules(frontend, family)));
            }
        }
        chains.push(("services".to_owned(), self.dispatch()));
        chains.push(("refuse".to_owned(), REFUSE.to_owned()));
        chains.push(("stray".to_owned(), self.stray()));
        chains.push(("postrouting".to_owned(), self.masquerade()));
        for (chain, kind, hook, priority, rules) in [
            ("untracked", "filter", "output", -300, notrack()),
            ("prerouting", "nat", "prerouting", -100, SERVICES.to_owned()),
            ("output", "nat", "output", -100, SERVICES.to_owned()),
            ("input", "filter", "input", 0, STRAY.to_owned()),
            ("local", "filter", "output", 0, STRAY.to_owned()),
        ] {
            let hook =
                format!("\t\ttype {kind} hook {hook} priority {priority}; policy accept;\n{rules}");
            chains.push((chain.to_owned(), hook));
        }
        if self.flow_table.is_some() {
            chains.extend(flow_table::chains(&self.frontends));
        }
        chains
    }

    /// From a packet's destination to its frontend.
    fn dispatch(&self) -> String {
        let mut text = "\t\ttcp flags & (syn | ack) != syn return\n".to_owned();
        self.declare_destinations(&mut text, KernelFrontend::chain);
        text
    }

    /// Packets that were meant for a frontend and go nowhere.
    fn stray(&self) -> String {
        let mut text = "\t\tct status dnat return\n".to_owned();
        // A reset needs none for an answer.
        text.push_str("\t\ttcp flags & rst == rst return\n");
        self.declare_destinations(&mut text, |_, _| "refuse".to_owned());
        text
    }

    /// A rule for each shape of destination, that leads to what `target` says.
    fn declare_destinations(
        &self,
        text: &mut String,
        target: impl Fn(&KernelFrontend, Family) -> String,
    ) {
        for family in [Family::V4, Family::V6] {
            let mut exact = BTreeSet::new();
            let mut wildcard = BTreeSet::new();
            for frontend in &self.frontends {
                let protocol = frontend.protocol;
                let target = target(frontend, family);
                for listen in &frontend.listen {
                    if Family::of(listen.ip()) != family {
                        continue;
                    }
                    let (ip, port) = (listen.ip(), listen.port());
                    if ip.is_unspecified() {
                        wildcard.insert(format!("{protocol} . {port} : goto {target}"));
                    } else {
                        exact.insert(format!("{ip} . {protocol} . {port} : goto {target}"));
                    }
                }
            }
            let word = family.word();
            if !exact.is_empty() {
                line(
                    text,
                    format_args!(
                        "\t\t{word} daddr . meta l4proto . th dport vmap {{ {} }}",
                        list(&exact)
                    ),
                );
            }
            if !wildcard.is_empty() {
                line(
                    text,
                    format_args!(
                        "\t\t{word} daddr != {} fib daddr type local meta l4proto . th dport vmap {{ {} }}",
                        family.loopback(),
                        list(&wildcard)
                    ),
                );
            }
        }
    }

    fn masquerade(&self) -> String {
        let mut text = "\t\ttype nat hook postrouting priority 100; policy accept;\n".to_owned();
        text.push_str("\t\tct status and dnat != dnat return\n");
        for frontend in &self.frontends {
            let ports: BTreeSet<u16> = frontend.listen.iter().map(SocketAddr::port).collect();
            for family in frontend.families() {
                declare_masquerade_of(&mut text, frontend, family, &ports);
            }
        }
        text
    }
}

/// The rules of a hook that leads to frontends.
const SERVICES: &str = "\t\tjump services\n";

/// Those of a hook that finds strays. The first rule is all that most packets from and to the node see.
const STRAY: &str = "\t\tct state established,related accept\n\t\tjump stray\n";

const REFUSE: &str =
    "\t\tmeta l4proto tcp reject with tcp reset\n\t\treject with icmpx port-unreachable\n";

fn notrack() -> String {
    format!("\t\tmeta mark {QUESTION_MARK:#x} notrack\n")
}

fn server_rules(frontend: &KernelFrontend, server: &KernelServer, counter: &str) -> String {
    let (protocol, address) = (frontend.protocol, server.address);
    let word = Family::of(address.ip()).word();
    format!("\t\tcounter name {counter} meta l4proto {protocol} dnat {word} to {address}\n")
}

fn frontend_rules(frontend: &KernelFrontend, family: Family) -> String {
    let mut text = String::new();
    let word = family.word();
    let networks = |list: &[IpNet]| -> BTreeSet<String> {
        IpNet::aggregate(&list.to_vec())
            .iter()
            .filter(|network| Family::of(network.addr()) == family)
            .map(ToString::to_string)
            .collect()
    };
    let denied = networks(&frontend.deny);
    if !denied.is_empty() {
        line(
            &mut text,
            format_args!("\t\t{word} saddr {{ {} }} return", list(&denied)),
        );
    }
    if let Some(allow) = &frontend.allow {
        let allowed = networks(allow);
        if allowed.is_empty() {
            text.push_str("\t\treturn\n");
        } else {
            line(
                &mut text,
                format_args!("\t\t{word} saddr != {{ {} }} return", list(&allowed)),
            );
        }
    }
    line(
        &mut text,
        format_args!("\t\tgoto {}", frontend.share(family)),
    );
    text
}

fn declare_masquerade_of(
    text: &mut String,
    frontend: &KernelFrontend,
    family: Family,
    ports: &BTreeSet<u16>,
) {
    let (word, protocol) = (family.word(), frontend.protocol);
    if frontend.servers_of(family).next().is_none() {
        return;
    }
    let servers = frontend.servers_set(family);
    let condition = format!("meta l4proto {protocol} ct original proto-dst {{ {} }}", {
        let ports: BTreeSet<String> = ports.iter().map(ToString::to_string).collect();
        list(&ports)
    });
    let rule = if frontend.masquerade {
        let ports = match frontend.protocol {
            Protocol::Tcp => "",
            // Clients that send from a low port, as of NTP, have few others to share.
            Protocol::Udp => " to :1024-65535 fully-random",
        };
        format!("{word} daddr . {protocol} dport @{servers} masquerade{ports}")
    } else {
        format!("{word} saddr . {word} daddr @{servers} masquerade")
    };
    line(text, format_args!("\t\t{condition} {rule}"));
}

fn list(items: &BTreeSet<String>) -> String {
    items.iter().cloned().collect::<Vec<_>>().join(", ")
}

fn line(text: &mut String, arguments: fmt::Arguments<'_>) {
    text.write_fmt(arguments)
        .expect("writing to a string cannot fail");
    text.push('\n');
}

#[cfg(test)]
mod tests;
