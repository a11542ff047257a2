//! Decisions of operators about servers, on disk, so that a restart continues from it; and the end of those
//! decisions that have one.
//!
//! The file has the same JSON as `GET /backends/overrides`. It is written when an operator decides and when a decision
//! ends, and a decision that cannot be written holds all the same.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use daemon::clock;
use daemon::decision;
use daemon::disk;
use durable::Rights;
use parking_lot::Mutex;

use crate::server_state::{Decided, Override};
use crate::table_builder::{ServerKey, TableBuilder, View};

/// The name of the file.
const NAME: &str = "decisions.json";

/// The longest sleep before the end of a decision: the clock of the wall may be set.
const LOOK: Duration = Duration::from_secs(60);

/// The decisions on disk; clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Decisions {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    builder: Arc<TableBuilder>,
    /// One write at a time.
    writing: Mutex<()>,
}

impl Decisions {
    /// Those in a directory, which is made when there is something to write.
    pub(crate) fn new(directory: &Path, builder: &Arc<TableBuilder>) -> Self {
        Self {
            inner: Arc::new(Inner {
                path: directory.join(NAME),
                builder: Arc::clone(builder),
                writing: Mutex::new(()),
            }),
        }
    }

    /// Passes what is on disk to the builder, but for what has ended. A file that cannot be read is moved aside.
    pub(crate) fn restore(&self) {
        let path = &self.inner.path;
        let read = match disk::read(path) {
            Ok(octets) => serde_json::from_slice(&octets).map_err(io::Error::from),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(error) => Err(error),
        };
        match read {
            Ok(written) => {
                let decided = self
                    .inner
                    .builder
                    .take_over(still(parse_overrides(written)));
                tracing::info!(servers = decided, "Decisions of operators hold on");
            }
            Err(error) => {
                let aside = path.with_added_extension("refused");
                let is_aside = fs::rename(path, &aside).is_ok();
                let path = path.display();
                tracing::error!(%path, %error, is_aside, "Decisions of operators cannot be read");
            }
        }
    }

    /// Writes the decisions that hold now. Blocks until it is on disk.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub(crate) fn save(&self) -> io::Result<()> {
        let _guard = self.inner.writing.lock();
        let path = &self.inner.path;
        let all = overrides(&self.inner.builder.view());
        if all.is_empty() && !path.exists() {
            return Ok(());
        }
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory)?;
        }
        let text = serde_json::to_vec_pretty(&all)?;
        durable::replace(path, Rights::new(0o640), |file| file.write_all(&text))
    }

    /// As [`save`](Self::save), off the threads of the runtime; an error is logged.
    pub(crate) async fn save_soon(&self) -> Result<(), String> {
        let copy = self.clone();
        let saved = tokio::task::spawn_blocking(move || copy.save()).await;
        saved
            .unwrap_or_else(|error| Err(io::Error::other(error)))
            .map_err(|error| {
                let path = self.inner.path.display();
                tracing::error!(%path, %error, "Decisions of operators cannot be written");
                format!("{path} cannot be written: {error}")
            })
    }

    /// Ends decisions when their time is over, until the task is aborted.
    pub(crate) async fn end_those_that_are_over(self) {
        let mut views = self.inner.builder.reader();
        loop {
            let ends = views.shared();
            let ends = ends.overrides.values().filter_map(Override::first_end);
            let wait = ends.min().map(|end| {
                let left = end.saturating_sub(clock::since_1970());
                left.min(LOOK)
            });
            let over = async {
                match wait {
                    Some(wait) => tokio::time::sleep(wait).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = views.changed() => {}
                () = over => if self.inner.builder.end(clock::since_1970()) {
                    // It is logged, and written again with the next decision.
                    self.save_soon().await.ok();
                }
            }
        }
    }
}

/// Those that have not ended yet.
fn still(overrides: Vec<(ServerKey, Override)>) -> Vec<(ServerKey, Override)> {
    let now = clock::since_1970();
    let mut overrides = overrides;
    for (_, decided) in &mut overrides {
        decided.end(now);
    }
    overrides.retain(|(_, decided)| !decided.is_empty());
    overrides
}

