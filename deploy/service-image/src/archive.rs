//! Reading an image archive: everything in it is followed from the index, and every digest checked.
//!
//! Archives come over the wire and off disks that lost their power, so nothing that one says is
//! believed before it is checked, and what is read of it is bounded.

use std::collections::BTreeMap;
use std::io::{self, Read, Seek, SeekFrom};

use flate2::read::MultiGzDecoder;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::digest::{Hashing, Sha256};
use crate::layout;

/// An image, as its archive has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// The service that it is of.
    pub service: String,
    /// Its version.
    pub version: String,
    /// The revision of its source.
    pub revision: String,
    /// When it was made, as RFC 3339 has it.
    pub created: String,
    /// The processor it is for, in OCI's words.
    pub architecture: String,
    /// The digest of its configuration, which podman calls its ID.
    pub image_id: Sha256,
    /// The digest of its manifest.
    pub manifest: Sha256,
    /// Octets of its layers as they are in the archive.
    pub compressed: u64,
    /// The files in it, by path.
    pub files: BTreeMap<String, ImageFile>,
}

/// A file in an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageFile {
    /// Octets.
    pub size: u64,
    /// Their digest.
    pub digest: Sha256,
    /// The permissions.
    pub mode: u32,
}

/// Why an archive is no image of ours.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// It cannot be read, or is no tar archive.
    #[error("it cannot be read as a tar archive")]
    Read(#[from] io::Error),
    /// More in it than an image has.
    #[error("more than {MAX_MEMBERS} files in it")]
    TooMany,
    /// A part is not there.
    #[error("{0} is missing in it")]
    Missing(String),
    /// A part is larger than such a part can be.
    #[error("{0} is larger than the {1} bytes allowed")]
    TooLarge(String, u64),
    /// A part is not what was written.
    #[error("{0} is damaged: its bytes have another digest")]
    Damaged(String),
    /// A part says something else than such a part does.
    #[error("{name} cannot be understood")]
    Json {
        /// The part.
        name: String,
        /// The problem.
        #[source]
        source: serde_json::Error,
    },
    /// An index with none or several.
    #[error("{0} images in it, not one")]
    NotOne(usize),
    /// Labels are missing.
    #[error("it has no label {0}: `outpost image build` did not make it")]
    NoLabel(&'static str),
    /// No service has such a name.
    #[error("its label {} is not the name of a service", layout::TITLE)]
    BadName,
}

/// Reads an archive and checks all that is in it.
///
/// # Errors
///
/// When it is not one whole image, made by `outpost image build`.
pub fn read(from: impl Read + Seek) -> Result<Image, ArchiveError> {
    let mut parts = Parts::of(from)?;
    let index: Index = parse("index.json", &parts.whole("index.json")?)?;
    let manifest_at = match &index.manifests[..] {
        [one] => one.checked()?,
        other => return Err(ArchiveError::NotOne(other.len())),
    };
    let manifest: Manifest = parts.document(manifest_at)?;
    let config_at = manifest.config.checked()?;
    let config: Config = parts.document(config_at)?;
    let label = |key| {
        let value = config.config.labels.get(key);
        value.cloned().ok_or(ArchiveError::NoLabel(key))
    };
    let service = label(layout::TITLE)?;
    if !is_name(&service) {
        return Err(ArchiveError::BadName);
    }
    let (mut files, mut compressed) = (BTreeMap::new(), 0u64);
    if manifest.layers.len() != config.rootfs.diff_ids.len() {
        return Err(ArchiveError::Damaged("the list of layers".to_owned()));
    }
    for (layer, diff_id) in manifest.layers.iter().zip(&config.rootfs.diff_ids) {
        let (digest, size) = layer.checked()?;
        parts.layer(digest, diff_id, &mut files)?;
        compressed = compressed.saturating_add(size);
    }
    Ok(Image {
        service,
        version: label(layout::VERSION)?,
        revision: label(layout::REVISION)?,
        created: config.created,
        architecture: config.architecture,
        image_id: config_at.0,
        manifest: manifest_at.0,
        compressed,
        files,
    })
}

/// One file of an image whose archive [`read`] has found whole.
///
/// # Errors
///
/// When the archive changed since, or the image has no such file.
pub fn file(from: impl Read + Seek, image: &Image, path: &str) -> Result<Vec<u8>, ArchiveError> {
    let missing = || ArchiveError::Missing(path.to_owned());
    let wanted = image.files.get(path).ok_or_else(missing)?;
    let mut parts = Parts::of(from)?;
    let index: Index = parse("index.json", &parts.whole("index.json")?)?;
    let [one] = &index.manifests[..] else {
        return Err(ArchiveError::NotOne(index.manifests.len()));
    };
    let manifest: Manifest = parts.document(one.checked()?)?;
    for layer in &manifest.layers {
        let name = layout::blob_name(layer.checked()?.0);
        let plain = MultiGzDecoder::new(parts.at(&name)?).take(MAX_LAYER);
        for entry in tar::Archive::new(plain).entries()? {
            let mut entry = entry?;
            if *entry.path_bytes() != *path.as_bytes() {
                continue;
            }
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes)?;
            return match Sha256::of(&bytes) == wanted.digest {
                true => Ok(bytes),
                false => Err(ArchiveError::Damaged(path.to_owned())),
            };
        }
    }
    Err(missing())
}

