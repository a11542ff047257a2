//! Exports: an OCI layout, which every tool reads, or the data directory of a distribution registry.

use std::collections::BTreeMap;

use oci::digest::Digest;
use oci::reference::{RepositoryName, Tag};
use parking_lot::{Mutex, MutexGuard};
use registry_archive::distribution;
use registry_archive::layout;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio_stream::StreamExt as _;

use crate::TransferError;
use crate::sink::Copied;
use crate::source::Source;
use crate::tree::{Tree, TreeError};

/// Pieces read ahead of what is written.
const AHEAD: usize = 4;

/// The form of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// An OCI image layout.
    Oci,
    /// A data directory of distribution.
    Distribution,
}

/// A directory or a tar archive that is written.
#[derive(Debug)]
pub struct TreeSink {
    tree: std::sync::Arc<Tree>,
    layout: Layout,
    /// The entries of an OCI layout's index, by repository and tag or digest.
    index: Mutex<BTreeMap<(String, String), Value>>,
}

impl TreeSink {
    pub(super) fn new(tree: Tree, layout: Layout) -> Result<Self, TransferError> {
        let mut index = BTreeMap::new();
        if layout == Layout::Oci {
            if let Some(octets) = tree.read(layout::INDEX) {
                index = listed(&octets).ok_or(TransferError::OtherIndex)?;
            }
            tree.put(layout::MARKER, br#"{"imageLayoutVersion":"1.0.0"}"#)?;
        }
        Ok(Self {
            tree: std::sync::Arc::new(tree),
            layout,
            index: Mutex::new(index),
        })
    }

    pub(super) fn is_sequential(&self) -> bool {
        self.tree.is_sequential()
    }

    pub(super) fn has_image(
        &self,
        repository: &RepositoryName,
        digest: &Digest,
        tag: Option<&Tag>,
    ) -> bool {
        match self.layout {
            Layout::Oci => {
                let index = self.index();
                let listed = index.get(&key(repository, digest, tag));
                let says = listed.and_then(|descriptor| descriptor.get("digest")?.as_str());
                says == Some(&digest.to_string()) && self.has_blob(repository, digest)
            }
            Layout::Distribution => {
                let revision = self.tree.size(&revision(repository, digest)).is_some();
                let points = tag.is_none_or(|tag| {
                    let link = self.tree.read(&current(repository, tag));
                    link.is_some_and(|link| link == digest.to_string().as_bytes())
                });
                revision && points
            }
        }
    }

    pub(super) fn has_blob(&self, _: &RepositoryName, digest: &Digest) -> bool {
        self.tree.size(&self.blob(digest)).is_some()
    }

    fn blob(&self, digest: &Digest) -> String {
        let (algorithm, hex) = (digest.algorithm(), digest.hex());
        match self.layout {
            Layout::Oci => format!("blobs/{algorithm}/{hex}"),
            Layout::Distribution => {
                let shard = hex.get(..2).unwrap_or_default();
                format!("{}blobs/{algorithm}/{shard}/{hex}/data", distribution::TOP)
            }
        }
    }

    pub(super) async fn put_blob(&self, source: &Source) -> Result<(), TransferError> {
        let mut body = source.open(0).await?;
        let (sender, mut receiver) = mpsc::channel(AHEAD);
        let tree = std::sync::Arc::clone(&self.tree);
        let (name, digest, size) = (self.blob(&source.digest), source.digest, source.size);
        let writing = spawn_blocking(move || {
            let pieces = std::iter::from_fn(|| receiver.blocking_recv());
            tree.put_blob(&name, &digest, size, pieces)
        });
        while let Some(piece) = body.next().await {
            if sender.send(piece).await.is_err() {
                break;
            }
        }
        drop(sender);
        match writing.await {
            Ok(written) => written.map_err(TransferError::from),
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }

    pub(super) fn put_manifest(
        &self,
        repository: &RepositoryName,
        copied: &Copied,
    ) -> Result<(), TransferError> {
        let digest = &copied.digest;
        if !self.has_blob(repository, digest) {
            self.put(&self.blob(digest), &copied.document.bytes)?;
        }
        if self.layout == Layout::Distribution {
            for blob in copied.manifest.closure.kept() {
                let is_there = self.has_blob(repository, blob);
                if is_there && !copied.manifest.closure.manifests.contains(blob) {
                    let name = layer(repository, blob);
                    self.put(&name, blob.to_string().as_bytes())?;
                }
            }
            self.put(&revision(repository, digest), digest.to_string().as_bytes())?;
        }
        Ok(())
    }

    pub(super) fn name_image(
        &self,
        repository: &RepositoryName,
        copied: &Copied,
        tag: Option<&Tag>,
    ) -> Result<(), TransferError> {
        let digest = copied.digest.to_string();
        match (self.layout, tag) {
            (Layout::Oci, tag) => {
                let name = match tag {
                    Some(tag) => format!("{}:{}", repository.as_str(), tag.as_str()),
                    None => format!("{}@{digest}", repository.as_str()),
                };
                let descriptor = json!({
                    "mediaType": copied.manifest.media_type,
                    "digest": digest,
                    "size": copied.document.bytes.len(),
                    "annotations": { layout::CONTAINERD_NAME: name },
                });
                let key = key(repository, &copied.digest, tag);
                self.index().insert(key, descriptor);
            }
            (Layout::Distribution, Some(tag)) => {
                let path = tag_path(repository, tag);
                let of_index = link_path(&format!("{path}/index"), &copied.digest);
                self.put(&of_index, digest.as_bytes())?;
                self.put(&current(repository, tag), digest.as_bytes())?;
            }
            (Layout::Distribution, None) => {}
        }
        Ok(())
    }

    pub(super) fn finish(&self) -> Result<(), TransferError> {
        if self.layout == Layout::Oci {
            let index = index_of(&self.index());
            self.tree.put(layout::INDEX, index.to_string().as_bytes())?;
        }
        Ok(self.tree.finish()?)
    }

    /// Writes a small file once: in a tar archive a second one would only make it longer.
    fn put(&self, name: &str, octets: &[u8]) -> Result<(), TreeError> {
        let is_there = match self.tree.is_sequential() {
            true => self.tree.size(name).is_some(),
            false => self.tree.read(name).is_some_and(|there| there == octets),
        };
        match is_there {
            true => Ok(()),
            false => self.tree.put(name, octets),
        }
    }

    fn index(&self) -> MutexGuard<'_, BTreeMap<(String, String), Value>> {
        self.index.lock()
    }
}

//--- OCI layout

/// Repository, and tag or digest.
fn key(repository: &RepositoryName, digest: &Digest, tag: Option<&Tag>) -> (String, String) {
    let reference = match tag {
        Some(tag) => tag.as_str().to_owned(),
        None => digest.to_string(),
    };
    (repository.as_str().to_owned(), reference)
}

/// The entries of an index, by the names that [`TreeSink::name_image`] gives; an entry of another
/// tool stays under its digest.
fn listed(octets: &[u8]) -> Option<BTreeMap<(String, String), Value>> {
    let mut index: Value = serde_json::from_slice(octets).ok()?;
    let Value::Array(descriptors) = index.get_mut("manifests")?.take() else {
        return None;
    };
    let mut found = BTreeMap::new();
    for (number, descriptor) in descriptors.into_iter().enumerate() {
        let name = descriptor.get("annotations");
        let name = name.and_then(|all| all.get(layout::CONTAINERD_NAME)?.as_str());
        let key = match name {
            Some(name) => match name.split_once('@') {
                Some((repository, digest)) => (repository.to_owned(), digest.to_owned()),
                None => {
                    let (repository, tag) = name.rsplit_once(':').unwrap_or((name, ""));
                    (repository.to_owned(), tag.to_owned())
                }
            },
            None => (String::new(), number.to_string()),
        };
        found.insert(key, descriptor);
    }
    Some(found)
}

/// The index. A tag alone is the standard's form, and the one that users of skopeo and podman give,
/// as long as it identifies the image.
fn index_of(images: &BTreeMap<(String, String), Value>) -> Value {
    let named = |key: &&(String, String)| !key.0.is_empty();
    let first = images.keys().find(named).map(|(repository, _)| repository);
    let is_one = images
        .keys()
        .filter(named)
        .all(|(repository, _)| Some(repository) == first);
    let manifests: Vec<Value> = images
        .iter()
        .map(|((repository, reference), descriptor)| {
            let mut descriptor = descriptor.clone();
            let is_tagged = !repository.is_empty() && !reference.contains(':');
            let name = match is_one {
                true => reference.clone(),
                false => format!("{repository}:{reference}"),
            };
            if is_tagged && let Some(annotations) = descriptor.get_mut("annotations") {
                annotations[layout::REF_NAME] = Value::String(name);
            }
            descriptor
        })
        .collect();
    json!({
        "schemaVersion": 2,
        "mediaType": oci::manifest::OCI_INDEX,
        "manifests": manifests,
    })
}

//--- distribution

fn repository_path(repository: &RepositoryName) -> String {
    format!("{}repositories/{}", distribution::TOP, repository.as_str())
}

fn link_path(directory: &str, digest: &Digest) -> String {
    format!("{directory}/{}/{}/link", digest.algorithm(), digest.hex())
}

fn layer(repository: &RepositoryName, digest: &Digest) -> String {
    link_path(&format!("{}/_layers", repository_path(repository)), digest)
}

fn revision(repository: &RepositoryName, digest: &Digest) -> String {
    let directory = format!("{}/_manifests/revisions", repository_path(repository));
    link_path(&directory, digest)
}

fn tag_path(repository: &RepositoryName, tag: &Tag) -> String {
    format!(
        "{}/_manifests/tags/{}",
        repository_path(repository),
        tag.as_str()
    )
}

fn current(repository: &RepositoryName, tag: &Tag) -> String {
    format!("{}/current/link", tag_path(repository, tag))
}
