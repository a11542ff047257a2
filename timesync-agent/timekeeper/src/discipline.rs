//! The control of the clock: a frequency, and for a while a slew on top of it; a step where that is allowed.
//!
//! The requested rate is always above −1, and so time never runs backwards but by a step.

use crate::consensus::Settled;
use time_model::settings::{ClockSettings, MakeStep};
use time_model::time::{RawTime, Reading, Span, UnixTime};

/// The length of a correction in intervals between samples, if it is no more than the uncertainty of the estimate.
/// `corrtimeratio` 3, the default, is this.
const CORRECTION_TIME: f64 = 1.0;
/// The shortest slew, in seconds, with the usual `corrtimeratio`.
const SHORTEST_SLEW: f64 = 0.2;
/// The shortest slew with any, in seconds.
const LEAST_SLEW: f64 = 0.01;
/// A correction below this is not worth a slew.
const NOTHING: f64 = 1e-10;
/// An offset that is slewed away within three hours and a half, in seconds.
const SLEWABLE: f64 = 1000.0;
/// Part of the squared offset that the long-term average takes over; chrony's.
const AVERAGE: f64 = 0.1;

/// The estimate at an update of the clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Update {
    /// True time less wall time, in seconds.
    pub(super) offset: f64,
    /// The new part of it: the offset, less the known part that is being corrected.
    pub(super) change: f64,
    /// Its standard deviation.
    pub(super) deviation: f64,
    /// Gain of true time on raw time in a second.
    pub(super) frequency: f64,
    /// Standard deviation of that.
    pub(super) skew: f64,
    /// When the next sample is due, in seconds.
    pub(super) interval: f64,
}

/// The consequence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Correction {
    /// The clock is slewed.
    Slewed,
    /// It is to be stepped.
    Stepped(Span),
    /// The offset is beyond `maxchange`, and nothing is done.
    Ignored(Span),
    /// And no more may be ignored.
    GiveUp(Span),
}

/// The clock, as it is corrected.
#[derive(Clone, Debug)]
pub(super) struct Discipline {
    /// The requested rate without slew, as gain of the wall clock in a second.
    pub(super) frequency: f64,
    /// Standard deviation of that.
    pub(super) skew: f64,
    /// Whether there was a frequency to begin with, or one was learned.
    pub(super) frequency_known: bool,
    /// Slew on top, and when it ends.
    slew: Option<(f64, RawTime)>,
    /// The last requested rate, and the rate that the kernel took.
    asked: Option<f64>,
    pub(super) applied: f64,
    makestep: Option<MakeStep>,
    steps_left: Option<u32>,
    /// The rest of them before the first update that no majority of sources agreed on. The count begins again with the
    /// majority, which undoes what others have done.
    left_before: Option<Option<u32>>,
    /// Steps are for offsets that cannot be slewed.
    gentle: bool,
    ignored: u32,
    pub(super) n_updates: u64,
    pub(super) n_steps: u64,
    /// The offset at the last update, and what of it was news.
    pub(super) update_offset: f64,
    pub(super) last_offset: f64,
    average: f64,
    pub(super) last_update: Option<RawTime>,
    pub(super) update_interval: f64,
}

impl Discipline {
    /// `frequency` is what was learned earlier.
    pub(super) fn new(clock: &ClockSettings, frequency: Option<(f64, f64)>) -> Self {
        let (rate, skew) = frequency.unwrap_or((0.0, 0.0));
        Self {
            frequency: rate,
            skew,
            frequency_known: frequency.is_some(),
            slew: None,
            asked: None,
            applied: 0.0,
            makestep: clock.makestep,
            steps_left: clock.makestep.and_then(|makestep| makestep.limit),
            left_before: None,
            gentle: false,
            ignored: 0,
            n_updates: 0,
            n_steps: 0,
            update_offset: 0.0,
            last_offset: 0.0,
            average: 0.0,
            last_update: None,
            update_interval: 0.0,
        }
    }

    /// When and how steps are allowed, from now on.
    pub(super) fn allow_steps(&mut self, makestep: Option<MakeStep>) {
        if self.makestep != makestep {
            self.makestep = makestep;
            self.steps_left = makestep.and_then(|makestep| makestep.limit);
            self.left_before = None;
        }
    }

    /// The frequency that another process learned.
    pub(super) fn learn(&mut self, frequency: f64, skew: f64) {
        self.frequency = frequency;
        self.skew = skew;
        self.frequency_known = true;
    }

    /// Steps that the configuration still allows; none if it sets no limit.
    pub(super) fn steps_left(&self) -> Option<u32> {
        self.steps_left
    }

