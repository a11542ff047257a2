//! Small blobs in batches: many files share two syncs and one record of the journal.
//!
//! A blob by itself costs a sync of its file, one of its directory and one of the journal: an import of a hundred
//! thousand small blobs does little else. A batch writes all its files, makes the whole file system durable, gives the
//! files their names, makes it durable again, and then states all of them in one record. So a name stands for whole
//! content whenever the power goes, as it does without a batch, and nothing is acknowledged before the record.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use oci::digest::Digest;
use oci::reference::RepositoryName;
use registry_facts::record::Fact;
use tokio_stream::Stream;

use super::layout::remove_if_there;
use super::{Store, StoreError, Subject, blocking};
use crate::disk::{Disk, FileSystem};

/// A batch that is being filled; clones fill the same.
#[derive(Clone, Debug)]
pub struct Batch {
    store: Store,
    file_system: Arc<dyn FileSystem>,
}

/// A blob of a batch: whole, under no name, and lost with a crash; or one that is on the disk, and gets links.
pub struct Received {
    disk: Arc<dyn Disk>,
    /// The file that is to get its name; none when the content has it.
    path: Option<PathBuf>,
    digest: Digest,
    size: u64,
    /// The repositories that get it; none for the content of a manifest to come.
    repositories: Vec<RepositoryName>,
}

impl Received {
    /// Its digest.
    #[must_use]
    pub fn digest(&self) -> &Digest {
        &self.digest
    }

    /// The repositories that get it.
    #[must_use]
    pub fn repositories(&self) -> &[RepositoryName] {
        &self.repositories
    }

    /// Another repository gets it too.
    pub fn add_to(&mut self, repository: RepositoryName) {
        self.repositories.push(repository);
    }

    /// Whether its content was on the disk before.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.path.is_none()
    }

    /// Its size.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }
}

impl fmt::Debug for Received {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Received")
            .field("digest", &self.digest)
            .finish_non_exhaustive()
    }
}

impl Drop for Received {
    fn drop(&mut self) {
        if let Some(path) = &self.path
            && let Err(error) = remove_if_there(&*self.disk, path)
        {
            tracing::warn!(%error, "The file of a blob that was not stored cannot be removed");
        }
    }
}

impl Store {
    /// Begins a batch; none where the disk makes files durable one by one only.
    ///
    /// # Errors
    ///
    /// Fails when nothing can be written, and as the disk does.
    pub async fn batch(&self) -> Result<Option<Batch>, StoreError> {
        self.inner.writable()?;
        let open = self.on_disk("open the file system", |disk, layout| {
            disk.file_system(layout.root())
        });
        let file_system = open.await?;
        Ok(file_system.map(|file_system| Batch {
            store: self.clone(),
            file_system: file_system.into(),
        }))
    }
}

impl Batch {
    /// Takes a blob, for a repository or for a manifest to come.
    ///
    /// # Errors
    ///
    /// Fails when the body ends early or has another digest, or the disk fails; nothing of it is left then.
    pub async fn receive(
        &self,
        repository: Option<&RepositoryName>,
        digest: &Digest,
        length: Option<u64>,
        body: impl Stream<Item = io::Result<Bytes>> + Send,
    ) -> Result<Received, StoreError> {
        let written = self.store.receive(digest, length, body).await?;
        let wanted = *digest;
        let (path, size) = blocking(move || written.close(&wanted)).await?;
        Ok(Received {
            disk: Arc::clone(&self.store.inner.disk),
            path: Some(path),
            digest: *digest,
            size,
            repositories: repository.into_iter().cloned().collect(),
        })
    }

    /// Takes content that is on the disk, for a repository; none when it is not there.
    ///
    /// # Errors
    ///
    /// Fails as the disk does.
    pub async fn held(
        &self,
        repository: &RepositoryName,
        digest: &Digest,
    ) -> Result<Option<Received>, StoreError> {
        let size = self.store.held(digest).await?;
        Ok(size.map(|size| Received {
            disk: Arc::clone(&self.store.inner.disk),
            path: None,
            digest: *digest,
            size,
            repositories: vec![repository.clone()],
        }))
    }

