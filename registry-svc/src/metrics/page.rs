//! Samples of the registry's parts, and its histograms, as families of metrics.

use std::fmt;

use daemon::metrics::{Histogram, Labels, Page, float};
use registry_histogram::{Distribution, SECONDS, SIZES};

/// One value of a counter or gauge.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The family's name; a counter's without `_total`.
    pub name: &'static str,
    /// The help text.
    pub help: &'static str,
    /// The labels of the sample.
    pub labels: Labels,
    /// How much.
    pub value: Value,
}

/// How much.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// Grows for as long as the process lives.
    Counter(u64),
    /// Is as it is.
    Gauge(f64),
}

impl Sample {
    /// One of a counter.
    #[must_use]
    pub fn counter(name: &'static str, help: &'static str, labels: Labels, value: u64) -> Self {
        Self {
            name,
            help,
            labels,
            value: Value::Counter(value),
        }
    }

    /// One of a gauge.
    #[must_use]
    pub fn gauge(name: &'static str, help: &'static str, labels: Labels, value: f64) -> Self {
        Self {
            name,
            help,
            labels,
            value: Value::Gauge(value),
        }
    }

    /// One of a gauge that counts things.
    #[must_use]
    pub fn count(name: &'static str, help: &'static str, labels: Labels, value: u64) -> Self {
        Self::gauge(name, help, labels, float(value))
    }
}

/// The unit of a histogram.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Seconds,
    Bytes,
}

/// Writes samples; those of one name stand together.
pub(super) fn samples(page: &mut Page<'_, '_>, samples: &[Sample]) -> fmt::Result {
    for family in samples.chunk_by(|a, b| a.name == b.name) {
        let Some(Sample { name, help, .. }) = family.first() else {
            continue;
        };
        let (mut counters, mut gauges) = (Vec::new(), Vec::new());
        for sample in family {
            match sample.value {
                Value::Counter(value) => counters.push((sample.labels.clone(), value)),
                Value::Gauge(value) => gauges.push((sample.labels.clone(), value)),
            }
        }
        page.counters(name, help, counters)?;
        page.gauges(name, help, gauges)?;
    }
    Ok(())
}

/// The counts of a distribution, with its bounds.
pub(super) fn histogram(distribution: &Distribution, unit: Unit) -> Histogram {
    let mut bounds: Vec<f64> = match unit {
        Unit::Seconds => SECONDS.to_vec(),
        Unit::Bytes => (0..SIZES).map(|n| float(1024 << n)).collect(),
    };
    bounds.push(f64::INFINITY);
    Histogram {
        sum: match unit {
            Unit::Seconds => float(distribution.sum) / 1e6,
            Unit::Bytes => float(distribution.sum),
        },
        buckets: bounds.into_iter().zip(distribution.buckets).collect(),
    }
}
