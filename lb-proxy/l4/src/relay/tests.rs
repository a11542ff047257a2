//! Sessions over real sockets of the loopback interface.

mod bulk;
mod delivering;
mod edges;
mod failover;
mod inspecting;
mod operating;
pub(crate) mod rig;
