//! From samples to the clock: selection, combining, and what is done about it.

use super::Timekeeper;
use super::consensus::{Agreement, Decision, Settled};
use super::discipline::{Correction, Update};
use super::knowledge::{Knowledge, Root};
use super::select::Failure;
use super::source::Source;
use super::terms::{Effect, Note, SourceId, Status};
use time_model::sample::root_distance;
use time_model::settings::LeapMode;
use time_model::time::{RawTime, Reading, Span};

/// The error of a clock of which nothing is known, in seconds: the most that the kernel keeps of it.
const UNBOUNDED: f64 = 16.0;

impl Timekeeper {
    /// Chooses the system peer again, and corrects the clock if there is a new estimate.
    pub(super) fn reselect(&mut self, updated: Option<SourceId>, now: Reading) {
        let error_rate = self.error_rate();
        let leading = self.leading();
        let decision = self
            .consensus
            .decide(self.local, leading, updated, error_rate, now);
        for id in &decision.falsetickers {
            self.note(Note::Falseticker(*id));
        }
        for id in &decision.impossible {
            self.note(Note::Impossible(*id));
        }
        if !decision.has_leader() {
            self.lose(decision.failure(), now);
            return;
        }
        self.failure = None;
        let changed = decision.leads != leading;
        let settled = self.consensus.settle(&decision, now);
        // The first update is due once sources have settled, whether or not one of them has just spoken.
        let is_due = decision.is_news || changed;
        if let Some(settled) = settled.filter(|_| is_due) {
            if changed && let Some(id) = decision.leads {
                self.note(Note::Selected(id));
            }
            self.update_clock(&decision, settled, now);
        }
        self.review_local(now);
    }

    /// There is no system peer.
    fn lose(&mut self, failure: Option<Failure>, now: Reading) {
        if self.failure != failure {
            self.failure = failure;
            self.note(match failure {
                Some(Failure::NoMajority) => Note::NoMajority,
                Some(Failure::TooFew { n_agreeing }) => Note::TooFewSources { n_agreeing },
                Some(Failure::Nothing) | None => Note::NothingSelectable,
            });
            if self.following {
                self.note(Note::Holdover);
            }
        }
        self.following = false;
        self.review_local(now);
    }

    /// Combines, and corrects the clock.
    fn update_clock(&mut self, decision: &Decision, settled: Settled, now: Reading) {
        let Some(agreement) = self.consensus.agree(decision, self.error_rate(), now) else {
            return;
        };
        let Agreement { combined, root, .. } = agreement;
        let update = Update {
            offset: combined.offset,
            change: combined.offset - self.expected(now),
            deviation: combined.offset_variance.sqrt(),
            frequency: combined.frequency,
            skew: combined.frequency_variance.sqrt(),
            interval: agreement.interval,
        };
        if let Some(leap) = self.leap.vote(self.consensus.leaps(decision), now.wall) {
            self.note(Note::LeapAnnounced(leap));
        }
        let correction = if self.free_running {
            self.discipline.observe(&self.clock, update, now.raw)
        } else {
            self.discipline.update(&self.clock, update, settled, now)
        };
        match correction {
            Correction::Ignored(span) => return self.note(Note::ChangeIgnored(span)),
            Correction::GiveUp(span) => return self.effect(Effect::GiveUp(span)),
            Correction::Slewed => {}
            Correction::Stepped(span) => {
                self.effect(Effect::Step(span));
                self.note(Note::Stepped(span));
            }
        }
        if update.change.abs() > self.clock.log_change {
            self.note(Note::Offset(Span::from_seconds(update.change)));
        }
        let before = self.knowledge;
        let wall_ahead = now.wall.0.saturating_sub(now.raw.0);
        let interval = self.discipline.update_interval;
        self.fallback.update(self.crystal_frequency(), interval);
        self.knowledge = Some(Knowledge {
            at: now.raw,
            ahead: wall_ahead.saturating_add(Span::from_seconds(combined.offset).0),
            frequency: combined.frequency,
            deviation: update.deviation,
        });
        // After a step, do not also smooth the served time.
        self.smooth(before.filter(|_| correction == Correction::Slewed), now);
        self.allow_local(root_distance(root.delay, root.dispersion));
        self.root = Some(root);
        self.following = true;
        self.set_rate();
        self.tell_kernel(now);
        self.keep_drift(now.raw);
    }

    /// True time less wall time as it was before an update: the rest of a slew, or the whole offset of a clock that is left
    /// alone. A clock that another program has set is not at the expected time.
    fn expected(&self, now: Reading) -> f64 {
        if self.free_running {
            self.offset(now).unwrap_or(0.0)
        } else {
            self.discipline.slew(now.raw).1
        }
    }

