//! The `detail` of `/status`, and the text that `timesync-agent status` makes from it.

use std::time::{Duration, UNIX_EPOCH};

use config_text::counted_as;
use daemon::calendar::Timestamp;
use daemon::run::headline_untyped;
use proto::clock::Link;
use serde_json::{Value, json};

use time_model::labels;
use time_model::time::{RawTime, UnixTime};
use time_model::view::{SourceView, View};

/// Facts about the process besides its view.
#[derive(Clone, Debug, Default)]
pub struct HostInfo {
    /// The addresses of the NTP listeners.
    pub listeners: Vec<String>,
    /// Whether the clock is corrected; false for `--no-clock`.
    pub is_clock_corrected: bool,
    /// The state of the reports to healthd; none without healthd.
    pub healthd: Option<Link>,
}

/// Everything an operator would ask.
#[must_use]
pub fn detail(view: &View, around: &HostInfo) -> Value {
    let tracking = &view.tracking;
    json!({
        "serves": labels::summary(view),
        "state": labels::state(view.state),
        "corrects_clock": around.is_clock_corrected,
        "listeners": around.listeners,
        "reference": labels::reference(view),
        "reference_id": format!("{:08X}", tracking.reference_id),
        "reference_time": time(tracking.reference_time),
        "stratum": tracking.stratum,
        "leap": labels::leap(tracking.leap),
        "correction_seconds": finite(tracking.correction),
        "last_offset_seconds": finite(tracking.last_offset),
        "rms_offset_seconds": finite(tracking.rms_offset),
        "frequency_ppm": finite(tracking.frequency),
        "residual_frequency_ppm": finite(tracking.residual_frequency),
        "skew_ppm": finite(tracking.skew),
        "root_delay_seconds": finite(tracking.root_delay),
        "root_dispersion_seconds": finite(tracking.root_dispersion),
        "root_distance_seconds": finite(labels::root_distance(view)),
        "update_interval_seconds": finite(tracking.update_interval),
        "updates": tracking.n_updates,
        "steps": tracking.n_steps,
        "unresolved_names": view.n_unresolved,
        "sources": view.sources.iter().map(|one| source(one, view.now.raw)).collect::<Vec<_>>(),
        "healthd": around.healthd.as_ref().map(|link| json!({
            "connected": link.connected,
            "reports": link.n_reports,
            "error": link.error,
        })),
    })
}

fn source(source: &SourceView, now: RawTime) -> Value {
    let statistics = &source.statistics;
    json!({
        "name": source.name,
        "address": source.address.map(|address| address.to_string()),
        "mode": labels::mode(source.mode),
        "state": labels::source_state(source.state),
        "online": source.online,
        "stratum": source.stratum,
        "poll": source.poll,
        "reach": format!("{:o}", source.reach),
        "last_sample_seconds": source.last_sample.map(|at| (now - at).seconds()),
        "offset_seconds": finite(source.adjusted_offset),
        "measured_offset_seconds": finite(source.measured_offset),
        "error_seconds": finite(source.sample_error),
        "samples": statistics.n_samples,
        "frequency_ppm": finite(statistics.frequency),
        "skew_ppm": finite(statistics.skew),
        "deviation_seconds": finite(statistics.deviation),
        "interleaved": source.packet.is_some_and(|packet| packet.interleaved),
        "authenticated": source.packet.is_some_and(|packet| packet.authenticated),
    })
}

/// JSON has no infinity, and people have no negative zero.
fn finite(value: f64) -> Value {
    serde_json::Number::from_f64(value + 0.0).map_or(Value::Null, Value::Number)
}

fn time(time: UnixTime) -> Value {
    let since_1970 = u64::try_from(time.0).ok().filter(|since| *since > 0);
    since_1970.map_or(Value::Null, |since| {
        Timestamp(UNIX_EPOCH + Duration::from_nanos(since))
            .to_string()
            .into()
    })
}

//--- Words

/// The status as lines for people.
#[must_use]
pub fn render(status: &Value) -> String {
    let mut text = headline_untyped(status);
    let detail = status.get("detail").unwrap_or(&Value::Null);
    let corrects = match detail.get("corrects_clock").and_then(Value::as_bool) {
        Some(false) => "; the clock is left alone",
        _ => "",
    };
    text.push_str(&format!("{}{corrects}\n", word(detail, "serves")));
    text.push_str(&format!(
        "  offset {} now, {} new at the last update, {} RMS\n",
        labels::offset(number(detail, "correction_seconds")),
        labels::offset(number(detail, "last_offset_seconds")),
        labels::seconds(number(detail, "rms_offset_seconds")),
    ));
    text.push_str(&format!(
        "  frequency {:+.3} ppm within {:.3} ppm, root distance {}, leap: {}\n",
        number(detail, "frequency_ppm"),
        number(detail, "skew_ppm"),
        labels::seconds(number(detail, "root_distance_seconds")),
        word(detail, "leap"),
    ));
    for listener in rows(detail, "listeners").filter_map(Value::as_str) {
        text.push_str(&format!("  answers at {listener}\n"));
    }
    if let Some(healthd) = detail.get("healthd").filter(|link| link.is_object()) {
        match healthd.get("connected").and_then(Value::as_bool) {
            Some(true) => text.push_str("  reports to healthd\n"),
            _ => text.push_str(&format!(
                "  does not report to healthd: {}\n",
                word(healthd, "error")
            )),
        }
    }
    let sources: Vec<&Value> = rows(detail, "sources").collect();
    let width = sources.iter().map(|source| title(source).chars().count());
    let width = width.max().unwrap_or(0);
    for source in &sources {
        text.push_str(&row(source, width));
    }
    if let Some(n) = detail.get("unresolved_names").and_then(Value::as_u64)
        && n > 0
    {
        let lost = counted_as(n, "name has no address yet", "names have no address yet");
        text.push_str(&format!("  {lost}\n"));
    }
    text
}

