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
//! * `acl`, `view`, `key`, `allow-query` and `allow-transfer` are read as BIND reads them; PowerDNS knows none of them.
//! * Other statements are skipped with their braces, with one warning for each keyword.
//!
//! Reads files only through the loader, and never panics on any input.

mod access;
mod lexer;
mod tree;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use config_text::{MAX_PROBLEMS, MAX_WARNINGS, Position, Problem, Rejected};
use dns_views::{View, ViewName, ZoneAccess, ZoneId};
use dns_wire::Name;

use access::{Acls, Element, Lists};
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
    /// The views in the order of the files; no name twice.
    pub views: Vec<View>,
    /// The keys; no name twice.
    pub keys: Vec<NamedKey>,
    /// The zones in the order of the files; no name twice in a view.
    pub zones: Vec<ZoneDecl>,
    /// Every file that was read, named.conf itself first.
    pub files: Vec<PathBuf>,
    /// Statements that have no counterpart here.
    pub warnings: Vec<Problem>,
}

/// The software that a named.conf is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// BIND.
    #[default]
    Bind,
    /// The bind backend of `PowerDNS`, which passes over access lists, keys and views.
    PowerDns,
}

/// A key statement.
#[derive(Clone, PartialEq, Eq)]
pub struct NamedKey {
    /// The name of the key.
    pub name: Name,
    /// The algorithm, as it is written.
    pub algorithm: String,
    /// The secret, in base 64.
    pub secret: String,
    /// The place of its name.
    pub position: Position,
}

impl std::fmt::Debug for NamedKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The secret stays out of logs.
        f.debug_struct("NamedKey")
            .field("name", &self.name)
            .field("algorithm", &self.algorithm)
            .finish_non_exhaustive()
    }
}

