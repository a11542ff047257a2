//! Referrals below a forwarded zone: its servers say that others have the name (RFC 1034 §4.3.2), who
//! are asked instead, as `pdns_recursor` and unbound do below a zone that is forwarded without RD.
//!
//! A referral is followed only from servers that are authoritative, only downwards and towards the name
//! (so that each leads closer and none in a circle), and only a few times. Addresses that come
//! with it are believed when their names lie in the zone that the referring server has; others are asked for
//! as any client would. What is learnt serves this question alone: the next begins at the
//! forwarded zone's servers again.

use std::net::{IpAddr, SocketAddr};

use dns_cache::key::{self, Key, Variant};
use dns_cache::message::Referral;
use dns_cache::moment::Moment;
use dns_wire::{Class, Name, Type};

use super::flight::{Delegation, Link, Wanted};
use super::upstreams::UpstreamId;
use super::{Cause, FlightId, Output, Reason, Resolver};
use crate::exchange::Entropy;
use crate::forward::{Fitness, Mode, Policy};

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

impl<C, E: Entropy> Resolver<C, E> {
    /// Goes on with the servers of a referral; false when it is none to follow.
    pub(super) fn refer(&mut self, id: FlightId, referral: &Referral, now: Moment) -> bool {
        let Some(flight) = self.flights.get_mut(&id) else {
            return false;
        };
        let n_referrals = flight.delegation.as_ref().map_or(0, |it| it.n_referrals);
        let is_below = referral.zone.is_within(flight.zone()) && referral.zone != *flight.zone();
        let leads_on = Name::from_wire(flight.key.question())
            .is_ok_and(|(name, _)| name.is_within(&referral.zone));
        if flight.route.mode != Mode::Authoritative
            || key::qclass(flight.key.question()) != Class::IN
            || !is_below
            || !leads_on
            || n_referrals >= MAX_REFERRALS
        {
            return false;
        }
        let (mut addresses, mut names) = (Vec::new(), Vec::new());
        for server in &referral.servers {
            if server.name.is_within(flight.zone()) && !server.addresses.is_empty() {
                addresses.extend_from_slice(&server.addresses);
            } else if !server.name.is_within(&referral.zone) && names.len() < MAX_NAMES {
                // A server inside the zone that it serves could be found by its address alone.
                names.push(&server.name);
            }
        }
        let questions = |rtype: Type| names.iter().map(move |name| ((*name).clone(), rtype));
        flight.delegation = Some(Delegation {
            zone: referral.zone.clone(),
            n_referrals: n_referrals + 1,
            unsought: questions(Type::A).chain(questions(Type::AAAA)).collect(),
        });
        flight.n_sends = 0;
        flight.reason = Reason::Unanswered;
        for exchange in flight.take_exchanges() {
            self.close(exchange);
        }
        self.ask_servers(id, &addresses, now);
        true
    }

    /// Asks the servers at these addresses, or looks for others when there is none to ask.
    pub(super) fn ask_servers(&mut self, id: FlightId, addresses: &[IpAddr], now: Moment) {
        let chance = self.entropy.next();
        let Some(flight) = self.flights.get_mut(&id) else {
            return;
        };
        let mut ids: Vec<UpstreamId> = Vec::new();
        // The node may have other servers on its addresses, such as the site's dns-authd.
        let servers = addresses
            .iter()
            .filter(|address| is_host(**address))
            .map(|address| SocketAddr::new(*address, DNS_PORT))
            .filter(|to| !self.own_addresses.contains(*to));
        for to in servers.take(MAX_ADDRESSES) {
            ids.push(self.upstreams.delegate(to, &flight.route, now));
        }
        let fitness: Vec<Fitness> = ids.iter().map(|it| self.upstreams.fitness(*it)).collect();
        let order = Policy::Random.order(&fitness, 0, chance);
        let order = order.into_iter().filter_map(|at| ids.get(at).copied());
        flight.order = order.collect();
        flight.n_tried = 0;
        flight.failed.clear();
        flight.without_edns = None;
        self.advance(id, Cause::Begin, now);
        self.arm(id);
    }

    /// Looks for the next server that came without an address; false when there is none.
    pub(super) fn seek(&mut self, id: FlightId) -> bool {
        let Some(flight) = self.flights.get_mut(&id) else {
            return false;
        };
        let delegation = flight.delegation.as_mut();
        let delegation = delegation.filter(|_| flight.n_sought < MAX_SOUGHT);
        let Some((name, rtype)) = delegation.and_then(|it| it.unsought.pop_front()) else {
            return false;
        };
        let question = [
            name.as_wire(),
            &rtype.0.to_be_bytes(),
            &Class::IN.0.to_be_bytes(),
        ];
        let key = Key::new(self.seed, &question.concat(), Variant::default());
        self.wait_for(id, Wanted::Server, Box::new(key));
        true
    }

    /// Has a flight wait for the answer to another question.
    pub(super) fn wait_for(&mut self, id: FlightId, wanted: Wanted, key: Box<Key>) {
        let Some(flight) = self.flights.get_mut(&id) else {
            return;
        };
        flight.link = Some(Link {
            wanted,
            awaits: None,
        });
        flight.next_try = flight.deadline;
        for exchange in flight.take_exchanges() {
            self.close(exchange);
        }
        self.outputs.push_back(Output::LookUp { flight: id, key });
        self.arm(id);
    }
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
