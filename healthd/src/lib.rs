//! Probes each target once, whoever and however many ask for it, and publishes liveness.
//!
//! ```text
//!              ┌──────────────────────── hub (core) ────────────────────────┐
//! Watch ──────►│ who holds what     schedule: what to probe next            │──► probes
//! Report ─────►│                    verdict: rise and fall                  │◄── findings
//!        ◄─────│ board: what is known, and what changed since a generation  │
//!              └────────────────────────────────────────────────────────────┘
//!                    engine (tells the time)      state (disk), metrics, status
//! ```
//!
//! Cores: [`hub`], [`schedule`], [`verdict`], [`board`], [`admin_rules`], [`clocks`], [`tally`], [`moment`], [`page`]. They are told
//! the time and do no I/O; everything else is shell. The contract is in the crate `proto`.

pub mod admin_rules;
pub mod board;
pub mod clocks;
pub mod config;
pub mod engine;
pub mod grpc;
pub mod grpc_health;
pub mod hub;
pub mod listener;
pub mod metrics;
pub mod moment;
pub mod page;
pub mod probe;
pub mod saver;
pub mod schedule;
pub mod service;
pub mod state;
pub mod status;
pub mod tally;
pub mod verbs;
pub mod verdict;
pub mod wire_form;
