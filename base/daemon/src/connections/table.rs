//! All listeners of a process, for metrics and the status.

use std::fmt;
use std::sync::Arc;

use api::Streams;
use parking_lot::RwLock;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::{Connections, Reason};
use crate::metrics::{self, Labels, Page, float, labels};

/// The connections of the listeners of a process; clones share them.
#[derive(Clone, Debug, Default)]
pub struct Table(Arc<RwLock<Vec<Arc<Connections>>>>);

impl Table {
    /// Adds those of a listener.
    pub fn add(&self, connections: &Arc<Connections>) {
        self.0.write().push(Arc::clone(connections));
    }

    /// Their part of `/status`.
    #[must_use]
    pub fn status(&self) -> Vec<Streams> {
        self.0.read().iter().map(|one| status(one)).collect()
    }

    fn collect<T>(&self, of_one: impl Fn(&Connections) -> Vec<(Labels, T)>) -> Vec<(Labels, T)> {
        self.0.read().iter().flat_map(|one| of_one(one)).collect()
    }
}

fn status(connections: &Connections) -> Streams {
    let number = |value: usize| u64::try_from(value).unwrap_or(u64::MAX);
    let (policy, taken) = (connections.policy(), connections.taken());
    let named = |(name, count): (&str, u64)| (count > 0).then(|| (name.to_owned(), count));
    let refused = connections.refused_by();
    let ended = connections.ended_by();
    Streams {
        listener: connections.name().to_owned(),
        places: number(policy.places()),
        reserved_for_nodes: number(policy.for_members()),
        reserved_for_node: number(policy.for_node()),
        open: number(taken.all()),
        open_of_nodes: number(taken.members),
        open_of_node: number(taken.node),
        refused: refused
            .filter_map(|(reason, count)| named((reason.name(), count)))
            .collect(),
        ended: ended
            .filter_map(|(reason, count)| named((reason.name(), count)))
            .collect(),
    }
}

/// Writes the metrics of all listeners.
#[derive(Debug)]
pub(crate) struct StreamsCollector(pub(crate) Table);

impl Collector for StreamsCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut page = Page::new(&mut encoder);
        let page = &mut page;
        let places = self.0.collect(|one| {
            let number = u64::try_from(one.policy().places()).unwrap_or(u64::MAX);
            vec![(labels(&[("listener", one.name())]), float(number))]
        });
        page.gauges(metrics::STREAMS_PLACES, "Places of listeners", places)?;
        let open = self.0.collect(|one| {
            let taken = one.taken();
            let of = [
                ("others", taken.others),
                ("node", taken.node),
                ("nodes", taken.members),
            ];
            let of = of.map(|(of, open)| {
                let open = u64::try_from(open).unwrap_or(u64::MAX);
                (labels(&[("listener", one.name()), ("of", of)]), float(open))
            });
            of.into()
        });
        page.gauges(metrics::STREAMS_OPEN, "Places that are taken", open)?;
        let refused = self.0.collect(|one| {
            let refused = one.refused_by();
            refused
                .map(|(reason, count)| (by(one, reason.name()), count))
                .collect()
        });
        page.counters(
            metrics::STREAMS_REFUSED,
            "Streams that got no place",
            refused,
        )?;
        let ended = self.0.collect(|one| {
            let ended = one.ended_by();
            ended
                .map(|(reason, count): (Reason, u64)| (by(one, reason.name()), count))
                .collect()
        });
        let help = "Streams that had to give their places back";
        page.counters(metrics::STREAMS_ENDED, help, ended)
    }
}

fn by(connections: &Connections, reason: &str) -> Labels {
    labels(&[("listener", connections.name()), ("reason", reason)])
}