/// One zone statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneDecl {
    /// The zone's name.
    pub name: Name,
    /// Its view.
    pub view: Option<ViewName>,
    /// The source of its data.
    pub kind: ZoneKind,
    /// Its file; every zone that is served has one.
    pub file: Option<PathBuf>,
    /// Servers it is transferred from.
    pub primaries: Vec<SocketAddr>,
    /// Servers to notify of changes to it.
    pub also_notify: Vec<SocketAddr>,
    /// The clients that may query and transfer it.
    pub access: ZoneAccess,
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
    /// The zone as it is known.
    #[must_use]
    pub fn id(&self) -> ZoneId {
        ZoneId {
            apex: self.name.clone(),
            view: self.view.clone(),
        }
    }

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
    dialect: Dialect,
    working_directory: &Path,
    load: &mut dyn FnMut(&Path) -> io::Result<Vec<u8>>,
) -> Result<NamedConf, Rejected> {
    let home = path.parent().unwrap_or_else(|| Path::new(""));
    let mut parser = Parser {
        load,
        conf: NamedConf {
            directory: home.to_owned(),
            also_notify: Vec::new(),
            views: Vec::new(),
            keys: Vec::new(),
            zones: Vec::new(),
            files: vec![path.to_owned()],
            warnings: Vec::new(),
        },
        dialect,
        acls: Acls::default(),
        lists: Lists::default(),
        views: Vec::new(),
        view: None,
        zone_lists: Vec::new(),
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
    parse(
        Path::new("named.conf"),
        Dialect::Bind,
        Path::new(""),
        &mut load,
    )
}

struct Parser<'p> {
    load: &'p mut dyn FnMut(&Path) -> io::Result<Vec<u8>>,
    dialect: Dialect,
    /// The named lists.
    acls: Acls,
    /// The lists of `options`.
    lists: Lists,
    /// The views that were read.
    views: Vec<ViewBlock>,
    /// The place of the view that is being read.
    view: Option<usize>,
    /// The lists of each zone.
    zone_lists: Vec<(Option<usize>, Lists)>,
    working_directory: &'p Path,
    conf: NamedConf,
    problems: Vec<Problem>,
    /// The place of each zone's declaration.
    names: HashMap<ZoneId, Position>,
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
            if let Err(fault) = self.statement(&file, &keyword, rest) {
                self.fault(&file, fault);
            }
        }
    }

    /// A statement of a file, or of a view.
    fn statement(
        &mut self,
        file: &Arc<Path>,
        keyword: &Keyword,
        rest: &[Item<'_>],
    ) -> Result<(), Fault> {
        let is_bind = self.dialect == Dialect::Bind;
        match keyword.text.as_str() {
            "options" if self.view.is_none() => self.options(file, keyword, rest),
            "zone" => self.zone(file, keyword, rest),
            "include" => self.include(file, keyword, rest),
            "key" if is_bind => self.key(file, keyword, rest),
            "acl" if is_bind && self.view.is_none() => self.acl(file, keyword, rest),
            "view" if is_bind && self.view.is_none() => self.view(file, keyword, rest),
            _ => {
                match self.view {
                    Some(_) => self.view_statement(file, keyword, rest)?,
                    None => self.ignore(file, keyword, ""),
                }
                Ok(())
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
                "allow-query" if self.dialect == Dialect::Bind => {
                    self.lists.query = Some(access::elements(file, &keyword, rest)?);
                }
                "allow-transfer" if self.dialect == Dialect::Bind => {
                    self.lists.transfer = Some(access::transfer(file, &keyword, rest)?);
                }
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
            view: self.view_name(),
            kind: ZoneKind::Native,
            file: None,
            primaries: Vec::new(),
            also_notify: Vec::new(),
            access: ZoneAccess::default(),
            position: position(file, place),
        };
        let mut lists = Lists::default();
        for statement in statements {
            self.zone_statement(file, statement, (&mut zone, &mut lists))?;
        }
        if !class.eq_ignore_ascii_case(b"in") && !class.eq_ignore_ascii_case(b"internet") {
            zone.kind = ZoneKind::Other(format!("class {}", String::from_utf8_lossy(class)));
        }
        self.declare((zone, lists), place)
    }

    fn zone_statement(
        &mut self,
        file: &Arc<Path>,
        statement: &Statement<'_>,
        (zone, lists): (&mut ZoneDecl, &mut Lists),
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
            "allow-query" if self.dialect == Dialect::Bind => {
                lists.query = Some(access::elements(file, &keyword, rest)?);
            }
            "allow-transfer" if self.dialect == Dialect::Bind => {
                lists.transfer = Some(access::transfer(file, &keyword, rest)?);
            }
            "in-view" if self.dialect == Dialect::Bind => {
                zone.kind = ZoneKind::Other("in-view".to_owned());
            }
            _ => self.ignore(file, &keyword, "zone"),
        }
        Ok(())
    }

    /// Takes a zone into the list.
    fn declare(&mut self, (zone, lists): (ZoneDecl, Lists), place: Place) -> Result<(), Fault> {
        if zone.is_served() && zone.file.is_none() {
            return Err(Fault::new(
                place,
                format!("the zone {} has no file", zone.name),
            ));
        }
        match self.names.entry(zone.id()) {
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
        self.zone_lists.push((self.view, lists));
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

//--- Views and keys

/// A view while its file is read.
struct ViewBlock {
    name: ViewName,
    clients: Vec<Element>,
    lists: Lists,
    also_notify: Vec<SocketAddr>,
    position: Position,
}

impl Parser<'_> {
    /// `key "NAME" { algorithm NAME; secret "TEXT"; }`.
    fn key(&mut self, file: &Arc<Path>, at: &Keyword, rest: &[Item<'_>]) -> Result<(), Fault> {
        let [Item::Word(text, place), Item::Block(statements, _)] = rest else {
            return Err(unexpected(at, rest, "a name and a block"));
        };
        let name = Name::parse_bytes(text, &Name::root());
        let name = name.map_err(|error| Fault::new(*place, error.to_string()))?;
        let (mut algorithm, mut secret) = (None, None);
        for statement in statements {
            let Some((keyword, rest)) = split(statement) else {
                continue;
            };
            let [Item::Word(text, _)] = rest else {
                return Err(unexpected(&keyword, rest, "one word"));
            };
            let text = String::from_utf8_lossy(text).into_owned();
            match keyword.text.as_str() {
                "algorithm" => algorithm = Some(text.to_ascii_lowercase()),
                "secret" => secret = Some(text),
                _ => self.ignore(file, &keyword, "key"),
            }
        }
        let (Some(algorithm), Some(secret)) = (algorithm, secret) else {
            let message = format!("the key {name} needs an `algorithm` and a `secret`");
            return Err(Fault::new(*place, message));
        };
        let mut known = self.conf.keys.iter();
        match known.find(|known| known.name == name) {
            // Views may declare a key again.
            Some(known) if (&known.algorithm, &known.secret) == (&algorithm, &secret) => {
                return Ok(());
            }
            Some(_) => {
                let message = format!("the key {name} is declared twice");
                return Err(Fault::new(*place, message));
            }
            None => {}
        }
        self.conf.keys.push(NamedKey {
            name,
            algorithm,
            secret,
            position: position(file, *place),
        });
        Ok(())
    }

    /// `acl NAME { ELEMENT; ... }`.
    fn acl(&mut self, file: &Arc<Path>, at: &Keyword, rest: &[Item<'_>]) -> Result<(), Fault> {
        let [Item::Word(name, _), block] = rest else {
            return Err(unexpected(at, rest, "a name and a block"));
        };
        let elements = access::elements(file, at, std::slice::from_ref(block))?;
        let name = String::from_utf8_lossy(name).into_owned();
        self.acls.insert(name, elements);
        Ok(())
    }

    /// `view NAME [CLASS] { ... }`.
    fn view(&mut self, file: &Arc<Path>, at: &Keyword, rest: &[Item<'_>]) -> Result<(), Fault> {
        let (text, place, statements) = match rest {
            [Item::Word(text, place), Item::Block(statements, _)]
            | [
                Item::Word(text, place),
                Item::Word(..),
                Item::Block(statements, _),
            ] => (text, *place, statements),
            _ => return Err(unexpected(at, rest, "a name, perhaps a class, and a block")),
        };
        let name = String::from_utf8_lossy(text).parse::<ViewName>();
        let name = name.map_err(|error| Fault::new(place, error.to_string()))?;
        if self.views.iter().any(|view| view.name == name) {
            return Err(Fault::new(
                place,
                format!("the view {name} is declared twice"),
            ));
        }
        self.view = Some(self.views.len());
        self.views.push(ViewBlock {
            name,
            // Without the statement every client sees the view.
            clients: vec![Element::any(position(file, place))],
            lists: Lists::default(),
            also_notify: Vec::new(),
            position: position(file, place),
        });
        for statement in statements {
            let Some((keyword, rest)) = split(statement) else {
                continue;
            };
            if let Err(fault) = self.statement(file, &keyword, rest) {
                self.fault(file, fault);
            }
        }
        self.view = None;
        Ok(())
    }

    /// A statement that only a view has.
    fn view_statement(
        &mut self,
        file: &Arc<Path>,
        keyword: &Keyword,
        rest: &[Item<'_>],
    ) -> Result<(), Fault> {
        let also_notify = match keyword.text.as_str() {
            "also-notify" => Some(self.addresses(file, keyword, rest)?),
            _ => None,
        };
        let place = self.view;
        let Some(view) = place.and_then(|place| self.views.get_mut(place)) else {
            return Ok(());
        };
        match keyword.text.as_str() {
            "match-clients" => view.clients = access::elements(file, keyword, rest)?,
            "allow-query" => view.lists.query = Some(access::elements(file, keyword, rest)?),
            "allow-transfer" => view.lists.transfer = Some(access::transfer(file, keyword, rest)?),
            "also-notify" => view.also_notify = also_notify.unwrap_or_default(),
            _ => self.ignore(file, keyword, "view"),
        }
        Ok(())
    }

    fn view_name(&self) -> Option<ViewName> {
        let view = self.views.get(self.view?)?;
        Some(view.name.clone())
    }

    /// Finds the clients of views and zones: a list of a zone replaces that of its view, which replaces that of the options.
    fn resolve_lists(&mut self) {
        let mut warnings = Vec::new();
        let views = std::mem::take(&mut self.views);
        for (place, view) in views.iter().enumerate() {
            // Keys come first here: one that a list excludes is only for another view.
            let others = views
                .iter()
                .enumerate()
                .filter(|(other, _)| *other != place);
            let others: Vec<&[Element]> = others.map(|(_, view)| &*view.clients).collect();
            let clients = self
                .acls
                .clients_of_view(&view.clients, &others, &mut warnings);
            self.conf.views.push(View {
                name: view.name.clone(),
                clients,
            });
        }
        let mut resolve = |lists: [Option<&Vec<Element>>; 3]| {
            let list = lists.into_iter().flatten().next()?;
            let is_open = Acls::is_open(list);
            Some((self.acls.clients(list, &mut warnings), is_open))
        };
        for (zone, (view, lists)) in self.conf.zones.iter_mut().zip(&self.zone_lists) {
            let view = view.and_then(|place| views.get(place));
            let of_view = view.map(|view| &view.lists);
            let query = resolve([
                lists.query.as_ref(),
                of_view.and_then(|lists| lists.query.as_ref()),
                self.lists.query.as_ref(),
            ]);
            let transfers = [
                lists.transfer.as_ref(),
                of_view.and_then(|lists| lists.transfer.as_ref()),
                self.lists.transfer.as_ref(),
            ];
            let list = transfers.into_iter().flatten().next();
            let transfer = resolve([list.map(|list| &list.elements), None, None]);
            zone.access = ZoneAccess {
                query: query.and_then(|(clients, is_open)| (!is_open).then_some(clients)),
                transfer: transfer.map(|(clients, _)| clients),
                needs_tls: list.is_some_and(|list| list.needs_tls).then_some(true),
            };
            if let Some(view) = view {
                zone.also_notify.extend(&view.also_notify);
            }
        }
        let is_mixed = self
            .conf
            .zones
            .iter()
            .any(|zone| zone.view.is_none() && zone.is_served());
        if let Some(view) = views.first().filter(|_| is_mixed) {
            let message = "with views every zone must be in one, for BIND; here the others are for every view";
            warnings.push((view.position.clone(), message.to_owned()));
        }
        for (position, message) in warnings {
            self.warn(position, message);
        }
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
        self.resolve_lists();
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
