//! Makes the served time change slowly, however the clock is corrected: `smoothtime`.
//!
//! ```text
//!   rate │    ┌──────┐        served time gains on or falls behind this clock by no more than a frequency, which changes by no
//!        │   ╱        ╲       more than a wander: in the least time that these allow
//!        │  ╱          ╲
//!      0 ┼─╱────────────╲──►
//!         first  second third
//! ```
//!
//! A correction moves this clock, and what is served stays where it was; the difference goes away by itself. With `leaponly` leap
//! seconds are smeared, and all else is served as it is known.

use super::Timekeeper;
use super::knowledge::Knowledge;
use super::terms::Reference;
use time_model::settings::{LeapMode, SmoothTime};
use time_model::time::{RawTime, Reading, Span};
use time_model::view::{Leap, SmoothingView};

/// The reference ID of smoothed time, 127.127.1.255, as in chronyd: a client that compares servers sees that this is not the
/// time of the source.
pub const SMOOTHED_REFERENCE_ID: u32 = 0x7F7F_01FF;
/// Until the uncertainty of the frequency falls below this many seconds of wander, corrections are those of a start and are
/// served at once; chronyd's.
const SETTLED: f64 = 10_000.0;
/// Below this, in seconds, it is served as it is known.
const NOTHING: f64 = 1e-7;

/// Served time less the time of this clock.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct ServedOffset {
    /// In seconds.
    pub(super) offset: f64,
    /// By how much that becomes less in a second.
    pub(super) rate: f64,
}

impl ServedOffset {
    /// The length of the wander, in seconds.
    fn after(self, seconds: f64, wander: f64) -> Self {
        Self {
            offset: self.offset - seconds * (self.rate + wander * seconds / 2.0),
            rate: self.rate + wander * seconds,
        }
    }
}

/// A time of one wander.
#[derive(Clone, Copy, Debug, Default)]
struct Stage {
    seconds: f64,
    wander: f64,
}

/// The remaining smoothing.
#[derive(Clone, Debug)]
pub(super) struct Smoothing {
    settings: SmoothTime,
    /// In seconds per second, and that per second.
    max_rate: f64,
    max_wander: f64,
    is_active: bool,
    since: RawTime,
    start: ServedOffset,
    stages: [Stage; 3],
}

impl Smoothing {
    /// None without limits: a wander of nothing would never end.
    pub(super) fn new(settings: Option<SmoothTime>) -> Option<Self> {
        let settings = settings?;
        let (max_rate, max_wander) = (settings.max_frequency * 1e-6, settings.max_wander * 1e-6);
        (max_rate > 0.0 && max_wander > 0.0).then_some(Self {
            settings,
            max_rate,
            max_wander,
            is_active: false,
            since: RawTime(0),
            start: ServedOffset::default(),
            stages: Default::default(),
        })
    }

    /// Whether it is by these settings.
    fn is_by(&self, settings: Option<SmoothTime>) -> bool {
        Some(self.settings) == settings
    }

    /// From here on corrections are smoothed, if the frequency is known as well as this.
    pub(super) fn settle(&mut self, skew: f64) {
        self.is_active |= skew < SETTLED * self.max_wander;
    }

    /// This clock was corrected: it shows so much more, and gains so much more in a second.
    pub(super) fn moved(&mut self, offset: f64, frequency: f64, now: RawTime) {
        if !self.is_active {
            return;
        }
        let moment = self.at(now);
        self.start = ServedOffset {
            offset: moment.offset - offset,
            rate: moment.rate + frequency,
        };
        self.since = now;
        self.plan();
    }

    /// Continues from the state of another process.
    pub(super) fn resume(&mut self, moment: ServedOffset, since: RawTime) {
        self.is_active = true;
        (self.start, self.since) = (moment, since);
        self.plan();
    }

    /// Serves the remaining correction at once.
    fn reset(&mut self, now: RawTime) {
        (self.start, self.since) = (ServedOffset::default(), now);
        self.plan();
    }

    /// From here on corrections are smoothed.
    fn activate(&mut self, now: RawTime) {
        if !std::mem::replace(&mut self.is_active, true) {
            self.reset(now);
        }
    }

    /// For reports.
    fn view(&self, now: RawTime) -> SmoothingView {
        let moment = self.at(now);
        let since = (now - self.since).seconds().max(0.0);
        let mut end = 0.0;
        let stage = self.stages.iter().find(|stage| {
            end += stage.seconds;
            since < end
        });
        SmoothingView {
            active: self.is_active,
            leap_only: self.settings.leap_only,
            offset: moment.offset,
            frequency: moment.rate * 1e6,
            wander: stage.map_or(0.0, |stage| stage.wander * 1e6),
            since,
            left: self.left(now),
        }
    }

    /// The remaining correction, if any was smoothed yet.
    pub(super) fn moment(&self, now: RawTime) -> Option<ServedOffset> {
        self.is_active.then(|| self.at(now))
    }

