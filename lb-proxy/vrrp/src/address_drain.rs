//! The wait for the clients of addresses that go.
//!
//! Routers that move together go one after the other, and another node may have their addresses already:
//! all of a move have one limit. Never reads a clock.

use std::time::{Duration, Instant};

/// How long clients may take to hear it; a quarter of an interval where that is less.
const LIMIT: Duration = Duration::from_millis(250);

/// One move, in which addresses of several routers may go.
#[derive(Debug, Default)]
pub struct AddressDrain {
    until: Option<Instant>,
}

impl AddressDrain {
    /// Until when the clients of a router with this interval may be waited for.
    pub fn until(&mut self, interval: Duration, now: Instant) -> Instant {
        let own = now + LIMIT.min(interval / 4);
        let until = self.until.map_or(own, |until| until.min(own));
        self.until = Some(until);
        until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_routers_of_a_move_have_one_limit() {
        #[expect(clippy::disallowed_methods, reason = "a place on the time line")]
        let begin = Instant::now();
        let ms = Duration::from_millis;
        let mut farewell = AddressDrain::default();
        for (interval, at, until) in [
            (ms(2000), ms(0), ms(250)),
            (ms(2000), ms(200), ms(250)),
            (ms(2000), ms(300), ms(250)),
        ] {
            assert_eq!(farewell.until(interval, begin + at), begin + until);
        }
        let mut farewell = AddressDrain::default();
        assert_eq!(farewell.until(ms(1000), begin), begin + ms(250));
        assert_eq!(farewell.until(ms(400), begin + ms(10)), begin + ms(110));
        assert_eq!(farewell.until(ms(1000), begin + ms(20)), begin + ms(110));
    }
}
