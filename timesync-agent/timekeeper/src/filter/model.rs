//! One Kalman filter: offset and frequency of the source against the raw clock, under one belief about wander and noise.
//!
//! A packet can be late and never early. With a round trip that is longer than the shortest by x, the offset is within ±x/2 of
//! what was measured, and nothing says where: the likelihood is flat between two edges, which are as soft as the floor and the
//! stamps are uncertain. The posterior is taken as the normal distribution with the same two moments. So a congested
//! path, whichever of both ways it is, says only what it knows, and biases nothing.

use super::Estimate;

/// Points of the quadrature.
const POINTS: u32 = 48;
/// How many standard deviations of the prior, and how many widths of an edge, are looked at.
const REACH: f64 = 6.0;
/// And how far into a likelihood that falls: to e⁻¹² of it.
const TILT_REACH: f64 = 12.0;
/// The logistic function of this many times x is nearest to the normal distribution's.
const LOGISTIC: f64 = 1.702;
/// Probability of a sample that is wrong in a way that nothing here describes.
const OUTLIER: f64 = 1e-5;
/// White noise of the frequency of the raw clock, as variance of the offset, in s²/s: the noise of reading it.
const PHASE_NOISE: f64 = 1e-19;

/// Probability that the frequency jumps between two samples: the machine was moved to another one, or a fan came on.
const JUMP: f64 = 1e-5;
/// Standard deviation of such a jump.
const JUMP_SIZE: f64 = 10e-6;
/// A sample of this likelihood needs no jump to explain it.
const EXPLAINED: f64 = 0.5;
/// A jump this probable has happened.
const HAPPENED: f64 = 0.9;
/// One that is less probable is not worth its time.
const FORGOTTEN: f64 = 1e-9;

/// The offset, by one sample alone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edges {
    /// Not before.
    pub(super) low: f64,
    /// Not after.
    pub(super) high: f64,
    /// How sharp that is, in seconds.
    pub(super) softness: f64,
    /// How fast the likelihood falls from one edge to the other, per second: from the low one if this is above 0, from the high one
    /// if it is below.
    pub(super) tilt: f64,
}

impl Edges {
    /// The integral of the likelihood.
    pub(super) fn width(&self) -> f64 {
        let width = self.high - self.low;
        let flat = if width > 1e-3 * self.softness {
            width / (1.0 - (-LOGISTIC * width / self.softness).exp())
        } else {
            self.softness / LOGISTIC
        };
        let tilt = self.tilt.abs();
        if tilt * width < 1e-3 {
            return flat;
        }
        let outside = std::f64::consts::LN_2 * self.softness / LOGISTIC;
        flat.min((1.0 - (-tilt * width).exp()) / tilt + outside)
    }
}

impl Estimate {
    fn predict(&mut self, seconds: f64, wander: f64) {
        let t = seconds;
        self.offset += self.frequency * t;
        self.offset_variance += 2.0 * self.covariance * t
            + self.frequency_variance * t * t
            + wander * t * t * t / 3.0
            + PHASE_NOISE * t;
        self.covariance += self.frequency_variance * t + wander * t * t / 2.0;
        self.frequency_variance += wander * t;
    }

    /// The frequency jumped at any moment of the seconds past.
    fn jump(&mut self, seconds: f64) {
        let t = seconds;
        let size = JUMP_SIZE * JUMP_SIZE;
        self.offset_variance += size * t * t / 3.0;
        self.covariance += size * t / 2.0;
        self.frequency_variance += size;
    }

    fn growth(&self, seconds: f64, wander: f64) -> f64 {
        let t = seconds;
        2.0 * self.covariance * t + self.frequency_variance * t * t + wander * t * t * t / 3.0
    }

    /// Takes a sample; gives its likelihood. One that it does not explain changes nothing, and gives 0.
    fn update(&mut self, edges: Edges) -> f64 {
        let deviation = self.offset_variance.sqrt();
        let soft = edges.softness;
        let reach = REACH * soft;
        let mut from = (self.offset - REACH * deviation).max(edges.low - reach);
        let mut to = (self.offset + REACH * deviation).min(edges.high + reach);
        let tilt = edges.tilt.abs();
        if edges.tilt > 0.0 {
            to = to.min(edges.low + reach + TILT_REACH / tilt);
        } else if edges.tilt < 0.0 {
            from = from.max(edges.high - reach - TILT_REACH / tilt);
        }
        if to <= from || deviation <= 0.0 {
            return 0.0;
        }
        let step = (to - from) / f64::from(POINTS);
        let (mut mass, mut first, mut second) = (0.0, 0.0, 0.0);
        for point in 0..=POINTS {
            let x = from + step * f64::from(point);
            let distance = (x - self.offset) / deviation;
            let inside = if edges.tilt > 0.0 {
                x - edges.low
            } else {
                edges.high - x
            };
            let weight = (-0.5 * distance * distance - tilt * inside.max(0.0)).exp()
                * edge((x - edges.low) / soft)
                * edge((edges.high - x) / soft);
            mass += weight;
            first += weight * distance;
            second += weight * distance * distance;
        }
        // For a normal distribution, the sum over the steps would be √(2π)·deviation / step.
        let likelihood = mass * step / (deviation * 2.506_628_274_631);
        if likelihood < OUTLIER {
            return 0.0;
        }
        let mean = first / mass;
        let variance = (second / mass - mean * mean).clamp(1e-6, 1.0);
        self.condition(mean * deviation, variance);
        likelihood
    }

