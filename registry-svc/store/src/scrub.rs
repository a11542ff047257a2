//! Reads every blob again, at a bounded rate: puts away those that the disk has changed, and
//! fetches them again from another node if there is one.
//!
//! A blob matches its name or it is damaged. A damaged blob goes to the quarantine, so that no
//! client gets it and an operator can look at it. Besides, every visible manifest has to be whole:
//! the content that it refers to has to be on the disk.
//!
//! Reads go past the page cache: a scrub is about the content on the disk, and leaves the memory to
//! the node's other programs.

use api::registry_svc::{Missing, ScrubReport, Unreadable};
use daemon::clock;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use config_text::counted;
use oci::digest::{Algorithm, Digest, Hasher};
use registry_facts::index::key::MANIFEST;
use registry_life_cycle::{Claim, Duty, Event, File, State, step};
use tokio::task::spawn_blocking;

use crate::disk::{Access, Aligned};
use crate::others::Others;
use crate::store::damage::Reason;
use crate::store::{Store, StoreError};
use crate::sweep::mark;

/// The size of one read; the scrub paces itself between reads.
const PIECE: usize = 1 << 20;

/// The most findings that a report lists by name; beyond that it counts.
const MOST_LISTED: usize = 100;

/// How a scrub reads.
#[derive(Clone, Debug, Default)]
pub struct Pace {
    /// Octets a second; no bound when none.
    pub rate: Option<u64>,
    /// Counts the bytes that were read, for showing progress.
    pub read: Arc<AtomicU64>,
}

/// The result of a scrub.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Blobs that were read.
    pub n_blobs: u64,
    /// Their octets.
    pub octets: u64,
    /// Blobs that could not be read, with what the disk said.
    pub unreadable: Vec<(Digest, String)>,
    /// Blobs with other octets than their digest says; now in quarantine.
    pub damaged: Vec<Digest>,
    /// Damaged blobs that were fetched from another node.
    pub n_repaired: u64,
    /// Content that a manifest needs and the disk does not have: the manifest and what it lacks.
    pub missing: Vec<(Digest, Digest)>,
    /// Manifests that were looked at.
    pub n_manifests: u64,
    /// How long it took.
    pub took: Duration,
}

/// Reads everything, and looks at every manifest.
///
/// # Errors
///
/// Fails when the index or a directory cannot be read.
pub async fn scrub(
    store: &Store,
    others: Option<&dyn Others>,
    pace: &Pace,
) -> Result<Report, StoreError> {
    let begun = clock::now();
    let mut report = Report::default();
    for algorithm in Algorithm::ALL {
        for shard in 0..=u8::MAX {
            for digest in list(store, algorithm, shard).await? {
                look_at(store, others, pace, digest, &mut report).await?;
            }
        }
    }
    let wholes = mark::closures(store).await?;
    report.n_manifests = wholes.len() as u64;
    for (manifest, required) in wholes {
        for digest in required {
            if store.lie_here(vec![digest]).await? != [false] {
                continue;
            }
            // A sweep may have deleted it since, with the manifest.
            let claim = match store.holders(&manifest, MANIFEST, 1)?.is_empty() {
                true => Claim::None,
                false => Claim::Linked,
            };
            let due = step(State::of(File::None, claim), Event::Due);
            if due.asks_for(Duty::Fetch) {
                let fetched = match others {
                    Some(others) => others.fetch(&digest).await,
                    None => false,
                };
                match fetched {
                    true => report.n_repaired += 1,
                    false => {
                        store.report(&digest, Reason::Missing);
                        tracing::error!(%manifest, %digest, "A manifest lacks what it refers to");
                        report.missing.push((manifest, digest));
                    }
                }
            }
        }
    }
    report.took = begun.elapsed();
    Ok(report)
}

async fn look_at(
    store: &Store,
    others: Option<&dyn Others>,
    pace: &Pace,
    digest: Digest,
    report: &mut Report,
) -> Result<(), StoreError> {
    match hash(store, digest, pace).await {
        Ok(None) => {}
        Ok(Some((found, octets))) => {
            report.n_blobs += 1;
            report.octets += octets;
            if found == digest {
                return Ok(());
            }
            let damaged = step(
                State::of(File::InPlace, Claim::None),
                Reason::Digest.event(),
            );
            // The sweep may have deleted it meanwhile: it was not needed then.
            if damaged.asks_for(Duty::PutAway)
                && (store.is_on_read_only_disk() || store.quarantine(&digest, None).await?)
            {
                report.damaged.push(digest);
                store.report(&digest, Reason::Digest);
                let is_repaired = match others {
                    Some(others) => others.fetch(&digest).await,
                    None => false,
                };
                report.n_repaired += u64::from(is_repaired);
                tracing::error!(%digest, is_repaired, "A blob was damaged on the disk");
            }
        }
        Err(error) => {
            // It stays: another try may read it, and perhaps no other node has it.
            tracing::error!(%digest, %error, "A blob cannot be read");
            report.unreadable.push((digest, error.to_string()));
        }
    }
    Ok(())
}

