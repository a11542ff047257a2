//! The units that every node has, by their names, and what is ordered before what.

use site::service::Service;

use super::scope::Scope;

/// Makes directories and users; see `host.rs`.
pub(super) const SETUP: &str = "outpost-setup.service";
/// Loads images.
pub(super) const IMAGES: &str = "outpost-images.service";

/// Waits for the images of a service.
pub(super) fn image(service: Service) -> String {
    format!("outpost-image-{service}.service")
}
/// The placeholder service of sockets; see `host.rs`.
pub const HOLDER: &str = "outpost-sockets.service";
/// Finds out which node this is.
pub(super) const NODE: &str = "outpost-node.service";

/// Units that wait for Outpost after the power was away: they pull images from the site's registry, by a
/// name of the site.
const AFTER_US: [&str; 3] = [
    "nodeip-configuration.service",
    "crio.service",
    "kubelet-dependencies.target",
];
/// Asks timesync-agent whether the clock is right.
const CHRONY_WAIT: &str = "chrony-wait.service";

/// How a slot is ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ordering {
    /// Before everything of the platform that needs the site.
    First,
    /// After network-online.target, which this podman's quadlets always are: so not before what that
    /// target waits for. `super::early` starts them before it.
    AfterNetwork,
}

/// The units that sockets and services of a scope wait for.
pub(super) fn before_everything(scope: &Scope<'_>) -> Vec<String> {
    let mut units = vec![SETUP.to_owned()];
    if scope.is_role {
        units.push(NODE.to_owned());
    }
    units
}

/// The units that a unit is ordered before.
pub(super) fn before(
    service: Option<Service>,
    scope: &Scope<'_>,
    ordering: Ordering,
) -> Vec<&'static str> {
    let platform = AFTER_US
        .into_iter()
        .skip(match ordering {
            Ordering::First => 0,
            Ordering::AfterNetwork => 1,
        })
        .filter(|_| scope.is_openshift());
    let is_time = service.is_none_or(|service| service == Service::TimesyncAgent);
    let time = (is_time && scope.keeps_time()).then_some(CHRONY_WAIT);
    platform.chain(time).collect()
}
