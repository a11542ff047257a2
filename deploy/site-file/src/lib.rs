//! `site.toml`: the file that describes a site, as people write it, made into a [`Site`].
//!
//! ```text
//! site.toml ─► config::site (serde) ─► build ─► Site, problems, remarks, files that it names
//!                                        │ claims        whose an address, a name, a port is
//!                                        │ names         what may be a name
//!                                        │ remedy        what to do about a problem
//!                                        └ master_file   records, read as dns-authd reads them
//! ```
//!
//! [`parse`] is pure; every problem has its line and column, and all are found in one go. Whether
//! the files are there that a site file names is for `crate::check`.

mod build;
mod builder;
mod claims;
mod cluster;
mod master_file;
pub mod names;
mod offers;
mod page;
mod platform;
mod registry;
mod remedy;
mod report;
mod zone;

use std::path::{Path, PathBuf};

use config_text::Position;
use daemon::config::{Document, Problems};

pub use remedy::remedy;
pub use report::{Kind, Remark};

use site::Site;

/// The default path of a site file.
pub const DEFAULT: &str = "site.toml";

/// The result of reading a site file.
#[derive(Debug)]
pub struct SiteFile {
    /// The site, or everything that is wrong.
    pub site: Result<Site, Problems>,
    /// Warnings and notes.
    pub remarks: Vec<Remark>,
    /// Files that it names.
    pub named: Vec<Named>,
}

/// A file that a site file names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The content, for people.
    pub what: &'static str,
    /// The same, for who looks into it.
    pub holds: Holds,
    /// The path, relative to the site file.
    pub path: PathBuf,
    /// The place that names it.
    pub position: Position,
}

/// The required content of a file that a site file names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// Users and their passwords, as `htpasswd -B` writes them.
    Users,
    /// `user:password` of one.
    Credentials,
    /// Certificates (PEM).
    Certificates,
    /// A way into the API of Kubernetes.
    Kubeconfig,
}

/// Reads a site file.
///
/// # Errors
///
/// When it cannot be read, or anything in it is wrong.
pub fn read(path: &Path) -> Result<Site, Problems> {
    parse(&open(path)?).site
}

/// Opens a site file.
///
/// # Errors
///
/// When it cannot be read; with what makes one, if there is none.
pub fn open(path: &Path) -> Result<Document, Problems> {
    daemon::config::read(path).map_err(|mut problems| {
        if !path.exists() {
            let advice =
                "; `outpost init` makes one from a few answers, or from install-config.yaml";
            problems
                .0
                .iter_mut()
                .for_each(|problem| problem.message.push_str(advice));
        }
        problems
    })
}

/// Makes a site of a document.
pub fn parse(document: &Document) -> SiteFile {
    let mut built = None;
    let parsed = document.parse_with(|file, check| built = Some(build::build(file, check)));
    let (site, remarks, named) = match built {
        Some(built) => (Some(built.site), built.remarks, built.named),
        None => (None, Vec::new(), Vec::new()),
    };
    let site = match (parsed, site) {
        (Ok(_), Some(site)) => Ok(site),
        (Ok(_), None) => Err(Problems::default()),
        (Err(problems), _) => Err(problems.into_iter().map(remedy::complete).collect()),
    };
    SiteFile {
        site,
        remarks,
        named,
    }
}

#[cfg(test)]
mod broken;
#[cfg(test)]
mod tests;
