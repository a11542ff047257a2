//! The time that an operator enters (chronyc's `manual` and `settime`), and what he changes of the clock besides (`dfreq`,
//! `doffset`).
//!
//! ```text
//! settime ──► entries, on the raw clock ──► a line through their offsets ──► frequency ─┐
//!         └─────────────────── offset of the last one ─────────────────────────────────┴──► discipline
//! ```
//!
//! As in chronyd the line gives the frequency alone, and the offset is that of the time that has just been entered; without one,
//! after `manual delete`, the line gives both. No source stands behind this time: clients learn that the clock is not
//! synchronised, unless `local` says otherwise, and the next sample of a source corrects it.

mod line;

use std::collections::VecDeque;

use self::line::{Line, fit};
use super::Timekeeper;
use super::discipline::Correction;
use super::knowledge::Knowledge;
use super::terms::{Effect, Entered, Note};
use time_model::settings::Settings;
use time_model::time::{RawTime, Reading, SECOND, Span, UnixTime};
use time_model::view::ManualView;

/// Entries that are kept; chronyd's number. A further one replaces the oldest.
const MAX_ENTRIES: usize = 16;
/// The shortest time between two entries, in seconds; chronyd's.
const LEAST_SEPARATION: f64 = 1.0;
/// Times are entered to a second, which is the deviation of each, in seconds.
const PRECISION: f64 = 1.0;
/// The skew of a frequency of which nothing is known; chronyd has it for all frequencies that come from entries.
const WORST_SKEW: f64 = 0.1;
/// Times make sense for this many seconds after 1970, which is as much as NTP timestamps can tell apart.
const LATEST: i64 = 1 << 32;

/// Whether, and what, an operator has entered.
#[derive(Clone, Debug, Default)]
pub(super) struct Manual {
    enabled: bool,
    /// The oldest first.
    entries: VecDeque<Entry>,
}

/// A time that was entered.
#[derive(Clone, Copy, Debug)]
struct Entry {
    at: RawTime,
    /// The entered time less raw time at `at`, in nanoseconds.
    ahead: i64,
    /// By how much the clock was fast, in seconds.
    original: f64,
    /// Its distance from the last line through all entries, in seconds.
    residual: f64,
}

/// Why an entry has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotEntered {
    /// `manual` is off.
    Disabled,
    /// The time makes no sense, or the last entry is less than a second old.
    Refused,
}

impl Manual {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            enabled: settings.clock.manual,
            entries: VecDeque::new(),
        }
    }

    /// The entries stay.
    pub(super) fn configure(&mut self, settings: &Settings) {
        self.enabled = settings.clock.manual;
    }

    fn add(&mut self, entry: Entry) {
        if self.entries.len() >= MAX_ENTRIES {
            self.entries.pop_front();
        }
        self.entries.push_back(entry);
    }

    /// The offset of each entry by what is believed to be true, in seconds, positive if the clock is fast, and the time from
    /// it to the last one, in seconds.
    fn offsets(&self, believed: &Knowledge) -> Vec<(f64, f64)> {
        let last = self.entries.back().map_or(RawTime(0), |entry| entry.at);
        let entries = self.entries.iter();
        entries
            .map(|entry| ((last - entry.at).seconds(), entry.offset(believed)))
            .collect()
    }

    /// A line through the entries, as an offset over the time to the last one, if they are two or more. The residuals follow.
    fn fit(&mut self, believed: &Knowledge, offset: f64) -> Option<Line> {
        let points = self.offsets(believed);
        let found = fit(&points);
        let line = found.unwrap_or(Line { offset, slope: 0.0 });
        for (entry, (ago, offset)) in self.entries.iter_mut().zip(points) {
            entry.residual = offset - line.at(ago);
        }
        found
    }

    /// The bound on the error of a frequency between the first and the last entry.
    fn skew(&self) -> f64 {
        let ends = self.entries.front().zip(self.entries.back());
        let span = ends.map_or(0.0, |(first, last)| (last.at - first.at).seconds());
        (PRECISION / span.max(LEAST_SEPARATION)).min(WORST_SKEW)
    }
}

impl Entry {
    /// By how much the clock was fast, if this is true, in seconds.
    fn offset(&self, believed: &Knowledge) -> f64 {
        let gained = believed.frequency * (self.at - believed.at).seconds();
        Span(believed.ahead.saturating_sub(self.ahead)).seconds() + gained
    }
}

impl Timekeeper {
    /// chronyc's `manual on` and `manual off`.
    pub fn enable_manual(&mut self, enabled: bool) {
        self.manual.enabled = enabled;
    }

    /// chronyc's `manual reset`: all entries are forgotten. The clock stays as it is.
    pub fn reset_manual(&mut self) {
        self.manual.entries.clear();
    }

    /// The entries, the oldest first.
    #[must_use]
    pub fn manual_entries(&self, now: Reading) -> Vec<ManualView> {
        let believed = self.believed(now);
        let entries = self.manual.entries.iter();
        entries
            .map(|entry| {
                let offset = entry.offset(&believed);
                ManualView {
                    at: UnixTime(entry.at.0.saturating_add(entry.ahead))
                        + Span::from_seconds(offset),
                    offset,
                    original_offset: entry.original,
                    residual: entry.residual,
                }
            })
            .collect()
    }

