//! The objects of a Kubernetes cluster that Outpost knows, and snapshots of them.
//!
//! The objects are trimmed: they have the fields that a service of Outpost may need, and nothing else. A [`Snapshot`]
//! is the whole picture at one generation; a [`Difference`] leads from one snapshot to a later one.
//!
//! Knows no service, and reads no format: clusterd reads what Kubernetes writes, `proto` the contract.

#![warn(missing_docs)]

mod dns;
mod meta;
mod object;
pub mod rules;
mod snapshot;

pub use dns::{Dns, DnsForward, DnsPolicy, DnsServer, DnsTls, DnsUpstream};
pub use meta::Meta;
pub use object::{
    AddressType, Endpoint, EndpointPort, EndpointSlice, Ingress, IpFamily, Key, Kind, Namespace,
    Node, NodeAddress, Object, Protocol, Ready, Service, ServicePort, ServiceType, Taint,
    TargetPort, UnknownKind,
};
pub use snapshot::{Difference, Freshness, Snapshot};
