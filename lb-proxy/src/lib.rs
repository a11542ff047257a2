//! Layer 4 load balancer and virtual IPs.

pub mod access_log;
pub mod args;
pub mod client_hello;
pub mod commands;
pub mod config;
pub mod datagram;
pub mod handover;
pub mod haproxy_cfg;
pub mod health;
pub mod imported;
pub mod keepalived_conf;
pub mod keeper;
pub mod kernel;
pub mod limits;
pub mod metrics;
pub mod pool;
pub mod proxy_protocol;
pub mod queue;
pub mod relay;
pub mod routes;
pub mod service;
pub mod service_addresses;
pub mod standing;
pub mod status;
pub mod table;
pub mod vrrp;
