//! What the program believes: every value in it is legal, and whatever is not said has chrony 4.3's default.
//!
//! Both ways to write a configuration, TOML and chrony.conf, end here. Spans, delays and distances are in seconds and
//! frequencies in parts per million (as chrony's are), polls are powers of two in seconds. Offsets are positive if the local clock is slow.

mod ptp;
mod refclock;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use ipnet::IpNet;

pub use ptp::{PtpDelay, PtpSettings, PtpStamps, PtpTransport};
pub use refclock::{
    DEFAULT_PTP_SOCKET, ExternalPulses, PhcOptions, RefclockDriver, RefclockOptions,
    RefclockSettings, default_id, reference_id, reference_id_text,
};

/// Everything.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// Servers and pools, in the order of the configuration.
    pub sources: Vec<SourceSettings>,
    /// Clocks of this machine.
    pub refclocks: Vec<RefclockSettings>,
    /// `sourcedir`: directories of `*.sources` files, read again on `reload sources`. What they hold stands in `sources`, too.
    pub source_directories: Vec<PathBuf>,
    /// Whom to believe.
    pub selection: SelectionSettings,
    /// What is done to the clock.
    pub clock: ClockSettings,
    /// Leap seconds.
    pub leap: LeapSettings,
    /// `local`: give the own time when there is no other.
    pub local: Option<Local>,
    /// How servers are asked.
    pub client: ClientSettings,
    /// How clients are answered.
    pub server: ServerSettings,
    /// chronyc's protocol.
    pub commands: CommandSettings,
    /// Files of what happened.
    pub logs: LogSettings,
    /// `keyfile`: symmetric keys.
    pub key_file: Option<PathBuf>,
}

//--- Sources

/// A server, or a pool of them.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceSettings {
    /// Whom to ask.
    pub host: Host,
    /// Of a pool: how many of its servers; `None` is one server.
    pub pool: Option<usize>,
    /// How.
    pub options: SourceOptions,
}

/// Whom to ask: an address, or a name to be resolved.
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
/// A sub-second interval is for servers with a round trip below this.
pub const MAX_SUBSECOND_DELAY: f64 = 0.01;

/// How one server is asked and its answers are weighed.
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
    /// `maxdelayratio`: nor is one longer than this many times the shortest.
    pub max_delay_ratio: Option<f64>,
    /// `maxdelaydevratio`: nor one longer than the shortest by this many standard deviations.
    pub max_delay_deviation_ratio: f64,
    /// `maxdelayquant`: instead of the deviation, nor one above this quantile of all; from 0.05 to 0.95.
    pub max_delay_quantile: Option<f64>,
    /// `mindelay`: the shortest round trip, where it is known.
    pub min_delay: Option<f64>,
    /// `asymmetry` of jitter, from −0.5 to 0.5; estimated unless given.
    pub asymmetry: Option<f64>,
    /// `offset`: added to every measured offset.
    pub offset: f64,
    /// `filter`: samples that are merged to one.
    pub filter: Option<u32>,
    /// `minsamples`; without it [`ClientSettings::min_samples`].
    pub min_samples: Option<u32>,
    /// `maxsamples`; without it [`ClientSettings::max_samples`].
    pub max_samples: Option<u32>,
    /// `prefer`, `noselect`, `trust`, `require`.
    pub select: SelectOptions,
    /// `copy`: take on the server's reference ID and stratum, as a part of it.
    pub copy: bool,
    /// `ipv4`, `ipv6`: addresses of one family alone.
    pub family: Option<Family>,
    /// `maxunreach`: polls without answer after which it is not selected, whatever it said before; chrony 4.8.
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
            max_unreach: DEFAULT_MAX_UNREACH,
        }
    }
}

/// Whether a server is asked from the start.
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

/// What selection is told of a source.
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

//--- Selection

