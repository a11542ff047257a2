//! The destination of exports: a directory, or a tar archive.
//!
//! A file in a directory has its name only when it is whole and synced, so an export that was
//! stopped continues. A tar archive is written under another name and gets its own at the end; it
//! begins again each time.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use oci::digest::{Digest, Hasher};
use parking_lot::{Mutex, MutexGuard};
use registry_archive::tar;

/// The size of one write to a tar archive.
const BUFFER: usize = 1 << 20;

/// An export.
#[derive(Debug)]
pub struct Tree {
    path: PathBuf,
    form: Form,
}

#[derive(Debug)]
enum Form {
    /// Directories that have new names are synced at the end.
    Directory(Mutex<BTreeSet<PathBuf>>),
    Tar(Mutex<Archive>),
}

#[derive(Debug)]
struct Archive {
    file: BufWriter<File>,
    partial: PathBuf,
    names: BTreeSet<String>,
}

/// Why something was not written.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// The disk failed.
    #[error("cannot write {path}", path = .path.display())]
    Write {
        /// The file being written.
        path: PathBuf,
        /// How that failed.
        #[source]
        source: io::Error,
    },
    /// The source of the bytes failed.
    #[error("the content ended early")]
    Body(#[source] io::Error),
    /// The content is not what its name says.
    #[error("the content has the digest {0}")]
    Digest(Digest),
}

impl Tree {
    /// A directory, made when it is not there.
    ///
    /// # Errors
    ///
    /// When it cannot be made.
    pub fn directory(path: &Path) -> Result<Self, TreeError> {
        fs::create_dir_all(path).map_err(|source| unwritten(path, source))?;
        Ok(Self {
            path: path.to_owned(),
            form: Form::Directory(Mutex::default()),
        })
    }

    /// A tar archive.
    ///
    /// # Errors
    ///
    /// When it cannot be begun.
    pub fn tar(path: &Path) -> Result<Self, TreeError> {
        let partial = partial(path);
        let file = File::create(&partial).map_err(|source| unwritten(&partial, source))?;
        Ok(Self {
            path: path.to_owned(),
            form: Form::Tar(Mutex::new(Archive {
                file: BufWriter::with_capacity(BUFFER, file),
                partial,
                names: BTreeSet::new(),
            })),
        })
    }

    /// Whether blobs have to come one after the other, with their sizes known.
    #[must_use]
    pub fn is_sequential(&self) -> bool {
        matches!(self.form, Form::Tar(_))
    }

    /// The size of a file that is there.
    #[must_use]
    pub fn size(&self, name: &str) -> Option<u64> {
        match &self.form {
            Form::Directory(_) => fs::metadata(self.path.join(name))
                .ok()
                .filter(fs::Metadata::is_file)
                .map(|metadata| metadata.len()),
            Form::Tar(archive) => lock(archive).names.contains(name).then_some(0),
        }
    }

    /// A small file that is there already; none in a tar archive, which is always new.
    #[must_use]
    pub fn read(&self, name: &str) -> Option<Vec<u8>> {
        match &self.form {
            Form::Directory(_) => fs::read(self.path.join(name)).ok(),
            Form::Tar(_) => None,
        }
    }

