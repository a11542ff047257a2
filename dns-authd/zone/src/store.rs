//! Responses that are encoded before a query asks for them.
//!
//! A response is the question, then records. The records depend on the question's name only in their
//! compression pointers: if the name is longer than the one that a response was encoded for, everything
//! behind the question moves by the difference. So a response is encoded once for a *reference* name that
//! ends every name it will be sent to (the node itself, the closest encloser of a wildcard, the apex for
//! negative answers), with a list of the places of pointers. To send it: copy, and add the difference in
//! length to each pointer. Records owned by the question's name point to the question, which never moves.

use dns_wire::composer::{Composer, Full, Owner};
use dns_wire::header::{self, Flags};
use dns_wire::{Class, Name, Section, Type};

use crate::resolution::{Entry, Resolution};

/// The longest message a transport carries.
pub const MAX_MESSAGE: usize = 65_535;
/// Nearly every response is shorter than this; the buffer grows for longer ones.
const SMALL_MESSAGE: usize = 4096;
/// Room kept free for an OPT record with its options, and for names longer than the reference.
const HEADROOM: usize = 1024;
/// Pointers have 14 bits; those in a rendered response may still move by a whole name.
const MAX_POINTER_TARGET: u16 = 0x3fff - 255;

/// The octets of the numbers at the end of a SOA record: the first is the serial.
const SOA_NUMBERS: usize = 20;

/// All rendered responses of a zone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Store {
    items: Vec<Item>,
    bytes: Vec<u8>,
    /// For each item the places of its pointers, then the ends of its optional RRsets.
    words: Vec<u16>,
    /// The places of the zone's serial in the octets.
    serials: Vec<u32>,
}

/// One response within a [`Store`].
#[derive(Clone, Copy, Debug)]
struct Item {
    bytes_start: u32,
    words_start: u32,
    /// Length of all records.
    length: u16,
    /// Length of the records that must not be left out.
    required: u16,
    counts: [u16; 3],
    n_pointers: u16,
    n_optional: u16,
    /// AA and the response code.
    flags: Flags,
    /// Length of the reference name.
    reference: u8,
    /// Whether it is a referral: when truncated, it keeps what fits.
    referral: bool,
}

/// A response ready to be copied.
#[derive(Clone, Copy, Debug)]
pub struct Rendered<'a> {
    item: &'a Item,
    bytes: &'a [u8],
    words: &'a [u16],
}

/// The written part of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// The end of the message.
    pub end: usize,
    /// AA, TC and the response code.
    pub flags: Flags,
    /// Records in the answer, authority and additional sections.
    pub counts: [u16; 3],
}

impl Store {
    #[inline]
    pub(crate) fn get(&self, number: u32) -> Option<Rendered<'_>> {
        let item = self.items.get(number as usize)?;
        let start = item.bytes_start as usize;
        let words = item.words_start as usize;
        let n_words = usize::from(item.n_pointers) + 2 * usize::from(item.n_optional);
        Some(Rendered {
            item,
            bytes: self.bytes.get(start..start + usize::from(item.length))?,
            words: self.words.get(words..words + n_words)?,
        })
    }

    pub(crate) fn memory(&self) -> usize {
        size_of_val(&*self.items)
            + self.bytes.len()
            + size_of_val(&*self.words)
            + size_of_val(&*self.serials)
    }

    /// Writes another serial into all responses that have one.
    pub(crate) fn set_serial(&mut self, serial: u32) {
        for place in &self.serials {
            let rest = self.bytes.get_mut(*place as usize..);
            if let Some(octets) = rest.and_then(<[u8]>::first_chunk_mut) {
                *octets = serial.to_be_bytes();
            }
        }
    }

    /// Adds the responses that were rendered behind these.
    pub(crate) fn append(&mut self, mut more: Self) {
        append(&mut self.items, &mut more.items);
        append(&mut self.bytes, &mut more.bytes);
        append(&mut self.words, &mut more.words);
        append(&mut self.serials, &mut more.serials);
    }
}

