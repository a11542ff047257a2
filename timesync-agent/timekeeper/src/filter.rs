//! The filter of one source: a bank of Kalman filters on the raw clock, each with a belief of its own about how much the
//! local oscillator wanders and how much noise round trips do not explain, weighted by how well they foretold the samples.
//!
//! Corrections of the clock do not come in here, and therefore disturb nothing.

mod model;
mod path;

use std::collections::VecDeque;

use self::model::{Edges, Model};
use self::path::{Moved, Path};
use time_model::time::{RawTime, Span};
use time_model::view::SourceStatistics;

/// Wander of an oscillator in a second: from one in an oven to one beside a fan.
const WANDERS: [f64; 5] = [1e-11, 1e-10, 1e-9, 1e-8, 1e-7];
/// The kinds of jitter: the part of the visible one that is noise of the clocks and not of the path; how one-sided the waiting is, in usual
/// waits; and how credible that is before there are samples, as a logarithm. On most paths round trips explain everything, and both
/// ways wait alike.
const JITTERS: [(f64, f64, f64); 9] = [
    (0.0, 0.0, 0.0),
    (0.2, 0.0, -1.5),
    (1.0, 0.0, -4.0),
    (0.0, 1.0, -6.0),
    (0.0, -1.0, -6.0),
    (0.0, 8.0, -6.0),
    (0.0, -8.0, -6.0),
    (0.0, 60.0, -6.0),
    (0.0, -60.0, -6.0),
];
/// The first of them, this many, have both ways wait alike.
const EVEN: usize = 3;
/// A model that is less credible than the best by this, as a logarithm, changes nothing.
const NEGLIGIBLE: f64 = 20.0;
/// The decay of a sample's likelihood with each later one: about fifty samples decide.
const MEMORY: f64 = 0.98;
/// Credit of the belief that what was learned of the frequency has become wrong, as a logarithm.
const UNLEARNED: f64 = -5.0;
/// Standard deviation of a frequency after the source contradicted itself: it jumped, and the crystal did not.
const AFTER_JUMP: f64 = 1e-6;
/// Samples that are remembered for statistics, as chrony's 64.
const SAMPLES: usize = 64;
/// As long as there are so few samples, each new one says so much about the path that all are weighed again.
const QUICK: usize = 16;
/// This many inexplicable samples in a row discard the estimate.
const CONTRADICTIONS: u32 = 4;
/// A likelihood below this is no explanation.
const INCREDIBLE: f64 = 1e-4;
/// Standard deviations of an unknown frequency: most crystals are within 30 ppm, some are defective.
const ANY_FREQUENCY: [f64; 2] = [25e-6, 250e-6];
/// An unknown frequency is within this many of the larger of them, or the clock is no crystal's.
const FARTHEST: f64 = 4.0;
/// Standard errors beyond which a jump of the samples is no chance.
const SURE: f64 = 3.0;
/// A way is as short as another one if their floors differ by less than this part of the move.
const RETURN: f64 = 0.1;
/// Random errors of stamps, as a part of the dispersion, which is a bound on them.
const STAMP_NOISE: f64 = 0.1;

/// The estimate at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Estimate {
    /// True time less raw time less [`Filter::base`], in seconds.
    pub(super) offset: f64,
    /// The gain of the offset in a second.
    pub(super) frequency: f64,
    pub(super) offset_variance: f64,
    pub(super) covariance: f64,
    pub(super) frequency_variance: f64,
}

/// A sample as it is remembered.
#[derive(Clone, Copy, Debug)]
struct Point {
    at: RawTime,
    offset: f64,
    delay: f64,
    dispersion: f64,
    residual: f64,
}

/// The effect of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// It was weighed.
    Weighed,
    /// It cannot be explained.
    Contradicts,
    /// It is the last of several that cannot be explained: the estimate starts again with them.
    Reset,
}

/// The effect of the temperature on the crystal. The filter gets samples without it, and its output gets it added again, so
/// that the filter sees a crystal of constant temperature.
#[derive(Clone, Copy, Debug, Default)]
struct Tempered {
    /// The gain of true time by it until then, in seconds, and the gain from then on in a second.
    gained: f64,
    rate: f64,
    since: RawTime,
}

impl Tempered {
    /// A little before `since`, too: a sample may be as old as its way back was long.
    fn at(self, at: RawTime) -> f64 {
        self.gained + self.rate * (at - self.since).seconds()
    }
}

