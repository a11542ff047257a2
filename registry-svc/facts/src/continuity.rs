//! Whether a node may continue the sequence that its disk shows.
//!
//! A position, which is an origin and a sequence, names one record for ever: other nodes take a second
//! record under it for the first one, and acknowledge what they do not have. A disk that was restored
//! from a copy shows a sequence that has gone on elsewhere, and nothing on it tells so. The other nodes
//! know: one of them has a record of this node that the disk lacks. So a node continues its sequence
//! only after each of the others has said how far it knows it. A node that states something earlier, or
//! that is behind what another one has, begins a new incarnation, of which no node has a record.
//!
//! Never asks another node and never makes an incarnation: its caller does.

use std::collections::BTreeSet;

use crate::name::NodeName;

/// Origins in a vector at which a node no longer begins an incarnation only because it has not heard
/// every other node: each message between nodes carries the vector.
pub const MANY_ORIGINS: usize = 1024;

/// The knowledge about the sequence on the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Continuity {
    /// These nodes have not said yet how far they know the sequence.
    Unproven(BTreeSet<NodeName>),
    /// No other node knows more of it, or the incarnation began in this process.
    Proven,
    /// Another node has a record that this disk lacks: the sequence must end.
    Lost,
}

impl Continuity {
    /// The state of a store that has just been opened; `others` are the nodes that follow it.
    #[must_use]
    pub fn new(others: impl IntoIterator<Item = NodeName>) -> Self {
        let others: BTreeSet<NodeName> = others.into_iter().collect();
        match others.is_empty() {
            true => Self::Proven,
            false => Self::Unproven(others),
        }
    }

    /// Takes note of the last record of this incarnation that another node has; `here` is the last one on
    /// this disk.
    pub fn heard(&mut self, from: &NodeName, there: u64, here: u64) {
        if there > here {
            *self = Self::Lost;
        } else if let Self::Unproven(others) = self {
            others.remove(from);
            if others.is_empty() {
                *self = Self::Proven;
            }
        }
    }

    /// Whether a statement needs a new incarnation now; `n_origins` are in the vector.
    #[must_use]
    pub fn needs_incarnation(&self, n_origins: usize) -> bool {
        match self {
            Self::Proven => false,
            Self::Unproven(_) => n_origins < MANY_ORIGINS,
            Self::Lost => true,
        }
    }

    /// Takes note that a new incarnation has begun.
    pub fn renewed(&mut self) {
        *self = Self::Proven;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> NodeName {
        text.parse().unwrap()
    }

    #[test]
    fn a_sequence_goes_on_once_every_other_node_knows_no_more_of_it() {
        let mut continuity = Continuity::new([name("b"), name("c")]);
        assert!(continuity.needs_incarnation(3));
        assert!(!continuity.needs_incarnation(MANY_ORIGINS));
        continuity.heard(&name("b"), 7, 9);
        assert!(continuity.needs_incarnation(3));
        continuity.heard(&name("c"), 9, 9);
        assert_eq!(continuity, Continuity::Proven);
        assert!(!Continuity::new([]).needs_incarnation(3));
    }

    #[test]
    fn a_restored_disk_begins_an_incarnation_however_late_it_shows() {
        for proven in [false, true] {
            let mut continuity = Continuity::new([name("b"), name("c")]);
            if proven {
                continuity.heard(&name("b"), 7, 7);
                continuity.heard(&name("c"), 7, 7);
            }
            continuity.heard(&name("b"), 8, 7);
            assert!(continuity.needs_incarnation(MANY_ORIGINS));
            // The others do not clear it.
            continuity.heard(&name("c"), 7, 7);
            assert!(continuity.needs_incarnation(3));
            continuity.renewed();
            assert!(!continuity.needs_incarnation(3));
        }
    }
}
