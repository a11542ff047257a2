//! The content that manifests refer to.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use oci::digest::Digest;
use oci::manifest;
use oci::manifest::Closure;
use oci::reference::{Reference, RepositoryName};
use registry_facts::hlc::Hlc;
use registry_facts::record::{Fact, Key, Link, Stamped};

use super::{Mode, Report};
use crate::store::{Store, StoreError};

/// Registers that are read at once.
const PAGE: usize = 1000;

/// Manifests of repositories and everything they refer to. If it `restates`, it states links again
/// that the sweep of another node has taken back because it had not heard of the manifest.
///
/// The references of a manifest that cannot be read are unknown. Its repository has a link to each of
/// them, so everything that such a repository has, or had, counts as referred to.
///
/// # Errors
///
/// Fails when the index or the journal does.
pub(super) async fn marked(
    store: &Store,
    restates: bool,
    report: &mut Report,
) -> Result<HashSet<Digest>, StoreError> {
    let mut marked = HashSet::new();
    let mut read = HashSet::new();
    let mut unreadable = HashSet::new();
    let mut unjudged = HashSet::new();
    let mut registers = Registers::new(store);
    while let Some((repository, digest)) = registers.next_manifest()? {
        marked.insert(digest);
        if unreadable.contains(&digest) {
            unjudged.insert(repository);
            continue;
        }
        // Many repositories may have one manifest, and each has links of its own.
        let is_new = read.insert(digest);
        if !is_new && !restates {
            continue;
        }
        let Some(closure) = readable(store, &repository, digest, report).await? else {
            unreadable.insert(digest);
            unjudged.insert(repository);
            continue;
        };
        if restates {
            restate_links(store, &repository, &closure, report).await?;
        }
        if is_new {
            report.n_manifests += 1;
            marked.extend(closure.kept().copied());
        }
    }
    mark_all_of(store, &unjudged, &mut marked)?;
    Ok(marked)
}

/// Marks every blob that some repositories have or had: also one whose link a sweep has taken back.
fn mark_all_of(
    store: &Store,
    repositories: &HashSet<RepositoryName>,
    marked: &mut HashSet<Digest>,
) -> Result<(), StoreError> {
    if repositories.is_empty() {
        return Ok(());
    }
    let mut registers = Registers::new(store);
    while let Some(register) = registers.next()? {
        if let Fact::Blob {
            repository, digest, ..
        } = register.fact
            && repositories.contains(&repository)
        {
            marked.insert(digest);
        }
    }
    Ok(())
}

