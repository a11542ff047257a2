//! The clocks of the kernel, and what is done to the wall clock.
//!
//! The rate is set by the frequency of the kernel up to 500 ppm and by the length of its tick beyond, which makes time run up
//! to a tenth faster or slower and never jump. The kernel's own loop is not used. The clock's state is compared with the state
//! that was set: if it has changed, two programs correct one clock, and neither can.

use std::fmt;
use std::io;

use time_model::time::{RawTime, Reading, SECOND, Span, UnixTime};
use time_model::view::Leap;
use timekeeper::Status;

/// Readings by which the precision of the wall clock is measured.
const N_READINGS: usize = 100;
/// The best precision that is believed, in seconds.
const BEST_PRECISION: f64 = 1e-9;
/// Microseconds of a tick, of which there are a hundred in a second for `adjtimex`, whatever the kernel's own are.
const TICK: i64 = 10_000;
/// The most that a tick may be longer or shorter.
const MAX_TICK_CHANGE: i64 = 1000;
/// The change of one microsecond in the tick, in parts per billion.
const TICK_STEP: f64 = 100_000.0;
/// Up to this the frequency alone is changed, in parts per billion; the kernel takes 500 ppm.
const FREQUENCY_ALONE: f64 = 450_000.0;
/// Units of the kernel's frequency in a part per billion: 2⁻¹⁶ ppm.
const FREQUENCY_UNITS: f64 = 65.536;
/// Bits of the kernel's status that are not ours: its own loops, and pulses.
const FOREIGN_STATUS: i32 = libc::STA_PLL | libc::STA_FLL | libc::STA_PPSFREQ | libc::STA_PPSTIME;

/// Both clocks at one moment, as nearly as can be.
#[must_use]
pub fn read() -> Reading {
    let (raw, wall) = sys::clock::raw_and_wall();
    Reading {
        raw: RawTime(raw),
        wall: UnixTime(wall),
    }
}

/// The wall clock.
#[must_use]
pub fn wall() -> UnixTime {
    UnixTime(sys::clock::read(sys::clock::Clock::Wall))
}

/// The smallest step of the wall clock that a process can see, in seconds.
#[must_use]
pub fn measure_precision() -> f64 {
    let mut last = wall();
    let mut smallest = Span(SECOND);
    for _ in 0..N_READINGS {
        let now = wall();
        if now > last {
            smallest = smallest.min(now - last);
        }
        last = now;
    }
    // A clock that does not move between readings has no measurable precision.
    if smallest == Span(SECOND) {
        BEST_PRECISION
    } else {
        smallest.seconds().max(BEST_PRECISION)
    }
}

/// Why the clock cannot be corrected.
#[derive(Debug)]
pub enum ClockError {
    /// The kernel refuses.
    Refused(io::Error),
    /// Another program has changed it.
    Interference {
        /// The found and the expected state.
        what: String,
    },
}

impl fmt::Display for ClockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                f.write_str("the clock may not be set: it takes CAP_SYS_TIME, or --no-clock")
            }
            Self::Refused(_) => f.write_str("the kernel does not let the clock be set"),
            Self::Interference { what } => {
                write!(f, "another program corrects this clock, too: {what}")
            }
        }
    }
}

impl std::error::Error for ClockError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Refused(error) => Some(error),
            Self::Interference { .. } => None,
        }
    }
}

/// The clock, and whether it is corrected.
#[derive(Debug)]
pub struct Clock {
    corrects: bool,
    /// `rtcsync`: the kernel may believe in its clock.
    is_trusted: bool,
    set: Option<Rate>,
    status: i32,
    told: Option<Status>,
}

/// A rate as the kernel has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rate {
    tick: i64,
    frequency: i64,
}

