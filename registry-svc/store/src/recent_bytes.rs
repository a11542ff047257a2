//! The newest bytes of content in flight: several clients read it while it arrives.
//!
//! Never waits; a reader learns by other means that more has come.

use std::collections::VecDeque;

use bytes::Bytes;

/// Octets that stay at hand for those who wait: as many as a client on the same network lags behind
/// for a moment.
const LENGTH: usize = 4 << 20;

/// The last pieces, each with its offset.
#[derive(Debug, Default)]
pub struct RecentBytes {
    pieces: VecDeque<(u64, Bytes)>,
    length: usize,
}

/// The bytes of a window at an offset.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece {
    /// Octets from there on.
    Here(Bytes),
    /// They have not come.
    NotYet,
    /// They have left the window.
    Gone,
}

impl RecentBytes {
    /// Keeps a piece, and lets go of the oldest that no longer fit.
    pub fn push(&mut self, at: u64, piece: &Bytes) {
        self.length += piece.len();
        self.pieces.push_back((at, piece.clone()));
        while self.length > LENGTH {
            let Some((_, oldest)) = self.pieces.pop_front() else {
                break;
            };
            self.length -= oldest.len();
        }
    }

    /// The bytes from an offset on.
    pub fn at(&self, at: u64) -> Piece {
        let after = self.pieces.partition_point(|(start, _)| *start <= at);
        let Some((start, piece)) = after.checked_sub(1).and_then(|one| self.pieces.get(one)) else {
            // Nothing so early: it is gone, unless nothing has come at all.
            return match self.pieces.is_empty() {
                true => Piece::NotYet,
                false => Piece::Gone,
            };
        };
        let skip = usize::try_from(at - start).unwrap_or(usize::MAX);
        match skip < piece.len() {
            true => Piece::Here(piece.slice(skip..)),
            false => Piece::NotYet,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_has_what_came_last() {
        let mut window = RecentBytes::default();
        assert_eq!(window.at(0), Piece::NotYet);
        window.push(0, &Bytes::from_static(b"abc"));
        window.push(3, &Bytes::from_static(b"def"));
        assert_eq!(window.at(1), Piece::Here(Bytes::from_static(b"bc")));
        assert_eq!(window.at(3), Piece::Here(Bytes::from_static(b"def")));
        assert_eq!(window.at(6), Piece::NotYet);
        window.push(6, &Bytes::from(vec![7; LENGTH]));
        assert_eq!(window.at(1), Piece::Gone);
        assert!(matches!(window.at(6), Piece::Here(_)));
    }
}
