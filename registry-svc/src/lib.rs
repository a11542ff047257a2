//! OCI registry that keeps one content on every node of a site.

pub mod args;
pub mod commands;
pub mod config;
pub mod machine;
pub mod maintenance;
pub mod metrics;
pub mod page;
mod routes;
mod self_check;
pub mod service;
pub mod status;
pub mod tls;
pub mod views;
