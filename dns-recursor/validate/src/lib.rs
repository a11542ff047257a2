//! Validation of answers by DNSSEC (RFC 4033 to 4035, RFC 5155, RFC 6840).
//!
//! ```text
//!                 ┌── Need: DNSKEY or DS of a name ◄──┐
//!                 ▼                                   │
//! answer ─► Validation::step ─► (caller asks) ─► Validation::supply
//!                 │
//!                 ├─ Zones: the keys of zones, kept between answers
//!                 └─► Verdict: secure, insecure, bogus or indeterminate, and why
//! ```
//!
//! [`Anchors`] say where trust begins. From there a chain of DS and DNSKEY records leads to the zone of each set of
//! the answer, and [`denial`] judges the proofs that a name or a type does not exist. `ring` checks signatures and
//! makes digests. The work for one answer is bounded ([`budget`]), whatever its sender has signed.
//!
//! Never opens a socket, and never reads a clock: the time is an argument.

pub mod anchors;
pub mod budget;
mod crypto;
pub mod denial;
pub mod denials;
mod keys;
pub mod response;
pub mod rollover;
mod signature;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod validation;
pub mod verdict;
mod walk;
pub mod zones;

pub use anchors::{Anchor, Anchors};
pub use budget::Budget;
pub use denials::Denials;
pub use response::Response;
pub use validation::{Need, Step, Validation};
pub use verdict::{Security, Verdict, Why};
pub use zones::Zones;
