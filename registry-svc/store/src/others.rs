//! The questions that the sweep and the scrub have for other nodes.

use std::fmt;
use std::pin::Pin;

use oci::digest::Digest;

/// Whether a blob was fetched.
pub type Fetched<'a> = Pin<Box<dyn Future<Output = bool> + Send + 'a>>;

/// The other nodes of a site.
pub trait Others: fmt::Debug + Send + Sync {
    /// Whether all that the other nodes have acknowledged is known here, but for what is on its way.
    fn has_heard_all(&self) -> bool;

    /// Fetches a blob from whichever of them has it.
    fn fetch<'a>(&'a self, digest: &'a Digest) -> Fetched<'a>;
}
