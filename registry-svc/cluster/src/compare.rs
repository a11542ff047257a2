//! Comparing all that two nodes have, at the start and every few minutes, and repairing what differs.
//!
//! Following the journals keeps nodes equal as long as nothing goes wrong. The comparison finds the
//! rest: a record that was set aside, a blob that the scrub put into quarantine, a node that came
//! back with an old disk. Each node takes over content that it lacks; the other nodes find their
//! own gaps.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use oci::digest::Digest;
use registry_facts::index::key::{BLOB, MANIFEST};
use registry_facts::record::{Fact, RecordError, Stamped};
use registry_proto as wire;
use registry_store::{Store, StoreError};
use tonic::Status;

use super::counters::Counters;
use super::feed::Feed;
use super::fetch::Fetcher;
use super::peer::Peer;
use registry_cluster_core::buckets::{
    self, Buckets, Difference, Registers, blob_differences, bucket_of, register_differences,
};
use registry_cluster_core::wire as form;
use registry_cluster_core::wire::Summary;

/// Registers read from the store at a time, so that others get their turn.
const PAGE: usize = 1024;

/// How long the answer to one question may take. A peer reads all its registers for it.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long what differs has to stay so to be called a difference: records are on their way between
/// two nodes all the time.
const SETTLING: Duration = Duration::from_secs(2);

/// Before the first comparison: the journals bring most of what a node lacks after its start.
const FIRST: Duration = Duration::from_secs(5);

/// The retry interval for a peer that could not be compared when it was due.
const LOOK: Duration = Duration::from_secs(5);

