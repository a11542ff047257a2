//! Reads and changes the state of a node.
//!
//! | module | content |
//! | --- | --- |
//! | [`paths`] | the paths of slots, permits and sockets |
//! | [`record`] | the slot of a service that the node starts from |
//! | [`systemd`] | units: their state, start and stop |
//! | [`process`] | one process of a service, at its own admin socket |
//! | [`liveness`] | healthd's targets |
//! | [`images`] | archives of images, and the store or directory that they are loaded into |
//!
//! Decides nothing about a swap or an installation: the verbs do.

pub mod images;
pub mod liveness;
pub mod paths;
pub mod process;
pub mod record;
pub mod systemd;