/// Whom to believe.
#[derive(Clone, Debug, PartialEq)]
pub struct SelectionSettings {
    /// `minsources`: selectable sources below which the clock is let alone; at least 1.
    pub min_sources: usize,
    /// `maxdistance`: root distance above which a source is of no use.
    pub max_distance: f64,
    /// `maxjitter`: deviation above which it is of none.
    pub max_jitter: f64,
    /// `combinelimit`: distance of combined sources, in distances of the best one; 0 is no combining.
    pub combine_limit: f64,
    /// `reselectdist`: what another source has to be better by.
    pub reselect_distance: f64,
    /// `stratumweight`: distance that a stratum counts for.
    pub stratum_weight: f64,
    /// `authselectmode`.
    pub authentication: AuthSelectMode,
}

impl Default for SelectionSettings {
    fn default() -> Self {
        Self {
            min_sources: 1,
            max_distance: 3.0,
            max_jitter: 1.0,
            combine_limit: 3.0,
            reselect_distance: 1e-4,
            stratum_weight: 1e-3,
            authentication: AuthSelectMode::Mix,
        }
    }
}

/// What authentication is to selection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AuthSelectMode {
    /// Sources without it are not selected.
    Require,
    /// Nor are they if one has it.
    Prefer,
    /// Those with it and reference clocks are required and trusted if there are sources without.
    #[default]
    Mix,
    /// Nothing.
    Ignore,
}

//--- The clock

/// What is done to the clock.
#[derive(Clone, Debug, PartialEq)]
pub struct ClockSettings {
    /// `driftfile`: the frequency, kept between runs.
    pub drift_file: Option<PathBuf>,
    /// `driftfile … interval`: shortest time between two writes of it, in seconds.
    pub drift_file_interval: f64,
    /// `makestep`: when to step; never unless given.
    pub makestep: Option<MakeStep>,
    /// `maxchange`: beyond which the program gives up.
    pub max_change: Option<MaxChange>,
    /// `maxslewrate`, in parts per million; at most 100,000.
    pub max_slew_rate: f64,
    /// `maxdrift`: bound on the frequency, in parts per million.
    pub max_drift: f64,
    /// `maxupdateskew`: skew above which a frequency is not used, in parts per million.
    pub max_update_skew: f64,
    /// `maxclockerror`: by how much the frequency may change on its own, in parts per million.
    pub max_clock_error: f64,
    /// `corrtimeratio`: how long a correction takes, in intervals between corrections.
    pub correction_time_ratio: f64,
    /// `clockprecision` in seconds; measured at start unless given.
    pub precision: Option<f64>,
    /// `rtcsync`: let the kernel copy the time to the real-time clock.
    pub rtcsync: bool,
    /// `fallbackdrift`: intervals, as powers of two in seconds, over which the frequency is averaged for when sources go.
    pub fallback_drift: Option<FallbackDrift>,
    /// `smoothtime`: what clients are served changes slowly.
    pub smoothtime: Option<SmoothTime>,
    /// `tempcomp`: frequency by temperature.
    pub temperature: Option<TemperatureCompensation>,
    /// `logchange`: corrections above this, in seconds, are worth a line.
    pub log_change: f64,
}

impl Default for ClockSettings {
    fn default() -> Self {
        Self {
            drift_file: None,
            drift_file_interval: 3600.0,
            makestep: None,
            max_change: None,
            max_slew_rate: 1e6 / 12.0,
            max_drift: 500_000.0,
            max_update_skew: 1000.0,
            max_clock_error: 1.0,
            correction_time_ratio: 3.0,
            precision: None,
            rtcsync: false,
            fallback_drift: None,
            smoothtime: None,
            temperature: None,
            log_change: 1.0,
        }
    }
}

/// When to step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MakeStep {
    /// Corrections above this many seconds.
    pub threshold: f64,
    /// In so many updates of the clock; `None` is always.
    pub limit: Option<u32>,
}

