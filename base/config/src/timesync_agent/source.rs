//! `[[server]]`, `[[pool]]` and `[[peer]]`.

use std::convert::Infallible;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Number, Poll, Samples};
use crate::{As, Real, Seconds, Whole};
use config_toml::as_text;

/// The addresses of a pool unless `maxsources` says otherwise.
pub const DEFAULT_POOL_SOURCES: usize = 4;
/// The largest `maxsources`.
pub const MAX_POOL_SOURCES: usize = 16;
/// The numbers of addresses of a pool: as many as [`MAX_POOL_SOURCES`].
type PoolSources = Whole<usize, 1, 16>;
/// The shortest polling interval, 1/128 s.
pub const MIN_POLL: i8 = -7;
/// The longest polling interval, half a year.
pub const MAX_POLL: i8 = 24;
/// `maxunreach` unless given.
pub const DEFAULT_MAX_UNREACH: u32 = 100_000;
/// The largest `minstratum`: the stratum of servers without time (RFC 5905 §7.2, MAXSTRAT).
pub const MAX_STRATUM: u8 = 16;
/// A sub-second interval is for servers with a round trip below this.
pub const MAX_SUBSECOND_DELAY: f64 = 0.01;

/// The longest round trip that a key may name, in nanoseconds.
const LONGEST_DELAY: i64 = 1_000_000_000_000;
/// The largest ratio of round trips.
const MAX_RATIO: i64 = 1_000_000;

/// A server or a pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(extend("required" = ["host"]))]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a key of its own in the file"
)]
pub struct Source {
    /// The address, or the name: timesync-agent resolves it again when the server is not reached.
    #[serde(alias = "name", alias = "address")]
    pub host: Host,
    /// `[[pool]]`: the number of addresses to poll. Default: 4.
    #[serde(with = "As::<Option<PoolSources>>")]
    pub maxsources: Option<usize>,
    /// The UDP port.
    pub port: u16,
    /// The smallest polling interval, as a power of two in seconds: 6 is 64 s.
    #[serde(with = "As::<Poll>")]
    pub minpoll: i8,
    /// The largest polling interval, as a power of two in seconds. When it is absent, it is not below `minpoll`.
    #[serde(with = "As::<Poll>")]
    pub maxpoll: i8,
    /// The number of samples that should show a change of the clock's frequency. It determines the polling interval.
    #[serde(with = "As::<Samples<1>>")]
    pub polltarget: u32,
    /// Whether timesync-agent sends four to eight requests, two seconds apart, at the start.
    pub iburst: bool,
    /// Whether timesync-agent sends as many at each poll while the server is not reachable.
    pub burst: bool,
    /// At polling intervals of this power of two and more, timesync-agent sends another request before each real one, to
    /// prepare the network.
    #[serde(with = "As::<Option<Whole<i8, -7, 127>>>")]
    pub presend: Option<i8>,
    /// Interleaved mode: the server later sends the precise transmit time of each response.
    pub xleave: bool,
    /// The version of the protocol. Default: 4, and 3 for keys of more than 160 bits.
    #[serde(with = "As::<Option<Whole<u8, 1, 4>>>")]
    pub version: Option<u8>,
    /// The number of a key in `key-file`.
    #[serde(with = "As::<Option<Number<1>>>")]
    pub key: Option<u32>,
    /// Whether timesync-agent does not poll the server until `chronyc online`.
    pub offline: bool,
    /// The same from the first request that cannot be sent.
    pub auto_offline: bool,
    /// A sample with a longer round trip is not used.
    #[serde(rename = "maxdelay", with = "As::<Seconds<0, LONGEST_DELAY>>")]
    pub max_delay: f64,
    /// A sample with a round trip of more than this many times the shortest one is not used. A ratio below 1 is no limit.
    #[serde(rename = "maxdelayratio", with = "As::<Option<Real<0, MAX_RATIO>>>")]
    pub max_delay_ratio: Option<f64>,
    /// Accepted, and does nothing: the longer the round trip of a sample, the less is its weight.
    #[serde(rename = "maxdelaydevratio", with = "As::<Real<0, MAX_RATIO>>")]
    pub max_delay_deviation_ratio: f64,
    /// A sample with a round trip above this quantile of all earlier ones is not used.
    #[serde(rename = "maxdelayquant", with = "As::<Option<Real<5, 95, 100>>>")]
    pub max_delay_quantile: Option<f64>,
    /// The shortest possible round trip.
    #[serde(rename = "mindelay", with = "As::<Option<Seconds<0, LONGEST_DELAY>>>")]
    pub min_delay: Option<f64>,
    /// The asymmetry of the jitter on the path to the server. Default: timesync-agent estimates it.
    #[serde(with = "As::<Option<Real<-5, 5, 10>>>")]
    pub asymmetry: Option<f64>,
    /// A correction that timesync-agent adds to each measured offset.
    #[serde(with = "As::<Seconds<{ -crate::LONGEST_SPAN }>>")]
    pub offset: f64,
    /// timesync-agent uses one of this many samples: the one with the shortest round trip, since queueing on the way causes
    /// most of the error. chronyd uses the median.
    #[serde(with = "As::<Option<Samples<1>>>")]
    pub filter: Option<u32>,
    /// Accepted, and does nothing: a sample counts less as it ages, and none is dropped because others do not fit.
    #[serde(rename = "minsamples", with = "As::<Option<Samples<0>>>")]
    pub min_samples: Option<u32>,
    /// The largest number of samples to remember. Default: that of `[client]`.
    #[serde(rename = "maxsamples", with = "As::<Option<Samples<1>>>")]
    pub max_samples: Option<u32>,
    /// Whether timesync-agent never follows it.
    pub noselect: bool,
    /// Whether timesync-agent prefers it to others.
    pub prefer: bool,
    /// Whether it is always right, unless another trusted source disagrees.
    pub trust: bool,
    /// Whether timesync-agent does not correct the clock without it.
    pub require: bool,
    /// Whether clients get the reference ID and the stratum of this server, as if this node were that server.
    pub copy: bool,
    /// timesync-agent uses only addresses of this family.
    pub family: Option<Family>,
    /// The smallest stratum that the server counts as: timesync-agent then prefers others, and follows it only without them.
    /// 16 means unsynchronised; such a server is never followed.
    #[serde(
        rename = "minstratum",
        with = "As::<Whole<u8, 0, { MAX_STRATUM as i64 }>>"
    )]
    pub min_stratum: u8,
    /// Accepted, and does nothing: after eight polls without a response a server is not selected.
    #[serde(rename = "maxunreach", with = "As::<Number>")]
    pub max_unreach: u32,
}