/// A way of which one direction became longer than the other while the time was known: samples are off by as much, and the time is not.
#[derive(Clone, Copy, Debug)]
struct Detour {
    /// The floor of the way before it.
    home: f64,
    /// How far samples are off.
    shift: f64,
}

/// The estimate of one source.
#[derive(Clone, Debug)]
pub(super) struct Filter {
    /// Frequency that was learned earlier, and its standard deviation.
    prior: Option<(f64, f64)>,
    asymmetry: Option<f64>,
    max_samples: usize,
    path: Path,
    bank: Vec<Model>,
    /// When the bank is.
    at: RawTime,
    /// Subtracted from what samples are ahead, so that a nanosecond is not lost in a float.
    base: i64,
    tempered: Tempered,
    detour: Option<Detour>,
    points: VecDeque<Point>,
    contradictions: u32,
}

impl Filter {
    pub(super) fn new(drift: Option<(f64, f64)>, min_delay: Option<f64>) -> Self {
        Self {
            prior: drift,
            asymmetry: None,
            max_samples: SAMPLES,
            path: Path::new(min_delay),
            bank: Vec::new(),
            at: RawTime(0),
            base: 0,
            tempered: Tempered::default(),
            detour: None,
            points: VecDeque::new(),
            contradictions: 0,
        }
    }

    /// From a moment on the crystal gains so much less in a second than what is learned here, because of its temperature.
    pub(super) fn temper(&mut self, rate: f64, at: RawTime) {
        self.tempered = Tempered {
            gained: self.tempered.at(at),
            rate,
            since: at,
        };
    }

    /// `asymmetry` and `maxsamples` of the configuration.
    pub(super) fn restrict(&mut self, asymmetry: Option<f64>, max_samples: Option<u32>) {
        self.asymmetry = asymmetry;
        self.max_samples = max_samples.map_or(SAMPLES, |n| (n as usize).clamp(4, SAMPLES));
    }

    pub(super) fn n_samples(&self) -> usize {
        self.points.len()
    }

    pub(super) fn base(&self) -> i64 {
        self.base
    }

    pub(super) fn path_shortest(&self) -> f64 {
        self.path.shortest()
    }

    pub(super) fn path_spread(&self) -> f64 {
        self.path.spread()
    }

    /// Noise that is seen in the samples and that round trips do not explain.
    pub(super) fn noise(&self) -> f64 {
        let best = self
            .bank
            .iter()
            .max_by(|a, b| a.credit.total_cmp(&b.credit));
        best.map_or(0.0, |model| model.noise * self.visible_noise())
    }

    /// How far the last sample is from what is known, if that cannot be explained.
    pub(super) fn doubt(&self) -> f64 {
        let last = self.points.back().filter(|_| self.contradictions > 0);
        last.map_or(0.0, |point| point.residual.abs())
    }

    /// When the last sample was taken.
    pub(super) fn last(&self) -> Option<RawTime> {
        self.points.back().map(|point| point.at)
    }

    /// Takes a sample.
    pub(super) fn sample(&mut self, at: RawTime, ahead: i64, delay: f64, dispersion: f64) -> Taken {
        if self.points.is_empty() {
            self.base = ahead;
        }
        let point = Point {
            at,
            offset: Span(ahead.saturating_sub(self.base)).seconds()
                - self.tempered.at(at)
                - self.detour.map_or(0.0, |detour| detour.shift),
            delay,
            dispersion,
            residual: 0.0,
        };
        if self.points.len() >= self.max_samples {
            self.points.pop_front();
        }
        self.points.push_back(point);
        let moved = self.path.observe(delay, self.one_sided());
        let likelihood = if self.points.len() <= QUICK {
            self.refilter()
        } else {
            self.merge_priors();
            if let Some(moved) = moved {
                self.change_path(moved);
            }
            self.points
                .back()
                .copied()
                .map_or(1.0, |point| self.weigh(point))
        };
        if likelihood > INCREDIBLE {
            self.contradictions = 0;
            return Taken::Weighed;
        }
        self.contradictions += 1;
        if self.contradictions < CONTRADICTIONS {
            return Taken::Contradicts;
        }
        self.begin_anew();
        Taken::Reset
    }

    /// The source had no time of its own for a while, and starts again; its path and the local crystal stay as they were.
    pub(super) fn restart(&mut self, known: Option<(f64, f64)>) {
        self.prior = known.or(self.prior);
        self.points.clear();
        self.bank.clear();
        self.contradictions = 0;
    }

