//! Slots as plain units that run podman, for a podman that knows no quadlets (OpenShift 4.12).

use super::container::{Container, reload, storage_environment};
use super::needs::Needs;
use super::ordering::Ordering;
use super::scope::Scope;
use super::slot;
use super::unit::Unit;
use site::service::Service;
use site::slot::Slot;

/// The units of both slots of a service.
pub(super) fn units(service: Service, scope: &Scope<'_>) -> Vec<Unit> {
    slot::units(service, |slot| text(service, slot, scope))
}

fn text(service: Service, slot: Slot, scope: &Scope<'_>) -> String {
    let needs = Needs::of(service, scope);
    let container = Container::of(service, slot, scope, &needs);
    let remove = "/usr/bin/podman rm --force --ignore --volumes --cidfile=%t/%N.cid";
    let mut text = slot::head(service, slot, scope, Ordering::First)
        .set("RequiresMountsFor", "%t/containers")
        .section("Service")
        .set("Type", "notify")
        .set("NotifyAccess", "all")
        .comments(&["conmon alone of podman's processes stays, and it ends as the service does."])
        .set("KillMode", "mixed")
        .set("Delegate", "yes")
        .set("SyslogIdentifier", "%N")
        .set("Environment", "PODMAN_SYSTEMD_UNIT=%n")
        .set("Environment", storage_environment());
    text = slot::service(text, service, scope, &needs)
        .set("ExecStart", command_line(&container))
        .set("ExecStop", remove)
        .set("ExecStopPost", format_args!("-{remove}"))
        .set("ExecReload", reload(&container));
    slot::install(text).finish()
}

/// The weight in the words of control groups of version 1, where the usual one is 1024 and not 100.
fn shares(weight: u32) -> u32 {
    weight * 1024 / 100
}

/// `podman run`, an option a line.
fn command_line(container: &Container) -> String {
    let mut words: Vec<String> = vec![
        "/usr/bin/podman run".to_owned(),
        format!("--name={}", container.name),
        "--cidfile=%t/%N.cid".to_owned(),
        "--replace --rm --detach".to_owned(),
        // Split would be one control group for all, which hosts with cgroup v1 do not have.
        "--cgroups=no-conmon --sdnotify=container --log-driver=journald".to_owned(),
        "--pull=never".to_owned(),
        "--network=host".to_owned(),
        format!("--user={0}:{0}", container.user),
        "--read-only --security-opt=no-new-privileges".to_owned(),
        "--security-opt=label=level:s0".to_owned(),
        "--cap-drop=all".to_owned(),
        // On the container, which is in no group of the unit; there is no high mark here.
        format!(
            "--memory={}m --pids-limit={} --cpu-shares={}",
            container.limits.memory_max,
            container.limits.tasks,
            shares(container.limits.cpu_weight),
        ),
        format!("--oom-score-adj={}", container.limits.oom_score),
    ];
    let each = |option: &str, values: &[String]| -> Vec<String> {
        values
            .iter()
            .map(|value| format!("--{option}={value}"))
            .collect()
    };
    words.extend(
        container
            .capabilities
            .iter()
            .map(|name| format!("--cap-add={name}")),
    );
    words.extend(
        container
            .groups
            .iter()
            .map(|id| format!("--group-add={id}")),
    );
    words.extend(each("volume", &container.volumes));
    words.extend(each("dns", &container.dns));
    words.push(format!("--env={}", container.environment));
    words.push(format!("--stop-timeout={}", container.stop_timeout));
    words.push(container.image.clone());
    words.push(container.arguments.clone());
    words.join(" \\\n  ")
}
