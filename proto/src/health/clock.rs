//! Reports of clocks between the generated messages and the typed values.

use std::time::Duration;

use super::{ClockReport, ClockState, HealthError, Leap};
use crate::wire;

/// How long a report holds when it does not say so.
const DEFAULT_VALID: Duration = Duration::from_secs(30);
/// The longest name of a reporter. It is shown, never parsed.
const MAX_NAME: usize = 64;
/// The highest stratum: unsynchronised (RFC 5905 figure 11).
const MAX_STRATUM: u32 = 16;

impl TryFrom<wire::ClockReport> for ClockReport {
    type Error = HealthError;

    fn try_from(report: wire::ClockReport) -> Result<Self, HealthError> {
        let reporter = report.reporter.clone();
        let length = reporter.chars().count();
        if length == 0 || length > MAX_NAME || reporter.chars().any(char::is_control) {
            return Err(HealthError::Reporter);
        }
        let stratum = u8::try_from(report.stratum.min(MAX_STRATUM)).unwrap_or(0);
        let reference = report.reference.chars();
        let reference = reference.filter(|letter| !letter.is_control());
        Ok(Self {
            reporter,
            state: report.state().into(),
            offset: report.offset_ns,
            root_distance: Duration::from_nanos(report.root_distance_ns),
            stratum,
            leap: report.leap().into(),
            n_sources: report.sources,
            n_selectable: report.selectable_sources,
            reference: reference.take(MAX_NAME).collect(),
            valid: match report.valid_ms {
                0 => DEFAULT_VALID,
                milliseconds => Duration::from_millis(milliseconds.into()),
            },
        })
    }
}

impl From<&ClockReport> for wire::ClockReport {
    fn from(report: &ClockReport) -> Self {
        Self {
            reporter: report.reporter.clone(),
            state: wire::ClockState::from(report.state).into(),
            offset_ns: report.offset,
            root_distance_ns: u64::try_from(report.root_distance.as_nanos()).unwrap_or(u64::MAX),
            stratum: report.stratum.into(),
            leap: wire::Leap::from(report.leap).into(),
            sources: report.n_sources,
            selectable_sources: report.n_selectable,
            reference: report.reference.clone(),
            valid_ms: u32::try_from(report.valid.as_millis()).unwrap_or(u32::MAX),
        }
    }
}

impl From<wire::ClockState> for ClockState {
    fn from(state: wire::ClockState) -> Self {
        match state {
            wire::ClockState::Unsynchronised => Self::Unsynchronised,
            wire::ClockState::Syncing => Self::Syncing,
            wire::ClockState::Locked => Self::Locked,
            wire::ClockState::Holdover => Self::Holdover,
            wire::ClockState::Local => Self::Local,
        }
    }
}

impl From<ClockState> for wire::ClockState {
    fn from(state: ClockState) -> Self {
        match state {
            ClockState::Unsynchronised => Self::Unsynchronised,
            ClockState::Syncing => Self::Syncing,
            ClockState::Locked => Self::Locked,
            ClockState::Holdover => Self::Holdover,
            ClockState::Local => Self::Local,
        }
    }
}

impl From<wire::Leap> for Leap {
    fn from(leap: wire::Leap) -> Self {
        match leap {
            wire::Leap::Normal => Self::Normal,
            wire::Leap::Insert => Self::Insert,
            wire::Leap::Delete => Self::Delete,
            wire::Leap::Unsynchronised => Self::Unsynchronised,
        }
    }
}

impl From<Leap> for wire::Leap {
    fn from(leap: Leap) -> Self {
        match leap {
            Leap::Normal => Self::Normal,
            Leap::Insert => Self::Insert,
            Leap::Delete => Self::Delete,
            Leap::Unsynchronised => Self::Unsynchronised,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> ClockReport {
        ClockReport {
            reporter: "master-0".to_owned(),
            state: ClockState::Holdover,
            offset: -1_250,
            root_distance: Duration::from_micros(900),
            stratum: 3,
            leap: Leap::Insert,
            n_sources: 4,
            n_selectable: 2,
            reference: "ntp.example.org".to_owned(),
            valid: Duration::from_secs(20),
        }
    }

    #[test]
    fn a_report_comes_over_the_wire_as_it_was() {
        let wire = wire::ClockReport::from(&report());
        assert_eq!(ClockReport::try_from(wire), Ok(report()));
        for state in ClockState::ALL {
            assert_eq!(ClockState::from(wire::ClockState::from(state)), state);
        }
    }

    #[test]
    fn who_reports_must_have_a_name_and_the_rest_has_a_meaning() {
        for reporter in [String::new(), "a\nb".to_owned(), "x".repeat(65)] {
            let wire = wire::ClockReport {
                reporter,
                ..wire::ClockReport::from(&report())
            };
            assert_eq!(ClockReport::try_from(wire), Err(HealthError::Reporter));
        }
        let later = wire::ClockReport {
            state: 99,
            leap: 99,
            stratum: 300,
            valid_ms: 0,
            reference: "a\u{7}b".to_owned(),
            ..wire::ClockReport::from(&report())
        };
        let read = ClockReport::try_from(later).unwrap();
        assert_eq!(read.state, ClockState::Unsynchronised);
        assert_eq!((read.leap, read.stratum), (Leap::Normal, 16));
        assert_eq!((read.valid, read.reference.as_str()), (DEFAULT_VALID, "ab"));
    }
}
