//! Durations of operations on the disk, for metrics.

use std::sync::Arc;
use std::time::Duration;

use registry_histogram::{Distribution, Histogram};

/// Operations on the disk, under the names that distribution's `action` label has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A file is deleted.
    Delete,
    /// A directory is listed.
    List,
    /// A file gets another name.
    Move,
    /// A file is opened to be read.
    Reader,
    /// Reads the status of a file.
    Stat,
    /// A directory is made durable, which distribution does not do.
    Sync,
    /// A file is made, or opened to be written.
    Writer,
}

impl Action {
    /// Every one, in the order of the table.
    pub const ALL: [Self; 7] = [
        Self::Delete,
        Self::List,
        Self::Move,
        Self::Reader,
        Self::Stat,
        Self::Sync,
        Self::Writer,
    ];

    /// The value of the label.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Delete => "Delete",
            Self::List => "List",
            Self::Move => "Move",
            Self::Reader => "Reader",
            Self::Stat => "Stat",
            Self::Sync => "Sync",
            Self::Writer => "Writer",
        }
    }
}

/// How long each action took; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Actions(Arc<[Histogram; Action::ALL.len()]>);

impl Actions {
    /// Counts one.
    pub fn took(&self, action: Action, duration: Duration) {
        let at = Action::ALL.iter().position(|one| *one == action);
        if let Some(histogram) = at.and_then(|at| self.0.get(at)) {
            histogram.time(duration);
        }
    }

    /// The distribution of each action.
    pub fn read(&self) -> impl Iterator<Item = (Action, Distribution)> {
        Action::ALL
            .into_iter()
            .zip(self.0.iter().map(Histogram::read))
    }
}
