//! A number that moves with a content, kept beside the site file: one that followed from the content alone would not always grow.

use std::fmt::Display;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context as _, bail};
use durable::Rights;
use service_image::digest::Sha256;

/// The file of a number.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NumberFile {
    /// Its name beside the site file.
    pub(crate) name: &'static str,
    /// The meaning of the number, in a sentence of its own.
    pub(crate) what: &'static str,
    /// The remedy if the file cannot be written.
    pub(crate) remedy: &'static str,
}

/// A number, and the file that has to be written so that it is not used again for other content.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Settled<T> {
    /// The number.
    pub(crate) number: T,
    path: PathBuf,
    remedy: &'static str,
    changed: Option<String>,
}

impl NumberFile {
    /// The number of this content: the last one if that was for the same, else the one after it.
    ///
    /// # Errors
    ///
    /// When the file of the last number cannot be read.
    pub(crate) fn settle<T: Copy + Display + FromStr>(
        &self,
        home: &Path,
        content: &[u8],
        first: T,
        next: impl Fn(T) -> T,
    ) -> anyhow::Result<Settled<T>> {
        let digest = Sha256::of(content).to_oci();
        let (number, is_new) = match last(&home.join(self.name))? {
            Some((number, of)) if of == digest => (number, false),
            Some((number, _)) => (next(number), true),
            None => (first, true),
        };
        Ok(self.settled(home, number, is_new.then_some(&digest)))
    }

    /// This number for the content, whatever the last one was; and the last one, if it was another or for another content.
    ///
    /// # Errors
    ///
    /// When the file of the last number cannot be read.
    pub(crate) fn set<T: Copy + Display + FromStr + PartialEq>(
        &self,
        home: &Path,
        content: &[u8],
        number: T,
    ) -> anyhow::Result<(Settled<T>, Option<T>)> {
        let digest = Sha256::of(content).to_oci();
        let last = last(&home.join(self.name))?;
        let is_new = last.as_ref() != Some(&(number, digest.clone()));
        let settled = self.settled(home, number, is_new.then_some(&digest));
        let before = last.filter(|_| is_new).map(|(last, _)| last);
        Ok((settled, before))
    }

    /// A number; `digest` is that of a content which is not in the file yet.
    fn settled<T: Display>(&self, home: &Path, number: T, digest: Option<&String>) -> Settled<T> {
        let head = format!(
            "# {} outpost writes this file; keep it with site.toml.\n",
            self.what
        );
        let changed = digest.map(|digest| format!("{head}{number} {digest}\n"));
        Settled {
            number,
            path: home.join(self.name),
            remedy: self.remedy,
            changed,
        }
    }
}

impl<T> Settled<T> {
    /// Keeps the number.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub(crate) fn keep(&self) -> anyhow::Result<()> {
        let Some(text) = &self.changed else {
            return Ok(());
        };
        durable::write(&self.path, Rights::PUBLIC, text.as_bytes()).with_context(|| {
            let path = self.path.display();
            format!("cannot keep a number in {path}; {}", self.remedy)
        })
    }
}

/// The last number and the digest of its content.
fn last<T: FromStr>(path: &Path) -> anyhow::Result<Option<(T, String)>> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    let mut lines = text
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty());
    let words = lines.next().and_then(|line| line.split_once(' '));
    let read = words.and_then(|(number, digest)| Some((number.parse().ok()?, digest.to_owned())));
    match read {
        Some(read) => Ok(Some(read)),
        None => bail!(
            "{} has no number; write `1 none` into it, with the number that is in use in the place of 1",
            path.display()
        ),
    }
}
