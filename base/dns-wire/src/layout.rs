//! The places of domain names inside RDATA.
//!
//! A server that copies RDATA needs to know its names for two reasons: to compress them where
//! that is allowed (RFC 3597 §4: the types of RFC 1035 only), and to decompress what it received
//! from another server (RFC 3597 §4 names a few more that must be accepted compressed).

use crate::rtype::Type;

/// One piece of RDATA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// This many octets of anything.
    Octets(usize),
    /// A domain name.
    Name,
    /// A length octet and as many octets.
    CharacterString,
    /// All that is left.
    Rest,
}

/// The pieces of one type's RDATA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The fields in order; data after the last is [`Field::Rest`].
    pub fields: &'static [Field],
    /// Whether a sender may compress the names (RFC 3597 §4).
    pub compressible: bool,
}

impl Layout {
    /// The layout of a type; for types without names one that has no fields.
    #[must_use]
    pub const fn of(rtype: Type) -> Self {
        use Field::{CharacterString as Text, Name, Octets, Rest};
        let (fields, compressible): (&'static [Field], bool) = match rtype {
            Type::NS
            | Type::MD
            | Type::MF
            | Type::CNAME
            | Type::MB
            | Type::MG
            | Type::MR
            | Type::PTR => (&[Name], true),
            Type::SOA => (&[Name, Name, Octets(20)], true),
            Type::MINFO => (&[Name, Name], true),
            Type::MX => (&[Octets(2), Name], true),
            Type::DNAME => (&[Name], false),
            Type::RP | Type::TALINK => (&[Name, Name], false),
            Type::AFSDB | Type::RT | Type::KX | Type::LP => (&[Octets(2), Name], false),
            Type::PX => (&[Octets(2), Name, Name], false),
            Type::SRV => (&[Octets(6), Name], false),
            Type::NAPTR => (&[Octets(4), Text, Text, Text, Name], false),
            Type::SIG | Type::RRSIG => (&[Octets(18), Name, Rest], false),
            Type::NXT | Type::NSEC => (&[Name, Rest], false),
            Type::SVCB | Type::HTTPS => (&[Octets(2), Name, Rest], false),
            _ => (&[], false),
        };
        Self {
            fields,
            compressible,
        }
    }

    /// Whether the type's RDATA holds a name.
    #[must_use]
    pub const fn has_names(&self) -> bool {
        !self.fields.is_empty()
    }
}