//--- Overrides

/// The operators' overrides.
pub(crate) fn overrides(view: &View) -> Vec<api::lb_proxy::Override> {
    let all = view.overrides.iter();
    let one = |((backend, server), said): (&ServerKey, &Override)| {
        let (state, state_terms) = parts(said.state.as_ref());
        let (weight, weight_terms) = parts(said.weight.as_ref());
        let (max_connections, max_connections_terms) = parts(said.max_connections.as_ref());
        api::lb_proxy::Override {
            backend: backend.to_string(),
            server: server.to_string(),
            state,
            state_terms,
            weight,
            weight_terms,
            max_connections,
            max_connections_terms,
        }
    };
    all.map(one).collect()
}

fn parts<T: Copy>(decided: Option<&Decided<T>>) -> (Option<T>, api::Terms) {
    let terms = decided.map(|decided| decision::shown(&decided.terms));
    (
        decided.map(|decided| decided.value),
        terms.unwrap_or_default(),
    )
}

/// A predecessor's answer to `GET /backends/overrides`, or the file of before a restart.
pub(crate) fn parse_overrides(said: Vec<api::lb_proxy::Override>) -> Vec<(ServerKey, Override)> {
    let one = |said: api::lb_proxy::Override| {
        let key = (said.backend.into(), said.server.into());
        let said = Override {
            state: decided(said.state, &said.state_terms),
            weight: decided(said.weight, &said.weight_terms),
            max_connections: decided(said.max_connections, &said.max_connections_terms),
        };
        (key, said)
    };
    said.into_iter().map(one).collect()
}

/// A decision with times that cannot be read holds until an operator ends it.
fn decided<T>(value: Option<T>, terms: &api::Terms) -> Option<Decided<T>> {
    Some(Decided {
        value: value?,
        terms: decision::of_shown(terms).unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use proto::health::{AdminState, Terms};

    use super::*;
    use crate::table_builder::tests::builder_of;

    fn terms(until: Option<Duration>) -> Terms {
        Terms {
            since: Some(Duration::from_secs(1_800_000_000)),
            until,
            reason: "a new disk".to_owned(),
            by: "anna".to_owned(),
        }
    }

    #[test]
    fn decisions_outlive_a_restart_until_they_end() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("state");
        let now = Duration::from_secs(clock::since_1970().as_secs());
        let hour = Duration::from_hours(1);
        let builder = builder_of(&["a", "b"]);
        let decisions = Decisions::new(&place, &builder);
        // Nothing is decided, and nothing is written.
        decisions.restore();
        decisions.save().unwrap();
        assert!(!place.exists());

        let later = terms(Some(now + hour));
        builder
            .set_state("api", "a", AdminState::Drain, later)
            .unwrap();
        builder
            .set_weight("api", "a", Some(7), terms(None))
            .unwrap();
        let soon = terms(Some(now));
        builder
            .set_max_connections("api", "b", Some(0), soon)
            .unwrap();
        decisions.save().unwrap();
        let again = builder_of(&["a", "b"]);
        Decisions::new(&place, &again).restore();
        // What ended meanwhile does not come back.
        let (before, after) = (builder.view(), again.view());
        assert_eq!(before.overrides.len(), 2);
        assert_eq!(after.overrides.len(), 1);
        let key = ("api".into(), "a".into());
        assert_eq!(after.overrides.get(&key), before.overrides.get(&key));

        assert!(again.end(now + hour));
        assert!(!again.end(now + hour));
        let view = again.view();
        let left = view.overrides.get(&key).unwrap();
        assert_eq!((left.state.is_none(), left.weight.is_some()), (true, true));
    }

    #[test]
    fn a_file_that_cannot_be_read_is_moved_aside() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(NAME);
        fs::write(&path, "half of").unwrap();
        let builder = builder_of(&["a"]);
        let decisions = Decisions::new(directory.path(), &builder);
        decisions.restore();
        assert!(!path.exists() && path.with_added_extension("refused").exists());
        builder
            .set_state("api", "a", AdminState::Drain, terms(None))
            .unwrap();
        decisions.save().unwrap();
        assert!(path.exists());
    }
}
