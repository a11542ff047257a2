//! The messages to one peer: all findings of this node, then changes as they happen, and a beat.

use std::pin::Pin;
use std::time::Duration;

use daemon::drain::Guard;
use exchange::members::Finding;
use liveness::monitor::OwnFindings;
use proto::wire;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_stream::Stream;
use tonic::Status;

use crate::driver::Driver;

/// The longest time between two messages: it says that the findings before it still hold.
pub(super) const BEAT: Duration = Duration::from_millis(500);

/// The time between two messages of changes; those in between become one.
const DELTA_GAP: Duration = Duration::from_millis(5);

/// Messages that wait for a peer to read. Changes beyond them become one.
pub(super) const QUEUE: usize = 2;

pub(super) type Messages = Pin<Box<dyn Stream<Item = Result<wire::Findings, Status>> + Send>>;

/// The stream to one peer.
pub(super) struct Session {
    pub(super) driver: Driver,
    pub(super) messages: mpsc::Sender<Result<wire::Findings, Status>>,
    /// Ends when the peer begins another stream.
    pub(super) replaced: watch::Receiver<()>,
    pub(super) guard: Guard,
}

impl Session {
    pub(super) async fn run(mut self) {
        let mut generations = self.driver.generations();
        let mut heard = None;
        let mut sequence = 0;
        let mut next_beat = Instant::now();
        loop {
            // Before the look, so that a change after it is noticed.
            generations.mark_unchanged();
            let own = self.driver.look(|monitor| monitor.own_findings(heard));
            heard = Some(own.generation);
            if own.full || !own.findings.is_empty() || Instant::now() >= next_beat {
                sequence += 1;
                next_beat = Instant::now() + BEAT;
                let sent = tokio::select! {
                    sent = self.messages.send(Ok(message(sequence, own))) => sent,
                    () = self.guard.asked() => return,
                    _ = self.replaced.changed() => return,
                };
                if sent.is_err() {
                    return;
                }
            }
            let change = async {
                tokio::time::sleep(DELTA_GAP).await;
                generations.changed().await
            };
            tokio::select! {
                moved = change => if moved.is_err() {
                    return;
                },
                () = tokio::time::sleep_until(next_beat) => {}
                () = self.messages.closed() => return,
                () = self.guard.asked() => return,
                _ = self.replaced.changed() => return,
            }
        }
    }
}

fn message(sequence: u64, own: OwnFindings) -> wire::Findings {
    let finding = |finding: Finding| wire::Finding {
        target: Some((&finding.target).into()),
        liveness: wire::Liveness::from(finding.liveness).into(),
        reason: finding.reason,
    };
    wire::Findings {
        sequence,
        full: own.full,
        findings: own.findings.into_iter().map(finding).collect(),
    }
}
