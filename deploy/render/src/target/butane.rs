//! Butane, for people who keep the configuration of their nodes in it: the same as the Ignition
//! configurations, with every file in clear text.

use super::machine_config;
use super::unit::{Host, Unit};
use super::yaml::Yaml;
use crate::config::NodeFile;
use site::Role;

/// Writes the file of all nodes of a role of OpenShift: butane makes a `MachineConfig` from it.
pub(super) fn of_role(role: Role, host: &Host) -> String {
    let head = vec![
        ("variant", Yaml::text("openshift")),
        // Specification 3.2.0 of Ignition.
        ("version", Yaml::text("4.12.0")),
        ("metadata", machine_config::metadata(role)),
    ];
    document(
        head,
        host,
        &["butane --strict --output 99-outpost.yaml THIS"],
    )
}

/// Writes the file of one node of a `CoreOS` without OpenShift: butane makes an Ignition configuration from it.
pub(super) fn of_node(host: &Host) -> String {
    let head = vec![
        ("variant", Yaml::text("fcos")),
        // Specification 3.2.0 of Ignition.
        ("version", Yaml::text("1.3.0")),
    ];
    document(head, host, &["butane --strict --output NODE.ign THIS"])
}

fn document(mut head: Vec<(&'static str, Yaml)>, host: &Host, comments: &[&str]) -> String {
    let mut files: Vec<&NodeFile> = host.files.iter().collect();
    files.sort_by(|one, other| one.path.cmp(&other.path));
    let mut units: Vec<&Unit> = host.units.iter().collect();
    units.sort_by(|one, other| one.name.cmp(&other.name));
    head.push((
        "storage",
        Yaml::Map(vec![(
            "files",
            Yaml::List(files.into_iter().map(file).collect()),
        )]),
    ));
    head.push((
        "systemd",
        Yaml::Map(vec![(
            "units",
            Yaml::List(units.into_iter().map(unit).collect()),
        )]),
    ));
    Yaml::Map(head).document(comments)
}

fn file(file: &NodeFile) -> Yaml {
    let id = |id: u32| Yaml::Map(vec![("id", Yaml::Raw(id.to_string()))]);
    let mut pairs = vec![
        ("path", Yaml::text(file.path.display().to_string())),
        ("mode", Yaml::Raw(format!("0{:o}", file.mode))),
        ("overwrite", Yaml::Raw("true".to_owned())),
    ];
    if let Some((user, group)) = file.owner {
        pairs.push(("user", id(user)));
        pairs.push(("group", id(group)));
    }
    let text = String::from_utf8_lossy(&file.contents).into_owned();
    pairs.push(("contents", Yaml::Map(vec![("inline", Yaml::Text(text))])));
    Yaml::Map(pairs)
}

fn unit(unit: &Unit) -> Yaml {
    let mut pairs = vec![("name", Yaml::text(&unit.name))];
    if let Some(text) = &unit.text {
        pairs.push(("enabled", Yaml::Raw(unit.enable.to_string())));
        pairs.push(("contents", Yaml::text(text)));
    }
    if !unit.drop_ins.is_empty() {
        let drop_ins = unit.drop_ins.iter().map(|(name, text)| {
            Yaml::Map(vec![
                ("name", Yaml::text(name)),
                ("contents", Yaml::text(text)),
            ])
        });
        pairs.push(("dropins", Yaml::List(drop_ins.collect())));
    }
    Yaml::Map(pairs)
}
