//! From samples to the clock: selection, combining, and what is done about it.

use super::discipline::{Correction, Update};
use super::filter::Estimate;
use super::select::{self, Candidate, Failure, Selection};
use super::terms::{Effect, Note, Sample, SourceId, Status, Verdict};
use super::{
    BURST_GROWTH, FIRST_BURST, Knowledge, LAST_BURST, PATIENCE, POLL_BOUND, POLL_GROWTH, Root,
    Source, Timekeeper,
};
use time_model::settings::LeapMode;
use time_model::time::{RawTime, Reading, Span};
use time_model::view::{Leap, Reason, SelectionView, SourceMode, SourceState};

/// Uncertainty of an asymmetry that nobody can see, as a part of the shortest round trip: what sources differ by for it.
const ASYMMETRY: f64 = 0.02;
/// The error of a clock of which nothing is known, in seconds: the most that the kernel keeps of it.
const UNBOUNDED: f64 = 16.0;

/// What several sources together say.
#[derive(Clone, Copy, Debug, Default)]
struct Combined {
    /// True time less wall time.
    offset: f64,
    offset_variance: f64,
    frequency: f64,
    frequency_variance: f64,
}

impl Source {
    /// Tests a sample before it is weighed.
    pub(super) fn admit(&mut self, sample: &Sample, error_rate: f64, now: Reading) -> Verdict {
        let numbers = [
            sample.delay,
            sample.dispersion,
            sample.root_delay,
            sample.root_dispersion,
        ];
        let finite = numbers
            .iter()
            .all(|number| number.is_finite() && *number >= 0.0);
        let ordered = self.filter.last().is_none_or(|last| sample.at > last);
        if !finite || !ordered || sample.at > now.raw {
            return Verdict::Disordered;
        }
        if self.options.mode == SourceMode::ReferenceClock {
            return Verdict::Good;
        }
        let quantile = self.options.max_delay_quantile;
        let is_above = quantile.is_some_and(|q| self.delays.is_above(q, sample.delay));
        self.delays.remember(sample.delay);
        if self.filter.n_samples() < 4 {
            Verdict::Good
        } else if self.is_beyond_ratio(sample, error_rate) {
            Verdict::DelayRatio
        } else if is_above {
            Verdict::DelayDeviation
        } else {
            Verdict::Good
        }
    }

    /// `maxdelayratio`; below 1 it is none. As in chrony a longer round trip counts for more than nothing once the clock may have gone
    /// as wrong since the last sample: a way that has become longer is not shut for good.
    fn is_beyond_ratio(&self, sample: &Sample, error_rate: f64) -> bool {
        let Some(ratio) = self.options.max_delay_ratio.filter(|ratio| *ratio >= 1.0) else {
            return false;
        };
        let shortest = self.options.min_delay;
        let shortest = shortest.unwrap_or_else(|| self.filter.path_shortest());
        let last = self.filter.last().unwrap_or(sample.at);
        let estimate = self.filter.estimate(sample.at).unwrap_or_default();
        let gained = error_rate + estimate.frequency_variance.sqrt();
        sample.delay > ratio * shortest + gained * (sample.at - last).seconds()
    }

    /// True time less wall time by this source, in seconds.
    pub(super) fn offset(&self, estimate: &Estimate, now: Reading) -> f64 {
        let wall_ahead = now.wall.0.saturating_sub(now.raw.0);
        Span(self.filter.base().saturating_sub(wall_ahead)).seconds() + estimate.offset
    }

    /// Bounds on the error at this moment: root delay and root dispersion (RFC 5905 appendix A.5.5.2).
    fn root(&self, sample: &Sample, estimate: &Estimate, age: f64, error_rate: f64) -> (f64, f64) {
        let delay = sample.root_delay + self.filter.path_shortest();
        let dispersion = sample.root_dispersion
            + sample.dispersion
            + estimate.offset_variance.sqrt()
            + age.max(0.0) * error_rate;
        (delay, dispersion)
    }

    /// Why it cannot be selected, whatever others say.
    fn lack(&self, orphan_stratum: Option<u8>) -> Option<Reason> {
        let Some(sample) = &self.last else {
            return Some(Reason::Unsynchronised);
        };
        if sample.leap == Leap::Unsynchronised || sample.stratum >= 16 || self.withdrawn {
            Some(Reason::Unsynchronised)
        } else if orphan_stratum.is_some_and(|stratum| sample.stratum >= stratum) {
            Some(Reason::Orphan)
        } else {
            (self.reach == 0).then_some(Reason::Stale)
        }
    }