/// When to give up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MaxChange {
    /// A correction above this many seconds.
    pub offset: f64,
    /// After so many updates of the clock.
    pub delay: u32,
    /// So many are passed over before; `None` is all of them.
    pub ignore: Option<u32>,
}

/// Intervals over which the frequency is averaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FallbackDrift {
    /// The shortest, as a power of two in seconds.
    pub min: i8,
    /// The longest.
    pub max: i8,
}

/// How slowly served time changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SmoothTime {
    /// Frequency offset, in parts per million.
    pub max_frequency: f64,
    /// Change of frequency, in parts per million and second.
    pub max_wander: f64,
    /// For leap seconds alone.
    pub leap_only: bool,
}

/// Frequency by temperature.
#[derive(Clone, Debug, PartialEq)]
pub struct TemperatureCompensation {
    /// Where the temperature is read.
    pub file: PathBuf,
    /// How often, in seconds.
    pub interval: f64,
    /// What follows from it.
    pub law: TemperatureLaw,
}

/// Frequency, in parts per million, by the number that is read.
#[derive(Clone, Debug, PartialEq)]
pub enum TemperatureLaw {
    /// k0 + (t − t0)·k1 + (t − t0)²·k2.
    Quadratic {
        /// t0
        t0: f64,
        /// k0
        k0: f64,
        /// k1
        k1: f64,
        /// k2
        k2: f64,
    },
    /// Points of a file.
    Points(PathBuf),
}

/// Leap seconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeapSettings {
    /// `leapsectz`: the name of a time zone with leap seconds.
    pub time_zone: Option<String>,
    /// `leapseclist`: a file in the form of the IERS.
    pub list: Option<PathBuf>,
    /// `leapsecmode`.
    pub mode: LeapMode,
}

/// Who inserts a leap second, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LeapMode {
    /// The kernel.
    #[default]
    System,
    /// This program, in one step.
    Step,
    /// This program, by slewing once it has passed.
    Slew,
    /// The clock is corrected as for any other offset.
    Ignore,
}

/// Give the own time when there is no other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Local {
    /// As this stratum; from 1 to 15.
    pub stratum: u8,
    /// `distance`: once the root distance is above, in seconds.
    pub distance: f64,
    /// `orphan`: one of several that name each other leads, that with the smallest reference ID.
    pub orphan: bool,
    /// `activate`: not before the root distance was below this; 0 is at once.
    pub activate: f64,
    /// `waitsynced`: seconds without update before it is used, once the clock was synchronised.
    pub wait_synchronised: f64,
    /// `waitunsynced`: the same while it never was.
    pub wait_unsynchronised: f64,
}

impl Default for Local {
    fn default() -> Self {
        Self {
            stratum: 10,
            distance: 1.0,
            orphan: false,
            activate: 0.0,
            wait_synchronised: 0.0,
            wait_unsynchronised: 0.0,
        }
    }
}

//--- Client and server

/// How servers are asked, all of them.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientSettings {
    /// `acquisitionport`: one port for all requests (0: of the system's choice); `None` is a fresh one for each.
    pub port: Option<u16>,
    /// `bindacqaddress`: where requests come from, one of each family.
    pub bind_addresses: Vec<IpAddr>,
    /// `bindacqdevice`.
    pub bind_device: Option<String>,
    /// `dscp` of requests and responses.
    pub dscp: u8,
    /// `minsamples`.
    pub min_samples: u32,
    /// `maxsamples`; `None` is as many as there is room for.
    pub max_samples: Option<u32>,
    /// `hwtimestamp`.
    pub hardware_stamps: Vec<HardwareStamps>,
}

impl Default for ClientSettings {
    fn default() -> Self {
        Self {
            port: None,
            bind_addresses: Vec::new(),
            bind_device: None,
            dscp: 0,
            min_samples: 6,
            max_samples: None,
            hardware_stamps: Vec::new(),
        }
    }
}

