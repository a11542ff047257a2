//! Questions for the records of a name, and what a response says about them.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use dns_wire::{Flags, Name, Rcode, RecordRef, Records, Response, Section, Type, header};

/// The most records of one name that are kept; the rest is left out.
pub const MAX_RECORDS: usize = 128;

/// The records that a question is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// IPv4 addresses: A records.
    V4,
    /// IPv6 addresses: AAAA records.
    V6,
    /// Places of a service: SRV records (RFC 2782).
    Service,
}

impl Kind {
    /// The type of its records.
    #[must_use]
    pub const fn rtype(self) -> Type {
        match self {
            Self::V4 => Type::A,
            Self::V6 => Type::AAAA,
            Self::Service => Type::SRV,
        }
    }
}

/// A question.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Question {
    /// The name.
    pub name: Name,
    /// The records.
    pub kind: Kind,
}

impl fmt::Display for Question {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.name, self.kind.rtype())
    }
}

/// The data of a record.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Record {
    /// An address.
    Address(IpAddr),
    /// A place of a service.
    Place(Place),
}

/// A place of a service (RFC 2782).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The priority; lower ones come first.
    pub priority: u16,
    /// The weight among places of this priority.
    pub weight: u16,
    /// The port.
    pub port: u16,
    /// The host.
    pub target: Name,
}

/// The outcome of a lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The records, at least one.
    Found {
        /// The records.
        records: BTreeSet<Record>,
        /// How long they are good: the smallest TTL of the records.
        ttl: Duration,
    },
    /// There are none.
    Denied {
        /// Whether the name is there with other records.
        exists: bool,
        /// How long this is so: the smaller of the TTL of the zone's SOA record and its last field (RFC 2308 §5); none
        /// without one.
        ttl: Option<Duration>,
    },
    /// Nothing that counts.
    Failed(Failure),
}

/// Why a lookup failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No response in time.
    Silent,
    /// The resolver cannot be reached.
    Unreachable,
    /// A response with an error, such as SERVFAIL.
    Rcode(Rcode),
    /// The response breaks the format, or has addresses that no server has.
    Damaged,
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Silent => formatter.write_str("no response in time"),
            Self::Unreachable => formatter.write_str("the resolver cannot be reached"),
            Self::Rcode(rcode) => write!(formatter, "the resolver answers {rcode}"),
            Self::Damaged => formatter.write_str("the response is damaged"),
        }
    }
}

/// A message that came in for a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judged {
    /// It answers the question.
    Answer(Outcome),
    /// It was cut: the question has to go over TCP.
    Truncated,
    /// It is not the response to this question: wait on.
    Foreign,
}

impl Question {
    fn asked(&self, id: u16) -> dns_wire::Question<'_> {
        dns_wire::Question {
            id,
            name: &self.name,
            rtype: self.kind.rtype(),
        }
    }

    /// The query with an identifier.
    #[must_use]
    pub fn query(&self, id: u16) -> Vec<u8> {
        self.asked(id).query()
    }

    /// Judges a message that came in for the query with this identifier.
    #[must_use]
    pub fn judge(&self, id: u16, message: &[u8]) -> Judged {
        let asked = self.asked(id);
        Judged::Answer(match asked.response(message) {
            Response::Foreign => return Judged::Foreign,
            Response::Truncated => return Judged::Truncated,
            Response::Failed(rcode) => Outcome::Failed(Failure::Rcode(rcode)),
            Response::Answered(flags) => {
                let found = self.outcome(&asked, message, flags);
                found.unwrap_or(Outcome::Failed(Failure::Damaged))
            }
        })
    }

    /// Reads a response without an error; none when it is damaged.
    fn outcome(
        &self,
        asked: &dns_wire::Question<'_>,
        message: &[u8],
        flags: Flags,
    ) -> Option<Outcome> {
        let all = Records::new(message).ok()?;
        let all: Vec<RecordRef> = all.collect::<Result<_, _>>().ok()?;
        let (target, mut ttl) = asked.end_of_aliases(message, &all)?;
        let of_target = all
            .iter()
            .filter(|record| record.answers(message, &target, asked.rtype));
        let mut records = BTreeSet::new();
        let mut is_there = false;
        for record in of_target {
            is_there = true;
            ttl = ttl.min(record.ttl);
            let data = read(message, record)?;
            if data.is_usable() {
                records.insert(data);
            }
        }
        while records.len() > MAX_RECORDS {
            // Places of the best priorities stay.
            records.pop_last();
        }
        if !records.is_empty() {
            let ttl = Duration::from_secs(ttl.into());
            return Some(Outcome::Found { records, ttl });
        }
        // The root as the only target: the service is not offered (RFC 2782).
        let is_withdrawn = is_there && self.kind == Kind::Service;
        if is_there && !is_withdrawn {
            return None;
        }
        Some(Outcome::Denied {
            exists: is_withdrawn || flags.rcode() == Rcode::NOERROR,
            ttl: negative_ttl(message, &all),
        })
    }
}

impl Record {
    /// Whether a server may have it: an address that leads to one host, a port, a host with a name.
    fn is_usable(&self) -> bool {
        match self {
            Self::Address(address) => {
                let address = address.to_canonical();
                let is_broadcast = address == IpAddr::V4(Ipv4Addr::BROADCAST);
                !address.is_unspecified() && !address.is_multicast() && !is_broadcast
            }
            Self::Place(place) => place.port != 0 && !place.target.is_root(),
        }
    }
}

fn read(message: &[u8], record: &RecordRef) -> Option<Record> {
    let data = message.get(record.rdata.clone())?;
    Some(match record.rtype {
        Type::A => Record::Address(Ipv4Addr::from(<[u8; 4]>::try_from(data).ok()?).into()),
        Type::AAAA => Record::Address(Ipv6Addr::from(<[u8; 16]>::try_from(data).ok()?).into()),
        _ => {
            let word = |offset| header::word(data, offset);
            let within = message.get(..record.rdata.end)?;
            Record::Place(Place {
                priority: word(0)?,
                weight: word(2)?,
                port: word(4)?,
                target: Name::read(within, record.rdata.start + 6).ok()?.0,
            })
        }
    })
}

/// How long a denial holds, as the SOA record of the zone says.
fn negative_ttl(message: &[u8], records: &[RecordRef]) -> Option<Duration> {
    let soa = records
        .iter()
        .find(|record| record.section == Section::Authority && record.rtype == Type::SOA)?;
    let minimum = message.get(..soa.rdata.end)?.last_chunk::<4>()?;
    let seconds = soa.ttl.min(u32::from_be_bytes(*minimum));
    Some(Duration::from_secs(seconds.into()))
}

#[cfg(test)]
mod tests;
