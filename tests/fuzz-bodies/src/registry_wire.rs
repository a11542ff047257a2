//! Any octets as a message of another node of the registry: the first says which kind, the rest is it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use registry_cluster_core::intake::{Intake, Limits, Outcome, Output};
use registry_cluster_core::wire as form;
use registry_facts::name::NodeName;
use registry_facts::record::{NodeId, Record, Vector};
use registry_proto as wire;

/// Kinds of messages, in this order.
const KINDS: u8 = 7;

/// More than any message here can ask for: the longest input has a few hundred records.
const MOST_OUTPUTS: usize = 100_000;

pub(super) fn body(data: &[u8]) {
    let Some((kind, data)) = data.split_first() else {
        return;
    };
    match kind % KINDS {
        0 => request(data),
        1 => response(data),
        2 => wanted(data),
        3 => found(data),
        4 => registers(data),
        5 => {
            let message = form::decode::<wire::SummaryResponse>(data);
            let summary = message.map(form::Summary::try_from);
            if let Some(Ok(summary)) = summary {
                assert_eq!(summary.registers.differing(&summary.registers).len(), 0);
            }
        }
        _ => digests(data),
    }
}

fn request(data: &[u8]) {
    let Some(message) = form::decode::<wire::JournalRequest>(data) else {
        return;
    };
    drop(form::read_node(message.node));
    vector(message.holds);
    vector(message.from);
}

/// A vector means the same on the other side.
fn vector(message: Option<wire::Vector>) -> Vector {
    let Ok(vector) = form::read_vector(message) else {
        return Vector::default();
    };
    let again = form::read_vector(Some(form::vector(&vector)));
    assert_eq!(again.as_ref(), Ok(&vector));
    vector
}

/// Records as they come from a stream: they are applied in the order of their origins, and no more wait
/// than may.
fn response(data: &[u8]) {
    let Some(message) = form::decode::<wire::JournalResponse>(data) else {
        return;
    };
    let limits = Limits {
        queue: 4,
        parallel: 3,
        batch: 2,
        ..Limits::default()
    };
    let peer: NodeName = "master-1".parse().expect("a name");
    let mut player = Player {
        intake: Intake::new(limits, vector(message.holds)),
        last: BTreeMap::new(),
        chance: data.len(),
        n_outputs: 0,
    };
    let mut origins: Vec<NodeId> = Vec::new();
    for entry in message.entries {
        let Some(Ok(record)) = entry.record.map(Record::try_from) else {
            continue;
        };
        if !origins.contains(&record.origin) {
            origins.push(record.origin.clone());
        }
        if record.sequence == 0 {
            player.intake.repair(&peer, record);
        } else {
            player.intake.receive(&peer, record, entry.previous);
        }
        let most = limits.queue * (origins.len() + 1);
        assert!(player.intake.n_waiting() <= most);
        player.play();
    }
}

/// Does what an intake asks for, well or not.
struct Player {
    intake: Intake,
    last: BTreeMap<NodeId, u64>,
    chance: usize,
    n_outputs: usize,
}

impl Player {
    #[expect(clippy::disallowed_methods, reason = "any instant does")]
    fn play(&mut self) {
        let now = Instant::now();
        while let Some(output) = self.intake.poll_output() {
            self.n_outputs += 1;
            assert!(self.n_outputs < MOST_OUTPUTS, "it asks for ever");
            self.chance = self.chance.wrapping_mul(31).wrapping_add(7);
            match output {
                Output::Ensure { digest, .. } => {
                    let outcome = match self.chance % 4 {
                        0 => Outcome::Denied,
                        1 => Outcome::Unreachable,
                        _ => Outcome::Held(Vec::new()),
                    };
                    self.intake.settle(&digest, outcome, 0, now);
                }
                Output::Look { digest } => {
                    self.intake.lost(&digest);
                }
                Output::Apply { batch, records } => {
                    for record in records.into_iter().filter(|record| record.sequence != 0) {
                        let last = self.last.entry(record.origin).or_default();
                        assert!(record.sequence > *last, "out of order");
                        *last = record.sequence;
                    }
                    self.intake.applied(batch, true);
                }
                Output::SetAside { .. } | Output::Restart => {}
            }
        }
        self.intake.tick(now + Duration::from_secs(1));
    }
}

fn wanted(data: &[u8]) {
    let message = form::decode::<wire::FindRequest>(data);
    if let Some(Ok(wanted)) = message.map(form::Search::try_from) {
        let again = form::Search::try_from(wire::FindRequest::from(&wanted));
        assert_eq!(again.as_ref(), Ok(&wanted));
        assert_eq!(wanted.key(), wanted.clone().key());
    }
}

fn found(data: &[u8]) {
    let message = form::decode::<wire::FindResponse>(data).and_then(|it| it.found);
    if let Some(Ok(found)) = message.map(form::Found::try_from) {
        let again = form::Found::try_from(wire::Found::from(&found));
        assert_eq!(again, Ok(found));
    }
}

/// Registers mean the same on the other side, and none is lost when they become records.
fn registers(data: &[u8]) {
    let Some(message) = form::decode::<wire::RegistersResponse>(data) else {
        return;
    };
    let parsed = message.registers.into_iter().map(form::read_register);
    let registers: Vec<_> = parsed.filter_map(Result::ok).collect();
    for register in &registers {
        let again = form::read_register(form::register(register));
        assert_eq!(again.as_ref(), Ok(register));
    }
    let n_registers = registers.len();
    let records = form::repairs(registers);
    assert!(records.iter().all(|record| record.sequence == 0));
    let n_facts: usize = records.iter().map(|record| record.facts.len()).sum();
    assert_eq!(n_facts, n_registers);
}

fn digests(data: &[u8]) {
    let mut texts = Vec::new();
    texts.extend(form::decode::<wire::FetchRequest>(data).map(|it| it.digest));
    texts.extend(
        form::decode::<wire::HasRequest>(data)
            .into_iter()
            .flat_map(|it| it.digests),
    );
    texts.extend(
        form::decode::<wire::BlobsResponse>(data)
            .into_iter()
            .flat_map(|it| it.digests),
    );
    for text in texts {
        if let Ok(digest) = form::read_digest(&text) {
            assert_eq!(digest.to_string(), text);
        }
    }
}
