//! The settings of one virtual router (RFC 9568 §6.1, and keepalived's additions).

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use super::checksum::ChecksumForm;
use super::packet::{
    Authentication, Expected, GROUP_V4, GROUP_V6, HOP_LIMIT, PRIORITY_STOPPED, Version,
};

/// The priority where none is written (RFC 9568 §6.1).
pub const DEFAULT_PRIORITY: u8 = 100;

/// The interval where none is written (RFC 9568 §6.1).
pub const DEFAULT_INTERVAL: Duration = Duration::from_secs(1);

/// The longest interval that version 3 has a field for: 40.95 s.
pub const MAX_INTERVAL_V3: Duration = Duration::from_millis(40_950);

/// The longest interval that version 2 has a field for.
pub const MAX_INTERVAL_V2: Duration = Duration::from_secs(255);

/// One virtual router on one interface, for one family of addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouterSettings {
    /// The name for people.
    pub name: Arc<str>,
    /// On which it advertises and has its addresses.
    pub interface: Arc<str>,
    /// VRID, 1 to 255.
    pub router_id: u8,
    /// The protocol's version.
    pub version: Version,
    /// At least one, all of one family.
    pub addresses: Vec<VirtualAddress>,
    /// The priority when nothing is tracked: 1 to 254; 255 if the addresses are this node's own.
    pub priority: u8,
    /// Between two advertisements.
    pub interval: Duration,
    /// The receivers of advertisements.
    pub peers: Peers,
    /// The reaction to an active router of lower priority.
    pub preempt: Preempt,
    /// Version 2 only.
    pub authentication: Authentication,
    /// The checksum in version 3 over IPv4.
    pub checksum: ChecksumForm,
    /// Whether only that form is accepted. Both otherwise.
    pub checksum_strict: bool,
    /// Whether advertisements of others than the unicast peers are refused. keepalived takes them, and
    /// so does the default: a router that advertises a virtual router holds its addresses, known or not.
    pub peers_only: bool,
    /// The address advertisements come from; `None`: the interface's first.
    pub source: Option<IpAddr>,
    /// The routers that move together with this one.
    pub group: Option<Arc<str>>,
    /// The announcements of an address to the network.
    pub announce: Announce,
    /// True when a start is followed by probes for a holder of the addresses that does not advertise them.
    pub probe: bool,
}

/// An address of a virtual router and the length of its prefix on the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VirtualAddress {
    /// The address.
    pub address: IpAddr,
    /// 32 or 128 where the interface has the network's route anyway.
    pub prefix_length: u8,
}

/// The receivers of advertisements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peers {
    /// All routers on the link.
    Multicast,
    /// These. None means that the peers are unknown, and this node does not become active.
    Unicast(Vec<IpAddr>),
}

/// The reaction of a backup router to an active router of lower priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preempt {
    /// Nothing, while that advertises.
    Never,
    /// Takes over, this long after it was first heard.
    After(Duration),
}

/// Gratuitous ARP and unsolicited neighbour advertisements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announce {
    /// How many, at each occasion.
    pub count: u8,
    /// How long after a takeover, and after a lower priority was heard, all are repeated; `None`: not.
    pub again_after: Option<Duration>,
    /// How often one is sent while active; `None`: not.
    pub refresh: Option<Duration>,
}

impl Default for Announce {
    /// As keepalived.
    fn default() -> Self {
        Self {
            count: 5,
            again_after: Some(Duration::from_secs(5)),
            refresh: None,
        }
    }
}

impl RouterSettings {
    /// A router with everything at its default.
    #[must_use]
    pub fn new(
        name: impl Into<Arc<str>>,
        interface: impl Into<Arc<str>>,
        router_id: u8,
        addresses: Vec<VirtualAddress>,
    ) -> Self {
        Self {
            name: name.into(),
            interface: interface.into(),
            router_id,
            version: Version::V3,
            addresses,
            priority: DEFAULT_PRIORITY,
            interval: DEFAULT_INTERVAL,
            peers: Peers::Multicast,
            preempt: Preempt::After(Duration::ZERO),
            authentication: Authentication::None,
            checksum: ChecksumForm::default(),
            checksum_strict: false,
            peers_only: false,
            source: None,
            group: None,
            announce: Announce::default(),
            probe: true,
        }
    }

    /// How long an active router may be silent before another takes over.
    #[must_use]
    pub fn silence_allowed(&self) -> Duration {
        3 * self.interval
    }

    /// Whether the addresses are of IPv6.
    #[must_use]
    pub fn is_ipv6(&self) -> bool {
        let first = self.addresses.first();
        first.is_some_and(|first| first.address.is_ipv6())
    }

    /// The destinations of advertisements.
    #[must_use]
    pub fn destinations(&self) -> Vec<IpAddr> {
        match &self.peers {
            Peers::Multicast if self.is_ipv6() => vec![GROUP_V6.into()],
            Peers::Multicast => vec![GROUP_V4.into()],
            Peers::Unicast(peers) => peers.clone(),
        }
    }

