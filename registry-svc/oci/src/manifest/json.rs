//! Manifests as JSON: only the members that refer to something are read, so that a document of any
//! size costs no more memory than its references.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{ManifestError, OCI_INDEX};

/// The members that matter, of any kind of manifest. Whatever else is there is skipped.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Document {
    pub(super) schema_version: Option<u64>,
    pub(super) media_type: Option<String>,
    pub(super) artifact_type: Option<String>,
    pub(super) config: Option<Descriptor>,
    pub(super) layers: Option<Vec<Descriptor>>,
    pub(super) blobs: Option<Vec<Descriptor>>,
    pub(super) manifests: Option<Vec<Descriptor>>,
    pub(super) subject: Option<Descriptor>,
    pub(super) annotations: Option<BTreeMap<String, String>>,
}

/// A descriptor as it is written.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Descriptor {
    #[serde(default)]
    pub(super) media_type: String,
    pub(super) digest: String,
    #[serde(default)]
    pub(super) size: u64,
    pub(super) artifact_type: Option<String>,
    pub(super) annotations: Option<BTreeMap<String, String>>,
}

/// The rest of a document of an unknown kind, whose members mean something else.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Typed {
    media_type: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Index<'a> {
    schema_version: u8,
    media_type: &'static str,
    manifests: Vec<Entry<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Entry<'a> {
    media_type: &'a str,
    digest: String,
    size: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    artifact_type: Option<&'a str>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    annotations: &'a BTreeMap<String, String>,
}

pub(super) fn document(bytes: &[u8]) -> Result<Document, ManifestError> {
    read(bytes)
}

/// Only what a document of an unknown kind says of itself.
pub(super) fn only_type(bytes: &[u8]) -> Result<Document, ManifestError> {
    let typed: Typed = read(bytes)?;
    Ok(Document {
        media_type: typed.media_type,
        ..Document::default()
    })
}

/// A derived reader takes an array for an object whose members come in order; JSON's manifests are objects.
fn read<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, ManifestError> {
    let first = bytes.iter().find(|octet| !octet.is_ascii_whitespace());
    if first != Some(&b'{') {
        return Err(ManifestError::Malformed("it is no JSON object".to_owned()));
    }
    serde_json::from_slice(bytes).map_err(|error| ManifestError::Malformed(error.to_string()))
}

pub(super) fn index(descriptors: &[super::Descriptor]) -> Vec<u8> {
    let index = Index {
        schema_version: 2,
        media_type: OCI_INDEX,
        manifests: descriptors.iter().map(Entry::of).collect(),
    };
    serde_json::to_vec(&index).unwrap_or_default()
}

impl<'a> Entry<'a> {
    fn of(descriptor: &'a super::Descriptor) -> Self {
        Self {
            media_type: &descriptor.media_type,
            digest: descriptor.digest.to_string(),
            size: descriptor.size,
            artifact_type: descriptor.artifact_type.as_deref(),
            annotations: &descriptor.annotations,
        }
    }
}
