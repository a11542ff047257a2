//! Virtual IPs: addresses that one of several nodes holds (VRRP version 3, RFC 9568; version 2, RFC
//! 3768), beside keepalived and other routers that speak it.
//!
//! # One virtual router
//!
//! ```text
//!                    Startup          ┌────────────┐   Shutdown
//!              ┌──────────────────────│ Initialize │◄───────────────── every state
//!              │                      └─────┬──────┘   (active: released, or handed over, before)
//!              │                            │ Startup of the owner,
//!              ▼                            │ or after a swap
//!        ┌──────────┐  nobody heard for     │
//!        │          │  Active_Down_Interval ▼
//!        │          │─────────────────►┌──────────┐
//!        │  Backup  │                  │  Active  │──┐ lower priority heard:
//!        │          │◄─────────────────│          │◄─┘ answer, announce anew
//!        └──────────┘  higher priority └──────────┘
//!            │  ▲      heard, or own        │
//!      fault │  │      timer late           │ fault: released
//!            ▼  │ last fault gone           │
//!        ┌──────────┐                       │
//!        │  Fault   │◄──────────────────────┘
//!        └──────────┘
//! ```
//!
//! # Parts
//!
//! - [`packet`] and [`checksum`]: the one message;
//! - [`machine`]: the election of one virtual router, RFC 9568 §6.4;
//! - [`group`]: routers that move together;
//! - [`priority`]: what this node can do, from what is known of its proxy;
//! - [`settings`]: what a router is told;
//! - [`announce`]: how the network is told where an address is;
//! - [`retry`]: when what has failed is tried again;
//! - [`farewell`]: how long the clients of addresses that go are waited for;
//! - [`openshift`]: virtual router numbers, and who else may have them.
//!
//! # What holds
//!
//! - In a connected network an address has one holder, except until an heir that advertises has announced
//!   it: half an interval at most, and no more than a quarter of a second; over IPv6, where it announces
//!   twice, up to twice that. It stays a quarter of an interval longer at most where clients of the kernel
//!   path are told meanwhile.
//! - It is without one for three intervals and a skew time at most; for no time when it moves as planned.
//! - A node that has not run in time steps back before it says anything.
//! - Flows to an address are reset before it is given up, those that the kernel forwards too.
//! - An edit of peers, addresses, priority, interval or group does not move what stays.
//!
//! The simulation in `simulation.rs` holds this crate to it. Sockets, addresses and scripts are in `vrrp_net`.

pub mod announce;
pub mod checksum;
pub mod farewell;
pub mod group;
pub mod machine;
pub mod openshift;
pub mod packet;
pub mod priority;
pub mod retry;
pub mod settings;
#[cfg(test)]
mod simulation;

/// VRRP's number among the IP protocols.
pub const PROTOCOL: u8 = 112;
