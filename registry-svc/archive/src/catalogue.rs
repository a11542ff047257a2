//! The content that a reader finds in an archive before anything is copied: images by name, and the
//! claimed place of each digest's bytes. Nothing of it is trusted: bytes count only when their
//! digest matches.

use std::collections::BTreeMap;
use std::io::{self, Read};

use bytes::Bytes;
use oci::digest::Digest;

use crate::entries::Entries;
use crate::name::ImageName;

/// Images in one archive. A mirror of a release and all its operators has some 20,000.
pub const MAX_IMAGES: usize = 500_000;
/// The most problems in a report; more say nothing new.
const MAX_PROBLEMS: usize = 1_000;

/// The files of an archive.
pub trait Files {
    /// The entries of the archive.
    fn entries(&self) -> &Entries;

    /// Bytes of a file, from the beginning.
    ///
    /// # Errors
    ///
    /// When there is none, or it cannot be read.
    fn open(&self, name: &str) -> io::Result<Box<dyn Read + Send + '_>>;

    /// A whole file of at most `limit` bytes.
    ///
    /// # Errors
    ///
    /// When there is none, it cannot be read, or it has more.
    fn read(&self, name: &str, limit: u64) -> io::Result<Vec<u8>> {
        let mut octets = Vec::new();
        let more = limit.saturating_add(1);
        self.open(name)?.take(more).read_to_end(&mut octets)?;
        match u64::try_from(octets.len()).is_ok_and(|length| length <= limit) {
            true => Ok(octets),
            false => Err(io::Error::other(format!("more than {limit} octets"))),
        }
    }
}

/// The content of an archive.
#[derive(Clone, Debug, Default)]
pub struct Catalogue {
    /// Images, in the order in which they are copied.
    pub images: Vec<Image>,
    /// The place of each digest's bytes.
    pub places: BTreeMap<Digest, Place>,
    /// The problems of the archive.
    pub problems: Problems,
    /// Files that are no part of any image, and are left where they are.
    pub n_left: u64,
}

/// One image, or a manifest without a tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Its name in the archive.
    pub name: ImageName,
    /// Its manifest or index.
    pub digest: Digest,
    /// The type of the manifest, if the archive gives it.
    pub media_type: Option<String>,
    /// The entry that says so.
    pub entry: String,
}

/// The place of bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In this entry.
    Entry(Box<str>),
    /// Here: a manifest that is made for an archive that has none.
    Made(Bytes),
}

/// Something wrong with an entry of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The entry's name, or that of the archive.
    pub entry: String,
    /// The problem.
    pub what: String,
}

/// All that is wrong, as much as is worth telling.
#[derive(Clone, Debug, Default)]
pub struct Problems {
    told: Vec<Problem>,
    n_more: u64,
}

/// The archive as a whole cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// A file without which there is nothing.
    #[error("{entry}: {what}")]
    Entry {
        /// Its name.
        entry: String,
        /// The problem.
        what: String,
    },
    /// It is of none of the forms that are known.
    #[error(
        "no oci-layout, docker-archive, skopeo directory, `oc image mirror` directory, oc-mirror \
         archive or data directory of a registry"
    )]
    Unknown,
    /// It has more images than any.
    #[error("more than {MAX_IMAGES} images")]
    TooMany,
}

impl Catalogue {
    /// Adds an image.
    ///
    /// # Errors
    ///
    /// When there are too many.
    pub fn add(&mut self, image: Image) -> Result<(), Unreadable> {
        if self.images.len() >= MAX_IMAGES {
            return Err(Unreadable::TooMany);
        }
        self.images.push(image);
        Ok(())
    }

    /// Adds a place for a digest; the first one counts.
    pub fn place(&mut self, digest: Digest, entry: &str) {
        self.places
            .entry(digest)
            .or_insert_with(|| Place::Entry(entry.into()));
    }
}

impl Problems {
    /// Adds one.
    pub fn add(&mut self, entry: impl Into<String>, what: impl Into<String>) {
        match self.told.len() < MAX_PROBLEMS {
            true => self.told.push(Problem {
                entry: entry.into(),
                what: what.into(),
            }),
            false => self.n_more += 1,
        }
    }

    /// The recorded problems.
    pub fn iter(&self) -> impl Iterator<Item = &Problem> {
        self.told.iter()
    }

    /// How many there are, told or not.
    #[must_use]
    pub fn count(&self) -> u64 {
        u64::try_from(self.told.len()).unwrap_or(u64::MAX) + self.n_more
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.told.is_empty()
    }

    /// Adds others.
    pub fn extend(&mut self, others: Self) {
        for problem in others.told {
            self.add(problem.entry, problem.what);
        }
        self.n_more += others.n_more;
    }
}

impl Unreadable {
    /// That a file is not what it has to be.
    pub fn entry(entry: impl Into<String>, what: impl Into<String>) -> Self {
        Self::Entry {
            entry: entry.into(),
            what: what.into(),
        }
    }
}

/// A digest from what names of files have for it: the part behind the algorithm, alone.
#[must_use]
pub fn digest_of_hex(hex: &str) -> Option<Digest> {
    let algorithm = match hex.len() {
        64 => "sha256",
        128 => "sha512",
        _ => return None,
    };
    format!("{algorithm}:{hex}").parse().ok()
}

/// A digest as file names have it: `sha256:…`, or `sha256-…` where a file system takes no colons.
#[must_use]
pub fn digest_of_name(name: &str) -> Option<Digest> {
    let (algorithm, hex) = name.split_once([':', '-'])?;
    format!("{algorithm}:{hex}").parse().ok()
}
