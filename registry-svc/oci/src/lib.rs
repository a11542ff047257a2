//! Images as OCI specifies them: digests, names, manifests, and what the distribution protocol says in
//! headers.
//!
//! Never reads files or sockets, and knows nothing of what a registry keeps: it is handed octets and
//! texts.

pub mod digest;
pub mod glob;
pub mod manifest;
pub mod quoted;
pub mod range;
pub mod reference;
pub mod upload;
