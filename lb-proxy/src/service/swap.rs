//! The state for the next process besides connections: active routers, and operators' overrides.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use vrrp::machine::State;
use vrrp_net::status::RouterStatus;

use crate::decisions;
use crate::server_state::Override;
use crate::table_builder::{ServerKey, TableBuilder, View};

/// The name of the descriptor that the state is in.
const NAME: &str = "state";

/// More than every server of a large site; a predecessor that says more is none.
const MAX_STATE: u64 = 16 << 20;

/// The state of a predecessor.
#[derive(Debug, Default)]
pub(super) struct PredecessorState {
    /// The virtual routers whose addresses it holds.
    pub(super) active: BTreeSet<Arc<str>>,
    /// The overrides it received from operators.
    pub(super) overrides: Vec<(ServerKey, Override)>,
}

/// The state as one process writes it and the next reads it.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Written {
    active: Vec<String>,
    overrides: Vec<api::lb_proxy::Override>,
}

impl PredecessorState {
    /// Out of what a predecessor gave; none when it has not said, or cannot be understood.
    pub(super) fn read(others: &mut Vec<(String, OwnedFd)>) -> Option<Self> {
        let place = others.iter().position(|(name, _)| name == NAME)?;
        let (_, fd) = others.swap_remove(place);
        let mut file = File::from(fd);
        let mut text = String::new();
        let read = file
            .seek(SeekFrom::Start(0))
            .and_then(|_| (&file).take(MAX_STATE).read_to_string(&mut text));
        match read.map(|_| serde_json::from_str(&text)) {
            Ok(Ok(written)) => Some(Self::of(written)),
            _ => {
                tracing::warn!("The predecessor's state cannot be read");
                None
            }
        }
    }

    /// Passes the overrides to the builder; the active routers are left.
    pub(super) fn tell(self, builder: &TableBuilder) -> BTreeSet<Arc<str>> {
        builder.take_over(self.overrides);
        self.active
    }

    fn of(written: Written) -> Self {
        Self {
            active: written.active.into_iter().map(Arc::from).collect(),
            overrides: decisions::parse_overrides(written.overrides),
        }
    }
}

/// The state for a successor, in a descriptor.
pub(super) fn state(view: &View, routers: &[RouterStatus]) -> Option<(String, OwnedFd)> {
    let active = routers
        .iter()
        .filter(|router| router.machine.state == State::Active)
        .map(|router| router.name().to_string());
    let state = Written {
        active: active.collect(),
        overrides: decisions::overrides(view),
    };
    let written = || -> std::io::Result<OwnedFd> {
        let flags = rustix::fs::MemfdFlags::CLOEXEC;
        let mut file = File::from(rustix::fs::memfd_create("lb-proxy-state", flags)?);
        serde_json::to_writer(&mut file, &state)?;
        Ok(file.into())
    };
    match written() {
        Ok(fd) => Some((NAME.to_owned(), fd)),
        Err(error) => {
            tracing::warn!(%error, "A successor will not know what operators said");
            None
        }
    }
}
