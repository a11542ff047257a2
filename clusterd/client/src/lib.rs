//! A client of the Kubernetes API, for clusterd, which follows a cluster, and for `outpost`, which looks at one once.
//!
//! | module | content |
//! | --- | --- |
//! | [`address`] | the address of an API server |
//! | [`access`] | addresses, authorities and credentials, read from their files |
//! | [`request`] | one request over one connection |
//!
//! It runs no command to get credentials, and verifies every server.

#![warn(missing_docs)]

pub mod access;
pub mod address;
pub mod request;
