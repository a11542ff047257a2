//! The daemon: it opens its socket and the state at the start, follows the source, and saves at the end.

use std::sync::Arc;
use std::time::Duration;

use ::config::clusterd::Clusterd as ClusterdFile;
use api::clusterd::Detail;
use cluster::Snapshot;
use cluster_snapshot::Picture;
use daemon::clock;
use daemon::config::{Common, Problems};
use daemon::drain::Drain;
use daemon::listen::Inherited;
use daemon::listen::path::{self, Bound};
use daemon::readiness::Readiness;
use daemon::run::{Context, Service, StartError};
use daemon::succession::{self, Lock, LockError};
use durable::state::Loaded;
use parking_lot::Mutex;
use tokio::net::UnixListener;

use crate::addresses::{AddressSettings, AddressState};
use crate::config::{Config, Source};
use crate::grpc::{ClusterApi, Subscribers};
use crate::metrics::{Counters, PictureCollector};
use crate::publisher::Publisher;
use crate::source::{self, Running};
use crate::state::{self, Saver, Store};
use crate::status::{self, Parts};

/// The name of the inherited socket.
const SOCKET_NAME: &str = "clusterd";

/// How much of the drain is the last write's, of half of it at most.
const LAST_SAVE: Duration = Duration::from_secs(5);

/// clusterd while it runs.
#[derive(Debug)]
pub struct Clusterd {
    publisher: Publisher,
    running: Running,
    addresses: Arc<Mutex<AddressState>>,
    saver: Saver,
    store: Store,
    drain: Drain,
    subscribers: Subscribers,
    listeners: Vec<String>,
    bound: Vec<Bound>,
    /// The state directory, which one process writes; none where it cannot be written anyway.
    lock: Option<Lock>,
}

impl Service for Clusterd {
    const NAME: &'static str = "clusterd";

    type Config = Config;
    type Status = Detail;
    type File = ClusterdFile;

    fn common(config: &Config) -> &Common {
        &config.common
    }

    fn file(config: &Config) -> &ClusterdFile {
        &config.file
    }

    async fn start(config: Config, context: &mut Context) -> Result<Self, StartError> {
        let lock = take_state(&config, context).await?;
        // Its predecessor holds the socket until then.
        let sockets = Sockets::open(&mut context.inherited, &config)?;
        let store = state::open(&config.file.state).map_err(|error| {
            let what = format!("cannot make {}", config.file.state.display());
            StartError::io(what, &error)
        })?;
        let restored = restore(&store, &context.readiness);
        let generation = clock::first_generation(restored.generation, clock::since_1970());
        let most = config.file.objects.get();
        let counters = Counters::default();
        counters.register(&context.metrics);
        let picture = Picture::new(restored, generation, most);
        let publisher = Publisher::start(picture, context.readiness.clone());
        context
            .progress
            .register("publisher", publisher.heartbeat());
        let saver = Saver::start(
            store.clone(),
            publisher.reader(),
            context.readiness.clone(),
            counters.clone(),
        );
        let addresses = Arc::<Mutex<AddressState>>::default();
        let running = source::start(
            config.source,
            AddressSettings::of(&config.file),
            Arc::clone(&addresses),
            &publisher,
            &context.readiness,
            &counters,
            most,
        );
        let (drain, guard) = Drain::new();
        let subscribers = Subscribers::default();
        let collector = PictureCollector::new(
            publisher.clone(),
            subscribers.clone(),
            Arc::clone(&addresses),
        );
        context.metrics.register_collector(Box::new(collector));
        succession::offer(context, lock.as_ref());
        check_self(context, &publisher);
        for listener in sockets.listeners {
            let listener = UnixListener::from_std(listener)?;
            ClusterApi::new(publisher.clone(), subscribers.clone(), guard.clone())
                .serve(listener, &context.connections);
        }
        let snapshot = publisher.current();
        tracing::info!(
            listeners = sockets.names.join(" "),
            "Serving {}",
            status::serves(&snapshot)
        );
        Ok(Self {
            publisher,
            running,
            addresses,
            saver,
            store,
            drain,
            subscribers,
            listeners: sockets.names,
            bound: sockets.bound,
            lock,
        })
    }

