//! Leases: content that a client was promised, and that the sweep leaves alone for a while.
//!
//! A client asks which layers of an image are there, pushes the others, and then the manifest: the
//! answer must hold until then. A lease also remembers the size, so a second question needs no look
//! at the disk.
//!
//! Never reads a clock: milliseconds are handed in.

use std::collections::HashMap;
use std::time::Duration;

use oci::digest::Digest;

/// How long an answer holds unless configured: longer than any push takes between its first
/// question and its manifest.
pub const TERM: Duration = Duration::from_hours(2);

/// Leases at which those that ended are looked for: more than a site's images have blobs.
const MANY: usize = 1 << 16;

/// The promises of content.
#[derive(Debug)]
pub struct Leases {
    /// How long an answer holds, in milliseconds.
    term: u64,
    leases: HashMap<Digest, Lease>,
    /// At how many those that ended are looked for.
    sweep_at: usize,
}

#[derive(Clone, Copy, Debug)]
struct Lease {
    /// In milliseconds.
    until: u64,
    size: u64,
}

impl Leases {
    /// None yet; each will hold for `term`.
    #[must_use]
    pub fn new(term: Duration) -> Self {
        Self {
            term: u64::try_from(term.as_millis()).unwrap_or(u64::MAX),
            leases: HashMap::new(),
            sweep_at: 0,
        }
    }

    /// Begins a lease on content of `size` octets, or lengthens the one there is.
    pub fn take(&mut self, digest: Digest, size: u64, now: u64) {
        let until = now.saturating_add(self.term);
        self.leases.insert(digest, Lease { until, size });
        if self.leases.len() > self.sweep_at.max(MANY) {
            self.leases.retain(|_, lease| lease.until > now);
            self.sweep_at = 2 * self.leases.len();
        }
    }

    /// The size of content that is under a lease.
    #[must_use]
    pub fn size(&self, digest: &Digest, now: u64) -> Option<u64> {
        let lease = self.leases.get(digest)?;
        (lease.until > now).then_some(lease.size)
    }

    /// Ends a lease, because the content turned out to be lost.
    pub fn end(&mut self, digest: &Digest) {
        self.leases.remove(digest);
    }
}

#[cfg(test)]
mod tests {
    use oci::digest::Algorithm;

    use super::*;

    #[test]
    fn a_lease_holds_for_its_term() {
        let digest = Digest::of(Algorithm::Sha256, b"a");
        let term = u64::try_from(TERM.as_millis()).unwrap();
        let mut leases = Leases::new(TERM);
        assert_eq!(leases.size(&digest, 0), None);
        leases.take(digest, 5, 0);
        assert_eq!(leases.size(&digest, term - 1), Some(5));
        assert_eq!(leases.size(&digest, term), None);
        leases.take(digest, 5, term);
        assert_eq!(leases.size(&digest, term), Some(5));
        leases.end(&digest);
        assert_eq!(leases.size(&digest, term), None);
    }

    #[test]
    fn leases_that_ended_do_not_pile_up() {
        let mut leases = Leases::new(TERM);
        let term = u64::try_from(TERM.as_millis()).unwrap();
        for number in 0..3 * MANY as u64 {
            let mut octets = [0; 32];
            octets[..8].copy_from_slice(&number.to_le_bytes());
            leases.take(Digest::Sha256(octets), 1, number * term);
            assert!(leases.leases.len() <= MANY + 1);
        }
    }
}
