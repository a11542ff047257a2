//! Views for people: repositories, tags, manifests, sizes; as JSON.
//!
//! The admin listener shows it, and a verb of the command line reads it from there, or from the
//! store itself when no daemon has it: one [`View`] answers both.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use api::registry_svc::{Manifest, Referrer, Repositories, Repository, Tag, Tags};
use config_text::web::encoded;
use daemon::calendar::Timestamp;
use oci::digest::Digest;
use oci::manifest;
use oci::reference::{self, Reference, RepositoryName};
use parking_lot::{Mutex, MutexGuard};
use registry_auth::form::Form;
use registry_facts::record::{Fact, Key};
use registry_facts::usage::{Holding, Usage};
use registry_store::{Store, StoreError, Stored};
use serde::Serialize;
use serde_json::Value;

/// Facts that are read at once.
const PIECE: usize = 4096;

/// The most tags that are shown of one repository.
const TAGS: usize = 10_000;

/// The most tags of one manifest that are looked for.
const TAGS_OF_MANIFEST: usize = 1000;

/// The most referrers of one manifest that are shown.
const REFERRERS: usize = 1000;

/// The requested view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum View {
    /// All repositories with their sizes.
    Repositories,
    /// The tags of one.
    Tags {
        /// The repository.
        repository: RepositoryName,
    },
    /// One manifest with what it refers to and what refers to it.
    Manifest {
        /// The repository.
        repository: RepositoryName,
        /// The tag or the digest.
        reference: Reference,
    },
}

/// Why there is nothing to look at.
#[derive(Debug, thiserror::Error)]
pub enum ViewError {
    /// A parameter that cannot be understood.
    #[error("`{0}` is missing or cannot be understood")]
    Parameter(&'static str),
    /// It is not there.
    #[error("there is no {0}")]
    Unknown(String),
    /// The store cannot be read.
    #[error("cannot read the store")]
    Store(#[from] StoreError),
}

impl View {
    /// The path of the admin listener that shows all repositories.
    pub const REPOSITORIES: &'static str = "/repositories";
    /// That of tags.
    pub const TAGS: &'static str = "/tags";
    /// That of a manifest.
    pub const MANIFEST: &'static str = "/manifest";

    /// From a path and its query.
    ///
    /// # Errors
    /// When it says too little.
    pub fn parse(path: &str, query: &str) -> Result<Self, ViewError> {
        let form = Form::parse(query);
        let repository = || {
            let text = form.first("repository");
            let name = text.and_then(|text| text.parse().ok());
            name.ok_or(ViewError::Parameter("repository"))
        };
        match path {
            Self::TAGS => Ok(Self::Tags {
                repository: repository()?,
            }),
            Self::MANIFEST => {
                let text = form.first("reference");
                let reference = text.and_then(|text| text.parse().ok());
                Ok(Self::Manifest {
                    repository: repository()?,
                    reference: reference.ok_or(ViewError::Parameter("reference"))?,
                })
            }
            _ => Ok(Self::Repositories),
        }
    }

    /// Its path and query.
    #[must_use]
    pub fn path(&self) -> String {
        match self {
            Self::Repositories => Self::REPOSITORIES.to_owned(),
            Self::Tags { repository } => {
                format!("{}?repository={}", Self::TAGS, encoded(repository.as_str()))
            }
            Self::Manifest {
                repository,
                reference,
            } => format!(
                "{}?repository={}&reference={}",
                Self::MANIFEST,
                encoded(repository.as_str()),
                encoded(&reference.to_string())
            ),
        }
    }
}

/// The content of a view.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Seen {
    /// All repositories.
    Repositories(Repositories),
    /// The tags of a repository.
    Tags(Tags),
    /// A manifest.
    Manifest(Box<Manifest<Value>>),
}

/// Looks at a store; clones share what was found out last.
#[derive(Clone)]
pub struct Looker {
    store: Store,
    last: Arc<Mutex<Option<Last>>>,
}

#[derive(Clone)]
struct Last {
    change: u64,
    survey: Arc<Usage>,
}

impl fmt::Debug for Looker {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Looker").finish_non_exhaustive()
    }
}

