//! Finds the node of a bundle that this machine is. Pure.

use std::net::IpAddr;

use site_bundle::manifest::{BundleNode, Manifest};

/// The reason why no node was found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeChoiceError {
    /// Nothing fits.
    #[error(
        "neither the host name {host:?} nor an address of this machine is that of a node ({nodes}); say which with --node"
    )]
    None {
        /// The host name.
        host: String,
        /// The nodes of the bundle.
        nodes: String,
    },
    /// More than one fits.
    #[error("this machine could be {0}; say which with --node")]
    Several(String),
    /// There is none of that name.
    #[error("the bundle has no node {name}; it has {nodes}")]
    NoSuch {
        /// The requested name.
        name: String,
        /// The nodes of the bundle.
        nodes: String,
    },
}

/// The node: the one named, or the one whose name or address this machine has.
///
/// # Errors
///
/// When none fits, or more than one.
pub fn choose<'a>(
    manifest: &'a Manifest,
    named: Option<&str>,
    host: &str,
    is_own: impl Fn(IpAddr) -> bool,
) -> Result<&'a BundleNode, NodeChoiceError> {
    let nodes = || names(manifest.nodes.iter());
    if let Some(name) = named {
        let found = manifest.nodes.iter().find(|node| node.name == name);
        return found.ok_or_else(|| NodeChoiceError::NoSuch {
            name: name.to_owned(),
            nodes: nodes(),
        });
    }
    let label = host.split('.').next().unwrap_or(host);
    let full = |node: &BundleNode| format!("{}.{}", node.name, manifest.domain);
    let fits: Vec<&BundleNode> = manifest
        .nodes
        .iter()
        .filter(|node| {
            let by_name = node.name == label && (host == label || host == full(node));
            by_name || node.addresses.iter().any(|address| is_own(*address))
        })
        .collect();
    match fits[..] {
        [node] => Ok(node),
        [] => Err(NodeChoiceError::None {
            host: host.to_owned(),
            nodes: nodes(),
        }),
        _ => Err(NodeChoiceError::Several(names(fits.into_iter()))),
    }
}

fn names<'a>(nodes: impl Iterator<Item = &'a BundleNode>) -> String {
    let names: Vec<&str> = nodes.map(|node| node.name.as_str()).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use site_bundle::manifest::{BundleRuntime, Version};

    fn manifest() -> Manifest {
        let node = |name: &str, last| BundleNode {
            name: name.to_owned(),
            addresses: vec![[192, 168, 7, last].into()],
            runtime: BundleRuntime::Podman,
            services: Vec::new(),
            files: Vec::new(),
            units: Vec::new(),
        };
        Manifest {
            version: Version::V1,
            site: "ocp4".to_owned(),
            domain: "ocp4.redhat.ren".to_owned(),
            generation: 1,
            created: 0,
            made_by: String::new(),
            nodes: vec![node("master-0", 13), node("master-1", 14)],
            images: Vec::new(),
            members: [].into(),
        }
    }

    fn found(named: Option<&str>, host: &str, own: &[u8]) -> Result<String, NodeChoiceError> {
        let is_own = |address: IpAddr| {
            own.iter()
                .any(|last| address == IpAddr::from([192, 168, 7, *last]))
        };
        choose(&manifest(), named, host, is_own).map(|node| node.name.clone())
    }

    #[test]
    fn a_node_is_known_by_name_or_address() {
        assert_eq!(found(Some("master-1"), "x", &[]).as_deref(), Ok("master-1"));
        assert_eq!(found(None, "master-0", &[]).as_deref(), Ok("master-0"));
        assert_eq!(
            found(None, "master-0.ocp4.redhat.ren", &[13]).as_deref(),
            Ok("master-0")
        );
        assert_eq!(found(None, "localhost", &[14]).as_deref(), Ok("master-1"));
    }

    #[test]
    fn doubt_is_told() {
        assert!(matches!(
            found(None, "localhost", &[]),
            Err(NodeChoiceError::None { .. })
        ));
        assert!(matches!(
            found(None, "master-0.other.example", &[]),
            Err(NodeChoiceError::None { .. })
        ));
        assert!(matches!(
            found(None, "master-0", &[14]),
            Err(NodeChoiceError::Several(_))
        ));
        assert!(matches!(
            found(Some("x"), "master-0", &[13]),
            Err(NodeChoiceError::NoSuch { .. })
        ));
    }
}