/// `hwtimestamp` of one interface.
#[derive(Clone, Debug, PartialEq)]
pub struct HardwareStamps {
    /// Its name; `*` is every one.
    pub interface: String,
    /// `minpoll`: how often its clock is read, as a power of two in seconds.
    pub minpoll: i8,
    /// `maxpoll`: how seldom it may be read; chrony 4.4.
    pub maxpoll: Option<i8>,
    /// `minsamples`.
    pub min_samples: u32,
    /// `maxsamples`.
    pub max_samples: u32,
    /// `precision` in seconds.
    pub precision: f64,
    /// `txcomp`: what is added to stamps of sending, in seconds.
    pub transmit_compensation: f64,
    /// `rxcomp`: what is taken from stamps of arrival, in seconds.
    pub receive_compensation: f64,
    /// `nocrossts`: do not use the card's own way to read both clocks.
    pub no_cross: bool,
    /// `rxfilter`: what the card stamps.
    pub filter: ReceiveFilter,
}

impl HardwareStamps {
    /// With what is usual.
    #[must_use]
    pub fn new(interface: &str) -> Self {
        Self {
            interface: interface.to_owned(),
            minpoll: 0,
            maxpoll: None,
            min_samples: 2,
            max_samples: 16,
            precision: 100e-9,
            transmit_compensation: 0.0,
            receive_compensation: 0.0,
            no_cross: false,
            filter: ReceiveFilter::Any,
        }
    }
}

/// What a network card stamps on arrival.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReceiveFilter {
    /// The most specific of what it can.
    #[default]
    Any,
    /// Nothing.
    None,
    /// NTP.
    Ntp,
    /// PTP.
    Ptp,
    /// All packets.
    All,
}

/// How clients are answered.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerSettings {
    /// `port`; 0 is none.
    pub port: u16,
    /// `bindaddress`, one of each family in chrony; every address of the node if there is none.
    pub bind_addresses: Vec<IpAddr>,
    /// `binddevice`.
    pub bind_device: Option<String>,
    /// `allow` and `deny`, in order; nobody is answered without.
    pub access: Vec<AccessRule>,
    /// `ratelimit`.
    pub rate_limit: Option<RateLimit>,
    /// `clientloglimit`: octets for what is remembered of clients.
    pub client_log_limit: u64,
    /// `noclientlog`: nothing is remembered of clients.
    pub no_client_log: bool,
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            port: 123,
            bind_addresses: Vec::new(),
            bind_device: None,
            access: Vec::new(),
            rate_limit: None,
            client_log_limit: 524_288,
            no_client_log: false,
        }
    }
}

impl ServerSettings {
    /// Whether anybody may be answered at all: without `allow` no port is opened, as chrony has it.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.port != 0 && self.access.iter().any(|rule| rule.allow)
    }
}

/// A line of an access list. The most specific network decides; of the same one, the last line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessRule {
    /// `allow`, not `deny`.
    pub allow: bool,
    /// `all`: what more specific lines before it said is forgotten.
    pub all: bool,
    /// For whom.
    pub whom: Whom,
}

/// For whom a line of an access list is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whom {
    /// Everybody, over IPv4 and IPv6.
    Everybody,
    /// A network or an address.
    Network(IpNet),
    /// The addresses of a name, resolved at start.
    Name(String),
}

/// How often one address is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// `interval` between answers, as a power of two in seconds.
    pub interval: i8,
    /// `burst`: answers at once.
    pub burst: u32,
    /// `leak`: of what is above the limit, one in two to the power of this is answered.
    pub leak: u32,
    /// `kod`: of what is above the limit, one in two to the power of this gets a kiss-o'-death (RFC 5905 §7.4); 0 is never.
    pub kod: u32,
}

impl Default for RateLimit {
    /// Of NTP.
    fn default() -> Self {
        Self {
            interval: 3,
            burst: 8,
            leak: 2,
            kod: 0,
        }
    }
}

