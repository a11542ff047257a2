//! Writes families of metrics.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use super::tally::{Distribution, SECONDS, SIZES};

/// Names and values of one sample.
pub type Labels = Vec<(&'static str, String)>;

/// One value of a counter or gauge.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The family's name; a counter's without `_total`.
    pub name: &'static str,
    /// What it means.
    pub help: &'static str,
    /// Which of the family it is.
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

/// What is written to.
pub(super) struct Page<'a, 'e>(pub(super) &'a mut DescriptorEncoder<'e>);

/// What a histogram counts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Seconds,
    Bytes,
}

impl Page<'_, '_> {
    /// Writes samples; those of one name stand together.
    pub(super) fn samples(&mut self, samples: &[Sample]) -> fmt::Result {
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
            self.counters(name, help, counters)?;
            self.gauges(name, help, gauges)?;
        }
        Ok(())
    }

    pub(super) fn counters(
        &mut self,
        name: &str,
        help: &str,
        values: Vec<(Labels, u64)>,
    ) -> fmt::Result {
        let metrics = values.into_iter();
        let metrics = metrics.map(|(labels, value)| (labels, ConstCounter::new(value)));
        let metrics: Vec<_> = metrics.collect();
        self.all(name, help, MetricType::Counter, &metrics)
    }

    pub(super) fn gauges(
        &mut self,
        name: &str,
        help: &str,
        values: Vec<(Labels, f64)>,
    ) -> fmt::Result {
        let metrics = values.into_iter();
        let metrics = metrics.map(|(labels, value)| (labels, ConstGauge::new(value)));
        let metrics: Vec<_> = metrics.collect();
        self.all(name, help, MetricType::Gauge, &metrics)
    }

    pub(super) fn histograms(
        &mut self,
        name: &str,
        help: &str,
        unit: Unit,
        values: Vec<(Labels, Distribution)>,
    ) -> fmt::Result {
        if values.is_empty() {
            return Ok(());
        }
        let kind = MetricType::Histogram;
        let mut encoder = self.0.encode_descriptor(name, help, None, kind)?;
        let mut bounds: Vec<f64> = match unit {
            Unit::Seconds => SECONDS.to_vec(),
            Unit::Bytes => (0..SIZES).map(|n| float(1024 << n)).collect(),
        };
        bounds.push(f64::INFINITY);
        for (labels, distribution) in values {
            let buckets = bounds.iter().copied().zip(distribution.buckets);
            let buckets: Vec<(f64, u64)> = buckets.collect();
            let sum = match unit {
                Unit::Seconds => float(distribution.sum) / 1e6,
                Unit::Bytes => float(distribution.sum),
            };
            let mut family = encoder.encode_family(&labels)?;
            family.encode_histogram::<Labels>(sum, distribution.count(), &buckets, None)?;
        }
        Ok(())
    }

    fn all<M: EncodeMetric>(
        &mut self,
        name: &str,
        help: &str,
        kind: MetricType,
        metrics: &[(Labels, M)],
    ) -> fmt::Result {
        // A family appears with its first sample.
        if metrics.is_empty() {
            return Ok(());
        }
        let mut encoder = self.0.encode_descriptor(name, help, None, kind)?;
        if let [(labels, metric)] = metrics
            && labels.is_empty()
        {
            return metric.encode(encoder);
        }
        for (labels, metric) in metrics {
            metric.encode(encoder.encode_family(labels)?)?;
        }
        Ok(())
    }
}

/// Labels from names and values.
#[must_use]
pub fn labels(all: &[(&'static str, &str)]) -> Labels {
    all.iter()
        .map(|(name, value)| (*name, (*value).to_owned()))
        .collect()
}

#[expect(
    clippy::cast_precision_loss,
    reason = "exact up to 2^53, which counts here do not reach"
)]
pub(super) fn float(value: u64) -> f64 {
    value as f64
}
