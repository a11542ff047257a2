//! `[[refclock]]` and `[[ptp]]`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{DEFAULT_MAX_UNREACH, Number, Poll, Samples, SelectOptions};
use crate::{As, Form, LONGEST_SPAN, Seconds, Whole};
use config_toml::as_text;

/// The path at which ptp4l answers management messages that change nothing.
pub const DEFAULT_PTP_SOCKET: &str = "/var/run/ptp4lro";

/// One second, in nanoseconds.
const SECOND: i64 = 1_000_000_000;

/// The kind of a reference clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum Driver {
    /// The clock of a NIC (PTP hardware clock).
    #[default]
    #[serde(alias = "phc")]
    Phc,
    /// Pulses that the kernel timestamps.
    #[serde(alias = "pps")]
    Pps,
    /// A shared memory segment of gpsd or another program.
    #[serde(alias = "shm")]
    Shm,
    /// A socket that another program writes to.
    #[serde(alias = "sock")]
    Sock,
    /// Measurements of ptp4l, from its management socket; no driver of chrony.
    #[serde(alias = "ptp4l")]
    Ptp4l,
}

impl Driver {
    /// The word in the file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Phc => "PHC",
            Self::Pps => "PPS",
            Self::Shm => "SHM",
            Self::Sock => "SOCK",
            Self::Ptp4l => "PTP4L",
        }
    }
}

/// A clock of this node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(extend("required" = ["driver"]))]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a key of its own in the file"
)]
pub struct Refclock {
    /// The kind of the clock.
    pub driver: Driver,
    /// `PHC`, `PPS`: the device, such as `/dev/ptp0`.
    pub device: Option<PathBuf>,
    /// `PHC`: whether timesync-agent reads the NIC's clock and the system's one after the other, without cross timestamps.
    #[serde(rename = "nocrossts")]
    pub no_cross: bool,
    /// `PHC`: pulses on a pin that the NIC timestamps, instead of the time of its clock. They need a `dpoll` of 3 at most.
    #[serde(rename = "extpps")]
    pub external_pulses: Option<ExternalPulses>,
    /// `PPS`, and `PHC` with `extpps`: the falling edge counts.
    pub clear: bool,
    /// `SHM`: the number of the segment.
    #[serde(with = "As::<Option<Number>>")]
    pub segment: Option<u32>,
    /// `SHM`: the permissions of the segment, in octal. Default: `0600`.
    #[serde(with = "As::<Option<Permissions>>")]
    pub perm: Option<u32>,
    /// `SOCK`: the path of the socket.
    pub path: Option<PathBuf>,
    /// `PTP4L`: the management socket. Default: `/var/run/ptp4lro`.
    pub socket: Option<PathBuf>,
    /// `PTP4L`: the domain.
    pub domain: u8,
    /// Its name in chronyc and for `lock`, of up to four letters. Default: three letters of its driver and its number.
    #[serde(rename = "refid", with = "As::<Option<ReferenceId>>")]
    pub reference_id: Option<u32>,
    /// The interval of samples, as a power of two in seconds.
    #[serde(with = "As::<Poll>")]
    pub poll: i8,
    /// The interval at which the clock is read for them, as a power of two in seconds.
    #[serde(rename = "dpoll", with = "As::<Poll>")]
    pub driver_poll: i8,
    /// The largest number of readings that make a sample.
    #[serde(with = "As::<Samples<1>>")]
    pub filter: u32,
    /// The reference clock that numbers the seconds of the pulses.
    #[serde(with = "As::<Option<ReferenceId>>")]
    pub lock: Option<u32>,
    /// The rate of the pulses, in hertz.
    #[serde(with = "As::<Whole<u32, 1, 1000>>")]
    pub rate: u32,
    /// The largest age of a sample of that clock, in pulses.
    #[serde(rename = "maxlockage", with = "As::<Number>")]
    pub max_lock_age: u32,
    /// The length of a pulse if both of its edges arrive: the later edge is ignored. Half of the distance of pulses is best.
    #[serde(with = "As::<Seconds<0, SECOND>>")]
    pub width: f64,
    /// Whether only its fractions of a second are right.
    #[serde(rename = "pps")]
    pub pulses: bool,
    /// A correction that timesync-agent adds to each sample.
    #[serde(with = "As::<Seconds<{ -LONGEST_SPAN }>>")]
    pub offset: f64,
    /// The delay of the clock, which is its uncertainty.
    #[serde(with = "As::<Seconds>")]
    pub delay: f64,
    /// The stratum of the clock.
    #[serde(with = "As::<Whole<u8, 0, 15>>")]
    pub stratum: u8,
    /// The precision of the clock. Default: 1 us for `SHM`, else 1 ns.
    #[serde(with = "As::<Option<Seconds<1, SECOND>>>")]
    pub precision: Option<f64>,
    /// Samples with a larger dispersion are not used.
    #[serde(rename = "maxdispersion", with = "As::<Option<Seconds>>")]
    pub max_dispersion: Option<f64>,
    /// Whether the clock has TAI instead of UTC.
    pub tai: bool,
    /// Whether the clock is stable but not correct: timesync-agent shows it, and never follows it.
    pub local: bool,
    /// Accepted, and does nothing.
    #[serde(rename = "minsamples", with = "As::<Option<Samples<0>>>")]
    pub min_samples: Option<u32>,
    /// The largest number of samples to remember. Default: that of `[client]`.
    #[serde(rename = "maxsamples", with = "As::<Option<Samples<1>>>")]
    pub max_samples: Option<u32>,
    /// Accepted, and does nothing: a clock that was silent eight times in a row is not selected.
    #[serde(rename = "maxunreach", with = "As::<Number>")]
    pub max_unreach: u32,
    /// Whether timesync-agent never follows it.
    pub noselect: bool,
    /// Whether timesync-agent prefers it to others.
    pub prefer: bool,
    /// Whether it is always right, unless another trusted source disagrees.
    pub trust: bool,
    /// Whether timesync-agent does not correct the clock without it.
    pub require: bool,
}

