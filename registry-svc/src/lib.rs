//! OCI registry that keeps one content on every node of a site.

pub mod args;
pub mod auth;
pub mod client;
pub mod cluster;
pub mod commands;
pub mod config;
pub mod digest;
pub mod disk;
#[cfg(feature = "s3")]
pub mod engine;
pub mod error;
pub mod hlc;
pub mod http;
pub mod index;
pub mod journal;
pub mod lease;
pub mod manifest;
pub mod metrics;
pub mod mirror;
pub mod page;
pub mod range;
pub mod record;
pub mod reference;
pub mod root_lock;
mod routes;
pub mod server;
pub mod service;
pub mod status;
pub mod store;
pub mod survey;
pub mod tls;
pub mod transfer;
pub mod upload;
pub mod views;
pub mod webhook;
