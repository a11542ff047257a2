//! The metrics of each source.

use std::fmt;

use daemon::metrics::{Labels, Page, float, labels};

use super::{
    SOURCE_DELAY, SOURCE_DEVIATION, SOURCE_ERROR, SOURCE_OFFSET, SOURCE_POLL, SOURCE_REACH,
    SOURCE_RECEIVED, SOURCE_SENT, SOURCE_STATE, SOURCE_STRATUM, SOURCES, flag,
};
use time_model::labels;
use time_model::view::SourceView;

/// A number of a source, if it has it.
type Reading = fn(&SourceView) -> Option<f64>;

pub(super) fn write(page: &mut Page<'_, '_>, sources: &[SourceView]) -> fmt::Result {
    let by_state = labels::SOURCE_STATES.map(|state| {
        let n = sources
            .iter()
            .filter(|source| source.state == state)
            .count();
        let labels = labels(&[("state", labels::source_state(state))]);
        (labels, float(u64::try_from(n).unwrap_or(u64::MAX)))
    });
    page.gauges(
        SOURCES,
        "Sources by what selection said of them",
        by_state.into(),
    )?;
    let states = sources.iter().flat_map(|source| {
        labels::SOURCE_STATES.map(|state| {
            let mut labels = of(source);
            labels.push(("state", labels::source_state(state).to_owned()));
            (labels, flag(source.state == state))
        })
    });
    page.gauges(
        SOURCE_STATE,
        "Result of selection for a source",
        states.collect(),
    )?;
    let gauges: [(&str, &str, Reading); 7] = [
        (
            SOURCE_OFFSET,
            "Offset of the last sample, as corrected since",
            |source| source.last_sample.map(|_| source.adjusted_offset),
        ),
        (
            SOURCE_ERROR,
            "Root distance of the last sample: its own error and that of the server",
            |source| source.last_sample.map(|_| source.root_distance),
        ),
        (
            SOURCE_DELAY,
            "Round trip of the last valid packet",
            |source| source.packet.map(|packet| packet.delay),
        ),
        (
            SOURCE_DEVIATION,
            "Standard deviation of the samples",
            |source| (source.statistics.n_samples > 1).then_some(source.statistics.deviation),
        ),
        (
            SOURCE_REACH,
            "How many of the last eight polls were answered",
            |source| Some(f64::from(source.reach.count_ones())),
        ),
        (SOURCE_STRATUM, "Stratum of the source", |source| {
            Some(f64::from(source.stratum))
        }),
        (SOURCE_POLL, "Polling interval", |source| {
            Some(f64::from(source.poll).exp2())
        }),
    ];
    for (name, help, value) in gauges {
        let all = sources.iter();
        let all = all.filter_map(|source| Some((of(source), value(source)?)));
        page.gauges(name, help, all.collect())?;
    }
    packets(page, sources)
}

fn packets(page: &mut Page<'_, '_>, sources: &[SourceView]) -> fmt::Result {
    let mut sent = Vec::new();
    let mut received = Vec::new();
    for source in sources {
        let Some(packet) = source.packet else {
            continue;
        };
        sent.push((of(source), packet.n_sent.into()));
        let invalid = packet.n_received.saturating_sub(packet.n_valid);
        let unused = packet.n_valid.saturating_sub(packet.n_good);
        let results = [
            ("good", packet.n_good),
            ("unused", unused),
            ("invalid", invalid),
        ];
        for (result, n) in results {
            let mut labels = of(source);
            labels.push(("result", result.to_owned()));
            received.push((labels, n.into()));
        }
    }
    page.counters(SOURCE_SENT, "Packets sent", sent)?;
    page.counters(
        SOURCE_RECEIVED,
        "Packets received, by what they were good for",
        received,
    )
}

/// The name of a source, and its address: a pool has several of one name.
fn of(source: &SourceView) -> Labels {
    let address = source.address.map(|address| address.to_string());
    labels(&[
        ("source", &source.name),
        ("address", &address.unwrap_or_default()),
    ])
}
