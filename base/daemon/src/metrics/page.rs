//! Writes whole families of metrics, for a [`Collector`](prometheus_client::collector::Collector) that
//! reads its numbers at each scrape.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// Names and values of one sample.
pub type Labels = Vec<(&'static str, String)>;

/// Labels from what they borrow.
#[must_use]
pub fn labels(all: &[(&'static str, &str)]) -> Labels {
    all.iter()
        .map(|(name, value)| (*name, (*value).to_owned()))
        .collect()
}

/// A count as gauges have it.
#[expect(
    clippy::cast_precision_loss,
    reason = "exact up to 2^53, which counts here do not reach"
)]
#[must_use]
pub const fn float(value: u64) -> f64 {
    value as f64
}

/// One sample of a family of histograms.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    /// The sum of all that was observed.
    pub sum: f64,
    /// Upper bounds in ascending order, the last one infinite, and how many observations are above the bound
    /// before and not above this one.
    pub buckets: Vec<(f64, u64)>,
}

/// The page that a collector writes. A family appears with its first sample; one whose only sample has no
/// labels is a metric by itself.
pub struct Page<'a, 'e>(&'a mut DescriptorEncoder<'e>);

impl fmt::Debug for Page<'_, '_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Page").finish_non_exhaustive()
    }
}

impl<'a, 'e> Page<'a, 'e> {
    /// Writes to the encoder that the collector gets.
    pub fn new(encoder: &'a mut DescriptorEncoder<'e>) -> Self {
        Self(encoder)
    }

    /// A counter without labels; its name is given without `_total`, which is added.
    ///
    /// # Errors
    ///
    /// When nothing more can be written.
    pub fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        self.counters(name, help, vec![(Labels::new(), value)])
    }

    /// A gauge without labels.
    ///
    /// # Errors
    ///
    /// When nothing more can be written.
    pub fn gauge(&mut self, name: &str, help: &str, value: f64) -> fmt::Result {
        self.gauges(name, help, vec![(Labels::new(), value)])
    }

    /// A family of counters.
    ///
    /// # Errors
    ///
    /// When nothing more can be written.
    pub fn counters(&mut self, name: &str, help: &str, values: Vec<(Labels, u64)>) -> fmt::Result {
        let metrics = values.into_iter();
        let metrics = metrics.map(|(labels, value)| (labels, ConstCounter::new(value)));
        let metrics: Vec<_> = metrics.collect();
        self.all(name, help, MetricType::Counter, &metrics)
    }

    /// A family of counters that differ in one label.
    ///
    /// # Errors
    ///
    /// When nothing more can be written.
    pub fn labelled_counters(
        &mut self,
        name: &str,
        help: &str,
        label: &'static str,
        counts: &[(&str, &AtomicU64)],
    ) -> fmt::Result {
        let counts = counts
            .iter()
            .map(|(value, count)| (labels(&[(label, value)]), count.load(Ordering::Relaxed)));
        self.counters(name, help, counts.collect())
    }

    /// A family of counters that do not count in ones, as seconds do not.
    ///
    /// # Errors
    ///
    /// When nothing more can be written.
    pub fn float_counters(
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

    /// A family of gauges.
    ///
    /// # Errors
    ///
    /// When nothing more can be written.
    pub fn gauges(&mut self, name: &str, help: &str, values: Vec<(Labels, f64)>) -> fmt::Result {
        let metrics = values.into_iter();
        let metrics = metrics.map(|(labels, value)| (labels, ConstGauge::new(value)));
        let metrics: Vec<_> = metrics.collect();
        self.all(name, help, MetricType::Gauge, &metrics)
    }

    /// A family of histograms.
    ///
    /// # Errors
    ///
    /// When nothing more can be written.
    pub fn histograms(
        &mut self,
        name: &str,
        help: &str,
        values: Vec<(Labels, Histogram)>,
    ) -> fmt::Result {
        if values.is_empty() {
            return Ok(());
        }
        let kind = MetricType::Histogram;
        let mut encoder = self.0.encode_descriptor(name, help, None, kind)?;
        for (labels, Histogram { sum, buckets }) in values {
            let count = buckets.iter().map(|(_, count)| count).sum();
            let mut family = encoder.encode_family(&labels)?;
            family.encode_histogram::<Labels>(sum, count, &buckets, None)?;
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

#[cfg(test)]
mod tests {
    use prometheus_client::collector::Collector;

    use super::*;
    use crate::metrics::{Exposition, Metrics};

    #[derive(Debug)]
    struct Example;

    impl Collector for Example {
        fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
            let mut page = Page::new(&mut encoder);
            page.counter("a", "A counter", 1)?;
            page.gauge("b", "A gauge", float(2))?;
            page.counters("c", "Nothing yet", Vec::new())?;
            page.float_counters("d", "Seconds", vec![(labels(&[("of", "x")]), 0.5)])?;
            let of = |name| labels(&[("of", name)]);
            page.gauges("e", "Two", vec![(of("x"), 3.0), (of("y"), 4.0)])?;
            let buckets = vec![(1.0, 2), (f64::INFINITY, 1)];
            let observed = Histogram { sum: 9.5, buckets };
            page.histograms("f", "Times", vec![(of("x"), observed)])?;
            page.histograms("g", "No times", Vec::new())
        }
    }

    #[test]
    fn families_are_written_as_scrapers_read_them() {
        let metrics = Metrics::new("example");
        metrics.register_collector(Box::new(Example));
        let text = metrics.encode(Exposition::Prometheus);
        for line in [
            "a_total 1",
            "b 2.0",
            "d_total{of=\"x\"} 0.5",
            "e{of=\"x\"} 3.0",
            "e{of=\"y\"} 4.0",
            "f_sum{of=\"x\"} 9.5",
            "f_count{of=\"x\"} 3",
            "f_bucket{le=\"1.0\",of=\"x\"} 2",
            "f_bucket{le=\"+Inf\",of=\"x\"} 3",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        for absent in ["# HELP c", "# HELP g"] {
            assert!(!text.contains(absent), "{text}");
        }
    }
}