/// The digest of a file's bytes, and their number; none when the sweep has taken it meanwhile.
async fn hash(store: &Store, digest: Digest, pace: &Pace) -> io::Result<Option<(Digest, u64)>> {
    let path = store.layout().blob(&digest);
    let disk = Arc::clone(store.disk());
    let opened = spawn_blocking(move || disk.open(&path, Access::Read)).await;
    let file: Arc<dyn crate::disk::File> = match opened.map_err(io::Error::other)? {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?.into(),
    };
    let mut hasher = Hasher::new(digest.algorithm());
    let mut memory = Aligned::new(PIECE);
    loop {
        let started = clock::now();
        let at = hasher.n_octets();
        let file = Arc::clone(&file);
        let piece = spawn_blocking(move || {
            let n_read = file.read_block(memory.octets_mut(), at)?;
            hasher.update(memory.octets().get(..n_read).unwrap_or_default());
            Ok::<_, io::Error>((n_read, memory, hasher))
        });
        let n_read;
        (n_read, memory, hasher) = piece.await.map_err(io::Error::other)??;
        if n_read == 0 {
            let octets = hasher.n_octets();
            return Ok(Some((hasher.finish(), octets)));
        }
        let n_read = n_read as u64;
        pace.read.fetch_add(n_read, Ordering::Relaxed);
        if let Some(rate) = pace.rate {
            let share = Duration::from_nanos(n_read.saturating_mul(1_000_000_000) / rate.max(1));
            tokio::time::sleep(share.saturating_sub(started.elapsed())).await;
        }
    }
}

async fn list(store: &Store, algorithm: Algorithm, shard: u8) -> Result<Vec<Digest>, StoreError> {
    store
        .on_disk("list a directory", move |disk, layout| {
            let names = disk.list(&layout.shard(algorithm, shard))?;
            let parse = |name: String| format!("{algorithm}:{name}").parse().ok();
            Ok(names
                .unwrap_or_default()
                .into_iter()
                .filter_map(parse)
                .collect())
        })
        .await
}

//--- Showing

impl Report {
    /// Whether everything is as it should be, or is again.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let n_lost = self.damaged.len() as u64;
        self.unreadable.is_empty() && self.missing.is_empty() && n_lost <= self.n_repaired
    }

    /// The report as operators see it.
    #[must_use]
    pub fn shown(&self) -> ScrubReport {
        let damaged = self.damaged.iter().take(MOST_LISTED);
        let unreadable = self.unreadable.iter().take(MOST_LISTED);
        let missing = self.missing.iter().take(MOST_LISTED);
        ScrubReport {
            whole: self.is_whole(),
            blobs: self.n_blobs,
            bytes: self.octets,
            manifests: self.n_manifests,
            damaged: damaged.map(ToString::to_string).collect(),
            repaired: self.n_repaired,
            unreadable: unreadable
                .map(|(digest, error)| Unreadable {
                    digest: digest.to_string(),
                    error: error.clone(),
                })
                .collect(),
            missing: missing
                .map(|(manifest, digest)| Missing {
                    manifest: manifest.to_string(),
                    digest: digest.to_string(),
                })
                .collect(),
            seconds: self.took.as_secs_f64(),
            text: self.to_string(),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for digest in self.damaged.iter().take(MOST_LISTED) {
            writeln!(f, "{digest}: damaged")?;
        }
        for (digest, error) in self.unreadable.iter().take(MOST_LISTED) {
            writeln!(f, "{digest}: cannot be read: {error}")?;
        }
        for (manifest, digest) in self.missing.iter().take(MOST_LISTED) {
            writeln!(f, "{manifest}: lacks {digest}")?;
        }
        write!(
            f,
            "{}, {}, {}: {} damaged, {} unreadable, {} missing, {} repaired",
            counted(self.n_blobs, "blob"),
            counted(self.octets, "octet"),
            counted(self.n_manifests, "manifest"),
            self.damaged.len(),
            self.unreadable.len(),
            self.missing.len(),
            self.n_repaired,
        )
    }
}

#[cfg(test)]
mod tests;
