//! Records: TTL, class, type and data behind an owner.

use std::sync::Arc;

use config_text::Position;
use dns_wire::rdata::{self, Token};
use dns_wire::rtype::is_mnemonic;
use dns_wire::{Class, Name, Type};

use super::{Fault, MAX_TTL, Parser, shown};
use crate::program::unescape;
use crate::record::{ProgramText, Record, RecordData};

/// Whether a word may be the mnemonic of a type that this version does not know.
fn may_be_type(word: &str) -> bool {
    is_mnemonic(word.as_bytes()) && word.parse::<Class>().is_err()
}

/// TTL, class and type: the words between a record's owner and its data.
#[derive(Clone, Copy)]
pub(super) struct Head {
    pub(super) ttl: Option<u32>,
    pub(super) rtype: Type,
    /// The number of the data's first word.
    pub(super) next: usize,
}

impl Head {
    /// Reads `[TTL] [CLASS] TYPE` or `[CLASS] [TTL] TYPE`, from word `first` on.
    pub(super) fn read(tokens: &[Token<'_>], first: usize) -> Result<Self, Fault> {
        let (mut ttl, mut class, mut at) = (None, None, first);
        loop {
            let Some(token) = tokens.get(at) else {
                return Err(Fault::new(at, "the record's type is missing"));
            };
            let word = std::str::from_utf8(token.text)
                .ok()
                .filter(|_| !token.quoted);
            let unknown = || Fault::new(at, format!("{} is no record type", shown(*token)));
            let word = word.ok_or_else(unknown)?;
            if word.starts_with(|first: char| first.is_ascii_digit()) && ttl.is_none() {
                ttl = Some(rdata::seconds(token.text).ok_or_else(|| {
                    Fault::new(
                        at,
                        format!("{} is neither TTL, class nor type", shown(*token)),
                    )
                })?);
            } else if let (None, Ok(found)) = (class, word.parse::<Class>()) {
                if found != Class::IN {
                    let message = format!("class {found}: only zones of class IN are served");
                    return Err(Fault::new(at, message));
                }
                class = Some(found);
            } else {
                let rtype: Type = word.parse().map_err(|_| match may_be_type(word) {
                    true => unknown().unknown(),
                    false => unknown(),
                })?;
                if rtype.is_meta() {
                    let message = format!("type {rtype} cannot be stored in a zone");
                    return Err(Fault::new(at, message));
                }
                return Ok(Self {
                    ttl,
                    rtype,
                    next: at + 1,
                });
            }
            at += 1;
        }
    }

    /// Whether the data is a program.
    pub(super) const fn is_program(&self) -> bool {
        self.rtype.0 == Type::LUA.0
    }
}

impl Parser<'_> {
    /// Takes one record, whose data are the words from `head.next` on.
    pub(super) fn record(
        &mut self,
        owner: Name,
        head: &Head,
        tokens: &[Token<'_>],
        at: Position,
        origin: &Name,
    ) -> Result<(), Fault> {
        let data = tokens.get(head.next..).unwrap_or_default();
        let generic = matches!(
            data,
            [
                Token {
                    text: br"\#",
                    quoted: false
                },
                ..
            ]
        );
        let data = match head.is_program() && !generic {
            true => self.program(data, head.next),
            false => self.plain(head, data, &at, origin),
        };
        let data = data.inspect_err(|fault| self.note_ttl(fault, head.ttl))?;
        let ttl = self.ttl(head, &data, &at);
        self.records.push(Record {
            owner,
            ttl,
            class: Class::IN,
            data,
            position: at,
        });
        Ok(())
    }

    /// Reads plain data.
    fn plain(
        &mut self,
        head: &Head,
        data: &[Token<'_>],
        at: &Position,
        origin: &Name,
    ) -> Result<RecordData, Fault> {
        let rtype = head.rtype;
        let mut octets = std::mem::take(&mut self.rdata);
        let outcome = rdata::parse_into(rtype, data, origin, &mut octets);
        outcome.map_err(|error| Fault {
            token: head.next + error.token,
            message: error.to_string(),
            is_unknown: error.is_unknown,
        })?;
        let long = |token: &Token<'_>| token.text.len() > 255;
        if matches!(rtype, Type::TXT | Type::SPF) && data.iter().any(long) {
            self.warn(at, "a string of more than 255 octets is split".to_owned());
        }
        let parsed = match rtype {
            Type::LUA => program_of_wire(&octets, head.next)?,
            _ => RecordData::Wire {
                rtype,
                rdata: octets.as_slice().into(),
            },
        };
        self.rdata = octets;
        Ok(parsed)
    }

    /// `LUA TYPE "PROGRAM"...`: the strings are parts of one program.
    fn program(&self, data: &[Token<'_>], first: usize) -> Result<RecordData, Fault> {
        let Some((rtype, parts)) = data.split_first() else {
            return Err(Fault::new(
                first,
                "the type that the program makes is missing",
            ));
        };
        let word = std::str::from_utf8(rtype.text)
            .ok()
            .filter(|_| !rtype.quoted);
        let parsed = word
            .and_then(|word| word.parse::<Type>().ok())
            .filter(|it| !it.is_meta());
        let Some(rtype) = parsed else {
            let fault = Fault::new(first, format!("{} is no record type", shown(*rtype)));
            let is_type =
                word.is_some_and(|word| word.parse::<Type>().is_err() && may_be_type(word));
            return Err(match is_type && !parts.is_empty() {
                true => fault.unknown(),
                false => fault,
            });
        };
        let mut code = Vec::new();
        let mut written: Vec<Box<str>> = Vec::with_capacity(parts.len());
        for (index, part) in parts.iter().enumerate() {
            let mut string = Vec::new();
            unescape(part.text, &mut string);
            written.extend(str::from_utf8(&string).ok().map(Box::from));
            // PowerDNS joins the strings and the blank between each two of them. Before 5.0 it put a blank behind
            // every piece; since then it leaves out pieces that are one blank.
            match self.options.lua_whitespace {
                true => {
                    if index > 0 {
                        code.extend(b"  ");
                    }
                    code.extend(&string);
                    if !string.is_empty() && index + 1 < parts.len() {
                        code.push(b' ');
                    }
                }
                false if string == b" " => {}
                false => code.extend(&string),
            }
        }
        if code.trim_ascii().is_empty() {
            return Err(Fault::new(first + 1, "the program is missing"));
        }
        let code = String::from_utf8(code);
        let code = code.map_err(|_| Fault::new(first + 1, "the program is not UTF-8"))?;
        if written.len() < parts.len() {
            // A string that ends inside a character is not text of its own.
            written = vec![code.as_str().into()];
        }
        let parts = written.into();
        Ok(RecordData::Lua {
            rtype,
            program: Box::new(ProgramText { code, parts }),
        })
    }

    /// The TTL of a record, given or not.
    fn ttl(&mut self, head: &Head, data: &RecordData, at: &Position) -> u32 {
        if let Some(stated) = head.ttl {
            let ttl = self.bounded(stated, at);
            self.ttls.last = Some(ttl);
            return ttl;
        }
        if let Some(known) = self.ttls.default.or(self.ttls.last) {
            return known;
        }
        if let RecordData::Wire {
            rtype: Type::SOA,
            rdata,
        } = data
            && let Some(minimum) = rdata.last_chunk::<4>()
        {
            let minimum = u32::from_be_bytes(*minimum).min(MAX_TTL);
            self.ttls.default = Some(minimum);
            return minimum;
        }
        let ttl = self.options.default_ttl;
        self.warn(at, format!("no TTL is given so far; {ttl} is used"));
        self.ttls.last = Some(ttl);
        ttl
    }
}

/// A program in the form in which `PowerDNS` transfers it: the type, then strings.
fn program_of_wire(octets: &[u8], at: usize) -> Result<RecordData, Fault> {
    let broken = || Fault::new(at, "these octets are no LUA record");
    let (rtype, mut rest) = octets.split_first_chunk::<2>().ok_or_else(broken)?;
    let mut code = Vec::new();
    while let Some((length, tail)) = rest.split_first() {
        let (part, tail) = tail
            .split_at_checked(usize::from(*length))
            .ok_or_else(broken)?;
        code.extend_from_slice(part);
        rest = tail;
    }
    let code = String::from_utf8(code).map_err(|_| broken())?;
    // Strings of octets are always joined without blanks.
    let parts = Arc::from([code.as_str().into()]);
    Ok(RecordData::Lua {
        rtype: Type(u16::from_be_bytes(*rtype)),
        program: Box::new(ProgramText { code, parts }),
    })
}
