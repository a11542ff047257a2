//! What comes of a query.

use dns_wire::Name;

/// What to do with a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Send so many octets of the buffer.
    Reply(usize),
    /// Send nothing.
    Silent,
    /// Ask again a little later: nothing is known yet of the targets behind this live set.
    Wait {
        /// The zone.
        apex: Name,
        /// The live set.
        set: u32,
    },
    /// Transfer the zone, if the client may have it.
    Transfer {
        /// The zone.
        apex: Name,
    },
}
