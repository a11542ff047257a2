//! Clocks of the node: reference clocks, PTP, and network cards that stamp packets.
//!
//! Turns readings of a clock into samples of its time on the raw clock. Never reads a clock itself, nor opens a device: the
//! crate `clock-drivers` does.

pub mod nic;
pub mod pmc;
#[cfg(feature = "ptp")]
pub mod ptp;
pub mod refclock;
