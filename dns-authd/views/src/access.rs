//! The clients that may do something.

use std::net::IpAddr;

use cidrs::Cidrs;
use dns_wire::Name;

/// Clients, by their addresses or by the keys that sign their queries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clients {
    /// Their addresses.
    pub networks: Cidrs,
    /// Their keys, from any address.
    pub keys: Vec<Name>,
}

impl Clients {
    /// All clients.
    #[must_use]
    pub fn all() -> Self {
        Self {
            networks: Cidrs::any(),
            keys: Vec::new(),
        }
    }

    /// Whether a client is one of them; `key` signs its query.
    #[must_use]
    pub fn has(&self, client: IpAddr, key: Option<&Name>) -> bool {
        self.networks.contains(client) || self.has_key(key)
    }

    /// Whether this key is one of theirs.
    #[must_use]
    pub fn has_key(&self, key: Option<&Name>) -> bool {
        key.is_some_and(|key| self.keys.contains(key))
    }
}

/// The access lists of one zone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ZoneAccess {
    /// The clients that get answers from it; all without a list.
    pub query: Option<Clients>,
    /// The clients that may transfer it; without a list, those that may transfer every zone.
    pub transfer: Option<Clients>,
    /// Whether it is transferred over TLS alone; as every zone without a value.
    pub needs_tls: Option<bool>,
}

impl ZoneAccess {
    /// Whether it says nothing.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.query.is_none() && self.transfer.is_none() && self.needs_tls.is_none()
    }

    /// Whether a client may have answers.
    #[must_use]
    pub fn may_query(&self, client: IpAddr, key: Option<&Name>) -> bool {
        let clients = self.query.as_ref();
        clients.is_none_or(|clients| clients.has(client, key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_or_a_key_is_enough_and_an_empty_list_has_no_client() {
        let (listed, other): (Name, Name) = ("k.".parse().unwrap(), "o.".parse().unwrap());
        let some = Clients {
            networks: "192.0.2.0/24, !192.0.2.9".parse().unwrap(),
            keys: vec![listed.clone()],
        };
        let access = ZoneAccess {
            query: Some(some),
            ..ZoneAccess::default()
        };
        for (client, key, expected) in [
            ("192.0.2.1", None, true),
            ("::ffff:192.0.2.1", None, true),
            ("192.0.2.9", None, false),
            ("192.0.2.9", Some(&listed), true),
            ("127.0.0.1", None, false),
            ("2001:db8::1", Some(&other), false),
        ] {
            let client = client.parse().unwrap();
            assert_eq!(access.may_query(client, key), expected, "{client} {key:?}");
            assert!(ZoneAccess::default().may_query(client, key));
            let closed = ZoneAccess {
                query: Some(Clients::default()),
                ..ZoneAccess::default()
            };
            assert!(!closed.may_query(client, key));
        }
        assert!(ZoneAccess::default().is_open());
        assert!(!access.is_open());
    }
}
