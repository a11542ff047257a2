//! A file as a node has it.

use std::path::PathBuf;

use site::service::Service;

/// A file that a node reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFile {
    /// The path on the node. Absolute.
    pub path: PathBuf,
    /// Its permissions.
    pub mode: u32,
    /// User and group; root's unless given.
    pub owner: Option<(u32, u32)>,
    /// The content.
    pub contents: Vec<u8>,
    /// The service that reads it.
    pub part: Part,
}

/// A file of a target that is for no single node to read as it is: Ignition, a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// Its name below the directory of its target.
    pub path: PathBuf,
    /// Its permissions: those of a file with keys in it are the owner's alone.
    pub mode: u32,
    /// The content.
    pub contents: Vec<u8>,
    /// The node that it is for, if it is for one.
    pub node: Option<String>,
}

/// The reader of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// More than one service, or none.
    Common,
    /// This service.
    Service(Service),
}
