//! Images in batches, to a store that makes many files durable at once.
//!
//! The small blobs and the manifests of some images are written, made durable together, and only then are they counted
//! as copied and the images stated. Large blobs are made durable one by one: a sync costs little beside their bytes.

use std::collections::BTreeMap;

use oci::digest::Digest;
use oci::reference::RepositoryName;
use registry_store::{Batch, Received};
use tokio::task::JoinSet;

use super::{AT_ONCE, Copy, Failure, Part, Whole};
use crate::TransferError;
use crate::items::Item;

/// The largest blob that goes into a batch.
const SMALL: u64 = 1 << 20;

/// The most blobs of a batch: a crash takes one batch away, which is then written again.
const MOST_BLOBS: usize = 1024;

/// The most octets of a batch.
const MOST_OCTETS: u64 = 64 << 20;

/// The most images that wait for one batch.
const MOST_IMAGES: usize = 256;

/// Images that are stated at a time: those that come together share a sync of the journal.
const STATED_AT_ONCE: usize = 64;

/// The blobs that are written and not durable.
#[derive(Default)]
struct Filling {
    batch: Option<Batch>,
    received: Vec<Received>,
    octets: u64,
    /// Their places among them.
    places: BTreeMap<Digest, usize>,
}

/// The state of a blob that was taken.
enum Taken {
    /// It is durable.
    Durable,
    /// It waits for its batch.
    Waits(Received),
}

/// An image of a batch, and why it cannot be copied.
struct Image {
    item: Item,
    whole: Whole,
    failure: Option<Failure>,
}

impl Copy {
    /// Copies all images; reports each of them.
    pub(super) async fn in_batches(&mut self, wholes: Vec<(Item, Whole)>) {
        let mut filling = Filling::default();
        if self.origin.is_sequential()
            && let Err((item, digest, error)) = self.archive_in_order(&wholes, &mut filling).await
            && self.failed(&item, digest.as_ref(), &error)
        {
            return;
        }
        let mut images = Vec::new();
        for (item, whole) in wholes {
            self.progress.at(&item);
            let failure = self.fill(&item, &whole, &mut filling).await.err();
            let is_final = failure.as_ref().is_some_and(|(_, error)| error.is_final());
            images.push(Image {
                item,
                whole,
                failure,
            });
            let is_full = filling.is_full() || images.len() >= MOST_IMAGES;
            if (is_full || is_final) && self.finish_batch(&mut filling, &mut images).await {
                return;
            }
        }
        self.finish_batch(&mut filling, &mut images).await;
    }

    /// Copies all blobs in the order in which the archive has them.
    async fn archive_in_order(
        &self,
        wholes: &[(Item, Whole)],
        filling: &mut Filling,
    ) -> Result<(), (Item, Option<Digest>, TransferError)> {
        for ((_, digest), (item, said)) in self.ordered(wholes) {
            self.progress.at(item);
            let part = self.part();
            let taken = async {
                let batch = filling.batch(&part).await?;
                part.take(batch, item, digest, said).await
            };
            match taken.await {
                Ok(taken) => filling.add(taken),
                Err(error) if error.is_final() => return Err((item.clone(), Some(digest), error)),
                // The image that needs it will say so.
                Err(_) => {}
            }
            if filling.is_full() {
                let made = filling.make_durable(&part).await;
                made.map_err(|error| (item.clone(), None, error))?;
            }
        }
        Ok(())
    }

    /// Writes the small blobs of an image and its manifests, several at once where that is of use.
    async fn fill(&self, item: &Item, whole: &Whole, filling: &mut Filling) -> Result<(), Failure> {
        let part = self.part();
        let at_once = match self.origin.is_sequential() {
            true => 1,
            false => AT_ONCE,
        };
        let mut under_way = JoinSet::new();
        let mut failure = None;
        let mut blobs: Vec<(Digest, Option<u64>)> = whole
            .blobs
            .iter()
            .map(|(digest, size)| (*digest, *size))
            .collect();
        blobs.sort_by_key(|(digest, _)| self.origin.order(digest));
        for (digest, said) in blobs {
            if filling.add_to(&item.to, &digest) {
                continue;
            }
            while under_way.len() >= at_once {
                failure = failure.or(filling.join(&mut under_way).await);
            }
            if filling.is_full() {
                let made = filling.make_durable(&part).await;
                failure = failure.or_else(|| made.err().map(|error| (None, error)));
            }
            if failure.is_some() {
                break;
            }
            let batch = filling.batch(&part).await.map_err(|error| (None, error))?;
            let (part, item) = (part.clone(), item.clone());
            under_way.spawn(async move {
                let taken = part.take(batch, &item, digest, said).await;
                taken.map_err(|error| (Some(digest), error))
            });
        }
        while !under_way.is_empty() {
            failure = failure.or(filling.join(&mut under_way).await);
        }
        if let Some(failure) = failure {
            return Err(failure);
        }
        for digest in &whole.manifests {
            if !filling.places.contains_key(digest) {
                let batch = filling.batch(&part).await.map_err(|error| (None, error))?;
                let received = part.take_manifest(&batch, item, digest).await;
                let received = received.map_err(|error| (Some(*digest), error))?;
                received
                    .into_iter()
                    .for_each(|received| filling.push(received));
            }
        }
        Ok(())
    }

