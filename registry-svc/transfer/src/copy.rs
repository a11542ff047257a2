//! Copying images: first finds everything that each image refers to, then copies blobs, then
//! manifests from the innermost outward, and last sets the tag.
//!
//! Small blobs go to a store in [batches], with the manifests of their images behind them.
//!
//! An image that cannot be copied is reported and the others continue; its copied blobs stay, so
//! that a second run has less to do.

mod batches;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use oci::digest::Digest;
use oci::manifest;
use oci::manifest::{Manifest, Sparse};

use serde_json::Value;
use tokio::task::JoinSet;

use crate::TransferError;
use crate::items::Item;
use crate::origin::{Document, Origin};
use crate::progress::Progress;
use crate::report::Report;
use crate::sink::{Copied, Sink};
use crate::source::Source;

/// Indexes in one another. Tools nest one at most.
pub const MAX_DEPTH: usize = 4;
/// Manifests of one image. A list of every platform that there is has some 20, each with an attestation.
const MAX_MANIFESTS: usize = 10_000;
/// Blobs on their way at once, as skopeo and podman do it.
const AT_ONCE: usize = 6;

/// All that an image refers to.
#[derive(Debug, Default)]
struct Whole {
    /// Manifests and indexes, each behind those that it refers to.
    manifests: Vec<Digest>,
    /// Blobs, and their sizes by what refers to them.
    blobs: BTreeMap<Digest, Option<u64>>,
}

/// Copies images.
#[derive(Debug)]
pub struct Copy {
    origin: Origin,
    sink: Arc<Sink>,
    progress: Arc<Progress>,
    /// The parts of an index that may be missing.
    sparse: Sparse,
    report: Report,
}

impl Copy {
    /// From one place to another.
    #[must_use]
    pub fn new(origin: Origin, sink: Sink, sparse: Sparse, progress: Arc<Progress>) -> Self {
        Self {
            origin,
            sink: Arc::new(sink),
            progress,
            sparse,
            report: Report::default(),
        }
    }

    /// Copies these, and says how that went.
    ///
    /// # Errors
    ///
    /// When the last files cannot be written; the report has the failure of each image.
    pub async fn run(mut self, items: Vec<Item>) -> Result<Report, TransferError> {
        let items = self.wanted(items).await;
        self.progress.planned_images(items.len());
        let mut wholes = Vec::new();
        for item in items {
            match self.whole(&item).await {
                Ok(whole) => wholes.push((item, whole)),
                Err(error) => {
                    if self.failed(&item, None, &error) {
                        return self.ended();
                    }
                }
            }
        }
        self.plan(&wholes).await;
        if self.sink.batch().await?.is_some() {
            self.in_batches(wholes).await;
            return self.ended();
        }
        if self.origin.is_sequential()
            && let Err((item, digest, error)) = self.in_order(&wholes).await
            && self.failed(&item, Some(&digest), &error)
        {
            return self.ended();
        }
        for (item, whole) in wholes {
            self.progress.at(&item);
            match self.image(&item, &whole).await {
                Ok(()) => self.report.n_copied += 1,
                Err((digest, error)) => {
                    if self.failed(&item, digest.as_ref(), &error) {
                        return self.ended();
                    }
                }
            }
            self.progress.image_done();
        }
        self.ended()
    }

    /// The missing ones of these items.
    async fn wanted(&mut self, items: Vec<Item>) -> Vec<Item> {
        let mut wanted = Vec::new();
        for item in items {
            let has = self
                .sink
                .has_image(&item.to, &item.digest, item.tag.as_ref());
            match has.await {
                Ok(true) => self.report.n_held += 1,
                // An item that cannot be checked fails with its reason when it is copied.
                Ok(false) | Err(_) => wanted.push(item),
            }
        }
        wanted
    }

    fn ended(self) -> Result<Report, TransferError> {
        let is_broken = self.report.is_stopped && self.sink.is_sequential();
        if !is_broken {
            self.sink.finish()?;
        }
        let mut report = self.report;
        report.n_blobs = self.progress.blobs_copied();
        report.n_octets = self.progress.octets_copied();
        report.n_blobs_held = self.progress.blobs_held();
        Ok(report)
    }

    /// Tells a failure; whether it is the last.
    fn failed(&mut self, item: &Item, digest: Option<&Digest>, error: &TransferError) -> bool {
        let named = digest.and_then(|digest| self.origin.entry(digest));
        let entry = match (named, digest) {
            (Some(entry), _) => format!("{} ({entry})", item.entry),
            (None, Some(digest)) => format!("{} ({digest})", item.entry),
            (None, None) => item.entry.clone(),
        };
        let what = daemon::exit::chain(error);
        self.report.problems.add(entry, what);
        self.report.n_failed += 1;
        let breaks_archive = self.sink.is_sequential()
            && matches!(error, TransferError::Tree(_) | TransferError::Read(_));
        self.report.is_stopped = error.is_final() || breaks_archive;
        self.report.is_stopped
    }
}

