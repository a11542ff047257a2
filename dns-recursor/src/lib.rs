//! Forwarding and caching DNS server.
//!
//! ```text
//!            ┌─────────── server (a thread per core), tcp (one thread) ───────────┐
//! client ───►│ front: policy ─► cache ─► local names                              │──► client
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
//! Cores, which do no I/O and read no clock: [`answer`], [`cache`], [`exchange`], [`forward`],
//! [`front`], [`import`], [`itself`], [`key`], [`local`], [`message`], [`moment`], [`policy`],
//! [`recursor_conf`], [`resolve`], [`upstream_state`]. Everything else is a shell around them.

pub mod answer;
pub mod args;
pub mod cache;
pub mod clock;
pub mod commands;
pub mod config;
pub mod driver;
pub mod entropy;
pub mod exchange;
pub mod forward;
pub mod front;
pub mod healthd;
pub mod import;
pub mod itself;
pub mod key;
pub mod load;
pub mod local;
pub mod message;
pub mod metrics;
pub mod moment;
pub mod policy;
pub mod recursor_conf;
pub mod resolve;
pub mod routes;
pub mod self_check;
pub mod server;
pub mod service;
pub mod status;
pub mod tcp;
#[cfg(test)]
mod testing;
pub mod totals;
pub mod upstream;
pub mod upstream_state;
