//! Puts a recorded measurements log through the filter, and shows the timekeeper's results.
//!
//! Lines are chrony's `measurements.log`, which this agent writes, too. The recorded clock was corrected meanwhile by an
//! unknown amount: the replay takes it as it was, and its corrections are wander to the filter.

use std::collections::BTreeMap;
use std::net::IpAddr;

use thiserror::Error;

use ntp::association::reference_id;
use time_model::settings::Settings;
use time_model::time::{RawTime, Reading, SECOND, Span, UnixTime};
use time_model::view::{Leap, SourceView};
use timekeeper::{Sample, SourceId, Timekeeper, Verdict, Weighing};

/// Sources of one log. A log of more is none of a client.
const MAX_SOURCES: usize = 1024;
/// Columns of a line that are needed.
const COLUMNS: usize = 18;

/// A line of a log.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measurement {
    /// When, on the clock that was recorded.
    pub at: UnixTime,
    /// The server that answered.
    pub address: IpAddr,
    /// LI.
    pub leap: Leap,
    /// Its stratum.
    pub stratum: u8,
    /// All ten tests were passed.
    pub is_good: bool,
    /// Polling interval, as a power of two in seconds.
    pub poll: i8,
    /// In seconds; positive if the clock was slow.
    pub offset: f64,
    /// Round trip, in seconds.
    pub delay: f64,
    /// In seconds.
    pub dispersion: f64,
    /// In seconds.
    pub root_delay: f64,
    /// In seconds.
    pub root_dispersion: f64,
    /// The reference ID of the server.
    pub reference_id: u32,
}

/// Why a line is none of a measurements log.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LineError {
    /// There are too few columns.
    #[error("{n} columns instead of {COLUMNS} or more")]
    Columns {
        /// The number of samples.
        n: usize,
    },
    /// A column is not what it should be.
    #[error("{what} cannot be {text:?}")]
    Column {
        /// The source.
        what: &'static str,
        /// The value.
        text: String,
    },
    /// There are more sources than anybody has.
    #[error("more than {MAX_SOURCES} sources")]
    Sources,
}

impl Measurement {
    /// Reads a line; nothing of a heading or an empty line.
    ///
    /// # Errors
    ///
    /// The line is something else.
    pub fn parse(line: &str) -> Result<Option<Self>, LineError> {
        let line = line.trim();
        if line.is_empty() || line.starts_with("===") || line.starts_with("Date") {
            return Ok(None);
        }
        let columns: Vec<&str> = line.split_whitespace().collect();
        let [
            date,
            time,
            address,
            leap,
            stratum,
            one,
            two,
            three,
            poll,
            _,
            _,
            offset,
            delay,
            dispersion,
            root_delay,
            root_dispersion,
            reference_id,
            ..,
        ] = columns.as_slice()
        else {
            return Err(LineError::Columns { n: columns.len() });
        };
        if columns.len() < COLUMNS {
            return Err(LineError::Columns { n: columns.len() });
        }
        let leap = match *leap {
            "N" => Leap::Normal,
            "+" => Leap::Insert,
            "-" => Leap::Delete,
            "?" => Leap::Unsynchronised,
            other => return Err(wrong("leap", other)),
        };
        Ok(Some(Self {
            at: moment(date, time)?,
            address: number("address", address)?,
            leap,
            stratum: number("stratum", stratum)?,
            is_good: [one, two, three]
                .iter()
                .all(|tests| tests.bytes().all(|test| test == b'1')),
            poll: number("poll", poll)?,
            offset: seconds("offset", offset)?,
            delay: seconds("delay", delay)?,
            dispersion: seconds("dispersion", dispersion)?,
            root_delay: seconds("root delay", root_delay)?,
            root_dispersion: seconds("root dispersion", root_dispersion)?,
            reference_id: u32::from_str_radix(reference_id, 16)
                .map_err(|_| wrong("reference ID", reference_id))?,
        }))
    }
}

fn wrong(what: &'static str, text: &str) -> LineError {
    LineError::Column {
        what,
        text: text.to_owned(),
    }
}

fn number<T: std::str::FromStr>(what: &'static str, text: &str) -> Result<T, LineError> {
    text.parse().map_err(|_| wrong(what, text))
}

fn seconds(what: &'static str, text: &str) -> Result<f64, LineError> {
    let value: f64 = number(what, text)?;
    if value.is_finite() && value.abs() < 1e9 {
        Ok(value)
    } else {
        Err(wrong(what, text))
    }
}

