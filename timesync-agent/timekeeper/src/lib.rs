//! Everything about what time it is: samples in, corrections of the clock out.
//!
//! ```text
//! sample ──► filter of its source ──► select ──► combine ──► discipline ──► rate, step
//!            (raw clock)              (who is right)         (wall clock)
//! ```
//!
//! No packets, no names, no sockets, no clock: `now` is an argument. Offsets are positive if the wall clock is slow, that is,
//! true time less wall time. Filters live on the raw clock, which no program corrects.

mod commands;
mod consensus;
mod delays;
mod discipline;
mod fallback;
mod filter;
mod knowledge;
mod leap;
mod local;
mod manual;
mod report;
mod saved_state;
mod select;
mod smoothing;
mod source;
pub mod tempcomp;
mod temperature;
mod terms;
#[cfg(test)]
mod tests;
mod update;

use std::collections::VecDeque;

use self::consensus::{Consensus, FIRST_BURST};
use self::discipline::Discipline;
use self::fallback::Fallback;
use self::filter::Taken;
use self::knowledge::{Knowledge, Root};
use self::leap::LeapSeconds;
use self::manual::Manual;
pub use self::manual::NotEntered;
pub use self::saved_state::SavedState;
use self::select::Failure;
pub use self::smoothing::SMOOTHED_REFERENCE_ID;
use self::smoothing::Smoothing;
pub use self::terms::{
    Drift, Effect, Entered, LeapSecond, Note, Reference, Sample, SourceId, Status, Verdict,
    Weighing,
};
use time_model::settings::{ClockSettings, Local, Settings};
use time_model::time::{RawTime, Reading, Span, UnixTime};

/// Reference ID of the own clock, 127.127.1.1.
pub const LOCAL_REFERENCE_ID: u32 = 0x7F7F_0101;
/// Effects that wait for the caller. More than this only if the caller takes none.
const MAX_EFFECTS: usize = 1024;
/// A frequency is not taken over from one source to another as if it were known better than this.
const LEAST_SKEW: f64 = 1e-7;
/// The time of day.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is true or false whatever the others are"
)]
pub struct Timekeeper {
    clock: ClockSettings,
    local: Option<Local>,
    consensus: Consensus,
    discipline: Discipline,
    manual: Manual,
    fallback: Fallback,
    smoothing: Option<Smoothing>,
    /// The part of the frequency that the temperature causes, as gain in a second.
    tempered: f64,
    leap: LeapSeconds,
    /// When the last leap second was over.
    leap_passed: Option<RawTime>,
    knowledge: Option<Knowledge>,
    root: Option<Root>,
    /// Whether a source is followed right now.
    following: bool,
    failure: Option<Failure>,
    local_active: bool,
    local_since: RawTime,
    /// The root distance was below `activate`.
    local_allowed: bool,
    /// An heir hears by then who leads the island.
    heard_by: Option<RawTime>,
    free_running: bool,
    started: RawTime,
    drift_saved: Option<RawTime>,
    effects: VecDeque<Effect>,
}

impl Timekeeper {
    /// Begins with the frequency that was learned earlier.
    #[must_use]
    pub fn new(settings: &Settings, drift: Option<Drift>, now: Reading) -> Self {
        // A clock that gains has to be slowed down.
        let frequency = drift.map(|drift| (-drift.ppm * 1e-6, drift.skew.max(0.01) * 1e-6));
        let mut timekeeper = Self {
            clock: settings.clock.clone(),
            local: settings.local,
            consensus: Consensus::new(settings),
            discipline: Discipline::new(&settings.clock, frequency),
            manual: Manual::new(settings),
            fallback: Fallback::new(settings.clock.fallback_drift),
            smoothing: Smoothing::new(settings.clock.smoothtime),
            tempered: 0.0,
            leap: LeapSeconds::new(settings.leap.mode),
            leap_passed: None,
            knowledge: None,
            root: None,
            following: false,
            failure: None,
            local_active: false,
            local_since: now.raw,
            local_allowed: false,
            heard_by: None,
            free_running: false,
            started: now.raw,
            drift_saved: None,
            effects: VecDeque::new(),
        };
        timekeeper.set_rate();
        timekeeper.review_local(now);
        timekeeper
    }

    /// Changes the rules. The knowledge of sources stays.
    pub fn configure(&mut self, settings: &Settings, now: Reading) {
        self.consensus.configure(settings);
        if self.clock.fallback_drift != settings.clock.fallback_drift {
            self.fallback = Fallback::new(settings.clock.fallback_drift);
        }
        self.clock = settings.clock.clone();
        self.manual.configure(settings);
        self.configure_smoothing();
        self.local = settings.local;
        self.leap.mode = settings.leap.mode;
        self.discipline.allow_steps(self.clock.makestep);
        self.reselect(None, now);
    }

    /// Whether the clock is let alone: nothing is corrected, and [`Reference`] says how far off the wall clock is.
    pub fn set_free_running(&mut self, free_running: bool) {
        self.free_running = free_running;
    }

    /// Leap seconds that are known, in any order.
    pub fn set_leap_table(&mut self, table: &[LeapSecond], now: Reading) {
        self.leap.set_table(table);
        self.plan_leap(now);
    }

    /// TAI − UTC in seconds, if leap seconds are known, whether or not anything else is.
    #[must_use]
    pub fn tai_offset(&self, wall: UnixTime) -> Option<i32> {
        self.leap.tai_offset(wall)
    }

    /// When the last leap second was over, if one came.
    #[must_use]
    pub fn leap_passed(&self) -> Option<RawTime> {
        self.leap_passed
    }

