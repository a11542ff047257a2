//! The addresses of the API, in the order of preference: the own node's first.

use std::time::{Duration, Instant};

use random::Random;
use retry::Backoff;

/// Before an address that has failed is tried again; twice as long after each failure.
const FIRST_REST: Duration = Duration::from_secs(1);
/// The longest of these waits: clusterd notices within it that an API is back.
const LONGEST_REST: Duration = Duration::from_secs(30);
/// The longest that an address itself may ask to be left alone: a proxy before an API server may ask for an hour.
const LONGEST_ASKED: Duration = Duration::from_secs(60);

/// The addresses, and which of them are left alone for a while.
#[derive(Clone, Debug)]
pub(crate) struct Addresses {
    states: Vec<State>,
    current: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    failures: u32,
    rests_until: Option<Instant>,
}

impl Addresses {
    pub(crate) fn new(count: usize) -> Self {
        Self {
            states: vec![State::default(); count.max(1)],
            current: 0,
        }
    }

    pub(crate) const fn current(&self) -> usize {
        self.current
    }

    /// Takes the most preferred address that does not rest; the one in use when all do. Says whether it is another.
    pub(crate) fn choose(&mut self, now: Instant) -> bool {
        let is_free = |state: &State| state.rests_until.is_none_or(|until| until <= now);
        let before = self.current;
        if let Some(free) = self.states.iter().position(is_free) {
            self.current = free;
        }
        self.current != before
    }

    /// The address in use has answered as it should.
    pub(crate) fn succeeded(&mut self) {
        if let Some(state) = self.states.get_mut(self.current) {
            *state = State::default();
        }
    }

    /// The address in use has failed, and may have asked for a wait. Returns when the next attempt may be made, and turns to
    /// the address to make it at: now, when there is one that does not rest.
    pub(crate) fn failed(
        &mut self,
        asked: Option<Duration>,
        now: Instant,
        random: &mut Random,
    ) -> Instant {
        if let Some(state) = self.states.get_mut(self.current) {
            state.failures = state.failures.saturating_add(1);
            let backoff = Backoff::new(FIRST_REST, LONGEST_REST);
            let own = backoff.after(state.failures, random.unit());
            let rest = own.max(asked.unwrap_or_default().min(LONGEST_ASKED));
            state.rests_until = Some(now + rest);
        }
        let when = |state: &State| state.rests_until.unwrap_or(now).max(now);
        let soonest = self.states.iter().enumerate();
        let soonest = soonest.min_by_key(|(place, state)| (when(state), *place));
        let (place, at) = soonest.map_or((0, now), |(place, state)| (place, when(state)));
        self.current = place;
        at
    }

    /// Turns to the next address in a circle, whether it rests or not: another has to confirm an older version.
    pub(crate) fn turn(&mut self) {
        self.current = (self.current + 1) % self.states.len();
    }
}
