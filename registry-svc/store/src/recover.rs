//! Names that a damaged journal has lost, and new names for their content.
//!
//! The bytes of a manifest are on the disk whatever the journal says. One that no repository has, and that no
//! other such manifest refers to, has lost its name or was deleted. A broken record of the damaged journal
//! often still reads as one: the names in it are proposed, for one bit of them may be wrong.
//!
//! Never gives a name by itself: an operator does.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::path::Path;
use std::time::SystemTime;

use bytes::Bytes;
use oci::digest::{Algorithm, Digest};
use oci::manifest::{self, MAX_DOCUMENT, Manifest, ManifestError};
use oci::reference::{RepositoryName, Tag};
use registry_facts::frame;
use registry_facts::index::SCAN;
use registry_facts::record::{Fact, Record};

use crate::disk::{Disk, remove_if_there};
use crate::store::layout::{Layout, read_whole};
use crate::store::{NewManifest, Store, StoreError, Subject};

/// Manifests without a name that are listed: more are those of a registry that deletes many.
const MOST: usize = 10_000;

/// Indexes within each other.
const DEEPEST: usize = 4;

/// A name that a broken record proposes.
pub type Proposal = (RepositoryName, Option<Tag>);

/// A manifest that no repository has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unnamed {
    /// Its digest.
    pub digest: Digest,
    /// Its media type.
    pub media_type: String,
    /// When its file was written.
    pub modified: SystemTime,
    /// Content that it needs and the disk lacks.
    pub missing: Vec<Digest>,
    /// Names that broken records propose, those with a tag first.
    pub proposals: Vec<Proposal>,
}

/// The manifests without a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Whether files of a damaged journal lie aside.
    pub is_damaged: bool,
    /// The manifests, in the order of their digests.
    pub manifests: Vec<Unnamed>,
    /// How many more there are.
    pub n_more: usize,
}

/// Finds manifests that no repository has.
///
/// # Errors
///
/// Fails as the disk and the index do.
pub async fn find(store: &Store) -> Result<Found, StoreError> {
    let named = named(store)?;
    store
        .on_disk("look for manifests without a name", move |disk, layout| {
            look(disk, layout, &named)
        })
        .await
}

/// Gives a manifest, and everything that it refers to, to a repository.
///
/// # Errors
///
/// Fails when the manifest or content that it needs is not on the disk, and as the journal does.
pub async fn name(
    store: &Store,
    digest: &Digest,
    repository: &RepositoryName,
    tag: Option<Tag>,
) -> Result<(), StoreError> {
    // Children first: each is whole before an index refers to it.
    let mut ordered = Vec::new();
    let mut level = vec![*digest];
    for _ in 0..DEEPEST {
        let mut next = Vec::new();
        for one in level {
            let found = store.on_disk("read a manifest", move |disk, layout| {
                read(disk, layout, &one)
            });
            let (bytes, parsed) = found.await?.ok_or(StoreError::Unknown(Subject::Manifest))?;
            next.extend(parsed.closure.manifests.iter().copied());
            ordered.push((one, bytes, parsed));
        }
        level = next;
    }
    if !level.is_empty() {
        return Err(StoreError::Unknown(Subject::Manifest));
    }
    for (one, bytes, parsed) in ordered.into_iter().rev() {
        let mut missing = Vec::new();
        for blob in parsed.closure.blobs.iter().chain(&parsed.closure.optional) {
            match store.link(repository, blob).await {
                Ok(_) => {}
                Err(StoreError::Unknown(_)) if parsed.closure.optional.contains(blob) => {}
                Err(StoreError::Unknown(_)) => missing.push(*blob),
                Err(error) => return Err(error),
            }
        }
        if !missing.is_empty() {
            return Err(StoreError::MissingBlobs(missing));
        }
        let closure = parsed.closure.required().copied().collect();
        let manifest = NewManifest {
            bytes,
            media_type: parsed.media_type,
            digest: one,
            closure,
            subject: parsed.subject.map(|subject| subject.digest),
            tags: tag.clone().filter(|_| one == *digest).into_iter().collect(),
        };
        store.put_manifest(repository, manifest).await?;
    }
    Ok(())
}

/// Takes away the files of the damaged journal: nothing more is expected of them, and the sweep works again.
///
/// # Errors
///
/// Fails as the disk does.
pub async fn finish(store: &Store) -> Result<(), StoreError> {
    store
        .on_disk("remove the damaged journal", |disk, layout| {
            let aside = layout.set_aside();
            for name in disk.list(&aside)?.unwrap_or_default() {
                remove_if_there(disk, &aside.join(name))?;
            }
            match disk.list(&aside)? {
                Some(_) => disk.sync_directory(&aside),
                None => Ok(()),
            }
        })
        .await
}

