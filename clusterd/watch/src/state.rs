//! The state of the machine, and the comparison of versions.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use cluster::{Key, Object};
use cluster_objects::ObjectError;

/// The number of a request.
pub(crate) type RequestId = u64;

/// The state of the machine.
#[derive(Debug)]
pub(crate) enum Phase {
    /// It waits for its next request.
    Waiting { until: Instant, then: Next },
    /// It reads a list page by page.
    Listing {
        request: RequestId,
        begun: Instant,
        list: Partial,
        deadline: Instant,
    },
    /// It reads a list as the first events of a watch.
    Initial {
        request: RequestId,
        begun: Instant,
        list: Partial,
        deadline: Instant,
    },
    /// It watches.
    Watching {
        request: RequestId,
        begun: Instant,
        /// When the server was asked to end the watch.
        ends: Instant,
        /// When the watch is silent, or its answer has not begun.
        deadline: Instant,
        /// Whether the answer has begun.
        is_open: bool,
        /// Whether anything has come.
        has_heard: bool,
    },
}

/// The request after a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    List,
    Watch,
}

/// A list of which not everything has come yet.
#[derive(Debug, Default)]
pub(crate) struct Partial {
    pub(crate) version: String,
    pub(crate) objects: BTreeMap<Key, Object>,
    pub(crate) bad: BTreeSet<Key>,
}

impl Partial {
    pub(crate) fn put(&mut self, object: Object) {
        self.objects.insert(object.key(), object);
    }

    pub(crate) fn delete(&mut self, key: &Key) {
        self.objects.remove(key);
    }

    /// An object that is there and cannot be read.
    pub(crate) fn bad(&mut self, error: &ObjectError) {
        self.bad.extend(error.key.clone());
    }
}

/// The number in a resource version. Versions of one kind in one cluster compare as numbers; one without
/// a number compares with nothing.
pub(crate) fn number(version: &str) -> Option<u64> {
    version.parse().ok()
}
