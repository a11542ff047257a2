//! Reads haproxy.cfg (HAProxy's configuration.txt), as far as it is about TCP.
//!
//! [`parse`] gives the file as it is written: sections of directives made of words. [`import`] gives it
//! in this proxy's terms. The shapes it is made for are those of OpenShift: the load balancer of a helper
//! node, the sample of the documentation, and the template of on-premises installations. Reads no file
//! and asks no resolver but through [`Surroundings`].

mod bind;
mod check;
mod condition;
mod lexer;
mod proxy;
mod reasons;
mod render;
mod rules;
mod server;
mod tree;
mod words;

use std::net::IpAddr;
use std::path::Path;

use text_position::Problem;

pub use crate::imported::Imported;
pub use lexer::{Line, Word};
pub use tree::{Kind, Section, Tree};

/// What the machine knows that a file refers to.
pub trait Surroundings {
    /// The value of an environment variable.
    fn variable(&self, name: &str) -> Option<String>;

    /// The addresses of a host; none when it has none, or nobody knows.
    fn resolve(&self, host: &str) -> Vec<IpAddr>;
}

/// A machine that knows nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nowhere;

impl Surroundings for Nowhere {
    fn variable(&self, _name: &str) -> Option<String> {
        None
    }

    fn resolve(&self, _host: &str) -> Vec<IpAddr> {
        Vec::new()
    }
}

/// The file as it is written.
///
/// # Errors
///
/// When it breaks the syntax: a quote that does not end, a directive outside of any section.
pub fn parse(
    file: &Path,
    text: &[u8],
    surroundings: &dyn Surroundings,
) -> Result<Tree, Vec<Problem>> {
    tree::parse(lexer::lex(file, text, surroundings)?)
}

/// The file in this proxy's terms.
///
/// # Errors
///
/// As [`parse`]. What is understood but has no counterpart is a remark, no error.
pub fn import(
    file: &Path,
    text: &[u8],
    surroundings: &dyn Surroundings,
) -> Result<Imported, Vec<Problem>> {
    let tree = parse(file, text, surroundings)?;
    Ok(render::import(file, &tree, surroundings))
}

#[cfg(test)]
mod tests;
