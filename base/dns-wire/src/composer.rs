//! Writes messages, with name compression (RFC 1035 §4.1.4, RFC 3597 §4).
//!
//! A [`Composer`] fills a caller's buffer and never grows it. A record that does not fit leaves the message
//! unchanged, so a caller can stop, or set TC, between two records.

use crate::code::Rcode;
use crate::header::{self, Flags};
use crate::layout::{Field, Layout};
use crate::name::Name;
use crate::records::Section;
use crate::rtype::{Class, Type};

/// The most suffixes that are remembered as targets of compression pointers. A message with more distinct
/// names is still correct, but longer than necessary.
const MAX_TARGETS: usize = 128;
/// The first offset that a pointer cannot reach.
const POINTER_LIMIT: usize = 0x4000;

/// The record or question does not fit the message's limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl std::fmt::Display for Full {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the message is full")
    }
}

impl std::error::Error for Full {}

/// The owner of a record.
#[derive(Clone, Copy, Debug)]
pub enum Owner<'a> {
    /// The question's name: always a pointer to the octet behind the header.
    Question,
    /// Any name.
    Name(&'a Name),
}

/// Writes one message.
#[derive(Debug)]
pub struct Composer<'a> {
    buffer: &'a mut [u8],
    length: usize,
    limit: usize,
    counts: [u16; 4],
    /// Offsets of labels already written, each the start of a name's suffix.
    targets: [u16; MAX_TARGETS],
    n_targets: usize,
    /// Offsets of every pointer written, when the caller wants them.
    pointers: Option<Vec<u16>>,
}

impl<'a> Composer<'a> {
    /// Starts a message of at most `limit` octets; the header is zero except for id and flags.
    ///
    /// # Errors
    /// When not even a header fits.
    pub fn new(buffer: &'a mut [u8], limit: usize, id: u16, flags: Flags) -> Result<Self, Full> {
        let limit = limit.min(buffer.len());
        if limit < header::LENGTH {
            return Err(Full);
        }
        buffer.get_mut(..header::LENGTH).ok_or(Full)?.fill(0);
        header::set_word(buffer, 0, id);
        header::set_word(buffer, 2, flags.0);
        Ok(Self {
            buffer,
            length: header::LENGTH,
            limit,
            counts: [0; 4],
            targets: [0; MAX_TARGETS],
            n_targets: 0,
            pointers: None,
        })
    }

    /// Notes where compression pointers are written, for a caller that will move the message's
    /// body; [`Owner::Question`] pointers are not among them.
    pub fn note_pointers(&mut self) {
        self.pointers = Some(Vec::new());
    }

    /// The pointers noted, by offset in the message.
    #[must_use]
    pub fn pointers(&self) -> &[u16] {
        self.pointers.as_deref().unwrap_or_default()
    }

    /// The length of the message.
    #[must_use]
    pub const fn length(&self) -> usize {
        self.length
    }

    /// The number of entries in the four sections.
    #[must_use]
    pub const fn counts(&self) -> [u16; 4] {
        self.counts
    }

    /// Writes the question of the query: name in wire form, type, class.
    ///
    /// # Errors
    /// When it does not fit; the message is as before.
    pub fn question(&mut self, question: &[u8]) -> Result<(), Full> {
        let start = self.length;
        self.octets(question)?;
        self.remember_labels(start);
        let [n_questions, ..] = &mut self.counts;
        *n_questions += 1;
        Ok(())
    }

    /// Writes a record; `rdata` has its names uncompressed.
    ///
    /// # Errors
    /// When it does not fit; the message is as before.
    pub fn record(
        &mut self,
        section: Section,
        owner: Owner<'_>,
        (rtype, class, ttl): (Type, Class, u32),
        rdata: &[u8],
    ) -> Result<(), Full> {
        let mark = self.mark();
        let written = self.write_record(owner, (rtype, class, ttl), rdata);
        if written.is_err() {
            self.rewind(mark);
            return written;
        }
        let [_, answers, authorities, additionals] = &mut self.counts;
        let count = match section {
            Section::Answer => answers,
            Section::Authority => authorities,
            Section::Additional => additionals,
        };
        *count = count.saturating_add(1);
        Ok(())
    }

    /// Writes an OPT record with options already encoded.
    ///
    /// # Errors
    /// When it does not fit; the message is as before.
    pub fn opt(
        &mut self,
        udp_size: u16,
        rcode: Rcode,
        dnssec_ok: bool,
        options: &[u8],
    ) -> Result<(), Full> {
        let ttl = u32::from(rcode.high()) << 24 | if dnssec_ok { 0x8000 } else { 0 };
        let fixed = (Type::OPT, Class(udp_size), ttl);
        self.record(
            Section::Additional,
            Owner::Name(&Name::root()),
            fixed,
            options,
        )
    }

