//! Access lists; each configuration publishes new ones.

use std::net::IpAddr;

use daemon::acl::Cidrs;
use dns_answer::table::Served;
use dns_views::{Clients, Transports};
use dns_wire::Name;

/// Networks that may ask, and networks that may transfer zones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// The clients that may query; all when there is no list.
    pub ask: Option<Cidrs>,
    /// The clients that may transfer zones without a list of their own.
    pub transfer: Clients,
    /// The transports that transfers may take.
    pub transports: Transports,
}

impl Access {
    /// Whether this address may query. The node itself always may: the check that keeps a service in its
    /// slot queries over loopback, whatever the list says.
    #[must_use]
    pub fn may_ask(&self, client: IpAddr) -> bool {
        let allowed = |list: &Cidrs| list.contains(client) || client.to_canonical().is_loopback();
        self.ask.as_ref().is_none_or(allowed)
    }

    /// Whether this address may transfer a zone, or the holder of the key that the query is signed with.
    #[must_use]
    pub fn may_transfer(&self, zone: &Served, client: IpAddr, key: Option<&Name>) -> bool {
        let own = zone.access.as_ref().and_then(|own| own.transfer.as_ref());
        own.unwrap_or(&self.transfer).has(client, key)
    }

    /// Whether this address, or the holder of the key, may transfer a zone over TLS alone.
    #[must_use]
    pub fn needs_tls(&self, zone: &Served, client: IpAddr, key: Option<&Name>) -> bool {
        let zone = (&zone.apex, zone.access.as_deref());
        self.transports.need_tls(zone, client, key)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use dns_answer::table::Origin;
    use dns_views::ZoneAccess;

    use super::*;

    fn zone(transfer: Option<Clients>) -> Served {
        let access = ZoneAccess {
            transfer,
            ..ZoneAccess::default()
        };
        Served {
            apex: "a.test.".parse().unwrap(),
            view: None,
            zone: None,
            parts: None,
            live: Arc::default(),
            origin: Origin::Configured,
            access: Some(Arc::new(access)),
        }
    }

    #[test]
    fn without_a_list_everybody_may_ask_and_nobody_transfer() {
        let access = Access::default();
        assert!(access.may_ask("198.51.100.1".parse().unwrap()));
        assert!(!access.may_transfer(&zone(None), "127.0.0.1".parse().unwrap(), None));
    }

    #[test]
    fn a_key_opens_transfers_from_everywhere_and_a_zone_may_have_a_list_of_its_own() {
        let (listed, other): (Name, Name) = ("a.".parse().unwrap(), "b.".parse().unwrap());
        let access = Access {
            ask: None,
            transfer: Clients {
                networks: "192.0.2.1".parse().unwrap(),
                keys: vec![listed.clone()],
            },
            ..Access::default()
        };
        let of_others = Some(Clients {
            networks: Cidrs::none(),
            keys: vec![other.clone()],
        });
        let nobody = Some(Clients::default());
        for (client, key, expected, expected_of_others) in [
            ("192.0.2.1", None, true, false),
            ("192.0.2.1", Some(&other), true, true),
            ("198.51.100.1", None, false, false),
            ("198.51.100.1", Some(&listed), true, false),
            ("198.51.100.1", Some(&other), false, true),
        ] {
            let client = client.parse().unwrap();
            for (list, expected) in [
                (None, expected),
                (of_others.clone(), expected_of_others),
                (nobody.clone(), false),
            ] {
                let what = format!("{client} {key:?} {list:?}");
                let may = access.may_transfer(&zone(list), client, key);
                assert_eq!(may, expected, "{what}");
            }
        }
    }

    #[test]
    fn a_list_leaves_out_all_others_but_the_node_itself() {
        let access = Access {
            ask: Some("192.168.7.0/24, !192.168.7.9".parse().unwrap()),
            ..Access::default()
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