fn row(source: &Value, width: usize) -> String {
    let poll = source.get("poll").and_then(Value::as_i64).unwrap_or(0);
    let poll = labels::poll(i8::try_from(poll).unwrap_or(0));
    let sample = match source.get("last_sample_seconds").and_then(Value::as_f64) {
        Some(age) => format!(
            "{} ± {}, {age:.0} s ago",
            labels::offset(number(source, "offset_seconds")),
            labels::seconds(number(source, "error_seconds")),
        ),
        None => "no sample yet".to_owned(),
    };
    format!(
        "  {:<12} {:<width$}  stratum {:<2} every {poll}, reach {}, {sample}\n",
        word(source, "state"),
        title(source),
        source.get("stratum").and_then(Value::as_u64).unwrap_or(0),
        word(source, "reach"),
    )
}

/// The name, with the address where that is another.
fn title(source: &Value) -> String {
    let name = word(source, "name");
    match source.get("address").and_then(Value::as_str) {
        Some(address) if address != name => format!("{name} ({address})"),
        _ => name.to_owned(),
    }
}

/// The entries of a list; none when there is no such list.
fn rows<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    let list = value.get(key).and_then(Value::as_array);
    list.into_iter().flatten()
}

/// A text, or `-` when there is none.
fn word<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or("-")
}

fn number(value: &Value, key: &str) -> f64 {
    value.get(key).and_then(Value::as_f64).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use time_model::time::{Reading, SECOND};
    use time_model::view::{ClockState, SourceState, Tracking};

    fn view() -> View {
        View {
            now: Reading {
                raw: RawTime(100 * SECOND),
                wall: UnixTime(1_795_229_845 * SECOND),
            },
            state: ClockState::Locked,
            tracking: Tracking {
                stratum: 3,
                reference_id: 0xC000_0201,
                reference_time: UnixTime(1_795_229_845 * SECOND),
                correction: -12e-6,
                frequency: 1.571,
                skew: 0.394,
                root_dispersion: f64::INFINITY,
                ..Tracking::default()
            },
            sources: vec![
                SourceView {
                    name: "ntp.example.org".to_owned(),
                    address: "192.0.2.1".parse().ok(),
                    state: SourceState::Best,
                    stratum: 2,
                    poll: 6,
                    reach: 0o377,
                    last_sample: Some(RawTime(83 * SECOND)),
                    adjusted_offset: 20e-6,
                    sample_error: 1e-3,
                    ..SourceView::default()
                },
                SourceView {
                    name: "192.0.2.2".to_owned(),
                    address: "192.0.2.2".parse().ok(),
                    poll: -1,
                    ..SourceView::default()
                },
            ],
            n_unresolved: 1,
            ..View::default()
        }
    }

    fn around() -> HostInfo {
        HostInfo {
            listeners: vec!["udp 0.0.0.0:123".to_owned()],
            is_clock_corrected: false,
            healthd: Some(Link {
                connected: false,
                n_reports: 0,
                error: "refused".to_owned(),
            }),
        }
    }

    #[test]
    fn the_status_is_a_few_lines_and_a_table() {
        let status = json!({
            "service": "timesync-agent", "version": "0.1.0", "revision": "abc", "state": "serving",
            "ready": true, "uptime_seconds": 9.0, "detail": detail(&view(), &around()),
        });
        let text = render(&status);
        let tail: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(
            tail,
            [
                "locked to ntp.example.org, stratum 3; the clock is left alone",
                "  offset -12.000 µs now, +0.000 ns new at the last update, 0.000 ns RMS",
                "  frequency +1.571 ppm within 0.394 ppm, root distance 0.000 ns, leap: normal",
                "  answers at udp 0.0.0.0:123",
                "  does not report to healthd: refused",
                "  best         ntp.example.org (192.0.2.1)  stratum 2  every 64 s, reach 377, +20.000 µs ± 1.000 ms, 17 s ago",
                "  unselectable 192.0.2.2                    stratum 0  every 1/2 s, reach 0, no sample yet",
                "  1 name has no address yet",
            ]
        );
    }

    #[test]
    fn json_holds_numbers_and_times() {
        let detail = detail(&view(), &around());
        assert_eq!(detail["reference_time"], "2026-11-21T02:57:25.000Z");
        assert_eq!(detail["reference_id"], "C0000201");
        assert_eq!(detail["root_distance_seconds"], Value::Null);
        assert_eq!(detail["sources"][0]["last_sample_seconds"], 17.0);
        assert_eq!(detail["sources"][1]["last_sample_seconds"], Value::Null);
    }

    #[test]
    fn an_answer_that_says_nothing_is_still_printed() {
        assert!(render(&Value::Null).contains('-'));
    }
}
