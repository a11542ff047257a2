//! OCI registry that keeps one content on every node of a site.

pub mod error;
pub mod range;
pub mod upload;
