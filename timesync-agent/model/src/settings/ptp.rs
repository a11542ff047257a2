//! An ordinary clock of PTP (IEEE 1588), which never becomes a master.

/// How this node follows a grandmaster by itself, without ptp4l.
#[derive(Clone, Debug, PartialEq)]
pub struct PtpSettings {
    /// The interface.
    pub interface: String,
    /// Over what messages travel.
    pub transport: PtpTransport,
    /// The source of timestamps.
    pub stamps: PtpStamps,
    /// domainNumber; others are not heard.
    pub domain: u8,
    /// How the delay of the path is measured.
    pub delay: PtpDelay,
    /// logMinDelayReqInterval or logMinPdelayReqInterval: how often the delay is measured, as a power of two in seconds.
    pub delay_interval: i8,
    /// logAnnounceInterval of the domain, as a power of two in seconds.
    pub announce_interval: i8,
    /// announceReceiptTimeout: intervals without an Announce message after which the master is gone; at least 2.
    pub announce_timeout: u8,
    /// delayAsymmetry: by how much the way from the master is longer than the mean of both ways, in seconds.
    pub asymmetry: f64,
    /// TAI − UTC in seconds where the grandmaster keeps TAI and does not say (currentUtcOffsetValid); without it such a
    /// grandmaster is of no use, unless leap seconds are known from elsewhere.
    pub utc_offset: Option<i32>,
}

impl PtpSettings {
    /// The defaults of IEEE 1588 annex I.3 (the Delay Request-Response default profile), over UDP.
    #[must_use]
    pub fn new(interface: &str) -> Self {
        Self {
            interface: interface.to_owned(),
            transport: PtpTransport::default(),
            stamps: PtpStamps::default(),
            domain: 0,
            delay: PtpDelay::default(),
            delay_interval: 0,
            announce_interval: 1,
            announce_timeout: 3,
            asymmetry: 0.0,
            utc_offset: None,
        }
    }
}

/// Over what messages travel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PtpTransport {
    /// UDP over IPv4 (annex C): ports 319 and 320, 224.0.1.129 and 224.0.0.107.
    #[default]
    Ipv4,
    /// Ethernet (annex E): type 0x88f7.
    Ethernet,
}

/// The source of timestamps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PtpStamps {
    /// The card's where it has a clock, else the kernel's.
    #[default]
    Best,
    /// The kernel's.
    Software,
    /// The card's, or none.
    Hardware,
}

/// How the delay of the path is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PtpDelay {
    /// Delay request-response, to the master and back (§11.3).
    #[default]
    EndToEnd,
    /// Peer-to-peer, of this link; the network adds the rest (§11.4).
    PeerToPeer,
}
