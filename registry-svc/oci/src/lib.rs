//! Images as OCI specifies them: digests, names, manifests, and the headers of the distribution
//! protocol.
//!
//! Never reads files or sockets, and knows no registry: callers hand it octets and text.

pub mod digest;
pub mod glob;
pub mod manifest;
pub mod quoted;
pub mod range;
pub mod reference;
pub mod upload;
