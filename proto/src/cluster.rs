//! The objects of a cluster and their snapshots, as typed values.
//!
//! The types are the crate `cluster`'s. Everything that comes over the wire is parsed into them; an object that cannot be
//! is left out. [`Assembly`] takes pieces in, [`pieces`] makes them.

use std::collections::BTreeMap;
use std::sync::Arc;

use prost::Message as _;

use crate::wire::cluster as wire;

mod convert;
#[cfg(feature = "client")]
pub mod link;
#[cfg(test)]
mod tests;

pub use convert::Unreadable;

pub use ::cluster::{
    AddressType, Difference, Dns, DnsForward, DnsPolicy, DnsServer, DnsTls, DnsUpstream, Endpoint,
    EndpointPort, EndpointSlice, Freshness, Ingress, IpFamily, Key, Kind, Meta, Namespace, Node,
    NodeAddress, Object, Protocol, Ready, Service, ServicePort, ServiceType, Snapshot, Taint,
    TargetPort,
};

/// Octets of the objects of one piece. A piece with one object may be larger: a slice of 1,000 endpoints has some 100 KiB.
const PIECE: usize = 1 << 20;

/// The most objects of a difference that a reader takes.
const MAX_OBJECTS: usize = 1_000_000;

/// Cuts a difference into pieces for the wire, the last one with `more` unset.
#[must_use]
pub fn pieces(difference: &Difference) -> Vec<wire::WatchResponse> {
    let empty = || wire::WatchResponse {
        generation: difference.generation,
        full: difference.full,
        more: true,
        ..wire::WatchResponse::default()
    };
    let (mut pieces, mut piece, mut length) = (Vec::new(), empty(), 0);
    for object in &difference.put {
        let object = wire::Object::from(&**object);
        let octets = object.encoded_len();
        if length > 0 && length + octets > PIECE {
            pieces.push(std::mem::replace(&mut piece, empty()));
            length = 0;
        }
        length += octets;
        piece.put.push(object);
    }
    for key in &difference.gone {
        let key = wire::Key::from(key);
        let octets = key.encoded_len();
        if length > 0 && length + octets > PIECE {
            pieces.push(std::mem::replace(&mut piece, empty()));
            length = 0;
        }
        length += octets;
        piece.gone.push(key);
    }
    piece.more = false;
    let states = difference.freshness.iter();
    let states = states.map(|(kind, freshness)| wire::KindState {
        kind: wire::Kind::from(*kind).into(),
        freshness: wire::Freshness::from(*freshness).into(),
    });
    piece.kinds = states.collect();
    pieces.push(piece);
    pieces
}

/// Puts the pieces of a difference together.
#[derive(Debug, Default)]
pub struct Assembly {
    difference: Difference,
    is_begun: bool,
}

impl Assembly {
    /// Takes in a piece; returns the difference with the last one. Pieces of a difference that never ended are forgotten when
    /// another one begins.
    pub fn add(&mut self, piece: wire::WatchResponse) -> Option<Difference> {
        let is_other = self.difference.generation != piece.generation;
        if !self.is_begun || is_other || self.difference.full != piece.full {
            self.difference = Difference {
                full: piece.full,
                generation: piece.generation,
                freshness: BTreeMap::new(),
                put: Vec::new(),
                gone: Vec::new(),
            };
            self.is_begun = true;
        }
        let (more, states) = (piece.more, piece.kinds);
        let room = MAX_OBJECTS.saturating_sub(self.difference.put.len());
        let put = piece.put.into_iter().take(room);
        let put = put.filter_map(|object| Object::try_from(object).ok());
        self.difference.put.extend(put.map(Arc::new));
        let room = MAX_OBJECTS.saturating_sub(self.difference.gone.len());
        let gone = piece.gone.into_iter().take(room);
        let gone = gone.filter_map(|key| Key::try_from(key).ok());
        self.difference.gone.extend(gone);
        if more {
            return None;
        }
        let states = states.into_iter().filter_map(|state| {
            let kind = convert::kind(state.kind)?;
            Some((kind, Freshness::from(state.freshness())))
        });
        self.difference.freshness = states.collect();
        self.is_begun = false;
        Some(std::mem::take(&mut self.difference))
    }
}
