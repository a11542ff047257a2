//! The nodes of a site, as services name them to each other.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use config_toml::{TextError, checked_text};

use crate::Ip;

checked_text!(
    /// The name by which a site knows a node, such as `master-0`: small letters, digits, `-` and `.`, as in host names.
    NodeName,
    parse_node,
    "the name of a node"
);

impl NodeName {
    /// The longest name: that of a label of the DNS.
    pub const LONGEST: usize = 63;
}

/// A name is in upload sessions' identifiers and in certificates.
fn parse_node(text: &str) -> Result<Arc<str>, TextError> {
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_more = |byte: u8| is_word(byte) || byte == b'.' || byte == b'-';
    let fits = text.len() <= NodeName::LONGEST
        && text.bytes().next().is_some_and(is_word)
        && text.bytes().last().is_some_and(is_word)
        && text.bytes().all(is_more);
    fits.then(|| text.into()).ok_or(TextError(
        "a node's name has up to 63 small letters, digits, `-` and `.`, with a letter or a digit at both ends",
    ))
}

/// The nodes of a cluster that join a list and leave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ClusterNodes {
    /// The nodes of the control plane.
    Masters,
    /// The nodes with the label of workers, and those without any role; no remote workers of OpenShift.
    Workers,
    /// The nodes on which a router of OpenShift's default ingress is ready.
    Ingress,
}

impl ClusterNodes {
    /// The word in the file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Masters => "masters",
            Self::Workers => "workers",
            Self::Ingress => "ingress",
        }
    }
}

/// A list of nodes, to which nodes of a cluster are added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct NodeList {
    /// The name of the list.
    pub name: String,
    /// The nodes of the cluster that join.
    pub nodes: Vec<ClusterNodes>,
    /// The nodes that are always in the list, each with an address; a node with several addresses is there several times.
    #[serde(default)]
    #[schemars(extend("x-example" = "[{ name = \"master-0\", address = \"192.168.7.13\" }]"))]
    pub members: Vec<ListMember>,
}

/// A node that is always in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ListMember {
    /// The name of the node.
    pub name: String,
    /// An address of it.
    pub address: Ip,
}

/// Another node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Peer {
    /// Its name; its certificate has to be for this name.
    pub name: String,
    /// Its address for nodes: a host name or an IP address, and a port.
    pub address: String,
}

/// The files with which a node proves its name to the others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeFiles {
    /// The authority that signs the nodes' certificates.
    pub ca: PathBuf,
    /// The certificate of this node.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// Every address of the node, with a port.
#[must_use]
pub const fn everywhere(port: u16) -> [SocketAddr; 2] {
    [
        SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port),
        SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port),
    ]
}
