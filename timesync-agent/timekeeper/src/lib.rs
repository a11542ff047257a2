//! Everything about what time it is: samples in, corrections of the clock out.
//!
//! ```text
//! sample ──► filter of its source ──► select ──► combine ──► discipline ──► rate, step
//!            (raw clock)              (who is right)         (wall clock)
//! ```
//!
//! No packets, no names, no sockets, no clock: `now` is an argument. Offsets are positive if the wall clock is slow, that is,
//! true time less wall time. Filters live on the raw clock, which nobody corrects.

mod commands;
mod delays;
mod discipline;
mod fallback;
mod filter;
mod leap;
mod local;
mod report;
mod saved_state;
mod select;
mod smoothing;
pub mod tempcomp;
mod temperature;
mod terms;
#[cfg(test)]
mod tests;
mod update;

use std::collections::VecDeque;

use self::delays::Delays;
use self::discipline::Discipline;
use self::fallback::Fallback;
use self::filter::{Filter, Taken};
use self::leap::LeapSeconds;
pub use self::saved_state::SavedState;
use self::select::Failure;
pub use self::smoothing::SMOOTHED_REFERENCE_ID;
use self::smoothing::Smoothing;
pub use self::terms::{
    Drift, Effect, LeapSecond, Note, Reference, Sample, SourceId, Status, Verdict, Weighing,
};
use time_model::settings::{ClockSettings, Local, SelectionSettings, Settings};
use time_model::time::{RawTime, Reading, Span, UnixTime};
use time_model::view::{SelectionView, SourceState};

/// Reference ID of the own clock, 127.127.1.1.
pub const LOCAL_REFERENCE_ID: u32 = 0x7F7F_0101;
/// Effects that wait to be done. More than this only if nobody takes them.
const MAX_EFFECTS: usize = 1024;
/// Of several sources, the first one that answers is not followed before half of them did, or this has passed: one that is
/// wrong must not be followed for being quick.
const PATIENCE: Span = Span(2 * time_model::time::SECOND);
/// A frequency is not taken over from one source to another as if it were known better than this.
const LEAST_SKEW: f64 = 1e-7;
/// The polling interval is so long that the uncertainty it adds is this part of the noise of one sample.
const POLL_GROWTH: f64 = 0.65;
/// And no more than this, in seconds: a clock that is to be within a millisecond has to be asked again before it is not.
const POLL_BOUND: f64 = 300e-6;
/// The first burst goes on while the uncertainty at the first poll after it would be above this, in seconds.
const BURST_GROWTH: f64 = 50e-6;
/// So many samples are of the first burst.
const FIRST_BURST: usize = 8;
/// With so many samples there are no more bursts: what is uncertain then is so for other reasons.
const LAST_BURST: usize = 24;

/// A source and what is known of it.
#[derive(Clone, Debug)]
struct Source {
    id: SourceId,
    reference_id: u32,
    options: Weighing,
    filter: Filter,
    delays: Delays,
    last: Option<Sample>,
    reach: u8,
    state: SourceState,
    selection: SelectionView,
    score: f64,
    poll: i8,
    /// True time less wall time by the last sample alone.
    measured: f64,
    /// It said since that it has no time, or has it from here.
    withdrawn: bool,
}

/// What all sources together say.
#[derive(Clone, Copy, Debug)]
struct Knowledge {
    at: RawTime,
    /// True time less raw time at `at`, in nanoseconds, and what is less than a nanosecond in seconds.
    ahead: i64,
    frequency: f64,
    /// Of the offset.
    deviation: f64,
}

impl Knowledge {
    /// True time less wall time, in seconds.
    fn offset(&self, now: Reading) -> f64 {
        let gained = self.frequency * (now.raw - self.at).seconds();
        let ahead = self
            .ahead
            .saturating_sub(now.wall.0.saturating_sub(now.raw.0));
        Span(ahead).seconds() + gained
    }
}

impl Knowledge {
    /// From a moment on it gains otherwise.
    fn turn(&mut self, frequency: f64, at: RawTime) {
        let gained = self.frequency * (at - self.at).seconds();
        self.ahead = self.ahead.saturating_add(Span::from_seconds(gained).0);
        self.at = at;
        self.frequency = frequency;
    }
}

/// What the leading source says of the way to the primary source.
#[derive(Clone, Copy, Debug)]
struct Root {
    /// None if another process heard it.
    source: Option<SourceId>,
    reference_id: u32,
    stratum: u8,
    at: Reading,
    delay: f64,
    dispersion: f64,
    /// It is another orphan, and nothing stands behind its time.
    orphan: bool,
}

/// What time it is.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is true or false whatever the others are"
)]
pub struct Timekeeper {
    selection: SelectionSettings,
    clock: ClockSettings,
    local: Option<Local>,
    max_samples: Option<u32>,
    sources: Vec<Source>,
    discipline: Discipline,
    fallback: Fallback,
    smoothing: Option<Smoothing>,
    /// What the temperature adds to the frequency, gained in a second.
    tempered: f64,
    leap: LeapSeconds,
    knowledge: Option<Knowledge>,
    root: Option<Root>,
    /// Whether a source is followed right now.
    following: bool,
    failure: Option<Failure>,
    first_sample: Option<RawTime>,
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
            selection: settings.selection.clone(),
            clock: settings.clock.clone(),
            local: settings.local,
            max_samples: settings.client.max_samples,
            sources: Vec::new(),
            discipline: Discipline::new(&settings.clock, frequency),
            fallback: Fallback::new(settings.clock.fallback_drift),
            smoothing: Smoothing::new(settings.clock.smoothtime),
            tempered: 0.0,
            leap: LeapSeconds::new(settings.leap.mode),
            knowledge: None,
            root: None,
            following: false,
            failure: None,
            first_sample: None,
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

