//! Reference clocks: time that comes over no network (chrony's `refclock`).
//!
//! ```text
//!  driver ──Observation──► ReferenceClock ──filter──► ClockSample, once in 2^poll s ──► engine
//!  once in 2^dpoll s, or whenever its descriptor has something
//! ```
//!
//! [`ReferenceClock`] is the pure part: it checks observations, puts them on the raw clock, applies the options, and makes one
//! sample from them by a median filter. It never reads a clock nor a driver; the crate `clock-drivers` does.

mod filter;
pub mod phc;
pub mod pps;
pub mod shm;
pub mod sock;

use time_model::sample::ClockSample;
use time_model::settings::RefclockSettings;
use time_model::time::{RawTime, Reading, SECOND, Span, UnixTime};
use time_model::view::Leap;

use filter::{Filter, Point};

/// A reading of a driver.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observation {
    /// When, on the raw clock.
    pub at: RawTime,
    /// The time of the clock.
    pub what: Observed,
    /// Bound on the error of this reading, in seconds.
    pub dispersion: f64,
    /// Leap second at hand.
    pub leap: Leap,
}

/// The reading of a clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Observed {
    /// The time of day. TAI where the options or [`Scale`] say so.
    Time {
        /// The kind of reading.
        time: UnixTime,
        /// In which scale, as far as the clock itself says.
        scale: Scale,
    },
    /// The same but for whole seconds, or what the pulses are apart: a pulse came when this clock showed `time`.
    Pulse {
        /// Any time that fits.
        time: UnixTime,
    },
}

/// How the seconds of a clock are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// As the options say: UTC, or TAI with `tai`.
    #[default]
    Configured,
    /// TAI, and TAI − UTC if it says that, too.
    Tai(Option<i32>),
}

/// The node's state when a clock is read.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Context {
    /// By how much the wall clock gains on the raw clock, in parts per billion.
    pub rate: f64,
    /// TAI − UTC, in seconds.
    pub tai_offset: Option<i32>,
    /// Time by all other sources, if the clock is synchronised: wall time − raw time in nanoseconds, and a bound on its error
    /// in seconds. It counts the seconds of pulses.
    pub estimate: Option<(i64, f64)>,
    /// When the last leap second was over: readings of before do not fit those of after.
    pub leap_passed: Option<RawTime>,
}

/// Why something told is of no use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// It was read too long ago, or is from the future.
    Stale,
    /// The clock says that it is not synchronised.
    Unsynchronised,
    /// The clock keeps TAI, and TAI − UTC is unknown.
    UnknownTai,
    /// The second that the pulse begins is unknown.
    UnknownSecond,
    /// The pulse is too far from where a second begins.
    OutOfPhase,
}

/// A reference clock, without its driver.
#[derive(Debug)]
pub struct ReferenceClock {
    settings: RefclockSettings,
    filter: Filter,
    next_read: RawTime,
    reads: u32,
    leap: Leap,
    /// The last that it told, for the pulses of another.
    last: Option<Point>,
    n_told: u64,
    n_unusable: u64,
}

/// Due actions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Due {
    /// The driver is to be read, before [`ReferenceClock::make`].
    pub read: bool,
    /// Samples are to be made to one.
    pub make: bool,
}

/// The longest interval between reads, as a power of two in seconds: chrony's bound on `poll`.
const LONGEST: i8 = 24;

impl ReferenceClock {
    /// A clock of which nothing is known yet; it is read at once.
    #[must_use]
    pub fn new(settings: RefclockSettings, now: Reading) -> Self {
        Self {
            filter: Filter::new(settings.options.filter, settings.options.max_dispersion),
            settings,
            next_read: now.raw,
            reads: 0,
            leap: Leap::Normal,
            last: None,
            n_told: 0,
            n_unusable: 0,
        }
    }

    /// The settings that it was made from.
    #[must_use]
    pub const fn settings(&self) -> &RefclockSettings {
        &self.settings
    }

    /// When something is due.
    #[must_use]
    pub const fn poll_timeout(&self) -> RawTime {
        self.next_read
    }

    /// The due actions; counts them as done.
    pub fn handle_timeout(&mut self, now: Reading) -> Due {
        if now.raw < self.next_read {
            return Due::default();
        }
        let options = &self.settings.options;
        let step = interval(options.driver_poll);
        self.next_read = self.next_read + step;
        // After a pause nothing is made up for.
        if self.next_read <= now.raw {
            self.next_read = now.raw + step;
        }
        self.reads += 1;
        let shift = options
            .poll
            .saturating_sub(options.driver_poll)
            .clamp(0, 31);
        let make = self.reads >= 1 << shift;
        if make {
            self.reads = 0;
        }
        Due { read: true, make }
    }

    /// Takes up what the driver read. `seconds` is the last of the clock that `lock` names ([`Self::last`]).
    ///
    /// # Errors
    ///
    /// The reason that a reading is of no use.
    pub fn tell(
        &mut self,
        told: &Observation,
        seconds: Option<(RawTime, i64)>,
        context: &Context,
        now: Reading,
    ) -> Result<(), Unusable> {
        self.n_told += 1;
        let taken = self.take(told, seconds, context, now);
        match taken {
            Ok(point) => {
                self.leap = told.leap;
                self.last = Some(point);
                if let Some(passed) = context.leap_passed {
                    self.filter.forget_before(passed);
                }
                self.filter.put(point);
                Ok(())
            }
            Err(unusable) => {
                self.n_unusable += 1;
                Err(unusable)
            }
        }
    }

