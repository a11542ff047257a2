//! lb-proxy from outside: what clients and servers see, and what people do with it.
//!
//! If HAProxy does the same job, the same test is run on it first, so that a test cannot demand
//! what the peer does not do.

mod access;
mod choice;
mod cluster;
mod cluster_addresses;
mod delivery;
mod forward;
mod import;
mod liveness;
mod load_balancer;
mod monitor;
mod names;
mod names_as_servers;
mod one_truth;
mod operate;
mod pauses;
mod peers_files;
mod proxy_header;
mod restrictions;
mod shortage;
mod site;
mod stats_socket;
mod swap;
mod swap_datagrams;
mod vip_edit;
mod vip_explain;
mod vip_kernel;
mod vip_swap;
