//! The other nodes, for the page: their services, and the last results of their probes.
//!
//! healthd asks them over the connections of the exchange, and only while a browser shows the page. This module bounds their
//! answers again. A node that does not answer, or whose healthd does not have this call, is shown without it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use daemon::args::{PACKAGE_VERSION, REVISION};
use daemon::clock;
use daemon::readiness::Readiness;
use exchange::members::PeerId;
use liveness::schedule::TargetId;
use proto::health::Target;
use proto::wire;
use proto::wire::exchange_client::ExchangeClient;
use tokio::task::JoinSet;
use tonic::transport::Channel;

use super::fresh::Fresh;
use super::services::{Answers, Asked, Asker, Services};
use crate::driver::Driver;
use crate::trail::{Outcome, RESULTS};

/// How long a node has for its answer: longer than its own services have for theirs.
const DEADLINE: Duration = Duration::from_secs(4);

/// The longest answer: 300 targets with 60 results each take a third of it.
const LONGEST: usize = 512 << 10;

/// Services of a node that are shown.
const SERVICES: usize = 16;

/// Reasons of a service that are shown, and the longest text of any kind, in characters.
const REASONS: usize = 5;
const TEXT: usize = 200;

/// Targets of a node whose results are sent. Those that it finds down come first.
const TARGETS: usize = 300;

/// A probe that took longer than this many microseconds is shown as one that took as long.
const SLOWEST: f32 = 4e9;

/// The answer of another node.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Node {
    pub(super) services: Vec<Service>,
    /// The last results of its probes by target, the oldest first.
    pub(super) results: BTreeMap<String, Vec<Outcome>>,
}

/// A service of another node.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Service {
    pub(super) name: String,
    /// Why it gave no answer; empty if it did.
    pub(super) failure: String,
    pub(super) state: String,
    pub(super) ready: bool,
    pub(super) version: String,
    pub(super) slot: String,
    pub(super) uptime_seconds: f64,
    pub(super) reasons: Vec<String>,
}

/// The answers of the other nodes by their names, or why there is none.
pub(super) type Nodes = BTreeMap<String, Result<Node, String>>;

/// Asks the other nodes.
#[derive(Debug)]
pub(super) struct NodeAsker {
    names: Vec<String>,
    fresh: Fresh<Nodes>,
}

impl NodeAsker {
    /// Asks the peers of these names, in the order of the exchange.
    pub(super) fn new(names: Vec<String>) -> Self {
        Self {
            names,
            fresh: Fresh::default(),
        }
    }

    /// The last answers, however old.
    pub(super) fn last(&self) -> Option<Arc<Nodes>> {
        self.fresh.last()
    }

    /// Answers that are fresh.
    pub(super) async fn fresh(&self, driver: &Driver) -> Arc<Nodes> {
        self.fresh.get(|_| self.ask(driver)).await
    }

    async fn ask(&self, driver: &Driver) -> Nodes {
        let mut asking = JoinSet::new();
        for (number, name) in self.names.iter().cloned().enumerate() {
            let channel = driver.leases().channel(PeerId(number));
            asking.spawn(async move { (name, ask(channel).await) });
        }
        asking.join_all().await.into_iter().collect()
    }
}

async fn ask(channel: Option<Channel>) -> Result<Node, String> {
    let channel = channel.ok_or("it is not connected")?;
    let mut client = ExchangeClient::new(channel).max_decoding_message_size(LONGEST);
    let asked = client.show(wire::ShowRequest {});
    match tokio::time::timeout(DEADLINE, asked).await {
        Ok(Ok(response)) => Ok(read(response.into_inner())),
        Ok(Err(status)) if status.code() == tonic::Code::Unimplemented => {
            Err("its healthd is of a version that does not show its services".to_owned())
        }
        Ok(Err(status)) => Err(text(status.message())),
        Err(_) => Err(format!("no answer within {} s", DEADLINE.as_secs())),
    }
}

/// Reads an answer within its bounds.
fn read(response: wire::ShowResponse) -> Node {
    let service = |service: wire::ServiceState| Service {
        name: text(&service.name),
        failure: text(&service.failure),
        state: text(&service.state),
        ready: service.ready,
        version: text(&service.version),
        slot: text(&service.slot),
        uptime_seconds: Some(service.uptime_seconds)
            .filter(|seconds| seconds.is_finite())
            .unwrap_or(0.0),
        reasons: bounded(&service.reasons),
    };
    let results = |results: wire::ProbeResults| {
        let target = Target::try_from(results.target?).ok()?;
        let outcomes = results.micros.into_iter().take(RESULTS).map(outcome);
        Some((target.to_string(), outcomes.collect()))
    };
    Node {
        services: response
            .services
            .into_iter()
            .take(SERVICES)
            .map(service)
            .collect(),
        results: response
            .results
            .into_iter()
            .take(TARGETS)
            .filter_map(results)
            .collect(),
    }
}

/// A text of another node, without characters that no text has.
fn text(text: &str) -> String {
    let printable = text.chars().filter(|character| !character.is_control());
    printable.take(TEXT).collect()
}

/// The first texts.
fn bounded(all: &[String]) -> Vec<String> {
    all.iter().take(REASONS).map(|one| text(one)).collect()
}

fn version(version: &str, revision: &str) -> String {
    format!("{version} ({revision})")
}

/// A result from its microseconds; 0 is a failed probe.
#[expect(
    clippy::cast_precision_loss,
    reason = "the height of a bar has a few pixels"
)]
fn outcome(micros: u32) -> Outcome {
    Outcome {
        good: micros > 0,
        seconds: micros as f32 / 1e6,
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the value is between 1 and SLOWEST"
)]
fn micros(outcome: Outcome) -> u32 {
    match outcome.good {
        true => (outcome.seconds * 1e6).clamp(1.0, SLOWEST) as u32,
        false => 0,
    }
}

