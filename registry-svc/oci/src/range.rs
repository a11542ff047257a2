//! Ranges of octets: `Range` of a pull (RFC 9110 §14), `Content-Range` of a chunk that is pushed
//! (distribution-spec, Pushing a blob in chunks).

use std::ops::Range;

/// The requested part of a blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// All of it: no `Range`, or one that is not understood and therefore ignored.
    Whole,
    /// A part that is there, never empty.
    Part(Range<u64>),
    /// A part that is not there: 416.
    Unsatisfiable,
}

/// Reads a `Range` header for `size` bytes.
///
/// Several ranges at once, other units and what is no range are ignored, as RFC 9110 §14.2 allows;
/// a single range whose end is before its start is refused, as the spec's conformance suite wants.
#[must_use]
pub fn asked(header: Option<&str>, size: u64) -> Asked {
    let Some(range) = header.and_then(octets_of) else {
        return Asked::Whole;
    };
    let Some((first, last)) = range.split_once('-') else {
        return Asked::Whole;
    };
    let (first, last) = (first.trim(), last.trim());
    match (number(first), number(last)) {
        (Some(first), Some(last)) if first <= last && first < size => {
            Asked::Part(first..last.saturating_add(1).min(size))
        }
        (Some(_), Some(_)) => Asked::Unsatisfiable,
        (Some(first), None) if last.is_empty() => match first < size {
            true => Asked::Part(first..size),
            false => Asked::Unsatisfiable,
        },
        (None, Some(0)) if first.is_empty() => Asked::Unsatisfiable,
        // The last octets of nothing are nothing, which no Content-Range can say.
        (None, Some(_)) if first.is_empty() && size == 0 => Asked::Whole,
        (None, Some(length)) if first.is_empty() => Asked::Part(size.saturating_sub(length)..size),
        _ => Asked::Whole,
    }
}

/// The single range of a header in octets.
fn octets_of(header: &str) -> Option<&str> {
    let (unit, ranges) = header.split_once('=')?;
    let is_one = !ranges.contains(',');
    (unit.trim().eq_ignore_ascii_case("bytes") && is_one).then(|| ranges.trim())
}

/// Digits; a number beyond all sizes is the largest there is.
fn number(digits: &str) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    is_number.then(|| digits.parse().unwrap_or(u64::MAX))
}

/// `Content-Range` of an answer with a part of a blob.
#[must_use]
pub fn content_range(part: &Range<u64>, size: u64) -> String {
    format!("bytes {}-{}/{size}", part.start, part.end.saturating_sub(1))
}

/// `Content-Range` of an answer that has no part.
#[must_use]
pub fn unsatisfied(size: u64) -> String {
    format!("bytes */{size}")
}

/// The octets that a chunk is, as its `Content-Range` says: `^[0-9]+-[0-9]+$`, both inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// The offset of its first octet.
    pub first: u64,
    /// How long it is; never 0.
    pub length: u64,
}

/// Reads a chunk's `Content-Range`; none when it is none.
#[must_use]
pub fn chunk(header: &str) -> Option<Chunk> {
    let exact = |digits: &str| {
        let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
        is_number.then(|| digits.parse::<u64>().ok()).flatten()
    };
    let (first, last) = header.split_once('-')?;
    let (first, last) = (exact(first)?, exact(last)?);
    let length = last.checked_sub(first)?.checked_add(1)?;
    Some(Chunk { first, length })
}

/// `Range` of an upload session that has `offset` octets: the last is inclusive, and nothing reads
/// as `0-0`, which is what peers send.
#[must_use]
pub fn received(offset: u64) -> String {
    format!("0-{}", offset.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(size: u64, cases: &[(&str, Asked)]) {
        for (header, expected) in cases {
            assert_eq!(asked(Some(header), size), *expected, "{header} of {size}");
        }
    }

    #[test]
    fn ranges_of_the_conformance_suite() {
        check(
            2048,
            &[
                ("bytes=500-1499", Asked::Part(500..1500)),
                ("bytes=500-", Asked::Part(500..2048)),
                ("bytes=-500", Asked::Part(1548..2048)),
                ("bytes=2000-5000", Asked::Part(2000..2048)),
                ("bytes=500-0", Asked::Unsatisfiable),
                ("bytes=5000-10000", Asked::Unsatisfiable),
            ],
        );
        assert_eq!(asked(None, 2048), Asked::Whole);
    }

    #[test]
    fn ranges_at_the_edges() {
        check(
            10,
            &[
                ("bytes=0-0", Asked::Part(0..1)),
                ("bytes=9-9", Asked::Part(9..10)),
                ("bytes=10-", Asked::Unsatisfiable),
                ("bytes=10-10", Asked::Unsatisfiable),
                ("bytes=-0", Asked::Unsatisfiable),
                ("bytes=-11", Asked::Part(0..10)),
                ("bytes=0-99999999999999999999999", Asked::Part(0..10)),
                ("bytes=99999999999999999999999-", Asked::Unsatisfiable),
                (
                    "bytes=18446744073709551615-18446744073709551615",
                    Asked::Unsatisfiable,
                ),
                ("BYTES= 1-2 ", Asked::Part(1..3)),
            ],
        );
        check(
            0,
            &[
                ("bytes=0-", Asked::Unsatisfiable),
                ("bytes=0-0", Asked::Unsatisfiable),
                ("bytes=-5", Asked::Whole),
            ],
        );
    }

    #[test]
    fn what_is_no_single_range_of_octets_is_ignored() {
        let headers = [
            "",
            "bytes",
            "bytes=",
            "bytes=-",
            "bytes=a-b",
            "bytes=1",
            "bytes=1-2,4-5",
            "lines=1-2",
            "bytes=1-b",
            "bytes=-1-2",
            "bytes=+1-2",
            "1-2",
        ];
        for header in headers {
            assert_eq!(asked(Some(header), 10), Asked::Whole, "{header}");
        }
    }

    #[test]
    fn chunks_are_two_numbers_and_a_dash() {
        let good = [
            ("0-0", (0, 1)),
            ("0-99", (0, 100)),
            ("100-149", (100, 50)),
            ("007-8", (7, 2)),
        ];
        for (header, (first, length)) in good {
            assert_eq!(chunk(header), Some(Chunk { first, length }), "{header}");
        }
        let bad = [
            "",
            "-",
            "1-",
            "-1",
            "5-4",
            "bytes 0-99/100",
            "bytes=0-99",
            "0-99/100",
            " 0-99",
            "0-99 ",
            "+0-99",
            "0-+99",
            "0--99",
            "0-99-",
            "a-b",
            "0-18446744073709551615",
            "0-99999999999999999999999",
        ];
        for header in bad {
            assert_eq!(chunk(header), None, "{header}");
        }
    }

    #[test]
    fn what_was_received_is_inclusive() {
        assert_eq!(received(0), "0-0");
        assert_eq!(received(1), "0-0");
        assert_eq!(received(1000), "0-999");
    }

    #[test]
    fn answers_name_their_part() {
        assert_eq!(content_range(&(500..1500), 2048), "bytes 500-1499/2048");
        assert_eq!(unsatisfied(2048), "bytes */2048");
    }
}
