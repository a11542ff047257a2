//! Reads of content that is not here yet: the node asks the others, and serves the client while the
//! content comes in.
//!
//! A push that one node has acknowledged can be pulled from any other at once. Content that the own
//! registers say to be deleted is not read through, as long as the deletion is the later statement.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use oci::digest::Digest;
use oci::reference::{Reference, RepositoryName};
use registry_facts::name::NodeName;
use registry_proto as wire;
use registry_store::StoreError;
use tokio::task::JoinSet;
use tokio_stream::StreamExt as _;

use super::Cluster;
use super::fetch::Body;
use super::peer::Peer;
use registry_cluster_core::wire::{Found, Search, SearchKey};

/// How long peers have to answer whether they have something: the client waits, and hears that there
/// is nothing when they do not.
const PATIENCE: Duration = Duration::from_secs(2);

/// The largest manifest that is taken from a peer; it was small enough where it was pushed.
const LARGEST_MANIFEST: u64 = 64 << 20;

/// Something that another node shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remote {
    /// Its digest.
    pub digest: Digest,
    /// In octets.
    pub size: u64,
    /// The media type of a manifest; empty for a blob.
    pub media_type: String,
    /// The node that has it.
    pub node: NodeName,
}

/// Asks all peers that may be reached what they show.
pub(super) fn ask(peers: &[Arc<Peer>], wanted: &Search) -> JoinSet<Option<(NodeName, Found)>> {
    let mut asked = JoinSet::new();
    for peer in peers.iter().filter(|peer| peer.may_answer()) {
        let mut client = peer.control();
        let (name, request) = (peer.name.clone(), wire::FindRequest::from(wanted));
        asked.spawn(async move {
            let answer = tokio::time::timeout(PATIENCE, client.find(request)).await;
            let found = answer.ok()?.ok()?.into_inner().found?;
            Some((name, Found::try_from(found).ok()?))
        });
    }
    asked
}

impl Cluster {
    /// Whether some other node shows a blob in a repository. Its content is on its way here then.
    pub async fn find_blob(&self, repository: &RepositoryName, digest: &Digest) -> Option<Remote> {
        let wanted = Search {
            repository: repository.clone(),
            what: SearchKey::Blob(*digest),
        };
        let remote = self.find(&wanted).await?;
        self.fetcher().begin(&remote.digest, Some(&remote.node));
        Some(remote)
    }

    /// Finds a manifest of a repository by tag or digest at the other nodes. The node then fetches
    /// it.
    pub async fn find_manifest(
        &self,
        repository: &RepositoryName,
        reference: &Reference,
    ) -> Option<Remote> {
        let wanted = Search {
            repository: repository.clone(),
            what: SearchKey::Manifest(reference.clone()),
        };
        let remote = self.find(&wanted).await?;
        self.fetcher().begin(&remote.digest, Some(&remote.node));
        Some(remote)
    }

    /// A part of what another node has. It is stored here while the client is served, whether the
    /// client stays or not; content that is not what its digest says ends in an error before the last
    /// piece.
    pub async fn open(&self, remote: &Remote, part: Range<u64>) -> Body {
        self.counters().read_through.inc();
        self.fetcher()
            .open(&remote.digest, remote.size, part, &remote.node)
            .await
    }

    /// A whole manifest of another node, verified.
    ///
    /// # Errors
    /// When it cannot be had.
    pub async fn manifest(&self, remote: &Remote) -> Result<Bytes, StoreError> {
        if remote.size > LARGEST_MANIFEST {
            let error = std::io::Error::other("a manifest that is too large");
            return Err(StoreError::Body(error));
        }
        let mut body = self.open(remote, 0..remote.size).await;
        let mut bytes = BytesMut::new();
        while let Some(piece) = body.next().await {
            bytes.extend_from_slice(&piece.map_err(StoreError::Body)?);
        }
        Ok(bytes.freeze())
    }

    /// Asks all peers that may be reached. Content with a digest is the same everywhere: the first
    /// response counts. For a tag the latest statement counts.
    async fn find(&self, wanted: &Search) -> Option<Remote> {
        let mut asked = ask(&self.peers(), wanted);
        let first_does = !matches!(&wanted.what, SearchKey::Manifest(Reference::Tag(_)));
        let mut best: Option<(NodeName, Found)> = None;
        while let Some(answer) = asked.join_next().await {
            let Some((name, found)) = answer.ok().flatten() else {
                continue;
            };
            let is_better = best.as_ref().is_none_or(|(_, best)| found.rank > best.rank);
            if is_better && !self.is_overruled(wanted, &found) {
                best = Some((name, found));
                if first_does {
                    break;
                }
            }
        }
        best.map(|(node, found)| Remote {
            digest: found.digest,
            size: found.size,
            media_type: found.media_type,
            node,
        })
    }

    /// Whether this node has heard a later statement than what a peer shows: then what is not shown
    /// here was deleted.
    fn is_overruled(&self, wanted: &Search, found: &Found) -> bool {
        let register = self.store().register(&wanted.key()).ok().flatten();
        register
            .is_some_and(|register| register.fact.is_tombstone() && register.rank() > found.rank)
    }
}
