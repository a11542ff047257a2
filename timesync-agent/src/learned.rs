//! The nodes of a cluster that the agent asks for the time, beside the sources of the configuration.
//!
//! ```text
//! clusterd ─► Follower ─► sources::added ─► add, delete ─► agent
//!                              └──► status
//! ```
//!
//! `cluster_members` decides which nodes these are: always fewer than the sources of the configuration. They are added and deleted as
//! chronyc would do it, so a change disturbs no other source.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ::config::timesync_agent::{Cluster, Source};
use api::cluster_nodes::Nodes;
use cluster_follow::{Follower, ListSettings, Settings as FollowSettings};
use cluster_members::Written;
use cluster_members::sources::{self, Added};
use ipnet::IpNet;
use parking_lot::Mutex;
use tokio::sync::{Mutex as AsyncMutex, Notify};
use tokio::task::JoinHandle;

use crate::config::Config;
use ntp::engine::{Command, Reply};
use time_model::settings::{Host, Settings, SourceSettings};

/// The name of the only list.
const LIST: &str = "sources";

/// A change of the sources, as the agent carries it out.
pub(crate) trait Sources: Send + Sync + 'static {
    /// Has a command done.
    fn command(&self, command: Command) -> impl Future<Output = Reply> + Send;
}

/// Keeps the learned sources up to date until it is dropped.
#[derive(Debug)]
pub(crate) struct Learned {
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    follower: Follower,
    /// The name of this node, which does not ask itself.
    node: String,
    /// The number of sources of the configuration.
    n_written: AtomicUsize,
    /// The nodes that the agent asks. Held while they change.
    asked: AsyncMutex<Vec<Added>>,
    /// The nodes that may be asked, for the status.
    shown: Mutex<Vec<Added>>,
    /// The configuration is another.
    reloaded: Notify,
}

impl Learned {
    /// Begins to follow clusterd; needs a tokio runtime.
    pub(crate) fn start(service: &'static str, config: &Config, sources: impl Sources) -> Self {
        let shared = Arc::new(Shared {
            follower: Follower::start(service, follow(config)),
            node: config.node(),
            n_written: AtomicUsize::new(n_written(&config.settings)),
            asked: AsyncMutex::default(),
            shown: Mutex::default(),
            reloaded: Notify::new(),
        });
        Self {
            task: tokio::spawn(Arc::clone(&shared).run(sources)),
            shared,
        }
    }

    /// Takes up another configuration: `adopt` gets its settings with the nodes that the agent asks, which has them when it
    /// returns.
    pub(crate) async fn reload<T>(&self, config: &Config, adopt: impl FnOnce(&Settings) -> T) -> T {
        let mut asked = self.shared.asked.lock().await;
        let mut settings = config.settings.clone();
        let written = written(&settings);
        asked.retain(|one| !written.iter().any(|it| it.address == one.address));
        if config.file.cluster.is_none() {
            asked.clear();
        }
        settings.sources.extend(asked.iter().map(source));
        let adopted = adopt(&settings);
        let n_written = n_written(&config.settings);
        self.shared.n_written.store(n_written, Ordering::Release);
        self.shared.follower.configure(follow(config));
        self.shared.reloaded.notify_one();
        adopted
    }

    /// The nodes for the status, and those that the agent asks or that are too many; none without a cluster.
    pub(crate) fn status(&self) -> Option<(Nodes, Vec<Added>)> {
        let mut nodes = self.shared.follower.status()?;
        for list in &mut nodes.lists {
            list.refused
                .retain(|refused| refused.node != self.shared.node);
        }
        Some((nodes, self.shared.shown.lock().clone()))
    }
}

impl Drop for Learned {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Shared {
    async fn run(self: Arc<Self>, sources: impl Sources) {
        let lists = self.follower.lists();
        let mut changes = lists.reader();
        loop {
            self.apply(&sources).await;
            tokio::select! {
                () = changes.changed() => {}
                () = self.reloaded.notified() => {}
            }
        }
    }