//--- References of an image

impl Copy {
    async fn whole(&self, item: &Item) -> Result<Whole, TransferError> {
        let mut whole = Whole::default();
        let mut seen = BTreeSet::new();
        // The items to visit with their depth; an index comes again behind its parts.
        let mut stack = vec![(item.digest, 0, false)];
        while let Some((digest, depth, is_last)) = stack.pop() {
            if is_last {
                whole.manifests.push(digest);
                continue;
            }
            if !seen.insert(digest) {
                continue;
            }
            if depth > MAX_DEPTH || seen.len() > MAX_MANIFESTS {
                return Err(TransferError::Nested);
            }
            let Some(copied) = self.part().manifest(item, &digest).await? else {
                // An archive of what changed leaves out what was in the last one.
                if self.sink.has_image(&item.to, &digest, None).await? {
                    continue;
                }
                let may_miss = depth > 0 && self.sparse != Sparse::Refused;
                if may_miss {
                    continue;
                }
                return Err(TransferError::Missing(digest));
            };
            stack.push((digest, depth, true));
            let sizes = sizes(&copied.document.bytes);
            for blob in copied.manifest.closure.blobs {
                whole.blobs.insert(blob, sizes.get(&blob).copied());
            }
            for blob in copied.manifest.closure.optional {
                if self.origin.size(&blob).await?.is_some() {
                    whole.blobs.insert(blob, sizes.get(&blob).copied());
                }
            }
            for child in copied.manifest.closure.manifests {
                stack.push((child, depth + 1, false));
            }
        }
        Ok(whole)
    }

    /// Tells how much there is to do.
    async fn plan(&self, wholes: &[(Item, Whole)]) {
        let mut seen = BTreeSet::new();
        let mut octets = 0;
        for (_, whole) in wholes {
            for (digest, said) in &whole.blobs {
                if seen.insert(*digest) {
                    let known = self.origin.size(digest).await.ok().flatten();
                    octets += known.or(*said).unwrap_or_default();
                }
            }
        }
        self.progress.planned(seen.len(), octets);
    }
}

/// The type in the manifest wins over the type that the archive's index gives: an index may be
/// wrong.
fn manifest_of(document: &Document, said: Option<&str>) -> Result<Manifest, TransferError> {
    match manifest::parse(&document.bytes, said) {
        Err(_) if said.is_some() => Ok(manifest::parse(&document.bytes, None)?),
        parsed => Ok(parsed?),
    }
}

/// Sizes of what a manifest refers to, as it says.
fn sizes(document: &[u8]) -> BTreeMap<Digest, u64> {
    let Ok(document) = serde_json::from_slice::<Value>(document) else {
        return BTreeMap::new();
    };
    let lists = ["layers", "blobs"]
        .into_iter()
        .filter_map(|key| document.get(key)?.as_array())
        .flatten();
    let config = document.get("config");
    let size = |descriptor: &Value| {
        let digest = descriptor.get("digest")?.as_str()?.parse().ok()?;
        Some((digest, descriptor.get("size")?.as_u64()?))
    };
    lists.chain(config).filter_map(size).collect()
}

//--- Blobs and manifests

