//! The two slots of a service on a node, and what belongs to each.

use std::fmt;

use crate::service::Service;

/// One of two places in which a service may run. Both share the service's sockets; one serves, and
/// the other takes the next version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Slot {
    /// Serves on a node that was never swapped.
    A,
    /// The other one.
    B,
}

impl Slot {
    /// Both.
    pub const ALL: [Self; 2] = [Self::A, Self::B];

    /// The one that this is not.
    pub fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }

    /// The letter in names of units, images and sockets.
    pub fn name(self) -> &'static str {
        match self {
            Self::A => "a",
            Self::B => "b",
        }
    }

    /// The unit that runs a service in this slot.
    pub fn unit(self, service: Service) -> String {
        format!("outpost-{service}-{self}.service")
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
