//! Probes each target once, however many subscribers need it, and publishes liveness.
//!
//! ```text
//! Watch  ─────►          ┌─────────┐ probes  ┌──────────────┐
//! Report ─────► grpc ───►│ driver  │────────►│ health-probe │──► targets
//!        ◄─────          │(monitor)│◄────────│              │◄──
//!                        └────┬────┘ findings└──────────────┘
//!                             └──► saver, state (disk), metrics, collector, status, trail, page
//! ```
//!
//! The crate `liveness` decides: the [`driver`] holds its `Monitor` and passes it the time. The crate
//! `health-probe` runs probes, and the contract is in the crate `proto`. With other nodes configured, `peers` carries
//! findings between their healthds and this one, over the same monitor.

pub mod collector;
pub mod config;
pub mod driver;
mod explain;
pub mod grpc;
pub mod grpc_health;
mod leases;
pub mod listener;
mod marks;
pub mod metrics;
pub mod page;
mod peers;
pub mod saver;
pub mod service;
pub mod state;
pub mod status;
pub mod trail;
pub mod verbs;
mod view;
pub mod wire_form;
