//! The messages of a registry: records in its journal, and requests and responses between its nodes.
//!
//! Generated from `proto/outpost/registry/v1`, whose comments are the contract. The package `proto`
//! has the gRPC service that carries them.

include!(concat!(env!("OUT_DIR"), "/outpost.registry.v1.rs"));
