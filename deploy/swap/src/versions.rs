//! The versions of a service that a node keeps, and the choice of one to go back to.
//!
//! A version is kept once it has served. The list is in the order in which versions served last: the last one
//! runs, and the one before it is the last good one. Removal begins at the other end, so it never reaches
//! these two.

use api::outpost::Version;

/// The largest number of versions that a node keeps of a service: the one that runs, the last good one, and
/// three more. Six services then need some 120 MiB of archives.
pub const LIMIT: usize = 5;

/// The least beginning of a digest that names a version.
const SHORTEST_DIGEST: usize = 4;

/// The versions of a service, the one that runs last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Versions(Vec<Version>);

/// Why no version can be chosen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChoiceError {
    /// There is no other one.
    #[error("the node keeps no version but the one that runs; nothing to roll back to")]
    NoEarlier,
    /// It is the one that serves.
    #[error("{0} runs already")]
    Runs(String),
    /// The node does not keep it.
    #[error("the node keeps no version {wanted}; it keeps {kept}")]
    Unknown {
        /// The text that was given.
        wanted: String,
        /// The versions that are there.
        kept: String,
    },
    /// Several match.
    #[error("{wanted} can be {matching}; name one by the beginning of its image")]
    Ambiguous {
        /// The text that was given.
        wanted: String,
        /// The versions that match.
        matching: String,
    },
}

impl Versions {
    /// The versions in the order in which they served last.
    pub fn new(versions: Vec<Version>) -> Self {
        Self(versions)
    }

    /// All of them, the one that runs last.
    pub fn as_slice(&self) -> &[Version] {
        &self.0
    }

    /// Whether the version with this archive is among them.
    pub fn has(&self, archive: &str) -> bool {
        self.0.iter().any(|version| version.archive == archive)
    }

    /// Adds a version that served before all others.
    pub fn insert_oldest(&mut self, version: Version) {
        self.0.insert(0, version);
    }

    /// Takes up that a version serves from a moment on, if that is known.
    pub fn serve(&mut self, version: Version, since: Option<u64>) {
        if self
            .0
            .last()
            .is_some_and(|last| last.archive == version.archive)
        {
            return;
        }
        if let Some(last) = self.0.last_mut() {
            last.until = since.or(last.until);
        }
        self.0.retain(|one| one.archive != version.archive);
        self.0.push(Version {
            since,
            until: None,
            ..version
        });
    }

    /// Takes off the oldest versions beyond the [limit](LIMIT), and returns them.
    pub fn drain_surplus(&mut self) -> Vec<Version> {
        let surplus = self.0.len().saturating_sub(LIMIT);
        self.0.drain(..surplus).collect()
    }

    /// The version to go back to: the last good one, or the one that the text names by its version, its
    /// revision, or the beginning of its image or archive.
    ///
    /// # Errors
    ///
    /// When there is none, or more than one.
    pub fn choose(&self, wanted: Option<&str>) -> Result<&Version, ChoiceError> {
        let Some((running, earlier)) = self.0.split_last() else {
            return Err(ChoiceError::NoEarlier);
        };
        let Some(wanted) = wanted else {
            return earlier.last().ok_or(ChoiceError::NoEarlier);
        };
        let matching: Vec<&Version> = self.0.iter().filter(|one| matches(one, wanted)).collect();
        match &matching[..] {
            [] => Err(ChoiceError::Unknown {
                wanted: wanted.to_owned(),
                kept: labels(&self.0.iter().collect::<Vec<_>>()),
            }),
            [one] if *one == running => Err(ChoiceError::Runs(label(one))),
            [one] => Ok(one),
            several => Err(ChoiceError::Ambiguous {
                wanted: wanted.to_owned(),
                matching: labels(several),
            }),
        }
    }
}

fn matches(version: &Version, wanted: &str) -> bool {
    let hex = |digest: &str| digest.strip_prefix("sha256:").unwrap_or(digest).to_owned();
    let begins = hex(wanted);
    let digests = [&version.image, &version.archive];
    version.version == wanted
        || version.revision == wanted
        || (begins.len() >= SHORTEST_DIGEST
            && digests
                .iter()
                .any(|digest| hex(digest).starts_with(&begins)))
}

/// A version in the words of `outpost history`: its version and the beginning of its image.
pub fn label(version: &Version) -> String {
    format!("{} ({})", version.version, short(&version.image))
}

