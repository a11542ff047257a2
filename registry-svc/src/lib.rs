//! OCI registry that keeps one content on every node of a site.

pub mod auth;
pub mod client;
pub mod cluster;
pub mod config;
pub mod digest;
pub mod disk;
pub mod error;
pub mod hlc;
pub mod http;
pub mod index;
pub mod journal;
pub mod lease;
pub mod manifest;
pub mod metrics;
pub mod range;
pub mod record;
pub mod reference;
pub mod server;
pub mod store;
pub mod transfer;
pub mod upload;
pub mod webhook;
