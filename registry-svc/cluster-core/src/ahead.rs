//! Records that are safe on a disk although others of the same origin before them are not.

use std::ops::RangeInclusive;

use registry_facts::record::{NodeId, Position};

/// Such records of one origin, as ranges of sequences that rise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ahead {
    /// The origin.
    pub origin: NodeId,
    /// The sequences.
    pub ranges: Vec<RangeInclusive<u64>>,
}

impl Ahead {
    /// The records with these sequences, which rise.
    #[must_use]
    pub fn new(origin: NodeId, sequences: impl IntoIterator<Item = u64>) -> Self {
        let mut ranges: Vec<RangeInclusive<u64>> = Vec::new();
        for sequence in sequences {
            match ranges.last_mut() {
                Some(last) if sequence.checked_sub(1) == Some(*last.end()) => {
                    *last = *last.start()..=sequence;
                }
                _ => ranges.push(sequence..=sequence),
            }
        }
        Self { origin, ranges }
    }

    /// Whether a record is among them.
    #[must_use]
    pub fn covers(&self, position: &Position) -> bool {
        self.origin == position.origin
            && self
                .ranges
                .iter()
                .any(|range| range.contains(&position.sequence))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_in_a_row_are_one_range() {
        let origin = NodeId {
            name: "a".parse().unwrap(),
            incarnation: 1,
        };
        let ahead = Ahead::new(origin.clone(), [2, 3, 4, 7, 9, 10]);
        assert_eq!(ahead.ranges, [2..=4, 7..=7, 9..=10]);
        let covered = (0..12).filter(|sequence| {
            ahead.covers(&Position {
                origin: origin.clone(),
                sequence: *sequence,
            })
        });
        assert_eq!(covered.collect::<Vec<_>>(), [2, 3, 4, 7, 9, 10]);
        let other = NodeId {
            incarnation: 2,
            ..origin
        };
        let position = Position {
            origin: other,
            sequence: 3,
        };
        assert!(!ahead.covers(&position), "another incarnation");
    }
}
