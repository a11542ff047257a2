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
//! - [`priority`]: the priority of this node, from the known facts about its proxy;
//! - [`settings`]: the settings of a router;
//! - [`announce`]: announcements of an address to the network;
//! - [`retry`]: when what has failed is tried again;
//! - [`address_drain`]: the wait for the clients of addresses that go;
//! - [`openshift`]: virtual router numbers, and other clusters that may have them.
//!
//! # Invariants
//!
//! - In a connected network an address has one holder, except until an heir that advertises has announced
//!   it: half an interval at most, and no more than a quarter of a second; over IPv6, where it announces
//!   twice, up to twice that. It stays a quarter of an interval longer at most where clients of the kernel
//!   path get a reset meanwhile.
//! - It is without one for three intervals and a skew time at most; for no time when it moves as planned.
//! - A node that has not run in time steps back before it says anything.
//! - Flows to an address are reset before it is given up, those that the kernel forwards too.
//! - An edit of peers, addresses, priority, interval or group does not move what stays.
//!
//! The simulation in `simulation.rs` holds this crate to it. Sockets, addresses and scripts are in `vrrp_net`.

pub mod address_drain;
pub mod announce;
pub mod checksum;
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
