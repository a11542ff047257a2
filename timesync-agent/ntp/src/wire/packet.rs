//! The header (RFC 5905 §7.3, figure 8).

use super::HEADER_LENGTH;
use time_model::time::{NtpShort, NtpTimestamp};
use time_model::view::Leap;

/// The mode of a packet (RFC 5905 figure 10).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// 0, which version 1 knows no other than.
    #[default]
    Reserved,
    /// 1.
    SymmetricActive,
    /// 2.
    SymmetricPassive,
    /// 3: a request.
    Client,
    /// 4: a response.
    Server,
    /// 5.
    Broadcast,
    /// 6: ntpd's control messages.
    Control,
    /// 7: ntpd's private messages.
    Private,
}

impl Mode {
    /// From the three bits.
    #[must_use]
    pub fn from_bits(bits: u8) -> Self {
        match bits & 7 {
            0 => Self::Reserved,
            1 => Self::SymmetricActive,
            2 => Self::SymmetricPassive,
            3 => Self::Client,
            4 => Self::Server,
            5 => Self::Broadcast,
            6 => Self::Control,
            _ => Self::Private,
        }
    }

    /// The three bits.
    #[must_use]
    pub fn bits(self) -> u8 {
        match self {
            Self::Reserved => 0,
            Self::SymmetricActive => 1,
            Self::SymmetricPassive => 2,
            Self::Client => 3,
            Self::Server => 4,
            Self::Broadcast => 5,
            Self::Control => 6,
            Self::Private => 7,
        }
    }
}

/// The header of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    /// LI.
    pub leap: Leap,
    /// VN, from 0 to 7.
    pub version: u8,
    /// The mode.
    pub mode: Mode,
    /// 0 is none, or a kiss-o'-death (RFC 5905 §7.4).
    pub stratum: u8,
    /// As a power of two in seconds.
    pub poll: i8,
    /// As a power of two in seconds.
    pub precision: i8,
    /// Round trip to the primary source.
    pub root_delay: NtpShort,
    /// Error collected on the way to the primary source.
    pub root_dispersion: NtpShort,
    /// The server's source; the code of a kiss-o'-death.
    pub reference_id: u32,
    /// When the server was last told the time.
    pub reference_time: NtpTimestamp,
    /// In a response: the transmit timestamp of the request, in interleaved mode its receive timestamp.
    pub origin: NtpTimestamp,
    /// When the sender received what this answers.
    pub receive: NtpTimestamp,
    /// The time of departure, in interleaved mode of the packet before; in a request a random number.
    pub transmit: NtpTimestamp,
}

impl Packet {
    /// Reads a header. Any octets are one; [`Message::parse`](super::Message::parse) looks at the version.
    #[must_use]
    pub fn decode(octets: &[u8; HEADER_LENGTH]) -> Self {
        let mut words = octets
            .as_chunks::<4>()
            .0
            .iter()
            .map(|word| u32::from_be_bytes(*word));
        let mut word = || words.next().unwrap_or_default();
        let [first, stratum, poll, precision] = word().to_be_bytes();
        let root_delay = NtpShort(word());
        let root_dispersion = NtpShort(word());
        let reference_id = word();
        let mut timestamp = || NtpTimestamp(u64::from(word()) << 32 | u64::from(word()));
        Self {
            leap: match first >> 6 {
                0 => Leap::Normal,
                1 => Leap::Insert,
                2 => Leap::Delete,
                _ => Leap::Unsynchronised,
            },
            version: first >> 3 & 7,
            mode: Mode::from_bits(first),
            stratum,
            poll: poll.cast_signed(),
            precision: precision.cast_signed(),
            root_delay,
            root_dispersion,
            reference_id,
            reference_time: timestamp(),
            origin: timestamp(),
            receive: timestamp(),
            transmit: timestamp(),
        }
    }

    /// Writes a header.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_LENGTH] {
        let leap = match self.leap {
            Leap::Normal => 0,
            Leap::Insert => 1,
            Leap::Delete => 2,
            Leap::Unsynchronised => 3,
        };
        let first = leap << 6 | (self.version & 7) << 3 | self.mode.bits();
        let start = [
            first,
            self.stratum,
            self.poll.cast_unsigned(),
            self.precision.cast_unsigned(),
        ];
        let timestamps = [
            self.reference_time,
            self.origin,
            self.receive,
            self.transmit,
        ];
        let mut octets = [0; HEADER_LENGTH];
        let words = [
            start,
            self.root_delay.0.to_be_bytes(),
            self.root_dispersion.0.to_be_bytes(),
            self.reference_id.to_be_bytes(),
        ];
        let (head, tail) = octets.split_at_mut(16);
        for (to, from) in head.as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *to = from;
        }
        for (to, from) in tail.as_chunks_mut::<8>().0.iter_mut().zip(timestamps) {
            *to = from.0.to_be_bytes();
        }
        octets
    }
}