impl Copy {
    /// Copies all blobs in the order in which the archive has them.
    async fn in_order(
        &self,
        wholes: &[(Item, Whole)],
    ) -> Result<(), (Item, Digest, TransferError)> {
        for ((_, digest), (item, said)) in self.ordered(wholes) {
            self.progress.at(item);
            match self.blob(item, digest, said).await {
                // The image that needs it will say so.
                Ok(()) | Err(TransferError::Missing(_)) => {}
                Err(error) if error.is_final() => return Err((item.clone(), digest, error)),
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// The blobs of all images in the order in which the archive has them, each with an image that needs it and its
    /// size as far as that says it.
    fn ordered<'a>(&self, wholes: &'a [(Item, Whole)]) -> Ordered<'a> {
        let mut blobs = BTreeMap::new();
        for (item, whole) in wholes {
            for (digest, size) in &whole.blobs {
                let order = self.origin.order(digest);
                blobs.entry((order, *digest)).or_insert((item, *size));
            }
        }
        blobs
    }

    async fn image(
        &self,
        item: &Item,
        whole: &Whole,
    ) -> Result<(), (Option<Digest>, TransferError)> {
        self.blobs(item, whole).await?;
        self.part().manifests(item, &whole.manifests).await
    }

    /// Copies the blobs of an image, several at once where that is of use.
    async fn blobs(
        &self,
        item: &Item,
        whole: &Whole,
    ) -> Result<(), (Option<Digest>, TransferError)> {
        let one_by_one = self.origin.is_sequential() || self.sink.is_sequential();
        let at_once = if one_by_one { 1 } else { AT_ONCE };
        let mut under_way = JoinSet::new();
        let mut first_error = None;
        let mut blobs: Vec<(Digest, Option<u64>)> = whole
            .blobs
            .iter()
            .map(|(digest, size)| (*digest, *size))
            .collect();
        blobs.sort_by_key(|(digest, _)| self.origin.order(digest));
        for (digest, said) in blobs {
            if under_way.len() >= at_once {
                first_error = first_error.or(next_error(&mut under_way).await);
            }
            if first_error.is_some() {
                break;
            }
            let part = self.part();
            let item = item.clone();
            under_way.spawn(async move {
                let copied = part.blob(&item, digest, said).await;
                copied.map_err(|error| (Some(digest), error))
            });
        }
        while !under_way.is_empty() {
            first_error = first_error.or(next_error(&mut under_way).await);
        }
        match first_error {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    fn part(&self) -> Part {
        Part {
            origin: self.origin.clone(),
            sink: Arc::clone(&self.sink),
            progress: Arc::clone(&self.progress),
            sparse: self.sparse,
        }
    }

    async fn blob(
        &self,
        item: &Item,
        digest: Digest,
        said: Option<u64>,
    ) -> Result<(), TransferError> {
        self.part().blob(item, digest, said).await
    }
}

type Failure = (Option<Digest>, TransferError);

/// Blobs by their places in an archive.
type Ordered<'a> = BTreeMap<((u32, u64), Digest), (&'a Item, Option<u64>)>;

async fn next_error(under_way: &mut JoinSet<Result<(), Failure>>) -> Option<Failure> {
    match under_way.join_next().await? {
        Ok(result) => result.err(),
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

/// The input of a task that copies a part of an image.
#[derive(Clone)]
struct Part {
    origin: Origin,
    sink: Arc<Sink>,
    progress: Arc<Progress>,
    sparse: Sparse,
}

impl Part {
    async fn manifest(
        &self,
        item: &Item,
        digest: &Digest,
    ) -> Result<Option<Copied>, TransferError> {
        let Some(document) = self.origin.document(&item.from, digest).await? else {
            return Ok(None);
        };
        let said = match *digest == item.digest {
            true => document
                .media_type
                .as_deref()
                .or(item.media_type.as_deref()),
            false => document.media_type.as_deref(),
        };
        let manifest = manifest_of(&document, said)?;
        Ok(Some(Copied {
            digest: *digest,
            document,
            manifest,
        }))
    }

    /// Copies the manifests of an image, whose blobs are there.
    async fn manifests(&self, item: &Item, manifests: &[Digest]) -> Result<(), Failure> {
        for digest in manifests {
            let is_image = *digest == item.digest;
            let tag = item.tag.as_ref().filter(|_| is_image);
            let put = async {
                let copied = self.manifest(item, digest).await?;
                let copied = copied.ok_or(TransferError::Missing(*digest))?;
                self.sink
                    .put_manifest(&item.to, &self.relaxed(&copied), tag)
                    .await?;
                match is_image {
                    true => self.sink.name_image(&item.to, &copied, tag),
                    false => Ok(()),
                }
            };
            put.await.map_err(|error| (Some(*digest), error))?;
        }
        Ok(())
    }

    /// A manifest with what may be missing of it.
    fn relaxed(&self, copied: &Copied) -> Copied {
        let mut relaxed = copied.clone();
        relaxed.manifest.closure = relaxed.manifest.closure.relaxed(self.sparse);
        relaxed
    }

    async fn blob(
        &self,
        item: &Item,
        digest: Digest,
        said: Option<u64>,
    ) -> Result<(), TransferError> {
        if let Some(source) = self.lacking(item, digest, said).await? {
            self.sink.put_blob(&item.to, &source).await?;
            self.progress.blob_copied(digest, source.size);
        }
        Ok(())
    }

    /// A blob that the destination lacks.
    async fn lacking(
        &self,
        item: &Item,
        digest: Digest,
        said: Option<u64>,
    ) -> Result<Option<Source>, TransferError> {
        if self.sink.has_blob(&item.to, &digest).await? {
            let size = self.origin.size(&digest).await?.or(said);
            self.progress.blob_held(digest, size.unwrap_or_default());
            return Ok(None);
        }
        self.source(item, digest, said).await.map(Some)
    }

    /// The source of a blob.
    async fn source(
        &self,
        item: &Item,
        digest: Digest,
        said: Option<u64>,
    ) -> Result<Source, TransferError> {
        let size = self.origin.size(&digest).await?.or(said);
        Ok(Source {
            origin: self.origin.clone(),
            repository: item.from.clone(),
            progress: Arc::clone(&self.progress),
            digest,
            size: size.ok_or(TransferError::Unsized(digest))?,
        })
    }
}

#[cfg(test)]
mod tests;