//--- This node, for the others

/// The answer of this node to others; clones share the answers of its services.
#[derive(Clone, Debug)]
pub(crate) struct NodeView {
    driver: Driver,
    asker: Arc<Asker>,
    readiness: Readiness,
    started: Instant,
}

impl NodeView {
    pub(crate) fn new(driver: Driver, asker: Arc<Asker>, readiness: Readiness) -> Self {
        Self {
            driver,
            asker,
            readiness,
            started: clock::now(),
        }
    }

    /// This node's services and the results of its probes.
    pub(crate) async fn answer(&self) -> wire::ShowResponse {
        let answers = self.asker.fresh().await;
        let mut services = vec![self.healthd()];
        services.extend(own_services(&answers));
        wire::ShowResponse {
            services,
            results: own_results(&self.driver),
        }
    }

    /// healthd itself, which serves as it answers.
    fn healthd(&self) -> wire::ServiceState {
        let reasons = self.readiness.unready_reasons();
        wire::ServiceState {
            name: "healthd".to_owned(),
            state: api::State::Serving.to_string(),
            ready: reasons.is_empty(),
            version: version(PACKAGE_VERSION, REVISION),
            uptime_seconds: self.started.elapsed().as_secs_f64(),
            reasons: bounded(&reasons),
            ..wire::ServiceState::default()
        }
    }
}

fn own_services(answers: &Answers) -> Vec<wire::ServiceState> {
    let Services {
        dns_authd,
        dns_recursor,
        lb_proxy,
        registry_svc,
        timesync_agent,
        clusterd,
    } = &answers.services;
    let all = [
        state("dns-authd", dns_authd.as_ref()),
        state("dns-recursor", dns_recursor.as_ref()),
        state("lb-proxy", lb_proxy.as_ref()),
        state("registry-svc", registry_svc.as_ref()),
        state("timesync-agent", timesync_agent.as_ref()),
        state("clusterd", clusterd.as_ref()),
    ];
    all.into_iter().flatten().collect()
}

fn state<D>(name: &str, asked: Option<&Asked<D>>) -> Option<wire::ServiceState> {
    let name = name.to_owned();
    Some(match asked? {
        Asked::Failed(reason) => wire::ServiceState {
            name,
            failure: text(reason),
            ..wire::ServiceState::default()
        },
        Asked::Answered(status) => wire::ServiceState {
            name,
            failure: String::new(),
            state: status.state.to_string(),
            ready: status.ready,
            version: version(&status.version, &status.revision),
            slot: status.slot.clone().unwrap_or_default(),
            uptime_seconds: status.uptime_seconds,
            reasons: bounded(&status.reasons),
        },
    })
}

/// The results of this node's probes of targets that mean the same on every node.
fn own_results(driver: &Driver) -> Vec<wire::ProbeResults> {
    let mut targets: Vec<(bool, TargetId, Target)> = driver.look(|monitor| {
        let table = monitor.table();
        let shared = table
            .entries()
            .filter(|entry| exchange::members::is_shared(&entry.target));
        let known = shared.filter_map(|entry| {
            let id = table.find(&entry.target)?;
            let is_up = entry.state.liveness() == proto::health::Liveness::Up;
            Some((is_up, id, Target::clone(&entry.target)))
        });
        known.collect()
    });
    targets.sort_by_key(|(is_up, ..)| *is_up);
    targets.truncate(TARGETS);
    driver.trail(|trail| {
        let each = targets.iter().map(|(_, id, target)| wire::ProbeResults {
            target: Some(target.into()),
            micros: trail.results(*id).into_iter().map(micros).collect(),
        });
        each.collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_keep_their_height_and_a_failed_one_is_none() {
        let good = Outcome {
            good: true,
            seconds: 0.0123,
        };
        let bad = Outcome {
            good: false,
            seconds: 1.0,
        };
        assert_eq!((micros(good), micros(bad)), (12_300, 0));
        assert!((outcome(12_300).seconds - 0.0123).abs() < 1e-6);
        assert!(outcome(12_300).good && !outcome(0).good);
        let instant = Outcome {
            good: true,
            seconds: 0.0,
        };
        assert_eq!(micros(instant), 1, "0 would be a failed probe");
        let endless = Outcome {
            good: true,
            seconds: f32::INFINITY,
        };
        assert_eq!(micros(endless), 4_000_000_000);
    }

    #[test]
    fn an_answer_of_another_node_is_bounded() {
        let service = wire::ServiceState {
            name: "x".repeat(1000),
            state: "<b>\n\u{7}".to_owned(),
            uptime_seconds: f64::NAN,
            reasons: vec!["why".to_owned(); 100],
            ..wire::ServiceState::default()
        };
        let target = Target::tcp(([192, 0, 2, 1], 6443).into());
        let results = wire::ProbeResults {
            target: Some((&target).into()),
            micros: vec![5; 1000],
        };
        let read = read(wire::ShowResponse {
            services: vec![service; 100],
            results: vec![results, wire::ProbeResults::default()],
        });
        assert_eq!(read.services.len(), SERVICES);
        let first = &read.services[0];
        assert_eq!((first.name.len(), first.reasons.len()), (TEXT, REASONS));
        assert_eq!((first.state.as_str(), first.uptime_seconds), ("<b>", 0.0));
        assert_eq!(read.results.len(), 1);
        assert_eq!(read.results["tcp 192.0.2.1:6443"].len(), RESULTS);
    }
}
