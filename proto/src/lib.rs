//! The gRPC contract between healthd and its subscribers.
//!
//! [`wire`] is generated from `proto/outpost/health/v1/health.proto`, whose comments are the
//! contract. [`health`] holds the same things as typed values that cannot be wrong: what comes
//! over the wire is parsed into them or refused. With the feature `client`, [`watch`] keeps one
//! `Watch` stream alive and hands out snapshots.
//!
//! Knows no service and no daemon.

#[cfg(feature = "client")]
pub mod endpoint;
pub mod health;
#[cfg(feature = "client")]
pub mod watch;

/// Messages and services as generated from the contract.
#[allow(
    missing_docs,
    missing_debug_implementations,
    unreachable_pub,
    unused_qualifications,
    clippy::all,
    clippy::pedantic,
    clippy::restriction,
    reason = "generated code"
)]
pub mod wire {
    tonic::include_proto!("outpost.health.v1");
}
