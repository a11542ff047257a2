//! Settings of answers.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use dns_cookie::Cookies;
use dns_flatten::Forms;
use dns_update::Grant;
use dns_views::ZoneId;
use dns_wire::{Keys, Name};

pub use config::dns_authd::Any;

/// Settings of answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The largest UDP response; OPT records announce it.
    pub udp_payload: u16,
    /// The largest UDP response to a client without a valid cookie; no larger than `udp_payload`.
    pub nocookie_payload: u16,
    /// The answer to cookies (RFC 7873); none ignores them.
    pub cookies: Option<Arc<Cookies>>,
    /// The answer to type ANY.
    pub any: Any,
    /// Answers to CHAOS TXT questions, by name.
    pub chaos: Vec<(Name, String)>,
    /// The name server identifier (RFC 5001), for clients that ask.
    pub nsid: Option<Box<[u8]>>,
    /// Whether client subnets (RFC 7871) stand for the client's address.
    pub client_subnet: bool,
    /// How long a stream may be idle, in tenths of a second, as RFC 7828 tells clients.
    pub keepalive: u16,
    /// The keys of transaction signatures (RFC 8945).
    pub keys: Keys,
    /// The names of zones that others may send NOTIFY about, and who.
    pub notifiers: Arc<HashMap<Name, Notifiers>>,
    /// The zones that take updates (RFC 2136), and the grants of each.
    pub grants: Arc<HashMap<ZoneId, Arc<[Grant]>>>,
    /// The forms in which name servers get zones with LUA records.
    pub forms: Arc<Forms>,
}

/// The clients that may send NOTIFY about a zone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notifiers {
    /// The primaries.
    pub addresses: Vec<IpAddr>,
    /// The keys whose holders may too, from any address.
    pub keys: Vec<Name>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            udp_payload: 1232,
            nocookie_payload: 1232,
            cookies: None,
            any: Any::One,
            chaos: Vec::new(),
            nsid: None,
            client_subnet: false,
            keepalive: 100,
            keys: Keys::default(),
            notifiers: Arc::default(),
            grants: Arc::default(),
            forms: Arc::default(),
        }
    }
}
