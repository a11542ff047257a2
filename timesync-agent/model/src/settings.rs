//! The settings of the program: the tables of the configuration, and its sources and clocks in one order each.
//!
//! Every key, with its meaning, default and range, is in [`config::timesync_agent`]; the names here are those of the cores.

use std::path::PathBuf;

use config::timesync_agent::TimesyncAgent;

use crate::time::UnixTime;

pub use config::timesync_agent::{
    AccessRule, AuthSelectMode, Client as ClientSettings, ClientMatch, Clock as ClockSettings,
    CommandSocket, Commands as CommandSettings, Connectivity, DEFAULT_COMMAND_SOCKET,
    DEFAULT_MAX_UNREACH, DEFAULT_POOL_SOURCES, DEFAULT_PTP_SOCKET, ExternalPulses, FallbackDrift,
    Family, HardwareStamps, Host, Leap as LeapSettings, LeapMode, Local, LogFile,
    Logs as LogSettings, MAX_POLL, MAX_POOL_SOURCES, MAX_SAMPLES, MAX_STRATUM, MAX_SUBSECOND_DELAY,
    MIN_POLL, MakeStep, MaxChange, OPEN_COMMANDS, PhcOptions, Ptp as PtpSettings, PtpDelay,
    PtpStamps, PtpTransport, RateLimit, ReceiveFilter, Refclock as RefclockOptions, RefclockDriver,
    RefclockSettings, SelectOptions, Selection as SelectionSettings, Serve as ServerSettings,
    SmoothTime, Source as SourceOptions, SourceSettings, TemperatureCompensation, reference_id,
    reference_id_text,
};

/// Everything.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// Servers and pools, in the order of the configuration.
    pub sources: Vec<SourceSettings>,
    /// Clocks of this machine.
    pub refclocks: Vec<RefclockSettings>,
    /// Directories of `*.sources` files, read again on `reload sources`.
    pub source_directories: Vec<PathBuf>,
    /// Selection of sources.
    pub selection: SelectionSettings,
    /// The times that are possible.
    pub bounds: Bounds,
    /// The clock discipline.
    pub clock: ClockSettings,
    /// Leap seconds.
    pub leap: LeapSettings,
    /// The own time, for when there is no other.
    pub local: Option<Local>,
    /// The polling of servers.
    pub client: ClientSettings,
    /// Service to clients.
    pub server: ServerSettings,
    /// chronyc's protocol.
    pub commands: CommandSettings,
    /// Files of measurements.
    pub logs: LogSettings,
    /// Symmetric keys.
    pub key_file: Option<PathBuf>,
}

impl Settings {
    /// The settings of a configuration. Clocks without the parameter of their driver are left out.
    #[must_use]
    pub fn new(file: &TimesyncAgent) -> Self {
        Self {
            sources: sources(file),
            refclocks: refclocks(file),
            source_directories: file.source_directories.clone(),
            selection: file.selection.clone(),
            bounds: Bounds::default(),
            clock: file.clock.clone(),
            leap: file.leap.clone(),
            local: file.local,
            client: file.client.clone(),
            server: file.serve.clone(),
            commands: file.commands.clone(),
            logs: file.logs.clone(),
            key_file: file.key_file.clone(),
        }
    }
}

/// The times that are possible, by what the machine knew before it heard a source. By default any time is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// No true time is earlier.
    pub not_before: Option<UnixTime>,
    /// A source without a key is not believed if its time is later.
    pub not_after: Option<UnixTime>,
}

impl Bounds {
    /// Whether a source may give this time.
    #[must_use]
    pub fn admit(self, time: UnixTime, is_authenticated: bool) -> bool {
        let is_early = self.not_before.is_some_and(|bound| time < bound);
        let is_late = self.not_after.is_some_and(|bound| time > bound);
        !is_early && (is_authenticated || !is_late)
    }
}

/// Servers, then pools, then peers.
#[must_use]
pub fn sources(file: &TimesyncAgent) -> Vec<SourceSettings> {
    let servers = file.server.iter().cloned().map(SourceSettings::server);
    let pools = file.pool.iter().cloned().map(SourceSettings::pool);
    let peers = file.peer.iter().cloned().map(SourceSettings::peer);
    servers.chain(pools).chain(peers).collect()
}

/// Clocks with drivers of chrony, and then those of PTP.
fn refclocks(file: &TimesyncAgent) -> Vec<RefclockSettings> {
    let clocks = file.refclock.iter().enumerate();
    let clocks = clocks.filter_map(|(index, clock)| RefclockSettings::of(clock, index).ok());
    let ptp = file.ptp.iter().enumerate().map(|(index, ptp)| {
        let index = file.refclock.len() + index;
        RefclockSettings::ptp(ptp, index)
    });
    clocks.chain(ptp).collect()
}