/// `2016-11-09 05:40:50`, with a fraction or without.
fn moment(date: &str, time: &str) -> Result<UnixTime, LineError> {
    let day = || {
        let mut parts = date.split('-').map(str::parse::<i64>);
        let (year, month, day) = (
            parts.next()?.ok()?,
            parts.next()?.ok()?,
            parts.next()?.ok()?,
        );
        let is_date =
            (1970..2200).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
        (is_date && parts.next().is_none()).then(|| days(year, month, day))
    };
    let second = || {
        let (hours, rest) = time.split_once(':')?;
        let (minutes, seconds) = rest.split_once(':')?;
        let (hours, minutes): (u32, u32) = (hours.parse().ok()?, minutes.parse().ok()?);
        let seconds: f64 = seconds.parse().ok()?;
        let is_time = hours < 24 && minutes < 60 && (0.0..61.0).contains(&seconds);
        is_time.then(|| {
            Span(i64::from(hours * 60 + minutes) * 60 * SECOND) + Span::from_seconds(seconds)
        })
    };
    let day = day().ok_or_else(|| wrong("date", date))?;
    let second = second().ok_or_else(|| wrong("time", time))?;
    Ok(UnixTime(day * 86_400 * SECOND) + second)
}

/// Days since 1970-01-01 in the Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> i64 {
    // Years begin in March, so that the leap day is the last one.
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    365 * year + year / 4 - year / 100 + year / 400 + day_of_year - 719_468
}

/// The results for a source.
#[derive(Clone, Debug, Default)]
pub struct Replayed {
    /// As at the end of the log.
    pub view: SourceView,
    /// Lines of it.
    pub n_lines: u64,
    /// Lines that gave no sample, by the tests of who wrote the log or of the timekeeper.
    pub n_rejected: u64,
    /// Samples that contradicted what was known.
    pub n_contradictions: u64,
    /// Root mean square of what samples were off what the filter foretold, in seconds.
    pub prediction_error: f64,
    /// The same of those with a round trip below the average, which tell better.
    pub prediction_error_quick: f64,
}

#[derive(Debug, Default)]
struct Tally {
    n_lines: u64,
    n_rejected: u64,
    n_contradictions: u64,
    errors: Vec<(f64, f64)>,
}

/// A log as it is read.
#[derive(Debug)]
pub struct Replay {
    timekeeper: Timekeeper,
    sources: BTreeMap<IpAddr, (SourceId, Tally)>,
    now: Reading,
}

impl Replay {
    /// With these rules.
    #[must_use]
    pub fn new(settings: &Settings) -> Self {
        let now = Reading::default();
        let mut timekeeper = Timekeeper::new(settings, None, now);
        timekeeper.set_free_running(true);
        Self {
            timekeeper,
            sources: BTreeMap::new(),
            now,
        }
    }

    /// Takes a line.
    ///
    /// # Errors
    ///
    /// It is none of a measurements log.
    pub fn line(&mut self, line: &str) -> Result<(), LineError> {
        let Some(measurement) = Measurement::parse(line)? else {
            return Ok(());
        };
        let n = self.sources.len();
        if n == MAX_SOURCES && !self.sources.contains_key(&measurement.address) {
            return Err(LineError::Sources);
        }
        // No program corrects the recorded clock in a replay, and so it is the raw one, too.
        let raw = RawTime(measurement.at.0);
        self.now = Reading {
            raw,
            wall: measurement.at,
        };
        let timekeeper = &mut self.timekeeper;
        let (id, tally) = self.sources.entry(measurement.address).or_insert_with(|| {
            let id = SourceId(u32::try_from(n).unwrap_or(u32::MAX));
            let options = Weighing {
                minpoll: measurement.poll,
                maxpoll: measurement.poll,
                ..Weighing::default()
            };
            timekeeper.add_source(id, reference_id(measurement.address), options);
            (id, Tally::default())
        });
        tally.n_lines += 1;
        if !measurement.is_good {
            tally.n_rejected += 1;
            return Ok(());
        }
        let mut view = SourceView::default();
        timekeeper.source(*id, self.now, &mut view);
        let known = view.statistics.n_samples >= 4;
        let verdict = timekeeper.sample(*id, measurement.sample(raw), self.now);
        while timekeeper.poll_effect().is_some() {}
        match verdict {
            Verdict::Good | Verdict::Contradiction => {
                tally.n_contradictions += u64::from(verdict == Verdict::Contradiction);
                if known {
                    let error = measurement.offset - view.statistics.offset;
                    tally.errors.push((measurement.delay, error));
                }
            }
            _ => tally.n_rejected += 1,
        }
        Ok(())
    }

    /// The results for each source.
    #[must_use]
    pub fn finish(&self) -> Vec<Replayed> {
        self.sources
            .iter()
            .map(|(address, (id, tally))| {
                let mut view = SourceView {
                    name: address.to_string(),
                    address: Some(*address),
                    ..SourceView::default()
                };
                self.timekeeper.source(*id, self.now, &mut view);
                let mean = mean(tally.errors.iter().map(|(delay, _)| *delay));
                let all = tally.errors.iter().map(|(_, error)| error * error);
                let quick = tally.errors.iter().filter(|(delay, _)| *delay <= mean);
                Replayed {
                    view,
                    n_lines: tally.n_lines,
                    n_rejected: tally.n_rejected,
                    n_contradictions: tally.n_contradictions,
                    prediction_error: self::mean(all).sqrt(),
                    prediction_error_quick: self::mean(quick.map(|(_, e)| e * e)).sqrt(),
                }
            })
            .collect()
    }

