//! What the admin listener shows and does beside the common paths.
//!
//! | path | does |
//! | --- | --- |
//! | `GET /` | the page of what is kept, for a browser |
//! | `GET /repositories` | all repositories with their sizes, as JSON |
//! | `GET /tags?repository=` | the tags of one |
//! | `GET /manifest?repository=&reference=` | a manifest, what it refers to and what refers to it |
//! | `POST /hand-over` | ends this process in favour of one that shares its sockets |

use daemon_base::admin::{Reply, Request, Routes};
use daemon_base::exit;
use rustix::process::{Signal, getpid, kill_process};
use tokio::runtime::Handle;

use crate::page;
use crate::service::HAND_OVER;
use crate::views::{Looker, View, ViewError};

/// Adds the paths; what has to read the store does so on `workers`.
pub(crate) fn add(routes: &Routes, looker: &Looker, workers: &Handle) {
    for path in [View::REPOSITORIES, View::TAGS, View::MANIFEST] {
        let (looker, workers) = (looker.clone(), workers.clone());
        routes.get(path, move |request| {
            let (looker, workers) = (looker.clone(), workers.clone());
            async move { on(&workers, async move { json(&looker, &request).await }).await }
        });
    }
    for path in [page::ROOT, page::REPOSITORY, page::MANIFEST] {
        let (looker, workers) = (looker.clone(), workers.clone());
        routes.get(path, move |request| {
            let (looker, workers) = (looker.clone(), workers.clone());
            async move { on(&workers, async move { html(&looker, &request).await }).await }
        });
    }
    routes.post(HAND_OVER, |_| async {
        tracing::info!("A successor asks for the root");
        // The end of a process begins in one place.
        match kill_process(getpid(), Signal::TERM) {
            Ok(()) => Reply::text(200, "finishing\n"),
            Err(error) => Reply::text(500, format!("{error}\n")),
        }
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

async fn html(looker: &Looker, request: &Request) -> Reply {
    let path = match request.path.as_str() {
        page::REPOSITORY => View::TAGS,
        page::MANIFEST => View::MANIFEST,
        _ => View::REPOSITORIES,
    };
    let view = match View::parse(path, &request.query) {
        Ok(view) => view,
        Err(error) => return refusal(&error),
    };
    match looker.look(&view).await {
        Ok(value) => Reply::html(page::render(&view, &value)),
        Err(error) => refusal(&error),
    }
}

async fn look(looker: &Looker, path: &str, query: &str) -> Result<serde_json::Value, ViewError> {
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