/// The references of a manifest; none when it cannot be read, which the report then names.
async fn readable(
    store: &Store,
    repository: &RepositoryName,
    digest: Digest,
    report: &mut Report,
) -> Result<Option<Closure>, StoreError> {
    match closure(store, repository, digest).await {
        Ok(closure) => Ok(Some(closure)),
        Err(error @ (StoreError::Io { .. } | StoreError::Unknown(_))) => {
            if !report.unreadable.contains(&digest) {
                tracing::error!(
                    %digest,
                    repository = repository.as_str(),
                    error = &error as &dyn std::error::Error,
                    "A manifest cannot be read; the sweep keeps all content of its repository"
                );
                report.unreadable.push(digest);
            }
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// States the links again to blobs that a manifest of their repository refers to and that are here,
/// where a sweep has taken them back. Blobs that a client has deleted stay deleted.
async fn restate_links(
    store: &Store,
    repository: &RepositoryName,
    closure: &Closure,
    report: &mut Report,
) -> Result<(), StoreError> {
    for digest in &closure.blobs {
        let key = Key::Blob {
            repository: repository.clone(),
            digest: *digest,
        };
        let link = store.register(&key)?;
        if !link.is_some_and(|link| link.fact.is_tombstone() && link.stamp.is_last()) {
            continue;
        }
        match store.link(repository, digest).await {
            Ok(_) => report.n_restated += 1,
            // Its content is not here, so nothing can be said of it; or nothing at all.
            Err(StoreError::Unknown(_) | StoreError::ReadOnly) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Every visible manifest, and what has to be there for it to be whole.
///
/// # Errors
///
/// Fails when the index or the disk does.
pub(crate) async fn closures(store: &Store) -> Result<Vec<(Digest, Vec<Digest>)>, StoreError> {
    let mut all = Vec::new();
    let mut seen = HashSet::new();
    let mut registers = Registers::new(store);
    while let Some((repository, digest)) = registers.next_manifest()? {
        if seen.insert(digest) {
            let required = match closure(store, &repository, digest).await {
                Ok(closure) => closure.required().copied().collect(),
                // It lacks itself.
                Err(StoreError::Io { .. } | StoreError::Unknown(_)) => vec![digest],
                Err(error) => return Err(error),
            };
            all.push((digest, required));
        }
    }
    Ok(all)
}

async fn closure(
    store: &Store,
    repository: &RepositoryName,
    digest: Digest,
) -> Result<Closure, StoreError> {
    let Some(stored) = store
        .manifest(repository, &Reference::Digest(digest))
        .await?
    else {
        // Deleted since: content that it alone referred to may go with the next sweep.
        return Ok(Closure::default());
    };
    // A manifest that cannot be parsed refers to nothing, as it did when it was pushed.
    let parsed = manifest::parse(&stored.bytes, Some(&stored.media_type));
    Ok(parsed.map(|it| it.closure).unwrap_or_default())
}

/// All registers, page by page.
struct Registers<'a> {
    store: &'a Store,
    page: std::vec::IntoIter<Stamped>,
    last: Option<Key>,
}

impl<'a> Registers<'a> {
    fn new(store: &'a Store) -> Self {
        Self {
            store,
            page: Vec::new().into_iter(),
            last: None,
        }
    }

    fn next(&mut self) -> Result<Option<Stamped>, StoreError> {
        if self.page.len() == 0 {
            self.page = self.store.registers(self.last.as_ref(), PAGE)?.into_iter();
        }
        let next = self.page.next();
        if let Some(register) = &next {
            self.last = Some(register.fact.key());
        }
        Ok(next)
    }

    /// The next manifest that a repository has.
    fn next_manifest(&mut self) -> Result<Option<(RepositoryName, Digest)>, StoreError> {
        while let Some(register) = self.next()? {
            if let Fact::Manifest {
                repository,
                digest,
                link: Some(_),
            } = register.fact
            {
                return Ok(Some((repository, digest)));
            }
        }
        Ok(None)
    }
}

//--- Manifests without a tag

/// The content of one repository.
#[derive(Default)]
struct Held {
    manifests: HashMap<Digest, (Link, Hlc)>,
    tagged: Vec<Digest>,
    /// Manifests that a tag names in its own name, as signatures are: they live with what is signed.
    attached: HashMap<Digest, Vec<Digest>>,
}

/// Deletes manifests that no tag leads to, and that are older than `grace`.
///
/// A tag leads to its manifest, an index to its manifests, and a manifest to those that are about
/// it: by their subject, or by a tag that is made of its digest (`sha256-….sig`).
pub(super) async fn delete_untagged(
    store: &Store,
    grace: Duration,
    mode: Mode,
    report: &mut Report,
) -> Result<(), StoreError> {
    let mut all: HashMap<RepositoryName, Held> = HashMap::new();
    let mut registers = Registers::new(store);
    while let Some(register) = registers.next()? {
        let stated = register.stamp;
        match register.fact {
            Fact::Manifest {
                repository,
                digest,
                link: Some(link),
            } => {
                let held = all.entry(repository).or_default();
                held.manifests.insert(digest, (link, stated));
            }
            Fact::Tag {
                repository,
                tag,
                target: Some(target),
            } => {
                let held = all.entry(repository).or_default();
                match subject_of_tag(tag.as_str()) {
                    Some(subject) => held.attached.entry(subject).or_default().push(target),
                    None => held.tagged.push(target),
                }
            }
            _ => {}
        }
    }
    for (repository, held) in all {
        let Some(reached) = reach(store, &repository, &held, report).await? else {
            continue;
        };
        for (digest, (_, stated)) in &held.manifests {
            if reached.contains(digest) || store.is_of_late(*stated, grace) {
                continue;
            }
            if mode == Mode::Sweep {
                match store.delete_manifest(&repository, digest).await {
                    Ok(_) | Err(StoreError::Unknown(_)) => {}
                    Err(error) => return Err(error),
                }
            }
            report.n_untagged += 1;
        }
    }
    Ok(())
}

/// The manifests that tags lead to; none when one of them cannot be read, for it may lead to any other.
async fn reach(
    store: &Store,
    repository: &RepositoryName,
    held: &Held,
    report: &mut Report,
) -> Result<Option<HashSet<Digest>>, StoreError> {
    let mut about: HashMap<Digest, Vec<Digest>> = HashMap::new();
    for (digest, (link, _)) in &held.manifests {
        if let Some(subject) = link.subject {
            about.entry(subject).or_default().push(*digest);
        }
    }
    let mut reached = HashSet::new();
    let mut left = held.tagged.clone();
    // A signature of absent content belongs to its tag alone.
    for (subject, attached) in &held.attached {
        if !held.manifests.contains_key(subject) {
            left.extend(attached);
        }
    }
    while let Some(digest) = left.pop() {
        if !held.manifests.contains_key(&digest) || !reached.insert(digest) {
            continue;
        }
        let Some(closure) = readable(store, repository, digest, report).await? else {
            return Ok(None);
        };
        left.extend(closure.kept());
        left.extend(about.get(&digest).into_iter().flatten());
        left.extend(held.attached.get(&digest).into_iter().flatten());
    }
    Ok(Some(reached))
}

/// The digest in a tag's name, which leads to the referrers of a subject where the registry lists none, or to
/// signatures, `sha256-<hex>` and `sha256-<hex>.sig`.
fn subject_of_tag(tag: &str) -> Option<Digest> {
    let name = tag.split_once('.').map_or(tag, |(name, _)| name);
    let (algorithm, hex) = name.split_once('-')?;
    format!("{algorithm}:{hex}").parse().ok()
}

#[cfg(test)]
mod tests {
    use oci::digest::Algorithm;

    use super::*;

    #[test]
    fn a_tag_may_be_made_of_a_digest() {
        let digest = Digest::of(Algorithm::Sha256, b"signed");
        let tag = format!("sha256-{}", digest.hex());
        assert_eq!(subject_of_tag(&tag), Some(digest));
        assert_eq!(subject_of_tag(&format!("{tag}.sig")), Some(digest));
        for tag in ["1", "v1.2", "sha256-0a", "sha256-0a.sig", "latest-sha256"] {
            assert_eq!(subject_of_tag(tag), None, "{tag}");
        }
    }
}
