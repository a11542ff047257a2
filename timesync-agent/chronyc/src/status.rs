//! How a request went.

/// How a request went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "the names are chrony's, and the sentences are in `text`"
)]
#[repr(u16)]
pub enum Status {
    Success = 0,
    Failed = 1,
    Unauthorised = 2,
    Invalid = 3,
    NoSuchSource = 4,
    NotEnabled = 6,
    BadSubnet = 7,
    AccessAllowed = 8,
    AccessDenied = 9,
    SourceAlreadyKnown = 11,
    TooManySources = 12,
    NoRtc = 13,
    BadRtcFile = 14,
    Inactive = 15,
    BadSample = 16,
    InvalidFamily = 17,
    BadPacketVersion = 18,
    BadPacketLength = 19,
    InvalidName = 21,
}

impl Status {
    const ALL: [Self; 19] = [
        Self::Success,
        Self::Failed,
        Self::Unauthorised,
        Self::Invalid,
        Self::NoSuchSource,
        Self::NotEnabled,
        Self::BadSubnet,
        Self::AccessAllowed,
        Self::AccessDenied,
        Self::SourceAlreadyKnown,
        Self::TooManySources,
        Self::NoRtc,
        Self::BadRtcFile,
        Self::Inactive,
        Self::BadSample,
        Self::InvalidFamily,
        Self::BadPacketVersion,
        Self::BadPacketLength,
        Self::InvalidName,
    ];

    pub(crate) fn of(number: u16) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|status| *status as u16 == number)
    }

    /// As chronyc prints it.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Success => "200 OK",
            Self::AccessAllowed => "208 Access allowed",
            Self::AccessDenied => "209 Access denied",
            Self::Failed => "500 Failure",
            Self::Unauthorised => "501 Not authorised",
            Self::Invalid => "502 Invalid command",
            Self::NoSuchSource => "503 No such source",
            Self::NotEnabled => "505 Facility not enabled in daemon",
            Self::BadSubnet => "507 Bad subnet",
            Self::SourceAlreadyKnown => "511 Source already present",
            Self::TooManySources => "512 Too many sources present",
            Self::NoRtc => "513 RTC driver not running",
            Self::BadRtcFile => "514 Can't write RTC parameters",
            Self::InvalidFamily => "515 Invalid address family",
            Self::BadSample => "516 Sample index out of range",
            Self::BadPacketVersion => "517 Protocol version mismatch",
            Self::BadPacketLength => "518 Packet length mismatch",
            Self::Inactive => "519 Client logging is not active in the daemon",
            Self::InvalidName => "521 Invalid name",
        }
    }

    /// Whether chronyc ends well.
    #[must_use]
    pub const fn is_success(self) -> bool {
        matches!(
            self,
            Self::Success | Self::AccessAllowed | Self::AccessDenied
        )
    }
}