    /// A source is known from now on. Its reference ID is derived from its address, or of a reference clock its own.
    pub fn add_source(&mut self, id: SourceId, reference_id: u32, options: Weighing) {
        let tempered = (self.tempered, self.started);
        let known = self.known_frequency();
        self.consensus
            .add(id, reference_id, options, known, tempered);
    }

    /// A source is gone.
    pub fn remove_source(&mut self, id: SourceId, now: Reading) {
        self.consensus.remove(id);
        self.reselect(None, now);
    }

    /// Other options of a source, such as chronyc's commands give.
    pub fn change_source(&mut self, id: SourceId, options: Weighing, now: Reading) {
        if let Some(source) = self.consensus.source_mut(id) {
            source.poll = source.poll.clamp(options.minpoll, options.maxpoll);
            source.options = options;
        }
        self.reselect(None, now);
    }

    /// Takes a measurement.
    pub fn sample(&mut self, id: SourceId, sample: Sample, now: Reading) -> Verdict {
        if self.leap.is_close(now.wall) {
            return Verdict::LeapSecond;
        }
        let known = self.known_frequency();
        let error_rate = self.error_rate();
        let Some(source) = self.consensus.source_mut(id) else {
            return Verdict::Unknown;
        };
        let verdict = source.admit(&sample, error_rate, now);
        if !matches!(verdict, Verdict::Good) {
            return verdict;
        }
        let taken = source.take(sample, known, now);
        self.consensus.heard(now.raw);
        if taken == Taken::Reset {
            self.note(Note::SourceReset(id));
        }
        self.reselect(Some(id), now);
        if taken == Taken::Contradicts {
            Verdict::Contradiction
        } else {
            Verdict::Good
        }
    }

    /// The reach register after a poll. A source that did not answer eight times is not selected.
    pub fn reached(&mut self, id: SourceId, reach: u8, now: Reading) {
        let Some(source) = self.consensus.source_mut(id) else {
            return;
        };
        let lost = source.reach != 0 && reach == 0;
        source.reach = reach;
        if lost {
            self.reselect(None, now);
        }
    }

    /// A source answered that it has no time, or that it has it from this node: it is not selected before its next sample.
    pub fn withdraw(&mut self, id: SourceId, now: Reading) {
        let Some(source) = self.consensus.source_mut(id) else {
            return;
        };
        if !std::mem::replace(&mut source.withdrawn, true) {
            self.reselect(None, now);
        }
    }

    /// The polling interval that is of use, within the source's bounds.
    #[must_use]
    pub fn advise_poll(&self, id: SourceId) -> i8 {
        self.consensus.source(id).map_or(0, |source| source.poll)
    }

    /// The next effect; call again until there is none.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// The rate that the kernel took for the requested one, in parts per billion.
    pub fn applied(&mut self, parts_per_billion: f64, _now: Reading) {
        self.discipline.applied = parts_per_billion;
    }

    /// When [`Timekeeper::handle_timeout`] has something to do.
    #[must_use]
    pub fn poll_timeout(&self, now: Reading) -> Option<RawTime> {
        let leap = self.leap.until(now.wall).map(|span| {
            // Slewing changes the wall time of the leap second; the timer is checked again in time.
            now.raw
                + Span(
                    (span.0 / 2)
                        .max(span.0.min(time_model::time::SECOND))
                        .max(0),
                )
        });
        let patience = match self.consensus.first_sample() {
            Some(first) if self.consensus.is_unsettled() => Some(first + FIRST_BURST),
            _ => None,
        };
        let patience = patience.filter(|at| *at > now.raw);
        [
            self.discipline.slew_ends(),
            leap,
            patience,
            self.local_timeout(now),
            self.fallback_timeout(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Reading) {
        self.pass_leap(now);
        self.plan_leap(now);
        self.discipline.advance(now.raw);
        self.fall_back(now);
        self.set_rate();
        if self.consensus.is_unsettled() && self.consensus.first_sample().is_some() {
            self.reselect(None, now);
        }
        self.review_local(now);
    }

    /// chronyc's `refresh` of the drift file: `writertc`'s neighbour, `dump`.
    #[must_use]
    pub fn drift(&self) -> Option<Drift> {
        self.discipline.frequency_known.then(|| Drift {
            ppm: -self.crystal_frequency() * 1e6,
            skew: self.discipline.skew * 1e6,
        })
    }

    /// True time less wall time, in seconds; nothing before the first update.
    #[must_use]
    pub fn offset(&self, now: Reading) -> Option<f64> {
        self.knowledge.map(|knowledge| knowledge.offset(now))
    }

    /// The best estimate of true time.
    #[must_use]
    pub fn time_at(&self, raw: RawTime) -> Option<UnixTime> {
        self.knowledge.map(|knowledge| {
            let gained = knowledge.frequency * (raw - knowledge.at).seconds();
            UnixTime(raw.0.saturating_add(knowledge.ahead)) + Span::from_seconds(gained)
        })
    }

    /// The learned frequency of the crystal, and its uncertainty.
    fn known_frequency(&self) -> Option<(f64, f64)> {
        let skew = self.discipline.skew.max(LEAST_SKEW);
        let known = self.discipline.frequency_known;
        known.then_some((self.crystal_frequency(), skew))
    }

    fn effect(&mut self, effect: Effect) {
        if self.effects.len() < MAX_EFFECTS {
            self.effects.push_back(effect);
        }
    }

    fn note(&mut self, note: Note) {
        self.effect(Effect::Note(note));
    }

    fn set_rate(&mut self) {
        if self.free_running {
            return;
        }
        if let Some(rate) = self.discipline.rate() {
            self.effect(Effect::SetRate(rate));
        }
    }

    fn step(&mut self, span: Span) {
        if self.free_running {
            return;
        }
        self.discipline.stepped();
        self.effect(Effect::Step(span));
        self.note(Note::Stepped(span));
    }
}
