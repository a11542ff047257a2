//! The source in use: the API or manifests.

use std::path::PathBuf;
use std::sync::Arc;

use daemon::readiness::Readiness;
use parking_lot::Mutex;

use crate::addresses::{AddressSettings, AddressState};
use crate::api::ApiSource;
use crate::config::Source;
use crate::manifests::ManifestSource;
use crate::metrics::Counters;
use crate::publisher::Publisher;

/// The source in use.
#[derive(Debug)]
pub(crate) enum Running {
    Api(ApiSource),
    Manifests {
        source: ManifestSource,
        directory: PathBuf,
    },
}

/// Begins to follow a source; needs a tokio runtime.
pub(crate) fn start(
    source: Source,
    given: AddressSettings,
    state: Arc<Mutex<AddressState>>,
    publisher: &Publisher,
    readiness: &Readiness,
    counters: &Counters,
    most: usize,
) -> Running {
    match source {
        Source::Api(settings) => Running::Api(ApiSource::start(
            &settings, given, state, publisher, readiness, counters, most,
        )),
        Source::Manifests(directory) => Running::Manifests {
            source: ManifestSource::start(
                directory.clone(),
                given,
                state,
                publisher.clone(),
                readiness.clone(),
                counters.clone(),
            ),
            directory,
        },
    }
}