impl Rate {
    /// The nearest rate to this many parts per billion.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "both are bounded by what the kernel takes"
    )]
    fn nearest(parts_per_billion: f64) -> Self {
        let change = if parts_per_billion.abs() <= FREQUENCY_ALONE {
            0
        } else {
            (parts_per_billion / TICK_STEP).round() as i64
        };
        let change = change.clamp(-MAX_TICK_CHANGE, MAX_TICK_CHANGE);
        #[expect(clippy::cast_precision_loss, reason = "it is at most a thousand")]
        let rest = parts_per_billion - change as f64 * TICK_STEP;
        let limit = FREQUENCY_ALONE + TICK_STEP / 2.0;
        Self {
            tick: TICK + change,
            frequency: (rest.clamp(-limit, limit) * FREQUENCY_UNITS).round() as i64,
        }
    }

    /// The rate in parts per billion.
    #[expect(
        clippy::cast_precision_loss,
        reason = "both are bounded by what the kernel takes"
    )]
    fn parts_per_billion(self) -> f64 {
        (self.tick - TICK) as f64 * TICK_STEP + self.frequency as f64 / FREQUENCY_UNITS
    }
}

impl Clock {
    /// The clock of this machine. It is corrected or only looked at.
    #[must_use]
    pub fn new(corrects: bool, is_trusted: bool) -> Self {
        Self {
            corrects,
            is_trusted,
            set: None,
            status: libc::STA_UNSYNC,
            told: None,
        }
    }

    /// Whether it is corrected.
    #[must_use]
    pub fn corrects(&self) -> bool {
        self.corrects
    }

    /// `rtcsync` from here on.
    pub fn trust(&mut self, is_trusted: bool) {
        self.is_trusted = is_trusted;
    }

    /// The rate in force, in parts per billion, also when another program has set it.
    ///
    /// # Errors
    ///
    /// The kernel refuses, which it has no reason to.
    pub fn rate(&self) -> Result<f64, ClockError> {
        Ok(rate_of(&current()?).parts_per_billion())
    }

    /// Makes the wall clock gain this many parts per billion on the raw clock; returns the rate that the kernel took. A clock
    /// that is not corrected keeps its rate.
    ///
    /// # Errors
    ///
    /// The kernel refuses, or another program corrects the clock.
    pub fn set_rate(&mut self, parts_per_billion: f64) -> Result<f64, ClockError> {
        if !self.corrects {
            return self.rate();
        }
        self.look()?;
        let rate = Rate::nearest(parts_per_billion);
        let mut adjustment = sys::clock::no_adjustment();
        adjustment.modes = libc::ADJ_FREQUENCY | libc::ADJ_TICK;
        adjustment.freq = rate.frequency;
        adjustment.tick = rate.tick;
        if self.set.is_none() {
            // The kernel's own loop, if another program left it on, would continue to correct.
            adjustment.modes |= libc::ADJ_STATUS;
            adjustment.status = self.status;
        }
        adjust(&mut adjustment)?;
        let taken = rate_of(&adjustment);
        self.set = Some(taken);
        Ok(taken.parts_per_billion())
    }

    /// Adds to the wall clock at once.
    ///
    /// # Errors
    ///
    /// As of [`Self::set_rate`].
    pub fn step(&mut self, span: Span) -> Result<(), ClockError> {
        if !self.corrects {
            return Ok(());
        }
        self.look()?;
        let mut adjustment = sys::clock::no_adjustment();
        adjustment.modes = libc::ADJ_SETOFFSET | libc::ADJ_NANO;
        adjustment.time.tv_sec = span.0.div_euclid(SECOND);
        // With ADJ_NANO these are nanoseconds, and never negative.
        adjustment.time.tv_usec = span.0.rem_euclid(SECOND);
        adjust(&mut adjustment)?;
        // With a step the kernel forgets how good its clock is.
        match self.told {
            Some(status) => self.set_status(&status),
            None => Ok(()),
        }
    }

    /// Tells the kernel how good its clock is, and what of leap seconds it has to do.
    ///
    /// # Errors
    ///
    /// As of [`Self::set_rate`].
    pub fn set_status(&mut self, status: &Status) -> Result<(), ClockError> {
        if !self.corrects {
            return Ok(());
        }
        let mut bits = match status.leap {
            Leap::Insert => libc::STA_INS,
            Leap::Delete => libc::STA_DEL,
            Leap::Normal | Leap::Unsynchronised => 0,
        };
        if !(status.synchronised && self.is_trusted) {
            bits |= libc::STA_UNSYNC;
        }
        let mut adjustment = sys::clock::no_adjustment();
        adjustment.modes = libc::ADJ_STATUS | libc::ADJ_MAXERROR | libc::ADJ_ESTERROR;
        adjustment.status = bits;
        adjustment.maxerror = microseconds(status.max_error);
        adjustment.esterror = microseconds(status.estimated_error);
        adjust(&mut adjustment)?;
        self.status = bits;
        self.told = Some(*status);
        if let Some(offset) = status.tai_offset
            && adjustment.tai != offset
        {
            let mut adjustment = sys::clock::no_adjustment();
            adjustment.modes = libc::ADJ_TAI;
            adjustment.constant = offset.into();
            adjust(&mut adjustment)?;
        }
        Ok(())
    }

