//! Maps and sets of the table, and the elements that change in them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};

use super::{Family, Protocol, TableName, line};

/// An element of a map or set.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Element {
    /// Numbers that are drawn for connections, and the chain that they lead to.
    Numbers {
        /// The first.
        first: u32,
        /// The last.
        last: u32,
        /// The chain.
        chain: String,
    },
    /// The address and port of a server.
    Server(SocketAddr),
    /// A server that connects to itself.
    Itself(IpAddr),
    /// The address, protocol and port of a server.
    Flow(Protocol, SocketAddr),
}

/// The kinds of maps and sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A map from [`Element::Numbers`].
    Numbers,
    /// A set of [`Element::Server`].
    Servers(Family),
    /// A set of [`Element::Itself`].
    Selves(Family),
    /// A set of [`Element::Flow`].
    Flows(Family),
}

/// A map or set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Collection {
    pub(super) kind: Kind,
    pub(super) elements: BTreeSet<Element>,
}

/// The maps and sets of a table by their names.
pub(super) type Collections = BTreeMap<String, Collection>;

impl Element {
    /// As nftables writes it.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Numbers { first, last, chain } if first == last => {
                format!("{first} : goto {chain}")
            }
            Self::Numbers { first, last, chain } => format!("{first}-{last} : goto {chain}"),
            Self::Server(address) => format!("{} . {}", address.ip(), address.port()),
            Self::Itself(ip) => format!("{ip} . {ip}"),
            Self::Flow(protocol, address) => {
                format!("{} . {protocol} . {}", address.ip(), address.port())
            }
        }
    }
}

impl Kind {
    /// The word that declares it.
    fn word(self) -> &'static str {
        match self {
            Self::Numbers => "map",
            Self::Servers(_) | Self::Selves(_) | Self::Flows(_) => "set",
        }
    }

    fn declaration(self) -> String {
        let address = |family: Family| match family {
            Family::V4 => "ipv4_addr",
            Family::V6 => "ipv6_addr",
        };
        match self {
            // The number stands for its type: rules draw below other numbers, and by other means.
            Self::Numbers => {
                "\t\ttypeof numgen inc mod 65536 : verdict\n\t\tflags interval\n".to_owned()
            }
            Self::Servers(family) => format!("\t\ttype {} . inet_service\n", address(family)),
            Self::Selves(family) => format!("\t\ttype {0} . {0}\n", address(family)),
            Self::Flows(family) => {
                format!("\t\ttype {} . inet_proto . inet_service\n", address(family))
            }
        }
    }
}

/// The elements that are in `these` and not in `others`, of the maps and sets that are in both.
pub(super) fn difference(
    these: &Collections,
    others: &Collections,
) -> BTreeMap<String, Vec<Element>> {
    let both = these
        .iter()
        .filter_map(|(name, these)| Some((name, these, others.get(name)?)));
    let differing = both.filter_map(|(name, these, others)| {
        let elements: Vec<Element> = these
            .elements
            .difference(&others.elements)
            .cloned()
            .collect();
        (!elements.is_empty()).then(|| (name.clone(), elements))
    });
    differing.collect()
}

/// The declaration of a map or set with its elements, within a table.
pub(super) fn declare(text: &mut String, name: &str, collection: &Collection) {
    let kind = collection.kind;
    line(text, format_args!("\t{} {name} {{", kind.word()));
    text.push_str(&kind.declaration());
    if !collection.elements.is_empty() {
        let elements = list(&collection.elements);
        line(text, format_args!("\t\telements = {{ {elements} }}"));
    }
    text.push_str("\t}\n");
}

/// The command that takes a map or set away.
pub(super) fn delete(text: &mut String, table: &TableName, name: &str, kind: Kind) {
    let word = kind.word();
    line(text, format_args!("delete {word} inet {table} {name}"));
}

/// The commands that `verb` elements: `add` or `delete`.
pub(super) fn change(
    text: &mut String,
    verb: &str,
    table: &TableName,
    changes: &BTreeMap<String, Vec<Element>>,
) {
    for (name, elements) in changes {
        let elements = list(elements);
        writeln!(text, "{verb} element inet {table} {name} {{ {elements} }}")
            .expect("writing to a string cannot fail");
    }
}

fn list<'a>(elements: impl IntoIterator<Item = &'a Element>) -> String {
    let elements: Vec<String> = elements.into_iter().map(Element::text).collect();
    elements.join(", ")
}
