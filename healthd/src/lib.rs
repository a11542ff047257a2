//! Probes each target once, whoever and however many ask for it, and publishes liveness.
//!
//! ```text
//! Watch  ─────►          ┌─────────┐ probes  ┌──────────────┐
//! Report ─────► grpc ───►│ driver  │────────►│ health-probe │──► targets
//!        ◄─────          │(monitor)│◄────────│              │◄──
//!                        └────┬────┘ findings└──────────────┘
//!                             └──► saver, state (disk), metrics, collector, status, page
//! ```
//!
//! What is decided is decided in the crate `liveness`, whose `Monitor` the [`driver`] holds and tells the
//! time. Probes are the crate `health-probe`'s, and the contract is in the crate `proto`.

pub mod collector;
pub mod config;
pub mod driver;
pub mod grpc;
pub mod grpc_health;
pub mod listener;
pub mod metrics;
pub mod page;
pub mod saver;
pub mod service;
pub mod state;
pub mod status;
pub mod verbs;
pub mod wire_form;
