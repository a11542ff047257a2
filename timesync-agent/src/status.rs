//! The `detail` of `/status`, and the text that `timesync-agent status` makes from it.

use std::time::{Duration, UNIX_EPOCH};

use api::Status;
use api::cluster_nodes::Nodes;
use api::timesync_agent::{Detail, Reports, Source};
use cluster_members::sources::Added;
use config_text::counted_as;
use daemon::calendar::Timestamp;
use daemon::run::headline;

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
    pub healthd: Option<Reports>,
    /// The nodes of a cluster, and those of them that the agent asks or that are too many; none without a cluster.
    pub learned: Option<(Nodes, Vec<Added>)>,
}

/// Everything an operator would ask.
#[must_use]
pub fn detail(view: &View, around: &HostInfo) -> Detail {
    let tracking = &view.tracking;
    let now = view.now.raw;
    let added = around.learned.as_ref();
    let added = added.map_or(&[][..], |(_, added)| added.as_slice());
    let too_many = added.iter().filter(|one| !one.is_used);
    let sources = view.sources.iter().map(|one| {
        let node = added
            .iter()
            .find(|it| it.is_used && Some(it.address) == one.address);
        Source {
            learned_from: node.map(|node| node.name.clone()),
            ..source(one, now)
        }
    });
    Detail {
        serves: labels::summary(view),
        state: labels::state(view.state).to_owned(),
        corrects_clock: around.is_clock_corrected,
        listeners: around.listeners.clone(),
        reference: labels::reference(view),
        reference_id: format!("{:08X}", tracking.reference_id),
        reference_time: time(tracking.reference_time),
        stratum: tracking.stratum,
        leap: labels::leap(tracking.leap).to_owned(),
        correction_seconds: finite(tracking.correction),
        last_offset_seconds: finite(tracking.last_offset),
        rms_offset_seconds: finite(tracking.rms_offset),
        frequency_ppm: finite(tracking.frequency),
        residual_frequency_ppm: finite(tracking.residual_frequency),
        skew_ppm: finite(tracking.skew),
        root_delay_seconds: finite(tracking.root_delay),
        root_dispersion_seconds: finite(tracking.root_dispersion),
        root_distance_seconds: finite(labels::root_distance(view)),
        update_interval_seconds: finite(tracking.update_interval),
        updates: tracking.n_updates,
        steps: tracking.n_steps,
        unresolved_names: view.n_unresolved,
        sources: sources.collect(),
        healthd: around.healthd.clone(),
        nodes: around.learned.as_ref().map(|(nodes, _)| nodes.clone()),
        too_many: too_many.map(|one| one.name.clone()).collect(),
    }
}

fn source(source: &SourceView, now: RawTime) -> Source {
    let statistics = &source.statistics;
    Source {
        name: source.name.clone(),
        address: source.address.map(|address| address.to_string()),
        mode: labels::mode(source.mode).to_owned(),
        learned_from: None,
        state: labels::source_state(source.state).to_owned(),
        online: source.online,
        stratum: source.stratum,
        poll: source.poll,
        reach: format!("{:o}", source.reach),
        last_sample_seconds: source.last_sample.map(|at| (now - at).seconds()),
        offset_seconds: finite(source.adjusted_offset),
        measured_offset_seconds: finite(source.measured_offset),
        error_seconds: finite(source.root_distance),
        samples: statistics.n_samples,
        frequency_ppm: finite(statistics.frequency),
        skew_ppm: finite(statistics.skew),
        deviation_seconds: finite(statistics.deviation),
        interleaved: source.packet.is_some_and(|packet| packet.interleaved),
        authenticated: source.packet.is_some_and(|packet| packet.authenticated),
    }
}

/// JSON has no infinity, and people have no negative zero.
fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value + 0.0)
}

fn time(time: UnixTime) -> Option<String> {
    let since_1970 = u64::try_from(time.0).ok().filter(|since| *since > 0)?;
    Some(Timestamp(UNIX_EPOCH + Duration::from_nanos(since_1970)).to_string())
}

//--- Words

