//! The data sets of a PTP clock (IEEE 1588-2008 clause 8), and ptp4l's own beside them.

use time_model::view::{Leap, PtpRole};

/// clockIdentity and portNumber (§5.3.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PortIdentity {
    /// clockIdentity.
    pub clock: [u8; 8],
    /// portNumber.
    pub port: u16,
}

/// clockQuality (§5.3.7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockQuality {
    /// clockClass.
    pub class: u8,
    /// clockAccuracy.
    pub accuracy: u8,
    /// offsetScaledLogVariance.
    pub variance: u16,
}

/// defaultDS (§15.5.3.3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DefaultDataSet {
    /// slaveOnly.
    pub slave_only: bool,
    /// numberPorts.
    pub n_ports: u16,
    /// priority1.
    pub priority_1: u8,
    /// clockQuality.
    pub quality: ClockQuality,
    /// priority2.
    pub priority_2: u8,
    /// clockIdentity.
    pub identity: [u8; 8],
    /// domainNumber.
    pub domain: u8,
}

/// currentDS (§15.5.3.4.1).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CurrentDataSet {
    /// stepsRemoved.
    pub steps_removed: u16,
    /// offsetFromMaster, in seconds.
    pub offset: f64,
    /// meanPathDelay, in seconds.
    pub delay: f64,
}

/// parentDS (§15.5.3.5.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ParentDataSet {
    /// parentPortIdentity.
    pub port: PortIdentity,
    /// grandmasterPriority1.
    pub priority_1: u8,
    /// grandmasterClockQuality.
    pub quality: ClockQuality,
    /// grandmasterPriority2.
    pub priority_2: u8,
    /// grandmasterIdentity.
    pub grandmaster: [u8; 8],
}

/// timePropertiesDS (§15.5.3.6.1).
#[expect(
    clippy::struct_excessive_bools,
    reason = "the flags of the data set, each under its own name"
)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeProperties {
    /// currentUtcOffset, in seconds.
    pub utc_offset: i16,
    /// leap61, leap59.
    pub leap: Leap,
    /// currentUtcOffsetValid.
    pub utc_offset_valid: bool,
    /// ptpTimescale: TAI.
    pub ptp_timescale: bool,
    /// timeTraceable.
    pub time_traceable: bool,
    /// frequencyTraceable.
    pub frequency_traceable: bool,
    /// timeSource.
    pub source: u8,
}

/// portDS (§15.5.3.7.1).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PortDataSet {
    /// portIdentity.
    pub identity: PortIdentity,
    /// portState.
    pub state: PortState,
    /// peerMeanPathDelay, in seconds.
    pub peer_delay: f64,
    /// logSyncInterval.
    pub log_sync_interval: i8,
    /// delayMechanism: 1 end-to-end, 2 peer-to-peer.
    pub delay_mechanism: u8,
}

/// `TIME_STATUS_NP`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeStatus {
    /// How far the local clock is ahead of the master, in nanoseconds.
    pub offset: i64,
    /// When the message that said so came, on the clock that stamps.
    pub ingress: i64,
    /// cumulativeScaledRateOffset: rate of the grandmaster to the local clock − 1, times 2⁴¹.
    pub rate: i32,
    /// A grandmaster is followed.
    pub present: bool,
    /// gmIdentity.
    pub grandmaster: [u8; 8],
}

/// `PORT_PROPERTIES_NP`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortProperties {
    /// portIdentity.
    pub identity: PortIdentity,
    /// portState.
    pub state: PortState,
    /// The kernel stamps, by the wall clock, not the card.
    pub software: bool,
    /// Name of the interface.
    pub interface: String,
}

/// portState (§8.2.5.3.1, table 10).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PortState {
    /// INITIALIZING, and what is no state.
    #[default]
    Initializing,
    /// FAULTY.
    Faulty,
    /// DISABLED.
    Disabled,
    /// LISTENING.
    Listening,
    /// `PRE_MASTER`.
    PreMaster,
    /// MASTER.
    Master,
    /// PASSIVE.
    Passive,
    /// UNCALIBRATED: it has a master, and no servo follows it (yet).
    Uncalibrated,
    /// SLAVE.
    Slave,
}

impl PortState {
    /// The state of a number.
    #[must_use]
    pub const fn of(number: u8) -> Self {
        match number {
            2 => Self::Faulty,
            3 => Self::Disabled,
            4 => Self::Listening,
            5 => Self::PreMaster,
            6 => Self::Master,
            7 => Self::Passive,
            8 => Self::Uncalibrated,
            9 => Self::Slave,
            _ => Self::Initializing,
        }
    }

    /// As metrics name it.
    #[must_use]
    pub const fn role(self) -> PtpRole {
        match self {
            Self::Faulty | Self::Disabled => PtpRole::Faulty,
            Self::Listening => PtpRole::Listening,
            Self::PreMaster | Self::Master => PtpRole::Master,
            Self::Passive => PtpRole::Passive,
            // Without a servo of ptp4l's own, that is as far as a slave gets.
            Self::Uncalibrated | Self::Slave => PtpRole::Slave,
            Self::Initializing => PtpRole::Unknown,
        }
    }
}
