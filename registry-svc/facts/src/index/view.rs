//! Registers on an index: the visible content by the facts that were taken.
//!
//! Every key of a fact is a register in which the greatest [rank](crate::record::Rank) wins, so
//! taking a record again, or records in another order, makes no difference. A tag is visible while
//! the manifest it points to is; a repository while it has a blob or a manifest.
//!
//! One thread at a time may write; readers are never in its way.

use std::sync::Arc;

use oci::digest::Digest;
use oci::reference::{RepositoryName, Tag};
use parking_lot::Mutex;

use super::key::{self, BLOB, MANIFEST, NODE, REPOSITORY, TAG};
use super::{Batch, Index, IndexError, SCAN};
use crate::hlc::Hlc;
use crate::record::{Fact, Key, Link, Record, Stamped};

/// Registers on one index.
#[derive(Clone, Debug)]
pub struct View {
    index: Arc<dyn Index>,
    writer: Arc<Mutex<()>>,
}

impl View {
    /// The view of an index.
    pub fn new(index: Arc<dyn Index>) -> Self {
        Self {
            index,
            writer: Arc::default(),
        }
    }

    /// Its index.
    #[must_use]
    pub fn index(&self) -> &dyn Index {
        &*self.index
    }
}

//--- Looking up

impl View {
    /// The size of a blob that a repository has.
    ///
    /// # Errors
    ///
    /// Fails when the index is not to be trusted.
    pub fn blob(
        &self,
        repository: &RepositoryName,
        digest: &Digest,
    ) -> Result<Option<u64>, IndexError> {
        let value = self.index.get(&key::of_digest(BLOB, repository, digest))?;
        let Some(value) = value else {
            return Ok(None);
        };
        key::parse_size(key::parse_head(&value)?.2)
    }

    /// The link of a manifest that a repository has.
    ///
    /// # Errors
    ///
    /// Fails when the index is not to be trusted.
    pub fn manifest(
        &self,
        repository: &RepositoryName,
        digest: &Digest,
    ) -> Result<Option<Link>, IndexError> {
        let value = self
            .index
            .get(&key::of_digest(MANIFEST, repository, digest))?;
        let Some(value) = value else {
            return Ok(None);
        };
        key::parse_link(key::parse_head(&value)?.2)
    }

    /// The manifest that a visible tag points to.
    ///
    /// # Errors
    ///
    /// Fails when the index is not to be trusted.
    pub fn tag(
        &self,
        repository: &RepositoryName,
        tag: &Tag,
    ) -> Result<Option<(Digest, Link)>, IndexError> {
        let Some(value) = self.index.get(&key::of_tag(repository, tag.as_str()))? else {
            return Ok(None);
        };
        let Some(target) = key::parse_target(key::parse_head(&value)?.2)? else {
            return Ok(None);
        };
        let link = self.manifest(repository, &target)?;
        Ok(link.map(|link| (target, link)))
    }

    /// Whether a repository has anything.
    ///
    /// # Errors
    ///
    /// Fails when the index is not to be trusted.
    pub fn has(&self, repository: &RepositoryName) -> Result<bool, IndexError> {
        let value = self.index.get(&key::repository(repository.as_str()))?;
        Ok(value.is_some())
    }

    /// The register of a key, tombstones included.
    ///
    /// # Errors
    ///
    /// Fails when the index is not to be trusted.
    pub fn register(&self, key: &Key) -> Result<Option<Stamped>, IndexError> {
        let value = self.index.get(&key::register(key))?;
        value
            .map(|value| key::parse_value(key.clone(), &value))
            .transpose()
    }

