//! Frames: how records lie in a file of the journal.
//!
//! ```text
//! length u32 | checksum u32 | batch u64 | kind u8, payload
//! ```
//!
//! Little-endian; the length is that of kind and payload. The checksum (CRC-32C) covers the frame's
//! own place in the file besides everything after it, so the rest of an earlier file on the same
//! blocks is no frame here. `batch` is the place of the first of the frames that were written and
//! synced together: a frame of a later batch behind a broken one proves that the broken one had
//! been synced, so it is damage, and not the torn end of a write that was never acknowledged.
//!
//! Never reads files: it is handed octets.

use bytes::{Buf as _, BufMut as _};

/// Octets before kind and payload.
pub const HEAD: usize = 16;

/// Kind and payload at most. A record of a manifest has some facts for each of its blobs; this is
/// room for tens of thousands.
pub const LONGEST: usize = 16 << 20;

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A record.
    Record,
    /// The end of a file that nothing is added to: a segment that another follows, a snapshot.
    End,
}

impl Kind {
    fn octet(self) -> u8 {
        match self {
            Self::Record => 1,
            Self::End => 2,
        }
    }

    fn of(octet: u8) -> Option<Self> {
        match octet {
            1 => Some(Self::Record),
            2 => Some(Self::End),
            _ => None,
        }
    }
}

/// A frame that is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The kind.
    pub kind: Kind,
    /// The payload.
    pub payload: &'a [u8],
    /// The begin of its batch.
    pub batch: u64,
    /// How many octets it takes in the file.
    pub length: usize,
}

/// The result of reading a place of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found<'a> {
    /// A frame.
    Frame(Frame<'a>),
    /// Perhaps a frame: it needs this many octets from its place on to tell.
    More(usize),
    /// No frame.
    Nothing,
}

/// Adds a frame that stands at `at` in its file and belongs to the batch that begins at `batch`.
pub fn put(file: &mut Vec<u8>, at: u64, batch: u64, kind: Kind, payload: &[u8]) {
    let length = u32::try_from(payload.len() + 1).unwrap_or(u32::MAX);
    let checksum = checksum(at, length, batch, kind.octet(), payload);
    file.put_u32_le(length);
    file.put_u32_le(checksum);
    file.put_u64_le(batch);
    file.put_u8(kind.octet());
    file.put_slice(payload);
}

/// Reads a frame at the begin of `octets`, which are at `at` in their file.
#[must_use]
pub fn take(octets: &[u8], at: u64) -> Found<'_> {
    let Some((mut head, rest)) = octets.split_at_checked(HEAD) else {
        return Found::More(HEAD);
    };
    let length = head.get_u32_le();
    let expected = head.get_u32_le();
    let batch = head.get_u64_le();
    let n_rest = length as usize;
    if n_rest == 0 || n_rest > LONGEST || batch > at {
        return Found::Nothing;
    }
    let Some((body, _)) = rest.split_at_checked(n_rest) else {
        return Found::More(HEAD + n_rest);
    };
    let Some((&octet, payload)) = body.split_first() else {
        return Found::Nothing;
    };
    match Kind::of(octet) {
        Some(kind) if checksum(at, length, batch, octet, payload) == expected => {
            Found::Frame(Frame {
                kind,
                payload,
                batch,
                length: HEAD + n_rest,
            })
        }
        _ => Found::Nothing,
    }
}

/// Whether behind a broken frame at `broken` there is one of a later batch; `rest` is the file from
/// `broken` on.
#[must_use]
pub fn proves_damage(rest: &[u8], broken: u64) -> bool {
    (1..rest.len()).any(|skipped| {
        let octets = rest.get(skipped..).unwrap_or_default();
        match take(octets, broken + skipped as u64) {
            Found::Frame(frame) => frame.batch > broken,
            Found::More(_) | Found::Nothing => false,
        }
    })
}

