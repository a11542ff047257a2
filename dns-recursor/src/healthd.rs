//! Passes healthd's reports about upstreams on to the resolver, and those about addresses of names to the names.
//!
//! healthd sends each upstream the question of the resolver's own probes, by the site's schedule. Without healthd
//! nothing changes: the resolver has its own evidence.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use daemon::latest::{Latest, Reader};
use dns_resolve::forward::{Mode, Protocol, Table};
use dns_resolve::upstream_state::Report;
use dns_wire::Type;
use proto::endpoint::Endpoint;
use proto::health::{AdminState, DnsProbe, Liveness, Snapshot, Target, TargetKind};
use proto::link::Link;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::driver::Reporter;
use crate::names::Shared;

/// The link to healthd, and the task that reads its snapshots, which ends when this is dropped.
#[derive(Debug)]
pub struct Healthd {
    link: Link,
    names: Arc<Shared>,
    adopted: Arc<Notify>,
    streams: Arc<Latest<BTreeSet<SocketAddr>>>,
    follower: Option<JoinHandle<()>>,
}

impl Healthd {
    /// Begins to watch the upstreams of a table, if there is a healthd.
    #[must_use]
    pub fn start(
        endpoint: Option<Endpoint>,
        service: &str,
        table: &Table,
        names: Arc<Shared>,
        reporter: Reporter,
    ) -> Self {
        let targets = all_targets(table, &names);
        let streams = Latest::new(streams(table));
        let link = Link::start(endpoint, service, targets);
        let adopted = Arc::new(Notify::new());
        let snapshots = link.reader();
        let told = Arc::clone(&names);
        let follow = snapshots.map(|snapshots| {
            let (adopted, streams) = (Arc::clone(&adopted), Arc::clone(&streams));
            follow(snapshots, adopted, streams, told, reporter)
        });
        Self {
            streams,
            link,
            names,
            follower: follow.map(tokio::spawn),
            adopted,
        }
    }

    /// Watches the upstreams of another table and the addresses of other names, after the resolver and the names have adopted
    /// them.
    pub fn adopt(&self, table: &Table) {
        self.streams.publish(streams(table));
        self.link.set_targets(all_targets(table, &self.names));
        self.adopted.notify_one();
    }

    /// The link, for status and metrics.
    #[must_use]
    pub const fn link(&self) -> &Link {
        &self.link
    }
}

impl Drop for Healthd {
    fn drop(&mut self) {
        if let Some(follower) = &self.follower {
            follower.abort();
        }
    }
}

/// A target for each upstream, and for each address of a name that is probed.
fn all_targets(table: &Table, names: &Shared) -> Vec<Target> {
    let names = names.cell().current();
    let probed = names.table.probed().iter().copied().map(Target::tcp);
    targets(table).into_iter().chain(probed).collect()
}

/// A target for each upstream.
fn targets(table: &Table) -> Vec<Target> {
    let mut targets = BTreeMap::new();
    for route in table.routes() {
        let (name, rtype) = match route.mode {
            Mode::Authoritative => (route.zone.to_string(), Type::SOA),
            Mode::Recursive => (".".to_owned(), Type::NS),
        };
        for upstream in &route.upstreams {
            let target = Target {
                kind: match route.protocol {
                    // Their ports take no plain question.
                    Protocol::Tls | Protocol::Https => TargetKind::Tcp,
                    // healthd does not speak it: the resolver's own evidence counts alone.
                    Protocol::Quic => continue,
                    Protocol::Udp | Protocol::Tcp => TargetKind::Dns(DnsProbe {
                        name: name.clone(),
                        rtype: rtype.0,
                        rcode: None,
                    }),
                },
                address: *upstream,
                source: None,
            };
            targets.entry(*upstream).or_insert(target);
        }
    }
    targets.into_values().collect()
}

/// The upstreams that are probed by a connection to their port.
fn streams(table: &Table) -> BTreeSet<SocketAddr> {
    let targets = targets(table).into_iter();
    let streams = targets.filter(|target| target.kind == TargetKind::Tcp);
    streams.map(|target| target.address).collect()
}

async fn follow(
    mut snapshots: Reader<Snapshot>,
    adopted: Arc<Notify>,
    streams: Arc<Latest<BTreeSet<SocketAddr>>>,
    names: Arc<Shared>,
    reporter: Reporter,
) {
    let mut known = BTreeMap::new();
    loop {
        let news = next_news(&mut snapshots, &adopted, &streams, &mut known).await;
        names.set_down(down(snapshots.get()));
        for (upstream, report) in news {
            if !reporter.report(upstream, report).await {
                return;
            }
        }
    }
}

/// Waits for healthd's next reports.
async fn next_news(
    snapshots: &mut Reader<Snapshot>,
    adopted: &Notify,
    streams: &Latest<BTreeSet<SocketAddr>>,
    known: &mut BTreeMap<SocketAddr, Report>,
) -> Vec<(SocketAddr, Report)> {
    tokio::select! {
        () = snapshots.changed() => {}
        // The resolver has forgotten the reports about upstreams that were unused for a while.
        () = adopted.notified() => known.clear(),
    }
    snapshots.refresh();
    news(snapshots.get(), &streams.current(), known)
}

/// The addresses of names that are not to be used.
fn down(snapshot: &Snapshot) -> BTreeSet<SocketAddr> {
    let targets = snapshot.targets.iter();
    let down = targets.filter(|(target, status)| {
        let is_out = match status.admin {
            AdminState::Drain | AdminState::Maintenance => true,
            AdminState::Ready => status.liveness == Liveness::Down,
        };
        is_out && target.kind == TargetKind::Tcp
    });
    down.map(|(target, _)| target.address).collect()
}