    fn take(
        &self,
        told: &Observation,
        seconds: Option<(RawTime, i64)>,
        context: &Context,
        now: Reading,
    ) -> Result<Point, Unusable> {
        if told.leap == Leap::Unsynchronised {
            return Err(Unusable::Unsynchronised);
        }
        let age = now.raw - told.at;
        let options = &self.settings.options;
        if age < Span::ZERO || age > interval(options.poll.saturating_add(1)) {
            return Err(Unusable::Stale);
        }
        let at = told.at;
        let (ahead, counted) = match told.what {
            Observed::Time { time, scale } => {
                let ahead = i128::from(time.0) - i128::from(at.0);
                let ahead = ahead - i128::from(self.utc(scale, context)?) * i128::from(SECOND);
                (ahead, !options.pulses)
            }
            // The number of the second is not given.
            Observed::Pulse { time } => (i128::from(time.0) - i128::from(at.0), false),
        };
        let ahead = ahead + i128::from(Span::from_seconds(options.offset).0);
        let ahead = if counted {
            ahead
        } else {
            self.count(at, ahead, seconds, context)?
        };
        Ok(Point {
            at,
            ahead: i64::try_from(ahead).map_err(|_| Unusable::Stale)?,
            dispersion: told.dispersion.max(self.settings.precision()),
        })
    }

    /// The scale of the clock − UTC, in seconds.
    fn utc(&self, scale: Scale, context: &Context) -> Result<i32, Unusable> {
        match scale {
            Scale::Configured if !self.settings.options.tai => Ok(0),
            Scale::Tai(Some(offset)) => Ok(offset),
            Scale::Configured | Scale::Tai(None) => context.tai_offset.ok_or(Unusable::UnknownTai),
        }
    }

    /// The number of the pulse: the fitting value of `ahead` that is next to other sources' time.
    fn count(
        &self,
        at: RawTime,
        ahead: i128,
        seconds: Option<(RawTime, i64)>,
        context: &Context,
    ) -> Result<i128, Unusable> {
        let options = &self.settings.options;
        let period = (i128::from(SECOND) / i128::from(options.rate.max(1))).max(1);
        let (nearby, error, tolerance) = if options.lock.is_some() {
            let (when, ahead) = seconds.ok_or(Unusable::UnknownSecond)?;
            let age = i128::from((at - when).0).abs();
            if age > period * i128::from(options.max_lock_age) {
                return Err(Unusable::UnknownSecond);
            }
            (ahead, 0, period / 5)
        } else {
            let (ahead, error) = context.estimate.ok_or(Unusable::UnknownSecond)?;
            let error = i128::from(Span::from_seconds(error).0);
            (ahead, error, (period / 2 - error).max(0))
        };
        let tolerance = match self.edge(period) {
            // It may be either edge.
            Some(edge) if error > edge => return Err(Unusable::UnknownSecond),
            Some(edge) => tolerance.min(edge),
            None => tolerance,
        };
        let away = (i128::from(nearby) - ahead).rem_euclid(period);
        // How far the nearest that fits is from there.
        let away = if away > period / 2 {
            away - period
        } else {
            away
        };
        if away.abs() >= tolerance {
            return Err(Unusable::OutOfPhase);
        }
        Ok(i128::from(nearby) - away)
    }

    /// For pulses with a `width`, whose other edge may come, too: the largest distance of a pulse from the expected one.
    fn edge(&self, period: i128) -> Option<i128> {
        let width = i128::from(Span::from_seconds(self.settings.options.width).0);
        (width > 0).then(|| width.min(period - width).max(0) / 2)
    }

    /// Makes one sample from the readings since the last time, if there are enough.
    pub fn make(&mut self) -> Option<ClockSample> {
        let point = self.filter.make()?;
        let options = &self.settings.options;
        Some(ClockSample {
            at: point.at,
            ahead: point.ahead,
            dispersion: point.dispersion,
            delay: options.delay,
            precision: self.settings.precision(),
            stratum: options.stratum,
            leap: self.leap,
            reference_id: self.settings.reference_id,
        })
    }

    /// The last that it told: when on the raw clock, and wall time − raw time.
    #[must_use]
    pub fn last(&self) -> Option<(RawTime, i64)> {
        self.last.map(|point| (point.at, point.ahead))
    }

    /// How often it told anything, and how often that was of no use.
    #[must_use]
    pub const fn counts(&self) -> (u64, u64) {
        (self.n_told, self.n_unusable)
    }
}

/// 2^`log` seconds.
pub(crate) fn interval(log: i8) -> Span {
    let log = log.clamp(-LONGEST, LONGEST);
    if log < 0 {
        Span(SECOND >> -log)
    } else {
        Span(SECOND << log)
    }
}

#[cfg(test)]
mod tests;
