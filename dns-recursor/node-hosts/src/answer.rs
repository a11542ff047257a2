//! Questions for the addresses of a service, and what a response says about them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use dns_wire::{Flags, Name, Rcode, RecordRef, Records, Response, Section, Type};

/// The most addresses of one family of a service; the rest is left out, and the file stays small.
pub const MAX_ADDRESSES: usize = 16;

/// A family of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4: A records.
    V4,
    /// IPv6: AAAA records.
    V6,
}

impl Family {
    /// Both, in the order of their lines.
    pub const ALL: [Self; 2] = [Self::V4, Self::V6];

    /// The type of its records.
    #[must_use]
    pub const fn rtype(self) -> Type {
        match self {
            Self::V4 => Type::A,
            Self::V6 => Type::AAAA,
        }
    }

    /// Whether an address is of it.
    #[must_use]
    pub const fn has(self, address: IpAddr) -> bool {
        matches!(
            (self, address),
            (Self::V4, IpAddr::V4(_)) | (Self::V6, IpAddr::V6(_))
        )
    }
}

/// Addresses that a hosts file may have although they are no address of another machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Allow {
    /// None of them.
    #[default]
    Nothing,
    /// Loopback: a service that the node itself answers.
    Loopback,
}

/// The outcome of a lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The addresses of the service, sorted, each once; never none.
    Addresses {
        /// The addresses.
        addresses: Vec<IpAddr>,
        /// How long they are good: the smallest TTL of the records.
        ttl: Duration,
    },
    /// The name is there and has no address of this family.
    Empty,
    /// The name does not exist, and a server of its zone says so.
    Denied,
    /// Nothing that counts: the last good addresses stay.
    Failed(Failure),
}

/// Why a lookup failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No response in time.
    Silent,
    /// The server cannot be reached.
    Unreachable,
    /// A response with an error, such as SERVFAIL.
    Rcode(Rcode),
    /// Neither addresses nor a denial: a referral, or a denial without the zone's SOA record.
    Lame,
    /// The response breaks the format.
    Damaged,
    /// All addresses are of a kind that no service has.
    Forbidden,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Silent => formatter.write_str("no response in time"),
            Self::Unreachable => formatter.write_str("the server cannot be reached"),
            Self::Rcode(rcode) => write!(formatter, "the server answers {rcode}"),
            Self::Lame => formatter.write_str("the response has neither addresses nor a denial"),
            Self::Damaged => formatter.write_str("the response is damaged"),
            Self::Forbidden => formatter.write_str("the addresses are of no service"),
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

/// A question.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The identifier of its message.
    pub id: u16,
    /// The name.
    pub name: &'a Name,
    /// The family.
    pub family: Family,
}

impl Question<'_> {
    fn asked(&self) -> dns_wire::Question<'_> {
        dns_wire::Question {
            id: self.id,
            name: self.name,
            rtype: self.family.rtype(),
        }
    }

    /// The query.
    #[must_use]
    pub fn query(&self) -> Vec<u8> {
        self.asked().query()
    }

    /// Judges a message from the server.
    #[must_use]
    pub fn judge(&self, message: &[u8], allow: Allow) -> Judged {
        Judged::Answer(match self.asked().response(message) {
            Response::Foreign => return Judged::Foreign,
            Response::Truncated => return Judged::Truncated,
            Response::Failed(rcode) => Outcome::Failed(Failure::Rcode(rcode)),
            Response::Answered(flags) => self.outcome(message, flags, allow),
        })
    }

    fn outcome(&self, message: &[u8], flags: Flags, allow: Allow) -> Outcome {
        let records = Records::new(message).map(Iterator::collect::<Result<Vec<_>, _>>);
        let Ok(Ok(records)) = records else {
            return Outcome::Failed(Failure::Damaged);
        };
        let Some((target, ttl)) = self.asked().end_of_aliases(message, &records) else {
            return Outcome::Failed(Failure::Damaged);
        };
        let rtype = self.family.rtype();
        let found = records
            .iter()
            .filter(|record| record.answers(message, &target, rtype));
        let mut ttl = ttl;
        let mut addresses = Vec::new();
        let mut n_found = 0_usize;
        for record in found {
            let Some(address) = address(message, record) else {
                return Outcome::Failed(Failure::Damaged);
            };
            n_found += 1;
            ttl = ttl.min(record.ttl);
            if is_usable(address, allow) {
                addresses.push(address);
            }
        }
        addresses.sort_unstable();
        addresses.dedup();
        addresses.truncate(MAX_ADDRESSES);
        if !addresses.is_empty() {
            let ttl = Duration::from_secs(ttl.into());
            return Outcome::Addresses { addresses, ttl };
        }
        if n_found > 0 {
            return Outcome::Failed(Failure::Forbidden);
        }
        let is_said = flags.has(Flags::AA) || has_soa(message, &records, &target);
        match (is_said, flags.rcode()) {
            (false, _) => Outcome::Failed(Failure::Lame),
            (true, Rcode::NXDOMAIN) => Outcome::Denied,
            (true, _) => Outcome::Empty,
        }
    }
}

/// Whether a zone above a name denies something of it (RFC 2308 §2).
fn has_soa(message: &[u8], records: &[RecordRef], name: &Name) -> bool {
    records.iter().any(|record| {
        record.section == Section::Authority
            && record.rtype == Type::SOA
            && Name::read(message, record.name_offset).is_ok_and(|(apex, _)| name.is_within(&apex))
    })
}

fn address(message: &[u8], record: &RecordRef) -> Option<IpAddr> {
    let data = message.get(record.rdata.clone())?;
    match record.rtype {
        Type::A => Some(Ipv4Addr::from(<[u8; 4]>::try_from(data).ok()?).into()),
        _ => Some(Ipv6Addr::from(<[u8; 16]>::try_from(data).ok()?).into()),
    }
}

/// Whether a service may have an address: one that leads elsewhere, and to one place.
#[must_use]
pub fn is_usable(address: IpAddr, allow: Allow) -> bool {
    let address = address.to_canonical();
    if address.is_loopback() {
        return allow == Allow::Loopback;
    }
    let is_local = match address {
        IpAddr::V4(address) => address.is_broadcast(),
        // Without its zone, no program can connect to it.
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    !(address.is_unspecified() || address.is_multicast() || is_local)
}

#[cfg(test)]
mod tests;
