//! Servers and pools to query, and how.

use std::net::IpAddr;

/// A server, or a pool of them.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceSettings {
    /// The server.
    pub host: Host,
    /// For a pool: the number of its servers; `None` is one server.
    pub pool: Option<usize>,
    /// How.
    pub options: SourceOptions,
}

/// The server: an address, or a name to be resolved.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Host {
    /// It has no name.
    Address(IpAddr),
    /// Resolved, again when it is not reached.
    Name(String),
}

impl Host {
    /// An address if it is one.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        text.parse()
            .map_or_else(|_| Self::Name(text.to_owned()), Self::Address)
    }
}

impl std::fmt::Display for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Name(name) => f.write_str(name),
        }
    }
}

/// A pool's servers unless `maxsources` says otherwise.
pub const DEFAULT_POOL_SOURCES: usize = 4;
/// The most that `maxsources` may say.
pub const MAX_POOL_SOURCES: usize = 16;
/// The shortest polling interval, 1/128 s.
pub const MIN_POLL: i8 = -7;
/// The longest polling interval, half a year.
pub const MAX_POLL: i8 = 24;
/// `maxunreach` unless given.
pub const DEFAULT_MAX_UNREACH: u32 = 100_000;
/// The most that `minstratum` may say: the stratum of those who have no time (RFC 5905 §7.2, MAXSTRAT).
pub const MAX_STRATUM: u8 = 16;
/// A sub-second interval is for servers with a round trip below this.
pub const MAX_SUBSECOND_DELAY: f64 = 0.01;

/// The options of one server: polling and weight.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a word of its own in the configuration"
)]
pub struct SourceOptions {
    /// `port`.
    pub port: u16,
    /// `minpoll`; from [`MIN_POLL`] to `maxpoll`.
    pub minpoll: i8,
    /// `maxpoll`; from `minpoll` to [`MAX_POLL`].
    pub maxpoll: i8,
    /// `polltarget`: how many samples the polling interval aims at; at least 1.
    pub polltarget: u32,
    /// `iburst`: begin with 4 to 8 requests two seconds apart.
    pub iburst: bool,
    /// `burst`: up to 4 requests where one gave no good sample.
    pub burst: bool,
    /// `presend`: at this polling interval and above, a request two seconds ahead fills caches on the way.
    pub presend: Option<i8>,
    /// `xleave`: ask in interleaved mode.
    pub xleave: bool,
    /// `version`; without it, 4, or 3 with a key whose MAC is longer than 160 bits.
    pub version: Option<u8>,
    /// `key`: sign and verify with this one; never 0.
    pub key: Option<u32>,
    /// `offline`, `auto_offline`.
    pub connectivity: Connectivity,
    /// `maxdelay`: a longer round trip is no sample.
    pub max_delay: f64,
    /// `maxdelayratio`: nor is one longer than this many times the shortest. Below 1 it is none.
    pub max_delay_ratio: Option<f64>,
    /// `maxdelaydevratio`: does nothing, since samples count the less the longer their round trip.
    pub max_delay_deviation_ratio: f64,
    /// `maxdelayquant`: nor one above this quantile of all, used or not; from 0.05 to 0.95.
    pub max_delay_quantile: Option<f64>,
    /// `mindelay`: the shortest round trip, where it is known.
    pub min_delay: Option<f64>,
    /// `asymmetry` of jitter, from −0.5 to 0.5; estimated unless given.
    pub asymmetry: Option<f64>,
    /// `offset`: added to every measured offset.
    pub offset: f64,
    /// `filter`: the sample with the shortest round trip among this many counts.
    pub filter: Option<u32>,
    /// `minsamples`: does nothing, as [`super::ClientSettings::min_samples`].
    pub min_samples: Option<u32>,
    /// `maxsamples`; without it [`super::ClientSettings::max_samples`].
    pub max_samples: Option<u32>,
    /// `prefer`, `noselect`, `trust`, `require`.
    pub select: SelectOptions,
    /// `copy`: take on the server's reference ID and stratum, as a part of it.
    pub copy: bool,
    /// `ipv4`, `ipv6`: addresses of one family alone.
    pub family: Option<Family>,
    /// `minstratum`: its stratum counts as this one where it is smaller; up to 16.
    pub min_stratum: u8,
    /// `maxunreach`: does nothing, since it is not selected after eight polls without answer; chrony 4.8.
    pub max_unreach: u32,
}

impl Default for SourceOptions {
    fn default() -> Self {
        Self {
            port: 123,
            minpoll: 6,
            maxpoll: 10,
            polltarget: 8,
            iburst: false,
            burst: false,
            presend: None,
            xleave: false,
            version: None,
            key: None,
            connectivity: Connectivity::Online,
            max_delay: 3.0,
            max_delay_ratio: None,
            max_delay_deviation_ratio: 10.0,
            max_delay_quantile: None,
            min_delay: None,
            asymmetry: None,
            offset: 0.0,
            filter: None,
            min_samples: None,
            max_samples: None,
            select: SelectOptions::default(),
            copy: false,
            family: None,
            min_stratum: 0,
            max_unreach: DEFAULT_MAX_UNREACH,
        }
    }
}

/// Returns whether a server is polled from the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Connectivity {
    /// It is.
    #[default]
    Online,
    /// Once chronyc says `online`.
    Offline,
    /// It is until the network fails.
    AutoOffline,
}

/// A family of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// `ipv4`.
    V4,
    /// `ipv6`.
    V6,
}

impl Family {
    /// Whether an address is of it.
    #[must_use]
    pub fn has(self, address: IpAddr) -> bool {
        (self == Self::V4) == address.is_ipv4()
    }
}

/// The selection options of a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a word of its own in the configuration"
)]
pub struct SelectOptions {
    /// `noselect`: for show.
    pub noselect: bool,
    /// `prefer`: before all without it.
    pub prefer: bool,
    /// `trust`: right, unless another trusted one disagrees.
    pub trust: bool,
    /// `require`: one of these has to be selectable.
    pub require: bool,
}
