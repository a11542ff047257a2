//! Images in and out without a network, and between registries.

pub mod archive;
pub mod catalogue;
pub mod distribution;
pub mod docker_archive;
pub mod entries;
pub mod format;
pub mod layout;
pub mod name;
pub mod oc_directory;
pub mod sync_directory;
pub mod tar;
