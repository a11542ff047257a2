//! Referrals below a forwarded zone: its servers say that others have the name (RFC 1034 §4.3.2), who
//! are asked instead, as `pdns_recursor` and unbound do below a zone that is forwarded without RD.
//!
//! A referral is followed only from servers that are authoritative, only downwards and towards the name
//! (so that each leads closer and none in a circle), and only a few times. Addresses that come
//! with it are believed when their names lie in the zone that the referring server has; others are asked for
//! as any client would. What is learnt serves this question alone: the next begins at the
//! forwarded zone's servers again.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use dns_cache::key;
use dns_cache::message::Referral;
use dns_wire::{Class, Name, Type};

use crate::own_addresses::OwnAddresses;

/// Referrals that one question follows, one after the other: more cuts no name of a site has.
const MAX_REFERRALS: u8 = 6;
/// Addresses of a delegation that are asked.
const MAX_ADDRESSES: usize = 8;
/// Servers without an address that are looked for: with more, one referral would cost its sender little
/// and everybody else a lot (`NXNSAttack`).
const MAX_NAMES: usize = 2;
/// Questions after servers that lead to each other: where is the server that knows where the server is.
const MAX_SOUGHT: u8 = 2;
/// Where servers that a referral names are asked.
const DNS_PORT: u16 = 53;

/// A zone that a referral has led to.
pub(super) struct Delegation {
    pub(super) zone: Name,
    /// Referrals that have led here, one after the other.
    n_referrals: u8,
    /// Servers that came without an address: what may be asked to find them.
    unsought: VecDeque<(Name, Type)>,
}

impl Delegation {
    /// Where a referral leads, and the addresses of servers that it gives; `None` when it is not to be
    /// followed. `from` is the zone whose server has sent it, `before` the delegation that led there.
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
                // A server inside the zone that it serves could be found by its address alone.
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

    /// The next question after a server that came without an address, when `n_sought` questions after
    /// servers lead to this one.
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

/// Where the servers at these addresses are asked. The node may have other servers on its addresses, such as
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

/// Whether an address can be that of a server. Whoever hands out referrals is not to have this server
/// talk to what the node keeps to itself, or to everybody.
fn is_host(address: IpAddr) -> bool {
    let address = address.to_canonical();
    let is_broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
    // An address of one link means nothing without the link.
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
