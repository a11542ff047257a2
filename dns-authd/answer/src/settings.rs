//! What the operator decided about answers.

use dns_wire::Name;

/// What the operator decided about answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The largest UDP response sent, and what OPT records announce.
    pub udp_payload: u16,
    /// What ANY gets.
    pub any: Any,
    /// What CHAOS TXT questions get, by name.
    pub chaos: Vec<(Name, String)>,
    /// The name server identifier (RFC 5001), for clients that ask.
    pub nsid: Option<Box<[u8]>>,
    /// Whether client subnets (RFC 7871) count as the client's address.
    pub client_subnet: bool,
    /// How long a stream may be idle, in tenths of a second, as RFC 7828 tells clients.
    pub keepalive: u16,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            udp_payload: 1232,
            any: Any::One,
            chaos: Vec::new(),
            nsid: None,
            client_subnet: false,
            keepalive: 100,
        }
    }
}

/// What a question for type ANY gets (RFC 8482 §4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Any {
    /// One RRset of the name.
    One,
    /// All RRsets, but over UDP only a request to come back over TCP.
    AllOverTcp,
}
