//! Watches the Kubernetes API once for all services of a node, and publishes the objects.
//!
//! ```text
//! API servers ◄──list, watch── api (follower of each kind) ─┐
//!                                                           ├─► publisher (Picture) ─► grpc ─► subscribers
//! manifests ───inotify──────── manifests ───────────────────┘        └─► saver ─► disk
//! ```
//!
//! The crate `cluster-watch` decides: a follower holds its `Machine`, sends its requests and passes it the time. The crate
//! `cluster-objects` reads texts, `cluster-snapshot` keeps the picture, and the contract is in the crate `proto`.
//!
//! Writes nothing to the API.

pub mod api;
pub mod config;
pub mod grpc;
pub mod manifests;
pub mod metrics;
pub mod publisher;
pub mod service;
mod source;
pub mod state;
pub mod status;
pub mod verbs;
