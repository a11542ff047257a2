//! The files of all nodes of a role: a `MachineConfig` cannot tell them apart.
//!
//! Files that are the same on each of them lie in their places. The others lie once for each node
//! below [`paths::NODES`], and a oneshot finds out by the addresses of the machine which node it is, and
//! copies that node's files to where they belong: a container sees the directory of its service alone, so a link would
//! lead nowhere. Nothing is edited that the platform looks after.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::host::{NAME_SERVERS, name_servers_of};
use super::ordering::{self, NODE, Ordering};
use super::scope::Scope;
use super::slot;
use super::text::Text;
use super::unit::{Host, Unit, file};
use crate::config::{self, NodeFile, Part};
use site::paths;
use site::secrets::Secrets;

/// The list of the copies that a node has.
const LIST: &str = "/var/lib/outpost/node-files";
/// The program that copies them.
const SCRIPT: &str = "/usr/local/bin/outpost-node";

/// Adds what the nodes read, and what tells them apart.
pub(super) fn add(host: &mut Host, scope: &Scope<'_>, secrets: &Secrets) {
    let mut by_path: BTreeMap<PathBuf, BTreeMap<&str, NodeFile>> = BTreeMap::new();
    for node in &scope.nodes {
        let files = config::node(scope.site, node, secrets)
            .into_iter()
            .chain(name_servers_of(scope.site, node));
        for file in files {
            by_path
                .entry(file.path.clone())
                .or_default()
                .insert(&node.name, file);
        }
    }
    for (path, versions) in by_path {
        let is_everywhere = versions.len() == scope.nodes.len();
        let mut distinct = BTreeSet::new();
        for file in versions.values() {
            distinct.insert((&file.contents, file.mode, file.owner));
        }
        let is_same = is_everywhere && distinct.len() == 1;
        for (node, file) in versions {
            host.files.push(match is_same {
                true => file,
                false => NodeFile {
                    path: own_place(node, &path),
                    ..file
                },
            });
            if is_same {
                break;
            }
        }
    }
    for node in &scope.nodes {
        let addresses: String = node
            .addresses
            .iter()
            .map(|address| format!("{address}\n"))
            .collect();
        let path = format!("{}/{}.addresses", paths::NODES, node.name);
        host.files.push(file(path, addresses, Part::Common));
    }
    host.files.push(NodeFile {
        mode: 0o755,
        ..file(SCRIPT, script(), Part::Common)
    });
    host.units.push(unit(scope));
}

/// The path of a node's own version of a file.
fn own_place(node: &str, path: &Path) -> PathBuf {
    let below = path.strip_prefix("/").unwrap_or(path);
    Path::new(paths::NODES).join(node).join(below)
}

fn unit(scope: &Scope<'_>) -> Unit {
    let text = Text::new(&[])
        .section("Unit")
        .set("Description", "Outpost: find out which node this is")
        .comments(&["Not after network-online.target, which waits for what needs the site."])
        .set("After", "NetworkManager-wait-online.service")
        .set_words("Before", ordering::before(None, scope, Ordering::First))
        .section("Service")
        .set("Type", "oneshot")
        .set("RemainAfterExit", "yes")
        .comments(&["Until it has an address of the site: without, there is nothing to start."])
        .set("TimeoutStartSec", "infinity")
        .set("ExecStart", SCRIPT);
    Unit::new(NODE, slot::install(text).finish(), Part::Common)
}

fn script() -> String {
    let directory = Path::new(NAME_SERVERS)
        .parent()
        .unwrap_or_else(|| Path::new("/"));
    include_str!("outpost-node.sh")
        .replace("@NODES@", paths::NODES)
        .replace("@LIST@", LIST)
        .replace("@NETWORK_MANAGER@", &directory.display().to_string())
}
