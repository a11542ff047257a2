//! Writing an image as an OCI layout in a tar archive, without podman.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;

use crate::digest::Sha256;
use crate::elf::Machine;
use crate::layer::{Layer, fixed_header};

/// The metadata of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipe {
    /// The service, which is also its program at the root of the image.
    pub service: String,
    /// A description in one line.
    pub description: String,
    /// Its version.
    pub version: String,
    /// The revision of its source.
    pub revision: String,
    /// The URL of its source, if known.
    pub source: Option<String>,
    /// Its licences, as an SPDX expression.
    pub licenses: String,
    /// The processor it is for.
    pub machine: Machine,
    /// When it was made, as RFC 3339 has it.
    pub created: String,
    /// The same, in seconds since 1970.
    pub time: u64,
}

/// The result of writing an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// The digest of the configuration, which podman calls the image's ID.
    pub image_id: Sha256,
    /// The digest of the manifest, by which registries name the image.
    pub manifest: Sha256,
}

/// The number of the user, and of its group, that an image runs as where it is started without another.
pub const UID: u32 = 65_532;
/// User and group: numbers, because a platform that refuses root cannot resolve a name.
pub const USER: &str = "65532:65532";

/// The name that podman gives an image of this version: podman asks no registry for `localhost`.
#[must_use]
pub fn image_name(service: &str, tag: &str) -> String {
    format!("localhost/outpost/{service}:{tag}")
}

/// Writes the archive.
///
/// # Errors
///
/// When writing fails.
pub fn write(recipe: &Recipe, layer: &Layer, out: impl Write) -> io::Result<Written> {
    let labels = labels(recipe);
    let config = json(&Config {
        created: &recipe.created,
        architecture: recipe.machine.oci(),
        os: "linux",
        config: Execution {
            user: USER,
            entrypoint: [format!("/{}", recipe.service)],
            working_dir: "/",
            labels: &labels,
            stop_signal: "SIGTERM",
        },
        rootfs: RootFs {
            kind: "layers",
            diff_ids: [layer.diff_id.to_oci()],
        },
        history: [History {
            created: &recipe.created,
            created_by: "outpost image build",
        }],
    })?;
    let manifest = json(&Manifest {
        schema_version: 2,
        media_type: MANIFEST_TYPE,
        config: Descriptor::of(CONFIG_TYPE, &config),
        layers: [Descriptor::of(LAYER_TYPE, &layer.blob)],
        annotations: &labels,
    })?;
    let name = image_name(&recipe.service, tag_of(&recipe.version).as_str());
    let index = json(&Index {
        schema_version: 2,
        media_type: INDEX_TYPE,
        manifests: [Descriptor {
            annotations: Some(BTreeMap::from([(REF_NAME, name)])),
            platform: Some(Platform {
                architecture: recipe.machine.oci(),
                os: "linux",
            }),
            ..Descriptor::of(MANIFEST_TYPE, &manifest)
        }],
    })?;
    let written = Written {
        image_id: Sha256::of(&config),
        manifest: Sha256::of(&manifest),
    };
    let mut tar = tar::Builder::new(out);
    let time = recipe.time;
    append(&mut tar, "oci-layout", LAYOUT, time)?;
    append(&mut tar, "index.json", &index, time)?;
    // By digest, so that the order says nothing about who wrote it.
    let blobs: BTreeMap<String, &[u8]> = [&config[..], &manifest[..], &layer.blob[..]]
        .into_iter()
        .map(|blob| (blob_name(Sha256::of(blob)), blob))
        .collect();
    for (name, blob) in blobs {
        append(&mut tar, &name, blob, time)?;
    }
    tar.into_inner()?.flush()?;
    Ok(written)
}

/// The path of a blob in a layout.
pub(super) fn blob_name(digest: Sha256) -> String {
    format!("blobs/sha256/{digest}")
}

/// A version as a tag: a build's `+` is none of a tag's characters.
fn tag_of(version: &str) -> String {
    version.replace('+', "_")
}

fn labels(recipe: &Recipe) -> BTreeMap<&'static str, String> {
    let mut labels = BTreeMap::from([
        (CREATED, recipe.created.clone()),
        (DESCRIPTION, recipe.description.clone()),
        (LICENSES, recipe.licenses.clone()),
        (REVISION, recipe.revision.clone()),
        (TITLE, recipe.service.clone()),
        (VERSION, recipe.version.clone()),
    ]);
    if let Some(source) = &recipe.source {
        labels.insert(SOURCE, source.clone());
    }
    labels
}

fn append(
    tar: &mut tar::Builder<impl Write>,
    name: &str,
    bytes: &[u8],
    time: u64,
) -> io::Result<()> {
    let mut header = fixed_header(tar::EntryType::Regular, 0o644, time);
    header.set_size(u64::try_from(bytes.len()).map_err(io::Error::other)?);
    tar.append_data(&mut header, name, bytes)
}

fn json(value: &impl Serialize) -> io::Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(io::Error::other)
}

//--- OCI's words (image specification 1.1: annotations.md, media-types.md)

pub(super) const CREATED: &str = "org.opencontainers.image.created";
pub(super) const DESCRIPTION: &str = "org.opencontainers.image.description";
pub(super) const LICENSES: &str = "org.opencontainers.image.licenses";
pub(super) const REF_NAME: &str = "org.opencontainers.image.ref.name";
pub(super) const REVISION: &str = "org.opencontainers.image.revision";
pub(super) const SOURCE: &str = "org.opencontainers.image.source";
pub(super) const TITLE: &str = "org.opencontainers.image.title";
pub(super) const VERSION: &str = "org.opencontainers.image.version";
const CONFIG_TYPE: &str = "application/vnd.oci.image.config.v1+json";
const INDEX_TYPE: &str = "application/vnd.oci.image.index.v1+json";
const LAYER_TYPE: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const MANIFEST_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";
const LAYOUT: &[u8] = br#"{"imageLayoutVersion":"1.0.0"}"#;

//--- OCI's documents, with what is written of them

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Index<'a> {
    schema_version: u8,
    media_type: &'a str,
    manifests: [Descriptor<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Manifest<'a> {
    schema_version: u8,
    media_type: &'a str,
    config: Descriptor<'a>,
    layers: [Descriptor<'a>; 1],
    annotations: &'a BTreeMap<&'static str, String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor<'a> {
    media_type: &'a str,
    digest: String,
    size: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    annotations: Option<BTreeMap<&'static str, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    platform: Option<Platform<'a>>,
}

impl<'a> Descriptor<'a> {
    fn of(media_type: &'a str, bytes: &[u8]) -> Self {
        Self {
            media_type,
            digest: Sha256::of(bytes).to_oci(),
            size: bytes.len(),
            annotations: None,
            platform: None,
        }
    }
}

#[derive(Serialize)]
struct Platform<'a> {
    architecture: &'a str,
    os: &'a str,
}

#[derive(Serialize)]
struct Config<'a> {
    created: &'a str,
    architecture: &'a str,
    os: &'a str,
    config: Execution<'a>,
    rootfs: RootFs<'a>,
    history: [History<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Execution<'a> {
    user: &'a str,
    entrypoint: [String; 1],
    working_dir: &'a str,
    labels: &'a BTreeMap<&'static str, String>,
    stop_signal: &'a str,
}

#[derive(Serialize)]
struct RootFs<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    diff_ids: [String; 1],
}

#[derive(Serialize)]
struct History<'a> {
    created: &'a str,
    created_by: &'a str,
}
