//! The settings of the program: every value in it is legal, and options that are not given have chrony 4.3's default.
//!
//! Both ways to write a configuration, TOML and chrony.conf, end here. Spans, delays and distances are in seconds and
//! frequencies in parts per million (as chrony's are), polls are powers of two in seconds. Offsets are positive if the local clock is slow.

mod client;
mod clock;
mod commands;
mod logs;
mod ptp;
mod refclock;
mod selection;
mod server;
mod source;

use std::path::PathBuf;

pub use client::{ClientSettings, HardwareStamps, ReceiveFilter};
pub use clock::{
    ClockSettings, FallbackDrift, LeapMode, LeapSettings, Local, MakeStep, MaxChange, SmoothTime,
    TemperatureCompensation, TemperatureLaw,
};
pub use commands::{CommandSettings, DEFAULT_COMMAND_SOCKET, OPEN_COMMANDS};
pub use logs::LogSettings;
pub use ptp::{PtpDelay, PtpSettings, PtpStamps, PtpTransport};
pub use refclock::{
    DEFAULT_PTP_SOCKET, ExternalPulses, PhcOptions, RefclockDriver, RefclockOptions,
    RefclockSettings, default_id, reference_id, reference_id_text,
};
pub use selection::{AuthSelectMode, SelectionSettings};
pub use server::{AccessRule, ClientMatch, RateLimit, ServerSettings};
pub use source::{
    Connectivity, DEFAULT_MAX_UNREACH, DEFAULT_POOL_SOURCES, Family, Host, MAX_POLL,
    MAX_POOL_SOURCES, MAX_STRATUM, MAX_SUBSECOND_DELAY, MIN_POLL, SelectOptions, SourceOptions,
    SourceSettings,
};

/// Everything.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// Servers and pools, in the order of the configuration.
    pub sources: Vec<SourceSettings>,
    /// Clocks of this machine.
    pub refclocks: Vec<RefclockSettings>,
    /// `sourcedir`: directories of `*.sources` files, read again on `reload sources`. Their sources stand in `sources`, too.
    pub source_directories: Vec<PathBuf>,
    /// Selection of sources.
    pub selection: SelectionSettings,
    /// The clock discipline.
    pub clock: ClockSettings,
    /// Leap seconds.
    pub leap: LeapSettings,
    /// `local`: give the own time when there is no other.
    pub local: Option<Local>,
    /// The polling of servers.
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
