//! Slots as plain units that run the binaries themselves, shut in by systemd (systemd.exec(5)):
//! for hosts without podman.

use super::needs::Needs;
use super::ordering::Ordering;
use super::scope::Scope;
use super::slot;
use super::text::Text;
use super::unit::Unit;
use site::facts;
use site::service::Service;
use site::slot::Slot;

/// The directory where `outpost images load --native` puts the binary of each slot.
pub(super) const BINARIES: &str = "/var/lib/outpost/bin";

/// The restrictions of every service.
const SHUT: [(&str, &str); 23] = [
    ("NoNewPrivileges", "yes"),
    ("ProtectSystem", "strict"),
    ("ProtectHome", "yes"),
    ("ProtectProc", "invisible"),
    ("ProtectHostname", "yes"),
    ("ProtectKernelTunables", "yes"),
    ("ProtectKernelModules", "yes"),
    ("ProtectKernelLogs", "yes"),
    ("ProtectControlGroups", "yes"),
    ("PrivateTmp", "yes"),
    ("PrivateDevices", "yes"),
    ("PrivateMounts", "yes"),
    ("RestrictNamespaces", "yes"),
    ("RestrictRealtime", "yes"),
    ("RestrictSUIDSGID", "yes"),
    ("LockPersonality", "yes"),
    ("MemoryDenyWriteExecute", "yes"),
    ("RemoveIPC", "yes"),
    ("KeyringMode", "private"),
    ("UMask", "0077"),
    ("LimitNOFILE", "1048576"),
    ("SystemCallArchitectures", "native"),
    ("SystemCallErrorNumber", "EPERM"),
];

/// The units of both slots of a service.
pub(super) fn units(service: Service, scope: &Scope<'_>) -> Vec<Unit> {
    slot::units(service, |slot| text(service, slot, scope))
}

fn text(service: Service, slot: Slot, scope: &Scope<'_>) -> String {
    let needs = Needs::of(service, scope);
    let user = facts::user(service);
    let text = slot::head(service, slot, scope, Ordering::First)
        .section("Service")
        .set("Type", "notify")
        .set(
            "ExecStart",
            format_args!(
                "{BINARIES}/{service}-{slot} {}",
                slot::arguments(service, slot)
            ),
        )
        .set("ExecReload", "/bin/kill -HUP $MAINPID");
    let text = slot::service(text, service, scope, &needs)
        .set("User", &user.name)
        .set("Group", &user.name)
        .set_words(
            "SupplementaryGroups",
            needs.groups.iter().map(|group| &group.name),
        )
        .set_each("ReadWritePaths", &needs.writes);
    let text = slot::limits(text, service);
    let text = SHUT
        .into_iter()
        .fold(text, |text, (key, value)| text.set(key, value));
    slot::install(calls(
        network(capabilities(text, &needs), &needs),
        service,
        &needs,
    ))
    .finish()
}

fn capabilities(text: Text, needs: &Needs) -> Text {
    let named: Vec<String> = needs
        .capabilities
        .iter()
        .map(|name| format!("CAP_{name}"))
        .collect();
    if named.is_empty() {
        // The host's own users and groups map to no user; capabilities would be of no use so.
        return text
            .set("CapabilityBoundingSet", "")
            .set("PrivateUsers", "yes");
    }
    text.set("CapabilityBoundingSet", named.join(" "))
        .set("AmbientCapabilities", named.join(" "))
}

fn network(text: Text, needs: &Needs) -> Text {
    let families = match needs.capabilities.contains(&"NET_RAW") {
        true => "AF_UNIX AF_INET AF_INET6 AF_NETLINK AF_PACKET",
        false => "AF_UNIX AF_INET AF_INET6",
    };
    text.set("RestrictAddressFamilies", families)
}

/// The access of a service to the kernel.
fn calls(text: Text, service: Service, needs: &Needs) -> Text {
    let keeps_time = service == Service::TimesyncAgent;
    let sets_clock = needs.capabilities.contains(&"SYS_TIME");
    text.when(keeps_time, |text| {
        text.comments(&["It would forbid to read how the clock is steered, too."])
    })
    .set("ProtectClock", if keeps_time { "no" } else { "yes" })
    .set("SystemCallFilter", "@system-service")
    .set("SystemCallFilter", "~@privileged @resources")
    .comments(&["To see how many descriptors there may be, and to have all of them."])
    .set("SystemCallFilter", "prlimit64 getrlimit")
    .when(keeps_time, |text| {
        text.comments(&["To read the clock, and to give up what it does not need."])
            .set("SystemCallFilter", "adjtimex clock_adjtime capset")
    })
    .when(sets_clock, |text| text.set("SystemCallFilter", "@clock"))
}

/// The directory of the binaries, as tmpfiles.d(5) makes it.
pub(super) fn directory() -> String {
    format!("d {BINARIES} 0755 root root -\n")
}
