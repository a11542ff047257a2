//! The one VRRP message, the advertisement: version 3 (RFC 9568 §5) over IPv4 and IPv6, version 2
//! (RFC 3768 §5) over IPv4, without or with the clear-text password of RFC 2338 §5.3.6.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------+-------+---------------+---------------+---------------+
//! |Version| Type=1|  Virtual Rtr  |   Priority    | Address count |
//! +-------+-------+---------------+---------------+---------------+
//! |v3: 0  |   interval, 1/100 s   |           Checksum            |
//! |v2: Auth type  |  interval, s  |                               |
//! +---------------+---------------+---------------+---------------+
//! |  Addresses (4 or 16 octets each), then v2: 8 octets password  |
//! +---------------------------------------------------------------+
//! ```
//!
//! Reads and writes the octets behind the IP header. A packet that is not acceptable is refused with the reason that
//! keepalived's statistics have a name for. Never touches a socket.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use super::checksum::{ChecksumForm, Sum};

/// The destination of advertisements over IPv4 (RFC 9568 §5.1.1.2).
pub const GROUP_V4: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 18);

/// The destination of advertisements over IPv6 (RFC 9568 §5.1.2.2).
pub const GROUP_V6: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x12);

/// The TTL or hop limit of what was not forwarded (RFC 9568 §5.1.1.3).
pub const HOP_LIMIT: u8 = 255;

/// The priority that says "I have stopped" (RFC 9568 §5.2.4).
pub const PRIORITY_STOPPED: u8 = 0;

/// The priority of the router whose own the addresses are.
pub const PRIORITY_OWNER: u8 = 255;

/// The largest message: 255 addresses of IPv6. A receive buffer of this size truncates nothing.
pub const MAX_LENGTH: usize = HEADER_LENGTH + 255 * 16;

const HEADER_LENGTH: usize = 8;
const PASSWORD_LENGTH: usize = 8;
const TYPE_ADVERTISEMENT: u8 = 1;
const MAX_CENTISECONDS: u128 = 0x0fff;

/// The protocol's version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// RFC 3768: IPv4, whole seconds.
    V2,
    /// RFC 9568: IPv4 and IPv6, hundredths of seconds.
    #[default]
    V3,
}

/// The secret in a version 2 message.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub enum Authentication {
    /// Nothing.
    #[default]
    None,
    /// A password in clear text; shorter ones end in zeros. It keeps strangers' routers apart, not enemies.
    Password([u8; PASSWORD_LENGTH]),
}

impl Authentication {
    /// A password, of which the first 8 octets count, as in keepalived.
    #[must_use]
    pub fn password(text: &str) -> Self {
        let mut octets = [0; PASSWORD_LENGTH];
        for (octet, given) in octets.iter_mut().zip(text.bytes()) {
            *octet = given;
        }
        Self::Password(octets)
    }

    fn wire_type(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Password(_) => 1,
        }
    }
}

impl fmt::Debug for Authentication {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::None => "None",
            Self::Password(_) => "Password(..)",
        })
    }
}

/// One router's message about one virtual router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advertisement {
    /// The protocol's version.
    pub version: Version,
    /// The virtual router, 1 to 255.
    pub router_id: u8,
    /// 0: stops. 255: owns the addresses.
    pub priority: u8,
    /// Until the sender's next advertisement.
    pub interval: Duration,
    /// The virtual addresses, all of one family.
    pub addresses: Vec<IpAddr>,
}

/// A datagram of protocol 112 and what its IP header said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// The sender.
    pub source: IpAddr,
    /// The group, or an address of this node.
    pub destination: IpAddr,
    /// TTL or hop limit, where the socket told.
    pub hop_limit: Option<u8>,
    /// The octets behind the IP header.
    pub octets: &'a [u8],
}

/// The settings of a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// The protocol's version.
    pub version: Version,
    /// The virtual router.
    pub router_id: u8,
    /// In version 2, the sender's must be the same.
    pub interval: Duration,
    /// In version 2, what the sender must prove.
    pub authentication: Authentication,
    /// The one form taken; `None` takes both.
    pub checksum: Option<ChecksumForm>,
}

/// Why a datagram is no acceptable advertisement (RFC 9568 §7.1, RFC 3768 §7.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refusal {
    /// A multicast message that may have been forwarded.
    HopLimit,
    /// Another version of the protocol.
    Version,
    /// Too short for its addresses, or too long.
    Length,
    /// The sum is wrong.
    Checksum,
    /// Not an advertisement.
    Type,
    /// Another virtual router.
    RouterId,
    /// Version 2: an authentication that does not exist.
    AuthenticationType,
    /// Version 2: not the authentication configured.
    AuthenticationMismatch,
    /// Version 2: another password.
    AuthenticationFailure,
    /// Version 2: not the interval configured. Version 3: zero (RFC 9568 erratum 8301).
    Interval,
    /// No address in common with those configured: a foreign virtual router of the same number.
    AddressList,
    /// From none of the peers, where only those are listened to.
    Peer,
}