    async fn reload(&self, config: Config) -> Result<String, Problems> {
        let given = AddressSettings::of(&config.file);
        match (&self.running, config.source) {
            (Running::Api(api), Source::Api(settings)) => api.reload(settings, given),
            (Running::Manifests { source, .. }, _) => source.reload(given),
            (Running::Api(_), Source::Manifests(_)) => {}
        }
        Ok(status::serves(&self.publisher.current()))
    }

    fn status(&self) -> Detail {
        status::detail(Parts {
            publisher: &self.publisher,
            running: &self.running,
            addresses: self.addresses.lock().clone(),
            saved: self.saver.saved(),
            state_path: self.store.path().display().to_string(),
            listeners: &self.listeners,
            subscribers: self.subscribers.all(),
        })
    }

    async fn drain(self, deadline: Duration) -> bool {
        // A successor reads the state once this process has ended, and not before.
        if let Some(lock) = self.lock {
            lock.keep();
        }
        if let Running::Api(api) = self.running {
            api.leave().await;
        }
        let last_save = LAST_SAVE.min(deadline / 2);
        let left = self.drain.finish(deadline.saturating_sub(last_save)).await;
        let saved = self.saver.finish(last_save).await;
        drop(self.bound);
        left && saved
    }
}

/// The sockets for subscribers.
#[derive(Debug, Default)]
struct Sockets {
    listeners: Vec<std::os::unix::net::UnixListener>,
    bound: Vec<Bound>,
    names: Vec<String>,
}

impl Sockets {
    /// Takes the inherited sockets, or opens the configured one if there are none.
    fn open(inherited: &mut Inherited, config: &Config) -> Result<Self, StartError> {
        let listeners = inherited.unix(SOCKET_NAME);
        if !listeners.is_empty() {
            return Ok(Self {
                names: vec![format!("{} inherited", listeners.len())],
                listeners,
                bound: Vec::new(),
            });
        }
        let (listener, bound) = path::listen(&config.file.socket)?;
        Ok(Self {
            listeners: vec![listener],
            bound: vec![bound],
            names: vec![format!("unix:{}", config.file.socket.display())],
        })
    }
}

/// Lets the process be asked whether it works: whether it has a snapshot that it would give to a subscriber.
fn check_self(context: &Context, publisher: &Publisher) {
    let publisher = publisher.clone();
    context.admin.self_check(move || {
        let snapshot = publisher.current();
        async move {
            Ok(format!(
                "has {} of generation {}",
                status::serves(&snapshot),
                snapshot.generation
            ))
        }
    });
}

/// Takes over the state directory: two processes would overwrite each other's snapshots.
async fn take_state(config: &Config, context: &Context) -> Result<Option<Lock>, StartError> {
    match succession::take(&config.file.state, &config.common, context).await {
        Ok(lock) => Ok(Some(lock)),
        Err(error @ LockError::Held { .. }) => Err(StartError::new(daemon::exit::SOFTWARE, error)),
        Err(error @ LockError::Io { .. }) => {
            let error = daemon::exit::chain(&error);
            tracing::warn!(error, "The state directory is not locked");
            Ok(None)
        }
    }
}

/// Takes up the last snapshot, and says loudly when it cannot be read.
fn restore(store: &Store, readiness: &Readiness) -> Snapshot {
    match store.load() {
        Loaded::Restored(snapshot) => {
            let n_objects = snapshot.len();
            tracing::info!(
                n_objects,
                "Serving the snapshot on disk until the source is read"
            );
            snapshot
        }
        Loaded::Absent => Snapshot::default(),
        Loaded::Refused(refused) => {
            let reason = refused.to_string();
            tracing::error!(reason, "The snapshot on disk is refused");
            readiness.set_reason("old state", Some(reason));
            Snapshot::default()
        }
    }
}
