//! Slots as quadlets (podman-systemd.unit(5)): the keys that a level of podman knows, and options of
//! `podman run` for the rest. A key that it does not know makes it leave the whole unit out.

use std::path::Path;

use super::container::{Container, reload, storage_environment};
use super::needs::Needs;
use super::ordering::Ordering;
use super::scope::Scope;
use super::slot;
use super::text::Text;
use super::unit::file;
use crate::config::{NodeFile, Part};
use site::Podman;
use site::service::Service;
use site::slot::Slot;

/// The directory that podman's generator reads.
const DIRECTORY: &str = "/etc/containers/systemd";

/// The quadlets of both slots of a service.
pub(super) fn files(service: Service, scope: &Scope<'_>, level: Podman) -> Vec<NodeFile> {
    Slot::ALL
        .into_iter()
        .map(|slot| {
            let path =
                Path::new(DIRECTORY).join(format!("{}.container", slot::container(service, slot)));
            file(
                path,
                text(service, slot, scope, level),
                Part::Service(service),
            )
        })
        .collect()
}

/// Whether quadlets of a level are after network-online.target whatever they say.
pub(super) fn is_after_network(level: Podman) -> bool {
    level < Podman::V5_4
}

fn text(service: Service, slot: Slot, scope: &Scope<'_>, level: Podman) -> String {
    let needs = Needs::of(service, scope);
    let ordering = match is_after_network(level) {
        true => Ordering::AfterNetwork,
        false => Ordering::First,
    };
    let container = Container::of(service, slot, scope, &needs);
    let mut text = container_section(
        slot::head(service, slot, scope, ordering),
        &container,
        level,
    )
    .section("Service")
    .set("Environment", storage_environment());
    text = slot::service(text, service, scope, &needs).set("ExecReload", reload(&container));
    text = slot::limits(text, service);
    slot::install(text)
        .when(!is_after_network(level), |text| {
            text.section("Quadlet")
                .comments(&["Ours come before the network is called online: see docs/deploy/machineconfig.md."])
                .set("DefaultDependencies", "false")
        })
        .finish()
}

fn container_section(text: Text, container: &Container, level: Podman) -> Text {
    // podman gives it to the container alone; the unit's own is for podman.
    let mut options = vec![format!("--oom-score-adj={}", container.limits.oom_score)];
    let mut text = text
        .section("Container")
        .set("Image", &container.image)
        .set("ContainerName", &container.name)
        .set("Exec", &container.arguments)
        .set("Notify", "true")
        .set("Network", "host")
        .set("User", container.user)
        .set("Group", container.user)
        .set("ReadOnly", "true")
        .set("NoNewPrivileges", "true")
        .set("DropCapability", "all")
        .set_words("AddCapability", &container.capabilities)
        .set_each("Volume", &container.volumes)
        .set("Environment", &container.environment);
    // Both slots share sockets of which the labels have one level.
    if level < Podman::V4_9 {
        options.push("--pull=never".to_owned());
        options.push("--security-opt=label=level:s0".to_owned());
        options.extend(container.dns.iter().map(|server| format!("--dns={server}")));
    } else {
        text = text
            .set("Pull", "never")
            .set("SecurityLabelLevel", "s0")
            .set_each("DNS", &container.dns);
    }
    if level < Podman::V5_2 {
        options.push(format!("--stop-timeout={}", container.stop_timeout));
        options.extend(
            container
                .groups
                .iter()
                .map(|id| format!("--group-add={id}")),
        );
    } else {
        text = text
            .set("StopTimeout", container.stop_timeout)
            .set_each("GroupAdd", &container.groups);
    }
    text.set_words("PodmanArgs", options)
}

#[cfg(test)]
mod tests {
    use super::*;
    use site::{Podman, Site};

