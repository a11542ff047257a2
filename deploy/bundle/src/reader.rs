//! Reading a bundle: members are found once, and nothing is used before the signature and every
//! digest are checked.

use std::collections::BTreeMap;
use std::io::{self, Read, Seek, SeekFrom};

use crate::manifest::{MANIFEST, MAX_MEMBERS, Manifest, ManifestError, SIGNATURE};
use service_image::digest::Sha256;

/// A bundle whose members are found and not yet believed.
#[derive(Debug)]
pub struct Bundle<R> {
    from: R,
    places: BTreeMap<String, (u64, u64)>,
    /// The manifest as it was signed.
    text: Vec<u8>,
    signature: String,
    manifest: Manifest,
}

/// Why a bundle is refused.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// It cannot be read, or is no tar archive.
    #[error("it cannot be read as a tar archive")]
    Read(#[from] io::Error),
    /// More in it than a bundle has.
    #[error("more than {MAX_MEMBERS} members in it")]
    TooMany,
    /// It has no such member.
    #[error("{0} is missing in it")]
    Missing(String),
    /// It has a member that its manifest does not list.
    #[error("{0} is in it, and its manifest does not list that")]
    Unlisted(String),
    /// A member is there twice.
    #[error("{0} is in it twice")]
    Twice(String),
    /// A member is larger than such a member can be.
    #[error("{0} is larger than the {1} bytes allowed")]
    TooLarge(&'static str, u64),
    /// A member is not what was signed.
    #[error("{0} is damaged: its bytes have another digest")]
    Damaged(String),
    /// Its manifest.
    #[error("its manifest is refused")]
    Manifest(#[source] ManifestError),
    /// Its signature is no text.
    #[error("the signature is not text")]
    Signature,
}

impl<R: Read + Seek> Bundle<R> {
    /// Finds the members and reads the manifest.
    ///
    /// # Errors
    ///
    /// When it is no bundle.
    pub fn open(from: R) -> Result<Self, BundleError> {
        let mut archive = tar::Archive::new(from);
        let mut places = BTreeMap::new();
        for entry in archive.entries_with_seek()? {
            let entry = entry?;
            if places.len() > MAX_MEMBERS {
                return Err(BundleError::TooMany);
            }
            let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
            if entry.header().entry_type() != tar::EntryType::Regular {
                return Err(BundleError::Unlisted(name));
            }
            let place = (entry.raw_file_position(), entry.size());
            if places.insert(name.clone(), place).is_some() {
                return Err(BundleError::Twice(name));
            }
        }
        let mut from = archive.into_inner();
        let text = small(&mut from, &places, MANIFEST, MAX_MANIFEST)?;
        let signature = small(&mut from, &places, SIGNATURE, MAX_SIGNATURE)?;
        let signature = String::from_utf8(signature).map_err(|_| BundleError::Signature)?;
        let manifest = Manifest::parse(&text).map_err(BundleError::Manifest)?;
        Ok(Self {
            from,
            places,
            text,
            signature,
            manifest,
        })
    }

    /// The signed bytes, and the signature.
    pub fn signed(&self) -> (&[u8], &str) {
        (&self.text, &self.signature)
    }

    /// The manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Checks the digest of every member; `seen` receives the size of each.
    ///
    /// # Errors
    ///
    /// When a member is missing, damaged, or not listed.
    pub fn check_members(&mut self, mut seen: impl FnMut(&str, u64)) -> Result<(), BundleError> {
        let is_known = |name: &&String| {
            self.manifest.members.contains_key(*name)
                || matches!(name.as_str(), MANIFEST | SIGNATURE)
        };
        if let Some(name) = self.places.keys().find(|name| !is_known(name)) {
            return Err(BundleError::Unlisted(name.clone()));
        }
        let members = self.manifest.members.clone();
        for (name, member) in &members {
            let (digest, size) = Sha256::of_reader(self.member(name)?)?;
            if digest != member.sha256 || size != member.size {
                return Err(BundleError::Damaged(name.clone()));
            }
            seen(name, size);
        }
        Ok(())
    }

    /// The bytes of a member.
    ///
    /// # Errors
    ///
    /// When it is not there.
    pub fn member(&mut self, name: &str) -> Result<io::Take<&mut R>, BundleError> {
        find(&mut self.from, &self.places, name)
    }

    /// A member in memory, checked again: between the check of all and this, the file may have changed.
    ///
    /// # Errors
    ///
    /// When it is not there, or not what was signed.
    pub fn bytes(&mut self, name: &str) -> Result<Vec<u8>, BundleError> {
        let listed = self.manifest.members.get(name).copied();
        let listed = listed.ok_or_else(|| BundleError::Missing(name.to_owned()))?;
        let mut bytes = Vec::new();
        self.member(name)?.read_to_end(&mut bytes)?;
        match Sha256::of(&bytes) == listed.sha256 {
            true => Ok(bytes),
            false => Err(BundleError::Damaged(name.to_owned())),
        }
    }
}

fn find<'a, R: Read + Seek>(
    from: &'a mut R,
    places: &BTreeMap<String, (u64, u64)>,
    name: &str,
) -> Result<io::Take<&'a mut R>, BundleError> {
    let place = places.get(name).copied();
    let (at, size) = place.ok_or_else(|| BundleError::Missing(name.to_owned()))?;
    from.seek(SeekFrom::Start(at))?;
    Ok(from.take(size))
}

