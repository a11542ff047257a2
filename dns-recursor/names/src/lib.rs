//! Names that the resolver answers by its own configuration, before it looks into the cache.
//!
//! ```text
//! name ─► [[name]], hosts files ─► response policies ─► domain-needed ─► cache, upstreams ─► response policies
//!              │                     (client, name)          │                                (addresses)
//!              ▼                          ▼                  ▼                                     ▼
//!   addresses, alias, NODATA      NXDOMAIN, records, …    NXDOMAIN                         NXDOMAIN, records, …
//! ```
//!
//! [`names::Names`] is one value for all of it, which is replaced as a whole. Reads no file and no clock, and gets
//! the addresses that are down from its caller.

pub mod hosts;
pub mod list;
pub mod names;
pub mod networks;
pub mod policy;
mod reply;
pub mod reverse;
pub mod zone;

pub use names::{Names, Origin, Reply};
