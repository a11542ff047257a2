//! The lines that begin with a dollar sign.

use std::io;
use std::path::{Path, PathBuf};

use config_text::Position;
use dns_wire::rdata::{self, Token};

use super::{Fault, Head, MAX_TTL, Parser, Scope, name, shown};
use crate::generate::{Range, Template};

impl Parser<'_> {
    pub(super) fn directive(
        &mut self,
        directive: &[u8],
        rest: &[Token<'_>],
        at: &Position,
        scope: &mut Scope,
    ) -> Result<(), Fault> {
        match directive.to_ascii_uppercase().as_slice() {
            b"$ORIGIN" => match rest {
                [token] => {
                    scope.origin = name(*token, &scope.origin, 1)?;
                    Ok(())
                }
                _ => Err(Fault::new(1, "$ORIGIN takes one domain name")),
            },
            b"$TTL" => match rest {
                [token] => {
                    let ttl = rdata::seconds(token.text).filter(|_| !token.quoted);
                    let ttl = ttl.ok_or_else(|| {
                        Fault::new(1, format!("{} is no TTL in seconds", shown(*token)))
                    })?;
                    self.ttls.default = Some(self.bounded(ttl, at));
                    Ok(())
                }
                _ => Err(Fault::new(1, "$TTL takes one time span")),
            },
            b"$INCLUDE" => self.include(rest, scope),
            b"$GENERATE" => self.generate(rest, at, scope),
            _ => {
                let word = String::from_utf8_lossy(directive);
                Err(Fault::new(0, format!("unknown directive {word}")))
            }
        }
    }

    /// The TTL, or the longest legal one.
    pub(super) fn bounded(&mut self, ttl: u32, at: &Position) -> u32 {
        if ttl > MAX_TTL {
            self.warn(
                at,
                format!("TTL {ttl} is above {MAX_TTL} (RFC 2181 §8), which is used"),
            );
        }
        ttl.min(MAX_TTL)
    }

    /// `$INCLUDE FILE [ORIGIN]`.
    fn include(&mut self, rest: &[Token<'_>], scope: &Scope) -> Result<(), Fault> {
        let (file, origin) = match rest {
            [file] => (file, scope.origin.clone()),
            [file, origin] => (file, name(*origin, &scope.origin, 2)?),
            _ => {
                return Err(Fault::new(
                    1,
                    "$INCLUDE takes a file, and perhaps an origin",
                ));
            }
        };
        if self.including.len() > self.options.include_depth {
            let depth = self.options.include_depth;
            return Err(Fault::new(0, format!("$INCLUDE nests deeper than {depth}")));
        }
        self.n_included += 1;
        if self.n_included > self.options.include_files {
            let limit = self.options.include_files;
            return Err(Fault::new(
                0,
                format!("more than {limit} files are included"),
            ));
        }
        let file = rdata::character_string(*file).map_err(|_| Fault::new(1, "no file name"))?;
        let file = String::from_utf8(file);
        let file = file.map_err(|_| Fault::new(1, "the file name is not UTF-8"))?;
        let (path, text) = self.find(Path::new(&file), &scope.file)?;
        self.including.push(path.clone());
        self.file(&text, &mut Scope::new(&path, origin));
        self.including.pop();
        Ok(())
    }

    /// Loads a file from the zones' directory or from beside the file that includes it.
    fn find(&mut self, file: &Path, includer: &Path) -> Result<(PathBuf, Vec<u8>), Fault> {
        let beside = includer
            .parent()
            .unwrap_or_else(|| Path::new(""))
            .join(file);
        let mut candidates = vec![beside];
        if let Some(directory) = &self.options.directory {
            candidates.insert(0, directory.join(file));
        }
        candidates.dedup();
        let mut failure = None;
        for path in candidates {
            if self.including.contains(&path) {
                return Err(Fault::new(1, format!("{} includes itself", path.display())));
            }
            if !self.files.contains(&path) {
                self.files.push(path.clone());
            }
            match (self.load)(&path) {
                Ok(text) => return Ok((path, text)),
                Err(error) => {
                    let missing = error.kind() == io::ErrorKind::NotFound;
                    let message = format!("cannot read {}: {error}", path.display());
                    failure.get_or_insert_with(|| Fault::new(1, message));
                    if !missing {
                        break;
                    }
                }
            }
        }
        Err(failure.unwrap_or_else(|| Fault::new(1, "no file name")))
    }

    /// `$GENERATE RANGE OWNER [TTL] [CLASS] TYPE DATA`.
    fn generate(&mut self, rest: &[Token<'_>], at: &Position, scope: &Scope) -> Result<(), Fault> {
        let [range, owner, words @ ..] = rest else {
            return Err(Fault::new(
                1,
                "$GENERATE takes a range, an owner, a type and data",
            ));
        };
        let range = Range::parse(range.text).filter(|_| !range.quoted);
        let range = range.ok_or_else(|| {
            Fault::new(
                1,
                "a range is START-STOP or START-STOP/STEP, both below 2^31",
            )
        })?;
        let limit = self.options.generate_steps;
        self.n_generated = self.n_generated.saturating_add(range.count());
        if limit != 0 && self.n_generated > limit {
            let message = format!("$GENERATE makes more than {limit} records in this zone");
            return Err(Fault::new(1, message));
        }
        let line = Line::read(owner, words)?;
        for number in range.numbers() {
            self.generated(number, &line, at, scope)?;
        }
        Ok(())
    }

    /// The record of a line for one number.
    fn generated(
        &mut self,
        number: u32,
        line: &Line<'_>,
        at: &Position,
        scope: &Scope,
    ) -> Result<(), Fault> {
        let below = |token: usize| Fault::new(token, format!("{number} falls below zero"));
        let shifted = |fault: Fault, shift: usize| {
            let message = format!("{} (at {number})", fault.message);
            Fault {
                token: fault.token + shift,
                message,
                ..fault
            }
        };
        let text = line.owner.1.expand(number).ok_or_else(|| below(OWNER))?;
        let token = Token {
            text: &text,
            ..line.owner.0
        };
        let owner = self
            .owner(token, &scope.origin, at)
            .map_err(|fault| shifted(fault, OWNER))?;
        let Some(owner) = owner else { return Ok(()) };
        let mut texts = Vec::with_capacity(line.data.len());
        for (index, (_, template)) in line.data.iter().enumerate() {
            texts.push(
                template
                    .expand(number)
                    .ok_or_else(|| below(line.first + index))?,
            );
        }
        let words = texts.iter().zip(&line.data);
        let words: Vec<Token<'_>> = words
            .map(|(text, (token, _))| Token {
                text,
                quoted: token.quoted,
            })
            .collect();
        self.record(owner, &line.head, &words, at.clone(), &scope.origin)
            .map_err(|fault| shifted(fault, line.first))
    }
}

/// The word of a `$GENERATE` line that is the owner.
const OWNER: usize = 2;

/// The parts of a `$GENERATE` line that are the same for every number.
struct Line<'a> {
    owner: (Token<'a>, Template<'a>),
    head: Head,
    data: Vec<(Token<'a>, Template<'a>)>,
    /// The word of the line that the data begins with.
    first: usize,
}

impl<'a> Line<'a> {
    fn read(owner: &Token<'a>, words: &[Token<'a>]) -> Result<Self, Fault> {
        let head = Head::read(words, 0);
        let head = head.map_err(|fault| Fault {
            token: fault.token + OWNER + 1,
            ..fault
        })?;
        let first = head.next + OWNER + 1;
        let mut data = Vec::new();
        for (index, token) in words.iter().skip(head.next).enumerate() {
            data.push((*token, template(*token, first + index)?));
        }
        let owner = (*owner, template(*owner, OWNER)?);
        // The record is read from its data only.
        Ok(Self {
            owner,
            head: Head { next: 0, ..head },
            data,
            first,
        })
    }
}

fn template(token: Token<'_>, at: usize) -> Result<Template<'_>, Fault> {
    Template::parse(token.text).ok_or_else(|| {
        Fault::new(
            at,
            "a number's form is ${OFFSET,WIDTH,BASE}, the base one of d o x X n N",
        )
    })
}