impl Rendered<'_> {
    /// Copies the records behind a question of this name length that ends at `at`, into a message
    /// of at most `limit` octets; `None` when `out` is too short for the limit.
    #[inline]
    pub fn write(
        &self,
        qname_length: usize,
        out: &mut [u8],
        at: usize,
        limit: usize,
    ) -> Option<Written> {
        let end = at + self.bytes.len();
        if end > limit {
            return self.write_cut(qname_length, out, at, limit);
        }
        out.get_mut(at..end)?.copy_from_slice(self.bytes);
        self.move_pointers(qname_length, out, at, end);
        Some(Written {
            end,
            flags: self.item.flags,
            counts: self.item.counts,
        })
    }

    /// As [`Rendered::write`] for a response that is too long as a whole.
    #[cold]
    fn write_cut(
        &self,
        qname_length: usize,
        out: &mut [u8],
        at: usize,
        limit: usize,
    ) -> Option<Written> {
        let optional = self.words.get(usize::from(self.item.n_pointers)..)?;
        let mut length = 0;
        let [answers, authorities, _] = self.item.counts;
        let mut counts = [0, 0, 0];
        for step in optional.chunks_exact(2) {
            let &[step_end, additionals] = step else {
                break;
            };
            if at + usize::from(step_end) > limit {
                break;
            }
            length = usize::from(step_end);
            counts = [answers, authorities, additionals];
        }
        let whole = length >= usize::from(self.item.required);
        let mut flags = self.item.flags;
        if !whole {
            flags = flags.with(Flags::TC);
            // A part of an answer is useless; a part of a referral may be useful (RFC 2181 §9).
            if !self.item.referral {
                (length, counts) = (0, [0; 3]);
            }
        }
        let end = at + length;
        out.get_mut(at..end)?
            .copy_from_slice(self.bytes.get(..length)?);
        self.move_pointers(qname_length, out, at, end);
        Some(Written { end, flags, counts })
    }

    #[inline]
    fn move_pointers(&self, qname_length: usize, out: &mut [u8], at: usize, end: usize) {
        let by = qname_length.wrapping_sub(usize::from(self.item.reference));
        if by == 0 {
            return;
        }
        let pointers = self
            .words
            .get(..usize::from(self.item.n_pointers))
            .unwrap_or_default();
        for place in pointers {
            let place = at + usize::from(*place);
            if place >= end {
                break;
            }
            if let Some(bytes) = out.get_mut(place..place + 2)
                && let Ok(pointer) = <[u8; 2]>::try_from(&*bytes)
            {
                let moved = usize::from(u16::from_be_bytes(pointer)).wrapping_add(by);
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "rendering keeps pointers within 14 bits however far they move"
                )]
                bytes.copy_from_slice(&(moved as u16).to_be_bytes());
            }
        }
    }
}

//--- Rendering

/// Collects the responses of a zone.
#[derive(Debug)]
pub(crate) struct StoreBuilder {
    items: Vec<Item>,
    bytes: Vec<u8>,
    words: Vec<u16>,
    serials: Vec<u32>,
    /// The items, octets and words of the store behind which these come.
    before: [usize; 3],
    scratch: Vec<u8>,
}

/// The response cannot be rendered beforehand: it is too long, or the store is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotRenderable;

impl StoreBuilder {
    /// Its responses come behind those of a store.
    pub(crate) fn behind(store: &Store) -> Self {
        Self {
            items: Vec::new(),
            bytes: Vec::new(),
            words: Vec::new(),
            serials: Vec::new(),
            before: [store.items.len(), store.bytes.len(), store.words.len()],
            scratch: vec![0; SMALL_MESSAGE],
        }
    }

    pub(crate) fn finish(mut self) -> Store {
        self.items.shrink_to_fit();
        self.bytes.shrink_to_fit();
        self.words.shrink_to_fit();
        self.serials.shrink_to_fit();
        Store {
            items: self.items,
            bytes: self.bytes,
            words: self.words,
            serials: self.serials,
        }
    }

    /// Encodes a response for every name that ends in `reference`; returns its number.
    pub(crate) fn render(
        &mut self,
        reference: &Name,
        resolution: &Resolution<'_>,
    ) -> Result<u32, NotRenderable> {
        self.try_render(reference, resolution).or_else(|_| {
            self.scratch.resize(MAX_MESSAGE, 0);
            self.try_render(reference, resolution)
        })
    }

