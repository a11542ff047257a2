//! The way back: the answer to a question that was changed, as the answer to the client's own.

use dns_cache::message::{Message, Row};
use dns_wire::{Name, Records, Section, Type, records::uncompressed_rdata};

use crate::replacement::Replacement;

/// The changes of an answer.
#[derive(Clone, Debug)]
pub struct Back {
    /// The client's question, in lower case.
    question: Box<[u8]>,
    /// In the order of the rules; the last is done first.
    changes: Vec<Change>,
}

/// A change of names in an answer.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// A name, and those below it, in owners and values.
    Name { from: String, to: String },
    /// The end of a name, in owners and values.
    Suffix { from: String, to: String },
    /// A name that a regular expression matches.
    Regex(Place, Replacement),
}

/// The place of a name in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Owner,
    Value,
}

impl Change {
    /// The changed name at a place; `None` for one that stays.
    fn apply(&self, text: &str, at: Place) -> Option<String> {
        match self {
            Self::Name { from, to } => {
                let below = text.strip_suffix(from.as_str())?;
                let is_within = below.is_empty() || below.ends_with('.');
                is_within.then(|| [below, to].concat())
            }
            Self::Suffix { from, to } => {
                let below = text.strip_suffix(from.as_str())?;
                Some([below, to].concat())
            }
            Self::Regex(place, replacement) if *place == at => replacement.apply(text),
            Self::Regex(..) => None,
        }
    }
}

impl Back {
    pub(crate) fn new(question: &[u8]) -> Self {
        Self {
            question: question.into(),
            changes: Vec::new(),
        }
    }

    pub(crate) fn push(&mut self, change: Change) {
        self.changes.push(change);
    }

    /// The answer to the client's question, made of the one to the question that was asked in its place. `None` when it is too
    /// long.
    #[must_use]
    pub fn apply(&self, answer: &Message) -> Option<Message> {
        let bytes = answer.bytes();
        let mut records = Vec::new();
        for record in Records::new(bytes).ok()? {
            let record = record.ok()?;
            if matches!(record.rtype, Type::RRSIG | Type::NSEC | Type::NSEC3) {
                continue;
            }
            let (owner, _) = Name::read(bytes, record.name_offset).ok()?;
            let mut rdata = uncompressed_rdata(bytes, &record).ok()?;
            if let Some(at) = name_at(record.rtype, &rdata) {
                self.change_value(&mut rdata, at);
            }
            records.push(Taken {
                section: record.section,
                owner: self.change(&owner, Place::Owner).unwrap_or(owner),
                rtype: record.rtype,
                ttl: record.ttl,
                rdata,
            });
        }
        let rows: Vec<Row<'_>> = records.iter().map(Taken::row).collect();
        let message = Message::compose(&self.question, answer.rcode(), &rows)?;
        Some(message.with_info_code(answer.info_code()))
    }

    /// A name after all changes; `None` for one that stays, or that would be no name.
    fn change(&self, name: &Name, at: Place) -> Option<Name> {
        let mut text = name.to_lowercase().to_string();
        let mut is_changed = false;
        for change in self.changes.iter().rev() {
            if let Some(changed) = change.apply(&text, at) {
                text = changed;
                is_changed = true;
            }
        }
        is_changed.then(|| Name::parse(&text).ok()).flatten()
    }

    fn change_value(&self, rdata: &mut Vec<u8>, at: usize) {
        let Some(Ok((name, length))) = rdata.get(at..).map(Name::from_wire) else {
            return;
        };
        if let Some(changed) = self.change(&name, Place::Value) {
            rdata.splice(at..at + length, changed.as_wire().iter().copied());
        }
    }
}

/// The offset of the name in data, of the types that have one.
fn name_at(rtype: Type, rdata: &[u8]) -> Option<usize> {
    match rtype {
        Type::CNAME | Type::DNAME | Type::NS | Type::PTR | Type::SOA => Some(0),
        Type::MX => Some(2),
        Type::SRV => Some(6),
        // Order, preference, and three texts (RFC 3403 §4.1).
        Type::NAPTR => {
            let mut at = 4;
            for _ in 0..3 {
                at += 1 + usize::from(*rdata.get(at)?);
            }
            Some(at)
        }
        _ => None,
    }
}

/// A record of an answer.
struct Taken {
    section: Section,
    owner: Name,
    rtype: Type,
    ttl: u32,
    rdata: Vec<u8>,
}

impl Taken {
    fn row(&self) -> Row<'_> {
        Row {
            section: self.section,
            owner: &self.owner,
            rtype: self.rtype,
            ttl: self.ttl,
            rdata: &self.rdata,
        }
    }
}