    /// Other rules from now on. What is known of sources stays.
    pub fn configure(&mut self, settings: &Settings, now: Reading) {
        self.selection = settings.selection.clone();
        if self.clock.fallback_drift != settings.clock.fallback_drift {
            self.fallback = Fallback::new(settings.clock.fallback_drift);
        }
        self.clock = settings.clock.clone();
        self.configure_smoothing();
        self.local = settings.local;
        self.max_samples = settings.client.max_samples;
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

    /// A source is known from now on. Its reference ID is derived from its address, or of a reference clock its own.
    pub fn add_source(&mut self, id: SourceId, reference_id: u32, options: Weighing) {
        let mut filter = Filter::new(self.known_frequency(), options.min_delay);
        filter.restrict(options.asymmetry, options.max_samples.or(self.max_samples));
        filter.temper(self.tempered, self.started);
        self.sources.push(Source {
            id,
            reference_id,
            filter,
            delays: Delays::default(),
            last: None,
            reach: 0,
            state: SourceState::Unselectable,
            selection: SelectionView {
                configured: options.select,
                effective: options.select,
                ..SelectionView::default()
            },
            score: 1.0,
            poll: options.minpoll,
            measured: 0.0,
            withdrawn: false,
            options,
        });
    }

    /// A source is gone.
    pub fn remove_source(&mut self, id: SourceId, now: Reading) {
        self.sources.retain(|source| source.id != id);
        self.reselect(None, now);
    }

    /// Other options of a source, such as chronyc's commands give.
    pub fn change_source(&mut self, id: SourceId, options: Weighing, now: Reading) {
        if let Some(source) = self.source_mut(id) {
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
        let Some(source) = self.source_mut(id) else {
            return Verdict::Unknown;
        };
        let verdict = source.admit(&sample, error_rate, now);
        if !matches!(verdict, Verdict::Good) {
            return verdict;
        }
        if source.withdrawn {
            source.filter.restart(known);
        }
        let offset = Span::from_seconds(source.options.offset);
        let ahead = sample.ahead.saturating_add(offset.0);
        source.last = Some(sample);
        source.withdrawn = false;
        source.reach |= 1;
        let wall_ahead = now.wall.0.saturating_sub(now.raw.0);
        source.measured = Span(ahead.saturating_sub(wall_ahead)).seconds();
        let taken = source
            .filter
            .sample(sample.at, ahead, sample.delay, sample.dispersion);
        self.first_sample.get_or_insert(now.raw);
        if taken == Taken::Reset {
            self.note(Note::SourceReset(id));
        }
        self.update_poll(id);
        self.reselect(Some(id), now);
        if taken == Taken::Contradicts {
            Verdict::Contradiction
        } else {
            Verdict::Good
        }
    }

    /// The reach register after a poll. A source that did not answer eight times is not selected.
    pub fn reached(&mut self, id: SourceId, reach: u8, now: Reading) {
        let Some(source) = self.source_mut(id) else {
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
        let Some(source) = self.source_mut(id) else {
            return;
        };
        if !std::mem::replace(&mut source.withdrawn, true) {
            self.reselect(None, now);
        }
    }

    /// The polling interval that is of use, within the source's bounds.
    #[must_use]
    pub fn advise_poll(&self, id: SourceId) -> i8 {
        self.sources
            .iter()
            .find(|source| source.id == id)
            .map_or(0, |source| source.poll)
    }

    /// What is to be done; ask until there is nothing.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// What the kernel really took of the rate that was asked for, in parts per billion.
    pub fn applied(&mut self, parts_per_billion: f64, _now: Reading) {
        self.discipline.applied = parts_per_billion;
    }

    /// When [`Timekeeper::handle_timeout`] has something to do.
    #[must_use]
    pub fn poll_timeout(&self, now: Reading) -> Option<RawTime> {
        let leap = self.leap.until(now.wall).map(|span| {
            // Slewing changes when it is; it is looked at again in time.
            now.raw
                + Span(
                    (span.0 / 2)
                        .max(span.0.min(time_model::time::SECOND))
                        .max(0),
                )
        });
        let patience = match self.first_sample {
            Some(first) if self.discipline.n_updates == 0 => Some(first + PATIENCE),
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
        if self.discipline.n_updates == 0 && self.first_sample.is_some() {
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

    /// What was learned of the frequency of the crystal, and how well.
    fn known_frequency(&self) -> Option<(f64, f64)> {
        let skew = self.discipline.skew.max(LEAST_SKEW);
        let known = self.discipline.frequency_known;
        known.then_some((self.crystal_frequency(), skew))
    }

    fn source_mut(&mut self, id: SourceId) -> Option<&mut Source> {
        self.sources.iter_mut().find(|source| source.id == id)
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
