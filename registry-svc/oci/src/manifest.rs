//! Manifests: their types, and the content that one refers to (OCI image-spec, Docker image
//! manifest version 2 schema 2).
//!
//! Never changes the bytes: the parsed form only says which content has to be there before a
//! manifest becomes visible, which content the sweep keeps for it, and how it shows as a referrer.

mod json;

use std::collections::{BTreeMap, BTreeSet};

use crate::digest::Digest;

/// A manifest, an index or a list. Registries take 4 MiB and more; no tool writes 8.
pub const MAX_DOCUMENT: u64 = 8 << 20;

/// OCI image manifest.
pub const OCI_IMAGE: &str = "application/vnd.oci.image.manifest.v1+json";
/// OCI image index.
pub const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
/// The artifact manifest of image-spec 1.1's release candidates, which some clients still push.
pub const OCI_ARTIFACT: &str = "application/vnd.oci.artifact.manifest.v1+json";
/// Docker image manifest version 2, schema 2.
pub const DOCKER_IMAGE: &str = "application/vnd.docker.distribution.manifest.v2+json";
/// Docker manifest list.
pub const DOCKER_LIST: &str = "application/vnd.docker.distribution.manifest.list.v2+json";

/// Schema 1 of Docker's manifests, with and without a signature.
const SCHEMA_1: [&str; 2] = [
    "application/vnd.docker.distribution.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v1+prettyjws",
];

/// Layers that are fetched from elsewhere and need not be pushed (image-spec, layer.md).
const NON_DISTRIBUTABLE: [&str; 3] = [
    "application/vnd.oci.image.layer.nondistributable.",
    "application/vnd.docker.image.rootfs.foreign.",
    "application/vnd.docker.image.rootfs.nondistributable.",
];

/// A media type is a registered name of at most this length (RFC 6838 §4.2: 127 on either side).
const LONGEST_MEDIA_TYPE: usize = 255;

/// The parsed form of a manifest's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// Its media type, without parameters.
    pub media_type: String,
    /// The content that it refers to.
    pub closure: Closure,
    /// The manifest that this one is about.
    pub subject: Option<Descriptor>,
    /// Its `artifactType`, or else the type of its configuration; none for most indexes.
    pub artifact_type: Option<String>,
    /// Its own annotations.
    pub annotations: BTreeMap<String, String>,
}

/// The digests that a manifest refers to, each once; its subject is none of them, for a subject may
/// be pushed later or never.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Closure {
    /// Configuration and layers, which have to be there.
    pub blobs: Vec<Digest>,
    /// Manifests of an index, which have to be there.
    pub manifests: Vec<Digest>,
    /// Layers that may be missing, and are kept if they are there.
    pub optional: Vec<Digest>,
}

impl Closure {
    /// Everything that has to be there.
    pub fn required(&self) -> impl Iterator<Item = &Digest> {
        self.blobs.iter().chain(&self.manifests)
    }

    /// Everything that is kept for the manifest's sake.
    pub fn kept(&self) -> impl Iterator<Item = &Digest> {
        self.required().chain(&self.optional)
    }

    /// The same references, of which fewer have to be there.
    #[must_use]
    pub fn relaxed(mut self, sparse: Sparse) -> Self {
        if matches!(sparse, Sparse::Indexes | Sparse::All) {
            self.optional.append(&mut self.manifests);
        }
        if sparse == Sparse::All {
            self.optional.append(&mut self.blobs);
        }
        self
    }
}

/// Content that may be missing when a manifest is pushed.
///
/// A registry may refuse what it cannot serve whole (distribution-spec, Pushing Manifests), and a
/// mirror that fails half-way through an image is worse than one that never had it: clients choose
/// a mirror by its manifest alone.
pub use config::registry_svc::Sparse;

/// A reference to content, as manifests and lists of referrers have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// The content's media type.
    pub media_type: String,
    /// The content's digest.
    pub digest: Digest,
    /// The content's size in octets.
    pub size: u64,
    /// The kind of artifact.
    pub artifact_type: Option<String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
}

