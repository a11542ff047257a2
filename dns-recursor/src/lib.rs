//! Forwarding and caching DNS server.
//!
//! ```text
//!            ┌─────────── server (a thread per core), tcp (one thread) ───────────┐
//! client ───►│ front: policy ─► names ─► cache ─► local names                     │──► client
//!            └──────────────────────┬─────────────────────────────────────────────┘
//!                                   │ jobs (bounded)                    ▲ answers
//!                              ┌────▼────────────────────────┐          │
//!                              │ driver (one thread)         │──────────┘
//!                              │   resolve: flights, health  │──► cache
//!                              └────┬────────────────────────┘
//!                                   ▼ exchanges: a socket each
//!                               upstreams
//! ```
//!
//! Other crates decide: `dns-front` about a query, `dns-resolve` about the upstream of a question,
//! `dns-cache` about the answers to keep. `query-watch` shows queries to operators. This crate has the threads, sockets and clocks around them, the
//! configuration, and the views for operators.

pub mod anchors;
pub mod args;
pub mod cache_file;
pub mod clock;
pub mod commands;
pub mod config;
pub mod driver;
pub mod entropy;
mod explain;
pub mod healthd;
pub mod import;
pub mod learned;
pub mod load;
pub mod metrics;
pub mod names;
pub mod node_hosts;
mod own_health;
mod own_question;
pub mod routes;
pub mod routing;
pub mod self_check;
pub mod server;
pub mod service;
pub mod status;
pub mod tcp;
pub mod totals;
pub mod upstream;
