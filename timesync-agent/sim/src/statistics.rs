//! How good a clock was.

use super::{HostId, Observer};
use time_model::time::Span;

/// A clock, once a second.
#[derive(Clone, Debug, Default)]
pub struct Record {
    host: HostId,
    offsets: Vec<f64>,
    frequencies: Vec<f64>,
    /// When it was stepped, and by how much.
    pub steps: Vec<(f64, Span)>,
}

/// How good it was.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Summary {
    /// Second from which it was within a millisecond for ten minutes.
    pub to_millisecond: f64,
    /// Second from which it was within 100 µs for two minutes.
    pub to_100_microseconds: f64,
    /// Root mean square of the offset, in seconds, once settled.
    pub rms: f64,
    /// The largest offset, in seconds, once settled.
    pub max: f64,
    /// Root mean square of the frequency, once settled.
    pub frequency: f64,
    /// Requests.
    pub packets: f64,
}

impl Record {
    /// A record of this host.
    #[must_use]
    pub fn new(host: HostId) -> Self {
        Self {
            host,
            ..Self::default()
        }
    }

    /// The offset at each second, from 1 on.
    #[must_use]
    pub fn offsets(&self) -> &[f64] {
        &self.offsets
    }

    /// `settled`: the second from which on it counts.
    #[must_use]
    pub fn summary(&self, settled: usize, packets: u64) -> Summary {
        let offsets = self.offsets.get(settled..).unwrap_or_default();
        let frequencies = self.frequencies.get(settled..).unwrap_or_default();
        #[expect(clippy::cast_precision_loss, reason = "a simulation is short")]
        let packets = packets as f64;
        Summary {
            to_millisecond: self.first_within(1e-3, 600),
            to_100_microseconds: self.first_within(1e-4, 120),
            rms: root_mean_square(offsets),
            max: offsets.iter().fold(0.0, |max: f64, x| max.max(x.abs())),
            frequency: root_mean_square(frequencies),
            packets,
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "a simulation is short")]
    fn first_within(&self, bound: f64, window: usize) -> f64 {
        let mut inside = 0;
        for (index, offset) in self.offsets.iter().enumerate() {
            inside = if offset.abs() < bound { inside + 1 } else { 0 };
            if inside == window {
                return (index + 2 - window) as f64;
            }
        }
        f64::INFINITY
    }
}

impl Observer for Record {
    fn second(&mut self, _now: f64, host: HostId, offset: f64, frequency: f64) {
        if host == self.host {
            self.offsets.push(offset);
            self.frequencies.push(frequency);
        }
    }

    fn stepped(&mut self, now: f64, host: HostId, span: Span) {
        if host == self.host {
            self.steps.push((now, span));
        }
    }
}

/// The median of each.
#[must_use]
pub fn median(runs: &[Summary]) -> Summary {
    let of = |field: fn(&Summary) -> f64| {
        let mut values: Vec<f64> = runs.iter().map(field).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
    };
    Summary {
        to_millisecond: of(|run| run.to_millisecond),
        to_100_microseconds: of(|run| run.to_100_microseconds),
        rms: of(|run| run.rms),
        max: of(|run| run.max),
        frequency: of(|run| run.frequency),
        packets: of(|run| run.packets),
    }
}

#[expect(clippy::cast_precision_loss, reason = "a simulation is short")]
fn root_mean_square(values: &[f64]) -> f64 {
    let squares: f64 = values.iter().map(|x| x * x).sum();
    (squares / values.len().max(1) as f64).sqrt()
}
