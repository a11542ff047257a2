//! Referrals: a server names the servers of a delegated zone instead of answering (RFC 1034 §4.3.2, step
//! 3b).
//!
//! Only reads such a response. `dns_resolve::resolver` decides whether to believe it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use dns_wire::{Class, Name, Records, Section, Type};

use super::{Message, Record, in_section};

/// The most servers of one delegation that are read: as many as the root has.
const MAX_SERVERS: usize = 13;
/// The most addresses of one server that are read.
const MAX_ADDRESSES: usize = 4;

/// A delegation, as a server of the zone above gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Referral {
    /// The apex of the delegated zone.
    pub zone: Name,
    /// Its servers.
    pub servers: Vec<NameServer>,
    /// The least TTL of these records.
    pub ttl: u32,
}

/// A server of a delegated zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameServer {
    /// Its name.
    pub name: Name,
    /// Its addresses in the response (glue).
    pub addresses: Vec<IpAddr>,
}

impl Referral {
    /// The referral in a response with these records, if it has a delegation below `zone` and towards the
    /// question's name.
    pub(super) fn of(records: &[Record], question: &[u8], zone: &Name) -> Option<Self> {
        let (qname, _) = Name::from_wire(question).ok()?;
        let leads_on = |record: &&Record| {
            record.rtype == Type::NS
                && qname.is_within(&record.owner)
                && record.owner.is_within(zone)
                && record.owner != *zone
        };
        let mut all = in_section(records, Section::Authority).filter(leads_on);
        let first = all.next()?;
        let mut servers: Vec<NameServer> = Vec::new();
        let mut ttl = first.ttl;
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
            let located =
                glue.filter_map(|glue| Some((address(glue.rtype, &glue.rdata)?, glue.ttl)));
            let (addresses, ttls): (Vec<IpAddr>, Vec<u32>) = located.take(MAX_ADDRESSES).unzip();
            ttl = ttls.into_iter().fold(ttl.min(record.ttl), u32::min);
            servers.push(NameServer { name, addresses });
        }
        Some(Self {
            zone: first.owner.clone(),
            servers,
            ttl,
        })
    }
}

impl Message {
    /// The addresses in its answer section: those of a server whose name was the question.
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
