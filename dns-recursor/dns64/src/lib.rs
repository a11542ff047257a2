//! DNS64: AAAA records from A records, for clients that reach IPv4 through a NAT64 (RFC 6147).
//!
//! ```text
//! AAAA question ─► answer without an AAAA record that counts ─► A question ─► AAAA records with a prefix
//! PTR question below the prefix ─► alias of the reverse name of the IPv4 address
//! ipv4only.arpa ─► the two well-known addresses, by which clients find the prefix (RFC 7050, RFC 8880)
//! ```
//!
//! Knows no client, no cache and no upstream: [`Dns64::wants_addresses`] says whether an answer is to be replaced, and
//! [`Dns64::synthesize`] makes the one in its place.

mod prefix;
mod well_known;

use std::net::{Ipv4Addr, Ipv6Addr};

use cidrs::Cidrs;
use dns_cache::message::{Message, Row};
use dns_wire::{Flags, Name, Rcode, Records, Section, Type, records::uncompressed_rdata};
use ipnet::Ipv6Net;

pub use prefix::{LENGTHS, Prefix, PrefixError};

/// The longest TTL of a synthesized record whose AAAA question had no SOA record in its denial, in seconds (RFC 6147 §5.1.7).
const MAX_TTL: u32 = 600;
/// The TTL of aliases in the reverse zone, in seconds.
const ALIAS_TTL: u32 = 600;
/// The labels of a whole reverse name of IPv6: 32 digits, `ip6`, `arpa`.
const REVERSE_LABELS: usize = 34;

/// The rules of synthesis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dns64 {
    /// A record is made with each of these.
    pub prefixes: Vec<Prefix>,
    /// The clients that get synthesized records; `None` for all.
    pub clients: Option<Cidrs>,
    /// AAAA records that count as if they were not there (RFC 6147 §5.1.4).
    pub exclude: Vec<Ipv6Net>,
    /// The IPv4 addresses that are mapped; `None` for all, with the well-known prefix those that are public (RFC 6052 §3.1).
    pub mapped: Option<Cidrs>,
    /// Whether signed answers are replaced for clients that ask for signatures.
    pub break_dnssec: bool,
}

impl Dns64 {
    /// Whether an answer to an AAAA question is to be replaced when there are A records: it has no record that counts, and
    /// the name exists (RFC 6147 §5.1.2). `dnssec_ok` is whether the client asks for signatures: it may validate, and would
    /// reject a replaced answer whose denial is signed (§5.5).
    #[must_use]
    pub fn wants_addresses(&self, answer: &Message, dnssec_ok: bool) -> bool {
        answer.rcode() == Rcode::NOERROR
            && !self.is_protected(answer, dnssec_ok)
            && !addresses(answer).any(|address| !self.excludes(address))
    }

    /// Whether an answer has AAAA records that do not count beside some that do.
    #[must_use]
    pub fn is_mixed(&self, answer: &Message) -> bool {
        let (mut has_excluded, mut has_other) = (false, false);
        for address in addresses(answer) {
            match self.excludes(address) {
                true => has_excluded = true,
                false => has_other = true,
            }
        }
        has_excluded && has_other
    }

    /// An answer without the AAAA records that do not count (RFC 6147 §5.1.4).
    #[must_use]
    pub fn without_excluded(&self, answer: &Message) -> Option<Message> {
        if !addresses(answer).any(|address| self.excludes(address)) {
            return Some(answer.clone());
        }
        let message = compose(answer.question(), answer, |owner, record| {
            let excluded = record.address6().is_some_and(|it| self.excludes(it));
            match excluded || record.rtype == Type::RRSIG {
                true => Vec::new(),
                false => vec![record.row(owner)],
            }
        })?;
        Some(message.with_ad(answer.flags().has(Flags::AD)))
    }

    /// The answer to an AAAA question from the one to the A question of the same name. `denial` is the answer that it replaces,
    /// if there is one. `None` when there is nothing to make it of.
    #[must_use]
    pub fn synthesize(
        &self,
        question: &[u8],
        denial: Option<&Message>,
        answer: &Message,
        dnssec_ok: bool,
    ) -> Option<Message> {
        if answer.rcode() != Rcode::NOERROR || self.is_protected(answer, dnssec_ok) {
            return None;
        }
        // RFC 6147 §5.1.7.
        let longest = denial.and_then(soa_ttl).unwrap_or(MAX_TTL);
        let mut is_made = false;
        let message = compose(question, answer, |owner, record| match record.rtype {
            Type::CNAME | Type::DNAME => vec![record.row(owner)],
            Type::A => {
                let address = record.address4().into_iter();
                let made = address.flat_map(|address| self.map(address));
                let rows = made.map(|address| OwnedRow {
                    owner: owner.clone(),
                    rtype: Type::AAAA,
                    ttl: record.ttl.min(longest),
                    rdata: address.octets().to_vec(),
                });
                let rows: Vec<OwnedRow> = rows.collect();
                is_made |= !rows.is_empty();
                rows
            }
            _ => Vec::new(),
        })?;
        let is_secure = |message: &Message| message.flags().has(Flags::AD);
        is_made.then(|| message.with_ad(denial.is_some_and(is_secure) && is_secure(answer)))
    }

    /// The addresses that stand for an IPv4 address.
    fn map(&self, address: Ipv4Addr) -> impl Iterator<Item = Ipv6Addr> {
        let prefixes = self
            .prefixes
            .iter()
            .filter(move |prefix| match &self.mapped {
                Some(mapped) => mapped.contains(address.into()),
                None => **prefix != Prefix::WELL_KNOWN || well_known::is_public(address),
            });
        prefixes.map(move |prefix| prefix.embed(address))
    }

