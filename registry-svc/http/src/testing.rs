//! A registry in a directory of its own, for tests of its clients.

#![expect(clippy::unwrap_used, reason = "a test fails by it")]

use std::sync::Arc;

use daemon::latest::Latest;
use registry_auth::Access;
use registry_store::disk::RealDisk;
use registry_store::{IndexKind, Settings, Store};
use registry_webhook::Events;
use tempfile::TempDir;

use crate::counts::Http;
use crate::{Api, Limits, Parts};

/// A registry that everybody may push to.
#[derive(Debug)]
pub struct Registry {
    api: Arc<Api>,
    store: Store,
    _root: TempDir,
}

impl Registry {
    /// Within bounds.
    pub async fn with(limits: Limits) -> Self {
        Self::at(tempfile::tempdir().unwrap(), limits).await
    }

    /// A small one that survives no power cut, where the system has room for that in memory: it waits for no disk.
    pub async fn in_memory(limits: Limits) -> Self {
        let root = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        Self::at(root.unwrap(), limits).await
    }

    async fn at(root: TempDir, limits: Limits) -> Self {
        let parts = parts(&root).await;
        Self {
            store: parts.store.clone(),
            api: Arc::new(Api::new(parts, Latest::new(limits))),
            _root: root,
        }
    }

    /// Its API.
    pub fn api(&self) -> Arc<Api> {
        Arc::clone(&self.api)
    }

    /// Its store.
    pub fn store(&self) -> Store {
        self.store.clone()
    }
}

/// A store in a directory, and nothing else.
pub async fn parts(root: &TempDir) -> Parts {
    let mut settings = Settings::new(root.path().to_owned(), "node-1".parse().unwrap());
    settings.index = IndexKind::Memory;
    let (store, _) = Store::open(settings, Arc::new(RealDisk)).await.unwrap();
    Parts {
        store,
        access: Access::open(),
        cluster: None,
        metrics: Http::default(),
        events: Events::none(),
    }
}
