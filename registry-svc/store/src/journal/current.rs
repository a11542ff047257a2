//! The index that is in use, and the one that takes its place when it fails.
//!
//! When an index fails, at whatever call, the store reads the journal into memory and continues
//! with that: a request waits for it once, and none is refused because of the index. The next start
//! rebuilds the index.

use std::fmt;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard, RwLock};
use registry_facts::index::IndexError;
use registry_facts::index::memory::MemoryIndex;
use registry_facts::index::view::View;
use registry_facts::record::Record;

use super::{JournalError, Place};

/// Reads the journal up to a place into a view.
pub type Rebuild = dyn Fn(&View, Place) -> Result<(), JournalError> + Send + Sync;

/// The view that is in use.
pub struct Current {
    view: RwLock<InUse>,
    /// The place up to which the journal is applied; a thread locks it to apply records.
    applied: Mutex<Place>,
    rebuild: Box<Rebuild>,
}

#[derive(Clone)]
struct InUse {
    view: View,
    /// How many failed before it.
    n_failed: u64,
}

impl Current {
    /// Uses a view that has the journal up to `applied`.
    pub fn new(view: View, applied: Place, rebuild: Box<Rebuild>) -> Self {
        Self {
            view: RwLock::new(InUse { view, n_failed: 0 }),
            applied: Mutex::new(applied),
            rebuild,
        }
    }

    /// The view that is in use.
    pub fn view(&self) -> View {
        self.in_use().view
    }

    /// How many indexes failed since the start.
    pub fn n_failed(&self) -> u64 {
        self.in_use().n_failed
    }

    /// Up to where the journal is applied.
    pub fn applied(&self) -> Place {
        *self.applying()
    }

    /// Asks the view; when it fails, the one that takes its place.
    ///
    /// # Errors
    ///
    /// Fails when the journal cannot be read either.
    pub fn read<T>(&self, ask: impl Fn(&View) -> Result<T, IndexError>) -> Result<T, IndexError> {
        let in_use = self.in_use();
        let error = match ask(&in_use.view) {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        let applied = self.applying();
        let view = self.replace(&in_use, &error, *applied)?;
        drop(applied);
        ask(&view)
    }

    /// Applies records that end at `place` in the journal; when the view fails, to the one that
    /// takes its place.
    ///
    /// # Errors
    ///
    /// Fails when the journal cannot be read either.
    pub fn apply(&self, records: &[Arc<Record>], place: Place) -> Result<(), IndexError> {
        let mut applied = self.applying();
        let in_use = self.in_use();
        if let Err(error) = in_use.view.apply(records.iter().map(|record| &**record)) {
            let view = self.replace(&in_use, &error, *applied)?;
            view.apply(records.iter().map(|record| &**record))?;
        }
        *applied = place;
        Ok(())
    }

    /// Replaces a failed view by one in memory, unless another thread has.
    fn replace(
        &self,
        failed: &InUse,
        error: &IndexError,
        applied: Place,
    ) -> Result<View, IndexError> {
        let in_use = self.in_use();
        if in_use.n_failed != failed.n_failed {
            return Ok(in_use.view);
        }
        tracing::error!(%error, "The index failed; the journal is read into memory");
        let view = View::new(Arc::new(MemoryIndex::default()));
        (self.rebuild)(&view, applied).map_err(|error| {
            tracing::error!(
                error = &error as &dyn std::error::Error,
                "The journal cannot be read"
            );
            IndexError::Failed(error.to_string())
        })?;
        let mut in_use = self.view.write();
        in_use.view = view.clone();
        in_use.n_failed += 1;
        Ok(view)
    }

    fn in_use(&self) -> InUse {
        // It is replaced in one step.
        self.view.read().clone()
    }

    fn applying(&self) -> MutexGuard<'_, Place> {
        self.applied.lock()
    }
}

impl fmt::Debug for Current {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Current")
            .field("view", &self.view())
            .finish_non_exhaustive()
    }
}
