//! Clocks of this machine.

use std::path::PathBuf;

use super::{PtpSettings, SelectOptions};

/// A clock of this machine.
#[derive(Clone, Debug, PartialEq)]
pub struct RefclockSettings {
    /// How it is read.
    pub driver: RefclockDriver,
    /// How its samples are weighed.
    pub options: RefclockOptions,
}

impl RefclockSettings {
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

/// How a reference clock is read.
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
        /// `perm`: its permissions.
        mode: u32,
    },
    /// `SOCK`: a socket that another program writes to.
    Sock {
        /// Its path.
        path: PathBuf,
    },
    /// `PPS`: pulses that the kernel stamps.
    Pps {
        /// Their device.
        device: PathBuf,
        /// `clear`: falling edges.
        clear: bool,
    },
    /// The state of ptp4l's clock, over its management socket; no driver of chrony.
    Ptp4l {
        /// The socket of ptp4l.
        socket: PathBuf,
        /// The domain.
        domain: u8,
    },
    /// A grandmaster of PTP, which this node follows by itself (`[[ptp]]`); no driver of chrony.
    Ptp(PtpSettings),
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
    /// `extpps`: it timestamps pulses; with `pin`, `channel` and `clear`.
    pub external_pulses: Option<ExternalPulses>,
}

/// Pulses that a PTP hardware clock stamps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExternalPulses {
    /// `pin`; −1 if there is nothing to set up.
    pub pin: i32,
    /// `channel`.
    pub channel: u32,
    /// `clear`: falling edges.
    pub clear: bool,
}

/// How samples of a reference clock are weighed.
#[derive(Clone, Debug, PartialEq)]
pub struct RefclockOptions {
    /// `refid`; made from the driver and the number of the clock unless given.
    pub reference_id: u32,
    /// `poll`: how often samples are made to one, as a power of two in seconds.
    pub poll: i8,
    /// `dpoll`: the poll interval of the driver, as a power of two in seconds.
    pub driver_poll: i8,
    /// `filter`: samples that are made to one, at most.
    pub filter: u32,
    /// `lock`: the clock that counts the seconds of this one's pulses.
    pub lock: Option<u32>,
    /// `rate` of pulses, in hertz.
    pub rate: u32,
    /// `maxlockage`: pulses that a sample of that clock may be old.
    pub max_lock_age: u32,
    /// `width` of pulses, in seconds; if given, edges of the other kind are left out.
    pub width: f64,
    /// `pps`: its seconds are not to be trusted.
    pub pulses: bool,
    /// `offset`, in seconds, added to every sample.
    pub offset: f64,
    /// `delay`, in seconds.
    pub delay: f64,
    /// `stratum`.
    pub stratum: u8,
    /// `precision`, in seconds; the clock's own unless given.
    pub precision: Option<f64>,
    /// `maxdispersion`, in seconds.
    pub max_dispersion: Option<f64>,
    /// `tai`: it keeps TAI.
    pub tai: bool,
    /// `local`: it is steady, and not right. It is shown and never followed; chronyd would steady the clock by it.
    pub local: bool,
    /// `minsamples`: does nothing.
    pub min_samples: Option<u32>,
    /// `maxsamples`.
    pub max_samples: Option<u32>,
    /// `maxunreach`: does nothing, since it is not selected after eight polls without sample; chrony 4.8.
    pub max_unreach: u32,
    /// `prefer`, `noselect`, `trust`, `require`.
    pub select: SelectOptions,
}

impl Default for RefclockOptions {
    fn default() -> Self {
        Self {
            reference_id: 0,
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
            max_unreach: super::DEFAULT_MAX_UNREACH,
            select: SelectOptions::default(),
        }
    }
}

/// A reference ID of up to four letters that can be printed (RFC 5905 §7.3).
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

/// The path at which ptp4l answers management messages that change nothing.
pub const DEFAULT_PTP_SOCKET: &str = "/var/run/ptp4lro";

/// Three letters of the driver and the number of the clock, as chronyd has it.
#[must_use]
pub fn default_id(driver: &str, index: usize) -> u32 {
    let letters: String = driver.chars().take(3).collect();
    reference_id(&format!("{letters}{}", index % 10)).unwrap_or_default()
}