    /// The clock of the source jumps by this many seconds at once, as at a leap second.
    pub(super) fn shift(&mut self, seconds: f64) {
        for model in &mut self.bank {
            model.alter(|estimate| estimate.offset += seconds);
        }
        for point in &mut self.points {
            point.offset += seconds;
        }
    }

    /// The estimate at or after the last sample.
    pub(super) fn estimate(&self, at: RawTime) -> Option<Estimate> {
        let mut mean = self.mean(at)?;
        mean.offset += self.tempered.at(at);
        mean.frequency += self.tempered.rate;
        Some(mean)
    }

    /// The same for a crystal of constant temperature.
    fn mean(&self, at: RawTime) -> Option<Estimate> {
        let seconds = (at - self.at).seconds().max(0.0);
        let mut sum: Option<(f64, Estimate)> = None;
        for (weight, model) in self.weighted() {
            let other = model.estimate(seconds);
            match &mut sum {
                Some((total, mean)) => {
                    *total += weight;
                    mean.mix(&other, weight / *total);
                }
                None => sum = Some((weight, other)),
            }
        }
        sum.map(|(_, mean)| mean)
    }

    /// The standard deviation of the offset after the last sample.
    pub(super) fn uncertainty(&self) -> f64 {
        let estimate = self.estimate(self.at);
        estimate.map_or(f64::INFINITY, |estimate| estimate.offset_variance.sqrt())
    }

    /// The growth of the variance of the offset in this many seconds.
    pub(super) fn growth(&self, seconds: f64) -> f64 {
        let (mut total, mut growth) = (0.0, 0.0);
        for (weight, model) in self.weighted() {
            total += weight;
            growth += weight * model.growth(seconds);
        }
        if total > 0.0 {
            growth / total
        } else {
            f64::INFINITY
        }
    }

    /// All models, and how credible each is beside the best.
    fn weighted(&self) -> impl Iterator<Item = (f64, &Model)> {
        let best = self
            .bank
            .iter()
            .map(|model| model.credit)
            .fold(f64::NEG_INFINITY, f64::max);
        let credible = move |model: &&Model| model.credit > best - NEGLIGIBLE;
        self.bank
            .iter()
            .filter(credible)
            .map(move |model| ((model.credit - best).exp(), model))
    }

    /// How sure it is that one way alone waits.
    fn one_sided(&self) -> f64 {
        let (mut total, mut tilted) = (0.0, 0.0);
        for (weight, model) in self.weighted() {
            total += weight;
            if model.tilt != 0.0 {
                tilted += weight;
            }
        }
        let given = 2.0 * self.asymmetry.unwrap_or(0.0).abs();
        let learned = if total > 0.0 { tilted / total } else { 0.0 };
        learned.max(given).min(1.0)
    }

    /// Statistics in chronyc's terms. `frequency` is of the clock as it is corrected.
    pub(super) fn statistics(&self, at: RawTime, frequency: f64) -> SourceStatistics {
        let (Some(first), Some(last), Some(estimate)) =
            (self.points.front(), self.points.back(), self.estimate(at))
        else {
            return SourceStatistics::default();
        };
        let mut n_runs = 0;
        let mut sign = None;
        let mut squares = 0.0;
        for point in &self.points {
            let positive = point.residual >= 0.0;
            if sign != Some(positive) {
                n_runs += 1;
                sign = Some(positive);
            }
            squares += point.residual * point.residual;
        }
        #[expect(clippy::cast_precision_loss, reason = "at most 64")]
        let n = self.points.len() as f64;
        SourceStatistics {
            n_samples: u32::try_from(self.points.len()).unwrap_or(u32::MAX),
            n_runs,
            span: last.at - first.at,
            // chronyc's is the gain of the clock against the source.
            frequency: (frequency - estimate.frequency) * 1e6,
            skew: estimate.frequency_variance.sqrt() * 1e6,
            offset: 0.0,
            offset_error: estimate.offset_variance.sqrt(),
            deviation: (squares / n).sqrt(),
        }
    }

    /// Everything that is remembered, weighed with what is known of the path by the end.
    fn refilter(&mut self) -> f64 {
        let points: Vec<Point> = self.points.drain(..).collect();
        // A few samples seem one-sided by chance.
        let jitters = if points.len() < QUICK {
            JITTERS.get(..EVEN).unwrap_or_default()
        } else {
            &JITTERS
        };
        let mut likelihood = 1.0;
        for (index, point) in points.into_iter().enumerate() {
            if index == 0 {
                self.begin(point, jitters);
            }
            self.points.push_back(point);
            if index > 0 {
                likelihood = self.weigh(point);
            }
        }
        likelihood
    }

