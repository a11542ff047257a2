//! chrony.conf(5), as far as it can be honoured.
//!
//! ```text
//! pool 0.tw.pool.ntp.org iburst
//! driftfile /var/lib/chrony/drift
//! makestep 1.0 3
//! rtcsync
//! ```
//!
//! Lines are read as chronyd 4.3 reads them: a word and its arguments, in any case; a line that begins with `!`, `;`, `#` or `%`
//! is a comment, and there is no other comment. `include`, `confdir` and `sourcedir` are followed. Directives
//! that chrony added later, up to 4.8, are known, too.
//!
//! A directive that chrony knows but that does nothing here is a [warning](ChronyConf::warnings) with the reason; one that chrony
//! does not know either is an error, as it is for chronyd. Numbers that chronyd would silently bend into their range are bent, with
//! a warning.
//!
//! Reads nothing but through [`Files`], and never panics on any input.

mod access;
mod directives;
mod include;
mod line;
mod refclock;
mod source;
mod values;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

pub use config_text::{Files, OneFile, Position, Problem, Rejected};
use config_text::{MAX_PROBLEMS, MAX_WARNINGS};

use time_model::settings::{ClientMatch, Settings, SourceSettings};

pub use access::whom;
pub use directives::names;

/// A parsed chrony.conf.
#[derive(Clone, Debug, PartialEq)]
pub struct ChronyConf {
    /// To this program.
    pub settings: Settings,
    /// Lines that are odd but understood, and lines that have no effect here; file by file and line by line.
    pub warnings: Vec<Problem>,
    /// Every file that was read, chrony.conf itself first.
    pub files: Vec<PathBuf>,
}

/// Reads the chrony.conf at `path` and what it includes.
///
/// # Errors
/// When a file cannot be read, a directive is unknown or its arguments make no sense.
pub fn parse(path: &Path, files: &mut dyn Files) -> Result<ChronyConf, Rejected> {
    let mut reader = Reader::new(files);
    reader.file(path, None);
    reader.finish()
}

/// Reads a chrony.conf from octets, with nothing to include.
///
/// # Errors
/// As [`parse`].
pub fn parse_bytes(text: &[u8]) -> Result<ChronyConf, Rejected> {
    parse(Path::new("chrony.conf"), &mut OneFile(text))
}

/// Reads the sources in directories that `sourcedir` named, as `reload sources` of chronyc does; lines with problems are left out
/// and told.
pub fn parse_source_directories(
    directories: &[PathBuf],
    files: &mut dyn Files,
) -> (Vec<SourceSettings>, Vec<Problem>) {
    let mut reader = Reader::new(files);
    reader.settings.source_directories = directories.to_vec();
    reader.source_directories();
    (reader.settings.sources, reader.warnings)
}

/// Files on their way to [`Settings`].
struct Reader<'f> {
    files: &'f mut dyn Files,
    settings: Settings,
    problems: Vec<Problem>,
    warnings: Vec<Problem>,
    read: Vec<PathBuf>,
    /// How many files included the one that is read.
    depth: usize,
    /// Words `lock` of reference clocks, to be looked at when all are known.
    locks: Vec<(Position, u32)>,
}

impl<'f> Reader<'f> {
    fn new(files: &'f mut dyn Files) -> Self {
        Self {
            files,
            settings: Settings::default(),
            problems: Vec::new(),
            warnings: Vec::new(),
            read: Vec::new(),
            depth: 0,
            locks: Vec::new(),
        }
    }

    fn finish(mut self) -> Result<ChronyConf, Rejected> {
        self.source_directories();
        self.bind_both_families();
        for (position, lock) in std::mem::take(&mut self.locks) {
            let mut clocks = self.settings.refclocks.iter();
            if !clocks.any(|clock| clock.options.reference_id == lock) {
                let name = time_model::settings::reference_id_text(lock);
                self.problem(
                    position,
                    format!("no reference clock has the refid `{name}`"),
                );
            }
        }
        if self.problems.is_empty() {
            Ok(ChronyConf {
                settings: self.settings,
                warnings: self.warnings,
                files: self.read,
            })
        } else {
            Err(Rejected {
                problems: self.problems,
                files: self.read,
            })
        }
    }

    /// A `bindaddress` of one family does not restrict the other one: chronyd opens a socket of each.
    fn bind_both_families(&mut self) {
        let server = &mut self.settings.server;
        if server.bind_addresses.is_empty() {
            return;
        }
        let wildcards = [
            IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        ];
        for wildcard in wildcards {
            let is_ipv4 = wildcard.is_ipv4();
            let mut bound = server.bind_addresses.iter();
            let may_ask = |whom: &ClientMatch| match whom {
                ClientMatch::Network(network) => network.addr().is_ipv4() == is_ipv4,
                ClientMatch::Everybody | ClientMatch::Name(_) => true,
            };
            let mut rules = server.access.iter();
            if bound.all(|address| address.is_ipv4() != is_ipv4)
                && rules.any(|rule| rule.allow && may_ask(&rule.whom))
            {
                server.bind_addresses.push(wildcard);
            }
        }
    }

    fn problem(&mut self, position: Position, message: impl Into<String>) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(Problem::at(position, message));
        }
    }

    fn warn(&mut self, position: Position, message: impl Into<String>) {
        if self.warnings.len() < MAX_WARNINGS {
            self.warnings.push(Problem::at(position, message));
        }
    }
}

#[cfg(test)]
mod tests;
