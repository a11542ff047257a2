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
//! One of several clusterds writes to the API, and only where Services get their addresses from pools: `status.loadBalancer` of
//! Services, Events about it, and the Lease of the election (`cluster-addresses`, `cluster-election`).

pub mod addresses;
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