    /// Looks whether a leap second comes at the end of this day.
    pub(super) fn plan_leap(&mut self, now: Reading) {
        if let Some(leap) = self.leap.plan(now.wall) {
            self.note(Note::LeapAnnounced(leap));
            self.tell_kernel(now);
        }
    }

    /// Every clock but the raw one jumps at a leap second.
    pub(super) fn pass_leap(&mut self, now: Reading) {
        let Some((leap, span)) = self.leap.pass(now.wall) else {
            return;
        };
        self.leap_passed = Some(now.raw);
        self.consensus.shift(span.seconds());
        if let Some(knowledge) = &mut self.knowledge {
            knowledge.ahead = knowledge.ahead.saturating_add(span.0);
        }
        match self.leap.mode {
            // The kernel has done it.
            LeapMode::System | LeapMode::Ignore => {}
            LeapMode::Step => self.step(span),
            LeapMode::Slew => {
                self.smear(span, now);
                if let (false, Some(knowledge)) = (self.free_running, self.knowledge) {
                    let offset = knowledge.offset(now);
                    self.discipline.slew_at_once(&self.clock, offset, now.raw);
                }
            }
        }
        self.set_rate();
        self.note(Note::LeapPassed(leap));
        self.tell_kernel(now);
    }

    /// The kernel keeps an own bound on the error, and a clock that is synchronised is copied to the real-time clock. It hears of what
    /// sources said alone: the own time (`local`) is for clients, and may be any.
    pub(super) fn tell_kernel(&mut self, now: Reading) {
        if self.free_running {
            return;
        }
        let heard = self.root.as_ref();
        let distance = |root: &Root| root_distance(root.delay, self.root_dispersion(root, now));
        let status = Status {
            synchronised: heard.is_some(),
            leap: self.leap.for_kernel(),
            max_error: heard.map_or(UNBOUNDED, distance),
            estimated_error: self.knowledge.map_or(UNBOUNDED, |known| known.deviation),
            tai_offset: self.leap.tai_offset(now.wall),
        };
        self.effect(Effect::SetStatus(status));
    }

    /// When another frequency is to be fallen back on.
    pub(super) fn fallback_timeout(&self) -> Option<RawTime> {
        let silent = self.fallback.next().filter(|_| !self.following)?;
        let last = self.discipline.last_update?;
        Some(last + Span::from_seconds(silent))
    }

    /// After a long time without sources, the clock continues with a frequency over as long a time. The present time of day
    /// does not change.
    pub(super) fn fall_back(&mut self, now: Reading) {
        let Some(last) = self.discipline.last_update.filter(|_| !self.following) else {
            return;
        };
        let Some(frequency) = self.fallback.take((now.raw - last).seconds()) else {
            return;
        };
        let ppm = -frequency * 1e6;
        let frequency = frequency + self.tempered;
        self.discipline.frequency = frequency;
        let before = self.knowledge;
        if let Some(knowledge) = &mut self.knowledge {
            knowledge.turn(frequency, now.raw);
        }
        self.smooth(before, now);
        self.note(Note::FellBack { ppm });
    }

    fn keep_drift(&mut self, now: RawTime) {
        let due = self
            .drift_saved
            .is_none_or(|saved| (now - saved).seconds() >= self.clock.drift_file_interval);
        // A frequency of the first minutes is worth less than what the file may have.
        let settled = (now - self.started).seconds() >= 60.0 && self.discipline.skew < 1e-5;
        if due
            && settled
            && let Some(drift) = self.drift()
        {
            self.drift_saved = Some(now);
            self.effect(Effect::SaveDrift(drift));
        }
    }

    /// Whether the last sample of a source contradicts what was known of it.
    #[must_use]
    pub fn is_contradicted(&self, id: SourceId) -> bool {
        let source = self.consensus.source(id);
        source.is_some_and(|source| source.filter.doubt() > 0.0)
    }

    /// Whether another request should follow soon, in a burst.
    #[must_use]
    pub fn wants_more(&self, id: SourceId) -> bool {
        self.consensus.source(id).is_some_and(Source::wants_more)
    }

    /// By how much the clock may go wrong on its own, in seconds per second.
    pub(super) fn error_rate(&self) -> f64 {
        self.clock.max_clock_error * 1e-6
    }

    /// The same, with the uncertainty of the frequency.
    pub(super) fn dispersion_rate(&self) -> f64 {
        self.error_rate() + self.discipline.skew
    }
}