/// The beginning of a digest, long enough for people.
pub fn short(digest: &str) -> &str {
    let hex = digest.strip_prefix("sha256:").unwrap_or(digest);
    hex.get(..SHORT).unwrap_or(hex)
}

/// The digits of a digest that people see, as podman shows them.
const SHORT: usize = 12;

fn labels(versions: &[&Version]) -> String {
    let labels: Vec<String> = versions.iter().map(|version| label(version)).collect();
    labels.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A version whose digests begin with its number.
    fn version(number: u8) -> Version {
        Version {
            version: format!("0.{number}.0"),
            revision: format!("r{number}"),
            image: format!("sha256:{number:0>4}aaaa"),
            archive: format!("{number:0>4}bbbb"),
            ..Version::default()
        }
    }

    fn after(numbers: &[u8]) -> Versions {
        let mut versions = Versions::default();
        for (at, number) in (1_u64..).zip(numbers) {
            versions.serve(version(*number), Some(at));
        }
        versions
    }

    fn chosen(versions: &Versions, wanted: Option<&str>) -> Result<String, ChoiceError> {
        versions.choose(wanted).map(|one| one.version.clone())
    }

    #[test]
    fn the_last_good_version_is_the_one_that_served_before() {
        assert_eq!(chosen(&after(&[]), None), Err(ChoiceError::NoEarlier));
        assert_eq!(chosen(&after(&[1]), None), Err(ChoiceError::NoEarlier));
        assert_eq!(chosen(&after(&[1, 2]), None), Ok("0.1.0".to_owned()));
        assert_eq!(chosen(&after(&[1, 2, 1]), None), Ok("0.2.0".to_owned()));
        let times: Vec<_> = after(&[1, 2, 2, 1])
            .as_slice()
            .iter()
            .map(|one| (one.version.clone(), one.since, one.until))
            .collect();
        let expected = [
            ("0.2.0".to_owned(), Some(2), Some(4)),
            ("0.1.0".to_owned(), Some(4), None),
        ];
        assert_eq!(times, expected);
    }

    #[test]
    fn a_version_is_named_by_any_of_its_names() {
        let mut versions = after(&[1, 2, 3]);
        for (wanted, expected) in [
            ("0.1.0", "0.1.0"),
            ("r2", "0.2.0"),
            ("0002", "0.2.0"),
            ("sha256:0001aa", "0.1.0"),
            ("0001bb", "0.1.0"),
        ] {
            assert_eq!(
                chosen(&versions, Some(wanted)).as_deref(),
                Ok(expected),
                "{wanted}"
            );
        }
        for (wanted, expected) in [
            ("0.3.0", "0.3.0 (0003aaaa) runs already"),
            (
                "0.4.0",
                "the node keeps no version 0.4.0; \
                 it keeps 0.1.0 (0001aaaa), 0.2.0 (0002aaaa), 0.3.0 (0003aaaa)",
            ),
            (
                "000",
                "the node keeps no version 000; \
                 it keeps 0.1.0 (0001aaaa), 0.2.0 (0002aaaa), 0.3.0 (0003aaaa)",
            ),
        ] {
            let error = versions.choose(Some(wanted)).unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
        let another_build = Version {
            version: "0.1.0".to_owned(),
            ..version(4)
        };
        versions.insert_oldest(another_build);
        let error = versions.choose(Some("0.1.0")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "0.1.0 can be 0.1.0 (0004aaaa), 0.1.0 (0001aaaa); \
             name one by the beginning of its image"
        );
        assert_eq!(versions.choose(Some("0004")).unwrap().revision, "r4");
    }

    #[test]
    fn neither_the_one_that_runs_nor_the_last_good_one_is_removed() {
        let mut versions = Versions::default();
        for number in 0..=200 {
            // Every third swap is a way back.
            let back = (number % 3 == 0).then(|| versions.choose(None).ok().cloned());
            let next = back.flatten().unwrap_or_else(|| version(number));
            let before = versions.as_slice().last().cloned();
            versions.serve(next.clone(), None);
            let removed = versions.drain_surplus();
            assert!(versions.as_slice().len() <= LIMIT);
            assert_eq!(versions.as_slice().last().unwrap().archive, next.archive);
            for kept in [Some(next), before].into_iter().flatten() {
                assert!(versions.has(&kept.archive), "{number}");
                assert!(removed.iter().all(|one| one.archive != kept.archive));
            }
        }
        assert_eq!(versions.as_slice().len(), LIMIT);
    }
}
