//! Record types and classes (RFC 6895 §3), with their mnemonics and the RFC 3597 spelling of
//! those that have none.

use std::fmt;
use std::str::FromStr;

/// The type of a resource record, or of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Type(pub u16);

macro_rules! types {
    ($($name:ident = $code:literal),+ $(,)?) => {
        impl Type {
            $(
                #[doc = concat!("The ", stringify!($name), " type.")]
                pub const $name: Self = Self($code);
            )+
        }

        /// Every type that has a mnemonic, in order of its number.
        const TYPES: &[(u16, &str)] = &[$(($code, stringify!($name))),+];
    };
}

types! {
    A = 1, NS = 2, MD = 3, MF = 4, CNAME = 5, SOA = 6, MB = 7, MG = 8, MR = 9, NULL = 10,
    WKS = 11, PTR = 12, HINFO = 13, MINFO = 14, MX = 15, TXT = 16, RP = 17, AFSDB = 18, X25 = 19,
    ISDN = 20, RT = 21, NSAP = 22, SIG = 24, KEY = 25, PX = 26, GPOS = 27, AAAA = 28,
    LOC = 29, NXT = 30, EID = 31, NIMLOC = 32, SRV = 33, ATMA = 34, NAPTR = 35, KX = 36, CERT = 37,
    A6 = 38, DNAME = 39, SINK = 40, OPT = 41, APL = 42, DS = 43, SSHFP = 44, IPSECKEY = 45,
    RRSIG = 46, NSEC = 47, DNSKEY = 48, DHCID = 49, NSEC3 = 50, NSEC3PARAM = 51, TLSA = 52,
    SMIMEA = 53, HIP = 55, NINFO = 56, RKEY = 57, TALINK = 58, CDS = 59, CDNSKEY = 60,
    OPENPGPKEY = 61, CSYNC = 62, ZONEMD = 63, SVCB = 64, HTTPS = 65, DSYNC = 66, SPF = 99,
    UINFO = 100, UID = 101, GID = 102, UNSPEC = 103, NID = 104, L32 = 105, L64 = 106, LP = 107,
    EUI48 = 108, EUI64 = 109, NXNAME = 128, TKEY = 249, TSIG = 250, IXFR = 251, AXFR = 252,
    MAILB = 253, MAILA = 254, ANY = 255, URI = 256, CAA = 257, AVC = 258, DOA = 259,
    AMTRELAY = 260, RESINFO = 261, WALLET = 262, TA = 32768, DLV = 32769,
}

impl Type {
    /// `PowerDNS`'s private type for records whose content is a program.
    pub const LUA: Self = Self(65402);

    /// Whether the type exists only in questions or only in messages: OPT, and 128 to 255 (RFC 6895 §3.1).
    #[must_use]
    pub const fn is_meta(self) -> bool {
        self.0 == 41 || (self.0 >= 128 && self.0 <= 255)
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::LUA {
            return f.write_str("LUA");
        }
        match TYPES.binary_search_by_key(&self.0, |(code, _)| *code) {
            Ok(index) => f.write_str(TYPES.get(index).map_or("", |(_, name)| name)),
            Err(_) => write!(f, "TYPE{}", self.0),
        }
    }
}

impl FromStr for Type {
    type Err = UnknownMnemonic;

    fn from_str(text: &str) -> Result<Self, UnknownMnemonic> {
        if text.eq_ignore_ascii_case("LUA") {
            return Ok(Self::LUA);
        }
        if let Some((code, _)) = TYPES
            .iter()
            .find(|(_, name)| name.eq_ignore_ascii_case(text))
        {
            return Ok(Self(*code));
        }
        numbered(text, "TYPE").map(Self)
    }
}

/// Whether a word has the form of a mnemonic, such as that of a type that was registered later: a letter, then
/// letters, digits, hyphens and underscores.
#[must_use]
pub fn is_mnemonic(word: &[u8]) -> bool {
    let is_inner = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    word.len() <= MAX_MNEMONIC
        && word.first().is_some_and(u8::is_ascii_alphabetic)
        && word.iter().all(is_inner)
}

/// The longest word that counts as a mnemonic; a service parameter's key has at most 63 octets (RFC 9460 §2.1).
const MAX_MNEMONIC: usize = 63;

/// The class of a resource record, or of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Class(pub u16);

impl Class {
    /// The Internet.
    pub const IN: Self = Self(1);
    /// CHAOS, the class of the server's version.
    pub const CH: Self = Self(3);
    /// Hesiod.
    pub const HS: Self = Self(4);
    /// Used by dynamic update (RFC 2136).
    pub const NONE: Self = Self(254);
    /// Any class; only in questions.
    pub const ANY: Self = Self(255);
}

/// Mnemonics of the classes.
const CLASSES: [(u16, &str); 5] = [(1, "IN"), (3, "CH"), (4, "HS"), (254, "NONE"), (255, "ANY")];

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match CLASSES.iter().find(|(code, _)| *code == self.0) {
            Some((_, name)) => f.write_str(name),
            None => write!(f, "CLASS{}", self.0),
        }
    }
}

impl FromStr for Class {
    type Err = UnknownMnemonic;

    fn from_str(text: &str) -> Result<Self, UnknownMnemonic> {
        if let Some((code, _)) = CLASSES
            .iter()
            .find(|(_, name)| name.eq_ignore_ascii_case(text))
        {
            return Ok(Self(*code));
        }
        numbered(text, "CLASS").map(Self)
    }
}

/// `TYPE123` or `CLASS123` (RFC 3597 §5).
fn numbered(text: &str, prefix: &str) -> Result<u16, UnknownMnemonic> {
    let (head, digits) = text.split_at_checked(prefix.len()).ok_or(UnknownMnemonic)?;
    let all_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !head.eq_ignore_ascii_case(prefix) || !all_digits {
        return Err(UnknownMnemonic);
    }
    digits.parse().map_err(|_| UnknownMnemonic)
}

/// The text does not name a type or class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownMnemonic;

impl fmt::Display for UnknownMnemonic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a mnemonic that DNS knows")
    }
}

impl std::error::Error for UnknownMnemonic {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_reads_back_from_its_own_spelling() {
        for code in 0..=u16::MAX {
            assert_eq!(Type(code).to_string().parse(), Ok(Type(code)));
            assert_eq!(Class(code).to_string().parse(), Ok(Class(code)));
        }
    }

    #[test]
    fn mnemonics_are_sorted_by_number() {
        assert!(TYPES.is_sorted_by(|a, b| a.0 < b.0));
    }

    #[test]
    fn spelling_is_case_blind_and_strict() {
        assert_eq!("aaaa".parse(), Ok(Type::AAAA));
        assert_eq!("type28".parse(), Ok(Type::AAAA));
        for bad in [
            "",
            "TYPE",
            "TYPE65536",
            "TYPE-1",
            "TYPE+1",
            "TYPE1x",
            "AAAAA",
            "TYPÉ1",
        ] {
            assert!(bad.parse::<Type>().is_err(), "{bad}");
        }
        assert!("CLASS".parse::<Class>().is_err());
    }
}
