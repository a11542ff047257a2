//! The order of requests in an upload session (distribution-spec, Pushing blobs).
//!
//! ```text
//!                    ┌── PATCH, PUT with Content-Range: only from where it stands
//! POST ──► session ──┼── PATCH without: from wherever it stands
//!                    ├── GET: where it stands
//!                    ├── PUT ?digest= ──► blob, if the digest is right
//!                    └── DELETE ──► gone
//! ```
//!
//! Never reads a body; says how much of it to take.

use crate::range;

/// How octets join a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// A stream, appended wherever the session stands.
    Streamed {
        /// How long it is, if that is known.
        length: Option<u64>,
    },
    /// A chunk with a place.
    Chunk {
        /// The offset of its first byte.
        at: u64,
        /// How long it is.
        length: u64,
    },
}

/// Why a part cannot join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartError {
    /// `Content-Range` is no range: 416.
    Range,
    /// `Content-Range` and `Content-Length` say different lengths: 400.
    Length {
        /// As `Content-Range` says.
        range: u64,
        /// As `Content-Length` says.
        body: u64,
    },
}

impl Part {
    /// The length and the range that a request's headers give for its body.
    ///
    /// # Errors
    /// When they contradict each other, or say nothing that can be read.
    pub fn of(content_range: Option<&str>, content_length: Option<u64>) -> Result<Self, PartError> {
        let Some(header) = content_range else {
            return Ok(Self::Streamed {
                length: content_length,
            });
        };
        let chunk = range::chunk(header.trim()).ok_or(PartError::Range)?;
        match content_length {
            Some(body) if body != chunk.length => Err(PartError::Length {
                range: chunk.length,
                body,
            }),
            _ => Ok(Self::Chunk {
                at: chunk.first,
                length: chunk.length,
            }),
        }
    }

    /// The offset that the session has to have; any, if none.
    #[must_use]
    pub fn at(self) -> Option<u64> {
        match self {
            Self::Streamed { .. } => None,
            Self::Chunk { at, .. } => Some(at),
        }
    }

    /// How long the body has to be, if that is known.
    #[must_use]
    pub fn length(self) -> Option<u64> {
        match self {
            Self::Streamed { length } => length,
            Self::Chunk { length, .. } => Some(length),
        }
    }

    /// Whether nothing joins: a PUT that only finishes.
    #[must_use]
    pub fn is_nothing(self) -> bool {
        self.length() == Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_say_what_a_part_is() {
        let streamed = |length| Ok(Part::Streamed { length });
        let chunk = |at, length| Ok(Part::Chunk { at, length });
        let cases = [
            (None, None, streamed(None)),
            (None, Some(7), streamed(Some(7))),
            (Some("0-6"), Some(7), chunk(0, 7)),
            (Some("7-13"), None, chunk(7, 7)),
            (Some(" 7-13 "), None, chunk(7, 7)),
            (
                Some("0-6"),
                Some(8),
                Err(PartError::Length { range: 7, body: 8 }),
            ),
            (
                Some("0-6"),
                Some(0),
                Err(PartError::Length { range: 7, body: 0 }),
            ),
            (Some("bytes 0-6/7"), Some(7), Err(PartError::Range)),
            (Some(""), Some(0), Err(PartError::Range)),
        ];
        for (range, length, expected) in cases {
            assert_eq!(Part::of(range, length), expected, "{range:?} {length:?}");
        }
    }

    #[test]
    fn only_a_chunk_has_a_place() {
        let chunk = Part::Chunk { at: 3, length: 4 };
        assert_eq!(
            (chunk.at(), chunk.length(), chunk.is_nothing()),
            (Some(3), Some(4), false)
        );
        let nothing = Part::Streamed { length: Some(0) };
        assert_eq!((nothing.at(), nothing.is_nothing()), (None, true));
        assert!(!Part::Streamed { length: None }.is_nothing());
    }
}
