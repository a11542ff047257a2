//! Master files (RFC 1035 §5) with the additions of BIND and `PowerDNS`: `$TTL` (RFC 2308 §4), `$GENERATE`,
//! time units, `LUA` records and the generic forms of RFC 3597.
//!
//! ```text
//! octets ─► lexer ─► entries ─► Parser ─► records ─► merge ─► ZoneFile
//!                                  │ $INCLUDE
//!                                  └─► loader (the caller's closure) ─► octets
//! ```
//!
//! * Every slip of a file is reported with its line and column, up to [`MAX_PROBLEMS`]; a zone
//!   with any is refused as a whole.
//! * A record that may be right, but has a type or a word in its data that this version does not know, is left
//!   out alone, with its line and column.
//! * `$INCLUDE` looks in [`Options::directory`], as named and pdns do with the `directory` of
//!   their options, and when there is no such file, beside the including file. Origin and owner
//!   are as before when the included file ends (RFC 1035 §5.1); `$TTL` stays.
//! * A record without TTL takes that of `$TTL`, else the last one stated (RFC 1035 §5.1), else
//!   the SOA's minimum, else [`Options::default_ttl`].
//! * Whether the records make sense together is for [`check`](crate::check), save for what no
//!   zone can be served without: one SOA and an NS at its apex.
//!
//! Reads files only through the loader, and never panics on any input.

mod directive;
mod records;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use config::dns_authd::{Lua, Zones};
use config_text::{MAX_PROBLEMS, MAX_WARNINGS, Position, Problem, Rejected};
use dns_wire::rdata::{self, Token};
use dns_wire::{Name, Type};

use crate::lexer::{Entry, Lexer, Place};
use crate::merge;
use crate::record::Record;
use records::Head;

/// The longest TTL (RFC 2181 §8).
const MAX_TTL: u32 = i32::MAX as u32;

/// Reads a file's octets.
pub type Load<'a> = &'a mut dyn FnMut(&Path) -> io::Result<Vec<u8>>;

/// A zone as its files have it.
#[derive(Clone, Debug)]
pub struct ZoneFile {
    /// The name of the zone.
    pub apex: Name,
    /// Its records in the order of the files, each one once.
    pub records: Vec<Record>,
    /// Every file that was read, the zone's own first.
    pub files: Vec<PathBuf>,
    /// Oddities that do not prevent loading.
    pub warnings: Vec<Problem>,
    /// The records that are left out because this version does not know something in them.
    pub left_out: LeftOut,
}

/// Records that were left out of a zone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// How many there are.
    pub count: usize,
    /// The first of them, and the unknown word in each.
    pub first: Vec<Problem>,
}

impl LeftOut {
    fn finished(mut self) -> Self {
        for problem in &mut self.first {
            problem.message.push_str("; the record is left out");
        }
        self
    }
}

/// The most left out records of a zone that are named one by one.
pub const MAX_LEFT_OUT: usize = 100;

/// The options for reading master files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The first directory that `$INCLUDE` searches.
    pub directory: Option<PathBuf>,
    /// The TTL of records without a TTL in any file.
    pub default_ttl: u32,
    /// The deepest nesting of `$INCLUDE`.
    pub include_depth: usize,
    /// The most files that one zone may include, counting each time.
    pub include_files: usize,
    /// The most records that `$GENERATE` may make in one zone; 0 is no limit.
    pub generate_steps: u32,
    /// Whether a blank goes between the strings of a `LUA` record when they are joined.
    pub lua_whitespace: bool,
    /// The treatment of records outside the zone.
    pub out_of_zone: OutOfZone,
}

/// The treatment of records outside the zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutOfZone {
    /// The zone is refused.
    Refuse,
    /// The records are left out, with a warning.
    Skip,
}

impl Default for Options {
    fn default() -> Self {
        Self::of(&Zones::default(), Lua::default())
    }
}

impl Options {
    /// The options of a configuration.
    #[must_use]
    pub fn of(zones: &Zones, lua: Lua) -> Self {
        Self {
            directory: zones.directory.clone(),
            default_ttl: zones.default_ttl,
            include_depth: zones.include_depth,
            include_files: MAX_INCLUDED_FILES,
            generate_steps: zones.generate_steps,
            lua_whitespace: lua.insert_whitespace,
            out_of_zone: match zones.skip_out_of_zone {
                true => OutOfZone::Skip,
                false => OutOfZone::Refuse,
            },
        }
    }
}

/// The most files that one zone may include, counting each time.
const MAX_INCLUDED_FILES: usize = 10_000;