    /// The current end of the message, to return to with [`Composer::rewind`].
    #[must_use]
    pub fn mark(&self) -> Mark {
        Mark {
            length: self.length,
            counts: self.counts,
            n_targets: self.n_targets,
            n_pointers: self.pointers().len(),
        }
    }

    /// Removes everything that was written since the mark.
    pub fn rewind(&mut self, mark: Mark) {
        self.length = mark.length;
        self.counts = mark.counts;
        self.n_targets = mark.n_targets;
        if let Some(pointers) = &mut self.pointers {
            pointers.truncate(mark.n_pointers);
        }
    }

    /// Changes the flags.
    pub fn set_flags(&mut self, flags: Flags) {
        header::set_word(self.buffer, 2, flags.0);
    }

    /// Writes the counts and returns the message's length.
    pub fn finish(self) -> usize {
        for (offset, count) in [4, 6, 8, 10].into_iter().zip(self.counts) {
            header::set_word(self.buffer, offset, count);
        }
        self.length
    }

    //--- Pieces

    fn write_record(
        &mut self,
        owner: Owner<'_>,
        (rtype, class, ttl): (Type, Class, u32),
        rdata: &[u8],
    ) -> Result<(), Full> {
        match owner {
            Owner::Question => self.octets(&[0xc0, 0x0c])?,
            Owner::Name(name) => self.name(name.as_wire())?,
        }
        self.octets(&rtype.0.to_be_bytes())?;
        self.octets(&class.0.to_be_bytes())?;
        self.octets(&ttl.to_be_bytes())?;
        let length_at = self.length;
        self.octets(&[0, 0])?;
        self.rdata(rtype, rdata)?;
        let length = u16::try_from(self.length - length_at - 2).map_err(|_| Full)?;
        header::set_word(self.buffer, length_at, length);
        Ok(())
    }

    fn rdata(&mut self, rtype: Type, rdata: &[u8]) -> Result<(), Full> {
        let layout = Layout::of(rtype);
        let mut rest = rdata;
        if layout.compressible {
            for field in layout.fields {
                let length = match field {
                    Field::Name => match crate::name::wire_length(rest) {
                        Ok(length) => length,
                        // The data does not have the type's form: RFC 3597 §3 data goes out unchanged.
                        Err(_) => break,
                    },
                    Field::Octets(n) => *n,
                    Field::CharacterString | Field::Rest => break,
                };
                let Some((piece, tail)) = rest.split_at_checked(length) else {
                    break;
                };
                match field {
                    Field::Name => self.name(piece)?,
                    _ => self.octets(piece)?,
                }
                rest = tail;
            }
        }
        self.octets(rest)
    }

    /// Writes a name in wire form, and ends it with a pointer if a suffix is in the message already.
    fn name(&mut self, wire: &[u8]) -> Result<(), Full> {
        let mut rest = wire;
        while let Some(length) = rest.first().copied().filter(|length| *length != 0) {
            if let Some(target) = self.find(rest) {
                let here = u16::try_from(self.length).unwrap_or(u16::MAX);
                self.octets(&(0xc000 | target).to_be_bytes())?;
                if let Some(pointers) = &mut self.pointers {
                    pointers.push(here);
                }
                return Ok(());
            }
            let (label, tail) = rest.split_at_checked(usize::from(length) + 1).ok_or(Full)?;
            let here = self.length;
            self.octets(label)?;
            self.remember(here);
            rest = tail;
        }
        self.octets(&[0])
    }

    fn remember(&mut self, offset: usize) {
        if offset >= POINTER_LIMIT {
            return;
        }
        if let (Ok(offset), Some(slot)) =
            (u16::try_from(offset), self.targets.get_mut(self.n_targets))
        {
            *slot = offset;
            self.n_targets += 1;
        }
    }

    fn remember_labels(&mut self, start: usize) {
        let mut at = start;
        while let Some(length) = self
            .buffer
            .get(at)
            .copied()
            .filter(|length| (1..=63).contains(length))
        {
            self.remember(at);
            at += usize::from(length) + 1;
        }
    }

    /// The offset of this suffix in the message, case ignored.
    fn find(&self, suffix: &[u8]) -> Option<u16> {
        let known = self.targets.get(..self.n_targets)?;
        known
            .iter()
            .copied()
            .find(|target| self.stands_at(usize::from(*target), suffix))
    }

    fn stands_at(&self, target: usize, suffix: &[u8]) -> bool {
        let (mut at, mut rest) = (target, suffix);
        loop {
            let Some(written) = self.buffer.get(at..self.length) else {
                return false;
            };
            match (written, rest) {
                ([0, ..], [0, ..]) => return true,
                ([high @ 0xc0..=0xff, low, ..], _) => {
                    at = usize::from(*high & 0x3f) << 8 | usize::from(*low);
                }
                ([length @ 1..=63, ..], [wanted, ..]) if length == wanted => {
                    let end = usize::from(*length) + 1;
                    let (Some(a), Some(b)) = (written.get(..end), rest.get(..end)) else {
                        return false;
                    };
                    if !a.eq_ignore_ascii_case(b) {
                        return false;
                    }
                    at += end;
                    rest = rest.get(end..).unwrap_or_default();
                }
                _ => return false,
            }
        }
    }