    /// The TTL or hop limit of what is sent.
    #[must_use]
    pub fn hop_limit(&self) -> u8 {
        HOP_LIMIT
    }

    /// The conditions for others' advertisements.
    #[must_use]
    pub fn expected(&self) -> Expected {
        Expected {
            version: self.version,
            router_id: self.router_id,
            interval: self.interval,
            authentication: self.authentication,
            checksum: self.checksum_strict.then_some(self.checksum),
        }
    }

    /// True when the other is this virtual router with other settings. Any other cannot be reconfigured
    /// in place: it is another router, to be started when this one has stopped.
    #[must_use]
    pub fn is_same_router(&self, other: &Self) -> bool {
        self.interface == other.interface
            && self.router_id == other.router_id
            && self.is_ipv6() == other.is_ipv6()
    }

    /// Everything that is wrong with these settings.
    #[must_use]
    pub fn faults(&self) -> Vec<SettingsFault> {
        let mut faults = Vec::new();
        let mut check = |wrong: bool, fault| {
            if wrong {
                faults.push(fault);
            }
        };
        let ipv6 = self.is_ipv6();
        let addresses = &self.addresses;
        let distinct: BTreeSet<_> = addresses.iter().map(|entry| entry.address).collect();
        check(self.router_id == 0, SettingsFault::RouterId);
        check(addresses.is_empty(), SettingsFault::NoAddress);
        check(
            addresses.len() > usize::from(u8::MAX),
            SettingsFault::TooManyAddresses,
        );
        check(
            distinct.len() != addresses.len(),
            SettingsFault::AddressTwice,
        );
        check(
            distinct.iter().any(|address| address.is_ipv6() != ipv6),
            SettingsFault::MixedFamilies,
        );
        check(
            addresses.iter().any(|entry| {
                let longest = if entry.address.is_ipv6() { 128 } else { 32 };
                entry.prefix_length > longest
            }),
            SettingsFault::PrefixLength,
        );
        check(self.priority == PRIORITY_STOPPED, SettingsFault::Priority);
        check(
            self.version == Version::V2 && ipv6,
            SettingsFault::Version2OverIpv6,
        );
        check(!self.is_interval_sayable(), SettingsFault::Interval);
        check(
            self.version == Version::V3 && self.authentication != Authentication::None,
            SettingsFault::PasswordInVersion3,
        );
        let of_other_family = |address: &IpAddr| address.is_ipv6() != ipv6;
        check(
            matches!(&self.peers, Peers::Unicast(peers) if peers.iter().any(of_other_family)),
            SettingsFault::PeerFamily,
        );
        check(
            self.source.as_ref().is_some_and(of_other_family),
            SettingsFault::SourceFamily,
        );
        faults
    }

    /// Whether the interval can be told to others exactly.
    fn is_interval_sayable(&self) -> bool {
        let (unit, most) = match self.version {
            Version::V2 => (Duration::from_secs(1), MAX_INTERVAL_V2),
            Version::V3 => (Duration::from_millis(10), MAX_INTERVAL_V3),
        };
        let exact = self.interval.as_nanos().is_multiple_of(unit.as_nanos());
        !self.interval.is_zero() && self.interval <= most && exact
    }
}

/// The errors in settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingsFault {
    /// 0 is no virtual router.
    RouterId,
    /// Nothing to hold.
    NoAddress,
    /// More than fit a message.
    TooManyAddresses,
    /// One address is there twice.
    AddressTwice,
    /// A virtual router is of one family (RFC 9568 §1).
    MixedFamilies,
    /// Longer than an address.
    PrefixLength,
    /// 0 says that a router stops.
    Priority,
    /// Version 2 knows IPv4 only.
    Version2OverIpv6,
    /// Version 2: whole seconds, 1 to 255. Version 3: hundredths, 0.01 s to 40.95 s.
    Interval,
    /// RFC 9568 §9 has no authentication.
    PasswordInVersion3,
    /// A peer is not of the addresses' family.
    PeerFamily,
    /// The source is not of the addresses' family.
    SourceFamily,
}

impl fmt::Display for SettingsFault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::RouterId => "a router id is 1 to 255",
            Self::NoAddress => "a virtual router needs an address",
            Self::TooManyAddresses => "a virtual router has 255 addresses at most",
            Self::AddressTwice => "an address is there twice",
            Self::MixedFamilies => "a virtual router is of IPv4 or of IPv6, not of both",
            Self::PrefixLength => "a prefix length is 32 (IPv6: 128) at most",
            Self::Priority => "a priority is 1 to 255",
            Self::Version2OverIpv6 => "VRRP version 2 knows IPv4 only",
            Self::Interval => {
                "an interval is 0.01 s to 40.95 s in hundredths (version 2: whole seconds, 1 to 255)"
            }
            Self::PasswordInVersion3 => "only VRRP version 2 has a password",
            Self::PeerFamily => "a peer is of another family than the addresses",
            Self::SourceFamily => "the source is of another family than the addresses",
        })
    }
}

#[cfg(test)]
mod tests;