impl Looker {
    /// At a store.
    #[must_use]
    pub fn new(store: Store) -> Self {
        Self {
            store,
            last: Arc::default(),
        }
    }

    /// The requested view.
    ///
    /// # Errors
    /// When it is not there, or the store cannot be read.
    pub async fn look(&self, view: &View) -> Result<Seen, ViewError> {
        Ok(match view {
            View::Repositories => Seen::Repositories(repositories(&*self.survey().await?)),
            View::Tags { repository } => Seen::Tags(self.tags(repository)?),
            View::Manifest {
                repository,
                reference,
            } => Seen::Manifest(Box::new(self.manifest(repository, reference).await?)),
        })
    }

    /// The content of the store; counted again when something has changed since the last time.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn survey(&self) -> Result<Arc<Usage>, StoreError> {
        let change = *self.store.changes().borrow();
        let last = self.lock().clone();
        if let Some(last) = last
            && last.change == change
        {
            return Ok(last.survey);
        }
        let store = self.store.clone();
        let surveyed = tokio::task::spawn_blocking(move || survey(&store)).await;
        let survey = match surveyed {
            Ok(survey) => Arc::new(survey?),
            Err(error) => return Err(StoreError::Damaged(error.to_string())),
        };
        *self.lock() = Some(Last {
            change,
            survey: Arc::clone(&survey),
        });
        Ok(survey)
    }

    /// The last count, however old.
    #[must_use]
    pub fn last(&self) -> Option<Arc<Usage>> {
        self.lock().as_ref().map(|last| Arc::clone(&last.survey))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Last>> {
        self.last.lock()
    }

    fn tags(&self, repository: &RepositoryName) -> Result<Tags, ViewError> {
        let tags = self.store.tags(repository, None, TAGS)?;
        let unknown = || ViewError::Unknown(format!("repository {repository}"));
        let tags = tags.ok_or_else(unknown)?;
        let mut shown = Vec::new();
        for tag in tags {
            let key = Key::Tag {
                repository: repository.clone(),
                tag: tag.clone(),
            };
            let Some(stamped) = self.store.register(&key)? else {
                continue;
            };
            let Fact::Tag {
                target: Some(digest),
                ..
            } = stamped.fact
            else {
                continue;
            };
            let manifest = Key::Manifest {
                repository: repository.clone(),
                digest,
            };
            let manifest = self.store.register(&manifest)?.map(|stamped| stamped.fact);
            let link = match manifest {
                Some(Fact::Manifest { link, .. }) => link,
                _ => None,
            };
            shown.push(Tag {
                tag: tag.as_str().to_owned(),
                digest: digest.to_string(),
                pushed: moment(stamped.stamp.milliseconds()),
                media_type: link.as_ref().map(|link| link.media_type.to_string()),
                size: link.map(|link| link.size),
            });
        }
        Ok(Tags {
            repository: repository.as_str().to_owned(),
            tags: shown,
        })
    }

    async fn manifest(
        &self,
        repository: &RepositoryName,
        reference: &Reference,
    ) -> Result<Manifest<Value>, ViewError> {
        let stored = self.store.manifest(repository, reference).await?;
        let unknown = || ViewError::Unknown(format!("manifest {reference} in {repository}"));
        let stored = stored.ok_or_else(unknown)?;
        let parsed = manifest::parse(&stored.bytes, Some(&stored.media_type)).ok();
        let document: Value = serde_json::from_slice(&stored.bytes).unwrap_or_default();
        let mut referrers = Vec::new();
        let digests = self
            .store
            .referrers(repository, &stored.digest, None, REFERRERS)?;
        for digest in digests {
            let reference = Reference::Digest(digest);
            let referrer = self.store.manifest(repository, &reference).await?;
            referrers.extend(referrer.as_ref().map(shown_referrer));
        }
        let mut missing = Vec::new();
        for digest in parsed.iter().flat_map(|parsed| parsed.closure.required()) {
            if self.store.held(digest).await?.is_none() {
                missing.push(digest.to_string());
            }
        }
        Ok(Manifest {
            repository: repository.as_str().to_owned(),
            digest: stored.digest.to_string(),
            media_type: stored.media_type.to_string(),
            size: size(&stored),
            tags: self.tags_of(repository, &stored.digest)?,
            artifact_type: parsed
                .as_ref()
                .and_then(|parsed| parsed.artifact_type.clone()),
            subject: subject(parsed.as_ref()),
            referrers,
            missing,
            manifest: document,
        })
    }

    /// The tags that point to a manifest.
    fn tags_of(
        &self,
        repository: &RepositoryName,
        digest: &Digest,
    ) -> Result<Vec<String>, StoreError> {
        let tags: Vec<reference::Tag> = self
            .store
            .tags(repository, None, TAGS_OF_MANIFEST)?
            .unwrap_or_default();
        let mut pointing = Vec::new();
        for tag in tags {
            let key = Key::Tag {
                repository: repository.clone(),
                tag: tag.clone(),
            };
            let fact = self.store.register(&key)?.map(|stamped| stamped.fact);
            if let Some(Fact::Tag { target, .. }) = fact
                && target.as_ref() == Some(digest)
            {
                pointing.push(tag.as_str().to_owned());
            }
        }
        Ok(pointing)
    }
}

