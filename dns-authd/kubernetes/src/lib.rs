//! The names of a Kubernetes cluster, rendered into zones.
//!
//! A [`Cluster`] takes snapshots of clusterd, and says which parts of its zones are others than before: one changed slice of endpoints has
//! the names of its Service rendered again, and of those that share its part. The schema is that of the DNS specification of Kubernetes
//! 1.1.0; the choices that it leaves are made as in CoreDNS.
//!
//! ```text
//! Snapshot ─► difference ─► Services ─► records ─► parts (Zone::build_part) ─► Change
//! ```
//!
//! Differences from CoreDNS, all within the specification:
//!
//! * A name with names below it exists: `_tcp.shop.default.svc.DOMAIN` is NODATA there where CoreDNS says NXDOMAIN (RFC 8020).
//! * `_http._tcp.shop.default.svc.DOMAIN` has SRV records only; CoreDNS answers A there too.
//! * Endpoints of headless Services without a hostname have PTR records, as the specification asks; CoreDNS has left them out since 1.9.
//! * Names of `SkyDNS`, names by annotations, and endpoints that healthd knows to be down are options of their own.
//! * A pod is verified when it is an endpoint of a Service: clusterd does not watch pods.

#![warn(missing_docs)]

mod cluster;
mod endpoints;
mod hostnames;
mod options;
mod render;
mod selector;
mod shape;
mod skydns;
#[cfg(test)]
mod tests;

pub use crate::cluster::{Cluster, MOST_PROBED};
pub use crate::hostnames::RefusedHostname;
pub use options::{Options, Refused};
pub use selector::{NotASelector, Selector};
pub use shape::{Change, PARTS};
