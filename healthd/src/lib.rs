//! Probes each target once, whoever and however many ask for it, and publishes liveness.
pub mod admin_rules;
pub mod board;
pub mod config;
pub mod engine;
pub mod grpc;
pub mod grpc_health;
pub mod hub;
pub mod metrics;
pub mod moment;
pub mod probe;
pub mod schedule;
pub mod socket;
pub mod state;
pub mod tally;
pub mod verdict;
pub mod wire_form;