fn survey(store: &Store) -> Result<Usage, StoreError> {
    let mut survey = Usage::default();
    let mut after: Option<Key> = None;
    loop {
        let piece = store.registers(after.as_ref(), PIECE)?;
        for stamped in &piece {
            survey.add(&stamped.fact);
        }
        match piece.last() {
            Some(last) if piece.len() == PIECE => after = Some(last.fact.key()),
            _ => return Ok(survey),
        }
    }
}

fn repositories(survey: &Usage) -> Repositories {
    let all = survey.repositories().map(|(name, held)| Repository {
        name: name.as_str().to_owned(),
        held: holding(held),
    });
    Repositories {
        repositories: all.collect(),
        total: holding(&survey.total()),
    }
}

/// A sum of content, as it is shown.
pub(crate) const fn holding(holding: &Holding) -> api::registry_svc::Holding {
    api::registry_svc::Holding {
        tags: holding.tags,
        manifests: holding.manifests,
        blobs: holding.blobs,
        bytes: holding.octets,
    }
}

fn shown_referrer(stored: &Stored) -> Referrer {
    let parsed = manifest::parse(&stored.bytes, Some(&stored.media_type)).ok();
    Referrer {
        digest: stored.digest.to_string(),
        media_type: stored.media_type.to_string(),
        size: size(stored),
        artifact_type: parsed.and_then(|parsed| parsed.artifact_type),
    }
}

fn size(stored: &Stored) -> u64 {
    u64::try_from(stored.bytes.len()).unwrap_or(u64::MAX)
}

fn subject(parsed: Option<&manifest::Manifest>) -> Option<String> {
    let subject = parsed?.subject.as_ref()?;
    Some(subject.digest.to_string())
}

/// Milliseconds since the epoch, as people read them.
fn moment(milliseconds: u64) -> String {
    Timestamp(UNIX_EPOCH + Duration::from_millis(milliseconds)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_is_asked_for_by_its_path() {
        let repository: RepositoryName = "a/b".parse().unwrap();
        let digest = format!("sha256:{}", "0".repeat(64));
        for view in [
            View::Repositories,
            View::Tags {
                repository: repository.clone(),
            },
            View::Manifest {
                repository: repository.clone(),
                reference: "latest".parse().unwrap(),
            },
            View::Manifest {
                repository,
                reference: digest.parse().unwrap(),
            },
        ] {
            let path = view.path();
            let (path, query) = path.split_once('?').unwrap_or((&path, ""));
            assert_eq!(View::parse(path, query).unwrap(), view);
        }
    }

    #[test]
    fn what_is_not_said_is_named() {
        for (path, query, missing) in [
            ("/tags", "", "repository"),
            ("/tags", "repository=A", "repository"),
            ("/manifest", "repository=a", "reference"),
        ] {
            match View::parse(path, query) {
                Err(ViewError::Parameter(name)) => assert_eq!(name, missing),
                other => panic!("{other:?}"),
            }
        }
    }
}