impl Default for Refclock {
    fn default() -> Self {
        Self {
            driver: Driver::default(),
            device: None,
            no_cross: false,
            external_pulses: None,
            clear: false,
            segment: None,
            perm: None,
            path: None,
            socket: None,
            domain: 0,
            reference_id: None,
            poll: 4,
            driver_poll: 0,
            filter: 64,
            lock: None,
            rate: 1,
            max_lock_age: 2,
            width: 0.0,
            pulses: false,
            offset: 0.0,
            delay: 1e-9,
            stratum: 0,
            precision: None,
            max_dispersion: None,
            tai: false,
            local: false,
            min_samples: None,
            max_samples: None,
            max_unreach: DEFAULT_MAX_UNREACH,
            noselect: false,
            prefer: false,
            trust: false,
            require: false,
        }
    }
}

impl Refclock {
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

/// Pulses that a PTP hardware clock timestamps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct ExternalPulses {
    /// The pin; -1 is a pin that is already set up.
    #[serde(with = "As::<Whole<i32, -1, 1000>>")]
    pub pin: i32,
    /// The channel.
    #[serde(with = "As::<Whole<u32, 0, 1000>>")]
    pub channel: u32,
    /// Whether falling edges count: the clock's `clear`.
    #[serde(skip)]
    pub clear: bool,
}

//--- PTP

