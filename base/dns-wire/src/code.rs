//! Opcodes and response codes (RFC 6895 §2).

use std::fmt;

/// The kind of a query: four bits of the header (RFC 1035 §4.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Opcode(pub u8);

impl Opcode {
    /// A standard query.
    pub const QUERY: Self = Self(0);
    /// Server status (RFC 1035); never specified further.
    pub const STATUS: Self = Self(2);
    /// Zone change notification (RFC 1996).
    pub const NOTIFY: Self = Self(4);
    /// Dynamic update (RFC 2136).
    pub const UPDATE: Self = Self(5);
}

impl fmt::Display for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::QUERY => f.write_str("QUERY"),
            Self::STATUS => f.write_str("STATUS"),
            Self::NOTIFY => f.write_str("NOTIFY"),
            Self::UPDATE => f.write_str("UPDATE"),
            Self(other) => write!(f, "OPCODE{other}"),
        }
    }
}

/// A response code: four bits of the header, extended to twelve by EDNS (RFC 6891 §6.1.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rcode(pub u16);

impl Rcode {
    /// No error.
    pub const NOERROR: Self = Self(0);
    /// The server could not read the query.
    pub const FORMERR: Self = Self(1);
    /// The server failed.
    pub const SERVFAIL: Self = Self(2);
    /// The name does not exist.
    pub const NXDOMAIN: Self = Self(3);
    /// The server does not implement this kind of query.
    pub const NOTIMP: Self = Self(4);
    /// The server refuses by policy.
    pub const REFUSED: Self = Self(5);
    /// A name exists when it should not; also a DNAME whose result is too long (RFC 6672 §2.2).
    pub const YXDOMAIN: Self = Self(6);
    /// An RRset exists when it should not (RFC 2136 §2.2).
    pub const YXRRSET: Self = Self(7);
    /// An RRset that should exist does not.
    pub const NXRRSET: Self = Self(8);
    /// The server is not authoritative for the zone.
    pub const NOTAUTH: Self = Self(9);
    /// A name is not within the zone.
    pub const NOTZONE: Self = Self(10);
    /// The EDNS version is not supported.
    pub const BADVERS: Self = Self(16);
    /// A bad or missing server cookie (RFC 7873 §8).
    pub const BADCOOKIE: Self = Self(23);

    /// The four bits that travel in the header.
    #[must_use]
    pub const fn low(self) -> u8 {
        (self.0 & 0x0f) as u8
    }

    /// The eight bits that travel in the OPT record.
    #[must_use]
    pub const fn high(self) -> u8 {
        ((self.0 >> 4) & 0xff) as u8
    }
}

/// Mnemonics of the IANA registry, by code.
const RCODES: [(u16, &str); 20] = [
    (0, "NOERROR"),
    (1, "FORMERR"),
    (2, "SERVFAIL"),
    (3, "NXDOMAIN"),
    (4, "NOTIMP"),
    (5, "REFUSED"),
    (6, "YXDOMAIN"),
    (7, "YXRRSET"),
    (8, "NXRRSET"),
    (9, "NOTAUTH"),
    (10, "NOTZONE"),
    (11, "DSOTYPENI"),
    (16, "BADVERS"),
    (17, "BADKEY"),
    (18, "BADTIME"),
    (19, "BADMODE"),
    (20, "BADNAME"),
    (21, "BADALG"),
    (22, "BADTRUNC"),
    (23, "BADCOOKIE"),
];

impl fmt::Display for Rcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match RCODES.iter().find(|(code, _)| *code == self.0) {
            Some((_, mnemonic)) => f.write_str(mnemonic),
            None => write!(f, "RCODE{}", self.0),
        }
    }
}

impl std::str::FromStr for Rcode {
    type Err = UnknownRcode;

    fn from_str(text: &str) -> Result<Self, UnknownRcode> {
        if let Some((code, _)) = RCODES
            .iter()
            .find(|(_, name)| name.eq_ignore_ascii_case(text))
        {
            return Ok(Self(*code));
        }
        let digits = text
            .strip_prefix("RCODE")
            .or_else(|| text.strip_prefix("rcode"));
        match digits.and_then(|digits| digits.parse::<u16>().ok()) {
            Some(code) if code < 4096 => Ok(Self(code)),
            _ => Err(UnknownRcode),
        }
    }
}

/// The text is not a response code's mnemonic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownRcode;

impl fmt::Display for UnknownRcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a response code")
    }
}

impl std::error::Error for UnknownRcode {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mnemonics_read_back() {
        for code in 0..4096 {
            let rcode = Rcode(code);
            assert_eq!(rcode.to_string().parse(), Ok(rcode));
        }
        assert!("RCODE4096".parse::<Rcode>().is_err());
        assert!("OOPS".parse::<Rcode>().is_err());
    }

    #[test]
    fn an_extended_code_splits_between_header_and_opt() {
        assert_eq!((Rcode::BADVERS.low(), Rcode::BADVERS.high()), (0, 1));
        assert_eq!((Rcode::BADCOOKIE.low(), Rcode::BADCOOKIE.high()), (7, 1));
        assert_eq!((Rcode::REFUSED.low(), Rcode::REFUSED.high()), (5, 0));
    }
}
