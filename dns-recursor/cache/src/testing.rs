//! Builders of messages, and random numbers from a seed, for tests.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::should_implement_trait,
    reason = "only tests call this"
)]

use dns_wire::{Class, Composer, Flags, Name, Owner, Rcode, Section, Type, header};

use crate::message::{Answer, Bailiwick, Reader, TtlLimits};

/// A question in wire form.
pub fn question(name: &str, qtype: Type) -> Vec<u8> {
    let name = Name::parse(name).unwrap();
    [
        name.as_wire(),
        &qtype.0.to_be_bytes(),
        &Class::IN.0.to_be_bytes(),
    ]
    .concat()
}

/// A record: section, owner, type, TTL, RDATA in text.
pub type Row<'a> = (Section, &'a str, Type, u32, &'a str);

/// A query with id, RD and, when asked for, OPT.
pub fn query(id: u16, question: &[u8], edns: Option<bool>) -> Vec<u8> {
    let mut buffer = vec![0; 600];
    let mut composer = Composer::new(&mut buffer, 600, id, Flags(Flags::RD)).unwrap();
    composer.question(question).unwrap();
    if let Some(dnssec_ok) = edns {
        composer.opt(1232, Rcode::NOERROR, dnssec_ok, &[]).unwrap();
    }
    let length = composer.finish();
    buffer.truncate(length);
    buffer
}

/// A response to a query: its id and question, these flags, these records.
pub fn response(query: &[u8], flags: u16, rcode: Rcode, rows: &[Row<'_>]) -> Vec<u8> {
    let parsed = dns_wire::Query::parse(query).unwrap();
    let flags = Flags(flags)
        .with(parsed.flags.of_response().0)
        .with_rcode(rcode);
    let mut buffer = vec![0; 65_535];
    let mut composer = Composer::new(&mut buffer, 65_535, parsed.id, flags).unwrap();
    composer.question(parsed.question).unwrap();
    for (section, owner, rtype, ttl, text) in rows {
        let owner = Name::parse(owner).unwrap();
        let rdata = rdata(*rtype, text);
        composer
            .record(
                *section,
                Owner::Name(&owner),
                (*rtype, Class::IN, *ttl),
                &rdata,
            )
            .unwrap();
    }
    if parsed.edns.is_some() {
        composer.opt(1232, rcode, parsed.dnssec_ok(), &[]).unwrap();
    }
    let length = composer.finish();
    buffer.truncate(length);
    buffer
}

/// RDATA of the few types that the tests need.
fn rdata(rtype: Type, text: &str) -> Vec<u8> {
    match rtype {
        Type::A => text
            .parse::<std::net::Ipv4Addr>()
            .unwrap()
            .octets()
            .to_vec(),
        Type::AAAA => text
            .parse::<std::net::Ipv6Addr>()
            .unwrap()
            .octets()
            .to_vec(),
        Type::TXT => text
            .as_bytes()
            .chunks(255)
            .flat_map(|part| [&[u8::try_from(part.len()).unwrap()], part].concat())
            .collect(),
        // The text is MINIMUM; names and timers do not matter.
        Type::SOA => {
            let minimum: u32 = text.parse().unwrap();
            let mut rdata = vec![0, 0];
            for value in [1, 2, 3, 4, minimum] {
                rdata.extend_from_slice(&value.to_be_bytes());
            }
            rdata
        }
        _ => Name::parse(text).unwrap().as_wire().to_vec(),
    }
}

/// Servers that may speak for every name.
#[derive(Clone, Copy, Debug)]
pub struct Everything;

impl Bailiwick for Everything {
    fn owns(&self, _: &Name, _: Type) -> bool {
        true
    }
}

/// Servers that may speak for a zone.
#[derive(Clone, Debug)]
pub struct Below(pub Name);

impl Below {
    pub fn new(zone: &str) -> Self {
        Self(Name::parse(zone).unwrap())
    }
}

impl Bailiwick for Below {
    fn owns(&self, name: &Name, _: Type) -> bool {
        name.is_within(&self.0)
    }
}

/// What [`Reader`] reads from a response with these records.
pub fn answer(name: &str, qtype: Type, rcode: Rcode, rows: &[Row<'_>]) -> Answer {
    let question = question(&name.to_ascii_lowercase(), qtype);
    let response = response(&query(0, &question, None), 0, rcode, rows);
    let reader = Reader {
        question: &question,
        limits: TtlLimits::default(),
        trust_ad: false,
        dnssec_ok: false,
        zone: &Name::root(),
        bailiwick: &Everything,
    };
    reader.read(&response, &mut vec![0; 65_535]).unwrap()
}

/// The addresses of A records in a message's answer section.
pub fn addresses(message: &[u8]) -> Vec<String> {
    dns_wire::Records::new(message)
        .unwrap()
        .map(Result::unwrap)
        .filter(|r| r.section == Section::Answer && r.rtype == Type::A)
        .map(|r| {
            let octets: [u8; 4] = message[r.rdata].try_into().unwrap();
            std::net::Ipv4Addr::from(octets).to_string()
        })
        .collect()
}

/// The response code of a message.
pub fn rcode(message: &[u8]) -> Rcode {
    Flags::read(message).unwrap().rcode()
}

/// The number of entries in a message's sections.
pub fn counts(message: &[u8]) -> [u16; 4] {
    header::counts(message).unwrap()
}

/// Randomness from a seed (splitmix64).
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// True in `percent` of all cases.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}
