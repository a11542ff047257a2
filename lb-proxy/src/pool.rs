//! The servers of one backend, and the choice among them.

use std::sync::Arc;

/// The servers of one backend.
#[derive(Debug)]
pub struct Pool {
    /// Its name.
    pub name: Arc<str>,
}