impl Refusal {
    /// All, as counters are laid out.
    pub const ALL: [Self; 12] = [
        Self::HopLimit,
        Self::Version,
        Self::Length,
        Self::Checksum,
        Self::Type,
        Self::RouterId,
        Self::AuthenticationType,
        Self::AuthenticationMismatch,
        Self::AuthenticationFailure,
        Self::Interval,
        Self::AddressList,
        Self::Peer,
    ];

    /// The name in keepalived's statistics; `keepalived_exporter` prefixes it with `keepalived_vrrp_`.
    #[must_use]
    pub fn metric(self) -> &'static str {
        match self {
            Self::HopLimit => "ip_ttl_err",
            Self::Version => "vers_err",
            Self::Length => "packet_len_err",
            Self::Checksum => "chk_err",
            Self::Type => "invalid_type_rcvd",
            Self::RouterId => "vrid_err",
            Self::AuthenticationType => "invalid_authtype",
            Self::AuthenticationMismatch => "authtype_mismatch",
            Self::AuthenticationFailure => "auth_failure",
            Self::Interval => "advert_interval_err",
            Self::AddressList => "addr_list_err",
            Self::Peer => "peer_err",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::HopLimit => "TTL is not 255",
            Self::Version => "another version of VRRP",
            Self::Length => "wrong length",
            Self::Checksum => "wrong checksum",
            Self::Type => "not an advertisement",
            Self::RouterId => "another virtual router",
            Self::AuthenticationType => "unknown authentication",
            Self::AuthenticationMismatch => "another authentication than configured",
            Self::AuthenticationFailure => "wrong password",
            Self::Interval => "another interval than configured",
            Self::AddressList => "none of the configured addresses",
            Self::Peer => "not from a peer",
        })
    }
}

/// An advertisement that was accepted, and how it was summed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The message.
    pub advertisement: Advertisement,
    /// Version 3 over IPv4 only.
    pub checksum: Option<ChecksumForm>,
}

/// The virtual router a datagram is about, if it says: shells that share a socket sort by it.
#[must_use]
pub fn router_id(octets: &[u8]) -> Option<u8> {
    octets.get(1).copied()
}

//--- Reading

/// Reads a datagram.
///
/// # Errors
///
/// The first thing about it that is not as it must be.
pub fn parse(datagram: &Datagram<'_>, expected: &Expected) -> Result<Accepted, Refusal> {
    // RFC 9568 §5.1.1.3. Between unicast peers there may be routers.
    let multicast = datagram.destination.is_multicast();
    if multicast && datagram.hop_limit.is_some_and(|hops| hops != HOP_LIMIT) {
        return Err(Refusal::HopLimit);
    }
    let octets = datagram.octets;
    let Some((header, body)) = octets.split_first_chunk::<HEADER_LENGTH>() else {
        return Err(Refusal::Length);
    };
    let &[kind, router_id, priority, n_addresses, fifth, sixth, ..] = header;
    let version = match kind >> 4 {
        2 => Version::V2,
        3 => Version::V3,
        _ => return Err(Refusal::Version),
    };
    if version != expected.version {
        return Err(Refusal::Version);
    }
    let authenticated = usize::from(version == Version::V2) * PASSWORD_LENGTH;
    let width = if datagram.source.is_ipv4() { 4 } else { 16 };
    let listed = usize::from(n_addresses) * width;
    if body.len() != listed + authenticated {
        return Err(Refusal::Length);
    }
    let checksum = check_sum(datagram, version, expected.checksum)?;
    if kind & 0x0f != TYPE_ADVERTISEMENT {
        return Err(Refusal::Type);
    }
    if router_id != expected.router_id {
        return Err(Refusal::RouterId);
    }
    let (listed, password) = body.split_at_checked(listed).ok_or(Refusal::Length)?;
    let interval = match version {
        Version::V2 => {
            check_authentication(fifth, password, expected.authentication)?;
            let interval = Duration::from_secs(u64::from(sixth));
            if interval != expected.interval {
                return Err(Refusal::Interval);
            }
            interval
        }
        Version::V3 => {
            let centiseconds = u16::from_be_bytes([fifth, sixth]) & 0x0fff;
            Duration::from_millis(u64::from(centiseconds) * 10)
        }
    };
    // RFC 9568 erratum 8301: everybody would become active at once.
    if interval.is_zero() {
        return Err(Refusal::Interval);
    }
    let advertisement = Advertisement {
        version,
        router_id,
        priority,
        interval,
        addresses: read_addresses(listed, width),
    };
    Ok(Accepted {
        advertisement,
        checksum,
    })
}

