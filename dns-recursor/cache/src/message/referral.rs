//! Referrals: a server names the servers of a delegated zone instead of answering (RFC 1034 §4.3.2, step
//! 3b).
//!
//! Only reads such a response. `dns_resolve::resolver` decides whether to believe it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use dns_wire::{Class, Name, Rcode, Records, Section, Type};

use super::{Message, Record, Row, in_section};
use crate::key;

/// The most servers of one delegation that are read: as many as the root has.
const MAX_SERVERS: usize = 13;
/// The most addresses of one server that are read.
const MAX_ADDRESSES: usize = 4;
/// The most records about signatures that are read: a denial by NSEC3 has three, each with a signature or two.
const MAX_SIGNED: usize = 24;
/// The longest message of such records that is kept: whatever is longer can be asked for.
const MAX_SIGNED_OCTETS: usize = 4096;

/// A delegation, as a server of the zone above gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Referral {
    /// The apex of the delegated zone.
    pub zone: Name,
    /// Its servers.
    pub servers: Vec<NameServer>,
    /// The least TTL of these records.
    pub ttl: u32,
    /// The answer to the question for the zone's DS records, as far as the referral has it: these records, or the signed
    /// proof that there are none (RFC 4035 §3.1.4). It is not validated.
    pub ds: Option<Arc<Message>>,
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
            ds: signed(records, question, &first.owner, zone).map(Arc::new),
        })
    }
}

/// The answer to the question for the DS records of `child` in the authority section of a referral by servers of `zone`.
fn signed(records: &[Record], question: &[u8], child: &Name, zone: &Name) -> Option<Message> {
    if key::qclass(question) != Class::IN {
        return None;
    }
    let authority = || in_section(records, Section::Authority);
    let kind = |record: &Record| record.covered().unwrap_or(record.rtype);
    let is_ds = |record: &&Record| kind(record) == Type::DS && record.owner == *child;
    let is_proof = |record: &&Record| {
        matches!(kind(record), Type::NSEC | Type::NSEC3) && record.owner.is_within(zone)
    };
    let (section, found): (Section, Vec<&Record>) = match authority().any(|it| is_ds(&it)) {
        true => (Section::Answer, authority().filter(is_ds).collect()),
        false => (Section::Authority, authority().filter(is_proof).collect()),
    };
    // Without signatures it says nothing.
    if found.len() > MAX_SIGNED || !found.iter().any(|record| record.rtype == Type::RRSIG) {
        return None;
    }
    let rows: Vec<Row<'_>> = found
        .iter()
        .map(|record| Row {
            section,
            owner: &record.owner,
            rtype: record.rtype,
            ttl: record.ttl,
            rdata: &record.rdata,
        })
        .collect();
    let octets: usize = rows.iter().map(|row| row.rdata.len()).sum();
    if octets > MAX_SIGNED_OCTETS {
        return None;
    }
    let child = child.to_lowercase();
    let asked = [
        child.as_wire(),
        &Type::DS.0.to_be_bytes(),
        &Class::IN.0.to_be_bytes(),
    ];
    Message::compose(&asked.concat(), Rcode::NOERROR, &rows)
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