    /// The same as a table.
    #[must_use]
    pub fn report(&self) -> String {
        let mut report = format!(
            "{:<39} {:>8} {:>8} {:>8} {:>11} {:>11} {:>11} {:>9}\n",
            "Source",
            "Lines",
            "Rejected",
            "Contrad.",
            "Deviation",
            "Prediction",
            "Quick pred.",
            "Skew ppm"
        );
        for source in self.finish() {
            let statistics = source.view.statistics;
            report.push_str(&format!(
                "{:<39} {:>8} {:>8} {:>8} {:>11.3e} {:>11.3e} {:>11.3e} {:>9.3}\n",
                source.view.name,
                source.n_lines,
                source.n_rejected,
                source.n_contradictions,
                statistics.deviation,
                source.prediction_error,
                source.prediction_error_quick,
                statistics.skew,
            ));
        }
        report
    }
}

impl Measurement {
    fn sample(&self, at: RawTime) -> Sample {
        Sample {
            at,
            ahead: Span::from_seconds(self.offset).0,
            delay: self.delay.max(0.0),
            dispersion: self.dispersion.max(0.0),
            root_delay: self.root_delay.max(0.0),
            root_dispersion: self.root_dispersion.max(0.0),
            stratum: self.stratum,
            leap: self.leap,
            reference_id: self.reference_id,
            reference_time: self.at,
            local_reference_id: 0,
        }
    }
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (n, sum) = values.fold((0.0, 0.0), |(n, sum), value| (n + 1.0, sum + value));
    if n > 0.0 { sum / n } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    const LINE: &str = "2014-10-13 05:40:50 203.0.113.15    N  2 111 111 1111  10 10 1.00 -4.966e-03  2.296e-01  1.577e-05  1.615e-01  7.446e-03 CB00717B 4B D K";

    #[test]
    fn the_line_of_chronys_manual_is_read() {
        let measurement = Measurement::parse(LINE).unwrap().unwrap();
        assert_eq!(measurement.at, UnixTime(1_413_178_850 * SECOND));
        assert_eq!(
            measurement.address,
            "203.0.113.15".parse::<IpAddr>().unwrap()
        );
        assert!(measurement.is_good);
        assert_eq!((measurement.stratum, measurement.poll), (2, 10));
        assert!((measurement.offset + 4.966e-3).abs() < 1e-12);
        assert_eq!(measurement.reference_id, 0xCB00_717B);
    }

    #[test]
    fn headings_are_nothing_and_the_rest_is_an_error() {
        for heading in ["", "=====", "   Date (UTC) Time     IP Address   L St 123"] {
            assert_eq!(Measurement::parse(heading), Ok(None));
        }
        for (old, new) in [
            ("2014-10-13", "2014-13-13"),
            ("05:40:50", "05:60:50"),
            ("203.0.113.15", "203.0.113"),
            (" N ", " M "),
            ("2.296e-01", "inf"),
            ("CB00717B", "XX"),
            (" 4B D K", ""),
        ] {
            let line = LINE.replacen(old, new, 1);
            assert!(Measurement::parse(&line).is_err(), "{line}");
        }
    }

    /// A log of a clock that gains 3 ppm, over a path with exponential jitter of 200 µs.
    fn log() -> String {
        let mut random = Random::new(5);
        let mut log = "=====\n".to_owned();
        for index in 0..300_i32 {
            let (there, back) = (random.exponential() * 2e-4, random.exponential() * 2e-4);
            let at = f64::from(index) * 16.0;
            let offset = -3e-6 * at + (there - back) / 2.0;
            let delay = 1e-3 + there + back;
            let tests = if index % 10 == 9 { "1110" } else { "1111" };
            let (hour, minute, second) = (index * 16 / 3600, index * 16 / 60 % 60, index * 16 % 60);
            log.push_str(&format!(
                "2026-01-02 {hour:02}:{minute:02}:{second:02} 192.0.2.1 N 1 111 111 {tests} 4 4 1.00 {offset:e} {delay:e} 1e-7 0.0 1e-6 47505300 4B K K\n"
            ));
        }
        log
    }

    #[test]
    fn what_the_filter_foretells_is_better_than_a_sample() {
        let mut replay = Replay::new(&Settings::default());
        for line in log().lines() {
            replay.line(line).unwrap();
        }
        let [source] = &replay.finish()[..] else {
            panic!()
        };
        assert_eq!((source.n_lines, source.n_rejected), (300, 30));
        assert_eq!(source.n_contradictions, 0);
        // Samples have a deviation of 141 µs; little can be added to that by what they are compared with.
        assert!(source.prediction_error < 160e-6, "{source:?}");
        assert!(source.prediction_error_quick < source.prediction_error);
        assert!((source.view.statistics.skew) < 0.5, "{source:?}");
        let gain = replay.timekeeper.drift().unwrap().ppm;
        assert!((gain - 3.0).abs() < 0.1, "{gain}");
        assert!(replay.report().contains("192.0.2.1"));
    }
}
