//! The record of a store's content: written when an image was loaded, checked and forced to the disk.
//!
//! An image that podman lists may be half of one after a power cut, because podman forces nothing
//! to the disk. So a list of its files is written behind it, under the digest of its archive: with
//! the list the files can be checked without unpacking the archive again, and without it nothing is
//! believed.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use durable::Rights;
use service_image::archive::Image;
use service_image::digest::Sha256;

/// The record of an image in a store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ImageRecord {
    /// The name for podman.
    pub image_id: Sha256,
    /// Its version.
    pub version: String,
    /// The revision of its source.
    pub revision: String,
    /// Its files, and what is left of each.
    pub files: BTreeMap<String, Sha256>,
}

impl ImageRecord {
    /// The expected record once an image is loaded.
    pub fn of(image: &Image) -> Self {
        let digest = |(path, file): (&String, &service_image::archive::ImageFile)| {
            (path.clone(), file.digest)
        };
        Self {
            image_id: image.image_id,
            version: image.version.clone(),
            revision: image.revision.clone(),
            files: image.files.iter().map(digest).collect(),
        }
    }

    /// Reads the record of an archive; none if there is none, or none that can be understood.
    pub fn read(directory: &Path, archive: Sha256) -> Option<Self> {
        let text = fs::read(place(directory, archive)).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// The first file below `root` that is not what the image has.
    pub fn damage(&self, root: &Path) -> Option<String> {
        self.files.iter().find_map(|(path, digest)| {
            let found = File::open(root.join(path)).and_then(Sha256::of_reader);
            match found {
                Ok((found, _)) if found == *digest => None,
                Ok(_) => Some(format!("/{path} has other bytes")),
                Err(error) => Some(format!("/{path}: {error}")),
            }
        })
    }
}

/// Forces a store to the disk, and then writes what is in it, under the digests of the archives.
///
/// # Errors
///
/// When the disk refuses.
pub fn write(directory: &Path, records: &[(Sha256, ImageRecord)]) -> anyhow::Result<()> {
    if records.is_empty() {
        return Ok(());
    }
    fs::create_dir_all(directory)
        .with_context(|| format!("cannot make {}", directory.display()))?;
    let of_system =
        File::open(directory).with_context(|| format!("cannot read {}", directory.display()))?;
    rustix::fs::syncfs(&of_system).context("cannot force the store to the disk")?;
    for (archive, record) in records {
        let text = serde_json::to_vec(record).context("cannot write what was loaded")?;
        durable::write(&place(directory, *archive), Rights::PUBLIC, &text[..])?;
    }
    Ok(())
}

fn place(directory: &Path, archive: Sha256) -> PathBuf {
    directory.join(format!("{archive}.json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_tells_a_whole_image_from_a_damaged_one() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        let archive = Sha256::of(b"archive");
        let record = ImageRecord {
            image_id: Sha256::of(b"id"),
            version: "1".to_owned(),
            revision: "r".to_owned(),
            files: [("a".to_owned(), Sha256::of(b"1"))].into(),
        };
        write(directory, &[(archive, record.clone())]).unwrap();
        assert_eq!(ImageRecord::read(directory, archive), Some(record.clone()));
        assert_eq!(ImageRecord::read(directory, Sha256::of(b"other")), None);
        assert!(record.damage(directory).is_some());
        fs::write(directory.join("a"), "1").unwrap();
        assert_eq!(record.damage(directory), None);
        fs::write(directory.join("a"), "2").unwrap();
        assert_eq!(
            record.damage(directory),
            Some("/a has other bytes".to_owned())
        );
        fs::write(place(directory, archive), "{").unwrap();
        assert_eq!(ImageRecord::read(directory, archive), None);
    }
}
