//! The access list and the limits of the configuration, in the form that a responder uses.

use std::net::IpAddr;
use std::sync::Arc;

use super::acl::Acl;
use super::rate::Limit;
use crate::keys::KeyRing;
use time_model::settings::{RateLimit, ServerSettings};

/// The policy of a responder.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The clients.
    pub access: Acl,
    /// With which keys answers may be signed.
    pub keys: Arc<KeyRing>,
    /// Precision of the clock, as a power of two in seconds.
    pub(super) precision: i8,
    /// Whether anything is remembered of clients; without, there is neither limit nor interleaved mode.
    pub(super) log_clients: bool,
    /// How often.
    pub(super) limit: Option<Limit>,
    /// The polling interval that answers suggest at least.
    pub(super) minimum_poll: i8,
    /// Bits of a timestamp below the precision.
    pub(super) blur: u64,
}

impl Policy {
    /// The policy of settings. `precision` of the clock is a power of two in seconds; `resolve` returns the addresses of a
    /// name.
    pub fn new(
        settings: &ServerSettings,
        keys: Arc<KeyRing>,
        precision: i8,
        resolve: impl FnMut(&str) -> Vec<IpAddr>,
    ) -> Self {
        let limit = settings.rate_limit.as_ref();
        // The bits of a fraction, out of 32, below the precision; a clock of more than a second's precision has none.
        let unknown_bits = (32 + i32::from(precision)).clamp(0, 32);
        Self {
            access: Acl::from_rules(&settings.access, resolve),
            keys,
            precision,
            log_clients: !settings.no_client_log,
            limit: limit.map(|limit| Limit::new(limit, RateLimit::REQUESTS)),
            minimum_poll: limit.map_or(i8::MIN, |limit| {
                limit.interval.unwrap_or(RateLimit::REQUESTS)
            }),
            blur: (1 << unknown_bits) - 1,
        }
    }
}
