//! The outcome of a validation.

use std::fmt;

/// The state of an answer (RFC 4033 §5). A greater one wins when an answer has several parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Security {
    /// A chain of signatures leads from a trust anchor to every part.
    Secure,
    /// No trust anchor is above it, or a proof says that the chain ends above it.
    Insecure,
    /// The keys or the proofs that decide cannot be had.
    Indeterminate,
    /// It should be signed, and is not, or wrongly.
    Bogus,
}

impl fmt::Display for Security {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Secure => "secure",
            Self::Insecure => "insecure",
            Self::Indeterminate => "indeterminate",
            Self::Bogus => "bogus",
        })
    }
}

/// The state of an answer, and the reason for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub security: Security,
    /// The reason, when the answer is not secure.
    pub why: Option<Why>,
    /// The seconds after which a signature ends: the answer is secure no longer than that.
    pub lifetime: u32,
}

impl Verdict {
    /// The verdict on an answer without parts.
    pub(crate) const SECURE: Self = Self {
        security: Security::Secure,
        why: None,
        lifetime: u32::MAX,
    };

    pub(crate) const fn secure(lifetime: u32) -> Self {
        Self {
            lifetime,
            ..Self::SECURE
        }
    }

    pub(crate) const fn insecure(why: Why) -> Self {
        Self {
            security: Security::Insecure,
            why: Some(why),
            lifetime: u32::MAX,
        }
    }

    pub(crate) const fn bogus(why: Why) -> Self {
        Self {
            security: Security::Bogus,
            why: Some(why),
            lifetime: 0,
        }
    }

    pub(crate) const fn indeterminate(why: Why) -> Self {
        Self {
            security: Security::Indeterminate,
            why: Some(why),
            lifetime: 0,
        }
    }

    /// The verdict on an answer that has this part as well: the worse state, the shorter life.
    #[must_use]
    pub(crate) fn and(self, other: Self) -> Self {
        let worse = match other.security > self.security {
            true => other,
            false => self,
        };
        Self {
            lifetime: self.lifetime.min(other.lifetime),
            ..worse
        }
    }
}

/// The reason why an answer is not secure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// No trust anchor is at or above the name.
    NoAnchor,
    /// A negative trust anchor is at or above the name (RFC 7646).
    NegativeAnchor,
    /// A proof says that the zone is not signed.
    Unsigned,
    /// Opt-out: the proof leaves unsigned zones open (RFC 5155 §6).
    OptOut,
    /// The zone's keys all have algorithms that are unknown here (RFC 4035 §5.2).
    Algorithm,
    /// The DS records all have digests that are unknown here.
    Digest,
    /// The NSEC3 records have more iterations than are computed (RFC 9276 §3.2).
    Iterations,
    /// A signature does not fit the data.
    Signature,
    /// The signature has expired.
    Expired,
    /// The signature's time has not come.
    NotYet,
    /// The zone's keys do not have the one that a DS record, a trust anchor or a signature names.
    NoKey,
    /// The keys that would fit are no zone keys (RFC 4034 §2.1.1).
    NoZoneKey,
    /// A set has no signature.
    NoSignature,
    /// The proof of a denial or of a wildcard is missing or does not hold.
    NoProof,
    /// The answer needs more signatures, hashes or questions than a validation may cost.
    TooMuch,
    /// The DNSKEY or DS records cannot be had.
    Unanswered,
}

impl Why {
    /// The code of the extended error for clients, by the IANA registry of RFC 8914; `None` when there is nothing to
    /// report.
    #[must_use]
    pub const fn info_code(self) -> Option<u16> {
        match self {
            Self::NoAnchor | Self::Unsigned | Self::OptOut => None,
            Self::NegativeAnchor => Some(33),
            Self::Algorithm => Some(1),
            Self::Digest => Some(2),
            Self::Iterations => Some(27),
            Self::Signature | Self::TooMuch => Some(6),
            Self::Expired => Some(7),
            Self::NotYet => Some(8),
            Self::NoKey => Some(9),
            Self::NoZoneKey => Some(11),
            Self::NoSignature => Some(10),
            Self::NoProof => Some(12),
            Self::Unanswered => Some(5),
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoAnchor => "no trust anchor is above the name",
            Self::NegativeAnchor => "a negative trust anchor is above the name",
            Self::Unsigned => "the zone is not signed",
            Self::OptOut => "the proof has opt-out",
            Self::Algorithm => "the zone's algorithms are unknown",
            Self::Digest => "the digests of the DS records are unknown",
            Self::Iterations => "the NSEC3 records have too many iterations",
            Self::Signature => "a signature does not fit the data",
            Self::Expired => "a signature has expired",
            Self::NotYet => "a signature is not valid yet",
            Self::NoKey => "the zone does not have the key that is named",
            Self::NoZoneKey => "the key is not a zone key",
            Self::NoSignature => "a signature is missing",
            Self::NoProof => "the proof of the denial is missing or does not hold",
            Self::TooMuch => "validation would cost too much",
            Self::Unanswered => "the zone's DNSKEY or DS records cannot be had",
        })
    }
}
