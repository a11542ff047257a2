//! The work that one answer may cost.
//!
//! A sender of an answer chooses how many signatures, keys with one tag and NSEC3 records it has. Without bounds a
//! single answer could keep a core busy for minutes (`KeyTrap`, CVE-2023-50387; CVE-2023-50868). The bounds hold
//! over all parts of an answer and all attempts to get it.

/// The most signatures that are verified: for an alias chain through several zones, each new.
pub const MAX_VERIFICATIONS: u16 = 64;
/// The most of these that may fail: an honest zone has none.
pub const MAX_FAILURES: u16 = 4;
/// The most hashes of names for NSEC3, each with at most [`MAX_ITERATIONS`].
pub const MAX_HASHES: u16 = 64;
/// The most iterations of an NSEC3 hash; a zone with more counts as unsigned (RFC 9276 §3.2). unbound has this bound.
pub const MAX_ITERATIONS: u16 = 150;
/// The most DNSKEY and DS questions.
pub const MAX_QUESTIONS: u16 = 40;
/// The most signatures of one set that are read.
pub const MAX_SIGNATURES: usize = 8;
/// The most keys with the tag of a signature or DS record that are tried (RFC 4034 §8: tags collide by chance only).
pub const MAX_SAME_TAG: usize = 2;
/// The most DS records of a zone that count.
pub const MAX_DS: usize = 8;
/// The most DNSKEY records of a zone that count.
pub const MAX_KEYS: usize = 32;
/// The most aliases in an answer.
pub const MAX_ALIASES: usize = 16;

/// The rest of the work that one question may cost. Survives another attempt at another upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    verifications: u16,
    failures: u16,
    hashes: u16,
    questions: u16,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            verifications: MAX_VERIFICATIONS,
            failures: MAX_FAILURES,
            hashes: MAX_HASHES,
            questions: MAX_QUESTIONS,
        }
    }
}

/// The work is spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spent;

impl Budget {
    /// Pays for a verification that is about to begin.
    pub(crate) fn verification(&mut self) -> Result<(), Spent> {
        if self.failures == 0 {
            return Err(Spent);
        }
        spend(&mut self.verifications)
    }

    /// Notes that a verification has failed.
    pub(crate) const fn failed(&mut self) {
        self.failures = self.failures.saturating_sub(1);
    }

    /// Pays for a hash.
    pub(crate) fn hash(&mut self) -> Result<(), Spent> {
        spend(&mut self.hashes)
    }

    /// Pays for a question.
    pub(crate) fn question(&mut self) -> Result<(), Spent> {
        spend(&mut self.questions)
    }

    /// The number of verifications so far.
    #[must_use]
    pub const fn n_verifications(&self) -> u16 {
        MAX_VERIFICATIONS - self.verifications
    }

    /// The number of NSEC3 hashes so far.
    #[must_use]
    pub const fn n_hashes(&self) -> u16 {
        MAX_HASHES - self.hashes
    }
}

fn spend(left: &mut u16) -> Result<(), Spent> {
    *left = left.checked_sub(1).ok_or(Spent)?;
    Ok(())
}