    /// Whether any fact of a record would change something.
    ///
    /// # Errors
    ///
    /// Fails when the index is not to be trusted.
    pub fn is_news(&self, record: &Record) -> Result<bool, IndexError> {
        let pending = Pending::new(self);
        for fact in &record.facts {
            let stamped = stamped(record, fact);
            if pending.wins(&key::register(&fact.key()), &key::value(&stamped))? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

//--- Listing

impl View {
    /// Visible tags in the order of ASCII, after one that need not be there.
    ///
    /// # Errors
    ///
    /// Fails when the index is not to be trusted.
    pub fn tags(
        &self,
        repository: &RepositoryName,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Tag>, IndexError> {
        let prefix = key::in_repository(TAG, repository);
        let mut tags = Vec::new();
        self.walk(
            &prefix,
            after.map(|tag| key::of_tag(repository, tag)),
            |key, value| {
                if tags.len() == limit {
                    return Ok(Walk::Stop);
                }
                if let Some(target) = key::parse_target(key::parse_head(value)?.2)?
                    && self.manifest(repository, &target)?.is_some()
                {
                    tags.push(key::parse_tag(key, &prefix)?);
                }
                Ok(Walk::On)
            },
        )?;
        Ok(tags)
    }

    /// Tags that point to a manifest, visible or not.
    ///
    /// # Errors
    ///
    /// Fails when the index is not to be trusted.
    pub fn tags_of(
        &self,
        repository: &RepositoryName,
        digest: &Digest,
    ) -> Result<Vec<Tag>, IndexError> {
        let prefix = key::in_repository(TAG, repository);
        let mut tags = Vec::new();
        self.walk(&prefix, None, |key, value| {
            if key::parse_target(key::parse_head(value)?.2)?.as_ref() == Some(digest) {
                tags.push(key::parse_tag(key, &prefix)?);
            }
            Ok(Walk::On)
        })?;
        Ok(tags)
    }

    /// Repositories that have anything, in the order of ASCII, after one that need not be there.
    ///
    /// # Errors
    ///
    /// Fails when the index is not to be trusted.
    pub fn repositories(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<RepositoryName>, IndexError> {
        let after = after.map(key::repository);
        let entries = self.index.scan(&[REPOSITORY], after.as_deref(), limit)?;
        let name = |(key, _): &(Vec<u8>, Vec<u8>)| key::parse(key.get(1..).unwrap_or_default());
        entries.iter().map(name).collect()
    }

    /// Repositories that have a digest as one of `kind`: [`BLOB`] or [`MANIFEST`].
    ///
    /// # Errors
    ///
    /// Fails when the index is not to be trusted.
    pub fn holders(
        &self,
        digest: &Digest,
        kind: u8,
        limit: usize,
    ) -> Result<Vec<RepositoryName>, IndexError> {
        let prefix = key::holders(digest, kind);
        let entries = self.index.scan(&prefix, None, limit)?;
        let name = |(key, _): &(Vec<u8>, Vec<u8>)| {
            key::parse(key.strip_prefix(prefix.as_slice()).unwrap_or_default())
        };
        entries.iter().map(name).collect()
    }

    /// Manifests of a repository that refer to a subject, in the order of their digests, after one that
    /// need not be there.
    ///
    /// # Errors
    ///
    /// Fails when the index is not to be trusted.
    pub fn referrers(
        &self,
        repository: &RepositoryName,
        subject: &Digest,
        after: Option<&Digest>,
        limit: usize,
    ) -> Result<Vec<Digest>, IndexError> {
        let prefix = key::referrers(repository, subject);
        let after = after.map(|after| key::referrer(repository, subject, after));
        let entries = self.index.scan(&prefix, after.as_deref(), limit)?;
        let digest = |(key, _): &(Vec<u8>, Vec<u8>)| {
            key::parse_digest(key.strip_prefix(prefix.as_slice()).unwrap_or_default())
        };
        entries.iter().map(digest).collect()
    }

    /// Registers in the order of their keys, tombstones included.
    ///
    /// # Errors
    ///
    /// Fails when the index is not to be trusted.
    pub fn registers(&self, after: Option<&Key>, limit: usize) -> Result<Vec<Stamped>, IndexError> {
        let mut registers = Vec::new();
        let after = after.map(key::register);
        for kind in [BLOB, MANIFEST, NODE, TAG] {
            let left = limit - registers.len();
            let is_past = after
                .as_ref()
                .is_some_and(|after| after.first() > Some(&kind));
            if left == 0 || is_past {
                continue;
            }
            for (key, value) in self.index.scan(&[kind], after.as_deref(), left)? {
                registers.push(key::parse_value(key::parse_register(&key)?, &value)?);
            }
        }
        Ok(registers)
    }

    /// Registers of nodes.
    ///
    /// # Errors
    ///
    /// Fails when the index is not to be trusted.
    pub fn nodes(&self, limit: usize) -> Result<Vec<Stamped>, IndexError> {
        let entries = self.index.scan(&[NODE], None, limit)?;
        let stamped =
            |(key, value): &(Vec<u8>, Vec<u8>)| key::parse_value(key::parse_register(key)?, value);
        entries.iter().map(stamped).collect()
    }

    /// Hands all entries behind a prefix to `visit`, until it has seen enough.
    fn walk(
        &self,
        prefix: &[u8],
        mut after: Option<Vec<u8>>,
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<Walk, IndexError>,
    ) -> Result<(), IndexError> {
        loop {
            let entries = self.index.scan(prefix, after.as_deref(), SCAN)?;
            for (key, value) in &entries {
                if visit(key, value)? == Walk::Stop {
                    return Ok(());
                }
            }
            match entries.into_iter().next_back() {
                Some((last, _)) => after = Some(last),
                None => return Ok(()),
            }
        }
    }
}

/// Whether a walk continues.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Walk {
    On,
    Stop,
}

//--- Taking records

impl View {
    /// Takes records, all or none of them.
    ///
    /// # Errors
    ///
    /// Fails when the index is not to be trusted.
    pub fn apply<'a>(
        &self,
        records: impl IntoIterator<Item = &'a Record>,
    ) -> Result<(), IndexError> {
        let _writer = self.writer.lock();
        let mut pending = Pending::new(self);
        for record in records {
            for fact in &record.facts {
                pending.apply(&stamped(record, fact))?;
            }
        }
        self.index.write(pending.batch)
    }

    /// Forgets a tombstone stated before `before`, unless it has been overwritten.
    ///
    /// # Errors
    ///
    /// Fails when the index is not to be trusted.
    pub fn forget(&self, tombstone: &Stamped, before: Hlc) -> Result<bool, IndexError> {
        if tombstone.stamp >= before || !tombstone.fact.is_tombstone() {
            return Ok(false);
        }
        let _writer = self.writer.lock();
        let key = key::register(&tombstone.fact.key());
        let is_same = self.index.get(&key)?.as_ref() == Some(&key::value(tombstone));
        if is_same {
            self.index.write(Batch::from([(key, None)]))?;
        }
        Ok(is_same)
    }
}

fn stamped(record: &Record, fact: &Fact) -> Stamped {
    Stamped {
        origin: record.origin.clone(),
        sequence: record.sequence,
        stamp: record.stamp,
        fact: fact.clone(),
    }
}

/// Changes that are not written yet, over what is.
struct Pending<'a> {
    view: &'a View,
    batch: Batch,
}

impl<'a> Pending<'a> {
    fn new(view: &'a View) -> Self {
        Self {
            view,
            batch: Batch::new(),
        }
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, IndexError> {
        match self.batch.get(key) {
            Some(value) => Ok(value.clone()),
            None => self.view.index.get(key),
        }
    }

    fn put(&mut self, key: Vec<u8>, value: Option<Vec<u8>>) {
        self.batch.insert(key, value);
    }

    /// Whether a register's new value holds against its old one.
    fn wins(&self, key: &[u8], new: &[u8]) -> Result<bool, IndexError> {
        let Some(old) = self.get(key)? else {
            return Ok(true);
        };
        let (old_rank, old_sequence, old_body) = key::parse_head(&old)?;
        let (new_rank, new_sequence, new_body) = key::parse_head(new)?;
        // One node states one thing at one moment; should it not, all nodes decide alike. A repair,
        // whose sequence is 0, gives way to the record that it stands for.
        Ok((new_rank, new_body, new_sequence) > (old_rank, old_body, old_sequence))
    }

    fn apply(&mut self, stamped: &Stamped) -> Result<(), IndexError> {
        let fact = &stamped.fact;
        let key = key::register(&fact.key());
        let value = key::value(stamped);
        if !self.wins(&key, &value)? {
            return Ok(());
        }
        let old = self.get(&key)?;
        let old = old
            .map(|old| key::parse_value(fact.key(), &old))
            .transpose()?;
        self.put(key, Some(value));
        let was_there = old.as_ref().is_some_and(|old| !old.fact.is_tombstone());
        let is_there = !fact.is_tombstone();
        match fact {
            Fact::Blob {
                repository, digest, ..
            } => {
                self.hold(repository, digest, BLOB, was_there, is_there)?;
            }
            Fact::Manifest {
                repository,
                digest,
                link,
            } => {
                self.hold(repository, digest, MANIFEST, was_there, is_there)?;
                let old_link = old.and_then(|old| match old.fact {
                    Fact::Manifest { link, .. } => link,
                    Fact::Blob { .. } | Fact::Tag { .. } | Fact::Node { .. } => None,
                });
                let old_subject = old_link.and_then(|link| link.subject);
                self.refer(repository, digest, old_subject.as_ref(), None);
                let subject = link.as_ref().and_then(|link| link.subject.as_ref());
                self.refer(repository, digest, subject, Some(Vec::new()));
            }
            Fact::Tag { .. } | Fact::Node { .. } => {}
        }
        Ok(())
    }

    /// Notes who has a digest, and counts what a repository has.
    fn hold(
        &mut self,
        repository: &RepositoryName,
        digest: &Digest,
        kind: u8,
        was_there: bool,
        is_there: bool,
    ) -> Result<(), IndexError> {
        if was_there == is_there {
            return Ok(());
        }
        let mut holder = key::holders(digest, kind);
        holder.extend_from_slice(repository.as_str().as_bytes());
        self.put(holder, is_there.then(Vec::new));
        let name = key::repository(repository.as_str());
        let mut counts = Counts::parse(self.get(&name)?.as_deref())?;
        let count = if kind == BLOB {
            &mut counts.n_blobs
        } else {
            &mut counts.n_manifests
        };
        *count = if is_there {
            count.saturating_add(1)
        } else {
            count.saturating_sub(1)
        };
        self.put(name, counts.value());
        Ok(())
    }

    fn refer(
        &mut self,
        repository: &RepositoryName,
        digest: &Digest,
        subject: Option<&Digest>,
        value: Option<Vec<u8>>,
    ) {
        if let Some(subject) = subject {
            let key = key::referrer(repository, subject, digest);
            self.put(key, value);
        }
    }
}

/// The counts of a repository.
#[derive(Clone, Copy, Default)]
struct Counts {
    n_blobs: u64,
    n_manifests: u64,
}

impl Counts {
    fn parse(value: Option<&[u8]>) -> Result<Self, IndexError> {
        let Some(value) = value else {
            return Ok(Self::default());
        };
        let ([blobs, manifests], []) = value.as_chunks::<8>() else {
            return Err(IndexError::Malformed);
        };
        Ok(Self {
            n_blobs: u64::from_be_bytes(*blobs),
            n_manifests: u64::from_be_bytes(*manifests),
        })
    }

    /// None when the repository has nothing, and so is none.
    fn value(self) -> Option<Vec<u8>> {
        let is_empty = self.n_blobs == 0 && self.n_manifests == 0;
        let octets = [self.n_blobs.to_be_bytes(), self.n_manifests.to_be_bytes()];
        (!is_empty).then(|| octets.concat())
    }
}
