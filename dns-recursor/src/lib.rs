//! Forwarding and caching DNS server.

pub mod answer;
pub mod cache;
pub mod key;
pub mod message;
pub mod moment;
#[cfg(test)]
mod testing;
