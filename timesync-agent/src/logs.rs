//! Lines of the logs that chrony writes, in its forms: whatever reads those reads these.
//!
//! Writes zero for numbers that chrony's filter has and this one has not (stress, the first sample that counts).

use std::net::IpAddr;

use daemon::calendar;

use ntp::engine::{Measurement, Record, ReferenceClockRecord};
use time_model::sample::root_distance;
use time_model::settings::{LogFile, LogSettings, reference_id_text};
use time_model::time::{SECOND, UnixTime};
use time_model::view::{Leap, SourceMode, SourceView, StampSource, Tracking};
use timekeeper::tempcomp::Reading;

/// A log: its file, and what stands above its columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Log {
    /// Responses of servers.
    Measurements,
    /// The result for each source at a selection.
    Selection,
    /// Updates of sources.
    Statistics,
    /// Updates of the clock.
    Tracking,
    /// Samples of reference clocks.
    Refclocks,
    /// Temperatures.
    Tempcomp,
}

impl Log {
    /// The name of its file.
    #[must_use]
    pub fn file(self) -> &'static str {
        match self {
            Self::Measurements => "measurements.log",
            Self::Selection => "selection.log",
            Self::Statistics => "statistics.log",
            Self::Tracking => "tracking.log",
            Self::Refclocks => "refclocks.log",
            Self::Tempcomp => "tempcomp.log",
        }
    }

    /// The names of its columns, between two lines.
    #[must_use]
    pub fn banner(self) -> String {
        let names = match self {
            Self::Measurements => {
                "   Date (UTC) Time     IP Address   L St 123 567 ABCD  LP RP Score    Offset  Peer del. Peer disp.  Root del. Root disp. Refid     MTxRx"
            }
            Self::Selection => {
                "   Date (UTC) Time     IP Address   S EOpts Reach Score Last sample  Low end   High end"
            }
            Self::Statistics => {
                "   Date (UTC) Time     IP Address    Std dev'n Est offset  Offset sd  Diff freq   Est skew  Stress  Ns  Bs  Nr  Asym"
            }
            Self::Tracking => {
                "   Date (UTC) Time     IP Address   St   Freq ppm   Skew ppm     Offset L Co  Offset sd Rem. corr. Root delay Root disp. Max. error"
            }
            Self::Refclocks => {
                "   Date (UTC) Time         Refid  DP L P  Raw offset   Cooked offset      Disp."
            }
            Self::Tempcomp => "   Date (UTC) Time          Temp.       Comp.",
        };
        let rule = "=".repeat(names.len());
        format!("{rule}\n{names}\n{rule}\n")
    }
}

/// The line that a record makes, at a moment, if it is wanted and makes one.
#[must_use]
pub fn line(record: &Record, settings: &LogSettings, now: UnixTime) -> Option<(Log, String)> {
    match record {
        Record::Measurement(measurement) => {
            let is_good = measurement.packet.tests == GOOD;
            let is_wanted = settings.has(LogFile::RawMeasurements)
                || (settings.has(LogFile::Measurements) && is_good);
            is_wanted.then(|| (Log::Measurements, measured(measurement)))
        }
        Record::Selection { view, age } => Some((Log::Selection, selection(view, *age, now))),
        Record::Statistics(view) => Some((Log::Statistics, statistics(view, now))),
        Record::Tracking(view) => Some((Log::Tracking, tracking(view, now))),
        Record::ReferenceClock(record) => Some((Log::Refclocks, reference_clock(record))),
        Record::Temperature(reading) => Some((Log::Tempcomp, temperature(reading, now))),
        Record::KissOfDeath { .. } | Record::Resolved { .. } | Record::Replaced { .. } => None,
    }
}

/// All of chrony's ten tests.
const GOOD: u16 = 0b11_1111_1111;

