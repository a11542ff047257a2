//! The knowledge of a resolver that asks from the root's servers downwards.
//!
//! ```text
//! hints: where the root's servers are ─► delegations: the servers of zones ─► order: which of them first
//!                                             ▲                                     │
//!                                             └─── referral ◄─── query ◄─── minimise: how much of the name
//! ```
//!
//! [`delegations`] keeps what servers of a zone above have said, as long as they have said, and never what a zone says of
//! itself. `dns_resolve` sends the queries; this crate never does, nor does it read a clock.

pub mod delegations;
pub mod hints;
pub mod minimise;
pub mod order;
