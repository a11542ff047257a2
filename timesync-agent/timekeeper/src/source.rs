//! One source: its samples, its eligibility, and its poll interval.

use crate::delays::Delays;
use crate::filter::{Estimate, Filter, Taken};
use crate::select::Candidate;
use crate::terms::{Sample, SourceId, Verdict, Weighing};
use time_model::sample::root_distance;
use time_model::time::{Reading, Span};
use time_model::view::{Leap, Reason, SelectionView, SourceMode, SourceState};

/// The polling interval is so long that the uncertainty it adds is this part of the noise of one sample.
const POLL_GROWTH: f64 = 0.65;
/// And no more than that of this many times the uncertainty after the sample: more samples are of use if a few
/// say more than most.
const POLL_CERTAINTY: f64 = 1.6;
/// But an uncertainty of this, in seconds, is not worth more requests.
const POLL_ENOUGH: f64 = 10e-6;
/// And no more than this, in seconds: a frequency that jumps shows at the next sample only.
const POLL_BOUND: f64 = 80e-6;
/// The first burst continues while the uncertainty at the first poll after it would be above this, in seconds.
const BURST_GROWTH: f64 = 50e-6;
/// This many samples are of the first burst.
const FIRST_BURST: usize = 8;
/// The same of polls that are bursts after it.
const BURST_BOUND: f64 = 300e-6;
/// With this many samples there are no more bursts: uncertainty then has other reasons.
const LAST_BURST: usize = 24;

/// A source and what is known of it.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) id: SourceId,
    pub(super) reference_id: u32,
    pub(super) options: Weighing,
    pub(super) filter: Filter,
    pub(super) delays: Delays,
    pub(super) last: Option<Sample>,
    pub(super) reach: u8,
    pub(super) state: SourceState,
    pub(super) selection: SelectionView,
    pub(super) score: f64,
    pub(super) poll: i8,
    /// True time less wall time by the last sample alone.
    pub(super) measured: f64,
    /// It said since that it has no time, or has it from here.
    pub(super) withdrawn: bool,
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

    /// `maxdelayratio`; below 1 it is off. As in chrony, a longer round trip is accepted once the clock may have drifted as far
    /// since the last sample: a longer path is not blocked permanently.
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
    pub(super) fn root(
        &self,
        sample: &Sample,
        estimate: &Estimate,
        age: f64,
        error_rate: f64,
    ) -> (f64, f64) {
        let delay = sample.root_delay + self.filter.path_shortest();
        let dispersion = sample.root_dispersion
            + sample.dispersion
            + estimate.offset_variance.sqrt()
            + age.max(0.0) * error_rate;
        (delay, dispersion)
    }

    /// Why it cannot be selected, whatever others say.
    pub(super) fn lack(&self, orphan_stratum: Option<u8>) -> Option<Reason> {
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

    pub(super) fn candidate(
        &self,
        now: Reading,
        error_rate: f64,
        lack: Option<Reason>,
    ) -> Candidate {
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
        // A source that contradicts itself claims both.
        candidate.distance = root_distance(delay, dispersion) + self.filter.doubt();
        candidate.deviation = self.filter.path_spread().max(self.filter.noise());
        candidate.frequency = estimate.frequency;
        candidate.skew = estimate.frequency_variance.sqrt();
        candidate
    }

    /// Takes a sample that was [admitted](Self::admit). `known` is the frequency that was learned from all sources.
    pub(super) fn take(
        &mut self,
        sample: Sample,
        known: Option<(f64, f64)>,
        now: Reading,
    ) -> Taken {
        if self.withdrawn {
            self.filter.restart(known);
        }
        let offset = Span::from_seconds(self.options.offset);
        let ahead = sample.ahead.saturating_add(offset.0);
        self.last = Some(sample);
        self.withdrawn = false;
        self.reach |= 1;
        let wall_ahead = now.wall.0.saturating_sub(now.raw.0);
        self.measured = Span(ahead.saturating_sub(wall_ahead)).seconds();
        let taken = self
            .filter
            .sample(sample.at, ahead, sample.delay, sample.dispersion);
        self.update_poll();
        taken
    }

    /// Returns whether another request should follow soon, in a burst: the frequency is too uncertain to leave the
    /// clock alone until the next poll. True after the first few polls at most, if the path is long and the interval, too.
    pub(super) fn wants_more(&self) -> bool {
        let interval = f64::from(self.options.minpoll).exp2();
        let growth = self.filter.growth(interval);
        let n = self.filter.n_samples();
        let bound = if n < FIRST_BURST {
            BURST_GROWTH
        } else {
            BURST_BOUND
        };
        n < LAST_BURST && growth > bound * bound
    }

    /// As long as the uncertainty hardly grows until the next sample, a longer interval costs nothing. It grows by one with
    /// each sample at most, and becomes as short as it has to at once: a frequency that has jumped does not wait.
    fn update_poll(&mut self) {
        let spread = self.filter.path_spread().max(self.filter.noise());
        let certainty = (POLL_CERTAINTY * self.filter.uncertainty()).max(POLL_ENOUGH);
        let aim = f64::from(self.options.polltarget) / 8.0;
        let bound = (POLL_GROWTH * spread.min(certainty) / aim).min(POLL_BOUND);
        let fits = |poll: i8| self.filter.growth(f64::from(poll).exp2()) <= bound * bound;
        let enough = self.filter.n_samples() >= FIRST_BURST;
        let poll = self.poll.clamp(self.options.minpoll, self.options.maxpoll);
        self.poll = if !fits(poll) {
            let shorter = (self.options.minpoll..poll).rev();
            shorter
                .into_iter()
                .find(|poll| fits(*poll))
                .unwrap_or(self.options.minpoll)
        } else if enough && poll < self.options.maxpoll && fits(poll + 1) {
            poll + 1
        } else {
            poll
        };
    }
}
