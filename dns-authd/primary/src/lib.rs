//! The work of a primary for its secondaries: it sends them zones and differences, notifies them of new versions, keeps the histories
//! that the differences come from, and flattens live sets for those that cannot run programs.
//!
//! ```text
//!                       ┌─► transfers ─► secondaries
//! Latest<Snapshot> ─────┼─► notify ────► secondaries
//!        ▲              └─► flattening ─┐
//!        └── publisher ◄── versions ────┘
//!               └─► histories ─► disk
//! ```
//!
//! The cores are `dns_answer::transfer`, `dns_zone::notify`, `dns_history` and `dns_flatten`; here are only the shells. None of them
//! publishes: the publisher of dns-authd does.

pub mod flattening;
pub mod histories;
pub mod notify;
pub mod transfers;

/// The time, in seconds since 1970.
fn now() -> u64 {
    daemon::clock::since_1970().as_secs()
}