fn small<R: Read + Seek>(
    from: &mut R,
    places: &BTreeMap<String, (u64, u64)>,
    name: &'static str,
    limit: u64,
) -> Result<Vec<u8>, BundleError> {
    let mut member = find(from, places, name)?;
    if member.limit() > limit {
        return Err(BundleError::TooLarge(name, limit));
    }
    let mut bytes = Vec::new();
    member.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Octets of a manifest: ten thousand members of a thousand octets each, and then some.
const MAX_MANIFEST: u64 = 16 << 20;
/// Octets of a signature, which has four lines.
const MAX_SIGNATURE: u64 = 4 << 10;

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;
    use crate::manifest::tests::example;
    use crate::writer::{Source, write};

    fn bundle() -> Vec<u8> {
        let manifest = example();
        let mut bytes = Vec::new();
        let contents = |name: &str| -> io::Result<Source> {
            let bytes: &[u8] = match name {
                "files/a" => b"version = \"v1\"\n",
                "images/healthd.tar" => b"image",
                _ => b"program",
            };
            Ok(Source::Bytes(bytes.to_vec()))
        };
        let text = manifest.to_json().unwrap();
        write(&manifest, &text, "signature", contents, &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn a_bundle_is_read_as_it_was_written() {
        assert_eq!(bundle(), bundle());
        let mut read = Bundle::open(Cursor::new(bundle())).unwrap();
        assert_eq!(read.manifest(), &example());
        assert_eq!(read.signed().1, "signature");
        let mut seen = Vec::new();
        read.check_members(|name, size| seen.push((name.to_owned(), size)))
            .unwrap();
        assert_eq!(seen.len(), 3);
        assert_eq!(read.bytes("images/healthd.tar").unwrap(), b"image");
        assert!(matches!(
            read.bytes("files/b"),
            Err(BundleError::Missing(_))
        ));
    }

    #[test]
    fn a_bundle_that_breaks_off_is_refused() {
        let whole = bundle();
        for length in (0..whole.len() - 1536).step_by(53) {
            let read = Bundle::open(Cursor::new(&whole[..length]));
            let checked = read.and_then(|mut read| read.check_members(|_, _| {}));
            assert!(checked.is_err(), "{length}");
        }
    }

    #[test]
    fn what_is_changed_or_added_is_found() {
        let mut changed = bundle();
        let at = changed
            .windows(5)
            .position(|bytes| bytes == b"image")
            .unwrap();
        let last = changed
            .windows(7)
            .rposition(|bytes| bytes == b"program")
            .unwrap();
        assert!(at < last);
        changed[last] ^= 1;
        let mut read = Bundle::open(Cursor::new(changed)).unwrap();
        assert!(matches!(
            read.check_members(|_, _| {}),
            Err(BundleError::Damaged(_))
        ));
        assert!(matches!(
            read.bytes("outpost"),
            Err(BundleError::Damaged(_))
        ));

        let end = bundle().len() - 1024;
        let mut builder = tar::Builder::new(bundle()[..end].to_vec());
        let mut header = tar::Header::new_ustar();
        header.set_size(0);
        builder.append_data(&mut header, "more", &b""[..]).unwrap();
        let more = builder.into_inner().unwrap();
        let mut read = Bundle::open(Cursor::new(more)).unwrap();
        assert!(matches!(
            read.check_members(|_, _| {}),
            Err(BundleError::Unlisted(_))
        ));
    }
}
