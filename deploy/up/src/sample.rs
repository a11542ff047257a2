//! Numbers about the services, from what they tell at their admin listeners.
//!
//! Pure: texts and values in, numbers out; the shell (`outpost up`) asks.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The sum of a counter or gauge over all of its label sets, from the text of `/metrics`.
pub fn total(metrics: &str, name: &str) -> Option<f64> {
    let mut sum = None;
    for line in metrics.lines() {
        let Some(rest) = line.strip_prefix(name) else {
            continue;
        };
        let value = match rest.strip_prefix('{') {
            Some(labelled) => after_labels(labelled),
            None => rest.strip_prefix(' '),
        };
        let number = value
            .and_then(|value| value.split_whitespace().next())
            .and_then(|word| word.parse::<f64>().ok());
        if let Some(number) = number {
            sum = Some(sum.unwrap_or(0.0) + number);
        }
    }
    sum
}

/// Returns the text after the closing brace; one inside a quoted value does not close.
fn after_labels(text: &str) -> Option<&str> {
    let mut quoted = false;
    let mut escaped = false;
    for (at, character) in text.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            '}' if !quoted => return text.get(at + 1..),
            _ => {}
        }
    }
    None
}

/// How fast a counter moves, over the last few samples.
#[derive(Clone, Debug, Default)]
pub struct Meter {
    samples: VecDeque<(Instant, f64)>,
}

impl Meter {
    /// Takes the counter's value at a time. A counter that went back belongs to a new process.
    pub fn add(&mut self, at: Instant, value: f64) {
        if self.samples.back().is_some_and(|(_, last)| value < *last) {
            self.samples.clear();
        }
        if self.samples.len() >= SAMPLES {
            self.samples.pop_front();
        }
        self.samples.push_back((at, value));
    }

    /// Forgets everything.
    pub fn reset(&mut self) {
        self.samples.clear();
    }

    /// The rate, once there are two samples.
    pub fn per_second(&self) -> Option<f64> {
        let (first, from) = self.samples.front()?;
        let (last, to) = self.samples.back()?;
        let span = last.saturating_duration_since(*first);
        (span > Duration::ZERO).then(|| (to - from) / span.as_secs_f64())
    }
}

/// Samples that a rate is taken over: two seconds' worth.
const SAMPLES: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_is_summed_over_its_labels() {
        let text = "\
# HELP x_queries_total Queries.
# TYPE x_queries_total counter
x_queries_total{proto=\"udp\",odd=\"a}b\\\"c\"} 7
x_queries_total{proto=\"tcp\"} 3 1700000000
x_queries_total_other 100
x_queries 1000
y_up 1
";
        assert_eq!(total(text, "x_queries_total"), Some(10.0));
        assert_eq!(total(text, "y_up"), Some(1.0));
        assert_eq!(total(text, "z"), None);
        assert_eq!(total("x{broken", "x"), None);
    }

    /// Some moment.
    #[expect(clippy::disallowed_methods, reason = "any moment will do")]
    fn moment() -> Instant {
        Instant::now()
    }

    #[test]
    fn a_rate_is_taken_over_the_last_samples() {
        let start = moment();
        let mut meter = Meter::default();
        assert_eq!(meter.per_second(), None);
        for n in 0..10_u32 {
            meter.add(start + Duration::from_millis(500) * n, f64::from(n) * 50.0);
        }
        assert_eq!(meter.per_second(), Some(100.0));
    }

    #[test]
    fn a_counter_that_starts_again_gives_no_negative_rate() {
        let start = moment();
        let mut meter = Meter::default();
        meter.add(start, 1_000.0);
        meter.add(start + Duration::from_secs(1), 10.0);
        assert_eq!(meter.per_second(), None);
        meter.add(start + Duration::from_secs(2), 30.0);
        assert_eq!(meter.per_second(), Some(20.0));
    }
}
