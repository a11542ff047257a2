//! The parts that every Outpost daemon has in common.
//!
//! A service is `main → run::serve → its own Service::start`; [`run`] holds the one order in which
//! a process lives:
//!
//! ```text
//! args → early log → config (exit 78) → real log → inherited sockets → admin up, not ready
//!      → start → ready, READY=1 → serve ⟲ SIGHUP: load everything, swap once
//!      → SIGTERM: STOPPING=1, not ready, drain with a deadline → exit 0
//! ```
//!
//! Nothing here knows DNS, liveness or any other service's business.

#![warn(missing_docs)]

pub mod accept;
pub mod acl;
pub mod admin;
pub mod args;
pub mod calendar;
pub mod caller;
pub mod clock;
pub mod config;
pub mod connections;
pub mod cores;
mod date;
pub mod decision;
pub mod directory;
pub mod disk;
pub mod drain;
pub mod environment;
pub mod exit;
#[cfg(feature = "tls")]
pub mod expiry;
pub mod json;
pub mod latest;
pub mod life;
pub mod listen;
pub mod log;
pub mod metrics;
#[cfg(feature = "tls")]
pub mod node_tls;
pub mod notify;
pub mod print;
pub mod progress;
pub mod promise;
pub mod random;
pub mod readiness;
pub mod run;
pub mod signal;
pub mod succession;
#[cfg(feature = "tls")]
pub mod tls;
pub mod udp;

pub use retry::Backoff;
pub use sys::memory;