/// Names of services become names of files, of units and of tags.
fn is_name(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=64).contains(&text.len()) && !text.starts_with('-') && text.chars().all(is_plain)
}

/// The positions of the parts of an archive.
struct Parts<R> {
    from: R,
    places: BTreeMap<String, (u64, u64)>,
}

impl<R: Read + Seek> Parts<R> {
    fn of(from: R) -> Result<Self, ArchiveError> {
        let mut archive = tar::Archive::new(from);
        let mut places = BTreeMap::new();
        for entry in archive.entries_with_seek()? {
            let entry = entry?;
            if places.len() == MAX_MEMBERS {
                return Err(ArchiveError::TooMany);
            }
            if entry.header().entry_type() != tar::EntryType::Regular {
                continue;
            }
            // A name that is not UTF-8 is no part of a layout.
            if let Ok(name) = std::str::from_utf8(&entry.path_bytes()) {
                let name = name.trim_start_matches("./").to_owned();
                places.insert(name, (entry.raw_file_position(), entry.size()));
            }
        }
        let from = archive.into_inner();
        Ok(Self { from, places })
    }

    fn at(&mut self, name: &str) -> Result<io::Take<&mut R>, ArchiveError> {
        let place = self.places.get(name).copied();
        let (at, size) = place.ok_or_else(|| ArchiveError::Missing(name.to_owned()))?;
        self.from.seek(SeekFrom::Start(at))?;
        Ok((&mut self.from).take(size))
    }

