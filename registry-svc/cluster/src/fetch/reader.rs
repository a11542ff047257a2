//! From a flight to a client, which reads while the content arrives.

use std::io;

use bytes::Bytes;
use oci::digest::Hasher;
use registry_cluster_core::intake::Class;
use registry_store::Purpose;
use registry_store::recent_bytes::Piece;
use tokio::sync::watch;
use tokio_stream::StreamExt as _;

use super::STALLED;
use super::transfer::open_at;
use super::{Flight, Origin, Progress, Reader, TransferOutcome};

impl Reader {
    pub(super) async fn run(mut self, from: Origin) {
        let served = match from {
            Origin::Flight(flight) => self.follow(&flight).await,
            Origin::Disk => self.read_disk().await,
            Origin::Peer => self.pass_on().await,
        };
        if let Err(error) = served {
            // The client may be gone already.
            drop(self.sender.send(Err(error)).await);
        }
    }

    /// Follows a flight until all is sent.
    async fn follow(&mut self, flight: &Flight) -> io::Result<()> {
        let mut progress = flight.progress.subscribe();
        let begin = self.at;
        while self.at < self.end {
            let landing = progress.borrow_and_update().landing.clone();
            match landing {
                Some(TransferOutcome::Held) => return self.read_disk().await,
                // A disk that is full or fails keeps no client from what a peer has.
                Some(TransferOutcome::NoRoom) if self.at == begin => return self.pass_on().await,
                Some(_) => return Err(io::Error::other("the content could not be had whole")),
                None => {}
            }
            match flight.piece(self.at) {
                Piece::Here(piece) if self.is_last(piece.len()) => {
                    landed(&mut progress).await?;
                    self.send(piece).await?;
                }
                Piece::Here(piece) => self.send(piece).await?,
                Piece::NotYet => {
                    if progress.changed().await.is_err() {
                        return Err(io::Error::other("the transfer has ended"));
                    }
                }
                Piece::Gone => self.read_peer(&mut progress).await?,
            }
        }
        Ok(())
    }

    fn class(&self) -> Class {
        Class::of(self.size)
    }

    /// Whether a piece would complete the blob.
    fn is_last(&self, length: usize) -> bool {
        self.at + length as u64 >= self.size
    }

    /// Reads bytes that the window no longer has from a peer: until it ends, fails, or the blob is
    /// here.
    async fn read_peer(&mut self, progress: &mut watch::Receiver<Progress>) -> io::Result<()> {
        let candidates = self.fetcher.candidates(&self.digest, Some(&self.first));
        for peer in candidates {
            let Ok((_, opened)) = open_at(&peer, self.class(), &self.digest, self.at).await else {
                continue;
            };
            let mut rest = opened.rest;
            let mut piece = opened.first;
            loop {
                if !piece.is_empty() {
                    if self.is_last(piece.len()) {
                        landed(progress).await?;
                    }
                    self.send(piece).await?;
                }
                if self.at >= self.end {
                    return Ok(());
                }
                piece = match tokio::time::timeout(STALLED, rest.message()).await {
                    Ok(Ok(Some(response))) => response.data,
                    // The flight knows another way, or has landed by now.
                    Ok(Ok(None) | Err(_)) | Err(_) => return Ok(()),
                };
            }
        }
        // Only the flight has it: the disk will.
        landed(progress).await
    }

    /// Passes on what a peer sends, without storing it. The last piece of a whole blob is sent if the
    /// digest is right; a part cannot be hashed, and the peer that sends it answers for it.
    async fn pass_on(&mut self) -> io::Result<()> {
        let mut hasher = (self.at == 0).then(|| Hasher::new(self.digest.algorithm()));
        for peer in self.fetcher.candidates(&self.digest, Some(&self.first)) {
            let Ok((size, opened)) = open_at(&peer, self.class(), &self.digest, self.at).await
            else {
                continue;
            };
            let mut rest = opened.rest;
            let mut piece = opened.first;
            while size == self.size {
                self.fetcher.0.counters.fetched(piece.len());
                let is_last = self.is_last(piece.len());
                if let Some(hasher) = &mut hasher {
                    hasher.update(&piece);
                }
                let is_wrong = |hasher: Hasher| hasher.finish() != self.digest;
                if is_last && hasher.take().is_some_and(is_wrong) {
                    return Err(io::Error::other("no peer has the content whole"));
                }
                if !piece.is_empty() {
                    self.send(piece).await?;
                }
                if self.at >= self.end {
                    return Ok(());
                }
                piece = match tokio::time::timeout(STALLED, rest.message()).await {
                    Ok(Ok(Some(response))) => response.data,
                    // The next peer continues where this one ended.
                    Ok(Ok(None) | Err(_)) | Err(_) => break,
                };
            }
        }
        Err(io::Error::other("the content could not be had whole"))
    }

    async fn read_disk(&mut self) -> io::Result<()> {
        let part = self.at..self.end;
        if part.is_empty() {
            return Ok(());
        }
        let opened = self
            .fetcher
            .0
            .store
            .read(&self.digest, part, Purpose::Pull)
            .await;
        let mut pieces = opened.map_err(io::Error::other)?;
        while let Some(piece) = pieces.next().await {
            self.send(piece?).await?;
        }
        Ok(())
    }

    async fn send(&mut self, mut piece: Bytes) -> io::Result<()> {
        let left = usize::try_from(self.end - self.at).unwrap_or(usize::MAX);
        piece.truncate(left);
        self.at += piece.len() as u64;
        let sent = self.sender.send(Ok(piece)).await;
        sent.map_err(|_| io::Error::other("the client is gone"))
    }
}

/// Waits until a flight's blob is on the disk.
async fn landed(progress: &mut watch::Receiver<Progress>) -> io::Result<()> {
    let landed = progress
        .wait_for(|progress| progress.landing.is_some())
        .await;
    let landing = landed.ok().and_then(|progress| progress.landing.clone());
    match landing {
        Some(TransferOutcome::Held) => Ok(()),
        _ => Err(io::Error::other("the content could not be had whole")),
    }
}