fn measured(measurement: &Measurement) -> String {
    let packet = &measurement.packet;
    let tests: Vec<char> = (0..10)
        .rev()
        .map(|bit| {
            if packet.tests & (1 << bit) == 0 {
                '0'
            } else {
                '1'
            }
        })
        .collect();
    let tests: String = match tests.as_slice() {
        [one, two, three, five, six, seven, rest @ ..] => {
            let rest: String = rest.iter().collect();
            format!("{one}{two}{three} {five}{six}{seven} {rest}")
        }
        _ => String::new(),
    };
    format!(
        "{} {:<15} {} {:2} {tests}  {:2} {:2} 1.00 {} {} {} {} {} {:08X} {}{} {} {}\n",
        moment(measurement.at),
        measurement.address.to_string(),
        leap(packet.leap),
        packet.stratum,
        measurement.poll,
        packet.poll,
        exponent(packet.offset),
        exponent(packet.delay),
        exponent(packet.dispersion),
        exponent(packet.root_delay),
        exponent(packet.root_dispersion),
        packet.reference_id,
        packet.mode,
        if packet.interleaved { 'I' } else { 'B' },
        letter(packet.transmit_stamp),
        letter(packet.receive_stamp),
    )
}

fn temperature(reading: &Reading, now: UnixTime) -> String {
    let [temperature, compensation] =
        [reading.temperature, reading.compensation].map(|number| scientific(number, 4));
    format!("{} {temperature:>11} {compensation:>11}\n", moment(now))
}

/// A source at a selection; `age` is that of its last sample, in seconds. Limits are of the local clock, as chrony has them.
fn selection(view: &SourceView, age: f64, now: UnixTime) -> String {
    let selection = &view.selection;
    let options = selection.effective;
    let letters = [
        (options.noselect, 'N'),
        (options.prefer, 'P'),
        (options.trust, 'T'),
        (options.require, 'R'),
    ];
    let letters = letters.map(|(is_set, letter)| if is_set { letter } else { '-' });
    // A source without samples has no values.
    let limit = |limit: f64| exponent(if limit.is_finite() { 0.0 - limit } else { 0.0 });
    format!(
        "{} {:<15} {} -{} {:4o} {:5.2} {} {} {}\n",
        moment(now),
        name(view.mode, view.address, view.reference_id),
        char::from(selection.reason.letter()),
        String::from_iter(letters),
        view.reach,
        selection.score,
        exponent(age),
        limit(selection.high),
        limit(selection.low),
    )
}

fn statistics(view: &SourceView, now: UnixTime) -> String {
    let statistics = &view.statistics;
    let asymmetry = view.packet.map_or(0.0, |packet| packet.jitter_asymmetry);
    format!(
        "{} {:<15} {} {} {} {} {} {} {:3} {:3} {:3} {asymmetry:5.2}\n",
        moment(now),
        name(view.mode, view.address, view.reference_id),
        exponent(statistics.deviation),
        exponent(statistics.offset),
        exponent(statistics.offset_error),
        exponent(statistics.frequency * 1e-6),
        exponent(statistics.skew * 1e-6),
        scientific(0.0, 1),
        statistics.n_samples,
        0,
        statistics.n_runs,
    )
}

fn tracking(tracking: &Tracking, now: UnixTime) -> String {
    let mode = match tracking.address {
        Some(_) => SourceMode::Server,
        None => SourceMode::ReferenceClock,
    };
    let error = root_distance(tracking.root_delay, tracking.root_dispersion);
    format!(
        "{} {:<15} {:2} {:10.3} {:10.3} {} {} {:2} {} {} {} {} {}\n",
        moment(now),
        name(mode, tracking.address, tracking.reference_id),
        tracking.stratum,
        tracking.frequency,
        tracking.skew,
        exponent(tracking.last_offset),
        leap(tracking.leap),
        u8::from(tracking.stratum != 0),
        exponent(tracking.rms_offset),
        exponent(tracking.correction),
        exponent(tracking.root_delay),
        exponent(tracking.root_dispersion),
        exponent(error + tracking.correction.abs()),
    )
}