/// A PTP ordinary clock (IEEE 1588), which never becomes a master.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(extend("required" = ["interface"]))]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a key of its own in the file"
)]
pub struct Ptp {
    /// The network interface.
    pub interface: String,
    /// The transport of messages.
    pub transport: PtpTransport,
    /// The source of timestamps.
    #[serde(rename = "timestamps")]
    pub stamps: PtpStamps,
    /// The domain; timesync-agent ignores others.
    pub domain: u8,
    /// The way in which the delay of the path is measured.
    pub delay: PtpDelay,
    /// The interval at which it is measured, as a power of two in seconds.
    #[serde(with = "As::<Poll>")]
    pub delay_interval: i8,
    /// The interval of Announce messages in the domain, as a power of two in seconds.
    #[serde(with = "As::<Poll>")]
    pub announce_interval: i8,
    /// The number of intervals without an Announce message after which the grandmaster is gone.
    #[serde(with = "As::<Whole<u8, 2, 255>>")]
    pub announce_timeout: u8,
    /// How much longer the path from the grandmaster is than the mean of both directions.
    #[serde(with = "As::<Seconds<{ -SECOND }, SECOND>>")]
    pub asymmetry: f64,
    /// TAI − UTC in seconds, if the grandmaster does not announce it. Without it, such a grandmaster is of no use unless leap
    /// seconds are known from elsewhere.
    #[serde(with = "As::<Option<Whole<i32, -1000, 1000>>>")]
    pub utc_offset: Option<i32>,
    /// As of `[[refclock]]`. Default: `PTP` and its number.
    #[serde(rename = "refid", with = "As::<Option<ReferenceId>>")]
    pub reference_id: Option<u32>,
    /// The interval of samples, as a power of two in seconds.
    #[serde(with = "As::<Poll>")]
    pub poll: i8,
    /// The interval at which measurements are taken for them, as a power of two in seconds.
    #[serde(rename = "dpoll", with = "As::<Poll>")]
    pub driver_poll: i8,
    /// The largest number of measurements that make a sample.
    #[serde(with = "As::<Samples<1>>")]
    pub filter: u32,
    /// A correction that timesync-agent adds to each sample.
    #[serde(with = "As::<Seconds<{ -LONGEST_SPAN }>>")]
    pub offset: f64,
    /// The stratum of the clock.
    #[serde(with = "As::<Whole<u8, 0, 15>>")]
    pub stratum: u8,
    /// The precision of the clock. Default: 1 ns.
    #[serde(with = "As::<Option<Seconds<1, SECOND>>>")]
    pub precision: Option<f64>,
    /// Whether timesync-agent never follows it.
    pub noselect: bool,
    /// Whether timesync-agent prefers it to others.
    pub prefer: bool,
    /// Whether it is always right, unless another trusted source disagrees.
    pub trust: bool,
    /// Whether timesync-agent does not correct the clock without it.
    pub require: bool,
}

impl Default for Ptp {
    /// The defaults of IEEE 1588 annex I.3 (the Delay Request-Response default profile), over UDP.
    fn default() -> Self {
        let clock = Refclock::default();
        Self {
            interface: String::new(),
            transport: PtpTransport::default(),
            stamps: PtpStamps::default(),
            domain: 0,
            delay: PtpDelay::default(),
            delay_interval: 0,
            announce_interval: 1,
            announce_timeout: 3,
            asymmetry: 0.0,
            utc_offset: None,
            reference_id: None,
            poll: clock.poll,
            driver_poll: clock.driver_poll,
            filter: clock.filter,
            offset: 0.0,
            stratum: 0,
            precision: None,
            noselect: false,
            prefer: false,
            trust: false,
            require: false,
        }
    }
}

impl Ptp {
    /// A clock with the defaults.
    #[must_use]
    pub fn new(interface: &str) -> Self {
        Self {
            interface: interface.to_owned(),
            ..Self::default()
        }
    }

    /// The keys that it shares with other reference clocks.
    fn refclock(&self) -> Refclock {
        Refclock {
            reference_id: self.reference_id,
            poll: self.poll,
            driver_poll: self.driver_poll,
            filter: self.filter,
            offset: self.offset,
            stratum: self.stratum,
            precision: self.precision,
            noselect: self.noselect,
            prefer: self.prefer,
            trust: self.trust,
            require: self.require,
            ..Refclock::default()
        }
    }
}

