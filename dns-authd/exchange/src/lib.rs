//! Exchanges of a secondary with a primary: its SOA record over UDP, and transfers over TCP (RFC 5936, RFC 1995), signed if there is a
//! key; or all of it over TLS (RFC 9103).
//!
//! | bound | beyond it |
//! | --- | --- |
//! | time of a connection with its handshake, of a response, of the next message | the exchange fails |
//! | octets of a transfer | the exchange fails |
//!
//! Never decides when to ask: `dns_zone::refresh` does. Keeps no zone.

mod exchange;
mod primary;
#[cfg(test)]
mod tests;

pub use exchange::{ExchangeError, ask, transfer};
pub use primary::Primary;
