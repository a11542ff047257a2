//! The polling of servers, all of them.

use std::net::IpAddr;

/// The polling of servers, all of them.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientSettings {
    /// `acquisitionport`: one port for all requests (0: the system chooses it); `None` is a fresh one for each.
    pub port: Option<u16>,
    /// `bindacqaddress`: the local addresses of requests, one of each family.
    pub bind_addresses: Vec<IpAddr>,
    /// `bindacqdevice`.
    pub bind_device: Option<String>,
    /// `dscp` of requests and responses.
    pub dscp: u8,
    /// `minsamples`: does nothing, since no sample is dropped because others do not fit.
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
    /// `txcomp`: added to transmit timestamps, in seconds.
    pub transmit_compensation: f64,
    /// `rxcomp`: subtracted from receive timestamps, in seconds.
    pub receive_compensation: f64,
    /// `nocrossts`: do not use the card's own way to read both clocks.
    pub no_cross: bool,
    /// `rxfilter`: the packets that the NIC timestamps.
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

/// The packets that a NIC timestamps on arrival.
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