    /// The floor has moved, so that the offset may be off by half of that, there or back. But time does not jump when the way
    /// changes: if the samples do, by no more than what one direction alone may have become longer, they are shifted back. The shortest
    /// way is taken to be even.
    fn change_path(&mut self, moved: Moved) {
        let floor = self.path.floor();
        let detour = self.detour.unwrap_or(Detour {
            home: floor - moved.by,
            shift: 0.0,
        });
        let near = RETURN * moved.by.abs();
        let (n, jump) = match moved.n {
            Some(n) if floor < detour.home + near => (n, Some(-detour.shift)),
            Some(n) => (n, self.jump_of_samples(n, moved.by)),
            None => (0, None),
        };
        let is_even = moved.n.is_some() && floor < detour.home - near;
        if jump.is_none() || is_even {
            let variance = moved.by * moved.by / 4.0;
            for model in &mut self.bank {
                model.alter(|estimate| estimate.offset_variance += variance);
            }
        }
        let jump = jump.unwrap_or(0.0);
        let first = self.points.len().saturating_sub(n);
        for point in self.points.iter_mut().skip(first) {
            point.offset -= jump;
        }
        let shift = detour.shift + jump;
        self.detour = (shift != 0.0).then_some(Detour { shift, ..detour });
    }

    /// How far the `n` samples of another way are from what was known before, 0 if that may be chance; nothing if no change of one
    /// direction explains it.
    fn jump_of_samples(&self, n: usize, by: f64) -> Option<f64> {
        let now = self.points.back()?.at;
        let known = self.mean(now)?;
        let latest = self.points.iter().rev().take(n);
        let mut jumps: Vec<f64> = latest
            .map(|point| {
                let passed = (now - point.at).seconds();
                point.offset - (known.offset - known.frequency * passed)
            })
            .collect();
        jumps.sort_by(f64::total_cmp);
        let jump = *jumps.get(jumps.len() / 2)?;
        #[expect(clippy::cast_precision_loss, reason = "at most 64")]
        let variance = self.path.spread().powi(2) / jumps.len() as f64;
        let sure = SURE * (known.offset_variance + variance).sqrt();
        if jump.abs() < sure {
            Some(0.0)
        } else {
            (jump.abs() < by.abs() / 2.0 + sure).then_some(jump)
        }
    }

    /// The first sample.
    fn begin(&mut self, point: Point, jitters: &[(f64, f64, f64)]) {
        self.bank.clear();
        self.at = point.at;
        let edges = self.edges(&point, 0.0, 0.0);
        let half = (edges.high - edges.low) / 2.0;
        let deviation = edges.softness.hypot(half / 1.732);
        // The learned values may have become wrong since: one of the beliefs is always that they are unknown.
        let [usual, any] = ANY_FREQUENCY;
        let doubt = if self.prior.is_some() { UNLEARNED } else { 0.0 };
        let learned = self.prior.unwrap_or((0.0, usual));
        for ((frequency, skew), doubt) in [(learned, 0.0), ((0.0, any), doubt)] {
            let estimate = Estimate {
                offset: (edges.low + edges.high) / 2.0,
                frequency,
                offset_variance: deviation * deviation,
                covariance: 0.0,
                frequency_variance: skew * skew,
            };
            for &(noise, tilt, credit) in jitters {
                for wander in WANDERS {
                    self.bank
                        .push(Model::new(wander, noise, tilt, credit + doubt, estimate));
                }
            }
        }
    }

    /// The initial frequency does not matter any more: keeps the better beginning of each belief.
    fn merge_priors(&mut self) {
        let n = WANDERS.len() * JITTERS.len();
        if self.bank.len() <= n {
            return;
        }
        let rest = self.bank.split_off(n);
        for (model, other) in self.bank.iter_mut().zip(rest) {
            if other.credit > model.credit {
                *model = other;
            }
        }
    }

