//! The authoritative DNS server with health-checked answers.
//!
//! ```text
//!  dns_zone            dns_lua                healthd
//!  master files        LUA programs             │
//!       │                   │              proto::watch
//!       ▼                   ▼                   ▼
//!     load ──────► dns_programs ──────► publisher (one thread; loads have workers)
//!                                               │ publishes
//!                                               ▼
//!                                    dns_answer::Snapshot
//!                                               │
//!                          dns_answer::Responder (one for each thread)
//!                            ▲                  ▲
//!                     server (UDP)     shared (TCP, TLS, HTTPS, QUIC: dns-serve)
//! ```
//!
//! * The cores are crates: `dns_zone`, `dns_history`, `dns_update`, `dns_catalog`, `dns_programs`, `dns_lua`, `dns_flatten`, `dns_answer`, `dns_kubernetes`. The foreign formats are
//!   `peer_pdns` and `peer_bind`.
//! * `dns_primary` serves the secondaries: transfers, NOTIFY, histories. `dns_cluster` follows clusterd.
//! * The shells ([`publisher`], [`load`], [`reload`], [`health`], [`catalogs`], [`hold`], [`server`], [`shared`])
//!   decide no answer.
//! * [`service`] starts and ends all of it.

pub mod access;
pub mod args;
pub mod catalogs;
pub mod check;
pub mod commands;
pub mod config;
mod explain;
pub mod health;
pub mod hold;
pub mod load;
pub mod metrics;
pub mod publisher;
pub mod reload;
pub mod routes;
pub mod secondary;
pub mod self_check;
pub mod server;
pub mod service;
pub mod shared;
pub mod signed;
pub mod status;
pub mod updates;