    /// Whether the clock is as it was left.
    ///
    /// # Errors
    ///
    /// It is not, or the kernel refuses.
    pub fn look(&self) -> Result<(), ClockError> {
        let (true, Some(set)) = (self.corrects, self.set) else {
            return Ok(());
        };
        let now = current()?;
        let found = rate_of(&now);
        let foreign = now.status & FOREIGN_STATUS;
        if found == set && foreign == 0 {
            return Ok(());
        }
        Err(ClockError::Interference {
            what: format!(
                "it gains {:.3} ppm and not {:.3}, with status {foreign:#x}",
                found.parts_per_billion() / 1000.0,
                set.parts_per_billion() / 1000.0,
            ),
        })
    }
}

fn rate_of(state: &libc::timex) -> Rate {
    Rate {
        tick: state.tick,
        frequency: state.freq,
    }
}

fn current() -> Result<libc::timex, ClockError> {
    let mut state = sys::clock::no_adjustment();
    adjust(&mut state)?;
    Ok(state)
}

fn adjust(adjustment: &mut libc::timex) -> Result<(), ClockError> {
    sys::clock::adjust(adjustment)
        .map(drop)
        .map_err(ClockError::Refused)
}

/// In microseconds, rounded up, as a bound has to be.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the cast saturates, which is what is wanted"
)]
fn microseconds(seconds: f64) -> i64 {
    (seconds * 1e6).ceil() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_clocks_go_on() {
        let one = read();
        let other = read();
        assert!(other.raw > one.raw && other.wall > one.wall);
        let apart = (other.wall - one.wall) - (other.raw - one.raw);
        assert!(apart.0.abs() < 10_000_000, "{apart:?}");
    }

    #[test]
    fn precision_is_what_a_reading_takes() {
        let precision = measure_precision();
        assert!((1e-9..1e-3).contains(&precision), "{precision}");
    }

    #[test]
    fn rates_are_frequency_up_to_a_limit_and_ticks_beyond() {
        for (wanted, tick, frequency) in [
            (0.0, 10_000, 0),
            (1000.0, 10_000, 65_536),
            (-450_000.0, 10_000, -29_491_200),
            // 83,333.333 ppm, the fastest that chrony slews by default.
            (83_333_333.0, 10_833, 2_184_511),
            (-100_000_000.0, 9000, 0),
            (100_000_000.0, 11_000, 0),
        ] {
            let rate = Rate::nearest(wanted);
            assert_eq!((rate.tick, rate.frequency), (tick, frequency), "{wanted}");
            let error = rate.parts_per_billion() - wanted;
            assert!(error.abs() < 0.01, "{wanted}: off by {error}");
        }
    }

    #[test]
    fn what_no_kernel_takes_is_cut() {
        for wanted in [1e9, 1e12] {
            assert_eq!(Rate::nearest(wanted).tick, 11_000);
            assert_eq!(Rate::nearest(-wanted).tick, 9000);
            assert!(Rate::nearest(wanted).frequency <= 500 * 65_536);
            assert!(Rate::nearest(-wanted).frequency >= -500 * 65_536);
        }
    }

    #[test]
    fn a_clock_that_is_not_corrected_stays_as_it_is() {
        let before = current().unwrap();
        let mut clock = Clock::new(false, true);
        let rate = clock.rate().unwrap();
        assert!((clock.set_rate(123_456.0).unwrap() - rate).abs() < 1000.0);
        clock.step(Span(SECOND)).unwrap();
        clock
            .set_status(&Status {
                leap: Leap::Insert,
                ..Status::default()
            })
            .unwrap();
        clock.look().unwrap();
        let after = current().unwrap();
        assert_eq!(before.status & libc::STA_INS, after.status & libc::STA_INS);
        assert_eq!(rate_of(&before), rate_of(&after));
    }
}
