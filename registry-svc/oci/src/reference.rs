//! Names: repositories, tags and references (distribution-spec, "Pulling manifests").
//!
//! What is of one of these types has been checked against its grammar, so it may go into a path, a
//! header or a key without another look.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use thiserror::Error;

use crate::digest::{Digest, DigestError};

/// Why a text is no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NameError {
    /// Not `[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(\/…)*`, or too long.
    #[error("not a name of a repository")]
    Repository,
    /// Not `[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}`.
    #[error("not a tag")]
    Tag,
    /// Not a digest, where the colon says that it is to be one.
    #[error(transparent)]
    Digest(#[from] DigestError),
}

//--- Repositories

/// The name of a repository, such as `ocp4/release`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RepositoryName(Arc<str>);

impl RepositoryName {
    /// The longest name: clients limit host and name together to this.
    pub const LONGEST: usize = 255;

    /// As it is written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for RepositoryName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let fits = text.len() <= Self::LONGEST && text.split('/').all(is_component);
        fits.then(|| Self(text.into())).ok_or(NameError::Repository)
    }
}

/// One component: words of lower-case letters and digits with one separator between each two.
fn is_component(text: &str) -> bool {
    let is_word = |octet: &u8| octet.is_ascii_lowercase() || octet.is_ascii_digit();
    let mut rest = text.as_bytes();
    loop {
        let n_word = rest.iter().take_while(|octet| is_word(octet)).count();
        let (word, after) = rest.split_at(n_word);
        if word.is_empty() {
            return false;
        }
        let n_separator = after.iter().take_while(|octet| !is_word(octet)).count();
        let (separator, next) = after.split_at(n_separator);
        match separator {
            [] => return true,
            [b'.'] | [b'_'] | [b'_', b'_'] => {}
            hyphens if hyphens.iter().all(|&octet| octet == b'-') => {}
            _ => return false,
        }
        rest = next;
    }
}

//--- Tags and references

/// A tag, such as `4.17.3-x86_64`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(Arc<str>);

impl Tag {
    /// The longest tag.
    pub const LONGEST: usize = 128;

    /// As it is written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Tag {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let is_word = |octet: u8| octet.is_ascii_alphanumeric() || octet == b'_';
        let is_more = |octet: u8| is_word(octet) || octet == b'.' || octet == b'-';
        let fits = text.len() <= Self::LONGEST
            && text.bytes().next().is_some_and(is_word)
            && text.bytes().all(is_more);
        fits.then(|| Self(text.into())).ok_or(NameError::Tag)
    }
}

/// What a request names a manifest by.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reference {
    /// By the tag that points to it.
    Tag(Tag),
    /// By what it is.
    Digest(Digest),
}

impl Reference {
    /// The tag, if it is one.
    #[must_use]
    pub fn tag(&self) -> Option<&Tag> {
        match self {
            Self::Tag(tag) => Some(tag),
            Self::Digest(_) => None,
        }
    }

    /// The digest, if it is one.
    #[must_use]
    pub fn digest(&self) -> Option<&Digest> {
        match self {
            Self::Tag(_) => None,
            Self::Digest(digest) => Some(digest),
        }
    }
}

impl FromStr for Reference {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        // A tag has no colon, a digest always has one.
        if text.contains(':') {
            Ok(Self::Digest(text.parse()?))
        } else {
            Ok(Self::Tag(text.parse()?))
        }
    }
}

//--- Text

/// Names print as they are written, to people and to programmers.
macro_rules! shown_as_written {
    ($($name:ident),*) => { $(
        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.pad(self.as_str())
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                self.as_str()
            }
        }
    )* };
}

/// A programmer sees what people see.
macro_rules! debug_as_displayed {
    ($($name:ident),*) => { $(
        impl fmt::Debug for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, formatter)
            }
        }
    )* };
}

shown_as_written!(RepositoryName, Tag);
debug_as_displayed!(RepositoryName, Tag, Reference);

impl fmt::Display for Reference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tag(tag) => tag.fmt(formatter),
            Self::Digest(digest) => fmt::Display::fmt(digest, formatter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repositories_are_named_by_the_grammar() {
        let longest = "a".repeat(RepositoryName::LONGEST);
        let good = [
            "a",
            "a/b",
            "a.b",
            "a_b",
            "a__b",
            "a-b",
            "a---b",
            "ocp4/release",
            "0/1/2",
            "a-b.c_d/e",
            &longest,
        ];
        for text in good {
            let name: RepositoryName = text.parse().unwrap();
            assert_eq!(name.to_string(), text);
        }
        let too_long = "a".repeat(RepositoryName::LONGEST + 1);
        let bad = [
            "", "/", "a/", "/a", "a//b", "A", "a..b", "a___b", "a._b", "a-_b", "-a", "a-", ".",
            "..", "a/../b", "a b", "a\0", "é", "_a", "a/_b", &too_long,
        ];
        for text in bad {
            assert!(text.parse::<RepositoryName>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_reference_is_a_digest_where_it_has_a_colon() {
        let hex = "ab".repeat(32);
        let digest = format!("sha256:{hex}");
        assert!(matches!(digest.parse(), Ok(Reference::Digest(_))));
        assert!(matches!("latest".parse(), Ok(Reference::Tag(_))));
        assert!(matches!(
            format!("sha256-{hex}").parse(),
            Ok(Reference::Tag(_))
        ));
        let longest = "x".repeat(Tag::LONGEST);
        assert!(longest.parse::<Tag>().is_ok());
        let too_long = format!("{longest}x");
        for bad in ["", ".a", "-a", "a/b", "a b", "sha256:ab", "a:b", &too_long] {
            assert!(bad.parse::<Reference>().is_err(), "{bad}");
        }
    }
}
