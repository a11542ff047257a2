//! Referrals below a forwarded zone: its servers name others for the name (RFC 1034 §4.3.2). The resolver
//! sends the query to those, as `pdns_recursor` and unbound do below a zone that is forwarded without RD.
//!
//! It follows a referral only from servers that are authoritative, only downwards and towards the name (so
//! that each leads closer and none in a circle), and only a few times. `dns_iterate` remembers where it led, for the next
//! questions, and says which addresses in it count.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use dns_cache::key;
use dns_cache::message::Referral;
use dns_iterate::delegations;
use dns_wire::{Class, Name, Type};

use crate::own_addresses::OwnAddresses;

/// The most referrals that one question follows in a row: more than the zone cuts in any name in use.
const MAX_REFERRALS: u8 = 12;
/// The most addresses of one delegation that get a query.
const MAX_ADDRESSES: usize = 8;
/// The port of servers that a referral names.
const DNS_PORT: u16 = 53;

/// A zone that a referral has led to.
pub(super) struct Delegation {
    pub(super) zone: Name,
    /// The number of referrals that have led here in a row.
    n_referrals: u8,
    /// Servers that came without an address: the questions that may find them.
    unsought: VecDeque<(Name, Type)>,
}

impl Delegation {
    /// The delegation that a referral has led to, after this many in a row.
    pub(super) fn of(found: &delegations::Delegation, n_referrals: u8) -> Self {
        let names = &found.unlocated;
        let questions = |rtype: Type| names.iter().map(move |name| (name.clone(), rtype));
        Self {
            zone: found.zone.clone(),
            n_referrals,
            unsought: questions(Type::A).chain(questions(Type::AAAA)).collect(),
        }
    }

    /// A zone whose servers are known already.
    pub(super) const fn known(zone: Name) -> Self {
        Self {
            zone,
            n_referrals: 0,
            unsought: VecDeque::new(),
        }
    }

    /// The number of the next referral in a row, after one that has led to `before`; `None` when that is too many, or it
    /// does not lead towards the question's name.
    pub(super) fn next(referral: &Referral, question: &[u8], before: Option<&Self>) -> Option<u8> {
        let (name, _) = Name::from_wire(question).ok()?;
        let n_referrals = before.map_or(0, |before| before.n_referrals);
        // The servers of the zone above have a zone's DS records.
        let is_own = key::qtype(question) == Type::DS && name == referral.zone;
        let leads_on = name.is_within(&referral.zone) && !is_own;
        let is_followed =
            key::qclass(question) == Class::IN && leads_on && n_referrals < MAX_REFERRALS;
        is_followed.then_some(n_referrals + 1)
    }

    /// The next question for a server that came without an address.
    pub(super) fn next_question(&mut self) -> Option<Vec<u8>> {
        let (name, rtype) = self.unsought.pop_front()?;
        let question = [
            name.as_wire(),
            &rtype.0.to_be_bytes(),
            &Class::IN.0.to_be_bytes(),
        ];
        Some(question.concat())
    }
}

/// The sockets of the servers at these addresses. The node may have other servers on its addresses, such as
/// the site's dns-authd.
pub(super) fn servers(
    addresses: &[IpAddr],
    own: &OwnAddresses,
) -> impl Iterator<Item = SocketAddr> {
    let hosts = addresses.iter().filter(|address| is_host(**address));
    hosts
        .map(|address| SocketAddr::new(*address, DNS_PORT))
        .filter(|to| !own.bars(*to))
        .take(MAX_ADDRESSES)
}

/// Whether an address can be that of a server. A referral must not make this server talk to the node's own
/// services or to a whole network.
fn is_host(address: IpAddr) -> bool {
    let address = address.to_canonical();
    let is_broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
    // A link-local address is meaningless without its link.
    let is_local = matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local());
    !(address.is_unspecified()
        || address.is_loopback()
        || address.is_multicast()
        || is_broadcast
        || is_local)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_host_is_what_is_for_this_node_or_for_many() {
        for (address, expected) in [
            ("192.0.2.1", true),
            ("2001:db8::1", true),
            ("::ffff:192.0.2.1", true),
            ("0.0.0.0", false),
            ("::", false),
            ("127.0.0.53", false),
            ("::1", false),
            ("::ffff:127.0.0.1", false),
            ("224.0.0.1", false),
            ("ff02::1", false),
            ("255.255.255.255", false),
            ("::ffff:255.255.255.255", false),
            ("fe80::1", false),
        ] {
            assert_eq!(is_host(address.parse().unwrap()), expected, "{address}");
        }
    }
}