/// Why two nodes could not be compared.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// There is no such peer.
    #[error("no peer is called {0}")]
    NoPeer(String),
    /// It does not answer.
    #[error("the peer cannot be asked: {}", .0.message())]
    Peer(#[from] Status),
    /// It does not answer in time.
    #[error("the peer does not answer in time")]
    Silent,
    /// It answers something else.
    #[error("the peer sent what is no answer")]
    Form(#[from] RecordError),
    /// The own store fails.
    #[error("the store cannot be read")]
    Store(#[from] StoreError),
}

/// All that a node has, as it is compared.
#[derive(Debug, Default)]
pub(super) struct Content {
    registers: Registers,
    /// Held blobs that some register speaks of.
    held: BTreeSet<Digest>,
    /// Those that are not held.
    missing: BTreeSet<Digest>,
}

impl Content {
    /// Reads the registers, and looks for the blobs they speak of.
    pub(super) async fn read(store: &Store) -> Result<Self, StoreError> {
        let mut content = Self::registers_only(store).await?;
        let spoken_of: BTreeSet<Digest> = content
            .registers
            .values()
            .filter_map(|register| register.fact.present_content())
            .collect();
        let spoken_of: Vec<Digest> = spoken_of.into_iter().collect();
        // Without a lease: all that repositories have would be under one for ever, and nothing of it
        // would ever be swept. A peer that fetches takes one.
        let lie_here = store.lie_here(spoken_of.clone()).await?;
        for (digest, lies_here) in spoken_of.into_iter().zip(lie_here) {
            match lies_here {
                true => content.held.insert(digest),
                false => content.missing.insert(digest),
            };
        }
        Ok(content)
    }

    /// Reads the registers alone.
    pub(super) async fn registers_only(store: &Store) -> Result<Self, StoreError> {
        let mut registers = Registers::new();
        let mut after = None;
        loop {
            let page = store.registers(after.as_ref(), PAGE)?;
            let is_last = page.len() < PAGE;
            after = page.last().map(|register| register.fact.key());
            registers.extend(page.into_iter().map(|one| (one.fact.key(), one)));
            if is_last {
                return Ok(Self {
                    registers,
                    ..Self::default()
                });
            }
            tokio::task::yield_now().await;
        }
    }

    pub(super) fn register_buckets(&self) -> Buckets {
        let mut buckets = Buckets::default();
        for register in self.registers.values() {
            buckets.add_register(register);
        }
        buckets
    }

    pub(super) fn blob_buckets(&self) -> Buckets {
        let mut buckets = Buckets::default();
        for digest in &self.held {
            buckets.add_blob(digest);
        }
        buckets
    }

    pub(super) fn registers_in(&self, buckets: &BTreeSet<u8>) -> Registers {
        let is_in = |register: &&Stamped| buckets.contains(&bucket_of(&register.fact.key()));
        let registers = self.registers.values().filter(is_in);
        registers
            .map(|register| (register.fact.key(), register.clone()))
            .collect()
    }

    pub(super) fn blobs_in(&self, buckets: &BTreeSet<u8>) -> BTreeSet<Digest> {
        let is_in = |digest: &&Digest| buckets.contains(&digest.shard());
        self.held.iter().filter(is_in).copied().collect()
    }
}

/// Compares this node with the others.
#[derive(Clone, Debug)]
pub(super) struct Comparison {
    pub(super) store: Store,
    pub(super) feed: Feed,
    pub(super) fetcher: Fetcher,
    pub(super) counters: Counters,
}

impl Comparison {
    /// Compares with a peer and repairs, for ever: soon after it was first reached, then at each
    /// interval.
    pub(super) async fn run(self, peer: Arc<Peer>, interval: Duration) {
        tokio::time::sleep(FIRST).await;
        loop {
            if !peer.is_connected() {
                tokio::time::sleep(LOOK).await;
                continue;
            }
            match self.repair(&peer).await {
                Ok(()) => tokio::time::sleep(interval).await,
                Err(error) => {
                    tracing::warn!(
                        peer = peer.name.as_str(),
                        error = &error as &dyn std::error::Error,
                        "The content of a peer cannot be compared"
                    );
                    tokio::time::sleep(LOOK).await;
                }
            }
        }
    }

    /// Takes over what a peer has and this node has not.
    async fn repair(&self, peer: &Peer) -> Result<(), CompareError> {
        let here = Content::read(&self.store).await?;
        let there = self.there(peer, &here).await?;
        let repairs = buckets::repairs(&here.registers, &there.registers);
        let n_differences = there.differences.len();
        let missing_there = there
            .differences
            .iter()
            .filter(|difference| matches!(difference, Difference::Blob { here: true, .. }));
        let n_missing_there = missing_there.count();
        self.counters
            .compared(&peer.name, n_differences as u64, n_missing_there as u64);
        peer.learn(|known| {
            known.missing_blobs = n_missing_there as u64;
            known.differences = n_differences as u64;
        });
        let mut missing_here = Vec::new();
        for digest in &here.missing {
            // The sweep may have deleted it since the registers were read.
            if self.is_spoken_of(digest)? {
                missing_here.push(digest);
            }
        }
        if !repairs.is_empty() || !missing_here.is_empty() {
            tracing::info!(
                peer = peer.name.as_str(),
                registers = repairs.len(),
                blobs = missing_here.len(),
                "Repairing what a peer has and this node has not"
            );
        }
        self.feed.repair(&peer.name, form::repairs(repairs));
        for digest in missing_here {
            self.fetcher.begin(digest, Some(&peer.name));
        }
        Ok(())
    }

    /// Whether a repository has content.
    fn is_spoken_of(&self, digest: &Digest) -> Result<bool, StoreError> {
        for kind in [BLOB, MANIFEST] {
            if !self.store.holders(digest, kind, 1)?.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Differences between this node and a peer that have lasted longer than a moment.
    pub(super) async fn differences(&self, peer: &Peer) -> Result<Vec<Difference>, CompareError> {
        let first = self.once(peer).await?;
        if first.is_empty() {
            return Ok(first);
        }
        tokio::time::sleep(SETTLING).await;
        let again = self.once(peer).await?;
        Ok(again
            .into_iter()
            .filter(|difference| first.contains(difference))
            .collect())
    }

    async fn once(&self, peer: &Peer) -> Result<Vec<Difference>, CompareError> {
        let here = Content::read(&self.store).await?;
        Ok(self.there(peer, &here).await?.differences)
    }

    /// The registers and blobs of a peer in the buckets that differ.
    async fn there(&self, peer: &Peer, here: &Content) -> Result<There, CompareError> {
        let answer = in_time(peer.control().summary(wire::SummaryRequest {})).await?;
        let summary = Summary::try_from(answer)?;
        let registers: BTreeSet<u8> = here
            .register_buckets()
            .differing(&summary.registers)
            .into_iter()
            .collect();
        let blobs: BTreeSet<u8> = here
            .blob_buckets()
            .differing(&summary.blobs)
            .into_iter()
            .collect();
        let mut there = There::default();
        if !registers.is_empty() {
            let request = wire::RegistersRequest {
                buckets: registers.iter().map(|bucket| u32::from(*bucket)).collect(),
            };
            let mut messages = in_time(peer.control().registers(request)).await?;
            while let Some(message) = next(&mut messages).await? {
                for register in message.registers {
                    let register = form::read_register(register)?;
                    there.registers.insert(register.fact.key(), register);
                }
            }
            let here = here.registers_in(&registers);
            there.differences = register_differences(&here, &there.registers);
        }
        if !blobs.is_empty() {
            let request = wire::BlobsRequest {
                buckets: blobs.iter().map(|bucket| u32::from(*bucket)).collect(),
            };
            let mut messages = in_time(peer.control().blobs(request)).await?;
            let mut held = BTreeSet::new();
            while let Some(message) = next(&mut messages).await? {
                for digest in message.digests {
                    held.insert(form::read_digest(&digest)?);
                }
            }
            there
                .differences
                .extend(blob_differences(&here.blobs_in(&blobs), &held));
        }
        Ok(there)
    }
}

/// The registers and blobs of a peer in the buckets that differ.
#[derive(Debug, Default)]
struct There {
    registers: Registers,
    differences: Vec<Difference>,
}

async fn in_time<T>(
    call: impl Future<Output = Result<tonic::Response<T>, Status>>,
) -> Result<T, CompareError> {
    let answer = tokio::time::timeout(PATIENCE, call).await;
    let answer = answer.map_err(|_| CompareError::Silent)?;
    Ok(answer?.into_inner())
}

async fn next<T>(messages: &mut tonic::Streaming<T>) -> Result<Option<T>, CompareError> {
    let message = tokio::time::timeout(PATIENCE, messages.message()).await;
    Ok(message.map_err(|_| CompareError::Silent)??)
}

/// Differences as lines for people, none when there are none: `-` is what only this node has, `+`
/// what only the other one has.
#[must_use]
pub fn lines(differences: &[Difference]) -> String {
    let mut lines: BTreeMap<String, String> = BTreeMap::new();
    for difference in differences {
        match difference {
            Difference::Register { here, there, .. } => {
                let sides = [("-", here), ("+", there)];
                for (side, register) in sides {
                    if let Some(register) = register {
                        let what = shown(&register.fact);
                        lines.insert(format!("{what} {side}"), format!("{side} {what}"));
                    }
                }
            }
            Difference::Blob { digest, here } => {
                let side = if *here { "-" } else { "+" };
                lines.insert(
                    format!("content {digest} {side}"),
                    format!("{side} content {digest}"),
                );
            }
        }
    }
    lines.into_values().map(|line| line + "\n").collect()
}

fn shown(fact: &Fact) -> String {
    match fact {
        Fact::Blob {
            repository, digest, ..
        } => format!("blob {}@{digest}", repository.as_str()),
        Fact::Manifest {
            repository, digest, ..
        } => format!("manifest {}@{digest}", repository.as_str()),
        Fact::Tag {
            repository,
            tag,
            target,
        } => {
            let target = target.as_ref().map(ToString::to_string).unwrap_or_default();
            format!("tag {}:{} {target}", repository.as_str(), tag.as_str())
        }
        Fact::Node { name, membership } => match membership.is_member {
            true => format!("node {name}"),
            false => format!("node {name} forgotten"),
        },
    }
}
