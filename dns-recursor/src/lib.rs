//! Forwarding and caching DNS server.

pub mod answer;
pub mod cache;
pub mod exchange;
pub mod forward;
pub mod key;
pub mod message;
pub mod moment;
pub mod resolve;
#[cfg(test)]
mod testing;
pub mod upstream_state;
