//! The gRPC contracts: between healthd and its subscribers, and between clusterd and its own.
//!
//! [`wire`] is generated from the files below `proto/outpost`, whose comments are the
//! contract. [`health`] has the same as typed values that cannot be wrong: a message is parsed into
//! them or refused. With the feature `client`, [`link`] is what a service holds of healthd: [`watch`] keeps
//! its `Watch` stream alive and hands out snapshots. [`report`] keeps one `Report` stream for the
//! observations of subscribers, [`clock`] reports how good a node's clock is, and [`lease`] asks for leases. [`cluster`] has the same for clusterd. With the
//! feature `server`, [`incoming`] serves a contract at a listener.
//!
//! Knows no service.

#![warn(missing_docs)]

#[cfg(feature = "client")]
pub mod clock;
pub mod cluster;
#[cfg(feature = "client")]
mod connection;
#[cfg(feature = "client")]
pub mod endpoint;
pub mod health;
#[cfg(feature = "server")]
pub mod incoming;
#[cfg(feature = "client")]
pub mod lease;
#[cfg(feature = "client")]
pub mod link;
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

    /// Those of clusterd.
    #[expect(clippy::struct_excessive_bools, reason = "generated code")]
    pub mod cluster {
        tonic::include_proto!("outpost.cluster.v1");
    }
}