impl RateLimit {
    /// `cmdratelimit`'s.
    pub const COMMANDS: Self = Self {
        interval: -4,
        burst: 8,
        leak: 2,
        kod: 0,
    };
}

//--- Commands, logs, process

/// chronyc's protocol.
#[derive(Clone, Debug, PartialEq)]
pub struct CommandSettings {
    /// `cmdport`; 0 is none.
    pub port: u16,
    /// `bindcmdaddress` with an address, one of each family in chrony; loopback if there is none.
    pub bind_addresses: Vec<IpAddr>,
    /// `bindcmdaddress` with a path: the socket where commands are taken; `None` is none.
    pub socket: Option<PathBuf>,
    /// `bindcmddevice`.
    pub bind_device: Option<String>,
    /// `cmdallow` and `cmddeny`, in order; the own node always may.
    pub access: Vec<AccessRule>,
    /// `cmdratelimit`.
    pub rate_limit: Option<RateLimit>,
    /// `opencommands`: the reports that are given over UDP, by chronyc's names; chrony 4.7.
    pub open: Vec<String>,
    /// `manual`: chronyc's `settime` is allowed.
    pub manual: bool,
}

impl CommandSettings {
    /// Where datagrams are listened for.
    #[must_use]
    pub fn listen(&self) -> Vec<SocketAddr> {
        if self.port == 0 {
            return Vec::new();
        }
        let of_family = |is_v4: bool, default: IpAddr| {
            let given = self.bind_addresses.iter().copied();
            let given: Vec<IpAddr> = given.filter(|a| a.is_ipv4() == is_v4).collect();
            if given.is_empty() {
                vec![default]
            } else {
                given
            }
        };
        let v4 = of_family(true, std::net::Ipv4Addr::LOCALHOST.into());
        let v6 = of_family(false, std::net::Ipv6Addr::LOCALHOST.into());
        v4.into_iter()
            .chain(v6)
            .map(|address| SocketAddr::new(address, self.port))
            .collect()
    }
}

/// The reports that are given over UDP unless the configuration says otherwise: those of chrony 4.3.
pub const OPEN_COMMANDS: [&str; 8] = [
    "activity",
    "manual",
    "rtcdata",
    "smoothing",
    "sourcename",
    "sources",
    "sourcestats",
    "tracking",
];

/// Where chronyc looks for the socket.
pub const DEFAULT_COMMAND_SOCKET: &str = "/run/chrony/chronyd.sock";

impl Default for CommandSettings {
    fn default() -> Self {
        Self {
            port: 323,
            bind_addresses: Vec::new(),
            socket: Some(DEFAULT_COMMAND_SOCKET.into()),
            bind_device: None,
            access: Vec::new(),
            rate_limit: None,
            open: OPEN_COMMANDS.map(str::to_owned).to_vec(),
            manual: false,
        }
    }
}

/// Files of what happened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a word of its own in the configuration"
)]
pub struct LogSettings {
    /// `logdir`: where; nothing is written without.
    pub directory: Option<PathBuf>,
    /// `logbanner`: lines between headings; 0 is no heading.
    pub banner: u32,
    /// `rawmeasurements`: every response.
    pub raw_measurements: bool,
    /// `measurements`: every sample.
    pub measurements: bool,
    /// `selection`.
    pub selection: bool,
    /// `statistics`: every update of a source's estimate.
    pub statistics: bool,
    /// `tracking`: every update of the clock.
    pub tracking: bool,
    /// `rtc`.
    pub rtc: bool,
    /// `refclocks`.
    pub refclocks: bool,
    /// `tempcomp`.
    pub temperature: bool,
}

impl Default for LogSettings {
    fn default() -> Self {
        Self {
            directory: None,
            banner: 32,
            raw_measurements: false,
            measurements: false,
            selection: false,
            statistics: false,
            tracking: false,
            rtc: false,
            refclocks: false,
            temperature: false,
        }
    }
}
