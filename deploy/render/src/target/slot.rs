//! The two slots of a service, and what their units have in common however they are run.
//!
//! Both are given the same sockets. A file decides which one is live, so that a machine that lost its
//! power comes up with the one that was recorded last; another, which the power takes with it, lets
//! the idle one start beside it for a swap.

use std::time::Duration;

use super::needs::Needs;
use super::ordering::{IMAGES, Ordering, before, before_everything};
use super::scope::Scope;
use super::sockets;
use super::text::Text;
use super::unit::Unit;
use crate::config::Part;
use site::facts;
use site::paths;
use site::service::Service;
use site::slot::Slot;

/// A process says that it is alive at half of this; one that does not is ended and started again.
const WATCHDOG: Duration = Duration::from_secs(30);
/// A successor may wait for its predecessor to finish before it is ready.
const START: Duration = Duration::from_secs(120);
/// The time that podman needs beyond that of the service.
const BEYOND_STOP: Duration = Duration::from_secs(15);

/// The name of a slot's container.
pub(super) fn container(service: Service, slot: Slot) -> String {
    format!("outpost-{service}-{slot}")
}

/// The image of a slot.
pub(super) fn image(service: Service, slot: Slot) -> String {
    format!("localhost/outpost/{service}:{slot}")
}

/// The command line of a service in a slot.
pub(super) fn arguments(service: Service, slot: Slot) -> String {
    format!(
        "serve --config {} --slot {slot} --admin-socket {}",
        paths::config(service).display(),
        paths::admin_socket(service, slot).display(),
    )
}

/// The units of both slots of a service, each with its own text.
pub(super) fn units(service: Service, text: impl Fn(Slot) -> String) -> Vec<Unit> {
    Slot::ALL
        .into_iter()
        .map(|slot| Unit::new(slot.unit(service), text(slot), Part::Service(service)))
        .collect()
}

/// The section `[Unit]` of a slot.
pub(super) fn head(service: Service, slot: Slot, scope: &Scope<'_>, ordering: Ordering) -> Text {
    let recorded = format!("{}/slots/{service}.b", paths::STATE);
    let not = match slot {
        Slot::A => "!",
        Slot::B => "",
    };
    let first = before_everything(scope);
    Text::new(&[])
        .section("Unit")
        .set(
            "Description",
            format_args!("Outpost {service} (slot {slot})"),
        )
        .set("ConditionPathExists", paths::config(service).display())
        .comments(&["Live by the record, or about to take over in a swap."])
        .set("ConditionPathExists", format_args!("|{not}{recorded}"))
        .set(
            "ConditionPathExists",
            format_args!("|{}/swap/{service}.{slot}", paths::RUN),
        )
        .comments(&["Wanted and not required: a restart of one of them does not end the service."])
        .set_words("Wants", first.iter().map(String::as_str).chain([IMAGES]))
        .set_words("After", first.iter().map(String::as_str).chain([IMAGES]))
        .set_words("Before", before(Some(service), scope, ordering))
        .comments(&["Never give up: the sockets stay open, and clients wait."])
        .set("StartLimitIntervalSec", 0)
}

/// The section `[Service]` of every slot.
pub(super) fn service(text: Text, service: Service, scope: &Scope<'_>, needs: &Needs) -> Text {
    text.set_words("Sockets", sockets::names(service, scope))
        .comments(&["Unset, it would make the sockets block under the slot that serves."])
        .set("NonBlocking", "true")
        .comments(&[
            "One that was taken over from ends with 0 and must not come back; one whose successor has failed",
            "ends with an error.",
        ])
        .set("Restart", "on-failure")
        .set("RestartSec", "200ms")
        .set("WatchdogSec", WATCHDOG.as_secs())
        .set("TimeoutStartSec", START.as_secs())
        .set("TimeoutStopSec", (needs.stop + BEYOND_STOP).as_secs())
}

/// The limits of a service, for its unit's control group.
pub(super) fn limits(text: Text, service: Service) -> Text {
    let limits = facts::limits(service);
    text.set("MemoryHigh", format_args!("{}M", limits.memory_high))
        .set("MemoryMax", format_args!("{}M", limits.memory_max))
        .set("TasksMax", limits.tasks)
        .set("CPUWeight", limits.cpu_weight)
        .set("OOMScoreAdjust", limits.oom_score)
}

/// The section `[Install]` of every slot: both, because a file decides.
pub(super) fn install(text: Text) -> Text {
    text.section("Install").set("WantedBy", "multi-user.target")
}

/// The variables that podman does not pass on by itself: without them a service would never say that it is alive.
pub(super) fn watchdog_environment() -> String {
    format!("WATCHDOG_USEC={}", WATCHDOG.as_micros())
}
