//! Reads keepalived.conf (keepalived.conf(5)): virtual routers, the scripts that they track, and services of LVS.
//!
//! [`parse`] gives the file as it is written, with what it includes: words and blocks. [`import()`] gives
//! it in lb-proxy's terms. The shape it is made for is the template of OpenShift's on-premises
//! installations, and files that people write. Reads no file but through [`Files`].

mod import;
mod instance;
mod lexer;
mod question;
mod reasons;
mod scripts;
mod substitute;
mod tree;
mod virtual_server;

use std::path::Path;

use config::Draft;
use config::lb_proxy::LbProxy;
use config_text::{Files, Problem};

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

/// The file as a configuration of lb-proxy.
///
/// # Errors
///
/// As [`parse`]. A line that is understood but has no counterpart is a note, no error.
pub fn import(
    path: &Path,
    files: &mut dyn Files,
    id: Option<&str>,
) -> Result<Draft<LbProxy>, Vec<Problem>> {
    let tree = parse(path, files, id)?;
    Ok(import::import(&tree))
}

#[cfg(test)]
mod tests;