/// The form that makes the checksum right, if there are two.
fn check_sum(
    datagram: &Datagram<'_>,
    version: Version,
    only: Option<ChecksumForm>,
) -> Result<Option<ChecksumForm>, Refusal> {
    let is_right = |form| {
        let (source, destination) = (datagram.source, datagram.destination);
        sum(version, form, source, destination, datagram.octets) == 0
    };
    if version == Version::V2 || datagram.source.is_ipv6() {
        let right = is_right(ChecksumForm::PseudoHeader);
        return right.then_some(None).ok_or(Refusal::Checksum);
    }
    [ChecksumForm::PseudoHeader, ChecksumForm::Rfc]
        .into_iter()
        .filter(|form| only.is_none_or(|only| only == *form))
        .find(|form| is_right(*form))
        .map(Some)
        .ok_or(Refusal::Checksum)
}

fn check_authentication(
    wire_type: u8,
    password: &[u8],
    expected: Authentication,
) -> Result<(), Refusal> {
    // 2 is IPsec AH (RFC 2338 §5.3.6), a type that exists and cannot be configured here.
    if wire_type > 2 {
        return Err(Refusal::AuthenticationType);
    }
    if wire_type != expected.wire_type() {
        return Err(Refusal::AuthenticationMismatch);
    }
    match expected {
        Authentication::Password(known) if known != password => Err(Refusal::AuthenticationFailure),
        _ => Ok(()),
    }
}

fn read_addresses(octets: &[u8], width: usize) -> Vec<IpAddr> {
    let read = |address: &[u8]| -> Option<IpAddr> {
        if width == 4 {
            <[u8; 4]>::try_from(address).ok().map(IpAddr::from)
        } else {
            <[u8; 16]>::try_from(address).ok().map(IpAddr::from)
        }
    };
    octets.chunks_exact(width).filter_map(read).collect()
}

//--- Writing

impl Advertisement {
    /// The message, for one destination: the checksum may depend on it.
    #[must_use]
    pub fn compose(
        &self,
        authentication: Authentication,
        form: ChecksumForm,
        source: IpAddr,
        destination: IpAddr,
    ) -> Vec<u8> {
        let addresses = self.addresses.iter().take(usize::from(u8::MAX));
        let n_addresses = u8::try_from(addresses.len()).unwrap_or(u8::MAX);
        let mut octets =
            Vec::with_capacity(MAX_LENGTH.min(HEADER_LENGTH + self.addresses.len() * 16));
        let (version, [fifth, sixth]) = match self.version {
            Version::V2 => (2, [authentication.wire_type(), self.seconds()]),
            Version::V3 => (3, self.centiseconds().to_be_bytes()),
        };
        octets.extend([
            version << 4 | TYPE_ADVERTISEMENT,
            self.router_id,
            self.priority,
            n_addresses,
        ]);
        octets.extend([fifth, sixth, 0, 0]);
        for address in addresses {
            match address {
                IpAddr::V4(address) => octets.extend(address.octets()),
                IpAddr::V6(address) => octets.extend(address.octets()),
            }
        }
        if self.version == Version::V2 {
            octets.extend(match authentication {
                Authentication::None => [0; PASSWORD_LENGTH],
                Authentication::Password(password) => password,
            });
        }
        let sum = sum(self.version, form, source, destination, &octets);
        if let Some(field) = octets.get_mut(6..HEADER_LENGTH) {
            field.copy_from_slice(&sum.to_be_bytes());
        }
        octets
    }

    fn centiseconds(&self) -> u16 {
        let centiseconds = (self.interval.as_millis() / 10).clamp(1, MAX_CENTISECONDS);
        u16::try_from(centiseconds).unwrap_or(u16::MAX)
    }

    fn seconds(&self) -> u8 {
        u8::try_from(self.interval.as_secs().max(1)).unwrap_or(u8::MAX)
    }
}

fn sum(
    version: Version,
    form: ChecksumForm,
    source: IpAddr,
    destination: IpAddr,
    octets: &[u8],
) -> u16 {
    let length = u16::try_from(octets.len()).unwrap_or(u16::MAX);
    let pseudo = match (version, form) {
        (Version::V2, _) => false,
        (Version::V3, ChecksumForm::PseudoHeader) => true,
        (Version::V3, ChecksumForm::Rfc) => source.is_ipv6(),
    };
    let mut sum = if pseudo {
        Sum::pseudo_header(source, destination, length)
    } else {
        Sum::default()
    };
    sum.add(octets);
    sum.finish()
}

#[cfg(test)]
mod tests;
