//! The NTP client and server of a site: one time, also on an island.
//!
//! ```text
//!   samples ┌──────────────────────── engine (core) ────────────────────────┐ rate, step, status
//! ─────────►│ association: packets of one source   timekeeper: what time it is│──────────────────► clock
//! requests  │ responder: what a client is told     local, orphan, leap        │ datagrams
//! ─────────►└─────────────────────────────────────────────────────────────────┘──────────────────► network
//!              poll loop, one thread             snapshots ──► admin, metrics, healthd: another thread
//! ```
//!
//! The core gets datagrams with their timestamps and the time, and returns actions; it never reads a clock. Corrections are
//! counted on the raw clock ([`time_model::time::RawTime`]), which no program adjusts, so that a correction of the clock never
//! disturbs the measurements.

pub mod agent;
pub mod args;
pub mod chronyc_cli;
pub mod cmdmon;
pub mod commands;
pub mod config;
pub mod drift_file;
pub mod health;
mod keys;
mod last_known;
pub mod leap_file;
mod learned;
pub mod logs;
pub mod measure_once;
pub mod metrics;
pub mod page;
pub mod resolver;
mod self_check;
pub mod server;
pub mod service;
pub mod single_thread;
pub mod state_file;
pub mod status;
pub mod system;
pub mod thermometer;
pub mod views;