    /// A part that is small.
    fn whole(&mut self, name: &str) -> Result<Vec<u8>, ArchiveError> {
        let mut part = self.at(name)?;
        if part.limit() > MAX_DOCUMENT {
            return Err(ArchiveError::TooLarge(name.to_owned(), MAX_DOCUMENT));
        }
        let mut bytes = Vec::new();
        part.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// A document by its digest.
    fn document<T: DeserializeOwned>(
        &mut self,
        (digest, _): (Sha256, u64),
    ) -> Result<T, ArchiveError> {
        let name = layout::blob_name(digest);
        let bytes = self.whole(&name)?;
        if Sha256::of(&bytes) != digest {
            return Err(ArchiveError::Damaged(name));
        }
        parse(&name, &bytes)
    }

    /// Checks a layer and lists its files.
    fn layer(
        &mut self,
        digest: Sha256,
        diff_id: &str,
        files: &mut BTreeMap<String, ImageFile>,
    ) -> Result<(), ArchiveError> {
        let name = layout::blob_name(digest);
        let damaged = || ArchiveError::Damaged(name.clone());
        let packed = Hashing::new(self.at(&name)?);
        let bounded = MultiGzDecoder::new(packed).take(MAX_LAYER + 1);
        let mut plain = Hashing::new(bounded);
        let listed = list(&mut plain, files);
        // The digest includes the bytes after the archive's end.
        let drained = io::copy(&mut plain, &mut io::sink());
        let (bounded, found_id, length) = plain.finish();
        let mut packed = bounded.into_inner().into_inner();
        io::copy(&mut packed, &mut io::sink())?;
        let (_, found, _) = packed.finish();
        if found != digest {
            return Err(damaged());
        }
        if length > MAX_LAYER {
            return Err(ArchiveError::TooLarge(name, MAX_LAYER));
        }
        listed?;
        drained?;
        match Sha256::from_oci(diff_id) == Ok(found_id) {
            true => Ok(()),
            false => Err(damaged()),
        }
    }
}

fn list(layer: impl Read, files: &mut BTreeMap<String, ImageFile>) -> Result<(), ArchiveError> {
    let mut archive = tar::Archive::new(layer);
    for entry in archive.entries()? {
        let mut entry = entry?;
        if entry.header().entry_type() != tar::EntryType::Regular {
            continue;
        }
        if files.len() == MAX_MEMBERS {
            return Err(ArchiveError::TooMany);
        }
        let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let mode = entry.header().mode()?;
        let (digest, size) = Sha256::of_reader(&mut entry)?;
        files.insert(path, ImageFile { size, digest, mode });
    }
    Ok(())
}

fn parse<T: DeserializeOwned>(name: &str, bytes: &[u8]) -> Result<T, ArchiveError> {
    serde_json::from_slice(bytes).map_err(|source| ArchiveError::Json {
        name: name.to_owned(),
        source,
    })
}

/// Files in an archive, and in an image. Ours have six and about ten.
const MAX_MEMBERS: usize = 1024;
/// Octets of an index, a manifest or a configuration. Ours have less than two thousand.
const MAX_DOCUMENT: u64 = 1 << 20;
/// Octets of a layer without gzip: a small file can say that it is a very large one.
const MAX_LAYER: u64 = 1 << 30;

//--- OCI's documents, with what is read of them

#[derive(Deserialize)]
struct Index {
    manifests: Vec<Descriptor>,
}

#[derive(Deserialize)]
struct Descriptor {
    digest: String,
    size: u64,
}

impl Descriptor {
    fn checked(&self) -> Result<(Sha256, u64), ArchiveError> {
        match Sha256::from_oci(&self.digest) {
            Ok(digest) => Ok((digest, self.size)),
            Err(_) => Err(ArchiveError::Missing(format!("a blob {}", self.digest))),
        }
    }
}

#[derive(Deserialize)]
struct Manifest {
    config: Descriptor,
    layers: Vec<Descriptor>,
}

#[derive(Deserialize)]
struct Config {
    created: String,
    architecture: String,
    config: Execution,
    rootfs: RootFs,
}

#[derive(Deserialize)]
struct Execution {
    #[serde(rename = "Labels", default)]
    labels: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct RootFs {
    diff_ids: Vec<String>,
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;
    use crate::elf::Machine;
    use crate::layer::Tree;
    use crate::layout::{Recipe, Written, write};

    fn recipe() -> Recipe {
        Recipe {
            service: "healthd".to_owned(),
            description: "Probes the masters".to_owned(),
            version: "0.1.0".to_owned(),
            revision: "1a2b3c4d5".to_owned(),
            source: None,
            licenses: "MIT OR Apache-2.0".to_owned(),
            machine: Machine::X86_64,
            created: "2026-11-21T09:30:05Z".to_owned(),
            time: 1_795_253_405,
        }
    }

    fn archive() -> (Vec<u8>, Written) {
        let mut tree = Tree::default();
        tree.file("healthd", 0o555, vec![7; 100_000]);
        tree.directory("tmp", 0o1777, 0);
        let layer = tree.layer(recipe().time).unwrap();
        let mut bytes = Vec::new();
        let written = write(&recipe(), &layer, &mut bytes).unwrap();
        (bytes, written)
    }

    #[test]
    fn the_same_image_is_the_same_bytes() {
        assert_eq!(archive(), archive());
    }

    #[test]
    fn what_is_written_is_read_again() {
        let (bytes, written) = archive();
        let image = read(Cursor::new(&bytes)).unwrap();
        let program = file(Cursor::new(&bytes), &image, "healthd").unwrap();
        assert_eq!(program, [7; 100_000]);
        assert!(file(Cursor::new(&bytes), &image, "tmp").is_err());
        assert_eq!(
            (image.image_id, image.manifest),
            (written.image_id, written.manifest)
        );
        assert_eq!(image.service, "healthd");
        assert_eq!((&*image.version, &*image.revision), ("0.1.0", "1a2b3c4d5"));
        assert_eq!(
            (&*image.created, &*image.architecture),
            ("2026-11-21T09:30:05Z", "amd64")
        );
        let program = ImageFile {
            size: 100_000,
            digest: Sha256::of(&[7; 100_000]),
            mode: 0o555,
        };
        assert_eq!(
            image.files,
            BTreeMap::from([("healthd".to_owned(), program)])
        );
    }

    #[test]
    fn an_archive_that_breaks_off_is_refused() {
        let (bytes, _) = archive();
        // What fills the last block, and the two blocks of zeroes at the end, hold nothing.
        for length in (0..bytes.len() - 1536).step_by(97) {
            assert!(read(Cursor::new(&bytes[..length])).is_err(), "{length}");
        }
    }

    #[test]
    fn one_changed_byte_of_a_blob_is_found() {
        let (bytes, _) = archive();
        let whole = read(Cursor::new(&bytes)).unwrap();
        for at in (0..bytes.len()).step_by(61) {
            let mut changed = bytes.clone();
            changed[at] ^= 0x10;
            // What is filled up and the times of the archive itself say nothing about the image.
            if let Ok(image) = read(Cursor::new(changed)) {
                assert_eq!(image, whole, "{at}");
            }
        }
    }

    #[test]
    fn an_image_of_others_is_told() {
        let (bytes, _) = archive();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        assert!(text.contains(r#""User":"65532:65532""#));
        assert!(
            text.contains(
                r#""org.opencontainers.image.ref.name":"localhost/outpost/healthd:0.1.0""#
            )
        );
        for name in ["", "-a", "a/b", "../a", "A", "a b"] {
            assert!(!is_name(name), "{name:?}");
        }
        assert!(matches!(
            read(Cursor::new(b"")),
            Err(ArchiveError::Missing(_))
        ));
    }
}