    /// Writes a small file, whatever was there before.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub fn put(&self, name: &str, octets: &[u8]) -> Result<(), TreeError> {
        let size = u64::try_from(octets.len()).unwrap_or(u64::MAX);
        self.write(name, size, |to| to(octets))
    }

    /// Writes a blob from its pieces, which must give the digest and the size.
    ///
    /// # Errors
    ///
    /// When it cannot be written, or is another.
    pub fn put_blob(
        &self,
        name: &str,
        digest: &Digest,
        size: u64,
        pieces: impl Iterator<Item = io::Result<Bytes>>,
    ) -> Result<(), TreeError> {
        self.write(name, size, |to| {
            let mut hasher = Hasher::new(digest.algorithm());
            for piece in pieces {
                let piece = piece.map_err(TreeError::Body)?;
                hasher.update(&piece);
                if hasher.n_octets() > size {
                    return Err(TreeError::Body(io::Error::other("longer than announced")));
                }
                to(&piece)?;
            }
            if hasher.n_octets() != size {
                return Err(TreeError::Body(io::ErrorKind::UnexpectedEof.into()));
            }
            let got = hasher.finish();
            match got == *digest {
                true => Ok(()),
                false => Err(TreeError::Digest(got)),
            }
        })
    }

    fn write(
        &self,
        name: &str,
        size: u64,
        fill: impl FnOnce(&mut dyn FnMut(&[u8]) -> Result<(), TreeError>) -> Result<(), TreeError>,
    ) -> Result<(), TreeError> {
        match &self.form {
            Form::Directory(changed) => {
                let path = self.path.join(name);
                let directory = path.parent().unwrap_or(&self.path).to_owned();
                fs::create_dir_all(&directory).map_err(|source| unwritten(&path, source))?;
                let aside = partial(&path);
                let written = self.write_file(&aside, fill);
                let written = written.and_then(|()| {
                    fs::rename(&aside, &path).map_err(|source| unwritten(&path, source))
                });
                if written.is_err() {
                    drop(fs::remove_file(&aside));
                }
                lock(changed).insert(directory);
                written
            }
            Form::Tar(archive) => {
                let mut archive = lock(archive);
                let failed = |source| unwritten(&self.path, source);
                let file = &mut archive.file;
                file.write_all(&tar::header(name, size)).map_err(failed)?;
                fill(&mut |octets| file.write_all(octets).map_err(failed))?;
                file.write_all(tar::padding(size)).map_err(failed)?;
                archive.names.insert(name.to_owned());
                Ok(())
            }
        }
    }

    fn write_file(
        &self,
        path: &Path,
        fill: impl FnOnce(&mut dyn FnMut(&[u8]) -> Result<(), TreeError>) -> Result<(), TreeError>,
    ) -> Result<(), TreeError> {
        let failed = |source| unwritten(path, source);
        let mut file = File::create(path).map_err(failed)?;
        fill(&mut |octets| file.write_all(octets).map_err(failed))?;
        file.sync_data().map_err(failed)
    }

    /// Makes durable what was written, and gives an archive its name.
    ///
    /// # Errors
    ///
    /// When that fails.
    pub fn finish(&self) -> Result<(), TreeError> {
        let failed = |source| unwritten(&self.path, source);
        match &self.form {
            Form::Directory(changed) => {
                for directory in lock(changed).iter() {
                    // And the names of directories that were made on the way to it.
                    for directory in directory.ancestors() {
                        File::open(directory)
                            .and_then(|directory| directory.sync_all())
                            .map_err(|source| unwritten(directory, source))?;
                        if directory == self.path {
                            break;
                        }
                    }
                }
                Ok(())
            }
            Form::Tar(archive) => {
                let mut archive = lock(archive);
                archive.file.write_all(tar::end()).map_err(failed)?;
                archive.file.flush().map_err(failed)?;
                archive.file.get_ref().sync_all().map_err(failed)?;
                fs::rename(&archive.partial, &self.path).map_err(failed)
            }
        }
    }
}

fn unwritten(path: &Path, source: io::Error) -> TreeError {
    TreeError::Write {
        path: path.to_owned(),
        source,
    }
}

/// The name that a file has until it is whole.
fn partial(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".partial");
    path.with_file_name(name)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

#[cfg(test)]
mod tests {
    use oci::digest::Algorithm;
    use registry_archive::catalogue::Files as _;
    use registry_archive::testing::Scratch;

    use super::*;
    use crate::archive::Archive;

    fn pieces(octets: &[&'static [u8]]) -> impl Iterator<Item = io::Result<Bytes>> {
        let pieces: Vec<_> = octets.iter().copied().map(Bytes::from_static).collect();
        pieces.into_iter().map(Ok)
    }

    #[test]
    fn what_is_written_is_an_archive() {
        let scratch = Scratch::new();
        let digest = Digest::of(Algorithm::Sha256, b"one two");
        let name = format!("blobs/sha256/{}", digest.hex());
        for (path, is_tar) in [("directory", false), ("a.tar", true)] {
            let path = scratch.path(path);
            let tree = match is_tar {
                true => Tree::tar(&path).unwrap(),
                false => Tree::directory(&path).unwrap(),
            };
            tree.put("oci-layout", b"{}").unwrap();
            tree.put_blob(&name, &digest, 7, pieces(&[b"one ", b"two"]))
                .unwrap();
            assert!(tree.size(&name).is_some() && tree.size("gone").is_none());
            tree.finish().unwrap();
            let archive = Archive::open(&[path]).unwrap();
            assert!(archive.problems.is_empty());
            assert_eq!(archive.entries().len(), 2);
            assert_eq!(archive.read(&name, 10).unwrap(), b"one two");
        }
        assert!(!scratch.path("a.tar.partial").exists());
    }

    #[test]
    fn what_is_not_whole_has_no_name() {
        let scratch = Scratch::new();
        let tree = Tree::directory(&scratch.path("d")).unwrap();
        let digest = Digest::of(Algorithm::Sha256, b"one");
        let put = |pieces| tree.put_blob("b/x", &digest, 3, pieces);
        let broken: Vec<io::Result<Bytes>> = vec![
            Ok(Bytes::from_static(b"on")),
            Err(io::ErrorKind::BrokenPipe.into()),
        ];
        assert!(matches!(
            put(Vec::new().into_iter()),
            Err(TreeError::Body(_))
        ));
        assert!(matches!(put(broken.into_iter()), Err(TreeError::Body(_))));
        let other = vec![Ok(Bytes::from_static(b"two"))];
        assert!(matches!(put(other.into_iter()), Err(TreeError::Digest(_))));
        let long = vec![Ok(Bytes::from_static(b"one and more"))];
        assert!(matches!(put(long.into_iter()), Err(TreeError::Body(_))));
        assert_eq!(fs::read_dir(scratch.path("d/b")).unwrap().count(), 0);
        put(vec![Ok(Bytes::from_static(b"one"))].into_iter()).unwrap();
        assert_eq!(tree.size("b/x"), Some(3));
    }
}
