//! The options of a service's container, for quadlets and for podman's command line.

use super::needs::Needs;
use super::scope::{Scope, resolvers};
use super::slot;
use super::unit::file;
use crate::config::{NodeFile, Part};
use site::facts::{self, Limits};
use site::paths;
use site::service::Service;
use site::slot::Slot;

/// The configuration of our own store of images. CRI-O empties its own, which podman shares
/// otherwise, after a power cut.
pub(super) const STORAGE_CONF: &str = "/etc/outpost/storage.conf";

/// A container of a slot.
#[derive(Clone, Debug)]
pub(super) struct Container {
    pub(super) name: String,
    pub(super) image: String,
    pub(super) arguments: String,
    /// The number of its user, and of its own group.
    pub(super) user: u32,
    /// The numbers of its other groups.
    pub(super) groups: Vec<u32>,
    pub(super) capabilities: Vec<&'static str>,
    /// As `podman run --volume` takes them.
    pub(super) volumes: Vec<String>,
    pub(super) environment: String,
    /// Servers that look up names; the host's when empty.
    pub(super) dns: Vec<String>,
    pub(super) limits: Limits,
    /// Seconds from SIGTERM to SIGKILL.
    pub(super) stop_timeout: u64,
}

impl Container {
    /// The container of a slot.
    pub(super) fn of(service: Service, slot: Slot, scope: &Scope<'_>, needs: &Needs) -> Self {
        // Shared labels (z), not private ones: both slots use the same directories at once.
        let mut volumes: Vec<String> = Vec::new();
        volumes.extend(needs.reads.iter().map(|path| format!("{path}:{path}:ro,z")));
        volumes.extend(needs.writes.iter().map(|path| format!("{path}:{path}:z")));
        // The system's files keep their labels.
        volumes.extend(needs.system.iter().map(|path| format!("{path}:{path}:ro")));
        // Podman copies the resolv.conf of the moment of the start into a container, before the node has
        // addresses.
        let dns = match needs.names {
            true => resolvers(scope.site, None),
            false => Vec::new(),
        };
        Self {
            name: slot::container(service, slot),
            image: slot::image(service, slot),
            arguments: slot::arguments(service, slot),
            user: facts::user(service).id,
            groups: needs.groups.iter().map(|group| group.id).collect(),
            capabilities: needs.capabilities.clone(),
            volumes,
            environment: slot::watchdog_environment(),
            dns: dns.iter().map(ToString::to_string).collect(),
            limits: facts::limits(service),
            stop_timeout: needs.stop.as_secs(),
        }
    }
}

/// The variable that points podman at our store, as units set it.
pub(super) fn storage_environment() -> String {
    format!("CONTAINERS_STORAGE_CONF={STORAGE_CONF}")
}

/// The podman command that makes the service read its configuration again.
pub(super) fn reload(container: &Container) -> String {
    format!("/usr/bin/podman kill --signal HUP {}", container.name)
}

/// The configuration of the store.
pub(super) fn storage_conf() -> NodeFile {
    let text = format!(
        "# Outpost's own store of images: CRI-O empties the one that podman uses otherwise when the\n\
         # machine was not shut down in order.\n\
         [storage]\n\
         driver = \"overlay\"\n\
         graphroot = \"{state}/storage\"\n\
         runroot = \"/run/outpost-storage\"\n",
        state = paths::STATE,
    );
    file(STORAGE_CONF, text, Part::Common)
}