    /// Makes blobs durable, and states that their repositories have them.
    ///
    /// # Errors
    ///
    /// Fails when that cannot be made durable, or when content is on the disk no longer: no repository has any of them
    /// then, unless it had it before.
    pub async fn commit(self, mut received: Vec<Received>) -> Result<(), StoreError> {
        if received.is_empty() {
            return Ok(());
        }
        let Self { store, file_system } = self;
        let inner = Arc::clone(&store.inner);
        let digests: Vec<Digest> = received.iter().map(|blob| blob.digest).collect();
        let new = received.iter().filter(|blob| !blob.is_held());
        let new: Vec<Digest> = new.map(|blob| blob.digest).collect();
        for digest in &new {
            store.clear_way(digest).await;
        }
        let _locks = store.inner.digests.shared(&digests).await;
        let facts = blocking(move || {
            for blob in received.iter().filter(|blob| blob.is_held()) {
                if inner.renew(&blob.digest).is_none() && inner.present(&blob.digest)?.is_none() {
                    return Err(StoreError::Unknown(Subject::Blob));
                }
            }
            if !new.is_empty() {
                let failed = StoreError::io("store content");
                file_system.sync().map_err(failed)?;
                let place = || -> io::Result<()> {
                    for blob in &mut received {
                        if let Some(path) = &blob.path {
                            inner.disk.rename(path, &inner.layout.blob(&blob.digest))?;
                            blob.path = None;
                        }
                    }
                    file_system.sync()
                };
                // The file system was synced, and so were the directories.
                let named = inner.naming.name_and_sync_all(&new, place);
                named.map_err(StoreError::io("store content"))?;
            }
            let sizes = received.iter().map(|blob| (blob.digest, blob.size));
            let sizes: HashMap<Digest, u64> = sizes.collect();
            for digest in &new {
                if let Some(size) = sizes.get(digest) {
                    inner.arrived(digest, *size);
                }
            }
            let mut facts = Vec::new();
            for blob in &received {
                let repositories = blob.repositories.iter().cloned();
                facts.extend(repositories.map(|repository| Fact::Blob {
                    repository,
                    digest: blob.digest,
                    size: Some(blob.size),
                }));
            }
            Ok(facts)
        })
        .await?;
        if !facts.is_empty() {
            store.inner.writer.state(facts).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use oci::digest::Algorithm;

    use super::*;
    use crate::disk::faulty::{End, Faults, FaultyDisk};
    use crate::store::{IndexKind, Settings};

    const N_BLOBS: u64 = 6;

    async fn open(disk: &FaultyDisk) -> Result<Store, StoreError> {
        let settings = Settings {
            index: IndexKind::Memory,
            ..Settings::new("/store".into(), "node-0".parse().unwrap())
        };
        Ok(Store::open(settings, Arc::new(disk.clone())).await?.0)
    }

    fn content(number: u64) -> Bytes {
        format!("blob {number}").into()
    }

    fn digest(number: u64) -> Digest {
        Digest::of(Algorithm::Sha256, &content(number))
    }

    /// Every second blob is of a repository, the others are manifests to come.
    fn repository(number: u64) -> Option<RepositoryName> {
        number.is_multiple_of(2).then(|| "a".parse().unwrap())
    }

    /// Brings what is not there in batches of two; returns the blobs that were acknowledged.
    async fn import(store: &Store, acknowledged: &mut Vec<u64>) -> Result<(), StoreError> {
        for pair in [[0, 1], [2, 3], [4, 5]] {
            let Some(batch) = store.batch().await? else {
                panic!("the disk takes batches");
            };
            let mut received = Vec::new();
            let mut there = Vec::new();
            for number in pair {
                let repository = repository(number);
                let is_there = match &repository {
                    Some(name) => store.blob(name, &digest(number)).await?.is_some(),
                    None => store.held(&digest(number)).await?.is_some(),
                };
                if !is_there {
                    let body = tokio_stream::iter([Ok(content(number))]);
                    let blob = batch
                        .receive(repository.as_ref(), &digest(number), None, body)
                        .await?;
                    received.push(blob);
                }
                there.push(number);
            }
            batch.commit(received).await?;
            acknowledged.extend(there);
        }
        Ok(())
    }

    async fn has_all(store: &Store, numbers: &[u64]) {
        for number in numbers {
            let size = match repository(*number) {
                Some(name) => store.blob(&name, &digest(*number)).await.unwrap(),
                None => store.held(&digest(*number)).await.unwrap(),
            };
            assert_eq!(size, Some(content(*number).len() as u64), "{number}");
            let octets = store.layout().blob(&digest(*number));
            let disk = store
                .disk()
                .open(&octets, crate::disk::Access::Read)
                .unwrap();
            let mut read = vec![0; content(*number).len()];
            disk.read_at(&mut read, 0).unwrap();
            assert_eq!(read, content(*number), "{number}");
        }
    }

    #[tokio::test]
    async fn an_import_that_ends_at_any_step_has_what_was_acknowledged_and_goes_on() {
        let all: Vec<u64> = (0..N_BLOBS).collect();
        for end in [End::PowerLoss, End::Kill] {
            let mut n_ends = 0;
            for step in 1.. {
                let disk = FaultyDisk::new(step);
                let store = open(&disk).await.unwrap();
                disk.set_faults(Faults {
                    last_operation: Some(step),
                    ..Faults::default()
                });
                let mut acknowledged = Vec::new();
                let imported = import(&store, &mut acknowledged).await;
                if !disk.is_over() {
                    imported.unwrap();
                    break;
                }
                n_ends += 1;
                drop(store);
                let disk = disk.next_life(end, Faults::default());
                let store = open(&disk).await.unwrap();
                has_all(&store, &acknowledged).await;
                let uploads = store.inner.disk.list(&store.inner.layout.uploads());
                assert_eq!(uploads.unwrap().unwrap(), Vec::<String>::new(), "{step}");
                import(&store, &mut Vec::new()).await.unwrap();
                has_all(&store, &all).await;
                // And what the second one has acknowledged survives as well.
                drop(store);
                let disk = disk.next_life(End::PowerLoss, Faults::default());
                has_all(&open(&disk).await.unwrap(), &all).await;
            }
            assert!(n_ends > 30, "{n_ends}");
        }
    }

    #[tokio::test]
    async fn a_batch_whose_sync_fails_acknowledges_nothing_and_leaves_nothing() {
        let disk = FaultyDisk::new(5);
        let store = open(&disk).await.unwrap();
        let batch = store.batch().await.unwrap().unwrap();
        let body = tokio_stream::iter([Ok(content(0))]);
        let name = repository(0);
        let received = batch.receive(name.as_ref(), &digest(0), None, body).await;
        disk.set_faults(Faults {
            unsynced: 1000,
            ..Faults::default()
        });
        let committed = batch.commit(vec![received.unwrap()]).await;
        assert!(
            matches!(committed, Err(StoreError::Io { .. })),
            "{committed:?}"
        );
        disk.set_faults(Faults::default());
        let blob = store.blob(&name.unwrap(), &digest(0)).await.unwrap();
        assert_eq!(blob, None);
        assert!(
            !disk
                .names()
                .iter()
                .any(|name| name.ends_with(digest(0).hex()))
        );
        let uploads = store.inner.disk.list(&store.inner.layout.uploads());
        assert_eq!(uploads.unwrap().unwrap(), Vec::<String>::new());
    }

    #[tokio::test]
    async fn a_blob_of_another_digest_is_refused() {
        let store = open(&FaultyDisk::new(6)).await.unwrap();
        let batch = store.batch().await.unwrap().unwrap();
        let body = tokio_stream::iter([Ok(content(1))]);
        let received = batch.receive(None, &digest(0), None, body).await;
        assert!(
            matches!(received, Err(StoreError::DigestMismatch { actual }) if actual == digest(1)),
            "{received:?}"
        );
    }

    #[tokio::test]
    async fn a_batch_costs_the_same_syncs_however_many_blobs_it_has() {
        let disk = FaultyDisk::new(7);
        let store = open(&disk).await.unwrap();
        let name = repository(0);
        let mut n_syncs = Vec::new();
        for (begin, end) in [(0, 1), (1, 1001)] {
            let before = disk.n_syncs();
            let batch = store.batch().await.unwrap().unwrap();
            let mut received = Vec::new();
            for number in begin..end {
                let body = tokio_stream::iter([Ok(content(number))]);
                let digest = digest(number);
                let blob = batch.receive(name.as_ref(), &digest, None, body).await;
                received.push(blob.unwrap());
            }
            batch.commit(received).await.unwrap();
            n_syncs.push(disk.n_syncs() - before);
        }
        // The file system twice, and the journal.
        assert_eq!(n_syncs, [3, 3]);

        // Links to what is there need no more than the journal.
        let other: RepositoryName = "b".parse().unwrap();
        let before = disk.n_syncs();
        let batch = store.batch().await.unwrap().unwrap();
        let mut received = Vec::new();
        for number in 0..1001 {
            let held = batch.held(&other, &digest(number)).await.unwrap();
            received.push(held.unwrap());
        }
        assert!(batch.held(&other, &digest(9999)).await.unwrap().is_none());
        batch.commit(received).await.unwrap();
        assert_eq!(disk.n_syncs() - before, 1);
        for number in [0, 1000] {
            let size = store.blob(&other, &digest(number)).await.unwrap();
            assert_eq!(size, Some(content(number).len() as u64));
        }
        // Nothing was counted as gone with the batch.
        assert!(
            store
                .blob(&name.unwrap(), &digest(7))
                .await
                .unwrap()
                .is_some()
        );
    }
}
