//! The one layer of an image: a tar archive that depends on nothing but what is put in it.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;

use flate2::{Compression, GzBuilder};

use crate::digest::{Hashing, Sha256};

/// The files of an image, by their paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree(BTreeMap<String, Entry>);

/// A file or directory.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    mode: u32,
    /// The user and the group.
    owner: u32,
    /// None for a directory.
    contents: Option<Arc<[u8]>>,
}

/// A layer as images hold it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// The archive, under gzip.
    pub blob: Vec<u8>,
    /// The digest of the archive without gzip, by which a configuration names it.
    pub diff_id: Sha256,
    /// Octets of the archive without gzip.
    pub size: u64,
}

impl Tree {
    /// Puts in a directory; those above it have to be put in too.
    pub fn directory(&mut self, path: &str, mode: u32, owner: u32) {
        self.put(path, mode, owner, None);
    }

    /// Puts in a file that belongs to root.
    pub fn file(&mut self, path: &str, mode: u32, contents: impl Into<Arc<[u8]>>) {
        self.put(path, mode, 0, Some(contents.into()));
    }

    fn put(&mut self, path: &str, mode: u32, owner: u32, contents: Option<Arc<[u8]>>) {
        let path = path.trim_matches('/').to_owned();
        let entry = Entry {
            mode,
            owner,
            contents,
        };
        self.0.insert(path, entry);
    }

    /// The layer of these files, each last changed at `time` (seconds since 1970).
    ///
    /// # Errors
    ///
    /// When a path or a number does not fit into a header.
    pub fn layer(&self, time: u64) -> io::Result<Layer> {
        // Level 9: an archive is written once and copied to every node.
        let gzip = GzBuilder::new()
            .mtime(0)
            .operating_system(UNKNOWN_SYSTEM)
            .write(Vec::new(), Compression::best());
        let mut tar = tar::Builder::new(Hashing::new(gzip));
        for (path, entry) in &self.0 {
            append(&mut tar, path, entry, time)?;
        }
        let (gzip, diff_id, size) = tar.into_inner()?.finish();
        Ok(Layer {
            blob: gzip.finish()?,
            diff_id,
            size,
        })
    }
}

fn append(
    tar: &mut tar::Builder<impl Write>,
    path: &str,
    entry: &Entry,
    time: u64,
) -> io::Result<()> {
    let contents = entry.contents.as_deref().unwrap_or_default();
    let (kind, path) = match entry.contents {
        Some(_) => (tar::EntryType::Regular, path.to_owned()),
        None => (tar::EntryType::Directory, format!("{path}/")),
    };
    let mut header = fixed_header(kind, entry.mode, time);
    header.set_uid(u64::from(entry.owner));
    header.set_gid(u64::from(entry.owner));
    header.set_size(u64::try_from(contents.len()).map_err(io::Error::other)?);
    tar.append_data(&mut header, path, contents)
}

/// A header whose every field is given, so that two archives of the same files are the same.
#[must_use]
pub fn fixed_header(kind: tar::EntryType, mode: u32, time: u64) -> tar::Header {
    let mut header = tar::Header::new_ustar();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_mtime(time);
    header.set_uid(0);
    header.set_gid(0);
    header
}

/// RFC 1952 §2.3.1, OS: a layer is of no system's making.
const UNKNOWN_SYSTEM: u8 = 255;

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    fn tree() -> Tree {
        let mut tree = Tree::default();
        tree.file("/healthd", 0o555, *b"program");
        tree.directory("/tmp", 0o1777, 0);
        tree.directory("/var", 0o755, 0);
        tree.directory("/var/lib", 0o755, 65_532);
        tree
    }

    #[test]
    fn the_same_files_give_the_same_bytes() {
        let mut other = Tree::default();
        other.directory("var/lib/", 0o755, 65_532);
        other.directory("var", 0o755, 0);
        other.directory("tmp", 0o1777, 0);
        other.file("healthd", 0o555, *b"program");
        assert_eq!(tree().layer(7).unwrap(), other.layer(7).unwrap());
        assert_ne!(tree().layer(7).unwrap().blob, tree().layer(8).unwrap().blob);
    }

    #[test]
    fn a_layer_has_what_was_put_in() {
        let layer = tree().layer(1_795_253_405).unwrap();
        let mut plain = Vec::new();
        flate2::read::GzDecoder::new(&layer.blob[..])
            .read_to_end(&mut plain)
            .unwrap();
        assert_eq!(Sha256::of(&plain), layer.diff_id);
        assert_eq!(u64::try_from(plain.len()).unwrap(), layer.size);
        let mut archive = tar::Archive::new(&plain[..]);
        let found: Vec<_> = archive
            .entries()
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                let header = entry.header();
                assert_eq!(header.mtime().unwrap(), 1_795_253_405);
                (
                    entry.path().unwrap().display().to_string(),
                    header.mode().unwrap(),
                    header.uid().unwrap(),
                    header.size().unwrap(),
                )
            })
            .collect();
        assert_eq!(
            found,
            [
                ("healthd".to_owned(), 0o555, 0, 7),
                ("tmp/".to_owned(), 0o1777, 0, 0),
                ("var/".to_owned(), 0o755, 0, 0),
                ("var/lib/".to_owned(), 0o755, 65_532, 0),
            ]
        );
    }
}
