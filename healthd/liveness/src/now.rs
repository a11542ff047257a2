//! One moment on both clocks a prober needs.

use std::time::{Duration, Instant};

/// A moment: the steady clock measures, the wall clock is shown to people and kept on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// On the clock that never steps.
    pub steady: Instant,
    /// Since 1970-01-01T00:00:00Z.
    pub wall: Duration,
}