    fn candidate(&self, now: Reading, error_rate: f64, lack: Option<Reason>) -> Candidate {
        let mut candidate = Candidate {
            id: self.id,
            options: self.options.select,
            authenticated: self.options.authenticated
                || self.options.mode == SourceMode::ReferenceClock,
            lack: lack.or(Some(Reason::NoSamples)),
            in_doubt: self.filter.doubt() > 0.0,
            stratum: 16,
            offset: 0.0,
            distance: f64::INFINITY,
            deviation: 0.0,
            frequency: 0.0,
            skew: 0.0,
            score: self.score,
        };
        let (Some(sample), Some(estimate)) = (&self.last, self.filter.estimate(now.raw)) else {
            return candidate;
        };
        let age = (now.raw - sample.at).seconds();
        let (delay, dispersion) = self.root(sample, &estimate, age, error_rate);
        candidate.lack = lack;
        candidate.stratum = sample.stratum;
        candidate.offset = self.offset(&estimate, now);
        // Who contradicts itself claims both.
        candidate.distance = delay / 2.0 + dispersion + self.filter.doubt();
        candidate.deviation = self.filter.path_spread().max(self.filter.noise());
        candidate.frequency = estimate.frequency;
        candidate.skew = estimate.frequency_variance.sqrt();
        candidate
    }
}

impl Timekeeper {
    /// Decides anew who leads, and corrects the clock if there is something new to correct it by.
    pub(super) fn reselect(&mut self, updated: Option<SourceId>, now: Reading) {
        let error_rate = self.error_rate();
        let orphan_stratum = self
            .local
            .filter(|local| local.orphan)
            .map(|local| local.stratum);
        let mut candidates: Vec<Candidate> = self
            .sources
            .iter()
            .map(|source| source.candidate(now, error_rate, source.lack(orphan_stratum)))
            .collect();
        let leading = self
            .root
            .as_ref()
            .filter(|_| self.following)
            .and_then(|root| root.source);
        let mut selection = select::select(&self.selection, &mut candidates, leading, updated);
        let mut orphan = false;
        if selection.best.is_none()
            && selection.failure == Some(Failure::Nothing)
            && let Some(index) = self.leading_orphan()
        {
            orphan = true;
            selection = self.follow_orphan(index, &candidates);
        }
        let reasons = select::reasons(&self.selection, &candidates, &selection);
        for ((source, candidate), reason) in self.sources.iter_mut().zip(&candidates).zip(reasons) {
            source.score = candidate.score;
            source.selection = SelectionView {
                reason,
                configured: source.options.select,
                effective: candidate.options,
                score: candidate.score,
                low: candidate.offset - candidate.distance,
                high: candidate.offset + candidate.distance,
            };
        }
        self.tell_states(&selection);
        let Some(best) = selection.best else {
            self.lose(selection.failure, now);
            return;
        };
        self.failure = None;
        let best_id = candidates.get(best).map(|candidate| candidate.id);
        let changed = best_id != leading;
        let combined = updated.and_then(|id| {
            let index = self.sources.iter().position(|source| source.id == id)?;
            selection.states.get(index)
        });
        let news = matches!(combined, Some(SourceState::Best | SourceState::Combined));
        if (news || changed) && self.is_settled(now) {
            if changed && let Some(id) = best_id {
                self.note(Note::Selected(id));
            }
            self.update_clock(best, &selection, orphan, now);
        }
        self.review_local(now);
    }

    /// Whether enough sources were heard to follow one of them.
    fn is_settled(&self, now: Reading) -> bool {
        let selectable = || self.sources.iter().filter(|s| !s.options.select.noselect);
        let n_heard = selectable().filter(|source| source.last.is_some()).count();
        self.discipline.n_updates > 0
            || n_heard * 2 > selectable().count()
            || self
                .first_sample
                .is_some_and(|first| now.raw - first >= PATIENCE)
    }

    /// Nobody leads.
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

    fn tell_states(&mut self, selection: &Selection) {
        let mut falsetickers = Vec::new();
        for (source, state) in self.sources.iter_mut().zip(&selection.states) {
            if *state == SourceState::Falseticker && source.state != SourceState::Falseticker {
                falsetickers.push(source.id);
            }
            source.state = *state;
        }
        for id in falsetickers {
            self.note(Note::Falseticker(id));
        }
    }

