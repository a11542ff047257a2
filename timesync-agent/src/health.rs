//! The reports about the clock to healthd.
//!
//! Hands over the newest value without waiting; [`ClockReporter`] does the rest.

use std::time::Duration;

use api::timesync_agent::Reports;
use proto::clock::ClockReporter;
use proto::endpoint::Endpoint;
use proto::health as wire;

use time_model::labels;
use time_model::view::{ClockState, Leap, View};

/// How long healthd takes a report to hold: three of the reporter's refreshes.
const VALID: Duration = Duration::from_secs(30);

/// The way to healthd, where there is one.
#[derive(Debug)]
pub struct Health {
    reporter: Option<ClockReporter>,
    name: String,
}

impl Health {
    /// Tells this endpoint, under the name of the node; needs a tokio runtime.
    #[must_use]
    pub fn start(endpoint: Option<Endpoint>, name: String) -> Self {
        Self {
            reporter: endpoint.map(ClockReporter::start),
            name,
        }
    }

    /// Makes this the newest value. Never waits.
    pub fn tell(&self, view: &View) {
        if let Some(reporter) = &self.reporter {
            reporter.report(report(&self.name, view));
        }
    }

    /// The state of the reports; none when healthd gets none.
    #[must_use]
    pub fn reports(&self) -> Option<Reports> {
        let reporter = self.reporter.as_ref()?;
        let state = reporter.state();
        Some(Reports {
            connected: state.connected,
            reports: reporter.n_reports(),
            error: state.error,
        })
    }
}

fn report(name: &str, view: &View) -> wire::ClockReport {
    let tracking = &view.tracking;
    wire::ClockReport {
        reporter: name.to_owned(),
        state: state(view.state),
        offset: time_model::time::Span::from_seconds(tracking.correction).0,
        root_distance: Duration::try_from_secs_f64(labels::root_distance(view)).unwrap_or_default(),
        stratum: tracking.stratum,
        leap: leap(tracking.leap),
        n_sources: count(view.sources.len()),
        n_selectable: count(labels::n_selectable(view)),
        reference: labels::reference(view).unwrap_or_default(),
        valid: VALID,
    }
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

const fn state(state: ClockState) -> wire::ClockState {
    match state {
        ClockState::Unsynchronised => wire::ClockState::Unsynchronised,
        ClockState::Syncing => wire::ClockState::Syncing,
        ClockState::Locked => wire::ClockState::Locked,
        ClockState::Holdover => wire::ClockState::Holdover,
        ClockState::Local => wire::ClockState::Local,
    }
}

const fn leap(leap: Leap) -> wire::Leap {
    match leap {
        Leap::Normal => wire::Leap::Normal,
        Leap::Insert => wire::Leap::Insert,
        Leap::Delete => wire::Leap::Delete,
        Leap::Unsynchronised => wire::Leap::Unsynchronised,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use time_model::view::{SourceState, SourceView, Tracking};

    #[test]
    fn a_report_says_what_the_view_does() {
        let source = |name: &str, state| SourceView {
            name: name.to_owned(),
            state,
            ..SourceView::default()
        };
        let view = View {
            state: ClockState::Locked,
            tracking: Tracking {
                stratum: 3,
                correction: -12e-6,
                root_delay: 2e-3,
                root_dispersion: 0.5e-3,
                leap: Leap::Insert,
                ..Tracking::default()
            },
            sources: vec![
                source("a", SourceState::Combined),
                source("b", SourceState::Best),
                source("c", SourceState::Falseticker),
            ],
            ..View::default()
        };
        let report = report("master-0", &view);
        assert_eq!(report.offset, -12_000);
        assert_eq!(report.root_distance, Duration::from_micros(1_512));
        assert_eq!((report.n_sources, report.n_selectable), (3, 2));
        assert_eq!((report.reference.as_str(), report.stratum), ("b", 3));
        assert_eq!(
            (report.state, report.leap),
            (wire::ClockState::Locked, wire::Leap::Insert)
        );
    }

    #[test]
    fn no_number_spoils_a_report() {
        for root_dispersion in [f64::NAN, f64::INFINITY, -1.0, 1e300] {
            let view = View {
                tracking: Tracking {
                    root_dispersion,
                    correction: f64::NAN,
                    ..Tracking::default()
                },
                ..View::default()
            };
            assert_eq!(report("x", &view).root_distance, Duration::ZERO);
        }
    }
}