    /// No more steps than these, if it sets one.
    pub(super) fn limit_steps(&mut self, steps: Option<u32>) {
        if let (Some(left), Some(steps)) = (&mut self.steps_left, steps) {
            *left = steps.min(*left);
        }
    }

    /// Sets the clock by the time of day.
    pub(super) fn update(
        &mut self,
        clock: &ClockSettings,
        update: Update,
        settled: Settled,
        now: Reading,
    ) -> Correction {
        let offset = update.offset;
        if let Some(refused) = self.refuse(clock, update.change) {
            return refused;
        }
        self.count_majority(settled);
        let may_step = self.count_step(offset);
        if update.skew * 1e6 < clock.max_update_skew {
            let bound = clock.max_drift * 1e-6;
            self.frequency = update.frequency.clamp(-bound, bound);
            self.skew = update.skew;
            self.frequency_known = true;
        }
        self.count(update, now.raw);
        if may_step {
            self.slew = None;
            self.n_steps += 1;
            return Correction::Stepped(Span::from_seconds(offset));
        }
        self.begin_slew(clock, update, now.raw);
        Correction::Slewed
    }

    /// Sets the clock by what an operator says, which takes no consensus of sources: true time less wall time, what of it is
    /// new, both in seconds, and the frequency with its skew, where that is known. A clock that is let alone is `free`.
    pub(super) fn set(
        &mut self,
        clock: &ClockSettings,
        (offset, change): (f64, f64),
        frequency: Option<(f64, f64)>,
        is_free: bool,
        at: RawTime,
    ) -> Correction {
        if let Some(refused) = self.refuse(clock, change) {
            return refused;
        }
        if let Some((frequency, skew)) = frequency {
            self.learn(frequency, skew);
        }
        let update = Update {
            offset,
            change,
            deviation: 0.0,
            frequency: self.frequency,
            skew: self.skew,
            interval: SHORTEST_SLEW,
        };
        self.count(update, at);
        if is_free {
            return Correction::Slewed;
        }
        if self.count_step(offset) {
            self.slew = None;
            self.n_steps += 1;
            return Correction::Stepped(Span::from_seconds(offset));
        }
        self.begin_slew(clock, update, at);
        Correction::Slewed
    }

    /// The clock is let alone, and this is what would be done.
    pub(super) fn observe(
        &mut self,
        clock: &ClockSettings,
        update: Update,
        at: RawTime,
    ) -> Correction {
        if let Some(refused) = self.refuse(clock, update.change) {
            return refused;
        }
        self.frequency = update.frequency;
        self.skew = update.skew;
        self.frequency_known = true;
        self.count(update, at);
        Correction::Slewed
    }

    /// `maxchange`: a larger change is ignored, and too many of them end the program.
    fn refuse(&mut self, clock: &ClockSettings, change: f64) -> Option<Correction> {
        let limit = clock.max_change.filter(|limit| {
            self.n_updates >= u64::from(limit.delay) && change.abs() > limit.offset
        })?;
        let span = Span::from_seconds(change);
        self.n_updates += 1;
        if limit.ignore.is_some_and(|ignore| self.ignored >= ignore) {
            return Some(Correction::GiveUp(span));
        }
        self.ignored = self.ignored.saturating_add(1);
        Some(Correction::Ignored(span))
    }

    /// Statistics of updates.
    fn count(&mut self, update: Update, at: RawTime) {
        let change = update.change;
        self.update_offset = update.offset;
        self.last_offset = change;
        self.average = if self.n_updates == 0 {
            change * change
        } else {
            self.average + AVERAGE * (change * change - self.average)
        };
        self.n_updates += 1;
        if let Some(last) = self.last_update {
            self.update_interval = (at - last).seconds();
        }
        self.last_update = Some(at);
    }

    /// Begins to slew an offset away.
    fn begin_slew(&mut self, clock: &ClockSettings, update: Update, at: RawTime) {
        let offset = update.offset;
        if offset.abs() < NOTHING {
            self.slew = None;
            return;
        }
        // Each correction takes as many times as long as the operator says, an urgent one, too.
        let ratio = clock.correction_time_ratio / 3.0;
        // An offset that is no more than the uncertainty is slewed away at leisure, which keeps the frequency steady; one
        // that is certain, at once.
        let certainty = offset / update.deviation.max(1e-12);
        let usual = CORRECTION_TIME * update.interval / (1.0 + certainty * certainty / 9.0);
        let time = (ratio * usual.max(SHORTEST_SLEW)).max(LEAST_SLEW);
        let bound = clock.max_slew_rate.min(100_000.0) * 1e-6;
        let rate = (offset / time).clamp(-bound, bound);
        let duration = offset / rate;
        self.slew = Some((rate, at + Span::from_seconds(duration)));
    }

