//! The transports that transfers may take (RFC 9103).

use std::net::IpAddr;

use dns_wire::Name;

use crate::{PeerRule, ZoneAccess};

/// The transports of the transfers of all zones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transports {
    /// Whether the transfers of some name servers need TLS. The first that fits decides; then the zone.
    pub rules: Vec<PeerRule<bool>>,
    /// Whether all other transfers need TLS.
    pub needs_tls: bool,
}

impl Transports {
    /// Whether the server at this address, which has signed with this key, may transfer a zone over TLS alone.
    #[must_use]
    pub fn need_tls(
        &self,
        (zone, access): (&Name, Option<&ZoneAccess>),
        server: IpAddr,
        key: Option<&Name>,
    ) -> bool {
        let mut rules = self.rules.iter();
        let rule = rules.find(|rule| rule.is_of(zone) && rule.is_for(server, key));
        let of_zone = || access.and_then(|access| access.needs_tls);
        rule.map(|rule| rule.value)
            .or_else(of_zone)
            .unwrap_or(self.needs_tls)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_comes_before_the_zone_and_the_zone_before_all_others() {
        let name = |text: &str| text.parse::<Name>().unwrap();
        let rule = |networks: Option<&str>, keys: &[&str], zones: &[&str], needs_tls| PeerRule {
            networks: networks.map(|list| list.parse().unwrap()),
            keys: keys.iter().map(|key| name(key)).collect(),
            zones: zones.iter().map(|zone| name(zone)).collect(),
            value: needs_tls,
        };
        let rules = vec![
            rule(Some("192.0.2.1"), &[], &[], false),
            rule(None, &["k."], &["a."], true),
        ];
        let of = |needs_tls| ZoneAccess {
            needs_tls,
            ..ZoneAccess::default()
        };
        for (zone, of_zone, server, key, [others_any, others_tls]) in [
            ("a.", None, "192.0.2.2", None, [false, true]),
            ("a.", Some(true), "192.0.2.2", None, [true, true]),
            ("a.", Some(false), "192.0.2.2", None, [false, false]),
            ("a.", Some(true), "192.0.2.1", None, [false, false]),
            (
                "a.",
                Some(true),
                "::ffff:192.0.2.1",
                Some("k."),
                [false, false],
            ),
            ("A.", Some(false), "192.0.2.2", Some("K."), [true, true]),
            ("b.", None, "192.0.2.2", Some("k."), [false, true]),
            ("a.", None, "192.0.2.2", Some("other."), [false, true]),
        ] {
            let (server, key) = (server.parse().unwrap(), key.map(name));
            for (needs_tls, expected) in [(false, others_any), (true, others_tls)] {
                let transports = Transports {
                    rules: rules.clone(),
                    needs_tls,
                };
                let access = of(of_zone);
                let zone = (&name(zone), Some(&access));
                let needs = transports.need_tls(zone, server, key.as_ref());
                assert_eq!(needs, expected, "{zone:?} {server} {key:?} {needs_tls}");
            }
        }
        let nothing = Transports::default();
        assert!(!nothing.need_tls((&name("a."), None), "192.0.2.1".parse().unwrap(), None));
    }
}
