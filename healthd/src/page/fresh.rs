//! A value that is made when someone wants a newer one: those that come meanwhile wait for the same one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use daemon::clock;
use parking_lot::Mutex;

/// For how long a value is good.
const FRESH: Duration = Duration::from_millis(900);

/// The last value.
#[derive(Debug)]
pub(super) struct Fresh<T> {
    turn: tokio::sync::Mutex<()>,
    last: Mutex<Option<(Instant, Arc<T>)>>,
}

impl<T> Default for Fresh<T> {
    fn default() -> Self {
        Self {
            turn: tokio::sync::Mutex::default(),
            last: Mutex::new(None),
        }
    }
}

impl<T> Fresh<T> {
    /// The last value, however old; none before the first one.
    pub(super) fn last(&self) -> Option<Arc<T>> {
        self.last
            .lock()
            .as_ref()
            .map(|(_, value)| Arc::clone(value))
    }

    /// A value that is fresh; `make` is given the one before.
    pub(super) async fn get<F>(&self, make: impl FnOnce(Option<Arc<T>>) -> F) -> Arc<T>
    where
        F: Future<Output = T>,
    {
        let _turn = self.turn.lock().await;
        let before = self.last.lock().clone();
        if let Some((at, value)) = &before
            && at.elapsed() < FRESH
        {
            return Arc::clone(value);
        }
        let made = Arc::new(make(before.map(|(_, value)| value)).await);
        *self.last.lock() = Some((clock::now(), Arc::clone(&made)));
        made
    }
}