    /// chronyc's `settime`: this is the time.
    ///
    /// # Errors
    /// When it is not taken.
    pub fn enter_time(&mut self, time: UnixTime, now: Reading) -> Result<Entered, NotEntered> {
        if !self.manual.enabled {
            return Err(NotEntered::Disabled);
        }
        let last = self.manual.entries.back();
        let is_early = last.is_some_and(|last| (now.raw - last.at).seconds() < LEAST_SEPARATION);
        if is_early || !is_sane(time, 0.0) {
            return Err(NotEntered::Refused);
        }
        let believed = self.believed(now);
        let mut entry = Entry {
            at: now.raw,
            ahead: time.0.saturating_sub(now.raw.0),
            original: 0.0,
            residual: 0.0,
        };
        entry.original = entry.offset(&believed);
        self.manual.add(entry);
        let line = self.manual.fit(&believed, entry.original);
        self.set_manually(entry.original, line.map(|line| line.slope), now);
        Ok(Entered {
            offset: line.map_or(entry.original, |line| line.offset),
            frequency_change: line.map_or(0.0, |line| -line.slope * 1e6),
            frequency: -self.crystal_frequency() * 1e6,
        })
    }

    /// chronyc's `manual delete`: the clock is set by those that remain. False if there is no such entry.
    pub fn delete_manual(&mut self, index: usize, now: Reading) -> bool {
        if self.manual.entries.remove(index).is_none() {
            return false;
        }
        let believed = self.believed(now);
        let line = self.manual.fit(&believed, 0.0);
        let offset = line.map_or(0.0, |line| line.offset);
        self.set_manually(offset, line.map(|line| line.slope), now);
        true
    }

    /// chronyc's `dfreq`: the clock is faster than was believed, by `ppm` parts per million.
    pub fn change_frequency(&mut self, ppm: f64, now: Reading) {
        let gain = -self.discipline.frequency;
        let bound = self.clock.max_drift * 1e-6;
        let gain = (gain + ppm * 1e-6 * (1.0 - gain)).clamp(-bound, bound);
        self.discipline.frequency = -gain;
        let before = self.knowledge;
        if let Some(knowledge) = &mut self.knowledge {
            knowledge.turn(-gain, now.raw);
        }
        self.smooth(before, now);
        self.set_rate();
    }

    /// chronyc's `doffset`: the clock is ahead of what was believed, by `seconds`, and is slewed. False if it would show a
    /// time that makes no sense.
    pub fn change_offset(&mut self, seconds: f64, now: Reading) -> bool {
        if !is_sane(now.wall, -seconds) {
            return false;
        }
        let before = self.knowledge;
        let mut believed = self.believed(now);
        believed.turn(believed.frequency, now.raw);
        believed.ahead = believed.ahead.saturating_sub(Span::from_seconds(seconds).0);
        self.knowledge = Some(believed);
        if !self.free_running {
            let offset = believed.offset(now);
            self.discipline.slew_at_once(&self.clock, offset, now.raw);
        }
        self.smooth(before, now);
        self.set_rate();
        true
    }

    /// The time that is believed to be true: without any knowledge, the wall clock's.
    fn believed(&self, now: Reading) -> Knowledge {
        self.knowledge.unwrap_or_else(|| Knowledge {
            at: now.raw,
            ahead: now.wall.0.saturating_sub(now.raw.0),
            frequency: self.discipline.frequency,
            deviation: PRECISION,
        })
    }

    /// The clock is ahead by `fast` seconds, and gains `-slope` seconds a second, where that is known.
    fn set_manually(&mut self, fast: f64, slope: Option<f64>, now: Reading) {
        let believed = self.believed(now);
        let frequency = slope.map(|slope| {
            let bound = self.clock.max_drift * 1e-6;
            let frequency = believed.frequency + slope * (1.0 + believed.frequency);
            (frequency.clamp(-bound, bound), self.manual.skew())
        });
        let offset = believed.offset(now) - fast;
        let is_free = self.free_running;
        let correction =
            self.discipline
                .set(&self.clock, (offset, -fast), frequency, is_free, now.raw);
        match correction {
            Correction::Ignored(span) => return self.note(Note::ChangeIgnored(span)),
            Correction::GiveUp(span) => return self.effect(Effect::GiveUp(span)),
            Correction::Slewed => {}
            Correction::Stepped(span) => {
                self.effect(Effect::Step(span));
                self.note(Note::Stepped(span));
            }
        }
        if fast.abs() > self.clock.log_change {
            self.note(Note::Offset(Span::from_seconds(-fast)));
        }
        let before = self.knowledge;
        let wall_ahead = now.wall.0.saturating_sub(now.raw.0);
        self.knowledge = Some(Knowledge {
            at: now.raw,
            ahead: wall_ahead.saturating_add(Span::from_seconds(offset).0),
            frequency: frequency.map_or(believed.frequency, |(frequency, _)| frequency),
            deviation: PRECISION,
        });
        self.smooth(before.filter(|_| correction == Correction::Slewed), now);
        // No source stands behind this time.
        self.root = None;
        self.following = false;
        self.set_rate();
        self.tell_kernel(now);
        self.review_local(now);
    }
}

/// Whether a time makes sense when these seconds are added to it; no number does not.
fn is_sane(time: UnixTime, seconds: f64) -> bool {
    #[expect(
        clippy::cast_precision_loss,
        reason = "seconds, far below the precision of the number"
    )]
    let (time, latest) = ((time.0.div_euclid(SECOND)) as f64, LATEST as f64);
    seconds.abs() < latest && (0.0..=latest).contains(&(time + seconds))
}
