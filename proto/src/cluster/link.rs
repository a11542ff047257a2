//! A service's link to clusterd: the last snapshot, and the state of the stream.
//!
//! A service of a site without Kubernetes has a link too: its snapshot stays empty, and it has no state. When clusterd goes,
//! its last snapshot stays; the log says so once, and once when it is back. A clusterd that has just started gives the snapshot that
//! it kept on disk, marked as old; one that has lost its state knows nothing for a while, and the objects from before stay, marked as
//! old too. So a restart takes no object away.

use std::sync::Arc;
use std::time::Duration;

use daemon::clock;
use daemon::latest::{Latest, Reader};
use retry::Backoff;
use tokio::task::JoinHandle;
use tonic::Streaming;

use super::{Assembly, Snapshot};
use crate::connection::{Connection, Sentences};
use crate::endpoint::{self, Endpoint};
use crate::reconnect::{backoff, chain};
use crate::watch::MAX_MESSAGE;
use crate::wire::cluster as wire;
use crate::wire::cluster::cluster_client::ClusterClient;

pub use crate::connection::State;

/// The default socket of clusterd.
pub const SOCKET: &str = "/run/outpost/clusterd/clusterd.sock";

const SENTENCES: Sentences = Sentences {
    connected: "Connected to clusterd",
    lost: "Not connected to clusterd; the last snapshot stays",
};

/// The link of one service; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Link {
    watcher: Option<Arc<Watcher>>,
}

impl Link {
    /// Begins to watch, if there is a clusterd; needs a tokio runtime.
    #[must_use]
    pub fn start(endpoint: Option<Endpoint>, service: &str) -> Self {
        let watcher = endpoint.map(|endpoint| Arc::new(Watcher::start(endpoint, service)));
        Self { watcher }
    }

    /// The last snapshot; empty before the first one.
    #[must_use]
    pub fn current(&self) -> Arc<Snapshot> {
        let watcher = self.watcher.as_ref();
        watcher
            .map(|watcher| watcher.snapshots.current())
            .unwrap_or_default()
    }

    /// Reads the snapshots; to this reader, the first from clusterd is a change, even one that is there already.
    #[must_use]
    pub fn reader(&self) -> Option<Reader<Snapshot>> {
        self.watcher.as_ref().map(|watcher| watcher.unread.clone())
    }

    /// Reads whether clusterd is connected, and waits for changes of it; `None` without clusterd.
    #[must_use]
    pub fn is_connected(&self) -> Option<Reader<bool>> {
        let watcher = self.watcher.as_ref();
        watcher.map(|watcher| watcher.connection.is_connected())
    }

    /// The state of the stream; `None` without clusterd.
    #[must_use]
    pub fn state(&self) -> Option<State> {
        self.watcher.as_ref().map(|it| it.connection.state())
    }

    /// The age of the last snapshot; `None` before the first one, and without clusterd.
    #[must_use]
    pub fn age(&self) -> Option<Duration> {
        self.state()?.age(clock::now())
    }
}

/// One `Watch` stream, kept alive.
#[derive(Debug)]
struct Watcher {
    snapshots: Arc<Latest<Snapshot>>,
    unread: Reader<Snapshot>,
    connection: Arc<Connection>,
    task: JoinHandle<()>,
}

impl Watcher {
    fn start(endpoint: Endpoint, subscriber: &str) -> Self {
        let snapshots = Latest::new(Snapshot::default());
        let connection = Arc::new(Connection::new(endpoint, SENTENCES));
        let unread = snapshots.reader();
        let stream = Stream {
            subscriber: subscriber.to_owned(),
            snapshots: Arc::clone(&snapshots),
            connection: Arc::clone(&connection),
        };
        Self {
            snapshots,
            unread,
            connection,
            task: tokio::spawn(stream.run()),
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The task behind a [`Watcher`].
struct Stream {
    subscriber: String,
    snapshots: Arc<Latest<Snapshot>>,
    connection: Arc<Connection>,
}

impl Stream {
    async fn run(self) {
        let mut wait = backoff();
        loop {
            let error = match self.connect().await {
                Ok(responses) => self.follow(responses, &mut wait).await,
                Err(error) => error,
            };
            self.connection.lost(&error);
            tokio::time::sleep(wait.next_wait()).await;
        }
    }

    async fn connect(&self) -> Result<Streaming<wire::WatchResponse>, String> {
        let channel = endpoint::connect(self.connection.endpoint()).await;
        let channel = channel.map_err(|error| chain(&error))?;
        let mut client = ClusterClient::new(channel).max_decoding_message_size(MAX_MESSAGE);
        let request = wire::WatchRequest {
            subscriber: self.subscriber.clone(),
        };
        let response = client.watch(request).await;
        let response = response.map_err(|status| status.message().to_owned())?;
        self.connection.connected();
        Ok(response.into_inner())
    }

    /// Publishes what comes until the stream ends; says why it ended.
    async fn follow(
        &self,
        mut responses: Streaming<wire::WatchResponse>,
        wait: &mut Backoff,
    ) -> String {
        let mut assembly = Assembly::default();
        // The snapshot from before the stream, and that of the stream alone.
        let (before, mut heard) = (self.snapshots.current(), Snapshot::default());
        loop {
            match responses.message().await {
                Ok(Some(piece)) => {
                    // A peer that ends each stream before it says a word is not back.
                    *wait = backoff();
                    self.connection.heard();
                    if let Some(difference) = assembly.add(piece) {
                        heard = heard.with(difference);
                        self.snapshots.publish(heard.clone().keep_known(&before));
                    }
                }
                Ok(None) => return "clusterd ended the stream".to_owned(),
                Err(status) => return status.message().to_owned(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_service_without_clusterd_has_an_empty_snapshot() {
        let link = Link::start(None, "test");
        assert_eq!(*link.current(), Snapshot::default());
        assert!(link.state().is_none() && link.age().is_none() && link.reader().is_none());
    }

    #[tokio::test]
    async fn a_clusterd_that_is_away_leaves_the_snapshot_empty() {
        let nowhere = "unix:/nonexistent/clusterd.sock".parse().ok();
        let link = Link::start(nowhere, "test");
        let failed = async {
            while link.state().unwrap().error.is_empty() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let failed = tokio::time::timeout(Duration::from_secs(20), failed).await;
        assert!(failed.is_ok() && !link.state().unwrap().connected);
        assert_eq!((link.age(), link.current().generation), (None, 0));
    }
}