/// Reads the zone `apex` from the file at `path`.
///
/// # Errors
/// Fails when any part of its files cannot be read or understood, or the zone lacks its SOA or NS.
pub fn parse(
    path: &Path,
    apex: &Name,
    load: Load<'_>,
    options: &Options,
) -> Result<ZoneFile, Rejected> {
    let mut parser = Parser {
        apex,
        options,
        load,
        records: Vec::new(),
        files: vec![path.to_owned()],
        warnings: Vec::new(),
        problems: Vec::new(),
        left_out: LeftOut::default(),
        ttls: Ttls::default(),
        including: vec![path.to_owned()],
        n_included: 0,
        n_generated: 0,
        rdata: Vec::new(),
    };
    match (parser.load)(path) {
        Ok(text) => parser.file(&text, &mut Scope::new(path, apex.clone())),
        Err(error) => parser.problems.push(Problem {
            position: None,
            message: format!("cannot read zone file {}: {error}", path.display()),
        }),
    }
    parser.finish(path)
}

/// Reads the zone `example.` from octets, with nothing to include.
pub fn parse_bytes(text: &[u8]) -> Result<ZoneFile, Rejected> {
    let apex = Name::parse("example.").unwrap_or_else(|_| Name::root());
    let mut load = |path: &Path| match path.to_str() {
        Some("zone") => Ok(text.to_vec()),
        _ => Err(io::ErrorKind::NotFound.into()),
    };
    parse(Path::new("zone"), &apex, &mut load, &Options::default())
}

/// The parser of one zone's files.
struct Parser<'p> {
    apex: &'p Name,
    options: &'p Options,
    load: Load<'p>,
    records: Vec<Record>,
    files: Vec<PathBuf>,
    warnings: Vec<Problem>,
    problems: Vec<Problem>,
    left_out: LeftOut,
    ttls: Ttls,
    /// The files being read, each included by the one before.
    including: Vec<PathBuf>,
    n_included: usize,
    n_generated: u32,
    /// Reused from record to record.
    rdata: Vec<u8>,
}

/// TTLs that records may leave out.
#[derive(Default)]
struct Ttls {
    /// The TTL of `$TTL`, or else of an SOA without a TTL of its own.
    default: Option<u32>,
    /// The TTL of the last record that had one.
    last: Option<u32>,
}

/// The state that passes from line to line of one file.
struct Scope {
    file: Arc<Path>,
    origin: Name,
    owner: Owner,
}

/// The owner of a line that begins with a blank.
enum Owner {
    /// No line has named an owner yet.
    Unnamed,
    Name(Name),
    /// The line that should have named the owner was refused.
    Refused,
}

/// An error in an entry, and the word at fault.
struct Fault {
    token: usize,
    message: String,
    /// Whether only the record is left out: a later version may know the word.
    is_unknown: bool,
}

impl Fault {
    fn new(token: usize, message: impl Into<String>) -> Self {
        Self {
            token,
            message: message.into(),
            is_unknown: false,
        }
    }

    /// The same fault, in a record that is left out.
    fn unknown(self) -> Self {
        Self {
            is_unknown: true,
            ..self
        }
    }
}

impl Scope {
    fn new(path: &Path, origin: Name) -> Self {
        Self {
            file: path.into(),
            origin,
            owner: Owner::Unnamed,
        }
    }

    fn position(&self, lexer: &Lexer<'_>, place: Place) -> Position {
        let file = Arc::clone(&self.file);
        Position {
            file,
            line: place.line,
            column: lexer.column(place),
        }
    }
}

//--- Files and entries

impl Parser<'_> {
    /// Reads one file.
    fn file(&mut self, text: &[u8], scope: &mut Scope) {
        let mut lexer = Lexer::new(text);
        let mut entry = Entry::default();
        while self.problems.len() < MAX_PROBLEMS && lexer.read(&mut entry) {
            if let Some((place, message)) = entry.fault {
                scope.owner = Owner::Refused;
                let position = Some(scope.position(&lexer, place));
                self.problems.push(Problem {
                    position,
                    message: message.to_owned(),
                });
                continue;
            }
            if let Err(fault) = self.entry(&entry, &lexer, scope) {
                let position = Some(scope.position(&lexer, entry.place(fault.token)));
                let message = fault.message;
                let problem = Problem { position, message };
                match fault.is_unknown {
                    true => self.leave_out(problem),
                    false => self.problems.push(problem),
                }
            }
        }
    }

    /// Keeps the TTL of a record that is left out, for the records behind it.
    fn note_ttl(&mut self, fault: &Fault, ttl: Option<u32>) {
        if let Some(ttl) = ttl.filter(|_| fault.is_unknown) {
            self.ttls.last = Some(ttl.min(MAX_TTL));
        }
    }

    /// Counts a record that is left out.
    fn leave_out(&mut self, problem: Problem) {
        self.left_out.count += 1;
        if self.left_out.first.len() < MAX_LEFT_OUT {
            self.left_out.first.push(problem);
        }
    }

    fn entry(
        &mut self,
        entry: &Entry<'_>,
        lexer: &Lexer<'_>,
        scope: &mut Scope,
    ) -> Result<(), Fault> {
        let tokens = entry.tokens.as_slice();
        match tokens {
            [
                Token {
                    text,
                    quoted: false,
                },
                rest @ ..,
            ] if text.starts_with(b"$") => {
                let at = scope.position(lexer, entry.place(0));
                self.directive(text, rest, &at, scope)
            }
            _ => {
                let first = usize::from(!entry.indented);
                if let Some(token) = tokens.first().filter(|_| !entry.indented) {
                    scope.owner = Owner::Refused;
                    let at = scope.position(lexer, entry.place(0));
                    if let Some(owner) = self.owner(*token, &scope.origin, &at)? {
                        scope.owner = Owner::Name(owner);
                    }
                }
                let owner = match &scope.owner {
                    Owner::Name(name) => name.clone(),
                    Owner::Refused => return Ok(()),
                    Owner::Unnamed => {
                        return Err(Fault::new(0, "no line before this one names an owner"));
                    }
                };
                let head = Head::read(tokens, first).inspect_err(|fault| {
                    let words = tokens.get(first..fault.token).unwrap_or_default();
                    self.note_ttl(
                        fault,
                        words.iter().find_map(|word| rdata::seconds(word.text)),
                    );
                })?;
                let place = if head.is_program() { head.next + 1 } else { 0 };
                let at = scope.position(lexer, entry.place(place));
                self.record(owner, &head, tokens, at, &scope.origin)
            }
        }
    }

    /// The owner that a word names; `None` when its records are to be left out.
    fn owner(
        &mut self,
        token: Token<'_>,
        origin: &Name,
        at: &Position,
    ) -> Result<Option<Name>, Fault> {
        let owner = name(token, origin, 0)?;
        if owner.is_within(self.apex) {
            return Ok(Some(owner));
        }
        let message = format!("{owner} is outside the zone {}", self.apex);
        if self.options.out_of_zone == OutOfZone::Refuse {
            return Err(Fault::new(0, message));
        }
        self.warn(at, format!("{message} and left out"));
        Ok(None)
    }

    fn warn(&mut self, position: &Position, message: String) {
        if self.warnings.len() < MAX_WARNINGS {
            self.warnings.push(Problem {
                position: Some(position.clone()),
                message,
            });
        }
    }
}

