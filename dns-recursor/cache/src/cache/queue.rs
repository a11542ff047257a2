//! The order of eviction: SIEVE (Zhang et al., NSDI 2024).
//!
//! One list per pool, newest first, and a hand that walks from the oldest towards the newest. The hand
//! spares an entry once if it was used since the hand's last pass, and evicts the first one that was not. A
//! hit only sets a flag, so names in demand cost no list work, and a burst of
//! names that are queried only once leaves the others alone.
//!
//! Works with links and sizes only, not with the entries' contents.

/// No slot.
pub(super) const NONE: u32 = u32::MAX;

/// A slot's place in its queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Links {
    /// The next newer slot.
    newer: u32,
    /// The next older slot.
    older: u32,
    /// Used since the hand last passed.
    pub(super) used: bool,
}

impl Default for Links {
    fn default() -> Self {
        Self {
            newer: NONE,
            older: NONE,
            used: false,
        }
    }
}

/// One pool's order.
#[derive(Debug)]
pub(super) struct Queue {
    newest: u32,
    oldest: u32,
    hand: u32,
}

impl Default for Queue {
    fn default() -> Self {
        Self {
            newest: NONE,
            oldest: NONE,
            hand: NONE,
        }
    }
}

/// The storage of the slots' links.
pub(super) trait Slots {
    fn links(&mut self, slot: u32) -> Option<&mut Links>;

    /// Whether the slot's entry is useless, recently used or not.
    fn is_dead(&self, slot: u32) -> bool;
}

impl Queue {
    /// Puts a slot at the front.
    pub(super) fn push(&mut self, slots: &mut impl Slots, slot: u32) {
        let older = self.newest;
        if let Some(links) = slots.links(slot) {
            *links = Links {
                newer: NONE,
                older,
                used: false,
            };
        }
        match slots.links(older) {
            Some(links) => links.newer = slot,
            None => self.oldest = slot,
        }
        self.newest = slot;
    }

    /// Removes a slot from anywhere in the queue.
    pub(super) fn remove(&mut self, slots: &mut impl Slots, slot: u32) {
        let Some(&mut Links { newer, older, .. }) = slots.links(slot) else {
            return;
        };
        if self.hand == slot {
            self.hand = newer;
        }
        match slots.links(newer) {
            Some(links) => links.older = older,
            None => self.newest = older,
        }
        match slots.links(older) {
            Some(links) => links.newer = newer,
            None => self.oldest = newer,
        }
    }

    /// The slot to evict next; `None` when the queue is empty.
    pub(super) fn victim(&mut self, slots: &mut impl Slots) -> Option<u32> {
        let mut at = if self.hand == NONE {
            self.oldest
        } else {
            self.hand
        };
        loop {
            let dead = slots.is_dead(at);
            let links = slots.links(at)?;
            if !links.used || dead {
                self.hand = at;
                return Some(at);
            }
            // Each step clears a flag, so the walk ends within one round.
            links.used = false;
            at = if links.newer == NONE {
                self.oldest
            } else {
                links.newer
            };
        }
    }
}

#[cfg(test)]
impl Queue {
    /// Walks the list both ways and gives its length.
    pub(super) fn walk(&self, slots: &mut impl Slots) -> usize {
        let (mut forward, mut backward) = (Vec::new(), Vec::new());
        let mut at = self.newest;
        while at != NONE {
            forward.push(at);
            at = slots.links(at).unwrap().older;
        }
        let mut at = self.oldest;
        while at != NONE {
            backward.push(at);
            at = slots.links(at).unwrap().newer;
        }
        backward.reverse();
        assert_eq!(forward, backward);
        assert!(self.hand == NONE || forward.contains(&self.hand));
        forward.len()
    }
}
