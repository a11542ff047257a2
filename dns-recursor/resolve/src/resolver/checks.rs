//! The part of a flight that is about validation.

use dns_cache::message::Answer;
use dns_validate::{Budget, Validation};

use super::upstreams::UpstreamId;

/// The state of validation of a flight.
#[derive(Default)]
pub(super) struct Checks {
    /// The answer that is being validated.
    pub(super) validating: Option<Box<Validating>>,
    /// The rest of the work that it may cost.
    pub(super) budget: Budget,
    /// Whether upstreams that validate are to send what they take for bogus: an answer was bogus here.
    pub(super) checking_disabled: bool,
    /// Whether a validation has asked for the flight.
    pub(super) is_for_keys: bool,
    /// The cost of the keys that its validation has asked for.
    pub(super) spent: Spent,
}

/// The cost of flights: all that are for the keys of one answer may cost as much as one flight.
#[derive(Clone, Copy, Default)]
pub(super) struct Spent {
    /// Messages to servers.
    pub(super) sends: u32,
    /// Lookups of servers' addresses.
    pub(super) fetches: u8,
}

/// An answer that is being validated.
pub(super) struct Validating {
    pub(super) answer: Answer,
    pub(super) validation: Validation,
    /// The upstream that has sent it, unless it was known.
    pub(super) upstream: Option<UpstreamId>,
}
