//! A view as text, for status, the page, logs and healthd alike.

use crate::sample;
use crate::time::RawTime;
use crate::view::{ClockState, Leap, SourceMode, SourceState, View};

/// The name of a state in status and metrics.
#[must_use]
pub const fn state(state: ClockState) -> &'static str {
    match state {
        ClockState::Unsynchronised => "unsynchronised",
        ClockState::Syncing => "syncing",
        ClockState::Locked => "locked",
        ClockState::Holdover => "holdover",
        ClockState::Local => "local",
    }
}

/// All states, in the order of their numbers in metrics.
pub const STATES: [ClockState; 5] = [
    ClockState::Unsynchronised,
    ClockState::Syncing,
    ClockState::Locked,
    ClockState::Holdover,
    ClockState::Local,
];

/// The result of selection for a source.
#[must_use]
pub const fn source_state(state: SourceState) -> &'static str {
    match state {
        SourceState::Unselectable => "unselectable",
        SourceState::Falseticker => "falseticker",
        SourceState::TooVariable => "too variable",
        SourceState::Outlier => "outlier",
        SourceState::Combined => "combined",
        SourceState::Best => "best",
    }
}

/// All states of sources, from the worst to the best.
pub const SOURCE_STATES: [SourceState; 6] = [
    SourceState::Unselectable,
    SourceState::Falseticker,
    SourceState::TooVariable,
    SourceState::Outlier,
    SourceState::Combined,
    SourceState::Best,
];

/// A leap second at hand, as chronyc says it.
#[must_use]
pub const fn leap(leap: Leap) -> &'static str {
    match leap {
        Leap::Normal => "normal",
        Leap::Insert => "insert second",
        Leap::Delete => "delete second",
        Leap::Unsynchronised => "not synchronised",
    }
}

/// The kind of a source.
#[must_use]
pub const fn mode(mode: SourceMode) -> &'static str {
    match mode {
        SourceMode::Server => "server",
        SourceMode::Peer => "peer",
        SourceMode::ReferenceClock => "reference clock",
    }
}

/// Bound on the error of the clock, in seconds: its root distance, and what is left to be corrected.
#[must_use]
pub fn root_distance(view: &View) -> f64 {
    let tracking = &view.tracking;
    sample::root_distance(tracking.root_delay, tracking.root_dispersion) + tracking.correction.abs()
}

/// Sources that are followed, or could be.
#[must_use]
pub fn n_selectable(view: &View) -> usize {
    let selectable = |state| {
        matches!(
            state,
            SourceState::Best | SourceState::Combined | SourceState::Outlier
        )
    };
    view.sources
        .iter()
        .filter(|source| selectable(source.state))
        .count()
}

/// The name of the system peer: the configured name if there is one.
#[must_use]
pub fn reference(view: &View) -> Option<String> {
    let best = view
        .sources
        .iter()
        .find(|source| source.state == SourceState::Best);
    let address = view.tracking.address.map(|address| address.to_string());
    match view.state {
        ClockState::Locked | ClockState::Syncing => {
            best.map(|source| source.name.clone()).or(address)
        }
        ClockState::Unsynchronised | ClockState::Holdover | ClockState::Local => None,
    }
}

/// Whether clients are given time that they may follow.
#[must_use]
pub fn is_ready(view: &View) -> bool {
    let is_known = view.tracking.stratum > 0 && view.tracking.stratum < 16;
    is_known && view.tracking.leap != Leap::Unsynchronised
}

/// How good the time is, in a few words: `locked to ntp.example.org, stratum 3`.
#[must_use]
pub fn summary(view: &View) -> String {
    let mut text = state(view.state).to_owned();
    if let Some(reference) = reference(view) {
        text.push_str(" to ");
        text.push_str(&reference);
    }
    if is_ready(view) {
        text.push_str(&format!(", stratum {}", view.tracking.stratum));
    }
    text
}

