//! Names of images in archives, and what they are called here.
//!
//! Archives name images as the tools that wrote them did: `quay.example.org/group/image:tag`,
//! `image:tag`, a tag alone, a digest, or nothing. The host that an image came from is left out of
//! its repository's name unless `--keep-host` is given, as `skopeo sync` and `oc mirror` do.

use std::fmt;

use oci::digest::Digest;
use oci::glob::fits;
use oci::reference::{RepositoryName, Tag};

/// The name of an image in an archive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageName {
    /// The registry it came from.
    pub host: Option<String>,
    /// Its repository there.
    pub repository: Option<RepositoryName>,
    /// Its tag.
    pub tag: Option<Tag>,
    /// Its digest.
    pub digest: Option<Digest>,
}

impl ImageName {
    /// Reads `[host/]repository[:tag][@digest]`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (named, digest) = match text.split_once('@') {
            Some((named, digest)) => (named, Some(digest.parse().ok()?)),
            None => (text, None),
        };
        let last = named.rfind('/').map_or(0, |slash| slash + 1);
        let colon = named.get(last..)?.find(':').map(|colon| last + colon);
        let (path, tag) = match colon {
            Some(colon) => (named.get(..colon)?, Some(named.get(colon + 1..)?)),
            None => (named, None),
        };
        let (host, repository) = match path.split_once('/') {
            Some((first, rest)) if is_host(first) => (Some(first.to_owned()), rest),
            _ => (None, path),
        };
        Some(Self {
            host,
            repository: Some(repository.parse().ok()?),
            tag: tag.map(str::parse).transpose().ok()?,
            digest,
        })
    }

    /// Reads what `org.opencontainers.image.ref.name` says: a tag alone, or all of a name.
    #[must_use]
    pub fn parse_reference(text: &str) -> Option<Self> {
        let is_whole = text.contains(['/', ':', '@']);
        match is_whole {
            true => Self::parse(text),
            false => Some(Self {
                tag: Some(text.parse().ok()?),
                ..Self::default()
            }),
        }
    }
}

impl fmt::Display for ImageName {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(host) = &self.host {
            write!(to, "{host}/")?;
        }
        match &self.repository {
            Some(repository) => write!(to, "{}", repository.as_str())?,
            None => to.write_str("(no name)")?,
        }
        if let Some(tag) = &self.tag {
            write!(to, ":{}", tag.as_str())?;
        }
        match &self.digest {
            Some(digest) => write!(to, "@{digest}"),
            None => Ok(()),
        }
    }
}

/// A first component is a host if it cannot be one of a repository, or is the one host without a dot.
fn is_host(component: &str) -> bool {
    component == "localhost" || component.contains(['.', ':'])
}

/// The local names of an archive's images.
#[derive(Clone, Debug, Default)]
pub struct Naming {
    /// The prefix of each repository's name; the whole name of an image without one.
    pub prefix: Option<RepositoryName>,
    /// Whether the host that an image came from is part of the name.
    pub host: Host,
    /// The name of the only image, instead of the name in the archive.
    pub exactly: Option<ImageName>,
}

/// The treatment of the host that an image came from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Host {
    /// It is left out.
    #[default]
    Left,
    /// It is the first component of the repository's name.
    Kept,
}

/// Why an image has no name here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NamingError {
    /// The archive gives none.
    #[error("the archive gives it no name: say one with --as or --repository")]
    Nameless,
    /// It is none that a repository can have.
    #[error("{0} is no name of a repository")]
    NotARepository(String),
}

impl Naming {
    /// The repository of an image.
    ///
    /// # Errors
    ///
    /// When the image has no name, or what it would be called is none.
    pub fn repository(&self, name: &ImageName) -> Result<RepositoryName, NamingError> {
        let exact = self
            .exactly
            .as_ref()
            .and_then(|name| name.repository.as_ref());
        if let Some(exact) = exact {
            return Ok(exact.clone());
        }
        let host = match (self.host, &name.host) {
            // A port is no part of a repository's name.
            (Host::Kept, Some(host)) => Some(host.replace(':', "-").to_ascii_lowercase()),
            _ => None,
        };
        let parts = [
            self.prefix.as_ref().map(RepositoryName::as_str),
            host.as_deref(),
            name.repository.as_ref().map(RepositoryName::as_str),
        ];
        let nothing = self.prefix.is_none() && name.repository.is_none();
        if nothing {
            return Err(NamingError::Nameless);
        }
        let whole = parts.into_iter().flatten().collect::<Vec<_>>().join("/");
        whole
            .parse()
            .map_err(|_| NamingError::NotARepository(whole))
    }

    /// The tag of an image, if it has one.
    #[must_use]
    pub fn tag(&self, name: &ImageName) -> Option<Tag> {
        let exact = self.exactly.as_ref().and_then(|name| name.tag.as_ref());
        exact.or(name.tag.as_ref()).cloned()
    }
}

/// A selection of images by patterns: `*` stands for anything but a slash, `**` for anything.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Patterns of repositories' names here; none stands for all.
    pub repositories: Vec<String>,
    /// Patterns of tags; none stands for all, and for images without a tag.
    pub tags: Vec<String>,
}

impl Selection {
    /// Whether images of this repository may be wanted.
    #[must_use]
    pub fn wants_repository(&self, name: &RepositoryName) -> bool {
        is_any(&self.repositories, name.as_str())
    }