    /// The name that a name of the reverse zone is an alias of: that of the IPv4 address in it (RFC 6147 §5.3.1).
    #[must_use]
    pub fn reverse(&self, name: &Name) -> Option<Name> {
        let address = reverse_address(name)?;
        let mut prefixes = self.prefixes.iter();
        let embedded = prefixes.find_map(|prefix| prefix.extract(address))?;
        let [a, b, c, d] = embedded.octets();
        Name::parse(&format!("{d}.{c}.{b}.{a}.in-addr.arpa.")).ok()
    }

    /// The alias that answers a question in the reverse zone, and its target.
    #[must_use]
    pub fn alias(&self, question: &[u8]) -> Option<(Message, Name)> {
        let (name, _) = Name::from_wire(question).ok()?;
        let target = self.reverse(&name)?;
        let row = Row {
            section: Section::Answer,
            owner: &name,
            rtype: Type::CNAME,
            ttl: ALIAS_TTL,
            rdata: target.as_wire(),
        };
        let first = Message::compose(question, Rcode::NOERROR, &[row])?;
        Some((first, target))
    }

    fn excludes(&self, address: Ipv6Addr) -> bool {
        self.exclude
            .iter()
            .any(|network| network.contains(&address))
    }

    /// Whether a client that asks for signatures gets an answer as it is. A client that does not validate would take the
    /// replaced one, but the two look alike.
    fn is_protected(&self, answer: &Message, dnssec_ok: bool) -> bool {
        dnssec_ok && !self.break_dnssec && answer.has(Type::RRSIG)
    }
}

//--- Records

/// The addresses of the AAAA records in the answer section.
fn addresses(message: &Message) -> impl Iterator<Item = Ipv6Addr> {
    let records = Records::new(message.bytes()).into_iter().flatten();
    let records = records.map_while(Result::ok);
    records.filter_map(|record| {
        let is_address = record.section == Section::Answer && record.rtype == Type::AAAA;
        let octets = message.bytes().get(record.rdata).filter(|_| is_address)?;
        Some(Ipv6Addr::from(*octets.first_chunk::<16>()?))
    })
}

/// The TTL of the SOA record of a denial; it is at most the MINIMUM field, by which denials are kept (RFC 2308 §5).
fn soa_ttl(denial: &Message) -> Option<u32> {
    let mut records = Records::new(denial.bytes()).ok()?.map_while(Result::ok);
    let soa = records.find(|it| it.section == Section::Authority && it.rtype == Type::SOA)?;
    Some(soa.ttl)
}

/// The address of a whole name of the reverse zone (RFC 3596 §2.5).
fn reverse_address(name: &Name) -> Option<Ipv6Addr> {
    if name.n_labels() != REVERSE_LABELS {
        return None;
    }
    let mut bits = 0_u128;
    let mut labels = name.labels();
    for place in 0..32 {
        let [digit] = labels.next()? else {
            return None;
        };
        let digit = char::from(*digit).to_digit(16)?;
        bits |= u128::from(digit) << (4 * place);
    }
    let rest = (labels.next()?, labels.next()?);
    let is_reverse = rest.0.eq_ignore_ascii_case(b"ip6") && rest.1.eq_ignore_ascii_case(b"arpa");
    is_reverse.then(|| bits.into())
}

/// A record of an answer that is taken apart.
struct Taken {
    rtype: Type,
    ttl: u32,
    rdata: Vec<u8>,
}

impl Taken {
    fn address4(&self) -> Option<Ipv4Addr> {
        let octets: [u8; 4] = self.rdata.as_slice().try_into().ok()?;
        (self.rtype == Type::A).then(|| octets.into())
    }

    fn address6(&self) -> Option<Ipv6Addr> {
        let octets: [u8; 16] = self.rdata.as_slice().try_into().ok()?;
        (self.rtype == Type::AAAA).then(|| octets.into())
    }

    fn row(&self, owner: &Name) -> OwnedRow {
        OwnedRow {
            owner: owner.clone(),
            rtype: self.rtype,
            ttl: self.ttl,
            rdata: self.rdata.clone(),
        }
    }
}

/// A record of an answer that is made.
struct OwnedRow {
    owner: Name,
    rtype: Type,
    ttl: u32,
    rdata: Vec<u8>,
}

/// Composes an answer to `question` of the rows that `make` returns for each record of another's answer section.
fn compose(
    question: &[u8],
    answer: &Message,
    mut make: impl FnMut(&Name, &Taken) -> Vec<OwnedRow>,
) -> Option<Message> {
    let bytes = answer.bytes();
    let mut made = Vec::new();
    for record in Records::new(bytes).ok()? {
        let record = record.ok()?;
        if record.section != Section::Answer {
            continue;
        }
        let (owner, _) = Name::read(bytes, record.name_offset).ok()?;
        let taken = Taken {
            rtype: record.rtype,
            ttl: record.ttl,
            rdata: uncompressed_rdata(bytes, &record).ok()?,
        };
        made.extend(make(&owner, &taken));
    }
    let rows: Vec<Row<'_>> = made
        .iter()
        .map(|row| Row {
            section: Section::Answer,
            owner: &row.owner,
            rtype: row.rtype,
            ttl: row.ttl,
            rdata: &row.rdata,
        })
        .collect();
    Message::compose(question, Rcode::NOERROR, &rows)
}

#[cfg(test)]
mod tests;