/// The reports in a snapshot that are new.
fn news(
    snapshot: &Snapshot,
    streams: &BTreeSet<SocketAddr>,
    known: &mut BTreeMap<SocketAddr, Report>,
) -> Vec<(SocketAddr, Report)> {
    let mut news = Vec::new();
    for (target, status) in &snapshot.targets {
        let is_upstream = match target.kind {
            TargetKind::Dns(_) => true,
            TargetKind::Tcp => streams.contains(&target.address),
            _ => false,
        };
        if !is_upstream {
            continue;
        }
        let report = match (status.admin, status.liveness) {
            (AdminState::Drain | AdminState::Maintenance, _) => Report::Drained,
            (AdminState::Ready, Liveness::Up) => Report::Answers,
            (AdminState::Ready, Liveness::Down) => Report::Silent,
            (AdminState::Ready, Liveness::Unknown) => continue,
        };
        if known.insert(target.address, report) != Some(report) {
            news.push((target.address, report));
        }
    }
    news
}

#[cfg(test)]
mod tests {
    use dns_resolve::forward::Route;
    use dns_wire::Name;
    use proto::health::TargetStatus;

    use super::*;

    fn table() -> Table {
        let address = |n| SocketAddr::from(([192, 0, 2, n], 53));
        let route = |zone: &str, mode, upstreams: &[u8]| {
            let upstreams = upstreams.iter().copied().map(address).collect();
            Route::new(Name::parse(zone).unwrap(), mode, upstreams)
        };
        Table::new([
            route(".", Mode::Recursive, &[1, 2]),
            route("a.example", Mode::Authoritative, &[3]),
            route("b.example", Mode::Recursive, &[2]),
        ])
    }

    #[test]
    fn every_upstream_is_watched_once_with_a_question_it_can_answer() {
        let targets = targets(&table());
        let told: Vec<String> = targets.iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "dns 192.0.2.1:53 .",
                "dns 192.0.2.2:53 .",
                "dns 192.0.2.3:53 a.example."
            ]
        );
    }

    #[test]
    fn an_encrypted_upstream_is_watched_by_its_port() {
        let address = SocketAddr::from(([192, 0, 2, 1], 853));
        for (protocol, expected) in [
            (Protocol::Tls, vec!["tcp 192.0.2.1:853"]),
            (Protocol::Https, vec!["tcp 192.0.2.1:853"]),
            (Protocol::Quic, Vec::new()),
        ] {
            let mut route = Route::new(Name::root(), Mode::Recursive, vec![address]);
            route.protocol = protocol;
            let table = Table::new([route]);
            let told: Vec<String> = targets(&table).iter().map(ToString::to_string).collect();
            assert_eq!(told, expected);
            assert_eq!(streams(&table).len(), expected.len());
            let status = TargetStatus {
                liveness: Liveness::Down,
                ..TargetStatus::default()
            };
            let snapshot = Snapshot {
                targets: [(Target::tcp(address), status)].into_iter().collect(),
                ..Snapshot::default()
            };
            let news = news(&snapshot, &streams(&table), &mut BTreeMap::new());
            assert_eq!(news.len(), expected.len());
        }
    }

    #[tokio::test]
    async fn what_is_known_is_told_again_when_other_routes_are_taken_up() {
        let drained = targets(&table()).remove(0);
        let address = drained.address;
        let status = TargetStatus {
            admin: AdminState::Drain,
            ..TargetStatus::default()
        };
        let snapshot = |targets: Vec<(Target, TargetStatus)>| Snapshot {
            targets: targets.into_iter().collect(),
            ..Snapshot::default()
        };
        let latest = Latest::new(snapshot(Vec::new()));
        let mut snapshots = latest.reader();
        let (adopted, mut known) = (Notify::new(), BTreeMap::new());
        let streams = Latest::new(BTreeSet::new());
        latest.publish(snapshot(vec![(drained, status)]));
        let told = next_news(&mut snapshots, &adopted, &streams, &mut known).await;
        assert_eq!(told, [(address, Report::Drained)]);
        adopted.notify_one();
        let told = next_news(&mut snapshots, &adopted, &streams, &mut known).await;
        assert_eq!(told, [(address, Report::Drained)]);
    }

    #[test]
    fn only_what_has_changed_is_told() {
        let targets = targets(&table());
        let snapshot = |states: [(Liveness, AdminState); 3]| {
            let statuses = states.map(|(liveness, admin)| TargetStatus {
                liveness,
                admin,
                ..TargetStatus::default()
            });
            Snapshot {
                targets: targets.iter().cloned().zip(statuses).collect(),
                ..Snapshot::default()
            }
        };
        let (up, down, unknown) = (Liveness::Up, Liveness::Down, Liveness::Unknown);
        let ready = AdminState::Ready;
        let mut known = BTreeMap::new();
        let mut check = |states, expected: &[Report]| {
            let news = news(&snapshot(states), &BTreeSet::new(), &mut known);
            let reports: Vec<Report> = news.into_iter().map(|(_, report)| report).collect();
            assert_eq!(reports, expected);
        };
        check(
            [(unknown, ready), (up, ready), (down, ready)],
            &[Report::Answers, Report::Silent],
        );
        check([(unknown, ready), (up, ready), (down, ready)], &[]);
        check(
            [(up, ready), (up, AdminState::Drain), (unknown, ready)],
            &[Report::Answers, Report::Drained],
        );
        check(
            [(up, ready), (up, ready), (down, ready)],
            &[Report::Answers],
        );
    }
}