    /// The offset moves by `shift` and its variance becomes `part` of what it was; the frequency follows by correlation.
    fn condition(&mut self, shift: f64, part: f64) {
        let gain = self.covariance / self.offset_variance;
        self.offset += shift;
        self.frequency += gain * shift;
        let taken = (1.0 - part) * self.covariance * gain;
        self.frequency_variance = (self.frequency_variance - taken).max(1e-24);
        self.covariance *= part;
        self.offset_variance = (self.offset_variance * part).max(1e-22);
    }

    /// Adds `weight` parts of another one, which is `weight` of all.
    pub(super) fn mix(&mut self, other: &Self, weight: f64) {
        let (offset, frequency) = (other.offset - self.offset, other.frequency - self.frequency);
        let both = weight * (1.0 - weight);
        self.offset += weight * offset;
        self.frequency += weight * frequency;
        let mean = |own: f64, other: f64| own + weight * (other - own);
        self.offset_variance =
            mean(self.offset_variance, other.offset_variance) + both * offset * offset;
        self.covariance = mean(self.covariance, other.covariance) + both * offset * frequency;
        self.frequency_variance =
            mean(self.frequency_variance, other.frequency_variance) + both * frequency * frequency;
    }
}

/// Offset and frequency under one belief, and how credible it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Model {
    /// Variance of the frequency that a second adds.
    pub(super) wander: f64,
    /// The part of the observed jitter that round trips do not explain.
    pub(super) noise: f64,
    /// How one-sided the waiting is, in usual waits.
    pub(super) tilt: f64,
    /// As long as no jump of the frequency has happened lately.
    pub(super) steady: Estimate,
    /// If one has, and how probable that is.
    jumped: Option<(f64, Estimate)>,
    /// How credible it is before there are samples, as a logarithm. This is not forgotten.
    prior: f64,
    /// Logarithm of the likelihood, older samples counting less.
    pub(super) credit: f64,
}

impl Model {
    pub(super) fn new(wander: f64, noise: f64, tilt: f64, credit: f64, estimate: Estimate) -> Self {
        Self {
            wander: wander * wander,
            noise,
            tilt,
            steady: estimate,
            jumped: None,
            prior: credit,
            credit,
        }
    }

    /// The estimate this many seconds after the last sample.
    pub(super) fn estimate(&self, seconds: f64) -> Estimate {
        let mut estimate = self.steady;
        if let Some((chance, jumped)) = &self.jumped {
            estimate.mix(jumped, *chance);
        }
        estimate.predict(seconds, self.wander);
        estimate
    }

    /// The growth of the variance of the offset in this many seconds.
    pub(super) fn growth(&self, seconds: f64) -> f64 {
        self.estimate(0.0).growth(seconds, self.wander)
    }

    /// Does this to both estimates.
    pub(super) fn alter(&mut self, change: impl Fn(&mut Estimate)) {
        change(&mut self.steady);
        if let Some((_, jumped)) = &mut self.jumped {
            change(jumped);
        }
    }

    /// Takes a sample, this many seconds after the last one; gives its likelihood. A sample that is wrong may be anywhere in `width`,
    /// whatever is believed.
    pub(super) fn update(&mut self, edges: Edges, seconds: f64, memory: f64, width: f64) -> f64 {
        let chance = self.jumped.map_or(0.0, |(chance, _)| chance);
        let mut fresh = self.steady;
        self.steady.predict(seconds, self.wander);
        let likelihood = self.steady.update(edges);
        let mut explained = (1.0 - chance) * likelihood;
        let stayed = (1.0 - chance) * likelihood.max(OUTLIER);
        let mut happened = 0.0;
        if let Some((_, jumped)) = &mut self.jumped {
            jumped.predict(seconds, self.wander);
            let likelihood = jumped.update(edges);
            explained += chance * likelihood;
            happened = chance * likelihood.max(OUTLIER);
        }
        if likelihood < EXPLAINED {
            fresh.predict(seconds, self.wander);
            fresh.jump(seconds);
            let now = (1.0 - chance) * JUMP * fresh.update(edges);
            if now > happened {
                self.jumped = Some((0.0, fresh));
            }
            explained += now;
            happened += now;
        }
        let chance = happened / (stayed + happened);
        match &mut self.jumped {
            Some((_, jumped)) if chance > HAPPENED => {
                self.steady = *jumped;
                self.jumped = None;
            }
            Some(_) if chance < FORGOTTEN => self.jumped = None,
            Some((known, _)) => *known = chance,
            None => {}
        }
        let density = explained / edges.width() + OUTLIER / width;
        self.credit = self.prior + memory * (self.credit - self.prior) + density.ln();
        explained
    }
}

/// From 0 to 1 around 0.
fn edge(x: f64) -> f64 {
    1.0 / (1.0 + (-LOGISTIC * x).exp())
}
