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
//! A directive that chrony knows but that does nothing here becomes a note with the reason; one that chrony does not know either
//! is an error, as it is for chronyd. Numbers that chronyd would silently bend into their range are bent, with a note.
//!
//! Reads nothing but through [`Files`], and never panics on any input.

mod access;
mod directives;
mod include;
mod line;
mod refclock;
mod source;
mod values;

use std::fmt::Display;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

use config::timesync_agent::{ClientMatch, TimesyncAgent, reference_id_text};
use config::{Class, Draft, Notes, Refused};
use config_text::{MAX_PROBLEMS, MAX_WARNINGS};

pub use config_text::{Files, OneFile, Position, Problem};
pub use directives::names;

/// A parsed chrony.conf.
#[derive(Clone, Debug, PartialEq)]
pub struct ChronyConf {
    /// The configuration, with notes on lines that are odd, differ or have no effect here.
    pub draft: Draft<TimesyncAgent>,
    /// Every file that was read, chrony.conf itself first.
    pub files: Vec<PathBuf>,
}

/// Reads the chrony.conf at `path` and what it includes; directories that `sourcedir` names are for
/// [`parse_source_directories`].
///
/// # Errors
/// When a file cannot be read, a directive is unknown or its arguments make no sense.
pub fn parse(path: &Path, files: &mut dyn Files) -> Result<ChronyConf, Refused> {
    let mut reader = Reader::new(files);
    reader.file(path, None);
    reader.finish()
}

/// Reads a chrony.conf from octets, with nothing to include.
///
/// # Errors
/// As [`parse`].
pub fn parse_bytes(text: &[u8]) -> Result<ChronyConf, Refused> {
    parse(Path::new("chrony.conf"), &mut OneFile(text))
}

/// Reads the servers and pools in directories that `sourcedir` named, as `reload sources` of chronyc does; lines with problems
/// are left out, with a note.
pub fn parse_source_directories(
    directories: &[PathBuf],
    files: &mut dyn Files,
) -> Draft<TimesyncAgent> {
    let mut reader = Reader::new(files);
    reader.source_directories(directories);
    Draft {
        config: reader.config,
        notes: reader.notes.into_notes(),
    }
}

/// Files on their way to a configuration.
struct Reader<'f> {
    files: &'f mut dyn Files,
    config: TimesyncAgent,
    problems: Vec<Problem>,
    notes: Notes,
    n_notes: usize,
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
            config: TimesyncAgent::default(),
            problems: Vec::new(),
            notes: Notes::default(),
            n_notes: 0,
            read: Vec::new(),
            depth: 0,
            locks: Vec::new(),
        }
    }

    fn finish(mut self) -> Result<ChronyConf, Refused> {
        self.bind_both_families();
        for (position, lock) in std::mem::take(&mut self.locks) {
            if !self.reference_ids().any(|id| id == lock) {
                let name = reference_id_text(lock);
                self.problem(
                    position,
                    format!("no reference clock has the refid `{name}`"),
                );
            }
        }
        let notes = self.notes.into_notes();
        if !self.problems.is_empty() {
            let problems = self.problems.into();
            return Err(Refused { problems, notes });
        }
        let config = self.config;
        Ok(ChronyConf {
            draft: Draft { config, notes },
            files: self.read,
        })
    }

    /// A `bindaddress` of one family does not restrict the other one: chronyd opens a socket of each.
    fn bind_both_families(&mut self) {
        let server = &mut self.config.serve;
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
            let may_ask = |clients: &ClientMatch| match clients {
                ClientMatch::Network(network) => network.addr().is_ipv4() == is_ipv4,
                ClientMatch::Everybody | ClientMatch::Name(_) => true,
            };
            let mut rules = server.access.iter();
            if bound.all(|address| address.is_ipv4() != is_ipv4)
                && rules.any(|rule| rule.allow && may_ask(&rule.clients))
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

    /// Nothing of a directive is in the configuration.
    fn lost(&mut self, class: Class, position: &Position, what: &str, reason: impl Display) {
        if let Some(notes) = self.notes() {
            notes.lost(class, position, what, reason);
        }
    }

    /// A directive is in the configuration, and is not quite the same.
    fn differs(&mut self, position: &Position, what: &str, how: &str) {
        if let Some(notes) = self.notes() {
            notes.differs(Class::Behaviour, position, what, how);
        }
    }

    /// Something is understood, but odd.
    fn odd(&mut self, position: impl Into<Option<Position>>, message: &str) {
        let position = position.into();
        if let Some(notes) = self.notes() {
            notes.odd(Class::Behaviour, position.as_ref(), message);
        }
    }

    /// The notes, while there is room for another.
    fn notes(&mut self) -> Option<&mut Notes> {
        self.n_notes += 1;
        (self.n_notes <= MAX_WARNINGS).then_some(&mut self.notes)
    }
}

#[cfg(test)]
mod tests;