//--- Quantities

/// An offset with its sign, in the unit that fits: `-12.000 µs`.
#[must_use]
pub fn offset(seconds: f64) -> String {
    let (value, unit) = scaled(seconds);
    format!("{value:+.3} {unit}")
}

/// A duration without a sign: `1.250 ms`.
#[must_use]
pub fn seconds(seconds: f64) -> String {
    let (value, unit) = scaled(seconds);
    format!("{value:.3} {unit}")
}

fn scaled(seconds: f64) -> (f64, &'static str) {
    match seconds.abs() {
        size if size < 999.5e-9 => (seconds * 1e9, "ns"),
        size if size < 999.5e-6 => (seconds * 1e6, "µs"),
        size if size < 999.5e-3 => (seconds * 1e3, "ms"),
        _ => (seconds, "s"),
    }
}

/// A polling interval: `64 s`, `1/4 s`.
#[must_use]
pub fn poll(poll: i8) -> String {
    match u32::try_from(poll) {
        Ok(power) => format!("{} s", 1_u64.checked_shl(power).unwrap_or(u64::MAX)),
        Err(_) => format!("1/{} s", 1_u64 << poll.unsigned_abs().min(63)),
    }
}

/// How long ago something was: `17 s`, or `-` when it never was.
#[must_use]
pub fn age(at: Option<RawTime>, now: RawTime) -> String {
    at.map_or_else(
        || "-".to_owned(),
        |at| format!("{:.0} s", (now - at).seconds().max(0.0)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::SECOND;
    use crate::view::{SourceView, Tracking};

    #[test]
    fn quantities_have_the_unit_that_fits() {
        for (value, words) in [
            (0.0, "+0.000 ns"),
            (-1.5e-9, "-1.500 ns"),
            (12e-6, "+12.000 µs"),
            (-0.25, "-250.000 ms"),
            (217_394_291.877, "+217394291.877 s"),
        ] {
            assert_eq!(offset(value), words);
        }
        assert_eq!(seconds(1.25e-3), "1.250 ms");
        for (power, words) in [(6, "64 s"), (0, "1 s"), (-2, "1/4 s"), (24, "16777216 s")] {
            assert_eq!(poll(power), words);
        }
        assert_eq!(age(Some(RawTime(0)), RawTime(17 * SECOND)), "17 s");
        assert_eq!(age(None, RawTime(0)), "-");
    }

    fn view(state: ClockState, stratum: u8, leap: Leap) -> View {
        let mut view = View {
            state,
            tracking: Tracking {
                stratum,
                leap,
                address: "192.0.2.1".parse().ok(),
                ..Tracking::default()
            },
            ..View::default()
        };
        view.sources.push(SourceView {
            name: "ntp.example.org".to_owned(),
            state: SourceState::Best,
            ..SourceView::default()
        });
        view
    }

    #[test]
    fn ready_is_who_may_be_followed() {
        let ready = |state, stratum, leap| is_ready(&view(state, stratum, leap));
        assert!(ready(ClockState::Locked, 3, Leap::Normal));
        assert!(ready(ClockState::Local, 10, Leap::Normal));
        assert!(ready(ClockState::Holdover, 3, Leap::Insert));
        assert!(!ready(ClockState::Unsynchronised, 0, Leap::Unsynchronised));
        assert!(!ready(ClockState::Syncing, 0, Leap::Normal));
        assert!(!ready(ClockState::Syncing, 16, Leap::Normal));
    }

    #[test]
    fn the_summary_names_who_leads() {
        let summary = |state, stratum| summary(&view(state, stratum, Leap::Normal));
        assert_eq!(
            summary(ClockState::Locked, 3),
            "locked to ntp.example.org, stratum 3"
        );
        assert_eq!(summary(ClockState::Local, 10), "local, stratum 10");
        assert_eq!(summary(ClockState::Unsynchronised, 0), "unsynchronised");
    }
}