/// The transport of PTP messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PtpTransport {
    /// UDP over IPv4 (annex C): ports 319 and 320, 224.0.1.129 and 224.0.0.107.
    #[default]
    #[serde(rename = "udp")]
    Ipv4,
    /// Ethernet (annex E): type 0x88f7.
    #[serde(rename = "ethernet")]
    Ethernet,
}

/// The source of timestamps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PtpStamps {
    /// The NIC where it has a clock, else the kernel.
    #[default]
    Best,
    /// The kernel.
    Software,
    /// The NIC, or none.
    Hardware,
}

/// The way in which the delay of the path is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PtpDelay {
    /// Delay request-response, to the grandmaster and back (§11.3).
    #[default]
    #[serde(rename = "e2e")]
    EndToEnd,
    /// Peer-to-peer, of this link; the network adds the rest (§11.4).
    #[serde(rename = "p2p")]
    PeerToPeer,
}

//--- As the program has them

/// A clock of this node, as the program has it.
#[derive(Clone, Debug, PartialEq)]
pub struct RefclockSettings {
    /// How it is read.
    pub driver: RefclockDriver,
    /// Its name.
    pub reference_id: u32,
    /// The keys of the file.
    pub options: Refclock,
}

impl RefclockSettings {
    /// The clock at a place of the list of all.
    #[must_use]
    pub fn new(driver: RefclockDriver, options: Refclock, index: usize) -> Self {
        let default = || default_id(driver.name(), index);
        Self {
            reference_id: options.reference_id.unwrap_or_else(default),
            driver,
            options,
        }
    }

    /// A clock of the file.
    ///
    /// # Errors
    /// The key that its driver needs and that is missing.
    pub fn of(clock: &Refclock, index: usize) -> Result<Self, &'static str> {
        let device = || clock.device.clone().ok_or("device");
        let driver = match clock.driver {
            Driver::Phc => RefclockDriver::Phc {
                device: device()?,
                options: PhcOptions {
                    no_cross: clock.no_cross,
                    external_pulses: clock.external_pulses.map(|pulses| ExternalPulses {
                        clear: clock.clear,
                        ..pulses
                    }),
                },
            },
            Driver::Pps => RefclockDriver::Pps {
                device: device()?,
                clear: clock.clear,
            },
            Driver::Shm => RefclockDriver::Shm {
                segment: clock.segment.ok_or("segment")?,
                mode: clock.perm.unwrap_or(Permissions::DEFAULT),
            },
            Driver::Sock => RefclockDriver::Sock {
                path: clock.path.clone().ok_or("path")?,
            },
            Driver::Ptp4l => RefclockDriver::Ptp4l {
                socket: clock
                    .socket
                    .clone()
                    .unwrap_or_else(|| DEFAULT_PTP_SOCKET.into()),
                domain: clock.domain,
            },
        };
        Ok(Self::new(driver, clock.clone(), index))
    }

    /// A PTP clock of the file.
    #[must_use]
    pub fn ptp(ptp: &Ptp, index: usize) -> Self {
        Self::new(RefclockDriver::Ptp(ptp.clone()), ptp.refclock(), index)
    }

    /// `precision`, or the driver's own, in seconds.
    #[must_use]
    pub fn precision(&self) -> f64 {
        self.options.precision.unwrap_or(match self.driver {
            // A microsecond is what its writers have, most of them.
            RefclockDriver::Shm { .. } => 1e-6,
            RefclockDriver::Phc { .. }
            | RefclockDriver::Sock { .. }
            | RefclockDriver::Pps { .. }
            | RefclockDriver::Ptp4l { .. }
            | RefclockDriver::Ptp(_) => 1e-9,
        })
    }
}

