//! The table of docs/time-accuracy.md: the engine in its scenarios, beside what chronyd 4.3 was measured to do in the same ones.
//!
//! ```text
//! cargo run --release -p ntp-sim --example accuracy [FIRST-SEED [SEEDS]]
//! ```

use std::io::{self, Write as _};

use ntp_sim::scenario::{self, POLLS, Scenario};
use ntp_sim::statistics::Summary;

/// chronyd in one scenario: seconds to 1 ms and to 100 µs, RMS and maximum of the offset in µs, RMS of the frequency in ppb,
/// requests. Where it was not measured, there is no number.
type Figures = [Option<f64>; 6];

fn main() -> io::Result<()> {
    let mut numbers = std::env::args()
        .skip(1)
        .filter_map(|word| word.parse().ok());
    let first: u64 = numbers.next().unwrap_or(101);
    let seeds = first..first + numbers.next().unwrap_or(9);
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "| scenario | polls | to 1 ms, s | to 100 µs, s | RMS, µs | max, µs | frequency, ppb | requests | RMS, of chronyd's |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    )?;
    for scenario in scenario::measured() {
        for poll in POLLS {
            row(
                &mut out,
                &scenario,
                poll,
                &seeds,
                chronyd(scenario.name, poll),
            )?;
        }
    }
    for scenario in scenario::adverse().into_iter().chain(scenario::endured()) {
        row(
            &mut out,
            &scenario,
            (4, 6),
            &seeds,
            chronyd(scenario.name, (4, 6)),
        )?;
    }
    Ok(())
}

fn row(
    out: &mut impl io::Write,
    scenario: &Scenario,
    poll: (i8, i8),
    seeds: &std::ops::Range<u64>,
    peer: Figures,
) -> io::Result<()> {
    let own = scenario::summary(scenario, poll, seeds.clone());
    let figures = figures(&own);
    write!(out, "| {} | {}–{} |", scenario.name, poll.0, poll.1)?;
    for (index, (own, peer)) in figures.iter().zip(peer).enumerate() {
        // Microseconds have a digit more: the smallest are below one.
        let digits = usize::from(index == 2);
        match peer {
            Some(peer) => write!(out, " **{own:.digits$}** / {peer:.digits$} |")?,
            None => write!(out, " **{own:.digits$}** |")?,
        }
    }
    match peer[2] {
        Some(peer) => writeln!(out, " {:.2} |", own.rms * 1e6 / peer),
        None => writeln!(out, " |"),
    }
}

fn figures(summary: &Summary) -> [f64; 6] {
    [
        summary.to_millisecond,
        summary.to_100_microseconds,
        summary.rms * 1e6,
        summary.max * 1e6,
        summary.frequency * 1e9,
        summary.packets,
    ]
}

/// chronyd 4.3 in clknetsim, median of nine seeds, as the document says.
fn chronyd(scenario: &str, poll: (i8, i8)) -> Figures {
    let all = |figures: [f64; 6]| figures.map(Some);
    let some =
        |to_millisecond, rms, max| [Some(to_millisecond), None, Some(rms), Some(max), None, None];
    match (scenario, poll) {
        ("A", (6, 10)) => all([5.0, 76.0, 123.7, 233.0, 99.0, 48.0]),
        ("A", (4, 6)) => all([5.0, 25.0, 21.6, 56.0, 97.0, 327.0]),
        ("A", (0, 3)) => all([1.0, 4.0, 10.0, 50.0, 372.0, 2498.0]),
        ("B", (6, 10)) => all([6.0, 77.0, 123.6, 234.0, 100.0, 48.0]),
        ("B", (4, 6)) => all([6.0, 25.0, 21.9, 56.0, 102.0, 327.0]),
        ("B", (0, 3)) => all([3.0, 4.0, 10.0, 50.0, 373.0, 2498.0]),
        ("C", (6, 10)) => all([6.0, 7.0, 8.2, 34.0, 47.0, 128.0]),
        ("C", (4, 6)) => all([6.0, 7.0, 3.5, 13.0, 50.0, 327.0]),
        ("C", (0, 3)) => all([3.0, 4.0, 1.2, 5.0, 62.0, 2499.0]),
        ("D", (6, 10)) => all([156.0, 1313.0, 463.0, 846.0, 205.0, 46.0]),
        ("D", (4, 6)) => all([59.0, 842.0, 183.0, 445.0, 487.0, 326.0]),
        ("D", (0, 3)) => all([7.0, 615.0, 209.0, 1342.0, 9060.0, 2485.0]),
        ("E", (6, 10)) => all([6.0, 77.0, 108.7, 411.0, 668.0, 141.0]),
        ("E", (4, 6)) => all([6.0, 25.0, 52.9, 151.0, 614.0, 328.0]),
        ("E", (0, 3)) => all([3.0, 4.0, 16.7, 96.0, 695.0, 2498.0]),
        ("F", (6, 10)) => all([7.0, 83.0, 120.6, 230.0, 62.0, 204.0]),
        ("F", (4, 6)) => all([7.0, 41.0, 22.8, 48.0, 51.0, 1309.0]),
        ("F", (0, 3)) => all([4.0, 5.0, 6.3, 19.0, 89.0, 9994.0]),
        ("G", (4, 6)) => some(6.0, 5.0, 17.0),
        ("H", (4, 6)) => some(57.0, 31.6, 75.0),
        ("I", (4, 6)) => some(6.0, 67.2, 220.0),
        ("J", (4, 6)) => some(10.0, 31.4, 81.0),
        _ => [None; 6],
    }
}
