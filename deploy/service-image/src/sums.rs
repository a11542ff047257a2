//! `SHA256SUMS`, as `sha256sum` writes and checks it: a digest, two spaces, a name.

use std::collections::BTreeMap;
use std::fmt;

use crate::digest::Sha256;

/// Files and their digests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sums(BTreeMap<String, Sha256>);

/// A line that such a file cannot have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: a digest, two spaces and a file name are wanted")]
pub struct BadLine {
    /// Its number, from 1.
    pub line: usize,
}

impl Sums {
    /// Reads such a file.
    ///
    /// # Errors
    ///
    /// When a line is not of this form, or a name is more than a name.
    pub fn parse(text: &str) -> Result<Self, BadLine> {
        let mut sums = Self::default();
        for (line, text) in (1..).zip(text.lines()) {
            let (name, digest) = entry(text).ok_or(BadLine { line })?;
            sums.0.insert(name, digest);
        }
        Ok(sums)
    }

    /// The digest of a file, if it is listed.
    #[must_use]
    pub fn of(&self, name: &str) -> Option<Sha256> {
        self.0.get(name).copied()
    }

    /// Lists a file, in the place of what was listed under its name.
    pub fn set(&mut self, name: &str, digest: Sha256) {
        self.0.insert(name.to_owned(), digest);
    }

    /// Lists a file no more.
    pub fn remove(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// The names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

impl fmt::Display for Sums {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .try_for_each(|(name, digest)| writeln!(f, "{digest}  {name}"))
    }
}

fn entry(line: &str) -> Option<(String, Sha256)> {
    // A star says that the file was read as binary, which is the same here.
    let (digest, name) = line.split_once("  ").or_else(|| line.split_once(" *"))?;
    let is_plain = !name.is_empty() && name != "." && name != ".." && !name.contains('/');
    is_plain
        .then(|| digest.parse().ok())
        .flatten()
        .map(|digest| (name.to_owned(), digest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let mut sums = Sums::default();
        sums.set("b.tar", Sha256::of(b"b"));
        sums.set("a.tar", Sha256::of(b"a"));
        let text = sums.to_string();
        assert!(
            text.lines()
                .next()
                .is_some_and(|line| line.ends_with("  a.tar"))
        );
        assert_eq!(Sums::parse(&text), Ok(sums.clone()));
        assert_eq!(Sums::parse(&text.replace("  ", " *")), Ok(sums));
    }

    #[test]
    fn a_wrong_line_is_named() {
        let good = format!("{}  a.tar\n", Sha256::of(b"a"));
        for wrong in ["x  a.tar", "", &format!("{}  ../a", Sha256::of(b"a"))] {
            let text = format!("{good}{wrong}\n");
            assert_eq!(Sums::parse(&text), Err(BadLine { line: 2 }), "{wrong:?}");
        }
    }
}
