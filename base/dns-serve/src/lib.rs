//! The stream side of a DNS server: DNS over TCP (RFC 7766), TLS (RFC 7858), HTTPS (RFC 8484) and QUIC
//! (RFC 9250).
//!
//! One thread ([`Streams`]) runs all connections. Each service implements [`Service`]: it admits clients and
//! answers queries. This crate accepts, frames, counts and bounds.
//!
//! | bound | beyond it |
//! | --- | --- |
//! | connections in all, and of one client | as the policy of all listeners says ([`daemon::connections`]) |
//! | unanswered queries of a connection | nothing more is read from it |
//! | length of a query ([`MAX_QUERY`]) | the connection ends, after its answers |
//! | time of a handshake, of a write, of an idle connection | the connection is closed |
//!
//! TCP and QUIC have the same bounds, and count their connections apart: addresses of QUIC's first packets may
//! be forged, and must not take the room of TCP.
//!
//! [`cookies`] has the secrets of DNS cookies, which datagrams need too, and [`rate`] the limit of responses to datagrams.
//!
//! Never decides an answer, and reads no configuration.

mod accept;
pub mod cookies;
mod framed;
mod https;
pub mod question;
mod quic;
pub mod rate;
mod service;
mod streams;
#[cfg(test)]
mod testing;

pub use accept::{Protocol, serve};
pub use framed::converse;
pub use https::{PROTOCOLS as HTTPS_PROTOCOLS, Site};
pub use service::{
    Admission, Answer, Client, Counters, Limits, MAX_QUERY, Replies, Service, Transport,
};
pub use streams::{Listeners, Streams};

/// The ALPN name of DNS over TLS.
pub const DOT: &[u8] = b"dot";
/// The ALPN name of DNS over QUIC.
pub const DOQ: &[u8] = b"doq";