    fn octets(&mut self, octets: &[u8]) -> Result<(), Full> {
        let end = self.length + octets.len();
        if end > self.limit {
            return Err(Full);
        }
        self.buffer
            .get_mut(self.length..end)
            .ok_or(Full)?
            .copy_from_slice(octets);
        self.length = end;
        Ok(())
    }
}

/// A place in a message under construction; made by [`Composer::mark`].
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    length: usize,
    counts: [u16; 4],
    n_targets: usize,
    n_pointers: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::{Records, uncompressed_rdata};

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    const QUESTION: &[u8] = b"\x03WWW\x07example\0\0\x0f\0\x01";

    #[test]
    fn names_are_compressed_where_that_is_allowed() {
        let mut buffer = [0; 512];
        let mut message = Composer::new(&mut buffer, 512, 7, Flags(Flags::QR)).unwrap();
        message.question(QUESTION).unwrap();
        let mx = [&[0, 10], name("mail.example.").as_wire()].concat();
        let srv = [&[0; 6], name("mail.example.").as_wire()].concat();
        let fixed = |rtype| (rtype, Class::IN, 60);
        message
            .record(Section::Answer, Owner::Question, fixed(Type::MX), &mx)
            .unwrap();
        let before = message.length();
        message
            .record(
                Section::Answer,
                Owner::Name(&name("MAIL.example.")),
                fixed(Type::SRV),
                &srv,
            )
            .unwrap();
        assert_eq!(message.length() - before, 2 + 10 + srv.len());
        message.opt(1232, Rcode::BADVERS, true, &[]).unwrap();
        let length = message.finish();
        let whole = &buffer[..length];
        let records: Vec<_> = Records::new(whole).unwrap().map(|r| r.unwrap()).collect();
        assert_eq!(uncompressed_rdata(whole, &records[0]).unwrap(), mx);
        assert_eq!(uncompressed_rdata(whole, &records[1]).unwrap(), srv);
        assert_eq!(
            Name::read(whole, records[1].name_offset).unwrap().0,
            name("mail.example.")
        );
        assert_eq!(records[0].rdata.len(), 2 + 5 + 2);
        assert_eq!(records[2].ttl, 0x0100_8000);
        assert_eq!(header::counts(whole), Some([1, 2, 0, 1]));
    }

    #[test]
    fn a_record_that_does_not_fit_leaves_no_trace() {
        let fixed = (Type::NS, Class::IN, 60);
        for limit in 12..100 {
            let mut buffer = [0; 512];
            let mut message = Composer::new(&mut buffer, limit, 7, Flags::default()).unwrap();
            message.note_pointers();
            if message.question(QUESTION).is_err() {
                assert_eq!((message.length(), message.counts()), (12, [0; 4]));
                continue;
            }
            while message
                .record(
                    Section::Authority,
                    Owner::Name(&name("a.b.")),
                    fixed,
                    name("ns.a.b.").as_wire(),
                )
                .is_ok()
            {}
            let (pointers, count) = (message.pointers().len(), message.counts()[2]);
            assert_eq!(
                pointers,
                usize::from(count.saturating_sub(1) * 2 + count.min(1))
            );
            let length = message.finish();
            assert!(length <= limit);
            assert_eq!(
                Records::new(&buffer[..length])
                    .unwrap()
                    .filter(Result::is_ok)
                    .count(),
                usize::from(count)
            );
        }
    }

    #[test]
    fn many_names_and_far_offsets_still_read_back() {
        let mut buffer = vec![0; 65_535];
        let mut message = Composer::new(&mut buffer, 65_535, 7, Flags::default()).unwrap();
        message.question(QUESTION).unwrap();
        let names: Vec<Name> = (0..1200)
            .map(|i| name(&format!("n{i}.d{}.example.", i % 300)))
            .collect();
        for owner in &names {
            let fixed = (Type::PTR, Class::IN, 60);
            message
                .record(Section::Answer, Owner::Name(owner), fixed, owner.as_wire())
                .unwrap();
        }
        let length = message.finish();
        let whole = &buffer[..length];
        for (record, owner) in Records::new(whole).unwrap().zip(&names) {
            let record = record.unwrap();
            assert_eq!(&Name::read(whole, record.name_offset).unwrap().0, owner);
            assert_eq!(uncompressed_rdata(whole, &record).unwrap(), owner.as_wire());
        }
    }
}
