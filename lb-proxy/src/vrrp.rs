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
//! Cores, which never do I/O:
//!
//! - [`packet`] and [`checksum`]: the one message;
//! - [`machine`]: the election of one virtual router, RFC 9568 §6.4;
//! - [`group`]: routers that move together;
//! - [`priority`]: what this node can do, from what is known of its proxy;
//! - [`settings`]: what a router is told;
//! - `retry`: when what has failed is tried again;
//! - `farewell`: how long the clients of addresses that go are waited for;
//! - [`openshift`]: virtual router numbers, and who else may have them.
//!
//! The shell, which decides nothing:
//!
//! - [`routers`]: the virtual routers of this node, started, edited and ended;
//! - `session`: the task of those that move together; `member`: what one of them has of this node;
//! - `socket`: advertisements in and out; `announce` and `duplicate`: ARP and neighbour discovery;
//! - `netlink`: links and addresses;
//! - [`notify`](mod@notify): scripts; `report`: the log;
//! - [`status`](mod@status): what all show.
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
//! The simulation in `vrrp/simulation.rs` holds the cores to this.

mod announce;
pub mod checksum;
mod duplicate;
mod farewell;
pub mod group;
pub mod machine;
mod member;
mod netlink;
pub mod notify;
pub mod openshift;
pub mod packet;
pub mod priority;
mod report;
mod retry;
pub mod routers;
mod session;
pub mod settings;
#[cfg(test)]
mod simulation;
mod socket;
pub mod status;
mod sys;

pub use self::routers::{
    Hooks, Observations, Prepared, Resetting, StartError, VirtualRouter, Vrrp,
};
