//! From a site to the files of its nodes.
//!
//! ```text
//! Site + Layout ──► config ──► what the services read: configurations, zones, certificates
//! Site + Node   ──► target ──► what starts them: units, quadlets, Ignition, MachineConfigs, Butane
//! Site          ──► rbac    ──► what clusterd may do in its cluster
//!                    tree  ──► which files of an earlier rendering change or go
//! ```
//!
//! `target` is the word of `outpost render --target`; `config` is its target `configs`.
//!
//! Never writes a file, looks at this machine or reads a clock: the same site gives the same bytes.

pub mod config;
pub mod rbac;
pub mod target;
pub mod tree;
