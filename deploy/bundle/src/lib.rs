//! Bundles as files: one archive for a site without a network.
//!
//! ```text
//! manifest.json          what every node gets, and the digest of every member
//! manifest.json.minisig  who says so
//! outpost                the static command that installs it
//! images/SERVICE.tar     image archives
//! files/DIGEST           configurations, units, certificates: each once, whichever nodes have it
//! ```
//!
//! The signature is over the manifest, and the manifest has a digest of everything else: nothing of
//! a bundle is used before both are checked.

pub mod manifest;
pub mod reader;
pub mod signature;
pub mod writer;
