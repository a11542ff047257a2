//! The gRPC contracts: between healthd and its subscribers, and between the nodes of a registry.
//!
//! [`wire`] is generated from `proto/outpost/health/v1/health.proto`, whose comments are the
//! contract. [`health`] holds the same things as typed values that cannot be wrong: what comes
//! over the wire is parsed into them or refused. With the feature `client`, [`watch`] keeps one
//! `Watch` stream alive and hands out snapshots, [`report`] one `Report` stream for what
//! subscribers find out themselves, and [`clock`] tells how good a node's clock is.
//!
//! [`registry`] is generated from `proto/outpost/registry/v1`: what registries keep in their journals
//! and send each other. Its typed values are the registry's own, because nobody else has them.
//!
//! Knows no service and no daemon.

#![warn(missing_docs)]

#[cfg(feature = "client")]
pub mod clock;
#[cfg(feature = "client")]
pub mod endpoint;
pub mod health;
#[cfg(feature = "client")]
mod reconnect;
#[cfg(feature = "client")]
pub mod report;
#[cfg(feature = "client")]
pub mod watch;

/// Messages and services as generated from the contract.
#[expect(missing_docs, clippy::doc_markdown, reason = "generated code")]
#[cfg_attr(
    any(feature = "client", feature = "server"),
    expect(
        unused_qualifications,
        clippy::allow_attributes_without_reason,
        reason = "generated code"
    )
)]
#[cfg_attr(
    feature = "server",
    expect(
        clippy::allow_attributes,
        clippy::clone_on_ref_ptr,
        clippy::too_many_lines,
        reason = "generated code"
    )
)]
pub mod wire {
    tonic::include_proto!("outpost.health.v1");
}

/// Messages and the replication service of the registry as generated from the contract.
#[expect(missing_docs, clippy::doc_markdown, reason = "generated code")]
#[cfg_attr(
    any(feature = "client", feature = "server"),
    expect(
        unused_qualifications,
        clippy::allow_attributes_without_reason,
        reason = "generated code"
    )
)]
#[cfg_attr(
    feature = "server",
    expect(
        clippy::allow_attributes,
        clippy::clone_on_ref_ptr,
        clippy::too_many_lines,
        reason = "generated code"
    )
)]
pub mod registry {
    tonic::include_proto!("outpost.registry.v1");
}