    /// Combines, and corrects the clock.
    fn update_clock(&mut self, best: usize, selection: &Selection, orphan: bool, now: Reading) {
        let Some(combined) = self.combine(selection, now) else {
            return;
        };
        let error_rate = self.error_rate();
        let Some(source) = self.sources.get(best) else {
            return;
        };
        let (Some(sample), Some(estimate)) = (source.last, source.filter.estimate(now.raw)) else {
            return;
        };
        let age = (now.raw - sample.at).seconds();
        let (delay, dispersion) = source.root(&sample, &estimate, age, error_rate);
        let root = Root {
            source: Some(source.id),
            reference_id: match source.options.copy {
                true => sample.reference_id,
                false => source.reference_id,
            },
            stratum: sample.stratum.saturating_add(source.options.stratum),
            at: now,
            delay,
            dispersion,
            orphan,
        };
        let update = Update {
            offset: combined.offset,
            change: combined.offset - self.expected(now),
            deviation: combined.offset_variance.sqrt(),
            frequency: combined.frequency,
            skew: combined.frequency_variance.sqrt(),
            interval: f64::from(source.poll).exp2(),
        };
        self.vote_leap(selection, now);
        let correction = if self.free_running {
            self.discipline.observe(&self.clock, update, now.raw)
        } else {
            self.discipline.update(&self.clock, update, now)
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
        // Whom a step takes along is not led there slowly.
        self.smooth(before.filter(|_| correction == Correction::Slewed), now);
        self.allow_local(root.delay / 2.0 + root.dispersion);
        self.root = Some(root);
        self.following = true;
        self.set_rate();
        self.tell_kernel(now);
        self.keep_drift(now.raw);
    }

    /// True time less wall time as it was before an update: what is left of a slew, and of a clock that is let alone all that it is
    /// off. A clock that somebody else has set is not where it is expected.
    fn expected(&self, now: Reading) -> f64 {
        if self.free_running {
            self.offset(now).unwrap_or(0.0)
        } else {
            self.discipline.slew(now.raw).1
        }
    }

    /// Weighs sources by what is not known of each.
    fn combine(&self, selection: &Selection, now: Reading) -> Option<Combined> {
        let mut combined = Combined::default();
        let (mut offsets, mut frequencies) = (0.0, 0.0);
        for (source, state) in self.sources.iter().zip(&selection.states) {
            if !matches!(state, SourceState::Best | SourceState::Combined) {
                continue;
            }
            let Some(estimate) = source.filter.estimate(now.raw) else {
                continue;
            };
            let asymmetry = ASYMMETRY * source.filter.path_shortest();
            let weight = 1.0 / (estimate.offset_variance + asymmetry * asymmetry);
            offsets += weight;
            combined.offset += weight * source.offset(&estimate, now);
            combined.offset_variance += weight * weight * estimate.offset_variance;
            let weight = 1.0 / estimate.frequency_variance;
            frequencies += weight;
            combined.frequency += weight * estimate.frequency;
        }
        if offsets <= 0.0 || frequencies <= 0.0 {
            return None;
        }
        combined.offset /= offsets;
        combined.offset_variance /= offsets * offsets;
        combined.frequency /= frequencies;
        combined.frequency_variance = 1.0 / frequencies;
        Some(combined)
    }

    /// Counts announcements of those that are right.
    fn vote_leap(&mut self, selection: &Selection, now: Reading) {
        let right = self
            .sources
            .iter()
            .zip(&selection.states)
            .filter(|(_, state)| {
                matches!(
                    state,
                    SourceState::Best | SourceState::Combined | SourceState::Outlier
                )
            });
        let leaps: Vec<Leap> = right
            .filter_map(|(source, _)| source.last.as_ref())
            .map(|sample| sample.leap)
            .collect();
        if let Some(leap) = self.leap.vote(leaps.into_iter(), now.wall) {
            self.note(Note::LeapAnnounced(leap));
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
        for source in &mut self.sources {
            source.filter.shift(span.seconds());
        }
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
        let distance = |root: &Root| root.delay / 2.0 + self.root_dispersion(root, now);
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

    /// Without sources for long, the clock goes on with a frequency of as long. What time it is by now does not change.
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

    /// Whether another request should follow soon, in a burst: the frequency is not known well enough to leave the clock alone
    /// until the next poll. True after the first few polls at most, if the way is long and the interval, too.
    #[must_use]
    pub fn wants_more(&self, id: SourceId) -> bool {
        self.sources
            .iter()
            .find(|source| source.id == id)
            .is_some_and(|source| {
                let interval = f64::from(source.options.minpoll).exp2();
                let growth = source.filter.growth(interval);
                let n = source.filter.n_samples();
                let bound = if n < FIRST_BURST {
                    BURST_GROWTH
                } else {
                    POLL_BOUND
                };
                n < LAST_BURST && growth > bound * bound
            })
    }

    /// By how much the clock may go wrong on its own, in seconds per second.
    pub(super) fn error_rate(&self) -> f64 {
        self.clock.max_clock_error * 1e-6
    }

    /// The same, with what is not known of the frequency.
    pub(super) fn dispersion_rate(&self) -> f64 {
        self.error_rate() + self.discipline.skew
    }

    /// As long as the uncertainty stays below the noise of a sample, a longer interval costs nothing. It grows by one with
    /// each sample at most.
    pub(super) fn update_poll(&mut self, id: SourceId) {
        let Some(source) = self.source_mut(id) else {
            return;
        };
        let spread = source.filter.path_spread().max(source.filter.noise());
        let aim = f64::from(source.options.polltarget) / 8.0;
        let bound = (POLL_GROWTH * spread / aim).min(POLL_BOUND);
        let fits = |poll: i8| source.filter.growth(f64::from(poll).exp2()) <= bound * bound;
        let enough = source.filter.n_samples() >= FIRST_BURST;
        let poll = source
            .poll
            .clamp(source.options.minpoll, source.options.maxpoll);
        source.poll = if !fits(poll) {
            poll.saturating_sub(1).max(source.options.minpoll)
        } else if enough && poll < source.options.maxpoll && fits(poll + 1) {
            poll + 1
        } else {
            poll
        };
    }
}