/// Hands every whole frame of a damaged file to `visit`, with its place; returns how many octets are in
/// none.
pub fn salvage(file: &[u8], visit: &mut dyn FnMut(Frame<'_>, u64)) -> u64 {
    let mut at = 0;
    let mut n_lost = 0;
    while let Some(octets) = file.get(at..).filter(|octets| !octets.is_empty()) {
        match take(octets, at as u64) {
            Found::Frame(frame) => {
                visit(frame, at as u64);
                at += frame.length;
            }
            // The length in a broken head says nothing of where the next frame begins.
            Found::More(_) | Found::Nothing => {
                at += 1;
                n_lost += 1;
            }
        }
    }
    n_lost
}

/// Hands to `visit` what may be the payloads of a damaged file's broken frames: unchecked, so each may be
/// anything.
pub fn unchecked(file: &[u8], visit: &mut dyn FnMut(&[u8])) {
    let mut end = 0;
    let mut broken = |from: usize, to: usize| {
        // One frame alone, whose length may be what is broken.
        if let Some(payload) = file.get(from + HEAD + 1..to) {
            visit(payload);
        }
        // Several, by their lengths.
        let mut at = from;
        while let Some((mut head, _)) = file.get(at..to).and_then(|it| it.split_at_checked(HEAD)) {
            let next = at.saturating_add(HEAD + head.get_u32_le() as usize);
            let Some(payload) = file.get(at + HEAD + 1..next).filter(|_| next <= to) else {
                return;
            };
            visit(payload);
            at = next;
        }
    };
    salvage(file, &mut |frame, at| {
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        if at > end {
            broken(end, at);
        }
        end = at.saturating_add(frame.length);
    });
    if end < file.len() {
        broken(end, file.len());
    }
}

fn checksum(at: u64, length: u32, batch: u64, kind: u8, payload: &[u8]) -> u32 {
    let sum = crc32c::crc32c(&at.to_le_bytes());
    let sum = crc32c::crc32c_append(sum, &length.to_le_bytes());
    let sum = crc32c::crc32c_append(sum, &batch.to_le_bytes());
    let sum = crc32c::crc32c_append(sum, &[kind]);
    crc32c::crc32c_append(sum, payload)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames at the beginning of a file: (batch, payload).
    fn file(frames: &[(u64, &[u8])]) -> Vec<u8> {
        let mut file = Vec::new();
        for (batch, payload) in frames {
            let at = file.len() as u64;
            put(&mut file, at, *batch, Kind::Record, payload);
        }
        file
    }

    #[test]
    fn a_frame_reads_as_it_was_written() {
        let octets = file(&[(0, b"payload")]);
        let frame = Frame {
            kind: Kind::Record,
            payload: b"payload",
            batch: 0,
            length: octets.len(),
        };
        assert_eq!(take(&octets, 0), Found::Frame(frame));
        for end in 0..octets.len() {
            let more = if end < HEAD { HEAD } else { octets.len() };
            assert_eq!(take(&octets[..end], 0), Found::More(more));
        }
    }

    #[test]
    fn every_flipped_bit_and_every_other_place_is_noticed() {
        let octets = file(&[(0, b"payload")]);
        for bit in 0..8 * octets.len() {
            let mut flipped = octets.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(!matches!(take(&flipped, 0), Found::Frame(_)), "bit {bit}");
        }
        assert_eq!(take(&octets, 1), Found::Nothing);
        assert_eq!(take(&[0; 64], 0), Found::Nothing);
    }

    #[test]
    fn frames_around_a_broken_one_are_found() {
        let whole = file(&[(0, b"first"), (0, b"second"), (0, b"third")]);
        let second = HEAD + 6..2 * HEAD + 6 + 7;
        for bit in 0..8 * whole.len() {
            let mut octets = whole.clone();
            octets[bit / 8] ^= 1 << (bit % 8);
            let mut found = Vec::new();
            let n_lost = salvage(&octets, &mut |frame, _| found.push(frame.payload.to_vec()));
            let lost = match bit / 8 {
                at if at < second.start => 0,
                at if at < second.end => 1,
                _ => 2,
            };
            let mut expected = vec![b"first".to_vec(), b"second".to_vec(), b"third".to_vec()];
            expected.remove(lost);
            assert_eq!(found, expected, "bit {bit}");
            assert!(n_lost > 0);
        }
    }

    #[test]
    fn a_broken_frame_is_read_without_its_checksum() {
        let whole = file(&[(0, b"first"), (0, b"second"), (0, b"third")]);
        for (bit, expected) in [
            // In the checksum, in the length, in the payload of the last.
            (8 * 5, b"first".as_slice()),
            (8 * (HEAD + 6) + 1, b"second"),
            (8 * (whole.len() - 1), b"thire"),
        ] {
            let mut octets = whole.clone();
            octets[bit / 8] ^= 1 << (bit % 8);
            let mut found = Vec::new();
            unchecked(&octets, &mut |payload| found.push(payload.to_vec()));
            assert!(found.contains(&expected.to_vec()), "bit {bit}: {found:?}");
        }
        unchecked(&whole, &mut |payload| panic!("{payload:?}"));
    }

    #[test]
    fn a_broken_frame_of_a_synced_batch_is_told_from_a_torn_one() {
        let first = file(&[(0, b"first")]).len() as u64;
        let one_batch = file(&[(0, b"first"), (first, b"second"), (first, b"third")]);
        let later = (2 * first) + 1;
        let two_batches = file(&[(0, b"first"), (first, b"second"), (later, b"third")]);
        for (octets, is_damage) in [(one_batch, false), (two_batches, true)] {
            let at = usize::try_from(first).unwrap();
            let mut octets = octets;
            octets[at + HEAD + 2] ^= 1;
            assert_eq!(take(&octets[at..], first), Found::Nothing);
            assert_eq!(proves_damage(&octets[at..], first), is_damage);
        }
    }
}
