//! One stream of the journal to a peer, from its first message to its end.

use std::collections::BTreeMap;

use daemon::drain::Guard;
use registry_facts::name::NodeName;
use registry_facts::record::{Record, RecordError};
use registry_proto as wire;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tonic::{Status, Streaming};

use super::{Following, RECORDS, admitted, claim_of, malformed};
use crate::pace::{BEAT, milliseconds};
use registry_cluster_core::acknowledge::Follower;
use registry_cluster_core::wire as form;

impl Following {
    /// This stream is the peer's newest.
    pub(super) fn begun(&self) {
        self.streams().insert(self.name.clone(), self.number);
    }

    /// Takes note of what the peer says.
    pub(super) fn said(&self, request: wire::JournalRequest) -> Result<(), RecordError> {
        let follower = Follower {
            holds: form::read_vector(request.holds)?,
            ahead: form::read_ahead(request.ahead)?,
            waiting: request.waiting,
            heard: Instant::now().into_std(),
        };
        // One that was forgotten counts when it is taken in again.
        let counts = self.server.0.members.is_member(&self.name);
        if counts && self.streams().get(&self.name) == Some(&self.number) {
            self.server.lock().heard(self.name.clone(), follower);
            self.server.0.heard.send_modify(|count| *count += 1);
        }
        Ok(())
    }

    /// Takes note of what the peer says, as long as it may follow.
    async fn hear(&self, request: wire::JournalRequest) -> Result<(), Status> {
        let holds = form::read_vector(request.holds.clone()).map_err(malformed)?;
        let claim = claim_of(&request);
        admitted(&self.server.0.members, &self.name, claim, &holds).await?;
        self.said(request).map_err(malformed)
    }

    pub(super) async fn run(
        mut self,
        mut requests: Streaming<wire::JournalRequest>,
        mut records: mpsc::Receiver<Record>,
        responses: mpsc::Sender<Result<wire::JournalResponse, Status>>,
        mut guard: Guard,
    ) {
        let mut beat = tokio::time::interval(BEAT);
        let mut batch = Vec::with_capacity(RECORDS);
        while !(guard.is_asked() && records.is_empty()) {
            let entries = tokio::select! {
                request = requests.message() => match request {
                    Ok(Some(request)) => match self.hear(request).await {
                        Ok(()) => continue,
                        Err(status) => {
                            drop(responses.send(Err(status)).await);
                            break;
                        }
                    },
                    Ok(None) | Err(_) => break,
                },
                n_records = records.recv_many(&mut batch, RECORDS) => match n_records {
                    // The store is closed.
                    0 => break,
                    _ => batch.drain(..).map(|record| self.entry(&record)).collect(),
                },
                _ = beat.tick() => Vec::new(),
                () = responses.closed() => break,
                // All pending records are sent; the peer then follows the journal of the next
                // process.
                () = guard.asked(), if !guard.is_asked() => continue,
            };
            let store = &self.server.0.store;
            let claim = self.server.0.members.claim();
            let response = wire::JournalResponse {
                node: Some((&store.origin()).into()),
                entries,
                holds: Some(form::vector(&store.vector())),
                time: milliseconds(store.wall()),
                began: claim.began,
                taken_in: claim.is_taken_in,
                together: self.server.0.members.together(),
                forgotten: self.server.0.members.forgotten(&self.name),
            };
            if responses.send(Ok(response)).await.is_err() {
                break;
            }
        }
        self.ended();
    }

    fn entry(&mut self, record: &Record) -> wire::JournalEntry {
        let previous = self.sent.of(&record.origin);
        self.sent.advance(&record.origin, record.sequence);
        wire::JournalEntry {
            record: Some(record.into()),
            previous,
        }
    }

    fn ended(&self) {
        let mut streams = self.streams();
        if streams.get(&self.name) == Some(&self.number) {
            streams.remove(&self.name);
            drop(streams);
            self.server.lock().gone(&self.name);
            self.server.0.heard.send_modify(|count| *count += 1);
        }
    }

    fn streams(&self) -> parking_lot::MutexGuard<'_, BTreeMap<NodeName, u64>> {
        self.server.0.streams.lock()
    }
}