/// The status as lines for people.
#[must_use]
pub fn render(status: &Status<Detail>) -> String {
    let mut text = headline(status);
    let Some(detail) = &status.detail else {
        return text;
    };
    let corrects = match detail.corrects_clock {
        true => "",
        false => "; the clock is left alone",
    };
    text.push_str(&format!("{}{corrects}\n", detail.serves));
    let number = Option::unwrap_or_default;
    text.push_str(&format!(
        "  offset {} now, {} new at the last update, {} RMS\n",
        labels::offset(number(detail.correction_seconds)),
        labels::offset(number(detail.last_offset_seconds)),
        labels::seconds(number(detail.rms_offset_seconds)),
    ));
    text.push_str(&format!(
        "  frequency {:+.3} ppm within {:.3} ppm, root distance {}, leap: {}\n",
        number(detail.frequency_ppm),
        number(detail.skew_ppm),
        labels::seconds(number(detail.root_distance_seconds)),
        detail.leap,
    ));
    for listener in &detail.listeners {
        text.push_str(&format!("  answers at {listener}\n"));
    }
    match &detail.healthd {
        Some(healthd) if healthd.connected => text.push_str("  reports to healthd\n"),
        Some(healthd) => {
            text.push_str(&format!(
                "  does not report to healthd: {}\n",
                healthd.error
            ));
        }
        None => {}
    }
    if let Some(nodes) = &detail.nodes {
        text.push_str(&cluster(nodes, &detail.too_many));
    }
    let width = |source: &Source| title(source).chars().count();
    let widest = detail.sources.iter().map(width).max().unwrap_or(0);
    for source in &detail.sources {
        text.push_str(&row(source, widest));
    }
    if detail.unresolved_names > 0 {
        let lost = counted_as(
            detail.unresolved_names,
            "name has no address yet",
            "names have no address yet",
        );
        text.push_str(&format!("  {lost}\n"));
    }
    text
}

/// The cluster whose nodes may be sources.
fn cluster(nodes: &Nodes, too_many: &[String]) -> String {
    let mut text = match nodes.connected {
        true => format!("  follows clusterd, generation {}\n", nodes.generation),
        false => format!("  clusterd is NOT connected: {}\n", nodes.error),
    };
    for refused in nodes.lists.iter().flat_map(|list| &list.refused) {
        text.push_str(&format!(
            "    {} is not asked: {}\n",
            refused.node, refused.why
        ));
    }
    for node in too_many {
        text.push_str(&format!(
            "    {node} is not asked: learned sources are always fewer than those of the file\n"
        ));
    }
    text
}

fn row(source: &Source, width: usize) -> String {
    let poll = labels::poll(source.poll);
    let sample = match source.last_sample_seconds {
        Some(age) => format!(
            "{} ± {}, {age:.0} s ago",
            labels::offset(source.offset_seconds.unwrap_or_default()),
            labels::seconds(source.error_seconds.unwrap_or_default()),
        ),
        None => "no sample yet".to_owned(),
    };
    let learned = source.learned_from.as_ref();
    let learned = learned.map_or_else(String::new, |node| format!(", learned: node {node}"));
    format!(
        "  {:<12} {:<width$}  stratum {:<2} every {poll}, reach {}, {sample}{learned}\n",
        source.state,
        title(source),
        source.stratum,
        source.reach,
    )
}

/// The name, with the address where that is another.
fn title(source: &Source) -> String {
    let name = &source.name;
    match &source.address {
        Some(address) if address != name => format!("{name} ({address})"),
        _ => name.clone(),
    }
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
                    root_distance: 1e-3,
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
            healthd: Some(Reports {
                connected: false,
                reports: 0,
                error: "refused".to_owned(),
            }),
            learned: None,
        }
    }

    #[test]
    fn the_status_is_a_few_lines_and_a_table() {
        let status = Status::serving("timesync-agent", detail(&view(), &around()));
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
        let time = detail.reference_time.as_deref();
        assert_eq!(time, Some("2026-11-21T02:57:25.000Z"));
        assert_eq!(detail.reference_id, "C0000201");
        assert_eq!(detail.root_distance_seconds, None);
        assert_eq!(detail.sources[0].last_sample_seconds, Some(17.0));
        assert_eq!(detail.sources[1].last_sample_seconds, None);
    }
}
