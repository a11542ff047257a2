//! Writes families of metrics.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// Names and values of one sample.
pub(super) type Labels = Vec<(&'static str, String)>;

/// What is written to.
pub(super) struct Page<'a, 'e>(pub(super) &'a mut DescriptorEncoder<'e>);

impl Page<'_, '_> {
    pub(super) fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        self.counters(name, help, vec![(Vec::new(), value)])
    }

    pub(super) fn gauge(&mut self, name: &str, help: &str, value: f64) -> fmt::Result {
        self.gauges(name, help, vec![(Vec::new(), value)])
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

    pub(super) fn float_counters(
        &mut self,
        name: &str,
        help: &str,
        values: Vec<(Labels, f64)>,
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

pub(super) fn labels(all: &[(&'static str, &str)]) -> Labels {
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
