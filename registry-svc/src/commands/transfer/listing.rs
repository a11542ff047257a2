//! Lists of images to copy: from the store, and from another registry.

use std::collections::BTreeSet;

use oci::digest::Digest;
use oci::manifest;
use oci::reference::{Reference, RepositoryName, Tag};
use registry_archive::name::Selection;
use registry_client::Registry;
use registry_client::endpoint::Remote;
use registry_facts::record::{Fact, Key};
use registry_store::Store;
use registry_transfer::items::Item;

use super::{PAGE, VerbError};

/// The tags of the store, and also untagged manifests unless tags are selected.
pub(super) async fn items_of_store(
    store: &Store,
    selection: &Selection,
) -> Result<Vec<Item>, VerbError> {
    let mut items = Vec::new();
    let mut after: Option<RepositoryName> = None;
    loop {
        let page = store.repositories(after.as_ref().map(RepositoryName::as_str), PAGE);
        let Some(last) = page.last().cloned() else {
            return Ok(items);
        };
        for repository in page {
            if selection.wants_repository(&repository) {
                add_repository(store, &repository, selection, &mut items).await?;
            }
        }
        after = Some(last);
    }
}

async fn add_repository(
    store: &Store,
    repository: &RepositoryName,
    selection: &Selection,
    items: &mut Vec<Item>,
) -> Result<(), VerbError> {
    // Content that comes with an image needs no name of its own.
    let mut named = BTreeSet::new();
    let mut after: Option<Tag> = None;
    loop {
        let page = store.tags(repository, after.as_ref().map(Tag::as_str), PAGE)?;
        let page = page.unwrap_or_default();
        let Some(last) = page.last().cloned() else {
            break;
        };
        for tag in page {
            let reference = Reference::Tag(tag.clone());
            let stored = store.manifest(repository, &reference).await?;
            let Some(stored) = stored.filter(|_| selection.wants_tag(Some(&tag))) else {
                continue;
            };
            named.insert(stored.digest);
            items.push(item(repository, Some(tag), stored.digest));
        }
        after = Some(last);
    }
    if !selection.wants_tag(None) {
        return Ok(());
    }
    let manifests = manifests(store, repository)?;
    for digest in &manifests {
        let reference = Reference::Digest(*digest);
        if let Some(stored) = store.manifest(repository, &reference).await?
            && let Ok(manifest) = manifest::parse(&stored.bytes, Some(&stored.media_type))
        {
            named.extend(manifest.closure.manifests);
        }
    }
    let untagged = manifests
        .into_iter()
        .filter(|digest| !named.contains(digest));
    items.extend(untagged.map(|digest| item(repository, None, digest)));
    Ok(())
}

/// All manifests of a repository.
fn manifests(store: &Store, repository: &RepositoryName) -> Result<Vec<Digest>, VerbError> {
    let mut found = Vec::new();
    let mut after = Key::Manifest {
        repository: repository.clone(),
        digest: Digest::Sha256([0; 32]),
    };
    loop {
        let page = store.registers(Some(&after), PAGE)?;
        let Some(last) = page.last().map(|stamped| stamped.fact.key()) else {
            return Ok(found);
        };
        for stamped in page {
            match stamped.fact {
                Fact::Manifest {
                    repository: of,
                    digest,
                    link,
                } if of == *repository => found.extend(link.map(|_| digest)),
                _ => return Ok(found),
            }
        }
        after = last;
    }
}

fn item(repository: &RepositoryName, tag: Option<Tag>, digest: Digest) -> Item {
    let entry = match &tag {
        Some(tag) => format!("{}:{}", repository.as_str(), tag.as_str()),
        None => format!("{}@{digest}", repository.as_str()),
    };
    Item {
        from: repository.clone(),
        to: repository.clone(),
        tag,
        digest,
        media_type: None,
        entry,
    }
}

/// The images that an argument names at a registry; the registry lacks a name without an item.
pub(super) async fn items_of_registry(
    registry: &Registry,
    remote: &Remote,
    selection: &Selection,
) -> Result<Vec<(String, Option<Item>)>, VerbError> {
    let repositories = match &remote.repository {
        Some(repository) => vec![repository.clone()],
        None => registry.repositories().await?,
    };
    let mut found = Vec::new();
    for repository in repositories {
        if !selection.wants_repository(&repository) {
            continue;
        }
        let references = match &remote.reference {
            Some(reference) => vec![reference.clone()],
            None => match registry.tags(&repository).await? {
                Some(tags) => tags.into_iter().map(Reference::Tag).collect(),
                None => {
                    found.push((repository.as_str().to_owned(), None));
                    continue;
                }
            },
        };
        for reference in references {
            let tag = match &reference {
                Reference::Tag(tag) => Some(tag.clone()),
                Reference::Digest(_) => None,
            };
            if remote.reference.is_none() && !selection.wants_tag(tag.as_ref()) {
                continue;
            }
            let digest = registry.resolve(&repository, &reference).await?;
            let named = match &reference {
                Reference::Tag(tag) => format!("{}:{}", repository.as_str(), tag.as_str()),
                Reference::Digest(digest) => format!("{}@{digest}", repository.as_str()),
            };
            found.push((named, digest.map(|digest| item(&repository, tag, digest))));
        }
    }
    Ok(found)
}
