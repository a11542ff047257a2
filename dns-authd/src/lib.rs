//! The authoritative DNS server with health-checked answers.
//!
//! ```text
//!  master files        LUA records            healthd
//!       │                   │                    │
//!  zone::parse         lua::Evaluator       proto::watch
//!       │                   │                    │
//!       ▼                   ▼                    ▼
//!  zone::Zone ──────► programs::LiveZone ◄── keeper (one thread)
//!       │                   │                    │
//!       └────► table::Table ◄───── live::LiveSets│
//!                   │                            │
//!                   ▼         publishes          │
//!            answer::Snapshot ◄──────────────────┘
//!                   │
//!        answer::Responder (one for each thread)
//!          ▲            ▲              ▲
//!       server     tcp, https         quic
//! ```
//!
//! * The cores ([`zone`], [`table`], [`live`], [`answer`], [`lua`], the parsers) open nothing,
//!   read no clock and log nothing.
//! * The shells ([`keeper`], [`load`], [`reload`], [`health`], [`hold`], [`server`], [`tcp`],
//!   [`https`], [`quic`]) decide no answer.
//! * [`service`] is the order in which all of it starts and ends.

pub mod access;
pub mod answer;
pub mod args;
pub mod check;
pub mod commands;
pub mod config;
pub mod health;
pub mod hold;
pub mod https;
pub mod keeper;
pub mod live;
pub mod load;
pub mod lua;
pub mod metrics;
mod name_table;
pub mod named_conf;
pub mod pdns_conf;
pub mod programs;
pub mod quic;
mod random;
pub mod reload;
mod render;
pub mod routes;
pub mod self_check;
pub mod server;
pub mod service;
pub mod status;
pub mod table;
pub mod tally;
pub mod tcp;
pub mod transfer;
pub mod zone;
