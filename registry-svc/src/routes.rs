//! Paths of the admin listener beside the common ones.
//!
//! | path | does |
//! | --- | --- |
//! | `GET /` | the page of what is kept, for a browser |
//! | `GET /repositories` | all repositories with their sizes, as JSON |
//! | `GET /tags?repository=` | the tags of one |
//! | `GET /manifest?repository=&reference=` | a manifest, what it refers to and what refers to it |
//! | `GET /diff?node=` | the differences between this node and another |
//! | `GET /upkeep` | the sweep or scrub that runs, and what the last ones did |
//! | `GET /recover` | manifests that no repository has |
//! | `POST /recover?digest=&repository=[&tag=]` | gives one of them a name |
//! | `POST /recover?done=1` | removes the damaged journal |
//! | `GET /nodes` | the other nodes, also those that were forgotten |
//! | `POST /nodes?add=[&address=]` | takes a node in |
//! | `POST /nodes?forget=[&force=1]` | forgets one |
//! | `POST /upkeep?task=` | starts one: `sweep`, `dry-run`, `scrub`, `verify` |

use api::registry_svc::Started;
use daemon::admin::{Reply, Request, Routes};
use daemon::exit;
use registry_cluster::compare::CompareError;
use registry_cluster::{Cluster, MemberError};
use registry_store::{Store, StoreError, recover};
use tokio::runtime::Handle;

use crate::maintenance::{Maintenance, Task};
use crate::views::{Looker, Seen, View, ViewError};
use crate::{page, status};

/// The path of the difference to another node.
pub(crate) const DIFF: &str = "/diff";

/// Names that a damaged journal has lost.
pub(crate) const RECOVER: &str = "/recover";

/// The other nodes.
pub(crate) const NODES: &str = "/nodes";

/// The sweep and the scrub.
pub(crate) const UPKEEP: &str = "/upkeep";

/// The sources of the pages.
#[derive(Clone, Debug)]
pub(crate) struct Shown {
    /// The store.
    pub(crate) store: Store,
    /// Reads the content of the store.
    pub(crate) looker: Looker,
    /// The other nodes.
    pub(crate) cluster: Option<Cluster>,
    /// The sweep and the scrub.
    pub(crate) upkeep: Maintenance,
    /// The runtime that reads the store.
    pub(crate) workers: Handle,
}

/// Adds the paths.
pub(crate) fn add(routes: &Routes, shown: &Shown) {
    for path in [View::REPOSITORIES, View::TAGS, View::MANIFEST] {
        let shown = shown.clone();
        routes.get(path, move |request| {
            let shown = shown.clone();
            async move {
                let looker = shown.looker;
                on(&shown.workers, async move { json(&looker, &request).await }).await
            }
        });
    }
    for path in [page::ROOT, page::REPOSITORY, page::MANIFEST] {
        let shown = shown.clone();
        routes.get(path, move |request| {
            let shown = shown.clone();
            let workers = shown.workers.clone();
            async move { on(&workers, async move { html(&shown, &request).await }).await }
        });
    }
    let compared = shown.clone();
    routes.get(DIFF, move |request| {
        let shown = compared.clone();
        let workers = shown.workers.clone();
        async move { on(&workers, async move { diff(&shown, &request).await }).await }
    });
    let upkeep = shown.upkeep.clone();
    routes.get(UPKEEP, move |_| {
        let status = upkeep.status();
        async move { Reply::json(200, &status) }
    });
    let listed = shown.clone();
    routes.get(NODES, move |_| {
        let nodes = listed.cluster.as_ref().map(status::nodes);
        async move { nodes.map_or_else(alone, |nodes| Reply::json(200, &nodes)) }
    });
    let changed = shown.clone();
    routes.post(NODES, move |request| {
        let (cluster, workers) = (changed.cluster.clone(), changed.workers.clone());
        async move {
            on(
                &workers,
                async move { change_nodes(cluster, &request).await },
            )
            .await
        }
    });
    for is_post in [false, true] {
        let shown = shown.clone();
        let handler = move |request: Request| {
            let (store, workers) = (shown.store.clone(), shown.workers.clone());
            async move {
                let reply = async move {
                    match is_post {
                        true => name(&store, &request).await,
                        false => unnamed(&store).await,
                    }
                };
                on(&workers, reply).await
            }
        };
        match is_post {
            true => routes.post(RECOVER, handler),
            false => routes.get(RECOVER, handler),
        }
    }
    let kept = shown.clone();
    routes.post(UPKEEP, move |request| {
        let shown = kept.clone();
        let workers = shown.workers.clone();
        async move { on(&workers, async move { start(&shown.upkeep, &request) }).await }
    });
}

async fn on(workers: &Handle, reply: impl Future<Output = Reply> + Send + 'static) -> Reply {
    let replied = workers.spawn(reply).await;
    replied.unwrap_or_else(|_| Reply::text(500, "something went wrong\n"))
}