/// Why bytes are no manifest that can be stored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// No JSON, or not of the shape that its media type has.
    #[error("not a manifest: {0}")]
    Malformed(String),
    /// `Content-Type` and `mediaType` differ.
    #[error("Content-Type is {header}, the manifest's mediaType is {document}")]
    MediaType {
        /// The media type in the request.
        header: String,
        /// The media type in the document.
        document: String,
    },
    /// Neither the request nor the document says what it is.
    #[error("neither Content-Type nor mediaType says what kind of manifest this is")]
    Untyped,
    /// Not a legal media type.
    #[error("Content-Type is not a media type")]
    BadMediaType,
    /// Docker's schema 1.
    #[error(
        "Docker image manifest version 2, schema 1 is not supported; push schema 2 or an OCI image"
    )]
    Schema1,
    /// `schemaVersion` is not 2.
    #[error("schemaVersion has to be 2")]
    SchemaVersion,
    /// A document that reads as an image and as an index.
    #[error("{0} does not belong into a manifest of this type")]
    Ambiguous(&'static str),
    /// Not a legal digest, or one of an unknown algorithm.
    #[error("{0} is not a sha256 or sha512 digest")]
    Digest(String),
}

/// The kind of references in a type of manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Image,
    Index,
    Artifact,
    Unknown,
}

impl Kind {
    fn of(media_type: &str) -> Self {
        match media_type {
            OCI_IMAGE | DOCKER_IMAGE => Self::Image,
            OCI_INDEX | DOCKER_LIST => Self::Index,
            OCI_ARTIFACT => Self::Artifact,
            _ => Self::Unknown,
        }
    }
}

impl Manifest {
    /// How this manifest shows as a referrer (distribution-spec, Listing Referrers).
    #[must_use]
    pub fn descriptor(&self, digest: Digest, size: u64) -> Descriptor {
        Descriptor {
            media_type: self.media_type.clone(),
            digest,
            size,
            artifact_type: self.artifact_type.clone(),
            annotations: self.annotations.clone(),
        }
    }

    /// Whether it lists other manifests.
    #[must_use]
    pub fn is_index(&self) -> bool {
        Kind::of(&self.media_type) == Kind::Index
    }
}

/// Reads a manifest that was pushed as `content_type`, or was stored so.
///
/// # Errors
///
/// A manifest that cannot be stored; the text is fit for the client.
pub fn parse(bytes: &[u8], content_type: Option<&str>) -> Result<Manifest, ManifestError> {
    let header = content_type
        .map(without_parameters)
        .filter(|name| !name.is_empty());
    if header.is_some_and(|name| !is_media_type(name)) {
        return Err(ManifestError::BadMediaType);
    }
    if header.is_some_and(|name| SCHEMA_1.contains(&name)) {
        return Err(ManifestError::Schema1);
    }
    let document = match json::document(bytes) {
        Ok(document) => document,
        // Unknown members may have any shape, as long as they are JSON.
        Err(_) if header.is_some_and(|name| Kind::of(name) == Kind::Unknown) => {
            json::only_type(bytes)?
        }
        Err(error) => return Err(error),
    };
    let media_type = media_type(header, &document)?;
    match Kind::of(&media_type) {
        Kind::Image => image(media_type, document),
        Kind::Index => index(media_type, document),
        Kind::Artifact | Kind::Unknown => other(media_type, document),
    }
}

/// Reads a list of descriptors: the index under a fallback tag, whose entries are referrers that
/// clients wrote themselves (distribution-spec, Referrers Tag Schema).
///
/// # Errors
///
/// When it is no index.
pub fn descriptors(bytes: &[u8]) -> Result<Vec<Descriptor>, ManifestError> {
    let document = json::document(bytes)?;
    let listed = document.manifests.ok_or(ManifestError::Untyped)?;
    listed.into_iter().map(descriptor).collect()
}

/// The index that answers a request for referrers.
#[must_use]
pub fn index_of(descriptors: &[Descriptor]) -> Vec<u8> {
    json::index(descriptors)
}

//--- Types

fn media_type(header: Option<&str>, document: &json::Document) -> Result<String, ManifestError> {
    let named = document
        .media_type
        .as_deref()
        .filter(|name| !name.is_empty());
    if named.is_some_and(|name| SCHEMA_1.contains(&name)) || document.schema_version == Some(1) {
        return Err(ManifestError::Schema1);
    }
    match (header, named) {
        (Some(header), Some(named)) if header != named => Err(ManifestError::MediaType {
            header: header.to_owned(),
            document: named.to_owned(),
        }),
        (Some(name), _) => Ok(name.to_owned()),
        (None, Some(named)) if is_media_type(named) => Ok(named.to_owned()),
        (None, Some(_)) => Err(ManifestError::BadMediaType),
        // mediaType is optional in OCI's manifests, and only there.
        (None, None) if document.manifests.is_some() => Ok(OCI_INDEX.to_owned()),
        (None, None) if document.layers.is_some() => Ok(OCI_IMAGE.to_owned()),
        (None, None) => Err(ManifestError::Untyped),
    }
}