    /// Slews this away as fast as is allowed.
    pub(super) fn slew_at_once(&mut self, clock: &ClockSettings, offset: f64, at: RawTime) {
        let update = Update {
            offset,
            change: offset,
            deviation: 0.0,
            frequency: self.frequency,
            skew: self.skew,
            interval: SHORTEST_SLEW,
        };
        self.begin_slew(clock, update, at);
    }

    /// Others have had the time from this clock for long: from here on it is slewed, unless that took hours.
    pub(super) fn forbid_steps(&mut self) {
        self.gentle = true;
    }

    /// The count of steps begins again with the first majority.
    fn count_majority(&mut self, settled: Settled) {
        if self.makestep.is_none() {
            return;
        }
        if !settled.is_majority() {
            self.left_before.get_or_insert(self.steps_left);
        } else if let Some(left) = self.left_before.take() {
            self.steps_left = left;
        }
    }

    /// chrony counts every update of the clock, stepped or not, and none that `maxchange` refuses.
    fn count_step(&mut self, offset: f64) -> bool {
        let Some(makestep) = self.makestep else {
            return false;
        };
        match &mut self.steps_left {
            Some(0) => return false,
            Some(left) => *left -= 1,
            None => {}
        }
        offset.abs() > makestep.threshold && !(self.gentle && offset.abs() < SLEWABLE)
    }

    /// A step that was commanded.
    pub(super) fn stepped(&mut self) {
        self.slew = None;
        self.n_steps += 1;
    }

    /// The slew at a moment, in seconds per second, and what is left of it, in seconds.
    pub(super) fn slew(&self, at: RawTime) -> (f64, f64) {
        match self.slew {
            Some((rate, ends)) if ends > at => (rate, rate * (ends - at).seconds()),
            _ => (0.0, 0.0),
        }
    }

    /// When the slew ends, on the wall clock that it changes, if that shows `wall` at `at`.
    pub(super) fn slew_ends_wall(&self, at: RawTime, wall: UnixTime) -> Option<UnixTime> {
        let (rate, ends) = self.slew?;
        let seconds = (ends - at).seconds().max(0.0) * (1.0 + self.frequency + rate);
        Some(wall + Span::from_seconds(seconds))
    }

    /// When the slew ends.
    pub(super) fn slew_ends(&self) -> Option<RawTime> {
        self.slew.map(|(_, ends)| ends)
    }

    /// Ends the slew if it is over.
    pub(super) fn advance(&mut self, now: RawTime) {
        if self.slew.is_some_and(|(_, ends)| ends <= now) {
            self.slew = None;
        }
    }

    /// The rate that is to be asked for, in parts per billion, if it is another one.
    pub(super) fn rate(&mut self) -> Option<f64> {
        let rate = (self.frequency + self.slew.map_or(0.0, |(rate, _)| rate)) * 1e9;
        // The kernel's resolution is 2⁻¹⁶ ppm.
        if self.asked.is_some_and(|asked| (asked - rate).abs() < 0.005) {
            return None;
        }
        self.asked = Some(rate);
        Some(rate)
    }

    pub(super) fn rms_offset(&self) -> f64 {
        self.average.sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_correction_takes_as_many_times_as_long_as_the_operator_says() {
        let duration = |ratio: f64, offset: f64| {
            let clock = ClockSettings {
                correction_time_ratio: ratio,
                ..ClockSettings::default()
            };
            let mut discipline = Discipline::new(&clock, None);
            let update = Update {
                offset,
                change: offset,
                deviation: 1e-5,
                frequency: 0.0,
                skew: 1e-8,
                interval: 64.0,
            };
            discipline.begin_slew(&clock, update, RawTime(0));
            (discipline.slew_ends().unwrap() - RawTime(0)).seconds()
        };
        // From an offset that may be noise to one that is certain.
        for offset in [1e-6, 1e-5, 1e-4, 1e-3] {
            let usual = duration(3.0, offset);
            assert!((0.2..=64.0).contains(&usual), "{usual}");
            for ratio in [1.0, 6.0, 30.0, 300.0] {
                let taken = duration(ratio, offset);
                let wanted = usual * ratio / 3.0;
                assert!((taken - wanted).abs() < 1e-6, "{ratio} {offset}: {taken}");
            }
        }
    }
}