async fn json(looker: &Looker, request: &Request) -> Reply {
    match look(looker, &request.path, &request.query).await {
        Ok(value) => Reply::json(200, &value),
        Err(error) => refusal(&error),
    }
}

async fn html(shown: &Shown, request: &Request) -> Reply {
    let path = match request.path.as_str() {
        page::REPOSITORY => View::TAGS,
        page::MANIFEST => View::MANIFEST,
        _ => View::REPOSITORIES,
    };
    let view = match View::parse(path, &request.query) {
        Ok(view) => view,
        Err(error) => return refusal(&error),
    };
    let cluster = shown.cluster.as_ref().map(status::cluster);
    match shown.looker.look(&view).await {
        Ok(seen) => Reply::html(page::render(&seen, cluster.as_ref())),
        Err(error) => refusal(&error),
    }
}

fn start(upkeep: &Maintenance, request: &Request) -> Reply {
    let task = request.parameter("task");
    let Some(task) = task.as_deref().and_then(Task::parse) else {
        return refusal(&ViewError::Parameter("task"));
    };
    match upkeep.start(task) {
        Some((number, _)) => Reply::json(202, &Started { number }),
        None => Reply::text(409, "one is running: see GET /upkeep\n"),
    }
}

async fn unnamed(store: &Store) -> Reply {
    match recover::find(store).await {
        Ok(found) => Reply::json(200, &status::unnamed_manifests(&found)),
        Err(error) => Reply::text(500, format!("{}\n", exit::chain(&error))),
    }
}

async fn name(store: &Store, request: &Request) -> Reply {
    let named = match request.parameter("done") {
        Some(_) => recover::finish(store).await,
        None => {
            let digest = request.parameter("digest");
            let Some(digest) = digest.and_then(|text| text.parse().ok()) else {
                return refusal(&ViewError::Parameter("digest"));
            };
            let repository = request.parameter("repository");
            let Some(repository) = repository.and_then(|text| text.parse().ok()) else {
                return refusal(&ViewError::Parameter("repository"));
            };
            let tag = match request.parameter("tag").map(|text| text.parse()) {
                None => None,
                Some(Ok(tag)) => Some(tag),
                Some(Err(_)) => return refusal(&ViewError::Parameter("tag")),
            };
            recover::name(store, &digest, &repository, tag).await
        }
    };
    match named {
        Ok(()) => Reply::text(200, "done\n"),
        Err(error) => {
            let code = match error {
                StoreError::Unknown(_) => 404,
                StoreError::MissingBlobs(_) | StoreError::ReadOnly => 409,
                _ => 500,
            };
            Reply::text(code, format!("{}\n", exit::chain(&error)))
        }
    }
}

fn alone() -> Reply {
    Reply::text(404, "this node has no others beside it\n")
}

async fn change_nodes(cluster: Option<Cluster>, request: &Request) -> Reply {
    let Some(cluster) = cluster else {
        return alone();
    };
    let changed = match (request.parameter("add"), request.parameter("forget")) {
        (Some(name), None) => {
            let Ok(name) = name.parse() else {
                return refusal(&ViewError::Parameter("add"));
            };
            let address = request.parameter("address");
            cluster.add_node(&name, address.as_deref()).await
        }
        (None, Some(name)) => {
            let Ok(name) = name.parse() else {
                return refusal(&ViewError::Parameter("forget"));
            };
            let forced = request.parameter("force").is_some();
            cluster.forget_node(&name, forced).await
        }
        _ => return Reply::text(400, "say add= or forget=\n"),
    };
    match changed {
        Ok(true) => Reply::text(200, "done\n"),
        Ok(false) => Reply::text(200, "it was so before\n"),
        Err(error) => {
            let code = match &error {
                MemberError::Unknown(_) => 404,
                MemberError::Address(_) => 400,
                MemberError::Own(_) | MemberError::NoMajority(_) | MemberError::NoAddress(_) => 409,
                MemberError::Store { .. } => 500,
            };
            Reply::text(code, format!("{}\n", exit::chain(&error)))
        }
    }
}

async fn diff(shown: &Shown, request: &Request) -> Reply {
    let Some(cluster) = &shown.cluster else {
        return alone();
    };
    let Some(node) = request.parameter("node") else {
        return Reply::text(400, "which node? say node=\n");
    };
    match cluster.diff(&node).await {
        Ok(differences) => Reply::json(200, &status::differences(&differences)),
        Err(error) => {
            let code = match &error {
                CompareError::NoPeer(_) => 404,
                _ => 502,
            };
            Reply::text(code, format!("{}\n", exit::chain(&error)))
        }
    }
}

async fn look(looker: &Looker, path: &str, query: &str) -> Result<Seen, ViewError> {
    looker.look(&View::parse(path, query)?).await
}

fn refusal(error: &ViewError) -> Reply {
    let status = match error {
        ViewError::Parameter(_) => 400,
        ViewError::Unknown(_) => 404,
        ViewError::Store(_) => 500,
    };
    Reply::text(status, format!("{}\n", exit::chain(error)))
}
