//! Requests to NICs, over a socket of any family.

use std::io;
use std::os::fd::AsFd;

use clocks::nic::Abilities;

#[cfg(feature = "ptp")]
pub use sys::nic::hardware_address;
pub use sys::nic::{index, interfaces, make_stamp};

/// The timestamps that a NIC can take.
pub fn abilities(socket: impl AsFd, interface: &str) -> io::Result<Abilities> {
    let abilities = sys::nic::stamp_abilities(socket, interface)?;
    Ok(Abilities {
        flags: abilities.flags,
        clock: abilities.clock,
        transmit: abilities.transmit,
        filters: abilities.filters,
    })
}
