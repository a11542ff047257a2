//! DNS cookies (RFC 7873) of the kind that servers of different makers share (RFC 9018).
//!
//! A server cookie proves that its client owns its address: it was sent there, and no other client has seen it. The servers
//! that have the same secret accept each other's cookies.
//!
//! ```text
//! option 10:  client cookie (8) │ 1 0 0 0 │ time (4) │ SipHash-2-4 (8) of all before it and the client's address
//! ```
//!
//! Reads no clock and allocates nothing for a query.

mod cookie;
mod siphash;

pub use cookie::{Checked, Cookie, CookieState, Cookies, LENGTH, SecretError, Secrets};
pub use siphash::siphash;
