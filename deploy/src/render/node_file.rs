//! A file as a node has it.

use std::path::PathBuf;

use crate::service::Service;

/// A file that a node reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeFile {
    /// Where it lies on the node. Absolute.
    pub(crate) path: PathBuf,
    /// Its permissions.
    pub(crate) mode: u32,
    /// User and group; root's unless given.
    pub(crate) owner: Option<(u32, u32)>,
    /// What is in it.
    pub(crate) contents: Vec<u8>,
    /// Who reads it.
    pub(crate) part: Part,
}

/// A file of a target that is for no single node to read as it is: Ignition, a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Output {
    /// Its name below the directory of its target.
    pub(crate) path: PathBuf,
    /// Its permissions: those of a file with keys in it are the owner's alone.
    pub(crate) mode: u32,
    /// What is in it.
    pub(crate) contents: Vec<u8>,
    /// The node that it is for, if it is for one.
    pub(crate) node: Option<String>,
}

/// Who reads a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// More than one service, or none.
    Common,
    /// This service.
    Service(Service),
}
