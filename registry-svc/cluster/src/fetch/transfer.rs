//! From the peers to the disk: one flight reads from one peer after the other until it has all.

use std::io;
use std::sync::Arc;

use oci::digest::Digest;
use registry_cluster_core::intake::Class;
use registry_facts::record::NodeId;
use registry_proto as wire;
use tonic::{Code, Status};

use super::{IDLE_ROUNDS, Opened, ROUND_PAUSE, STALLED, Transfer};
use crate::peer::{INCARNATION, Peer};

impl Transfer {
    /// The first candidate that answers, from where the flight is.
    pub(super) async fn open_any(&mut self, candidates: &[Arc<Peer>]) -> Option<Opened> {
        for peer in candidates {
            if let Some(opened) = self.open(peer).await {
                return Some(opened);
            }
        }
        None
    }

    async fn open(&mut self, peer: &Peer) -> Option<Opened> {
        let opened = open_at(peer, self.flight.class, &self.digest, self.at).await;
        match opened {
            Ok((size, opened)) if self.size.is_none_or(|known| known == size) => {
                self.size = Some(size);
                self.report.denied.remove(&peer.name);
                Some(opened)
            }
            Ok((size, _)) => {
                tracing::warn!(digest = %self.digest, peer = peer.name.as_str(), size, "A peer's copy has another size");
                None
            }
            Err(status) if denies(&status, peer.known().node.as_ref()) => {
                self.report.denied.insert(peer.name.clone());
                None
            }
            Err(_) => None,
        }
    }

    /// Passes everything on, from one peer after the other; ends with an error in the stream unless
    /// all has come.
    pub(super) async fn pump(&mut self, opened: Opened, candidates: &[Arc<Peer>]) {
        let mut next = Some(opened);
        let mut idle = 0;
        loop {
            let before = self.at;
            if let Some(opened) = next.take() {
                self.drain(opened).await;
            }
            if self.size == Some(self.at) || self.pieces.is_closed() {
                return;
            }
            idle = if self.at > before { 0 } else { idle + 1 };
            if idle > 0 {
                if idle > IDLE_ROUNDS {
                    break;
                }
                tokio::time::sleep(ROUND_PAUSE).await;
            }
            next = self.open_any(candidates).await;
        }
        let broken = io::Error::new(io::ErrorKind::UnexpectedEof, "no peer has the rest");
        // The store may have given up before.
        drop(self.pieces.send(Err(broken)).await);
    }

    /// Passes on what one peer sends until it ends or fails.
    async fn drain(&mut self, opened: Opened) {
        let Opened {
            from,
            first,
            mut rest,
        } = opened;
        let mut piece = first;
        loop {
            let left = self.size.unwrap_or(0).saturating_sub(self.at);
            if piece.len() as u64 > left {
                tracing::warn!(digest = %self.digest, peer = from.as_str(), "A peer sends more than the blob has");
                return;
            }
            if !piece.is_empty() {
                self.report.sources.insert(from.clone());
                let urgent = *self.flight.urgent.borrow();
                self.fetcher.0.counters.fetched(piece.len());
                if !urgent {
                    let throttle = &self.fetcher.0.throttle;
                    throttle.take(piece.len(), self.flight.class).await;
                }
                self.flight.arrived(self.at, &piece);
                self.at += piece.len() as u64;
                if self.pieces.send(Ok(piece)).await.is_err() {
                    return;
                }
            }
            piece = match tokio::time::timeout(STALLED, rest.message()).await {
                Ok(Ok(Some(response))) => response.data,
                Ok(Ok(None) | Err(_)) | Err(_) => return,
            };
        }
    }
}

/// Asks a peer for a blob from an offset on; the size comes with the first message.
pub(super) async fn open_at(
    peer: &Peer,
    class: Class,
    digest: &Digest,
    offset: u64,
) -> Result<(u64, Opened), Status> {
    let request = wire::FetchRequest {
        digest: digest.to_string(),
        offset,
    };
    let opening = async {
        let response = peer.content(class).fetch(request).await?;
        let mut rest = response.into_inner();
        let first = rest.message().await?;
        Ok::<_, Status>((first, rest))
    };
    let opened = tokio::time::timeout(STALLED, opening).await;
    match opened {
        Ok(Ok((Some(first), rest))) => {
            let size = first.size;
            let opened = Opened {
                from: peer.name.clone(),
                first: first.data,
                rest,
            };
            Ok((size, opened))
        }
        Ok(Ok((None, _))) | Err(_) => Err(Status::unavailable("the peer does not answer")),
        Ok(Err(status)) => Err(status),
    }
}

/// Whether a peer says that it has none. One that says so in an incarnation that this node has not heard of has
/// perhaps just lost its disk: that counts once the intake knows.
fn denies(status: &Status, known: Option<&NodeId>) -> bool {
    let said = status.metadata().get(INCARNATION);
    let is_known = match (said, known) {
        (Some(said), Some(known)) => said.as_bytes() == known.to_string().as_bytes(),
        // A node of an earlier version does not say it.
        (None, _) | (_, None) => true,
    };
    status.code() == Code::NotFound && is_known
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_denies_in_the_incarnation_that_is_known() {
        let node = |incarnation| NodeId {
            name: "master-1".parse().unwrap(),
            incarnation,
        };
        let denial = |node: Option<NodeId>| {
            let mut status = Status::not_found("not held");
            if let Some(node) = node {
                let node = node.to_string().parse().unwrap();
                status.metadata_mut().insert(INCARNATION, node);
            }
            status
        };
        for (said, known, expected) in [
            (Some(1), Some(1), true),
            // Its disk may just have been lost.
            (Some(2), Some(1), false),
            (Some(1), None, true),
            (None, Some(1), true),
        ] {
            let known = known.map(node);
            let denies = denies(&denial(said.map(node)), known.as_ref());
            assert_eq!(denies, expected, "{said:?} {known:?}");
        }
        assert!(!denies(&Status::internal("the store failed"), None));
    }
}
