//! Referrals below a forwarded zone: its servers name others for the name (RFC 1034 §4.3.2). The resolver
//! sends the query to those, as `pdns_recursor` and unbound do below a zone that is forwarded without RD.
//!
//! It follows a referral only from servers that are authoritative, only downwards and towards the name (so
//! that each leads closer and none in a circle), and only a few times. It believes the addresses in a
//! referral when their names lie in the zone of the referring server, and resolves others like a client's
//! question. A referral serves one question alone: the next question begins at the forwarded zone's servers
//! again.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use dns_cache::key;
use dns_cache::message::Referral;
use dns_wire::{Class, Name, Type};

use crate::own_addresses::OwnAddresses;

/// The most referrals that one question follows in a row: more than the zone cuts in any name of a site.
const MAX_REFERRALS: u8 = 6;
/// The most addresses of one delegation that get a query.
const MAX_ADDRESSES: usize = 8;
/// The most servers without an address that are looked up for one referral. With more, a referral would
/// cost its sender little and other servers much (`NXNSAttack`).
const MAX_NAMES: usize = 2;
/// The most lookups of server addresses that may depend on one another.
const MAX_SOUGHT: u8 = 2;
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
    /// The delegation that a referral leads to, and the addresses of servers that it gives; `None` for one
    /// not to follow. `from` is the zone whose server has sent it, `before` the delegation that led there.
    pub(super) fn follow(
        referral: &Referral,
        question: &[u8],
        from: &Name,
        before: Option<&Self>,
    ) -> Option<(Self, Vec<IpAddr>)> {
        let n_referrals = before.map_or(0, |before| before.n_referrals);
        let is_below = referral.zone.is_within(from) && referral.zone != *from;
        let leads_on =
            Name::from_wire(question).is_ok_and(|(name, _)| name.is_within(&referral.zone));
        if key::qclass(question) != Class::IN
            || !is_below
            || !leads_on
            || n_referrals >= MAX_REFERRALS
        {
            return None;
        }
        let (mut addresses, mut names) = (Vec::new(), Vec::new());
        for server in &referral.servers {
            if server.name.is_within(from) && !server.addresses.is_empty() {
                addresses.extend_from_slice(&server.addresses);
            } else if !server.name.is_within(&referral.zone) && names.len() < MAX_NAMES {
                // A server inside the zone that it serves can only be found by an address in the referral.
                names.push(&server.name);
            }
        }
        let questions = |rtype: Type| names.iter().map(move |name| ((*name).clone(), rtype));
        let delegation = Self {
            zone: referral.zone.clone(),
            n_referrals: n_referrals + 1,
            unsought: questions(Type::A).chain(questions(Type::AAAA)).collect(),
        };
        Some((delegation, addresses))
    }

    /// The next question for a server that came without an address, when `n_sought` such questions lead to
    /// this one.
    pub(super) fn next_question(&mut self, n_sought: u8) -> Option<Vec<u8>> {
        if n_sought >= MAX_SOUGHT {
            return None;
        }
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
        .filter(|to| !own.contains(*to))
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
