//! Content of this node's repositories, as its peers see it.

use oci::digest::Digest;
use oci::reference::{Reference, RepositoryName};
use registry_facts::record::{Fact, Key};
use registry_store::{Store, StoreError};

use registry_cluster_core::wire::{Found, Search, SearchKey};

/// Finds a manifest or a blob of a repository whose content is held.
pub(super) async fn find(store: &Store, wanted: &Search) -> Result<Option<Found>, StoreError> {
    let Search { repository, what } = wanted;
    let digest = match what {
        SearchKey::Blob(digest) => return found_blob(store, repository, *digest).await,
        SearchKey::Manifest(Reference::Digest(digest)) => *digest,
        SearchKey::Manifest(Reference::Tag(tag)) => {
            let key = Key::Tag {
                repository: repository.clone(),
                tag: tag.clone(),
            };
            let register = store.register(&key)?;
            let Some(register) = register else {
                return Ok(None);
            };
            let Fact::Tag {
                target: Some(digest),
                ..
            } = register.fact
            else {
                return Ok(None);
            };
            let found = found_manifest(store, repository, digest).await?;
            // Between two nodes the tag decides, not the manifest it points to.
            return Ok(found.map(|found| Found {
                rank: registry_facts::record::Rank {
                    stamp: register.stamp,
                    origin: register.origin,
                },
                ..found
            }));
        }
    };
    found_manifest(store, repository, digest).await
}

async fn found_blob(
    store: &Store,
    repository: &RepositoryName,
    digest: Digest,
) -> Result<Option<Found>, StoreError> {
    let key = Key::Blob {
        repository: repository.clone(),
        digest,
    };
    let register = store.register(&key)?;
    let Some(register) = register.filter(|register| !register.fact.is_tombstone()) else {
        return Ok(None);
    };
    let held = store.held(&digest).await?;
    Ok(held.map(|size| Found {
        digest,
        size,
        media_type: String::new(),
        rank: register.rank(),
        link: register,
    }))
}

async fn found_manifest(
    store: &Store,
    repository: &RepositoryName,
    digest: Digest,
) -> Result<Option<Found>, StoreError> {
    let key = Key::Manifest {
        repository: repository.clone(),
        digest,
    };
    let Some(register) = store.register(&key)? else {
        return Ok(None);
    };
    let Fact::Manifest {
        link: Some(link), ..
    } = &register.fact
    else {
        return Ok(None);
    };
    let media_type = link.media_type.to_string();
    let held = store.held(&digest).await?;
    Ok(held.map(|size| Found {
        digest,
        size,
        media_type,
        rank: register.rank(),
        link: register,
    }))
}
