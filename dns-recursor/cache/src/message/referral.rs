//! Referrals: a server says that others have the name, instead of answering (RFC 1034 §4.3.2, step 3b).
//!
//! Reads what such a response says. Whether to believe it is for [`dns_resolve::resolver`] to decide.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use dns_wire::{Class, Name, Records, Section, Type};

use super::{Message, Record, in_section};

/// Servers of one delegation that are taken note of: as many as the root has.
const MAX_SERVERS: usize = 13;
/// Addresses of one server that are taken note of.
const MAX_ADDRESSES: usize = 4;

/// A delegation, as a server of the zone above tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Referral {
    /// The apex of the zone that others have.
    pub zone: Name,
    /// Its servers.
    pub servers: Vec<NameServer>,
}

/// A server of a delegated zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameServer {
    /// Its name.
    pub name: Name,
    /// Its addresses, as far as the response has them (glue).
    pub addresses: Vec<IpAddr>,
}

impl Referral {
    /// What a response with these records refers to, if it has a delegation.
    pub(super) fn of(records: &[Record]) -> Option<Self> {
        let authority = || in_section(records, Section::Authority);
        let mut all = authority().filter(|record| record.rtype == Type::NS);
        let first = all.next()?;
        let mut servers: Vec<NameServer> = Vec::new();
        for record in [first].into_iter().chain(all) {
            let Ok((name, _)) = Name::from_wire(&record.rdata) else {
                continue;
            };
            let is_known = servers.iter().any(|server| server.name == name);
            if record.owner != first.owner || is_known || servers.len() >= MAX_SERVERS {
                continue;
            }
            let glue = in_section(records, Section::Additional)
                .filter(|glue| glue.owner == name && glue.class == Class::IN);
            let addresses = glue.filter_map(|glue| address(glue.rtype, &glue.rdata));
            servers.push(NameServer {
                addresses: addresses.take(MAX_ADDRESSES).collect(),
                name,
            });
        }
        Some(Self {
            zone: first.owner.clone(),
            servers,
        })
    }
}

impl Message {
    /// The addresses among its answers: where a server is whose name was asked for.
    #[must_use]
    pub fn addresses(&self) -> Vec<IpAddr> {
        let Ok(records) = Records::new(self.bytes()) else {
            return Vec::new();
        };
        let answers = records
            .map_while(Result::ok)
            .filter(|record| record.section == Section::Answer && record.class == Class::IN);
        let found = answers.filter_map(|record| {
            let rdata = self.bytes().get(record.rdata)?;
            address(record.rtype, rdata)
        });
        found.take(MAX_ADDRESSES).collect()
    }
}

fn address(rtype: Type, rdata: &[u8]) -> Option<IpAddr> {
    match rtype {
        Type::A => {
            let octets: [u8; 4] = rdata.try_into().ok()?;
            Some(Ipv4Addr::from(octets).into())
        }
        Type::AAAA => {
            let octets: [u8; 16] = rdata.try_into().ok()?;
            Some(Ipv6Addr::from(octets).into())
        }
        _ => None,
    }
}