    fn try_render(
        &mut self,
        reference: &Name,
        resolution: &Resolution<'_>,
    ) -> Result<u32, NotRenderable> {
        let [items, bytes, words] = self.before;
        let place = |place: usize| u32::try_from(place).map_err(|_| NotRenderable);
        let number = place(items + self.items.len())?;
        let bytes_start = place(bytes + self.bytes.len())?;
        let words_start = place(words + self.words.len())?;
        let base = header::LENGTH + reference.as_wire().len() + 4;
        let limit = MAX_MESSAGE - HEADROOM;
        let mut message = Composer::new(&mut self.scratch, limit, 0, Flags::default())
            .map_err(|_| NotRenderable)?;
        message.note_pointers();
        let question = [reference.as_wire(), &[0; 4]].concat();
        message.question(&question).map_err(|_| NotRenderable)?;
        let mut ends = Vec::new();
        let mut serials = Vec::new();
        let mut required = 0;
        for (index, entry) in resolution.entries.iter().enumerate() {
            if index == resolution.n_required {
                required = message.length() - base;
            }
            push_entry(&mut message, entry).map_err(|_| NotRenderable)?;
            if entry.rtype == Type::SOA {
                serials.push(message.length() - base - SOA_NUMBERS);
            }
            if entry.section == Section::Additional || ends_authority(resolution, index) {
                let [_, _, _, additionals] = message.counts();
                ends.push([word(message.length() - base)?, additionals]);
            }
        }
        if resolution.entries.len() == resolution.n_required {
            required = message.length() - base;
        }
        let [_, answers, authorities, additionals] = message.counts();
        let pointers: Vec<u16> = message.pointers().to_vec();
        let length = message.length();
        let body = self.scratch.get(base..length).ok_or(NotRenderable)?;
        for pointer in &pointers {
            let target = header::word(&self.scratch, usize::from(*pointer)).unwrap_or(0) & 0x3fff;
            if target > MAX_POINTER_TARGET {
                return Err(NotRenderable);
            }
            self.words.push(word(usize::from(*pointer) - base)?);
        }
        if additionals == 0 {
            ends.clear();
        }
        self.words.extend(ends.iter().flatten());
        for serial in serials {
            self.serials.push(place(bytes + self.bytes.len() + serial)?);
        }
        self.bytes.extend_from_slice(body);
        self.items.push(Item {
            bytes_start,
            words_start,
            length: word(length - base)?,
            required: word(required)?,
            counts: [answers, authorities, additionals],
            n_pointers: word(pointers.len())?,
            n_optional: word(ends.len())?,
            flags: flags_of(resolution),
            reference: u8::try_from(reference.as_wire().len()).map_err(|_| NotRenderable)?,
            referral: is_referral(resolution),
        });
        Ok(number)
    }
}

/// Without the room for more.
pub(crate) fn shrunk<T>(mut items: Vec<T>) -> Vec<T> {
    items.shrink_to_fit();
    items
}

/// Adds items, and takes no more room than they need: a zone stays for long.
pub(crate) fn append<T>(items: &mut Vec<T>, more: &mut Vec<T>) {
    items.reserve_exact(more.len());
    items.append(more);
}

/// Encodes a response for one question, behind which the message stands at the composer.
///
/// Returns the flags: AA, the response code, and TC when a required record did not fit.
pub fn compose(message: &mut Composer<'_>, resolution: &Resolution<'_>) -> Flags {
    let flags = flags_of(resolution);
    let start = message.mark();
    for (index, entry) in resolution.entries.iter().enumerate() {
        let before = message.mark();
        if push_entry(message, entry).is_ok() {
            continue;
        }
        message.rewind(before);
        if index >= resolution.n_required {
            break;
        }
        if !is_referral(resolution) {
            message.rewind(start);
        }
        return flags.with(Flags::TC);
    }
    flags
}

fn push_entry(message: &mut Composer<'_>, entry: &Entry<'_>) -> Result<(), Full> {
    let owner = entry.owner.as_ref().map_or(Owner::Question, Owner::Name);
    let fixed: (Type, Class, u32) = (entry.rtype, Class::IN, entry.ttl);
    for rdata in entry.data.items() {
        message.record(entry.section, owner, fixed, rdata)?;
    }
    Ok(())
}

fn flags_of(resolution: &Resolution<'_>) -> Flags {
    let flags = Flags::default().with_rcode(resolution.rcode);
    match resolution.authoritative {
        true => flags.with(Flags::AA),
        false => flags,
    }
}

/// Whether the response refers to a child zone and nothing else.
fn is_referral(resolution: &Resolution<'_>) -> bool {
    !resolution.authoritative
}

/// Whether the entry is the last of the answer and authority sections.
fn ends_authority(resolution: &Resolution<'_>, index: usize) -> bool {
    let next = resolution.entries.get(index + 1);
    next.is_none_or(|entry| entry.section == Section::Additional)
}

fn word(value: usize) -> Result<u16, NotRenderable> {
    u16::try_from(value).map_err(|_| NotRenderable)
}
