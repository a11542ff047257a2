//! The zone list of a named.conf, as BIND and the bind backend of pdns read it.
//!
//! ```text
//! options { directory "/etc/pdns"; also-notify { 192.0.2.1; }; };
//! zone "ocp4.redhat.ren" IN { type master; file "inside-out.xyz"; };
//! include "more.conf";
//! ```
//!
//! * `master`, `primary` and `native` zones, and those without a type, are served from their
//!   file. All other kinds stay in the list with a warning, and are not served.
//! * A relative file is one of `directory`, and without that statement is beside named.conf. A relative
//!   `directory` is one of the working directory, as named and pdns take it.
//! * Other statements are skipped with their braces, with one warning for each keyword.
//!
//! Reads files only through the loader, and never panics on any input.

mod lexer;
mod tree;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use config_text::{MAX_PROBLEMS, MAX_WARNINGS, Position, Problem, Rejected};
use dns_wire::Name;

use lexer::Place;
use tree::{Fault, Item, Statement};

/// The deepest nesting of `include`.
const INCLUDE_DEPTH: usize = 20;
/// The most files that may be included in all.
const INCLUDE_FILES: usize = 10_000;
/// The port of DNS servers.
const DNS_PORT: u16 = 53;

/// The zones and options of a named.conf.
#[derive(Clone, Debug, Default)]
pub struct NamedConf {
    /// The directory of relative file names.
    pub directory: PathBuf,
    /// Servers to notify of changes to any zone.
    pub also_notify: Vec<SocketAddr>,
    /// The zones in the order of the files; no name twice.
    pub zones: Vec<ZoneDecl>,
    /// Every file that was read, named.conf itself first.
    pub files: Vec<PathBuf>,
    /// Statements that have no counterpart here.
    pub warnings: Vec<Problem>,
}

/// One zone statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneDecl {
    /// The zone's name.
    pub name: Name,
    /// The source of its data.
    pub kind: ZoneKind,
    /// Its file; every zone that is served has one.
    pub file: Option<PathBuf>,
    /// Servers it is transferred from.
    pub primaries: Vec<SocketAddr>,
    /// Servers to notify of changes to it.
    pub also_notify: Vec<SocketAddr>,
    /// The place of its name.
    pub position: Position,
}

/// The source of a zone's data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ZoneKind {
    /// From its file; `master` in older files.
    Primary,
    /// From its file, which other software keeps equal on all servers.
    Native,
    /// From another server; `slave` in older files.
    Secondary,
    /// No local data: `hint`, `forward`, `stub` and other types, or another class.
    Other(String),
}

impl ZoneKind {
    fn parse(word: &str) -> Self {
        match word {
            "master" | "primary" => Self::Primary,
            "native" => Self::Native,
            "slave" | "secondary" => Self::Secondary,
            other => Self::Other(other.to_owned()),
        }
    }
}

impl ZoneDecl {
    /// Whether this server answers for the zone.
    #[must_use]
    pub const fn is_served(&self) -> bool {
        matches!(self.kind, ZoneKind::Primary | ZoneKind::Native)
    }
}

/// Reads the named.conf at `path` and its includes, as a process does that works in this directory.
///
/// # Errors
/// When any file cannot be read or understood, a zone that is to be served has no file, or two
/// zones have the same name.
pub fn parse(
    path: &Path,
    working_directory: &Path,
    load: &mut dyn FnMut(&Path) -> io::Result<Vec<u8>>,
) -> Result<NamedConf, Rejected> {
    let home = path.parent().unwrap_or_else(|| Path::new(""));
    let mut parser = Parser {
        load,
        conf: NamedConf {
            directory: home.to_owned(),
            also_notify: Vec::new(),
            zones: Vec::new(),
            files: vec![path.to_owned()],
            warnings: Vec::new(),
        },
        working_directory,
        problems: Vec::new(),
        names: HashMap::new(),
        ignored: Vec::new(),
        including: vec![path.to_owned()],
        n_included: 0,
    };
    match (parser.load)(path) {
        Ok(text) => parser.file(path, &text),
        Err(error) => {
            let message = format!("cannot read {}: {error}", path.display());
            parser.problems.push(Problem {
                position: None,
                message,
            });
        }
    }
    parser.finish()
}

