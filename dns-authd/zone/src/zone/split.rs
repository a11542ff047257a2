//! A zone in parts, so that a change builds only some of its names again.
//!
//! Each part is a [`Zone`](super::Zone) of its own with the same apex. Names of fewer labels than the depth are in the root; the others
//! fall to the parts by the hash of their suffix of that depth, so that a name and those below it are in one part.

use dns_wire::hash::Suffixes;

/// The way in which a zone is split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// The number of labels of the suffixes by which names fall to the parts; more than the apex has.
    pub depth: usize,
    /// The number of parts.
    pub parts: usize,
}

/// The names of one part, or of the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The split of the zone.
    pub split: Split,
    /// The part; `None` for the root.
    pub part: Option<usize>,
}

impl Split {
    /// The part of a name within the zone; `None` for the root.
    #[inline]
    #[must_use]
    pub fn part_of(&self, name: &Suffixes) -> Option<usize> {
        let is_above = name.n_labels() < self.depth;
        // The table of names within a part takes the lower bits: these are others.
        let number = (name.hash(self.depth) >> 20) as usize;
        (!is_above).then(|| number.checked_rem(self.parts))?
    }
}

impl Extent {
    /// Whether a name within the zone belongs here.
    #[must_use]
    pub fn has(&self, name: &Suffixes) -> bool {
        self.split.part_of(name) == self.part
    }
}