/// A driver with its parameters.
#[derive(Clone, Debug, PartialEq)]
pub enum RefclockDriver {
    /// `PHC`: a PTP hardware clock.
    Phc {
        /// Its device.
        device: PathBuf,
        /// More of it.
        options: PhcOptions,
    },
    /// `SHM`: shared memory that another program writes to.
    Shm {
        /// Number of the segment; its key is this and 0x4e545030.
        segment: u32,
        /// Its permissions.
        mode: u32,
    },
    /// `SOCK`: a socket that another program writes to.
    Sock {
        /// Its path.
        path: PathBuf,
    },
    /// `PPS`: pulses that the kernel timestamps.
    Pps {
        /// Their device.
        device: PathBuf,
        /// Falling edges.
        clear: bool,
    },
    /// The state of ptp4l's clock, over its management socket.
    Ptp4l {
        /// The socket of ptp4l.
        socket: PathBuf,
        /// The domain.
        domain: u8,
    },
    /// A grandmaster of PTP, which this node itself follows.
    Ptp(Ptp),
}

impl RefclockDriver {
    /// chrony's name of it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Phc { .. } => "PHC",
            Self::Shm { .. } => "SHM",
            Self::Sock { .. } => "SOCK",
            Self::Pps { .. } => "PPS",
            Self::Ptp4l { .. } => "PTP4L",
            Self::Ptp(_) => "PTP",
        }
    }
}

/// More of a PTP hardware clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PhcOptions {
    /// `nocrossts`: do not use its own way to read both clocks.
    pub no_cross: bool,
    /// `extpps`: it timestamps pulses.
    pub external_pulses: Option<ExternalPulses>,
}

//--- Texts

/// A reference ID of up to four letters that can be printed (RFC 5905 §7.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReferenceId(pub u32);

/// A text that is no reference ID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a refid has one to four letters")]
pub struct ReferenceIdError;

impl FromStr for ReferenceId {
    type Err = ReferenceIdError;

    fn from_str(text: &str) -> Result<Self, ReferenceIdError> {
        reference_id(text).map(Self).ok_or(ReferenceIdError)
    }
}

impl fmt::Display for ReferenceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&reference_id_text(self.0))
    }
}

impl Form<u32> for ReferenceId {
    fn value(self) -> u32 {
        self.0
    }

    fn of(value: &u32) -> Self {
        Self(*value)
    }
}

as_text!(ReferenceId, "a text of one to four letters");

/// The number of a reference ID.
#[must_use]
pub fn reference_id(text: &str) -> Option<u32> {
    let letters = text.as_bytes();
    if letters.is_empty() || letters.len() > 4 || !letters.iter().all(u8::is_ascii_graphic) {
        return None;
    }
    let mut id = [0; 4];
    id.get_mut(..letters.len())?.copy_from_slice(letters);
    Some(u32::from_be_bytes(id))
}

/// Its letters; without those that cannot be printed, as chronyc does.
#[must_use]
pub fn reference_id_text(id: u32) -> String {
    id.to_be_bytes()
        .into_iter()
        .filter(u8::is_ascii_graphic)
        .map(char::from)
        .collect()
}

/// Three letters of the driver and the number of the clock, as chronyd has it.
#[must_use]
pub fn default_id(driver: &str, index: usize) -> u32 {
    let letters: String = driver.chars().take(3).collect();
    reference_id(&format!("{letters}{}", index % 10)).unwrap_or_default()
}

/// Permissions, in octal: `"0600"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permissions(pub u32);

/// A text that is no octal number of permissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("permissions are octal, as in \"0600\"")]
pub struct PermissionsError;

impl Permissions {
    /// Those of a shared memory segment unless given.
    pub const DEFAULT: u32 = 0o600;
}

impl FromStr for Permissions {
    type Err = PermissionsError;

    fn from_str(text: &str) -> Result<Self, PermissionsError> {
        match u32::from_str_radix(text, 8) {
            Ok(mode) if mode <= 0o777 => Ok(Self(mode)),
            _ => Err(PermissionsError),
        }
    }
}

impl fmt::Display for Permissions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04o}", self.0)
    }
}

impl Form<u32> for Permissions {
    fn value(self) -> u32 {
        self.0
    }

    fn of(value: &u32) -> Self {
        Self(*value)
    }
}

as_text!(Permissions, "permissions in octal, as in \"0600\"");
