//! Reads haproxy.cfg (HAProxy's configuration.txt), as far as it is about TCP.
//!
//! [`parse`] gives the file as it is written: sections of directives made of words. [`import`] gives it
//! in lb-proxy's terms. The shapes it is made for are those of OpenShift: the load balancer of a helper
//! node, the sample of the documentation, and the template of on-premises installations. Reads no file
//! and asks no resolver but through [`HostInfo`].

mod bind;
mod check;
mod condition;
mod lexer;
mod proxy;
mod reasons;
mod render;
mod resolvers;
mod rules;
mod server;
mod source_counts;
mod source_limits;
mod tcp_check;
mod tree;
mod values;

use std::net::IpAddr;
use std::path::Path;

use config::Draft;
use config::lb_proxy::LbProxy;
use config_text::{MAX_PROBLEMS, Problem};

pub use lexer::{Line, Word};
pub use tree::{Kind, Section, Tree};

/// The machine's facts that a file refers to.
pub trait HostInfo {
    /// The value of an environment variable.
    fn variable(&self, name: &str) -> Option<String>;

    /// The addresses of a host; none when it has none, or they are unknown.
    fn resolve(&self, host: &str) -> Vec<IpAddr>;

    /// The DNS servers that the machine asks.
    fn nameservers(&self) -> Vec<IpAddr>;
}

/// A machine that knows nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHostInfo;

impl HostInfo for NoHostInfo {
    fn variable(&self, _name: &str) -> Option<String> {
        None
    }

    fn resolve(&self, _host: &str) -> Vec<IpAddr> {
        Vec::new()
    }

    fn nameservers(&self) -> Vec<IpAddr> {
        Vec::new()
    }
}

/// Files as they are written, one after the other.
///
/// # Errors
///
/// When one breaks the syntax: a quote that does not end, a directive outside of any section.
pub fn parse(files: &[(&Path, &[u8])], surroundings: &dyn HostInfo) -> Result<Tree, Vec<Problem>> {
    let mut lines = Vec::new();
    let mut problems = Vec::new();
    for (path, text) in files {
        match lexer::lex(path, text, surroundings) {
            Ok(more) => lines.extend(more),
            Err(more) => problems.extend(more),
        }
    }
    if !problems.is_empty() {
        problems.truncate(MAX_PROBLEMS);
        return Err(problems);
    }
    tree::parse(lines)
}

/// Files as a configuration of lb-proxy.
///
/// # Errors
///
/// As [`parse`]. A line that is understood but has no counterpart is a note, no error.
pub fn import(
    files: &[(&Path, &[u8])],
    surroundings: &dyn HostInfo,
) -> Result<Draft<LbProxy>, Vec<Problem>> {
    let tree = parse(files, surroundings)?;
    Ok(render::import(&tree, surroundings))
}

#[cfg(test)]
mod tests;
