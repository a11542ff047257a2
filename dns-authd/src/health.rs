//! Wakes the publisher when healthd's snapshot changes.
//!
//! Decides nothing. While healthd is away its last snapshot stays for a while; then those of the [`stand_in`] come the same way.

use std::sync::mpsc::{SyncSender, TrySendError};
use std::time::Duration;

use proto::link::Link;
use tokio::task::JoinHandle;

use crate::publisher::Command;

/// The time between attempts to reach a publisher with a full queue.
const RETRY: Duration = Duration::from_millis(5);

/// Wakes the publisher with every snapshot.
pub fn follow(link: &Link, commands: SyncSender<Command>) -> Option<JoinHandle<()>> {
    let mut snapshots = link.reader()?;
    Some(tokio::spawn(async move {
        loop {
            snapshots.changed().await;
            // The publisher reads the newest snapshot, so a queued wake-up is enough; but when the queue is
            // full of other commands, this one must not be lost.
            while let Err(error) = commands.try_send(Command::Liveness) {
                if matches!(error, TrySendError::Disconnected(_)) {
                    return;
                }
                tokio::time::sleep(RETRY).await;
            }
        }
    }))
}