/// Reads a domain name from a word.
fn name(token: Token<'_>, origin: &Name, at: usize) -> Result<Name, Fault> {
    if token.quoted {
        return Err(Fault::new(at, "a domain name has no quotes"));
    }
    if token.text == b"@" {
        return Ok(origin.clone());
    }
    Name::parse_bytes(token.text, origin).map_err(|error| Fault::new(at, error.to_string()))
}

/// A word between backquotes, for a message.
fn shown(token: Token<'_>) -> String {
    let text = String::from_utf8_lossy(token.text);
    let start: String = text.chars().take(40).collect();
    if start.len() < text.len() {
        format!("`{start}…`")
    } else {
        format!("`{start}`")
    }
}

//--- The whole zone

impl Parser<'_> {
    fn finish(mut self, path: &Path) -> Result<ZoneFile, Rejected> {
        if self.problems.len() >= MAX_PROBLEMS {
            let message = "there may be more problems; these are the first".to_owned();
            self.problems.push(Problem {
                position: None,
                message,
            });
        }
        if self.problems.is_empty() {
            merge::merge(&mut self.records, |position, message| {
                if self.warnings.len() < MAX_WARNINGS {
                    self.warnings.push(Problem {
                        position: Some(position.clone()),
                        message,
                    });
                }
            });
            self.demand_soa_and_ns(path);
        }
        if !self.problems.is_empty() {
            if self.left_out.count > 0 {
                // The file has to be mended anyway.
                self.problems.extend(self.left_out.first);
                let place = |it: &Problem| (it.position.is_none(), it.position.clone());
                self.problems.sort_by_key(place);
            }
            return Err(Rejected {
                problems: self.problems,
                files: self.files,
            });
        }
        Ok(ZoneFile {
            apex: self.apex.clone(),
            records: self.records,
            files: self.files,
            warnings: self.warnings,
            left_out: self.left_out.finished(),
        })
    }

    /// Demands one SOA, only at the apex, and a server for the zone (RFC 1035 §5.2).
    fn demand_soa_and_ns(&mut self, path: &Path) {
        let start = Position {
            file: path.into(),
            line: 1,
            column: 1,
        };
        let mut problem = |position: &Position, message: String| {
            self.problems.push(Problem {
                position: Some(position.clone()),
                message,
            });
        };
        let (mut first_soa, mut has_ns) = (None, false);
        for record in &self.records {
            match record.rtype() {
                Type::SOA if record.owner != *self.apex => {
                    let message = format!("only the apex {} may have an SOA", self.apex);
                    problem(&record.position, message);
                }
                Type::SOA => match first_soa {
                    None => first_soa = Some(record.position.line),
                    Some(line) => {
                        let message = format!("a second SOA; the first is on line {line}");
                        problem(&record.position, message);
                    }
                },
                Type::NS if record.owner == *self.apex => has_ns = true,
                _ => {}
            }
        }
        if first_soa.is_none() {
            problem(
                &start,
                format!("the zone {} has no SOA at its apex", self.apex),
            );
        }
        if !has_ns {
            problem(
                &start,
                format!("the zone {} has no NS at its apex", self.apex),
            );
        }
    }
}

#[cfg(test)]
mod tests;