/// Everything that a repository has.
fn named(store: &Store) -> Result<HashSet<Digest>, StoreError> {
    let mut named = HashSet::new();
    let mut after = None;
    loop {
        let registers = store.registers(after.as_ref(), SCAN)?;
        let Some(last) = registers.last() else {
            return Ok(named);
        };
        after = Some(last.fact.key());
        let facts = registers.iter().map(|register| &register.fact);
        named.extend(facts.filter_map(Fact::present_content));
    }
}

fn look(disk: &dyn Disk, layout: &Layout, named: &HashSet<Digest>) -> io::Result<Found> {
    let mut proposals = proposals(disk, layout)?;
    let mut unnamed: BTreeMap<Digest, (Manifest, SystemTime)> = BTreeMap::new();
    let mut n_more = 0;
    for algorithm in Algorithm::ALL {
        for shard in 0..=u8::MAX {
            let directory = layout.shard(algorithm, shard);
            for hex in disk.list(&directory)?.unwrap_or_default() {
                let Ok(digest) = format!("{algorithm}:{hex}").parse::<Digest>() else {
                    continue;
                };
                if named.contains(&digest) {
                    continue;
                }
                let Some((_, parsed)) = read(disk, layout, &digest)? else {
                    continue;
                };
                let Some(status) = disk.status(&layout.blob(&digest))? else {
                    continue;
                };
                match unnamed.len() < MOST {
                    true => drop(unnamed.insert(digest, (parsed, status.modified))),
                    false => n_more += 1,
                }
            }
        }
    }
    let children = unnamed.values().flat_map(|it| &it.0.closure.manifests);
    let children: HashSet<Digest> = children.copied().collect();
    let mut manifests = Vec::new();
    for (digest, (parsed, modified)) in &unnamed {
        if children.contains(digest) {
            continue;
        }
        let mut missing = Vec::new();
        for needed in parsed.closure.required() {
            if disk.status(&layout.blob(needed))?.is_none() {
                missing.push(*needed);
            }
        }
        manifests.push(Unnamed {
            digest: *digest,
            media_type: parsed.media_type.clone(),
            modified: *modified,
            missing,
            proposals: proposals.remove(digest).unwrap_or_default(),
        });
    }
    let aside = disk.list(&layout.set_aside())?.unwrap_or_default();
    Ok(Found {
        is_damaged: !aside.is_empty(),
        manifests,
        n_more,
    })
}

/// A manifest by its digest, if the file is there, whole, and one.
fn read(
    disk: &dyn Disk,
    layout: &Layout,
    digest: &Digest,
) -> io::Result<Option<(Bytes, Manifest)>> {
    let path = layout.blob(digest);
    let is_small = disk
        .status(&path)?
        .is_some_and(|it| it.size <= MAX_DOCUMENT);
    if !is_small {
        return Ok(None);
    }
    // One that cannot be read is the scrub's.
    let Ok(Some(octets)) = read_whole(disk, &path, MAX_DOCUMENT) else {
        return Ok(None);
    };
    if octets.first() != Some(&b'{') || Digest::of(digest.algorithm(), &octets) != *digest {
        return Ok(None);
    }
    let parsed = match manifest::parse(&octets, None) {
        // OCI lets a manifest leave its type out. A configuration reads as neither of the two.
        Err(ManifestError::Untyped) => [manifest::OCI_IMAGE, manifest::OCI_INDEX]
            .into_iter()
            .find_map(|kind| manifest::parse(&octets, Some(kind)).ok()),
        parsed => parsed.ok(),
    };
    Ok(parsed.map(|parsed| (octets.into(), parsed)))
}

/// The names in the broken records of the damaged journal.
fn proposals(disk: &dyn Disk, layout: &Layout) -> io::Result<HashMap<Digest, Vec<Proposal>>> {
    let aside = layout.set_aside();
    let mut proposals: HashMap<Digest, Vec<Proposal>> = HashMap::new();
    for name in disk.list(&aside)?.unwrap_or_default() {
        let octets = crate::journal::salvage::octets(disk, &aside.join(Path::new(&name)));
        let octets = octets.map_err(io::Error::other)?;
        frame::unchecked(&octets, &mut |payload| {
            let facts = Record::decode(payload).map(|record| record.facts);
            for fact in facts.unwrap_or_default() {
                let (digest, proposal) = match fact {
                    Fact::Tag {
                        repository,
                        tag,
                        target: Some(digest),
                    } => (digest, (repository, Some(tag))),
                    Fact::Manifest {
                        repository,
                        digest,
                        link: Some(_),
                    } => (digest, (repository, None)),
                    _ => continue,
                };
                let known = proposals.entry(digest).or_default();
                if !known.contains(&proposal) {
                    known.push(proposal);
                }
            }
        });
    }
    for known in proposals.values_mut() {
        known.sort_by_key(|(_, tag)| tag.is_none());
    }
    Ok(proposals)
}

#[cfg(test)]
mod tests;