    pub(super) fn at(&self, now: RawTime) -> ServedOffset {
        let mut left = (now - self.since).seconds().max(0.0);
        let mut moment = self.start;
        for stage in self.stages {
            let seconds = stage.seconds.min(left);
            moment = moment.after(seconds, stage.wander);
            left -= seconds;
        }
        match left > 0.0 {
            true => ServedOffset::default(),
            false => moment,
        }
    }

    /// The way to nothing: to a peak of the rate, along it if that is the highest allowed, and down.
    fn plan(&mut self) {
        let (limit, wander) = (self.max_rate, self.max_wander);
        // The correction that is served by the time the rate is zero, if it falls from now on.
        let stopping = self.start.rate * self.start.rate.abs() / (2.0 * wander);
        let towards = if self.start.offset >= stopping {
            1.0
        } else {
            -1.0
        };
        let (offset, rate) = (towards * self.start.offset, towards * self.start.rate);
        let peak = (wander * offset + rate * rate / 2.0).max(0.0).sqrt();
        let top = peak.max(rate.max(0.0)).min(limit);
        // To the top, upwards or down to the limit, and from there to nothing.
        let to_top = (top * top - rate * rate) / (2.0 * wander);
        let gone = to_top * if rate > top { -1.0 } else { 1.0 } + top * top / (2.0 * wander);
        let level = match top > 0.0 {
            true => ((offset - gone) / top).max(0.0),
            false => 0.0,
        };
        let stage = |seconds: f64, wander: f64| Stage { seconds, wander };
        self.stages = [
            stage(
                (top - rate).abs() / wander,
                (towards * wander).copysign(towards * (top - rate)),
            ),
            stage(level, 0.0),
            stage(top / wander, -towards * wander),
        ];
    }

    /// When what is on its way will have gone, in seconds from `now`.
    pub(super) fn left(&self, now: RawTime) -> f64 {
        let whole: f64 = self.stages.iter().map(|stage| stage.seconds).sum();
        (whole - (now - self.since).seconds()).max(0.0)
    }
}

impl Timekeeper {
    /// The settings may be other ones.
    pub(super) fn configure_smoothing(&mut self) {
        let wanted = self.clock.smoothtime;
        if self.smoothing.as_ref().is_none_or(|one| !one.is_by(wanted)) {
            self.smoothing = Smoothing::new(wanted);
        }
    }

    /// How smooth time is, if it is wanted.
    #[must_use]
    pub fn smoothing(&self, now: RawTime) -> Option<SmoothingView> {
        self.smoothing.as_ref().map(|smoothing| smoothing.view(now))
    }

    /// Whether the served time moves towards that of the clock.
    #[must_use]
    pub fn is_smoothing(&self, now: RawTime) -> bool {
        let smoothing = self.smoothing.as_ref();
        smoothing.is_some_and(|smoothing| smoothing.left(now) > 0.0)
    }

    /// Serves the time as it is. False if none is to be smoothed.
    pub fn reset_smoothing(&mut self, now: RawTime) -> bool {
        let smoothing = self.smoothing.as_mut();
        smoothing.map(|smoothing| smoothing.reset(now)).is_some()
    }

    /// Smooths from here on. False if none is to be smoothed.
    pub fn activate_smoothing(&mut self, now: RawTime) -> bool {
        let smoothing = self.smoothing.as_mut();
        smoothing.map(|smoothing| smoothing.activate(now)).is_some()
    }

    /// The estimate of the time has changed, and the clock was not stepped.
    pub(super) fn smooth(&mut self, before: Option<Knowledge>, now: Reading) {
        let skew = self.discipline.skew;
        let Some(smoothing) = &mut self.smoothing else {
            return;
        };
        if let (Some(before), Some(after), false) =
            (before, self.knowledge, smoothing.settings.leap_only)
        {
            let offset = after.offset(now) - before.offset(now);
            smoothing.moved(offset, after.frequency - before.frequency, now.raw);
        }
        smoothing.settle(skew);
    }

    /// A leap second moves this clock by so much.
    pub(super) fn smear(&mut self, span: Span, now: Reading) {
        if let Some(smoothing) = &mut self.smoothing {
            smoothing.moved(span.seconds(), 0.0, now.raw);
        }
    }

    /// Replaces the reference for clients.
    pub(super) fn smoothed(&self, reference: Reference, now: Reading) -> Reference {
        let Some(smoothing) = &self.smoothing else {
            return reference;
        };
        let is_leap = matches!(reference.leap, Leap::Insert | Leap::Delete);
        let reference = Reference {
            // A client of smeared time must not insert the leap second besides.
            leap: match is_leap && self.leap.mode == LeapMode::Slew {
                true => Leap::Normal,
                false => reference.leap,
            },
            ..reference
        };
        let moment = smoothing.at(now.raw);
        if moment.offset.abs() < NOTHING && smoothing.left(now.raw) <= 0.0 {
            return reference;
        }
        Reference {
            offset: reference.offset + moment.offset,
            offset_rate: reference.offset_rate - moment.rate,
            reference_time: reference.reference_time + Span::from_seconds(moment.offset),
            reference_id: match moment.offset.abs() < NOTHING {
                true => reference.reference_id,
                false => SMOOTHED_REFERENCE_ID,
            },
            ..reference
        }
    }
}
