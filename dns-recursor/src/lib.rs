//! Forwarding and caching DNS server.

pub mod answer;
pub mod cache;
pub mod config;
pub mod exchange;
pub mod forward;
pub mod front;
pub mod key;
pub mod local;
pub mod message;
pub mod moment;
pub mod policy;
pub mod recursor_conf;
pub mod resolve;
#[cfg(test)]
mod testing;
pub mod upstream_state;
