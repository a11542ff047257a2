//! A site that nothing breaks, for long: what its services grow by.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::binaries::SERVICES;

use super::Rig;
use super::faults::Fault;
use super::site::NODES;
use super::table::{Row, Table};

/// How long a row is.
const STEP: Duration = Duration::from_secs(60);

/// The first part of the samples counts for nothing: a service that has just started fills what it keeps.
const WARM_UP: f64 = 0.25;

/// Serves clients for a number of minutes. The text has what each service grew by in an hour, the largest of the nodes.
///
/// # Panics
///
/// Panics if the site does not start.
#[must_use]
pub fn soak(minutes: u32, mut show: impl FnMut(&Row)) -> (Table, String) {
    let mut rig = Rig::start();
    let control = Control::start();
    let begun = Instant::now();
    let mut samples: BTreeMap<(&str, usize), Vec<(f64, f64)>> = BTreeMap::new();
    for _ in 0..minutes {
        let row = rig.strike(Fault::Nothing, STEP);
        show(&row);
        rig.table.rows.push(row);
        let at = begun.elapsed().as_secs_f64() / 3600.0;
        for (number, node) in rig.site.nodes.iter().enumerate() {
            for service in SERVICES {
                if let Some(resident) = node.status(service, "VmRSS") {
                    let of_service = samples.entry((service, number)).or_default();
                    of_service.push((at, as_number(resident)));
                }
            }
        }
    }
    let mut text = String::from(
        "| service | KiB at the start | at the end | KiB an hour |\n| --- | --- | --- | --- |\n",
    );
    for service in SERVICES {
        let nodes = (0..NODES.len()).filter_map(|number| samples.get(&(service, number)));
        let slopes = nodes.map(|samples| (slope(samples), samples));
        let largest = slopes.max_by(|(one, _), (other, _)| one.total_cmp(other));
        if let Some((slope, samples)) = largest
            && let (Some((_, first)), Some((_, last))) = (samples.first(), samples.last())
        {
            text += &format!("| {service} | {first:.0} | {last:.0} | {slope:+.0} |\n");
        }
    }
    text += &format!(
        "the machine itself stood still for at most {} ms",
        control.stop()
    );
    (rig.stop(), text)
}

/// The slope of a line through the samples after the warm-up, by least squares.
fn slope(samples: &[(f64, f64)]) -> f64 {
    let end = samples.last().map_or(0.0, |(at, _)| *at);
    let late = samples.iter().filter(|(at, _)| *at >= end * WARM_UP);
    let n = as_number(late.clone().count() as u64);
    let mean = |pick: fn(&(f64, f64)) -> f64| late.clone().map(pick).sum::<f64>() / n;
    let (x, y) = (mean(|sample| sample.0), mean(|sample| sample.1));
    let together: f64 = late.clone().map(|(at, size)| (at - x) * (size - y)).sum();
    let alone: f64 = late.map(|(at, _)| (at - x).powi(2)).sum();
    together / alone
}

#[expect(
    clippy::cast_precision_loss,
    reason = "kibibytes and minutes are small"
)]
fn as_number(count: u64) -> f64 {
    count as f64
}

/// Does nothing but look at the clock: what it misses, all missed.
struct Control {
    stop: Arc<AtomicBool>,
    longest: Arc<AtomicU64>,
}

impl Control {
    fn start() -> Self {
        let control = Self {
            stop: Arc::default(),
            longest: Arc::default(),
        };
        let (stop, longest) = (Arc::clone(&control.stop), Arc::clone(&control.longest));
        std::thread::spawn(move || {
            let step = Duration::from_millis(10);
            while !stop.load(Ordering::Relaxed) {
                let begun = Instant::now();
                std::thread::sleep(step);
                let late = begun.elapsed().saturating_sub(step).as_millis();
                longest.fetch_max(late as u64, Ordering::Relaxed);
            }
        });
        control
    }

    /// The longest pause, in milliseconds.
    fn stop(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.longest.load(Ordering::Relaxed)
    }
}
