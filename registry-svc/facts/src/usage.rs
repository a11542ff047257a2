//! The content of the registry, counted from its facts.
//!
//! Bytes are those of distinct content: content that several repositories share is counted in each
//! of them, and once in the whole.

use std::collections::BTreeMap;

use oci::digest::Digest;
use oci::reference::RepositoryName;

use crate::record::Fact;

/// The content of one repository.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holding {
    /// Tags.
    pub tags: u64,
    /// Manifests, with a tag or without.
    pub manifests: u64,
    /// Blobs.
    pub blobs: u64,
    /// Octets of manifests and blobs.
    pub octets: u64,
}

impl Holding {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The content of all repositories.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    repositories: BTreeMap<RepositoryName, Holding>,
    content: BTreeMap<Digest, u64>,
}

impl Usage {
    /// Adds one fact; each key comes once.
    pub fn add(&mut self, fact: &Fact) {
        if fact.is_tombstone() {
            return;
        }
        let Some(repository) = fact.repository() else {
            return;
        };
        if !self.repositories.contains_key(repository) {
            self.repositories
                .insert(repository.clone(), Holding::default());
        }
        let Some(holding) = self.repositories.get_mut(repository) else {
            return;
        };
        match fact {
            Fact::Blob { digest, size, .. } => {
                let size = size.unwrap_or(0);
                holding.blobs += 1;
                holding.octets += size;
                self.content.insert(*digest, size);
            }
            Fact::Manifest { digest, link, .. } => {
                let size = link.as_ref().map_or(0, |link| link.size);
                holding.manifests += 1;
                holding.octets += size;
                self.content.insert(*digest, size);
            }
            Fact::Tag { .. } => holding.tags += 1,
            Fact::Node { .. } => {}
        }
    }

    /// Every repository that holds anything.
    pub fn repositories(&self) -> impl Iterator<Item = (&RepositoryName, &Holding)> {
        let all = self.repositories.iter();
        all.filter(|(_, holding)| !holding.is_empty())
    }

    /// The content of one repository.
    #[must_use]
    pub fn holding(&self, repository: &RepositoryName) -> Option<&Holding> {
        self.repositories.get(repository)
    }

    /// The content of all of them; shared content counts once.
    #[must_use]
    pub fn total(&self) -> Holding {
        let mut total = Holding::default();
        for (_, holding) in self.repositories() {
            total.tags += holding.tags;
            total.manifests += holding.manifests;
            total.blobs += holding.blobs;
        }
        total.octets = self.content.values().sum();
        total
    }

    /// How many repositories hold anything.
    #[must_use]
    pub fn n_repositories(&self) -> usize {
        self.repositories().count()
    }
}

#[cfg(test)]
mod tests {
    use oci::digest::Algorithm;

    use super::*;
    use crate::record::Link;

    fn name(text: &str) -> RepositoryName {
        text.parse().unwrap()
    }

    fn digest(text: &str) -> Digest {
        Digest::of(Algorithm::Sha256, text.as_bytes())
    }

    fn blob(repository: &str, content: &str, size: Option<u64>) -> Fact {
        Fact::Blob {
            repository: name(repository),
            digest: digest(content),
            size,
        }
    }

    #[test]
    fn what_is_shared_counts_once_in_the_whole() {
        let mut survey = Usage::default();
        for fact in [
            blob("a", "layer", Some(100)),
            blob("b", "layer", Some(100)),
            blob("b", "other", Some(10)),
            blob("c", "gone", None),
            Fact::Manifest {
                repository: name("b"),
                digest: digest("manifest"),
                link: Some(Link {
                    media_type: "x".into(),
                    size: 1,
                    subject: None,
                }),
            },
            Fact::Tag {
                repository: name("b"),
                tag: "latest".parse().unwrap(),
                target: Some(digest("manifest")),
            },
        ] {
            survey.add(&fact);
        }
        assert_eq!(survey.n_repositories(), 2);
        let of_b = survey.holding(&name("b")).unwrap();
        let expected = Holding {
            tags: 1,
            manifests: 1,
            blobs: 2,
            octets: 111,
        };
        assert_eq!(*of_b, expected);
        assert_eq!(survey.total().octets, 111);
        assert_eq!(survey.total().blobs, 3);
        assert_eq!(survey.holding(&name("c")), None);
    }
}
