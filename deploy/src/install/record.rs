//! The record of an installation: written before anything is changed and again when all is done, so that
//! a run that was killed is finished by the next, and everything can be taken away again.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use durable::Rights;
use service_image::digest::Sha256;
use site_bundle::manifest::{BundleRuntime, Version};
use site_bundle::reader::Bundle;

/// An installation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Record {
    /// The version of this form.
    pub(crate) version: Version,
    /// The node that this is.
    pub(crate) node: String,
    /// The site's domain.
    pub(crate) domain: String,
    /// The digest of the bundle's manifest.
    pub(crate) bundle: Sha256,
    /// The generation of the bundle.
    #[serde(default)]
    pub(crate) generation: u64,
    /// The highest generation that was ever installed.
    #[serde(default)]
    pub(crate) highest: u64,
    /// How the services run.
    pub(crate) runtime: BundleRuntime,
    /// The services, by name.
    pub(crate) services: Vec<String>,
    /// Every file that was written, or was about to be.
    pub(crate) files: BTreeMap<PathBuf, RecordFile>,
    /// Directories that were made.
    pub(crate) directories: BTreeSet<PathBuf>,
    /// Every unit that was enabled.
    pub(crate) units: BTreeSet<String>,
    /// The remaining steps, in words.
    pub(crate) pending: BTreeSet<String>,
    /// Units of others that ran, and were stopped.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) halted: BTreeSet<String>,
}

/// A file that was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct RecordFile {
    /// The digest of the written file.
    pub(crate) sha256: Sha256,
    /// The file of others that was there before, kept below `before/` under its digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) before: Option<Foreign>,
}

/// A file that was there before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Foreign {
    /// The digest of its content.
    pub(crate) sha256: Sha256,
    /// Its permissions.
    pub(crate) mode: u32,
    /// Its user and group.
    pub(crate) owner: (u32, u32),
}

impl Record {
    /// Reads the record below `root`; none if nothing was installed.
    ///
    /// # Errors
    ///
    /// When it cannot be read or understood: then do nothing, since our files are unknown.
    pub(crate) fn read(root: &Path) -> anyhow::Result<Option<Self>> {
        let path = directory(root).join(NAME);
        let text = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.with_context(|| format!("cannot read {}", path.display()))?,
        };
        let record = serde_json::from_slice(&text)
            .with_context(|| format!("{} cannot be understood", path.display()))?;
        Ok(Some(record))
    }

    /// Notes the bundle that is installed.
    pub(crate) fn note(&mut self, bundle: &Bundle<impl Read + Seek>) {
        self.bundle = Sha256::of(bundle.signed().0);
        self.generation = bundle.manifest().generation;
        self.highest = self.highest.max(self.generation);
    }

    /// Writes it.
    ///
    /// # Errors
    ///
    /// When the disk refuses.
    pub(crate) fn write(&self, root: &Path) -> anyhow::Result<()> {
        let text = serde_json::to_vec_pretty(self).context("cannot write what is installed")?;
        durable::write(&directory(root).join(NAME), Rights::PRIVATE, &text[..])
    }
}

/// The directory of the record and of replaced files.
pub(crate) fn directory(root: &Path) -> PathBuf {
    below(root, Path::new("/var/lib/outpost/install"))
}

/// The path of a replaced file.
pub(crate) fn kept(root: &Path, digest: Sha256) -> PathBuf {
    directory(root).join("before").join(digest.to_string())
}

/// A path of a node whose root is elsewhere.
pub(crate) fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

const NAME: &str = "record.json";
