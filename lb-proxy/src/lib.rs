//! Layer 4 load balancer and virtual IPs.

pub mod args;
mod bind;
mod cluster;
pub mod commands;
pub mod config;
mod datagrams;
mod decisions;
mod explain;
pub mod health;
pub mod host;
pub mod import;
mod kernel_path;
mod leases;
pub mod load;
pub mod metrics;
mod monitor;
pub mod routes;
mod self_check;
pub mod server_state;
pub mod service;
pub mod service_addresses;
mod sockets;
pub mod sources;
mod stats_socket;
pub mod status;
pub mod table_builder;
mod vips;
