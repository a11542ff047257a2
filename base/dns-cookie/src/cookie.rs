//! Making and checking server cookies.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use crate::siphash::siphash;

/// Octets of the option's data in a response: the client's cookie and the server's.
pub const LENGTH: usize = 24;
/// The option's data in a response.
pub type Cookie = [u8; LENGTH];

/// Octets of a client's cookie.
const CLIENT: usize = 8;
/// Octets of client cookie, version and time: the hashed part before the address.
const HEAD: usize = 16;
/// The lengths of a client's and a server's cookie together (RFC 7873 §4).
const BOTH: std::ops::RangeInclusive<usize> = 16..=40;
/// Version 1 (RFC 9018 §4.1) and the reserved octets.
const VERSION: [u8; 4] = [1, 0, 0, 0];
/// The age up to which a cookie is good, in seconds (RFC 9018 §4.3).
const LAST: i32 = 3600;
/// The age from which a client gets a new one.
const RENEW: i32 = 1800;
/// How far in the future the time may be: the clocks of the site's nodes may differ.
const AHEAD: i32 = 300;
/// The most secrets of one server; a change of secrets needs two.
const MOST_SECRETS: usize = 4;

/// The secrets of a server's cookies: the first makes cookies, and each accepts them.
#[derive(Clone, PartialEq, Eq)]
pub struct Secrets {
    first: [u8; 16],
    others: Vec<[u8; 16]>,
}

impl fmt::Debug for Secrets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} secrets", 1 + self.others.len())
    }
}

/// A text that holds no secrets. It says nothing of their octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// Nothing but blank lines and comments.
    #[error(
        "there is no secret: write 32 hexadecimal digits, such as those of `openssl rand -hex 16`"
    )]
    Empty,
    /// A line is no secret.
    #[error("line {0} is not 32 hexadecimal digits")]
    Line(usize),
    /// More secrets than a change of them needs.
    #[error("there are more than {MOST_SECRETS} secrets")]
    TooMany,
}

impl FromStr for Secrets {
    type Err = SecretError;

    /// Reads one secret a line, in hexadecimal digits; `#` begins a comment.
    fn from_str(text: &str) -> Result<Self, SecretError> {
        let mut secrets = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            if secrets.len() == MOST_SECRETS {
                return Err(SecretError::TooMany);
            }
            secrets.push(secret(line).ok_or(SecretError::Line(number))?);
        }
        match secrets.split_first() {
            Some((first, others)) => Ok(Self {
                first: *first,
                others: others.to_vec(),
            }),
            None => Err(SecretError::Empty),
        }
    }
}

fn secret(digits: &str) -> Option<[u8; 16]> {
    let is_hex = digits.len() == 32 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let number = u128::from_str_radix(digits, 16).ok()?;
    is_hex.then(|| number.to_be_bytes())
}

/// The state of the COOKIE option of a query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CookieState {
    /// The query has no such option.
    #[default]
    None,
    /// The client supports cookies and has none of this server yet.
    New,
    /// The server cookie is old, another server's, or made up.
    Bad,
    /// The client has received a cookie at its address.
    Proven,
    /// The option breaks its format (RFC 7873 §5.2.2).
    Malformed,
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checked {
    /// The state of the option.
    pub cookie_state: CookieState,
    /// The option's data for the response; none for a malformed option.
    pub cookie: Option<Cookie>,
}

impl Secrets {
    /// One secret, which no other server has.
    #[must_use]
    pub const fn alone(secret: [u8; 16]) -> Self {
        Self {
            first: secret,
            others: Vec::new(),
        }
    }

    /// Checks the data of a query's COOKIE option. `now` is the time in seconds since 1970, modulo 2³².
    #[must_use]
    pub fn check(&self, data: &[u8], client: IpAddr, now: u32) -> Checked {
        let Some((own, servers)) = data.split_first_chunk::<CLIENT>() else {
            return Checked::malformed();
        };
        let made = || self.make(*own, client, now);
        if servers.is_empty() {
            return Checked {
                cookie_state: CookieState::New,
                cookie: Some(made()),
            };
        }
        if !BOTH.contains(&data.len()) {
            return Checked::malformed();
        }
        let Some((age, secret)) = self.verify(data, client, now) else {
            return Checked {
                cookie_state: CookieState::Bad,
                cookie: Some(made()),
            };
        };
        // A cookie of a secret that is on its way in or out is replaced at once (RFC 9018 §5).
        let is_kept = age < RENEW && *secret == self.first;
        let cookie = match Cookie::try_from(data) {
            Ok(cookie) if is_kept => cookie,
            _ => made(),
        };
        Checked {
            cookie_state: CookieState::Proven,
            cookie: Some(cookie),
        }
    }

    fn make(&self, own: [u8; CLIENT], client: IpAddr, now: u32) -> Cookie {
        let mut cookie = [0; LENGTH];
        let parts = own.iter().chain(&VERSION);
        let time = now.to_be_bytes();
        for (place, octet) in cookie.iter_mut().zip(parts.chain(&time)) {
            *place = *octet;
        }
        let (head, hash) = cookie.split_at_mut(HEAD);
        hash.copy_from_slice(&hashed(&self.first, head, client));
        cookie
    }

    /// The age of a good cookie, and the secret that made it.
    fn verify(&self, data: &[u8], client: IpAddr, now: u32) -> Option<(i32, &[u8; 16])> {
        let (head, hash) = data.split_first_chunk::<HEAD>()?;
        let (version, time) = head.get(CLIENT..)?.split_first_chunk::<4>()?;
        // The reserved octets may be anything: they are part of the hash (RFC 9018 §4.2).
        if version.first() != VERSION.first() {
            return None;
        }
        // Serial arithmetic: the time wraps in 2106.
        let age = now
            .wrapping_sub(u32::from_be_bytes(*time.first_chunk()?))
            .cast_signed();
        if !(-AHEAD..=LAST).contains(&age) {
            return None;
        }
        let mut secrets = std::iter::once(&self.first).chain(&self.others);
        let secret = secrets.find(|secret| are_equal(hash, &hashed(secret, head, client)))?;
        Some((age, secret))
    }
}

/// Compares in a time that says nothing of the place of a difference.
fn are_equal(one: &[u8], other: &[u8]) -> bool {
    let differences = one.iter().zip(other).map(|(one, other)| one ^ other);
    one.len() == other.len() && differences.fold(0, std::ops::BitOr::bitor) == 0
}

/// The hash of a cookie's beginning and its client's address.
fn hashed(secret: &[u8; 16], head: &[u8], client: IpAddr) -> [u8; 8] {
    let mut input = [0; HEAD + 16];
    let (start, rest) = input.split_at_mut(HEAD);
    for (place, octet) in start.iter_mut().zip(head) {
        *place = *octet;
    }
    let length = match client.to_canonical() {
        IpAddr::V4(address) => {
            for (place, octet) in rest.iter_mut().zip(address.octets()) {
                *place = octet;
            }
            HEAD + 4
        }
        IpAddr::V6(address) => {
            rest.copy_from_slice(&address.octets());
            HEAD + 16
        }
    };
    siphash(secret, input.get(..length).unwrap_or(&input))
}

impl Checked {
    const fn malformed() -> Self {
        Self {
            cookie_state: CookieState::Malformed,
            cookie: None,
        }
    }
}

/// How a server uses cookies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cookies {
    /// The secrets.
    pub secrets: Secrets,
    /// Whether a client that supports cookies gets its answer over UDP only with a good one.
    pub is_required: bool,
}

#[cfg(test)]
mod tests;