    /// Whether an image of this tag is wanted.
    #[must_use]
    pub fn wants_tag(&self, tag: Option<&Tag>) -> bool {
        match tag {
            Some(tag) => is_any(&self.tags, tag.as_str()),
            None => self.tags.is_empty(),
        }
    }
}

fn is_any(patterns: &[String], text: &str) -> bool {
    patterns.is_empty()
        || patterns
            .iter()
            .any(|pattern| fits(pattern.as_bytes(), text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    fn shown(name: &ImageName) -> [Option<String>; 4] {
        [
            name.host.clone(),
            name.repository
                .as_ref()
                .map(|name| name.as_str().to_owned()),
            name.tag.as_ref().map(|tag| tag.as_str().to_owned()),
            name.digest.as_ref().map(ToString::to_string),
        ]
    }

    #[test]
    fn names_are_taken_apart() {
        let with_digest = format!("quay.example.org/a@{DIGEST}");
        let both = format!("a:1@{DIGEST}");
        let table: [(&str, [Option<&str>; 4]); 9] = [
            ("alpine", [None, Some("alpine"), None, None]),
            ("alpine:3", [None, Some("alpine"), Some("3"), None]),
            (
                "library/alpine:3",
                [None, Some("library/alpine"), Some("3"), None],
            ),
            (
                "localhost/a:b",
                [Some("localhost"), Some("a"), Some("b"), None],
            ),
            (
                "quay.example.org/a/b:c",
                [Some("quay.example.org"), Some("a/b"), Some("c"), None],
            ),
            ("host:5000/a", [Some("host:5000"), Some("a"), None, None]),
            (
                "host:5000/a:5",
                [Some("host:5000"), Some("a"), Some("5"), None],
            ),
            (
                &with_digest,
                [Some("quay.example.org"), Some("a"), None, Some(DIGEST)],
            ),
            (&both, [None, Some("a"), Some("1"), Some(DIGEST)]),
        ];
        for (text, expected) in table {
            let name = ImageName::parse(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(
                shown(&name),
                expected.map(|part| part.map(str::to_owned)),
                "{text}"
            );
            assert_eq!(name.to_string(), text);
        }
        for text in ["", ":1", "A", "a:", "a@b", "a/", "host:5000/", "a b"] {
            assert_eq!(ImageName::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_reference_may_be_a_tag_alone() {
        let tag = ImageName::parse_reference("v1.0").unwrap();
        assert_eq!(shown(&tag), [None, None, Some("v1.0".to_owned()), None]);
        let whole = ImageName::parse_reference("docker.io/library/a:1").unwrap();
        assert_eq!(whole.repository.unwrap().as_str(), "library/a");
        assert_eq!(ImageName::parse_reference("-"), None);
    }

    #[test]
    fn images_get_names_here() {
        let prefix: Option<RepositoryName> = Some("mirror/x".parse().unwrap());
        let quay = ImageName::parse("quay.example.org:443/a/b:1").unwrap();
        let nameless = ImageName::default();
        let exactly = ImageName::parse("other:2");
        let table = [
            (None, Host::Left, None, &quay, Ok("a/b")),
            (
                None,
                Host::Kept,
                None,
                &quay,
                Ok("quay.example.org-443/a/b"),
            ),
            (prefix.clone(), Host::Left, None, &quay, Ok("mirror/x/a/b")),
            (
                prefix.clone(),
                Host::Kept,
                None,
                &quay,
                Ok("mirror/x/quay.example.org-443/a/b"),
            ),
            (prefix.clone(), Host::Left, None, &nameless, Ok("mirror/x")),
            (prefix, Host::Left, exactly, &quay, Ok("other")),
            (
                None,
                Host::Left,
                None,
                &nameless,
                Err(NamingError::Nameless),
            ),
        ];
        for (prefix, host, exactly, name, expected) in table {
            let naming = Naming {
                prefix,
                host,
                exactly,
            };
            let repository = naming.repository(name);
            let repository = repository.as_ref().map(RepositoryName::as_str);
            assert_eq!(repository, expected.as_ref().copied(), "{naming:?}");
        }
    }

    #[test]
    fn patterns_stop_at_slashes_unless_doubled() {
        let table = [
            ("*", "a", true),
            ("*", "a/b", false),
            ("**", "a/b", true),
            ("a/*", "a/b", true),
            ("a/*", "a/b/c", false),
            ("a/**", "a/b/c", true),
            ("**/c", "a/b/c", true),
            ("**/*x", "a/b/cx", true),
            ("**/*x/d", "a/bx/cx/d", true),
            ("a*c", "abbc", true),
            ("a*c", "abbd", false),
            ("4.1?", "4.17", true),
            ("4.1?", "4.1", false),
            ("*-x86_64", "4.17.3-x86_64", true),
            ("", "", true),
            ("", "a", false),
            ("**a**b", "xaxxb", true),
            ("**a**b", "xaxx", false),
        ];
        for (pattern, text, expected) in table {
            assert_eq!(
                fits(pattern.as_bytes(), text.as_bytes()),
                expected,
                "{pattern} {text}"
            );
        }
    }

    #[test]
    fn a_selection_of_tags_leaves_out_what_has_none() {
        let all = Selection::default();
        let some = Selection {
            tags: vec!["4.*".to_owned()],
            ..Selection::default()
        };
        let tag: Tag = "4.17".parse().unwrap();
        assert!(all.wants_tag(None) && all.wants_tag(Some(&tag)));
        assert!(!some.wants_tag(None) && some.wants_tag(Some(&tag)));
    }
}
