//! The record of a store's content: written when an image was loaded, checked and forced to the disk.
//!
//! An image that podman lists may be half of one after a power cut, because podman forces nothing
//! to the disk. So a list of its files is written behind it, under the digest of its archive: with
//! the list the files can be checked without unpacking the archive again, and without it nothing is
//! believed.
//!
//! Reading every byte at each boot would delay a node that reads much else at that moment. So the stamps of the
//! files (inode, size and times) are written down once their bytes were compared: a file whose stamp is the
//! same was not written to since. Damage that the file system knows nothing of is for `outpost images verify`.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use daemon::errln;
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

    /// As [`ImageRecord::damage`], without reading files whose stamps are those of the last comparison. `stamps`
    /// is the file that has them.
    pub fn damage_since(&self, root: &Path, stamps: &Path) -> Option<String> {
        // Before the bytes: a write in between makes the next look a thorough one.
        let now = self.stamps(root);
        if now.is_some() && Stamps::read(stamps) == now {
            return None;
        }
        let damage = self.damage(root);
        if damage.is_none()
            && let Some(now) = now
        {
            now.keep(stamps);
        }
        damage
    }

    /// Writes the stamps of files that were just compared, and are on the disk.
    pub fn stamp(&self, root: &Path, stamps: &Path) {
        if let Some(now) = self.stamps(root) {
            now.keep(stamps);
        }
    }

    /// The stamps of all files below `root`; none when one is missing.
    fn stamps(&self, root: &Path) -> Option<Stamps> {
        let files = self.files.iter().map(|(path, digest)| {
            let metadata = fs::symlink_metadata(root.join(path)).ok()?;
            Some((path.clone(), Stamp::of(&metadata, *digest)))
        });
        files.collect::<Option<_>>().map(Stamps)
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

/// The stamps of an image's files, as they were when the bytes were compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Stamps(BTreeMap<String, Stamp>);

/// A file that was compared: it has another stamp once it was written to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Stamp {
    /// The digest of the bytes.
    digest: Sha256,
    inode: u64,
    size: u64,
    /// Seconds and nanoseconds of the last change of the content.
    modified: (i64, i64),
    /// The same for the file's attributes, which no program can set.
    changed: (i64, i64),
}

impl Stamp {
    fn of(metadata: &Metadata, digest: Sha256) -> Self {
        Self {
            digest,
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

impl Stamps {
    fn read(path: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(path).ok()?).ok()
    }

    /// Writes them, or says why not: the next boot reads the bytes then.
    fn keep(&self, path: &Path) {
        if let Err(error) = self.write(path) {
            errln!("outpost: {error:#}");
        }
    }

    fn write(&self, path: &Path) -> anyhow::Result<()> {
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory)
                .with_context(|| format!("cannot make {}", directory.display()))?;
        }
        let text = serde_json::to_vec(self).context("cannot write the stamps of an image")?;
        durable::write(path, Rights::PUBLIC, &text[..])
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
    fn bytes_are_read_again_when_a_file_was_written_to_and_not_otherwise() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("root");
        let stamps = directory.path().join("stamps/1.json");
        fs::create_dir(&root).unwrap();
        let file = root.join("a");
        let record = ImageRecord {
            image_id: Sha256::of(b"id"),
            version: "1".to_owned(),
            revision: "r".to_owned(),
            files: [("a".to_owned(), Sha256::of(b"1"))].into(),
        };
        let damage = || record.damage_since(&root, &stamps);
        assert!(damage().is_some() && !stamps.exists(), "it is missing");
        fs::write(&file, "1").unwrap();
        assert_eq!(damage(), None);
        assert!(stamps.exists());
        // Of the same length, at another time.
        fs::write(&file, "2").unwrap();
        let later = std::time::UNIX_EPOCH + std::time::Duration::from_secs(7);
        let opened = File::options().write(true).open(&file).unwrap();
        opened.set_modified(later).unwrap();
        for _ in 0..2 {
            assert_eq!(damage(), Some("/a has other bytes".to_owned()));
        }
        // With the stamps of this moment the bytes would be believed: they are not read.
        record.stamps(&root).unwrap().write(&stamps).unwrap();
        assert_eq!(damage(), None);
        assert!(record.damage(&root).is_some(), "a thorough look");
        // Stamps belong to the bytes of one image.
        let other = ImageRecord {
            files: [("a".to_owned(), Sha256::of(b"3"))].into(),
            ..record.clone()
        };
        assert!(other.damage_since(&root, &stamps).is_some());
        fs::write(&stamps, "{").unwrap();
        assert!(damage().is_some());
    }

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
