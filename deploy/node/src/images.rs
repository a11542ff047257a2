//! Images on a node: kept as archives, loaded into podman's store or unpacked as programs.
//!
//! A node keeps the [`archives`] and loads from them whatever its [`store`] lacks, so that after a power cut
//! it needs a second and no network. An [`image_record`] says what a load has put on the disk.

pub mod archives;
pub mod image_record;
pub mod load;
pub mod podman;
pub mod programs;
pub mod store;
pub mod versions;

use std::path::PathBuf;

/// The directories of a node's images.
#[derive(Clone, Debug)]
pub struct ImagePaths {
    /// Directory of the archives.
    pub archives: PathBuf,
    /// Description of podman's store (containers-storage.conf).
    pub storage: PathBuf,
    /// Directory of the programs, on a node that runs programs instead of containers.
    pub programs: Option<PathBuf>,
}
