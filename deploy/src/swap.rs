//! Swapping the versions of services on a node.

pub(crate) mod slot;
