//! Reads keepalived.conf (keepalived.conf(5)), as far as it is about VRRP.
//!
//! [`parse`] gives the file as it is written, with what it includes: words and blocks. [`import()`] gives
//! it in lb-proxy's terms. The shape it is made for is the template of OpenShift's on-premises
//! installations, and files that people write. Reads no file but through [`Files`].

mod import;
mod instance;
mod lexer;
mod reasons;
mod substitute;
mod tree;

use std::path::Path;

use config_text::{Files, Problem};

pub use config_text::import_report::ImportReport;
pub use tree::{Node, Tree};

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

/// The file in lb-proxy's terms.
///
/// # Errors
///
/// As [`parse`]. A line that is understood but has no counterpart is a remark, no error.
pub fn import(
    path: &Path,
    files: &mut dyn Files,
    id: Option<&str>,
) -> Result<ImportReport, Vec<Problem>> {
    let tree = parse(path, files, id)?;
    Ok(import::import(path, &tree))
}

#[cfg(test)]
mod tests;
