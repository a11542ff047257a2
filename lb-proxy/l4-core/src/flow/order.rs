//! Flows from the one in which something moved last to the one that has been idle the longest: a list
//! through their places.

use super::{Flows, NONE};

impl Flows {
    /// Something moved in the flow at `index`.
    pub(super) fn touch(&mut self, index: u32) {
        let now = self.now;
        if let Some((_, flow)) = self.at_mut(index) {
            flow.moved_at = now;
        }
        if self.newest != index {
            self.unlink(index);
            self.push_newest(index);
        }
    }

    pub(super) fn unlink(&mut self, index: u32) {
        let Some((_, flow)) = self.at_mut(index) else {
            return;
        };
        let (newer, older) = (flow.newer, flow.older);
        flow.newer = NONE;
        flow.older = NONE;
        match self.at_mut(newer) {
            Some((_, flow)) => flow.older = older,
            None => self.newest = older,
        }
        match self.at_mut(older) {
            Some((_, flow)) => flow.newer = newer,
            None => self.oldest = newer,
        }
    }

    pub(super) fn push_newest(&mut self, index: u32) {
        let second = self.newest;
        if let Some((_, flow)) = self.at_mut(index) {
            flow.older = second;
        }
        match self.at_mut(second) {
            Some((_, flow)) => flow.newer = index,
            None => self.oldest = index,
        }
        self.newest = index;
    }
}
