//! One Kalman filter: offset and frequency of the source against the raw clock, under one belief about wander and noise.
//!
//! A packet can be late and never early. With a round trip that is longer than the shortest by x, the offset is within ±x/2 of
//! what was measured, and nothing says where: the likelihood is flat between two edges, which are as soft as the floor and the
//! stamps are uncertain. The posterior is taken as the normal distribution with the same two moments. So a congested
//! path, whichever of both ways it is, says only what it knows, and biases nothing.

/// Points of the quadrature.
const POINTS: u32 = 48;
/// How many standard deviations of the prior, and how many widths of an edge, are looked at.
const REACH: f64 = 6.0;
/// Probability of a sample that is wrong in a way that nothing here describes.
const OUTLIER: f64 = 1e-5;
/// White noise of the frequency of the raw clock, as variance of the offset, in s²/s: the noise of reading it.
const PHASE_NOISE: f64 = 1e-19;

/// The offset, by one sample alone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edges {
    /// Not before.
    pub(super) low: f64,
    /// Not after.
    pub(super) high: f64,
    /// How sharp that is, in seconds.
    pub(super) softness: f64,
}

/// Offset and frequency, their covariance and how credible it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Model {
    /// Variance of the frequency that a second adds.
    pub(super) wander: f64,
    /// The part of the observed jitter that round trips do not explain.
    pub(super) noise: f64,
    pub(super) offset: f64,
    pub(super) frequency: f64,
    pub(super) offset_variance: f64,
    pub(super) covariance: f64,
    pub(super) frequency_variance: f64,
    /// Logarithm of the likelihood, older samples counting less.
    pub(super) credit: f64,
}

impl Model {
    pub(super) fn predict(&mut self, seconds: f64) {
        let t = seconds;
        self.offset += self.frequency * t;
        self.offset_variance += 2.0 * self.covariance * t
            + self.frequency_variance * t * t
            + self.wander * t * t * t / 3.0
            + PHASE_NOISE * t;
        self.covariance += self.frequency_variance * t + self.wander * t * t / 2.0;
        self.frequency_variance += self.wander * t;
    }

    /// The growth of the variance of the offset in this many seconds.
    pub(super) fn growth(&self, seconds: f64) -> f64 {
        let t = seconds;
        2.0 * self.covariance * t + self.frequency_variance * t * t + self.wander * t * t * t / 3.0
    }

    /// Takes a sample; gives its likelihood.
    pub(super) fn update(&mut self, edges: Edges) -> f64 {
        let deviation = self.offset_variance.sqrt();
        let soft = edges.softness.max(1e-10);
        let from = (self.offset - REACH * deviation).max(edges.low - REACH * soft);
        let to = (self.offset + REACH * deviation).min(edges.high + REACH * soft);
        if to <= from || deviation <= 0.0 {
            return OUTLIER;
        }
        let step = (to - from) / f64::from(POINTS);
        let (mut mass, mut first, mut second) = (0.0, 0.0, 0.0);
        for point in 0..=POINTS {
            let x = from + step * f64::from(point);
            let distance = (x - self.offset) / deviation;
            let weight = (-0.5 * distance * distance).exp()
                * edge((x - edges.low) / soft)
                * edge((edges.high - x) / soft);
            mass += weight;
            first += weight * distance;
            second += weight * distance * distance;
        }
        // For a normal distribution, the sum over the steps would be √(2π)·deviation / step.
        let likelihood = mass * step / (deviation * 2.506_628_274_631);
        if likelihood < OUTLIER {
            return OUTLIER;
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
}

/// From 0 to 1 around 0: the logistic function that is nearest to the normal distribution's.
fn edge(x: f64) -> f64 {
    1.0 / (1.0 + (-1.702 * x).exp())
}