/// Reads a named.conf from octets, with nothing to include.
pub fn parse_bytes(text: &[u8]) -> Result<NamedConf, Rejected> {
    let mut load = |path: &Path| match path.to_str() {
        Some("named.conf") => Ok(text.to_vec()),
        _ => Err(io::ErrorKind::NotFound.into()),
    };
    parse(Path::new("named.conf"), Path::new(""), &mut load)
}

struct Parser<'p> {
    load: &'p mut dyn FnMut(&Path) -> io::Result<Vec<u8>>,
    working_directory: &'p Path,
    conf: NamedConf,
    problems: Vec<Problem>,
    /// The place of each zone's declaration.
    names: HashMap<Name, Position>,
    ignored: Vec<Ignored>,
    /// The files being read, each included by the one before.
    including: Vec<PathBuf>,
    n_included: usize,
}

/// A keyword without a meaning here.
struct Ignored {
    keyword: String,
    within: &'static str,
    first: Position,
    times: usize,
}

//--- Statements

impl Parser<'_> {
    fn file(&mut self, path: &Path, text: &[u8]) {
        let file: Arc<Path> = path.into();
        let (statements, faults) = tree::read(text);
        for fault in faults {
            self.fault(&file, fault);
        }
        for statement in &statements {
            if self.problems.len() >= MAX_PROBLEMS {
                return;
            }
            let Some((keyword, rest)) = split(statement) else {
                let place = statement.items.first().map(Item::place).unwrap_or_default();
                self.fault(&file, Fault::new(place, "a statement begins with a word"));
                continue;
            };
            let outcome = match keyword.text.as_str() {
                "options" => self.options(&file, &keyword, rest),
                "zone" => self.zone(&file, &keyword, rest),
                "include" => self.include(&file, &keyword, rest),
                _ => {
                    self.ignore(&file, &keyword, "");
                    Ok(())
                }
            };
            if let Err(fault) = outcome {
                self.fault(&file, fault);
            }
        }
    }

    /// `options { ... }`.
    fn options(&mut self, file: &Arc<Path>, at: &Keyword, rest: &[Item<'_>]) -> Result<(), Fault> {
        let [Item::Block(statements, _)] = rest else {
            return Err(unexpected(at, rest, "one block in braces"));
        };
        for statement in statements {
            let Some((keyword, rest)) = split(statement) else {
                continue;
            };
            match keyword.text.as_str() {
                "directory" => {
                    let directory = file_name(&keyword, rest)?;
                    self.conf.directory = self.working_directory.join(directory);
                }
                "also-notify" => self.conf.also_notify = self.addresses(file, &keyword, rest)?,
                _ => self.ignore(file, &keyword, "options"),
            }
        }
        Ok(())
    }

    /// `include "FILE"`.
    fn include(&mut self, file: &Arc<Path>, at: &Keyword, rest: &[Item<'_>]) -> Result<(), Fault> {
        let name = file_name(at, rest)?;
        if self.including.len() > INCLUDE_DEPTH {
            return Err(Fault::new(
                at.place,
                format!("includes nest deeper than {INCLUDE_DEPTH}"),
            ));
        }
        self.n_included += 1;
        if self.n_included > INCLUDE_FILES {
            let message = format!("more than {INCLUDE_FILES} files are included");
            return Err(Fault::new(at.place, message));
        }
        let beside = file.parent().unwrap_or_else(|| Path::new("")).join(&name);
        let mut candidates = vec![self.conf.directory.join(&name), beside];
        candidates.dedup();
        let mut failure = String::new();
        for path in candidates {
            if self.including.contains(&path) {
                return Err(Fault::new(
                    at.place,
                    format!("{} includes itself", path.display()),
                ));
            }
            if !self.conf.files.contains(&path) {
                self.conf.files.push(path.clone());
            }
            match (self.load)(&path) {
                Ok(text) => {
                    self.including.push(path.clone());
                    self.file(&path, &text);
                    self.including.pop();
                    return Ok(());
                }
                Err(error) if failure.is_empty() => {
                    failure = format!("cannot read {}: {error}", path.display());
                }
                Err(_) => {}
            }
        }
        Err(Fault::new(at.place, failure))
    }

    fn ignore(&mut self, file: &Arc<Path>, keyword: &Keyword, within: &'static str) {
        let same = |it: &&mut Ignored| it.keyword == keyword.text && it.within == within;
        if let Some(ignored) = self.ignored.iter_mut().find(same) {
            ignored.times += 1;
        } else if self.ignored.len() < MAX_WARNINGS {
            self.ignored.push(Ignored {
                keyword: keyword.text.clone(),
                within,
                first: position(file, keyword.place),
                times: 1,
            });
        }
    }

    fn warn(&mut self, position: Position, message: String) {
        if self.conf.warnings.len() < MAX_WARNINGS {
            self.conf.warnings.push(Problem {
                position: Some(position),
                message,
            });
        }
    }

    fn fault(&mut self, file: &Arc<Path>, fault: Fault) {
        let position = Some(position(file, fault.place));
        self.problems.push(Problem {
            position,
            message: fault.message,
        });
    }
}

fn position(file: &Arc<Path>, place: Place) -> Position {
    Position {
        file: Arc::clone(file),
        line: place.line,
        column: place.column,
    }
}

/// The word that a statement begins with.
struct Keyword {
    text: String,
    place: Place,
}

/// A statement's keyword and its arguments.
fn split<'s, 'a>(statement: &'s Statement<'a>) -> Option<(Keyword, &'s [Item<'a>])> {
    let (first, rest) = statement.items.split_first()?;
    let Item::Word(text, place) = first else {
        return None;
    };
    let text = String::from_utf8_lossy(text).to_ascii_lowercase();
    Some((
        Keyword {
            text,
            place: *place,
        },
        rest,
    ))
}

