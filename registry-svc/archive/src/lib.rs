//! Archives of images: finds the images in one, and the file that claims to hold each digest.
//!
//! ```text
//! layout, docker_archive, sync_directory, oc_directory, distribution ──► Catalogue
//!                     read names and small files through `Files`
//! ```
//!
//! Never opens a file: the caller implements [`catalogue::Files`], or hands [`tar`] a reader.

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
#[cfg(any(test, feature = "testing"))]
pub mod testing;