fn reference_clock(record: &ReferenceClockRecord) -> String {
    let micros = record.at.0.rem_euclid(SECOND) / 1000;
    format!(
        "{}.{micros:06} {:<5}   - {} -       -       {} {}\n",
        moment(record.at),
        reference_id_text(record.reference_id),
        leap(record.leap),
        format_args!("{:>13}", scientific(record.offset, 6)),
        exponent(record.dispersion),
    )
}

fn name(mode: SourceMode, address: Option<IpAddr>, reference_id: u32) -> String {
    match (mode, address) {
        (SourceMode::Server | SourceMode::Peer, Some(address)) => address.to_string(),
        _ => reference_id_text(reference_id),
    }
}

fn leap(leap: Leap) -> char {
    match leap {
        Leap::Normal => 'N',
        Leap::Insert => '+',
        Leap::Delete => '-',
        Leap::Unsynchronised => '?',
    }
}

fn letter(source: StampSource) -> char {
    match source {
        StampSource::Daemon => 'D',
        StampSource::Kernel => 'K',
        StampSource::Hardware => 'H',
    }
}

/// As C's `%10.3e` has it.
fn exponent(value: f64) -> String {
    format!("{:>10}", scientific(value, 3))
}

/// As C's `%e` has it: an exponent with a sign and two digits at least.
fn scientific(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$e}");
    let Some((mantissa, exponent)) = text.split_once('e') else {
        return text;
    };
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ('-', exponent),
        None => ('+', exponent),
    };
    format!("{mantissa}e{sign}{exponent:0>2}")
}