/// The message for a malformed statement: most often a `;` is missing.
fn unexpected(keyword: &Keyword, rest: &[Item<'_>], wanted: &str) -> Fault {
    let place = rest.get(1).map_or(keyword.place, Item::place);
    Fault::new(
        place,
        format!("`{}` takes {wanted}; is a `;` missing?", keyword.text),
    )
}

/// The file that a statement names.
fn file_name(keyword: &Keyword, rest: &[Item<'_>]) -> Result<PathBuf, Fault> {
    let [Item::Word(text, place)] = rest else {
        return Err(unexpected(keyword, rest, "one name"));
    };
    match std::str::from_utf8(text) {
        Ok("") => Err(Fault::new(*place, "an empty file name")),
        Ok(name) => Ok(PathBuf::from(name)),
        Err(_) => Err(Fault::new(*place, "the file name is not UTF-8")),
    }
}

//--- Zones

impl Parser<'_> {
    /// `zone "NAME" [CLASS] { ... }`.
    fn zone(&mut self, file: &Arc<Path>, at: &Keyword, rest: &[Item<'_>]) -> Result<(), Fault> {
        let (text, place, class, statements) = match rest {
            [Item::Word(text, place), Item::Block(statements, _)] => {
                (text, *place, &b"in"[..], statements)
            }
            [
                Item::Word(text, place),
                Item::Word(class, _),
                Item::Block(statements, _),
            ] => (text, *place, *class, statements),
            _ => {
                let mut behind = rest
                    .iter()
                    .skip_while(|it| matches!(it, Item::Word(..)))
                    .skip(1);
                let place = behind.next().map_or(at.place, Item::place);
                let message =
                    "`zone` takes a name, perhaps a class, and a block; is a `;` missing?";
                return Err(Fault::new(place, message));
            }
        };
        let name = Name::parse_bytes(text, &Name::root());
        let name = name.map_err(|error| Fault::new(place, error.to_string()))?;
        let mut zone = ZoneDecl {
            name,
            kind: ZoneKind::Native,
            file: None,
            primaries: Vec::new(),
            also_notify: Vec::new(),
            position: position(file, place),
        };
        for statement in statements {
            self.zone_statement(file, statement, &mut zone)?;
        }
        if !class.eq_ignore_ascii_case(b"in") && !class.eq_ignore_ascii_case(b"internet") {
            zone.kind = ZoneKind::Other(format!("class {}", String::from_utf8_lossy(class)));
        }
        self.declare(zone, place)
    }

    fn zone_statement(
        &mut self,
        file: &Arc<Path>,
        statement: &Statement<'_>,
        zone: &mut ZoneDecl,
    ) -> Result<(), Fault> {
        let Some((keyword, rest)) = split(statement) else {
            return Ok(());
        };
        match keyword.text.as_str() {
            "type" => {
                let [Item::Word(text, _)] = rest else {
                    return Err(unexpected(&keyword, rest, "one word"));
                };
                zone.kind = ZoneKind::parse(&String::from_utf8_lossy(text).to_ascii_lowercase());
            }
            "file" => zone.file = Some(file_name(&keyword, rest)?),
            "masters" | "primaries" => zone.primaries = self.addresses(file, &keyword, rest)?,
            "also-notify" => zone.also_notify = self.addresses(file, &keyword, rest)?,
            _ => self.ignore(file, &keyword, "zone"),
        }
        Ok(())
    }

    /// Takes a zone into the list.
    fn declare(&mut self, zone: ZoneDecl, place: Place) -> Result<(), Fault> {
        if zone.is_served() && zone.file.is_none() {
            return Err(Fault::new(
                place,
                format!("the zone {} has no file", zone.name),
            ));
        }
        match self.names.entry(zone.name.clone()) {
            Entry::Occupied(first) => {
                let message = format!("the zone {} is declared at {} too", zone.name, first.get());
                return Err(Fault::new(place, message));
            }
            Entry::Vacant(vacant) => drop(vacant.insert(zone.position.clone())),
        }
        let kind = match &zone.kind {
            ZoneKind::Primary | ZoneKind::Native => None,
            ZoneKind::Secondary => Some("secondary"),
            ZoneKind::Other(kind) => Some(kind.as_str()),
        };
        if let Some(kind) = kind {
            let message = format!("the zone {} ({kind}) is not served", zone.name);
            self.warn(zone.position.clone(), message);
        }
        self.conf.zones.push(zone);
        Ok(())
    }

    /// `[port N] { ADDRESS [port N] [key NAME]; ... }`; references to named lists are skipped.
    fn addresses(
        &mut self,
        file: &Arc<Path>,
        keyword: &Keyword,
        rest: &[Item<'_>],
    ) -> Result<Vec<SocketAddr>, Fault> {
        let Some((Item::Block(statements, _), words)) = rest.split_last() else {
            return Err(unexpected(keyword, rest, "addresses in braces"));
        };
        let default = port(words)?.unwrap_or(DNS_PORT);
        let mut addresses = Vec::new();
        for statement in statements {
            let Some((Item::Word(text, place), words)) = statement.items.split_first() else {
                continue;
            };
            let address = std::str::from_utf8(text)
                .ok()
                .and_then(|text| text.parse::<IpAddr>().ok());
            match address {
                Some(address) => {
                    addresses.push(SocketAddr::new(address, port(words)?.unwrap_or(default)));
                }
                None => {
                    let name = String::from_utf8_lossy(text);
                    let message = format!("`{name}` is not an address and is left out");
                    self.warn(position(file, *place), message);
                }
            }
        }
        Ok(addresses)
    }
}

/// The number behind the word `port`.
fn port(words: &[Item<'_>]) -> Result<Option<u16>, Fault> {
    let mut words = words.iter();
    while let Some(item) = words.next() {
        if let Item::Word(b"port", place) = item {
            let number = match words.next() {
                Some(Item::Word(text, _)) => std::str::from_utf8(text).ok(),
                _ => None,
            };
            let port = number.and_then(|number| number.parse().ok());
            return port
                .map(Some)
                .ok_or_else(|| Fault::new(*place, "no port number follows"));
        }
    }
    Ok(None)
}

//--- The whole file

impl Parser<'_> {
    fn finish(mut self) -> Result<NamedConf, Rejected> {
        if !self.problems.is_empty() {
            self.problems.truncate(MAX_PROBLEMS);
            return Err(Rejected {
                problems: self.problems,
                files: self.conf.files,
            });
        }
        for ignored in std::mem::take(&mut self.ignored) {
            let Ignored {
                keyword,
                within,
                first,
                times,
            } = ignored;
            let within = if within.is_empty() {
                String::new()
            } else {
                format!(" in `{within}`")
            };
            let times = if times > 1 {
                format!(", here and {} times more", times - 1)
            } else {
                String::new()
            };
            self.warn(
                first,
                format!("`{keyword}`{within} is not carried over{times}"),
            );
        }
        // `directory` also applies to the zones before it.
        for zone in &mut self.conf.zones {
            zone.file = zone
                .file
                .as_ref()
                .map(|file| self.conf.directory.join(file));
        }
        Ok(self.conf)
    }
}

#[cfg(test)]
mod tests;
