//! Certificates for clients that the nodes of a site give each other.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Whole;

/// How many days clients believe a certificate after a node was given it.
pub type LifeDays = Whole<u16, 2, 366>;

/// Certificates for clients that the other nodes have ready for this one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Renewal {
    /// How many days clients believe a certificate after a node was given it. A node asks for the next one when half of that is
    /// left.
    pub days: LifeDays,
    /// The first certificate of this node for clients (PEM), for the same key as its certificate for nodes. A newer one takes its
    /// place wherever this file is named as a certificate.
    pub certificate: PathBuf,
    /// The directory with the certificates of the other nodes: NAME.crt (PEM), in the order of their ends.
    pub later: PathBuf,
    /// The file for the newest certificate that another node has given this one.
    pub renewed: PathBuf,
}
