//! The nodes of lists, as programs see them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The name of the function that has them.
pub(crate) const NAME: &str = "clusternodes";

/// A node of a list, with one of its addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedNode {
    /// The name.
    pub name: String,
    /// The address.
    pub address: IpAddr,
    /// The number in the list.
    pub number: u32,
    /// Whether the cluster alone has it.
    pub is_learned: bool,
    /// Whether it is cordoned, and another one is not.
    pub is_cordoned: bool,
}

impl ListedNode {
    /// A node of every list, for programs that are only tried.
    pub(crate) fn sample() -> Vec<Self> {
        let node = |address| Self {
            name: "sample".to_owned(),
            address,
            number: 0,
            is_learned: false,
            is_cordoned: false,
        };
        vec![
            node(Ipv4Addr::new(192, 0, 2, 1).into()),
            node(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into()),
        ]
    }
}
