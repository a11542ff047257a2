//! From a site to what its nodes start services with: units, quadlets, Ignition, manifests.
//!
//! ```text
//! Site → Scope (a node, or all nodes of a role)
//!      → Host: units + files        slots   quadlet.rs, podman_unit.rs or native.rs
//!                                   sockets sockets.rs
//!                                   the rest host.rs, redirect.rs, role.rs
//!      → files in their places      quadlet(), units()
//!        or Ignition                ignition(), machineconfig(), butane()
//! ```
//!
//! Pure: the same site gives the same bytes. [`crate::config::node`] makes the files that the services themselves
//! read; docs/deploy/machineconfig.md has the keys, options and orders of each release.

mod butane;
mod container;
mod host;
mod ignition;
mod machine_config;
mod native;
mod needs;
mod openshift;
mod ordering;
mod podman_unit;
mod quadlet;
mod redirect;
mod role;
mod scope;
mod slot;
mod sockets;
mod text;
mod unit;
mod yaml;

use std::path::PathBuf;

pub use self::host::RIVALS;
use self::ignition::Config;
pub use self::ordering::HOLDER;
use self::scope::Scope;
use self::unit::Host;
use crate::config::{self, NodeFile, Output};
use site::secrets::Secrets;
use site::{Node, Podman, Role, Runtime, Site};

/// Files with keys in them are their owner's alone.
const PRIVATE: u32 = 0o600;

/// A unit of systemd that a node has a file of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitState {
    /// Its name, with its type.
    pub name: String,
    /// Whether it starts with the machine.
    pub enable: bool,
}

/// Quadlets for the site's podman, with the units that go with them, in the order of their paths.
/// For a site that has none of its own they are what every podman with quadlets understands.
pub fn quadlet(site: &Site, node: &Node) -> Vec<NodeFile> {
    host(&Scope::node(site, node), quadlets_of(site)).into_files()
}

/// Plain units, in the order of their paths: for the binaries themselves where the site says so, else
/// for containers.
pub fn units(site: &Site, node: &Node) -> Vec<NodeFile> {
    host(&Scope::node(site, node), plain_of(site)).into_files()
}

/// The files of the site's own way to start services on a node, without those that the services read.
pub fn files(site: &Site, node: &Node) -> Vec<NodeFile> {
    host(&Scope::node(site, node), site.platform.runtime).into_files()
}

/// The units among [`files`]; quadlets are none.
pub fn units_of(site: &Site, node: &Node) -> Vec<UnitState> {
    let mut units: Vec<UnitState> = host(&Scope::node(site, node), site.platform.runtime)
        .units
        .into_iter()
        .filter(|unit| unit.text.is_some())
        .map(|unit| UnitState {
            name: unit.name,
            enable: unit.enable,
        })
        .collect();
    units.sort_by(|one, other| one.name.cmp(&other.name));
    units
}

/// An Ignition configuration of each node.
pub fn ignition(site: &Site, secrets: &Secrets) -> Vec<Output> {
    site.nodes
        .iter()
        .map(|node| Output {
            path: PathBuf::from(format!("{}.ign", node.name)),
            mode: PRIVATE,
            contents: Config::of(&whole_node(site, node, secrets)).text(),
            node: Some(node.name.clone()),
        })
        .collect()
}

/// A `MachineConfig` of each role, and a policy that lets them change without a restart.
pub fn machineconfig(site: &Site, secrets: &Secrets) -> Vec<Output> {
    let mut units = Vec::new();
    let mut outputs: Vec<Output> = roles(site, secrets)
        .map(|(role, scope, host)| {
            units.extend(host.units.iter().map(|unit| unit.name.clone()));
            Output {
                path: PathBuf::from(format!("{}.yaml", machine_config::name(role))),
                mode: PRIVATE,
                contents: machine_config::manifest(role, &scope, &host).into_bytes(),
                node: None,
            }
        })
        .collect();
    units.sort();
    units.dedup();
    outputs.push(Output {
        path: PathBuf::from("node-disruption-policy.yaml"),
        mode: 0o644,
        contents: machine_config::disruption_policy(&units).into_bytes(),
        node: None,
    });
    outputs
}

/// The objects and patches by which OpenShift gives its DNS and its virtual IPs over to the site; none for a site without OpenShift.
pub fn openshift(site: &Site) -> Vec<Output> {
    openshift::outputs(site)
}

/// The same as Butane: a file for each role of OpenShift, or for each node of a `CoreOS` without.
pub fn butane(site: &Site, secrets: &Secrets) -> Vec<Output> {
    let output = |name: &str, text: String, node| Output {
        path: PathBuf::from(format!("{name}.bu")),
        mode: PRIVATE,
        contents: text.into_bytes(),
        node,
    };
    if site.platform.openshift.is_some() {
        return roles(site, secrets)
            .map(|(role, _, host)| {
                output(
                    &machine_config::name(role),
                    butane::of_role(role, &host),
                    None,
                )
            })
            .collect();
    }
    site.nodes
        .iter()
        .map(|node| {
            let text = butane::of_node(&whole_node(site, node, secrets));
            output(&node.name, text, Some(node.name.clone()))
        })
        .collect()
}

/// The roles that have nodes, with what each of those gets.
fn roles<'a>(site: &'a Site, secrets: &Secrets) -> impl Iterator<Item = (Role, Scope<'a>, Host)> {
    [Role::Master, Role::Worker]
        .into_iter()
        .filter_map(move |role| {
            let scope = Scope::role(site, role)?;
            let mut host = host(&scope, site.platform.runtime);
            role::add(&mut host, &scope, secrets);
            Some((role, scope, host))
        })
}

/// Everything that a node gets.
fn whole_node(site: &Site, node: &Node, secrets: &Secrets) -> Host {
    let mut host = host(&Scope::node(site, node), site.platform.runtime);
    host.files.extend(config::node(site, node, secrets));
    host
}

/// Slots, sockets and what goes with them.
fn host(scope: &Scope<'_>, runtime: Runtime) -> Host {
    let mut host = Host::default();
    host::common(&mut host, scope);
    match runtime {
        Runtime::Quadlet(_) | Runtime::NoQuadlet => host::containers(&mut host, scope),
        Runtime::Native => host::binaries(&mut host, scope),
    }
    for service in scope.services() {
        host.units.extend(sockets::units(service, scope));
        match runtime {
            Runtime::Quadlet(level) => host.files.extend(quadlet::files(service, scope, level)),
            Runtime::NoQuadlet => host.units.extend(podman_unit::units(service, scope)),
            Runtime::Native => host.units.extend(native::units(service, scope)),
        }
    }
    if let Runtime::Quadlet(level) = runtime
        && quadlet::is_after_network(level)
        && scope.is_openshift()
    {
        host.units.push(host::early(scope));
    }
    redirect::add(&mut host, scope);
    host
}

fn quadlets_of(site: &Site) -> Runtime {
    match site.platform.runtime {
        Runtime::NoQuadlet | Runtime::Native => Runtime::Quadlet(Podman::V4_4),
        quadlets @ Runtime::Quadlet(_) => quadlets,
    }
}

fn plain_of(site: &Site) -> Runtime {
    match site.platform.runtime {
        Runtime::Native => Runtime::Native,
        Runtime::Quadlet(_) | Runtime::NoQuadlet => Runtime::NoQuadlet,
    }
}

#[cfg(test)]
pub mod tests;
