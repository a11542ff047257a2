//! The other nodes, as the configuration names them.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use daemon::disk::Stamp;
use daemon::drain::Guard;
use daemon::exit;
use daemon::listen::{self, Inherited};
use daemon::run::StartError;
use registry_cluster::Cluster;
use registry_cluster::settings::NodeFiles;
use registry_http::Api;
use registry_store::Store;

use super::Workers;
use crate::config::Config;

/// The name of the listeners for nodes among inherited sockets.
const SOCKET: &str = "cluster";

/// How often the certificates of nodes are looked at.
const LOOK: Duration = Duration::from_mins(1);

/// The listeners for nodes.
pub(super) fn listeners(
    config: &Config,
    inherited: &mut Inherited,
) -> Result<Vec<TcpListener>, StartError> {
    match &config.file.cluster {
        None => Ok(Vec::new()),
        Some(cluster) => {
            let listen: Vec<_> = cluster.listen.iter().map(|address| address.0).collect();
            Ok(listen::tcp(inherited, SOCKET, &listen)?)
        }
    }
}

/// Begins to follow the other nodes, if there are any.
pub(super) async fn start(
    config: &Config,
    store: &Store,
    workers: &Workers,
) -> Result<Option<Cluster>, StartError> {
    let Some(settings) = config.cluster.clone() else {
        return Ok(None);
    };
    let store = store.clone();
    let started = workers.run(async move { Cluster::start(settings, store) });
    match started.await {
        Ok(cluster) => Ok(Some(cluster)),
        Err(error) => Err(StartError::new(exit::CONFIG, error)),
    }
}

/// The problems of the files that prove this node's identity.
pub(crate) fn check(config: &Config) -> Option<String> {
    let cluster = config.cluster.as_ref()?;
    let checked = registry_cluster::check(cluster);
    checked.err().map(|error| exit::chain(&error))
}

/// Serves the other nodes until the drain begins.
pub(super) async fn serve(
    cluster: &Cluster,
    listeners: Vec<TcpListener>,
    api: &Arc<Api>,
    guard: Guard,
    workers: &Workers,
) -> Result<(), StartError> {
    let (cluster, api) = (cluster.clone(), Arc::clone(api));
    let served = workers.run(async move {
        for listener in listeners {
            let (api, guard) = (Arc::clone(&api), guard.clone());
            let passed_on = move |request, caller| {
                let api = Arc::clone(&api);
                async move { api.handle_passed_on(request, caller).await }
            };
            cluster.serve(listener, passed_on, guard)?;
        }
        Ok(())
    });
    served
        .await
        .map_err(|error: std::io::Error| StartError::io("nodes cannot be served", &error))
}

/// Reads the certificates again whenever they have changed.
pub(super) async fn follow(cluster: Cluster, files: NodeFiles) {
    let stamps = || [&files.ca, &files.certificate, &files.key].map(|path| Stamp::of(path));
    let mut seen = stamps();
    loop {
        tokio::time::sleep(LOOK).await;
        let now = stamps();
        if now != seen {
            seen = now;
            reload(&cluster);
        }
    }
}

/// Reads the certificates again; keeps the present ones when the new ones cannot be used.
pub(super) fn reload(cluster: &Cluster) {
    match cluster.reload() {
        Ok(()) => tracing::info!("The certificates of nodes are taken up"),
        Err(error) => {
            let error = exit::chain(&error);
            tracing::error!(error, "The certificates of nodes stay as they were");
        }
    }
}
