//! Dynamic updates (RFC 2136): from the octets of a message to the records of the zone's next version.
//!
//! ```text
//! octets ─► Update ─┐
//! Zone ─► Draft ────┼─► Draft::apply ─► the records of the next version, or a response code
//! Grant ────────────┘
//! ```
//!
//! Opens nothing, reads no clock and logs nothing. An update is carried out as a whole or not at all. The caller signs, keeps and
//! publishes.

mod batch;
mod draft;
mod grant;
mod message;
#[cfg(test)]
mod tests;

pub use batch::{Asked, Make, Next, Step, apply_all};
pub use draft::{Draft, Refusal};
pub use grant::{Grant, NotPattern, Pattern};
pub use message::{Entry, Malformed, Update};
