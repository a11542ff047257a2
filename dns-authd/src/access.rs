//! Access lists; each configuration publishes new ones.

use std::net::IpAddr;

use daemon::acl::Cidrs;
use dns_wire::Name;

/// Networks that may ask, and networks that may transfer zones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// The clients that may query; all when there is no list.
    pub ask: Option<Cidrs>,
    /// The clients that may transfer zones.
    pub transfer: Cidrs,
    /// The keys whose holders may transfer zones, from any address.
    pub transfer_keys: Vec<Name>,
}

impl Access {
    /// Whether this address may query. The node itself always may: the check that keeps a service in its
    /// slot queries over loopback, whatever the list says.
    #[must_use]
    pub fn may_ask(&self, client: IpAddr) -> bool {
        let allowed = |list: &Cidrs| list.contains(client) || client.to_canonical().is_loopback();
        self.ask.as_ref().is_none_or(allowed)
    }

    /// Whether this address may transfer zones, or the holder of the key that the query is signed with.
    #[must_use]
    pub fn may_transfer(&self, client: IpAddr, key: Option<&Name>) -> bool {
        self.transfer.contains(client) || key.is_some_and(|key| self.transfer_keys.contains(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_list_everybody_may_ask_and_nobody_transfer() {
        let access = Access::default();
        assert!(access.may_ask("198.51.100.1".parse().unwrap()));
        assert!(!access.may_transfer("127.0.0.1".parse().unwrap(), None));
    }

    #[test]
    fn a_key_opens_transfers_from_everywhere_and_only_if_it_is_listed() {
        let (listed, other): (Name, Name) = ("a.".parse().unwrap(), "b.".parse().unwrap());
        let access = Access {
            transfer: "192.0.2.1".parse().unwrap(),
            transfer_keys: vec![listed.clone()],
            ..Access::default()
        };
        for (client, key, expected) in [
            ("192.0.2.1", None, true),
            ("192.0.2.1", Some(&other), true),
            ("198.51.100.1", None, false),
            ("198.51.100.1", Some(&listed), true),
            ("198.51.100.1", Some(&other), false),
        ] {
            let client = client.parse().unwrap();
            assert_eq!(
                access.may_transfer(client, key),
                expected,
                "{client} {key:?}"
            );
        }
    }

    #[test]
    fn a_list_leaves_out_all_others_but_the_node_itself() {
        let access = Access {
            ask: Some("192.168.7.0/24, !192.168.7.9".parse().unwrap()),
            transfer: Cidrs::none(),
            transfer_keys: Vec::new(),
        };
        for (client, expected) in [
            ("192.168.7.13", true),
            ("::ffff:192.168.7.13", true),
            ("192.168.7.9", false),
            ("192.168.8.1", false),
            ("2001:db8::1", false),
            ("127.0.0.1", true),
            ("::ffff:127.0.0.1", true),
            ("::1", true),
        ] {
            assert_eq!(
                access.may_ask(client.parse().unwrap()),
                expected,
                "{client}"
            );
        }
    }
}
