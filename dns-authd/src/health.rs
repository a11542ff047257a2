//! Wakes the publisher when healthd's snapshot, or the nodes of lists, change.
//!
//! Decides nothing. While healthd is away its last snapshot stays for a while; then those of the [`stand_in`] come the same way.

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError};
use std::time::Duration;

use daemon::latest::{Latest, Reader};
use dns_cluster::nodes::NodeLists;
use proto::link::Link;
use tokio::task::JoinHandle;

use crate::publisher::Command;

/// The time between attempts to reach a publisher with a full queue.
const RETRY: Duration = Duration::from_millis(5);

/// Wakes the publisher with every snapshot of healthd, and whenever the nodes of lists are others.
pub fn follow_both(link: &Link, nodes: &Arc<Latest<NodeLists>>, commands: &SyncSender<Command>) {
    if let Some(snapshots) = link.reader() {
        drop(follow(snapshots, commands.clone(), || Command::Liveness));
    }
    drop(follow(nodes.reader(), commands.clone(), || Command::Nodes));
}

/// Wakes the publisher with every new value.
fn follow<T: Send + Sync + 'static>(
    mut values: Reader<T>,
    commands: SyncSender<Command>,
    command: fn() -> Command,
) -> JoinHandle<()> {
    tokio::spawn(async move {
        loop {
            values.changed().await;
            // The publisher reads the newest value, so a queued wake-up is enough; but when the queue is
            // full of other commands, this one must not be lost.
            while let Err(error) = commands.try_send(command()) {
                if matches!(error, TrySendError::Disconnected(_)) {
                    return;
                }
                tokio::time::sleep(RETRY).await;
            }
        }
    })
}
