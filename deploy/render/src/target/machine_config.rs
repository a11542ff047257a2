//! Manifests for OpenShift: a `MachineConfig` for each role, and the policy by which a change of them
//! restarts no machine.

use super::ignition::Config;
use super::scope::Scope;
use super::unit::Host;
use super::yaml::Yaml;
use site::Role;

/// The name of a role's `MachineConfig`: after those of the platform, which begin with 00 and 01.
pub(super) fn name(role: Role) -> String {
    format!("99-{}-outpost", label(role))
}

fn label(role: Role) -> &'static str {
    match role {
        Role::Master => "master",
        Role::Worker => "worker",
    }
}

/// The label by which the platform finds the nodes of a role.
pub(super) fn metadata(role: Role) -> Yaml {
    Yaml::Map(vec![
        ("name", Yaml::text(name(role))),
        (
            "labels",
            Yaml::Map(vec![(
                "machineconfiguration.openshift.io/role",
                Yaml::text(label(role)),
            )]),
        ),
    ])
}

/// The manifest of a role.
pub(super) fn manifest(role: Role, scope: &Scope<'_>, host: &Host) -> String {
    Yaml::Map(vec![
        (
            "apiVersion",
            Yaml::text("machineconfiguration.openshift.io/v1"),
        ),
        ("kind", Yaml::text("MachineConfig")),
        ("metadata", metadata(role)),
        (
            "spec",
            Yaml::Map(vec![("config", Config::of(host).value().into())]),
        ),
    ])
    .document(&[
        &format!("Outpost on every {} of {}.", label(role), scope.site.domain),
        "Rendered by `outpost render --target machineconfig`: change the site file and not this.",
    ])
}

/// The effect of a change on a node, in place of a drain and a restart. By directories, of which the
/// longest that a file lies in decides.
pub(super) fn disruption_policy(units: &[String]) -> String {
    let action = |kind: &str| Yaml::Map(vec![("type", Yaml::text(kind))]);
    let on = |kind: &str, key: &'static str, service: &str| {
        Yaml::Map(vec![
            ("type", Yaml::text(kind)),
            (key, Yaml::Map(vec![("serviceName", Yaml::text(service))])),
        ])
    };
    let files = |path: &str, actions| {
        Yaml::Map(vec![
            ("path", Yaml::text(path)),
            ("actions", Yaml::List(actions)),
        ])
    };
    let entries = vec![
        files(
            "/etc/outpost",
            vec![
                on("Restart", "restart", "outpost-node.service"),
                on("Restart", "restart", "outpost-reload.service"),
            ],
        ),
        files("/etc/containers/systemd", vec![action("DaemonReload")]),
        files("/etc/sysusers.d/outpost.conf", vec![action("None")]),
        files(
            "/etc/tmpfiles.d/outpost.conf",
            vec![on("Restart", "restart", "outpost-setup.service")],
        ),
        files(
            "/usr/local/bin/outpost-node",
            vec![on("Restart", "restart", "outpost-node.service")],
        ),
    ];
    let units = units
        .iter()
        .map(|unit| {
            Yaml::Map(vec![
                ("name", Yaml::text(unit)),
                ("actions", Yaml::List(vec![action("DaemonReload")])),
            ])
        })
        .collect();
    Yaml::Map(vec![
        ("apiVersion", Yaml::text("operator.openshift.io/v1")),
        ("kind", Yaml::text("MachineConfiguration")),
        ("metadata", Yaml::Map(vec![("name", Yaml::text("cluster"))])),
        (
            "spec",
            Yaml::Map(vec![(
                "nodeDisruptionPolicy",
                Yaml::Map(vec![("files", Yaml::List(entries)), ("units", Yaml::List(units))]),
            )]),
        ),
    ])
    .document(&[
        "The effect of a change of Outpost's MachineConfigs on a node: nothing that its workloads feel.",
        "OpenShift 4.17 and later; apply it before the change. The object exists: see",
        "docs/deploy/machineconfig.md for how to add to it.",
        "Changed units count from the next swap or start of their service on.",
    ])
}
