//! The clocks of a machine: a crystal that is wrong and wanders, the raw clock it drives, and the wall clock that is corrected.

use super::random::Random;
use time_model::time::{RawTime, Reading, SECOND, Span, UnixTime};
use time_model::view::Leap;

/// True time 0, as Unix time: 2028-12-31T22:00:00Z, two hours before a midnight that may have a leap second.
pub const EPOCH: UnixTime = UnixTime(1_861_912_800 * SECOND);
/// That midnight, in true time.
pub const MIDNIGHT: f64 = 7200.0;
/// The machine was started this long before.
const UPTIME: i64 = 1000 * SECOND;

/// The clocks of a machine.
#[derive(Clone, Debug)]
pub struct LocalClock {
    /// The gain of the crystal in a second.
    frequency: f64,
    /// Deviation of what that gains in a second.
    wander: f64,
    /// Temperature: amplitude of the frequency, and its period in seconds.
    wave: Option<(f64, f64)>,
    wave_frequency: f64,
    /// From a moment on it gains so much more.
    jump: Option<(f64, f64)>,
    /// Nanoseconds since true time 0.
    raw: f64,
    /// Wall time less true time 0, in nanoseconds.
    wall: f64,
    /// The kernel's change of the rate.
    rate: f64,
    /// The kernel inserts or deletes a second at midnight.
    leap: Leap,
}

impl LocalClock {
    /// A clock that is right.
    #[must_use]
    pub fn perfect() -> Self {
        Self::new(0.0, 0.0, 0.0)
    }

    /// A clock that is ahead by `offset` seconds, gains `frequency` in a second, which itself changes by `wander`.
    #[must_use]
    pub fn new(offset: f64, frequency: f64, wander: f64) -> Self {
        Self {
            frequency,
            wander,
            wave: None,
            wave_frequency: 0.0,
            jump: None,
            raw: 0.0,
            wall: offset * 1e9,
            rate: 0.0,
            leap: Leap::Normal,
        }
    }

    /// It is in a room that becomes warm and cold.
    #[must_use]
    pub fn in_temperature(mut self, amplitude: f64, period: f64) -> Self {
        self.wave = Some((amplitude, period));
        self
    }

    /// From this second on it gains so much more in a second.
    #[must_use]
    pub fn jumping(mut self, at: f64, more: f64) -> Self {
        self.jump = Some((at, more));
        self
    }

    /// Both clocks.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "months in nanoseconds fit")]
    pub fn reading(&self) -> Reading {
        Reading {
            raw: RawTime(UPTIME + self.raw.round() as i64),
            wall: EPOCH + Span(self.wall.round() as i64),
        }
    }

    /// Wall time less true time, in seconds.
    #[must_use]
    pub fn offset(&self, now: f64) -> f64 {
        self.wall / 1e9 - now
    }

    /// The gain of the wall clock in a second.
    #[must_use]
    pub fn frequency(&self) -> f64 {
        (1.0 + self.crystal()) * (1.0 + self.rate) - 1.0
    }

    /// When the raw clock will show `at`, if it is as wrong as it is.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "months in nanoseconds fit")]
    pub fn when(&self, now: f64, at: RawTime) -> f64 {
        let left = (at.0 - UPTIME) as f64 - self.raw;
        now + (left / 1e9 / (1.0 + self.crystal())).max(0.0)
    }

    pub fn run(&mut self, seconds: f64) {
        let raw = seconds * 1e9 * (1.0 + self.crystal());
        self.raw += raw;
        let before = self.wall;
        self.wall += raw * (1.0 + self.rate);
        let (moment, jump) = match self.leap {
            Leap::Insert => (MIDNIGHT * 1e9, -1e9),
            Leap::Delete => ((MIDNIGHT - 1.0) * 1e9, 1e9),
            Leap::Normal | Leap::Unsynchronised => return,
        };
        if before < moment && self.wall >= moment {
            self.wall += jump;
            self.leap = Leap::Normal;
        }
    }

    pub(super) fn arm(&mut self, leap: Leap) {
        self.leap = leap;
    }

    pub fn wander(&mut self, now: f64, random: &mut Random) {
        if self.wander > 0.0 {
            self.frequency += self.wander * random.normal();
        }
        if let Some((_, more)) = self.jump.take_if(|(at, _)| now >= *at) {
            self.frequency += more;
        }
        if let Some((amplitude, period)) = self.wave {
            self.wave_frequency = amplitude * (std::f64::consts::TAU * now / period).sin();
        }
    }

    pub(super) fn set_rate(&mut self, parts_per_billion: f64) {
        self.rate = parts_per_billion * 1e-9;
    }

    #[expect(clippy::cast_precision_loss, reason = "a step is no year")]
    pub(super) fn step(&mut self, span: Span) {
        self.wall += span.0 as f64;
    }

    fn crystal(&self) -> f64 {
        self.frequency + self.wave_frequency
    }
}
