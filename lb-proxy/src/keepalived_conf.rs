//! Reads keepalived.conf (keepalived.conf(5)), as far as it is about VRRP.
//!
//! [`parse`] gives the file as it is written, with what it includes: words and blocks. [`import()`] gives
//! it in this proxy's terms. The shape it is made for is the template of OpenShift's on-premises
//! installations, and what people write by hand. Reads no file but through [`Files`].

mod import;
mod instance;
mod lexer;
mod reasons;
mod substitute;
mod tree;

use std::io;
use std::path::{Path, PathBuf};

use config_text::Problem;

pub use crate::imported::Imported;
pub use tree::{Node, Tree};

/// The files that a file refers to.
pub trait Files {
    /// Reads a file's octets.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    fn read(&mut self, path: &Path) -> io::Result<Vec<u8>>;

    /// The files in a directory, in any order.
    ///
    /// # Errors
    ///
    /// When the directory cannot be read.
    fn list(&mut self, directory: &Path) -> io::Result<Vec<PathBuf>>;
}

/// One file's octets, whatever its name, and no directories.
#[derive(Clone, Copy, Debug)]
pub struct OneFile<'a>(pub &'a [u8]);

impl Files for OneFile<'_> {
    fn read(&mut self, _path: &Path) -> io::Result<Vec<u8>> {
        Ok(self.0.to_vec())
    }

    fn list(&mut self, _directory: &Path) -> io::Result<Vec<PathBuf>> {
        Err(io::ErrorKind::NotFound.into())
    }
}

/// The file as it is written, with what it includes.
///
/// Lines for one machine of several (`@id …`) count where `id` is the one they name; without an id they
/// are kept apart.
///
/// # Errors
///
/// When a file cannot be read, or a brace or quote does not end.
pub fn parse(path: &Path, files: &mut dyn Files, id: Option<&str>) -> Result<Tree, Vec<Problem>> {
    let lexed = lexer::lex(path, files, id)?;
    tree::parse(lexed)
}

/// The file in this proxy's terms.
///
/// # Errors
///
/// As [`parse`]. What is understood but has no counterpart is a remark, no error.
pub fn import(
    path: &Path,
    files: &mut dyn Files,
    id: Option<&str>,
) -> Result<Imported, Vec<Problem>> {
    let tree = parse(path, files, id)?;
    Ok(import::import(path, &tree))
}

#[cfg(test)]
mod tests;