/// A moment as logs have it: `2026-11-21 09:30:00`, in UTC.
fn moment(at: UnixTime) -> String {
    let seconds = u64::try_from(at.0.div_euclid(SECOND)).unwrap_or(0);
    let (year, month, day) = calendar::civil_date(seconds / 86_400);
    let second = seconds % 86_400;
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}",
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use time_model::settings::SelectOptions;
    use time_model::view::{PacketView, Reason, SelectionView, SourceStatistics};

    const AT: UnixTime = UnixTime(1_413_178_850_123_456_789);

    fn settings() -> LogSettings {
        LogSettings {
            write: [LogFile::Measurements].into(),
            ..LogSettings::default()
        }
    }

    #[test]
    fn numbers_are_written_as_c_does() {
        for (value, expected) in [
            (0.0, " 0.000e+00"),
            (-4.966e-3, "-4.966e-03"),
            (1.5e-100, "1.500e-100"),
            (12_345.0, " 1.234e+04"),
            (1.0, " 1.000e+00"),
        ] {
            assert_eq!(exponent(value), expected);
        }
    }

    #[test]
    fn measurements_stand_in_chronys_columns() {
        let mut measurement = Measurement {
            at: AT,
            address: "203.0.113.15".parse().unwrap(),
            poll: 10,
            packet: PacketView {
                leap: Leap::Normal,
                mode: 4,
                stratum: 2,
                poll: 10,
                offset: -4.966e-3,
                delay: 0.2296,
                dispersion: 1.577e-5,
                root_delay: 0.1615,
                root_dispersion: 7.446e-3,
                reference_id: 0xCB00_717B,
                tests: GOOD,
                receive_stamp: StampSource::Kernel,
                ..PacketView::default()
            },
        };
        let record = |measurement| Record::Measurement(Box::new(measurement));
        // The example of chrony.conf's manual.
        assert_eq!(
            line(&record(measurement), &settings(), AT),
            Some((
                Log::Measurements,
                "2014-10-13 05:40:50 203.0.113.15    N  2 111 111 1111  10 10 1.00 -4.966e-03  2.296e-01  1.577e-05  1.615e-01  7.446e-03 CB00717B 4B D K\n"
                    .to_owned()
            ))
        );
        measurement.packet.tests = GOOD & !0b1001;
        assert_eq!(line(&record(measurement), &settings(), AT), None);
        let raw = LogSettings {
            write: [LogFile::RawMeasurements].into(),
            ..LogSettings::default()
        };
        let (_, text) = line(&record(measurement), &raw, AT).unwrap();
        assert!(text.contains(" 111 111 0110  "), "{text}");
    }

    #[test]
    fn updates_stand_in_chronys_columns() {
        let view = SourceView {
            address: Some("203.0.113.15".parse().unwrap()),
            statistics: SourceStatistics {
                n_samples: 16,
                n_runs: 7,
                frequency: -0.1,
                skew: 0.2,
                offset: -1.5e-6,
                offset_error: 2e-6,
                deviation: 3e-6,
                ..SourceStatistics::default()
            },
            ..SourceView::default()
        };
        let (log, text) = line(&Record::Statistics(Box::new(view)), &settings(), AT).unwrap();
        assert_eq!(log, Log::Statistics);
        assert_eq!(
            text,
            "2014-10-13 05:40:50 203.0.113.15     3.000e-06 -1.500e-06  2.000e-06 -1.000e-07  2.000e-07 0.0e+00  16   0   7  0.00\n"
        );
        let view = Tracking {
            reference_id: 0x5050_5330,
            stratum: 1,
            frequency: -3.26,
            skew: 0.05,
            ..Tracking::default()
        };
        let (log, text) = line(&Record::Tracking(Box::new(view)), &settings(), AT).unwrap();
        assert_eq!(log, Log::Tracking);
        assert!(
            text.starts_with(
                "2014-10-13 05:40:50 PPS0             1     -3.260      0.050  0.000e+00 N  1 "
            ),
            "{text}"
        );
        let record = ReferenceClockRecord {
            at: AT,
            reference_id: 0x5050_5330,
            leap: Leap::Normal,
            offset: -4.54e-7,
            dispersion: 1.5e-7,
        };
        let (log, text) = line(&Record::ReferenceClock(Box::new(record)), &settings(), AT).unwrap();
        assert_eq!(log, Log::Refclocks);
        assert_eq!(
            text,
            "2014-10-13 05:40:50.123456 PPS0    - N -       -       -4.540000e-07  1.500e-07\n"
        );
        let reading = Reading {
            temperature: 26_500.0,
            compensation: -0.25,
        };
        let (log, text) = line(&Record::Temperature(reading), &settings(), AT).unwrap();
        assert_eq!(log, Log::Tempcomp);
        assert_eq!(text, "2014-10-13 05:40:50  2.6500e+04 -2.5000e-01\n");
    }

    #[test]
    fn a_selection_stands_in_chronys_columns() {
        let view = SourceView {
            address: Some("203.0.113.15".parse().unwrap()),
            reach: 0o377,
            selection: SelectionView {
                reason: Reason::Best,
                effective: SelectOptions {
                    trust: true,
                    ..SelectOptions::default()
                },
                score: 1.0,
                low: -1.239e-4,
                high: 1.575e-4,
                ..SelectionView::default()
            },
            ..SourceView::default()
        };
        let record = Record::Selection {
            view: Box::new(view),
            age: 42.28,
        };
        // The example of chrony.conf's manual, but for its options.
        let (log, text) = line(&record, &settings(), AT).unwrap();
        assert_eq!(log, Log::Selection);
        assert_eq!(
            text,
            "2014-10-13 05:40:50 203.0.113.15    * ---T-  377  1.00  4.228e+01 -1.575e-04  1.239e-04\n"
        );
    }

    #[test]
    fn banners_are_as_wide_as_their_names() {
        for log in [
            Log::Measurements,
            Log::Selection,
            Log::Statistics,
            Log::Tracking,
            Log::Refclocks,
            Log::Tempcomp,
        ] {
            let banner = log.banner();
            let lines: Vec<&str> = banner.lines().collect();
            assert_eq!(lines.len(), 3);
            assert!(lines.iter().all(|line| line.len() == lines[0].len()));
        }
    }
}
