//! The state that one process leaves to the next on the same machine, so that clients have a synchronised server throughout.
//!
//! All times are on the raw clock, which runs while no process looks: the time is as good as it was, less the possible drift of
//! the crystal since, as if a source had not answered for as long.

use serde::{Deserialize, Serialize};

use super::Timekeeper;
use super::knowledge::{Knowledge, Root};
use super::smoothing::ServedOffset;
use super::terms::{Note, Reference};
use time_model::settings::Settings;
use time_model::time::{RawTime, Reading, SECOND, Span, UnixTime};

/// A state older than this is ignored: a service that was away for longer starts again.
const OLDEST: Span = Span(300 * SECOND);
/// So long an heir of an island's follower waits to hear the one that leads, before it takes itself for the leader: four requests of
/// a burst.
const HEARING: Span = Span(8 * SECOND);
/// The two clocks agree within this and what the faster may gain, or one of them was stopped or set: the raw clock does not count
/// while the machine sleeps.
const AGREEMENT: Span = Span(SECOND / 100);
/// By how much one clock gains on the other at most, in seconds per second.
const GAIN: f64 = 1e-3;
/// No time is known to a frequency beyond this.
const MOST_DRIFT: f64 = 0.5;

/// The state. Times are in nanoseconds, on the raw clock, or on the wall clock since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SavedState {
    /// When it was written.
    raw: i64,
    /// The same on the wall clock.
    wall: i64,
    /// When the first of the processes started.
    started: i64,
    /// Frequency and its uncertainty, gained in a second.
    frequency: Option<(f64, f64)>,
    /// Steps that are left of those that the configuration allows at the start.
    steps_left: Option<u32>,
    /// The served time was ahead by this many seconds, and by this many less in each second.
    smoothing: Option<(f64, f64)>,
    /// The system peer.
    lead: Option<Lead>,
    /// Since when the own time is given.
    local: Option<i64>,
}

/// The time of day, and its source.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Lead {
    at: i64,
    ahead: i64,
    frequency: f64,
    deviation: f64,
    reference_id: u32,
    stratum: u8,
    /// When the source was last heard.
    raw: i64,
    wall: i64,
    delay: f64,
    dispersion: f64,
    orphan: bool,
}

impl Lead {
    fn is_sane(&self) -> bool {
        let bounds = [self.deviation, self.delay, self.dispersion];
        bounds
            .iter()
            .all(|bound| bound.is_finite() && *bound >= 0.0)
            && self.frequency.abs() < MOST_DRIFT
            && self.stratum < 16
    }
}

impl SavedState {
    /// Whether it is of use at this moment: not too old, and of clocks that have run on since.
    fn is_fresh(&self, now: Reading) -> bool {
        let age = Span(now.raw.0.saturating_sub(self.raw));
        let passed = Span(now.wall.0.saturating_sub(self.wall));
        let apart = Span(passed.0.saturating_sub(age.0));
        let agreed = AGREEMENT.seconds() + GAIN * age.seconds();
        (0..=OLDEST.0).contains(&age.0) && apart.seconds().abs() <= agreed
    }

    /// The time for clients from it, before there is another.
    #[must_use]
    pub fn reference(&self, settings: &Settings, free_running: bool, now: Reading) -> Reference {
        let mut heir = Timekeeper::new(settings, None, now);
        heir.set_free_running(free_running);
        heir.inherit(self, now);
        heir.reference(now)
    }
}

impl Timekeeper {
    /// The state for a successor; nothing if there is no time to give.
    #[must_use]
    pub fn saved_state(&self, now: Reading) -> Option<SavedState> {
        let lead = self.knowledge.zip(self.root.as_ref());
        let lead = lead.map(|(knowledge, root)| Lead {
            at: knowledge.at.0,
            ahead: knowledge.ahead,
            // The heir reads the temperature itself.
            frequency: knowledge.frequency - self.tempered,
            deviation: knowledge.deviation,
            reference_id: root.reference_id,
            stratum: root.stratum,
            raw: root.at.raw.0,
            wall: root.at.wall.0,
            delay: root.delay,
            dispersion: root.dispersion,
            orphan: root.orphan,
        });
        let discipline = &self.discipline;
        let known = discipline.frequency_known;
        let smoothing = self.smoothing.as_ref();
        let smoothing = smoothing.and_then(|smoothing| smoothing.moment(now.raw));
        (lead.is_some() || self.local_active).then_some(SavedState {
            raw: now.raw.0,
            wall: now.wall.0,
            started: self.started.0,
            frequency: known.then_some((self.crystal_frequency(), discipline.skew)),
            steps_left: discipline.steps_left(),
            smoothing: smoothing.map(|moment| (moment.offset, moment.rate)),
            lead,
            local: self.local_active.then_some(self.local_since.0),
        })
    }

    /// Continues from the state of another process; returns false, without a change, if the state is of no use any more. For a
    /// timekeeper that has just begun. The first source is followed as at any start: several are heard, and a falseticker is
    /// known for it.
    pub fn inherit(&mut self, state: &SavedState, now: Reading) -> bool {
        let is_sane = state.lead.is_none_or(|lead| lead.is_sane())
            && state.frequency.is_none_or(|(frequency, skew)| {
                frequency.abs() < MOST_DRIFT && (0.0..MOST_DRIFT).contains(&skew)
            })
            && state
                .smoothing
                .is_none_or(|(offset, rate)| offset.abs() < 1e9 && rate.abs() < MOST_DRIFT);
        if !is_sane || !state.is_fresh(now) {
            return false;
        }
        self.started = RawTime(state.started.min(now.raw.0));
        self.heard_by = Some(now.raw + HEARING);
        if let Some((frequency, skew)) = state.frequency {
            self.discipline.learn(frequency, skew);
        }
        self.discipline.limit_steps(state.steps_left);
        if let Some(lead) = state.lead {
            self.knowledge = Some(Knowledge {
                at: RawTime(lead.at),
                ahead: lead.ahead,
                frequency: lead.frequency,
                deviation: lead.deviation,
            });
            self.root = Some(Root {
                source: None,
                reference_id: lead.reference_id,
                stratum: lead.stratum,
                at: Reading {
                    raw: RawTime(lead.raw),
                    wall: UnixTime(lead.wall),
                },
                delay: lead.delay,
                dispersion: lead.dispersion,
                orphan: lead.orphan,
            });
            self.allow_local(lead.delay / 2.0 + lead.dispersion);
        }
        if let (Some((offset, rate)), Some(smoothing)) = (state.smoothing, &mut self.smoothing) {
            smoothing.resume(ServedOffset { offset, rate }, RawTime(state.raw));
        }
        // A node that gave its own time continues to do so until it hears a better one.
        if let Some(since) = state.local.filter(|_| self.local.is_some()) {
            self.local_active = true;
            self.local_allowed = true;
            self.local_since = RawTime(since.min(now.raw.0));
        }
        self.set_rate();
        self.review_local(now);
        self.tell_kernel(now);
        self.note(Note::Inherited {
            age: Span(now.raw.0.saturating_sub(state.raw)),
        });
        true
    }
}
