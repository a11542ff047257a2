//! Lists of networks that say who may ask (`allow-from`), and the networks and addresses of this node.

mod networks;

use std::net::IpAddr;

use ipnet::IpNet;

pub use cidrs::{Cidrs, NotANetwork};

/// Private and link-local networks this node has an address in, and loopback.
///
/// Public networks are left out: a resolver that serves a whole public network is open.
/// Empty but for loopback when the addresses cannot be read.
#[must_use]
pub fn local_networks() -> Vec<IpNet> {
    networks::connected()
        .into_iter()
        .filter(|network| networks::is_private(network.addr()))
        .collect()
}

/// The addresses that packets to come to this node, each a network of its own, and ranges that are routed
/// to it as a whole; all of loopback.
///
/// Only loopback when the addresses cannot be read. Whether an address can be bound says less: with
/// `net.ipv4.ip_nonlocal_bind` any can.
#[must_use]
pub fn own_addresses() -> Vec<IpNet> {
    networks::own()
}

/// Whether an address is one of [`own_addresses`].
#[must_use]
pub fn is_own(address: IpAddr) -> bool {
    own_addresses().iter().any(|own| own.contains(&address))
}

#[cfg(test)]
mod tests;