    /// The four last samples are all that is believed.
    fn begin_anew(&mut self) {
        let kept = self.points.len().saturating_sub(CONTRADICTIONS as usize);
        self.points.drain(..kept);
        self.contradictions = 0;
        if let Some(known) = self.estimate(self.at) {
            let skew = known.frequency_variance.sqrt().max(AFTER_JUMP);
            self.prior = Some((known.frequency, skew));
        }
        // No belief would ever explain a frequency that is further off than that of any crystal: the samples have it.
        let [_, any] = ANY_FREQUENCY;
        let known = self.prior.map_or(0.0, |(frequency, _)| frequency);
        let is_known = |frequency: f64| {
            let nearest = frequency.abs().min((frequency - known).abs());
            nearest < FARTHEST * any
        };
        if let Some((frequency, skew)) = self.slope()
            && !is_known(frequency)
        {
            self.prior = Some((frequency, skew.max(AFTER_JUMP)));
        }
        // Nothing is known of the way either.
        if let Some(detour) = self.detour.take() {
            for point in &mut self.points {
                point.offset += detour.shift;
            }
        }
        if let Some(first) = self.points.front().copied() {
            let base = first.offset;
            self.base = self.base.saturating_add(Span::from_seconds(base).0);
            for point in &mut self.points {
                point.offset -= base;
            }
        }
        self.path = Path::new(self.path.given());
        let delays: Vec<f64> = self.points.iter().map(|point| point.delay).collect();
        for delay in delays {
            self.path.observe(delay, 0.0);
        }
        self.refilter();
    }

    /// The frequency by the samples that are remembered alone, and how far off it may be.
    fn slope(&self) -> Option<(f64, f64)> {
        let (first, last) = (self.points.front()?, self.points.back()?);
        let seconds = (last.at - first.at).seconds();
        let error = |point: &Point| point.delay / 2.0 + point.dispersion;
        let slope = (last.offset - first.offset) / seconds;
        let skew = (error(first) + error(last)) / seconds;
        (seconds > 0.0).then_some((slope, skew))
    }

    fn weigh(&mut self, point: Point) -> f64 {
        let elapsed = (point.at - self.at).seconds().max(0.0);
        self.at = point.at;
        let visible = self.visible_noise();
        let width = self.edges(&point, visible, 0.0).width();
        let mut bank = std::mem::take(&mut self.bank);
        let mut likelihood: f64 = 0.0;
        let mut residual = (0.0, f64::NEG_INFINITY);
        for model in &mut bank {
            if model.credit > residual.1 {
                let ahead = model.estimate(elapsed).offset;
                residual = (point.offset - ahead, model.credit);
            }
            let edges = self.edges(&point, model.noise * visible, model.tilt);
            likelihood = likelihood.max(model.update(edges, elapsed, MEMORY, width));
        }
        let best = bank
            .iter()
            .map(|m| m.credit)
            .fold(f64::NEG_INFINITY, f64::max);
        for model in &mut bank {
            model.credit -= best;
        }
        self.bank = bank;
        if let Some(last) = self.points.back_mut() {
            last.residual = residual.0;
        }
        likelihood
    }

    /// The offset from one sample alone.
    fn edges(&self, point: &Point, noise: f64, tilt: f64) -> Edges {
        let excess = (point.delay - self.path.floor()).max(0.0);
        // A round trip that is too short has a stamp that is wrong.
        let lack = (self.path.floor() - point.delay).max(0.0) / 2.0;
        let floor_error = self.path.floor_error() / 2.0;
        let stamps = STAMP_NOISE * point.dispersion;
        let softness =
            (floor_error * floor_error + stamps * stamps + noise * noise + lack * lack).sqrt();
        // If the configuration names the slow direction, the offset is at the other end, but for a little of the rest.
        let asymmetry = self.asymmetry.unwrap_or(0.0);
        let centre = point.offset + asymmetry * excess;
        let half = (0.5 - asymmetry.abs()).max(0.01) * excess;
        Edges {
            low: centre - half,
            high: centre + half,
            softness: softness.max(1e-10),
            tilt: tilt / self.path.spread().max(1e-9),
        }
    }

    /// Noise that is seen in the samples, whatever its reason: second differences know nothing of offset and frequency.
    fn visible_noise(&self) -> f64 {
        let points: Vec<Point> = self.points.iter().rev().take(QUICK).copied().collect();
        let mut differences: Vec<f64> = points
            .windows(3)
            .filter_map(|three| {
                let [c, b, a] = three else { return None };
                let (ab, bc) = ((b.at - a.at).seconds(), (c.at - b.at).seconds());
                if ab <= 0.0 || bc <= 0.0 {
                    return None;
                }
                // b against the line from a to c, in standard deviations of one sample.
                let part = ab / (ab + bc);
                let line = a.offset + (c.offset - a.offset) * part;
                let scale = (1.0 + part * part + (1.0 - part) * (1.0 - part)).sqrt();
                Some((b.offset - line).abs() / scale)
            })
            .collect();
        differences.sort_by(f64::total_cmp);
        differences
            .get(differences.len() / 2)
            .map_or(0.0, |median| median * 1.483)
    }
}
