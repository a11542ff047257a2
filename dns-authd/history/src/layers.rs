//! Changes that follow each other, merged as they become many.
//!
//! Each is at least twice as large as the one behind it, so that a further one costs little however large their sum is.

use std::sync::Arc;

use crate::change::Change;
use crate::version::Version;

/// The sum of changes, each of which begins where the one before ends.
#[derive(Clone, Debug)]
pub(crate) struct Layers {
    first: Arc<Change>,
    /// Those behind the first.
    more: Vec<Arc<Change>>,
}

impl Layers {
    /// This change alone.
    pub(crate) const fn new(first: Arc<Change>) -> Self {
        let more = Vec::new();
        Self { first, more }
    }

    /// Adds the change behind them.
    pub(crate) fn push(&mut self, change: Arc<Change>) {
        self.more.push(change);
        while let Some((last, before)) = self.more.split_last() {
            let above = before.last().unwrap_or(&self.first);
            if above.n_records() >= 2 * last.n_records() {
                return;
            }
            let merged = Arc::new(above.then(last));
            self.more.pop();
            match self.more.last_mut() {
                Some(above) => *above = merged,
                None => self.first = merged,
            }
        }
    }

    /// The version before them.
    pub(crate) fn from(&self) -> &Version {
        &self.first.from
    }

    /// The version behind them.
    pub(crate) fn to(&self) -> &Version {
        &self.more.last().unwrap_or(&self.first).to
    }

    /// The octets that their sum takes at most.
    pub(crate) fn octets(&self) -> usize {
        let all = std::iter::once(&self.first).chain(&self.more);
        all.map(|change| change.octets()).sum()
    }

    /// Their sum.
    pub(crate) fn sum(&self) -> Arc<Change> {
        let mut smallest_first = self.more.iter().rev();
        let Some(last) = smallest_first.next() else {
            return Arc::clone(&self.first);
        };
        let behind = smallest_first.fold(Arc::clone(last), |behind, change| {
            Arc::new(change.then(&behind))
        });
        Arc::new(self.first.then(&behind))
    }
}

impl PartialEq for Layers {
    fn eq(&self, other: &Self) -> bool {
        self.sum() == other.sum()
    }
}

impl Eq for Layers {}
