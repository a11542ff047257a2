//! Names of nodes and of upload sessions.
//!
//! A value of one of these types has been checked against its grammar, so it may go into a path, a
//! header or a key without another check.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

pub use config::registry_svc::NodeName;

/// A text that is no name of an upload session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("not a name of an upload session")]
pub struct NameError;

/// The name of an upload session: the node that has it, and a number that sorts by its beginning
/// and that no client can guess.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UploadId {
    node: NodeName,
    number: u128,
}

impl UploadId {
    /// How many characters the number has: five bits each.
    const N_DIGITS: usize = 26;

    /// Crockford's alphabet, in lower case so that file systems of any kind take it.
    const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

    /// A session of `node` begun `milliseconds` after 1970, with octets that come by chance.
    #[must_use]
    pub fn new(node: NodeName, milliseconds: u64, chance: [u8; 10]) -> Self {
        let mut number = u128::from(milliseconds & 0xffff_ffff_ffff);
        for octet in chance {
            number = number << 8 | u128::from(octet);
        }
        Self { node, number }
    }

    /// The node whose disk the session is on.
    #[must_use]
    pub fn node(&self) -> &NodeName {
        &self.node
    }

    /// When it was begun, in milliseconds since 1970.
    #[must_use]
    pub fn begun(&self) -> u64 {
        u64::try_from(self.number >> 80).unwrap_or(u64::MAX)
    }

    /// The number alone, as the session's file is called.
    #[must_use]
    pub fn number(&self) -> String {
        let digit = |at: usize| {
            let value = (self.number >> (5 * (Self::N_DIGITS - 1 - at))) & 31;
            usize::try_from(value)
                .ok()
                .and_then(|value| Self::DIGITS.get(value))
        };
        (0..Self::N_DIGITS)
            .filter_map(digit)
            .map(|&octet| char::from(octet))
            .collect()
    }

    /// The session of `node` whose file has this name.
    ///
    /// # Errors
    ///
    /// Fails on what is no number of a session.
    pub fn from_number(node: NodeName, text: &str) -> Result<Self, NameError> {
        if text.len() != Self::N_DIGITS {
            return Err(NameError);
        }
        let mut number: u128 = 0;
        for octet in text.bytes() {
            let value = Self::DIGITS.iter().position(|&digit| digit == octet);
            let value = value.ok_or(NameError)?;
            // The first of 26 digits has room for three bits of the 128.
            if number >> 123 != 0 {
                return Err(NameError);
            }
            number = number << 5 | value as u128;
        }
        Ok(Self { node, number })
    }
}

impl fmt::Display for UploadId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}", self.node, self.number())
    }
}

impl FromStr for UploadId {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let (node, number) = text.rsplit_once('-').ok_or(NameError)?;
        let node = node.parse().map_err(|_| NameError)?;
        Self::from_number(node, number)
    }
}

impl fmt::Debug for UploadId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_says_which_node_has_it_and_sorts_by_its_beginning() {
        let node: NodeName = "master-0.site".parse().unwrap();
        let first = UploadId::new(node.clone(), 1_700_000_000_000, [0xff; 10]);
        let second = UploadId::new(node.clone(), 1_700_000_000_001, [0; 10]);
        assert!(first < second && first.number() < second.number());
        assert_eq!(first.to_string().parse(), Ok(first.clone()));
        assert_eq!(first.begun(), 1_700_000_000_000);
        assert_eq!(second.node(), &node);
        let last = UploadId::new(node.clone(), u64::MAX, [0xff; 10]);
        assert_eq!(UploadId::from_number(node, &last.number()), Ok(last));
        let ulid = "0".repeat(26);
        let high = format!("master-8{}", "0".repeat(25));
        let upper = format!("master-{}A", "0".repeat(25));
        for bad in [
            "",
            "-",
            &ulid,
            &format!("-{ulid}"),
            &format!("A-{ulid}"),
            &high,
            &upper,
        ] {
            assert!(bad.parse::<UploadId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_node_is_named_as_a_host_is() {
        for good in ["a", "master-0", "n1.site", "0"] {
            assert!(good.parse::<NodeName>().is_ok(), "{good}");
        }
        for bad in ["", "-a", "a-", "A", "a/b", "a b", ".", "a."] {
            assert!(bad.parse::<NodeName>().is_err(), "{bad}");
        }
    }
}