/// `Content-Type` may have parameters, which say nothing here.
fn without_parameters(content_type: &str) -> &str {
    content_type.split(';').next().unwrap_or_default().trim()
}

/// RFC 9110 §8.3.1: two tokens and a slash.
fn is_media_type(name: &str) -> bool {
    let is_token = |part: &str| {
        !part.is_empty()
            && part
                .bytes()
                .all(|octet| octet.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&octet))
    };
    name.len() <= LONGEST_MEDIA_TYPE
        && name
            .split_once('/')
            .is_some_and(|(kind, name)| is_token(kind) && is_token(name))
}

//--- Kinds

fn image(media_type: String, document: json::Document) -> Result<Manifest, ManifestError> {
    if document.schema_version != Some(2) {
        return Err(ManifestError::SchemaVersion);
    }
    if document.manifests.is_some() {
        return Err(ManifestError::Ambiguous("manifests"));
    }
    let Some(config) = &document.config else {
        return Err(ManifestError::Malformed("it has no config".to_owned()));
    };
    if document.layers.is_none() {
        return Err(ManifestError::Malformed("it has no layers".to_owned()));
    }
    let artifact_type = document
        .artifact_type
        .clone()
        .filter(|name| !name.is_empty())
        .or_else(|| Some(config.media_type.clone()))
        .filter(|name| !name.is_empty());
    build(media_type, artifact_type, document)
}

fn index(media_type: String, document: json::Document) -> Result<Manifest, ManifestError> {
    if document.schema_version != Some(2) {
        return Err(ManifestError::SchemaVersion);
    }
    // A client that took it for an image would run something else than one that took it for an index.
    if document.layers.is_some() {
        return Err(ManifestError::Ambiguous("layers"));
    }
    if document.config.is_some() {
        return Err(ManifestError::Ambiguous("config"));
    }
    if document.manifests.is_none() {
        return Err(ManifestError::Malformed("it has no manifests".to_owned()));
    }
    let artifact_type = document
        .artifact_type
        .clone()
        .filter(|name| !name.is_empty());
    build(media_type, artifact_type, document)
}

/// Any other kind: each member that looks like a reference counts as one.
fn other(media_type: String, document: json::Document) -> Result<Manifest, ManifestError> {
    let of_config = document
        .config
        .as_ref()
        .map(|config| config.media_type.clone());
    let artifact_type = document
        .artifact_type
        .clone()
        .filter(|name| !name.is_empty())
        .or(of_config)
        .filter(|name| !name.is_empty());
    build(media_type, artifact_type, document)
}

fn build(
    media_type: String,
    artifact_type: Option<String>,
    document: json::Document,
) -> Result<Manifest, ManifestError> {
    let mut seen = BTreeSet::new();
    let mut closure = Closure::default();
    let layers = document.layers.into_iter().flatten();
    let blobs = document.blobs.into_iter().flatten();
    for blob in document.config.into_iter().chain(layers).chain(blobs) {
        let blob = descriptor(blob)?;
        if seen.insert(blob.digest) {
            match is_distributable(&blob.media_type) {
                true => closure.blobs.push(blob.digest),
                false => closure.optional.push(blob.digest),
            }
        }
    }
    for child in document.manifests.into_iter().flatten() {
        let child = descriptor(child)?;
        if seen.insert(child.digest) {
            closure.manifests.push(child.digest);
        }
    }
    Ok(Manifest {
        media_type,
        closure,
        subject: document.subject.map(descriptor).transpose()?,
        artifact_type,
        annotations: document.annotations.unwrap_or_default(),
    })
}

fn is_distributable(media_type: &str) -> bool {
    !NON_DISTRIBUTABLE
        .iter()
        .any(|prefix| media_type.starts_with(prefix))
}

fn descriptor(written: json::Descriptor) -> Result<Descriptor, ManifestError> {
    let Ok(digest) = written.digest.parse() else {
        return Err(ManifestError::Digest(shortened(&written.digest)));
    };
    Ok(Descriptor {
        media_type: written.media_type,
        digest,
        size: written.size,
        artifact_type: written.artifact_type.filter(|name| !name.is_empty()),
        annotations: written.annotations.unwrap_or_default(),
    })
}

/// An error repeats no more of what was sent than a digest is long.
fn shortened(text: &str) -> String {
    text.chars().take(LONGEST_QUOTE).collect()
}

/// `sha512:` and its 128 digits.
const LONGEST_QUOTE: usize = 135;

#[cfg(test)]
mod tests;
