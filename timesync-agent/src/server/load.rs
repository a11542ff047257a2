//! Whether a thread keeps up with its clients: its queue is never empty when it does not.

use super::BATCH;

/// This many full batches in a row are no burst: at full speed they take about ten milliseconds.
const FULL_BATCHES: u32 = 32;

/// The load of one thread.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Load {
    /// Datagrams of this batch.
    taken: usize,
    /// Full batches in a row.
    full: u32,
}

impl Load {
    /// The thread has a datagram.
    pub(super) fn taken(&mut self) {
        self.taken += 1;
    }

    /// The batch is over. True if the thread has not kept up for a while, once for each such while.
    pub(super) fn settled(&mut self) -> bool {
        let is_full = self.taken >= BATCH;
        self.taken = 0;
        self.full = if is_full { self.full + 1 } else { 0 };
        let is_overload = self.full >= FULL_BATCHES;
        if is_overload {
            self.full = 0;
        }
        is_overload
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batches(load: &mut Load, datagrams: usize, n: u32) -> u32 {
        let mut overloads = 0;
        for _ in 0..n {
            (0..datagrams).for_each(|_| load.taken());
            overloads += u32::from(load.settled());
        }
        overloads
    }

    #[test]
    fn a_queue_that_is_never_empty_is_overload() {
        let mut load = Load::default();
        assert_eq!(batches(&mut load, BATCH, FULL_BATCHES - 1), 0, "a burst");
        assert_eq!(batches(&mut load, BATCH - 1, 1), 0, "the end of it");
        assert_eq!(batches(&mut load, BATCH, FULL_BATCHES - 1), 0);
        assert_eq!(batches(&mut load, BATCH, 1), 1);
        assert_eq!(batches(&mut load, BATCH, 2 * FULL_BATCHES), 2, "and more");
        assert_eq!(batches(&mut load, 0, 1000), 0, "rest");
        assert_eq!(batches(&mut load, BATCH - 1, 1000), 0, "much, but no more");
    }
}