    /// The first release of podman of which the quadlets know a key of `[Container]`, for those that
    /// came until 5.4: from pkg/systemd/quadlet/quadlet.go of each release.
    const CONTAINER_KEYS: [(Podman, &[&str]); 4] = [
        (
            Podman::V4_4,
            &[
                "AddCapability",
                "AddDevice",
                "Annotation",
                "ContainerName",
                "DropCapability",
                "Environment",
                "EnvironmentFile",
                "EnvironmentHost",
                "Exec",
                "ExposeHostPort",
                "Group",
                "Image",
                "Label",
                "Network",
                "NoNewPrivileges",
                "Notify",
                "PodmanArgs",
                "PublishPort",
                "ReadOnly",
                "RemapGid",
                "RemapUid",
                "RemapUidSize",
                "RemapUsers",
                "RunInit",
                "SeccompProfile",
                "Timezone",
                "User",
                "VolatileTmp",
                "Volume",
            ],
        ),
        (
            Podman::V4_9,
            &[
                "HealthCmd",
                "IP",
                "IP6",
                "LogDriver",
                "Mount",
                "Rootfs",
                "Secret",
                "SecurityLabelDisable",
                "SecurityLabelFileType",
                "SecurityLabelLevel",
                "SecurityLabelType",
                "Tmpfs",
                "UserNS",
                "AutoUpdate",
                "HostName",
                "Mask",
                "Unmask",
                "Pull",
                "SecurityLabelNested",
                "Sysctl",
                "WorkingDir",
                "DNS",
                "DNSOption",
                "DNSSearch",
                "PidsLimit",
                "ShmSize",
                "Ulimit",
                "ContainersConfModule",
                "GlobalArgs",
                "UIDMap",
                "GIDMap",
                "SubUIDMap",
                "SubGIDMap",
                "ReadOnlyTmpfs",
            ],
        ),
        (
            Podman::V5_2,
            &[
                "Entrypoint",
                "Pod",
                "StopTimeout",
                "GroupAdd",
                "LogOpt",
                "NetworkAlias",
                "StopSignal",
            ],
        ),
        (
            Podman::V5_4,
            &[
                "AddHost",
                "CgroupsMode",
                "HealthLogDestination",
                "HealthMaxLogCount",
                "HealthMaxLogSize",
                "ServiceName",
                "StartWithPod",
            ],
        ),
    ];

    #[test]
    fn every_key_is_known_to_the_level_that_it_is_for() {
        for (level, _) in CONTAINER_KEYS {
            let mut site = Site::example();
            site.vips.push(crate::target::tests::vip());
            let scope = Scope::node(&site, &site.nodes[0]);
            let known: Vec<&str> = CONTAINER_KEYS
                .iter()
                .filter(|(first, _)| *first <= level)
                .flat_map(|(_, keys)| keys.iter().copied())
                .collect();
            for service in Service::ALL {
                for file in files(service, &scope, level) {
                    let text = String::from_utf8(file.contents).unwrap();
                    let mut section = "";
                    for line in text.lines().filter(|line| !line.starts_with('#')) {
                        if let Some(name) = line.strip_prefix('[') {
                            section = name.trim_end_matches(']');
                        } else if section == "Container" && !line.is_empty() {
                            let key = line.split_once('=').unwrap().0;
                            assert!(
                                known.contains(&key),
                                "{level:?} does not know {key}: {text}"
                            );
                        }
                        // The section itself came with 5.3.
                        assert!(section != "Quadlet" || level == Podman::V5_4, "{text}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_quadlet_that_waits_for_the_network_does_not_come_before_what_the_network_waits_for() {
        let site = Site::example();
        let scope = Scope::node(&site, &site.nodes[0]);
        for (level, first) in [(Podman::V5_2, false), (Podman::V5_4, true)] {
            let text = text(Service::Healthd, Slot::A, &scope, level);
            assert_eq!(text.contains("nodeip-configuration"), first, "{text}");
            assert!(
                text.contains("crio.service kubelet-dependencies.target"),
                "{text}"
            );
        }
    }
}