    /// Makes a batch durable, and states its images; true when nothing more can be copied.
    async fn finish_batch(&mut self, filling: &mut Filling, images: &mut Vec<Image>) -> bool {
        let part = self.part();
        let mut images = std::mem::take(images);
        if let Err(error) = filling.make_durable(&part).await {
            // Nothing of the batch is there: the first image says why, and the others are tried again with the
            // next command.
            if let Some(image) = images.first() {
                self.failed(&image.item, None, &error);
            }
            self.report.is_stopped = true;
            return true;
        }
        let mut under_way: JoinSet<Image> = JoinSet::new();
        let mut done = Vec::new();
        for mut image in images.drain(..) {
            if under_way.len() >= STATED_AT_ONCE {
                done.extend(joined(&mut under_way).await);
            }
            let part = part.clone();
            under_way.spawn(async move {
                if image.failure.is_none() {
                    let stated = part.manifests(&image.item, &image.whole.manifests).await;
                    image.failure = stated.err();
                }
                image
            });
        }
        while !under_way.is_empty() {
            done.extend(joined(&mut under_way).await);
        }
        for image in done {
            match &image.failure {
                None => self.report.n_copied += 1,
                Some((digest, error)) => {
                    if self.failed(&image.item, digest.as_ref(), error) {
                        return true;
                    }
                }
            }
            self.progress.image_done();
        }
        false
    }
}

async fn joined(under_way: &mut JoinSet<Image>) -> Option<Image> {
    match under_way.join_next().await? {
        Ok(image) => Some(image),
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

impl Filling {
    /// Whether a blob is among them; the repository gets it then.
    fn add_to(&mut self, repository: &RepositoryName, digest: &Digest) -> bool {
        let place = self.places.get(digest);
        let Some(received) = place.and_then(|place| self.received.get_mut(*place)) else {
            return false;
        };
        if !received.repositories().contains(repository) {
            received.add_to(repository.clone());
        }
        true
    }

    fn push(&mut self, received: Received) {
        if !received.is_held() {
            self.octets += received.size();
        }
        self.places.insert(*received.digest(), self.received.len());
        self.received.push(received);
    }

    fn is_full(&self) -> bool {
        self.received.len() >= MOST_BLOBS || self.octets >= MOST_OCTETS
    }

    /// The batch, begun if there is none.
    async fn batch(&mut self, part: &Part) -> Result<Batch, TransferError> {
        let batch = match self.batch.take() {
            Some(batch) => batch,
            None => {
                let begun = part.sink.batch().await?;
                begun.ok_or(TransferError::Store(registry_store::StoreError::ReadOnly))?
            }
        };
        self.batch = Some(batch.clone());
        Ok(batch)
    }

    fn add(&mut self, taken: Taken) {
        if let Taken::Waits(received) = taken {
            self.push(received);
        }
    }

    /// Waits for the next blob; its failure, if it has failed.
    async fn join(&mut self, under_way: &mut JoinSet<Result<Taken, Failure>>) -> Option<Failure> {
        match under_way.join_next().await? {
            Ok(Ok(taken)) => {
                self.add(taken);
                None
            }
            Ok(Err(failure)) => Some(failure),
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }

    /// Makes everything durable that was written, and counts it as copied.
    async fn make_durable(&mut self, part: &Part) -> Result<(), TransferError> {
        let Self {
            batch, received, ..
        } = std::mem::take(self);
        let Some(batch) = batch else {
            return Ok(());
        };
        let blobs = received
            .iter()
            .filter(|blob| !blob.repositories().is_empty());
        let blobs: Vec<(Digest, u64, bool)> = blobs
            .map(|blob| (*blob.digest(), blob.size(), blob.is_held()))
            .collect();
        batch.commit(received).await?;
        for (digest, size, is_held) in blobs {
            match is_held {
                true => part.progress.blob_held(digest, size),
                false => part.progress.blob_copied(digest, size),
            }
        }
        part.progress.batch_done();
        Ok(())
    }
}

impl Part {
    /// Writes a small blob that is not there; a large one is durable at once. One that other repositories have gets its
    /// link with the batch.
    async fn take(
        &self,
        batch: Batch,
        item: &Item,
        digest: Digest,
        said: Option<u64>,
    ) -> Result<Taken, TransferError> {
        if self.sink.has_linked(&item.to, &digest).await? {
            let size = self.origin.size(&digest).await?.or(said);
            self.progress.blob_held(digest, size.unwrap_or_default());
            return Ok(Taken::Durable);
        }
        if let Some(held) = batch.held(&item.to, &digest).await? {
            return Ok(Taken::Waits(held));
        }
        let source = self.source(item, digest, said).await?;
        if source.size > SMALL {
            self.sink.put_blob(&item.to, &source).await?;
            self.progress.blob_copied(digest, source.size);
            return Ok(Taken::Durable);
        }
        let body = source.open(0).await?;
        let received = batch.receive(Some(&item.to), &digest, Some(source.size), body);
        Ok(Taken::Waits(received.await?))
    }

    /// Writes the content of a manifest; none when that is there, or missing and not needed.
    async fn take_manifest(
        &self,
        batch: &Batch,
        item: &Item,
        digest: &Digest,
    ) -> Result<Option<Received>, TransferError> {
        let Some(copied) = self.manifest(item, digest).await? else {
            return Ok(None);
        };
        let bytes = copied.document.bytes;
        let length = u64::try_from(bytes.len()).ok();
        let body = tokio_stream::iter([Ok(bytes)]);
        Ok(Some(batch.receive(None, digest, length, body).await?))
    }
}

#[cfg(test)]
mod tests;