impl Default for Source {
    fn default() -> Self {
        Self {
            host: Host::Name(String::new()),
            maxsources: None,
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
            offline: false,
            auto_offline: false,
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
            noselect: false,
            prefer: false,
            trust: false,
            require: false,
            copy: false,
            family: None,
            min_stratum: 0,
            max_unreach: DEFAULT_MAX_UNREACH,
        }
    }
}

impl Source {
    /// A server with the defaults.
    #[must_use]
    pub fn new(host: &str) -> Self {
        Self {
            host: Host::parse(host),
            ..Self::default()
        }
    }

    /// Whether timesync-agent polls it from the start.
    #[must_use]
    pub const fn connectivity(&self) -> Connectivity {
        match (self.offline, self.auto_offline) {
            (true, _) => Connectivity::Offline,
            (false, true) => Connectivity::AutoOffline,
            (false, false) => Connectivity::Online,
        }
    }

    /// `noselect`, `prefer`, `trust` and `require`.
    #[must_use]
    pub const fn select(&self) -> SelectOptions {
        SelectOptions {
            noselect: self.noselect,
            prefer: self.prefer,
            trust: self.trust,
            require: self.require,
        }
    }
}

/// A server, a pool of them or a peer, as the program has it.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceSettings {
    /// The server.
    pub host: Host,
    /// For a pool: the number of its servers; `None` is one server.
    pub pool: Option<usize>,
    /// It is a peer: both sides poll each other.
    pub is_peer: bool,
    /// The keys of the file; its host and `maxsources` are those above.
    pub options: Source,
}

impl SourceSettings {
    /// A server of the file.
    #[must_use]
    pub fn server(source: Source) -> Self {
        Self::of(source, false)
    }

    /// A pool of the file.
    #[must_use]
    pub fn pool(source: Source) -> Self {
        Self::of(source, true)
    }

    /// A peer of the file.
    #[must_use]
    pub fn peer(source: Source) -> Self {
        Self {
            is_peer: true,
            ..Self::of(source, false)
        }
    }

    fn of(mut source: Source, is_pool: bool) -> Self {
        source.maxpoll = source.maxpoll.max(source.minpoll);
        let pool = source.maxsources.take().unwrap_or(DEFAULT_POOL_SOURCES);
        Self {
            host: std::mem::take(&mut source.host),
            pool: is_pool.then_some(pool),
            is_peer: false,
            options: source,
        }
    }
}

/// The server: an address, or a name to be resolved.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Host {
    /// It has no name.
    Address(IpAddr),
    /// Resolved, again when it is not reached.
    Name(String),
}

impl Default for Host {
    fn default() -> Self {
        Self::Name(String::new())
    }
}

impl Host {
    /// An address if it is one.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        text.parse()
            .map_or_else(|_| Self::Name(text.to_owned()), Self::Address)
    }

    /// Whether it can be neither an address nor a name.
    #[must_use]
    pub fn is_none(&self) -> bool {
        match self {
            Self::Address(_) => false,
            Self::Name(name) => name.is_empty() || name.contains(char::is_whitespace),
        }
    }
}

impl FromStr for Host {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self::parse(text))
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Name(name) => f.write_str(name),
        }
    }
}

as_text!(Host, "an IP address or a host name");

/// The start of polling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Connectivity {
    /// At once.
    #[default]
    Online,
    /// Once chronyc says `online`.
    Offline,
    /// At once, until the network fails.
    AutoOffline,
}

/// A family of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Family {
    /// IPv4.
    #[serde(rename = "ipv4")]
    V4,
    /// IPv6.
    #[serde(rename = "ipv6")]
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