    /// Has the agent ask the nodes of the list, and no others.
    async fn apply(&self, sources: &impl Sources) {
        let mut asked = self.asked.lock().await;
        let lists = self.follower.lists().current();
        let n_written = self.n_written.load(Ordering::Acquire);
        let members = lists.members(LIST).unwrap_or_default();
        let added = sources::added(members, n_written, &[]);
        let wanted: Vec<Added> = added.iter().filter(|one| one.is_used).cloned().collect();
        for one in asked.extract_if(.., |one| !wanted.contains(one)) {
            let (node, address) = (&one.name, one.address);
            let reply = sources.command(Command::DeleteSource(address)).await;
            tracing::info!(node, %address, ?reply, "A node of the cluster is not asked for the time any more");
        }
        for one in wanted {
            if asked.contains(&one) {
                continue;
            }
            let (node, address) = (&one.name, one.address);
            let command = Command::AddSource(Box::new(source(&one)));
            match sources.command(command).await {
                Reply::Sources(_) => {
                    tracing::info!(node, %address, "A node of the cluster gives the time");
                    asked.push(one);
                }
                reply => {
                    tracing::warn!(node, %address, ?reply, "A node of the cluster cannot be asked for the time");
                }
            }
        }
        *self.shown.lock() = added;
    }
}

/// The list of a configuration.
fn follow(config: &Config) -> Option<FollowSettings> {
    let Cluster {
        socket,
        nodes,
        networks,
        excluded,
    } = config.file.cluster.clone()?;
    Some(FollowSettings {
        socket,
        networks: networks.into_iter().map(IpNet::from).collect(),
        excluded: excluded.into_iter().map(|it| it.0).collect(),
        state: None,
        lists: vec![ListSettings {
            name: LIST.to_owned(),
            nodes,
            written: written(&config.settings),
        }],
    })
}

/// The sources that are written with an address.
fn written(settings: &Settings) -> Vec<Written> {
    let addresses = settings
        .sources
        .iter()
        .filter_map(|source| match &source.host {
            Host::Address(address) => Some(*address),
            Host::Name(_) => None,
        });
    addresses
        .map(|address| Written {
            name: address.to_string(),
            address,
        })
        .collect()
}

/// The sources that a configuration has. A pool counts as one: it may have found one address alone.
fn n_written(settings: &Settings) -> usize {
    settings.sources.len() + settings.refclocks.len()
}

/// A node as a server, asked at once.
fn source(one: &Added) -> SourceSettings {
    SourceSettings::server(Source {
        iburst: true,
        ..Source::new(&one.address.to_string())
    })
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::time::Duration;

    use daemon::config::Document;
    use daemon::disk::Disk;

    use super::*;

    /// What the agent was told.
    #[derive(Clone, Debug, Default)]
    struct Told(Arc<Mutex<Vec<String>>>);

    impl Sources for Told {
        async fn command(&self, command: Command) -> Reply {
            let line = match command {
                Command::AddSource(source) => format!("add {}", source.host),
                Command::DeleteSource(address) => format!("delete {address}"),
                other => format!("{other:?}"),
            };
            self.0.lock().push(line);
            Reply::Sources(Vec::new())
        }
    }

    fn config(text: &str) -> Config {
        let text = format!("version = \"v1\"\n{text}");
        Config::from_document(&Document::inline("test", text), &mut Disk).unwrap()
    }

    const CLUSTER: &str = "[cluster]\nsocket = \"/nonexistent\"\nnodes = [\"masters\"]\nnetworks = [\"192.0.2.0/24\"]\n";

    fn added(last: u8) -> Added {
        Added {
            name: format!("n{last}"),
            address: IpAddr::from([192, 0, 2, last]),
            is_used: true,
        }
    }

    #[tokio::test]
    async fn a_reload_keeps_the_nodes_that_are_asked_and_no_written_one_twice() {
        let servers = "[[server]]\nhost = \"192.0.2.1\"\n[[server]]\nhost = \"192.0.2.2\"\n";
        let before = config(&format!("{CLUSTER}{servers}"));
        let told = Told::default();
        let learned = Learned::start("test", &before, told.clone());
        learned
            .shared
            .asked
            .lock()
            .await
            .extend([added(7), added(8)]);
        let hosts = |settings: &Settings| {
            let sources = settings.sources.iter();
            sources.map(|it| it.host.to_string()).collect::<Vec<_>>()
        };
        let more = format!("{CLUSTER}{servers}[[server]]\nhost = \"192.0.2.8\"\n");
        let with = learned.reload(&config(&more), hosts).await;
        assert_eq!(with, ["192.0.2.1", "192.0.2.2", "192.0.2.8", "192.0.2.7"]);
        let without = learned.reload(&config(servers), hosts).await;
        assert_eq!(without, ["192.0.2.1", "192.0.2.2"]);
    }

    #[tokio::test]
    async fn a_node_that_no_list_has_is_deleted() {
        let told = Told::default();
        let learned = Learned::start("test", &config(CLUSTER), told.clone());
        learned.shared.asked.lock().await.push(added(7));
        learned.shared.reloaded.notify_one();
        while told.0.lock().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(*told.0.lock(), ["delete 192.0.2.7"]);
    }
}
