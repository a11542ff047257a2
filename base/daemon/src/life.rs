//! The state of the process's life.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

pub use api::State;

/// The state of one process; clones share it.
#[derive(Debug, Clone)]
pub struct Life(Arc<AtomicU8>);

impl Life {
    /// A process that starts.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(AtomicU8::new(State::Starting as u8)))
    }

    /// The state it is in.
    #[must_use]
    pub fn state(&self) -> State {
        match self.0.load(Ordering::Relaxed) {
            0 => State::Starting,
            1 => State::Serving,
            2 => State::Reloading,
            _ => State::Draining,
        }
    }

    /// Enters a state.
    pub fn set(&self, state: State) {
        self.0.store(state as u8, Ordering::Relaxed);
    }
}

impl Default for Life {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_is_kept() {
        let life = Life::new();
        assert_eq!(life.state(), State::Starting);
        for state in [State::Serving, State::Reloading, State::Draining] {
            life.clone().set(state);
            assert_eq!(life.state(), state);
        }
    }
}
