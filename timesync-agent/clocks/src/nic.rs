//! NICs that take timestamps: their abilities, the rate of their clock beside the raw clock, and the choice between timestamps
//! of an exchange.
//!
//! ```text
//!   readings of both clocks ──► NicClock ──► a stamp of the card, as a time of the raw clock
//!   departure, arrival      ──► Exchange  ──► both by the card, or both by the kernel
//! ```
//!
//! Never mixes the two: a stamp of the card lies microseconds nearer to the wire than one of the kernel, and an exchange that has
//! one of each is off by half of that, always in the same direction.

mod clock;
mod exchange;
mod pace;

pub use clock::{NicClock, Rules};
pub use exchange::{Departed, Exchange, Ready};
pub use pace::Pace;

use std::fmt;

use time_model::settings::ReceiveFilter;
use time_model::time::Span;

/// The card stamps what is sent and what comes, and gives its own time for it (`SOF_TIMESTAMPING_TX_HARDWARE`, `RX_HARDWARE`,
/// `RAW_HARDWARE` of `linux/net_tstamp.h`).
pub const NEEDED: u32 = 1 | 1 << 2 | 1 << 6;
/// `HWTSTAMP_TX_ON`.
const TRANSMIT_ON: u32 = 1;
/// `HWTSTAMP_FILTER_NONE`.
const NOTHING: u8 = 0;
/// `HWTSTAMP_FILTER_ALL`.
const ALL: u8 = 1;
/// `HWTSTAMP_FILTER_PTP_V2_L4_EVENT`, `HWTSTAMP_FILTER_PTP_V2_EVENT`.
const PTP: [u8; 2] = [6, 12];
/// `HWTSTAMP_FILTER_NTP_ALL`.
const NTP: u8 = 15;
/// Octets after those that the kernel counts: the check sequence of a frame.
const CHECK_SEQUENCE: u32 = 4;
/// Bits per second in a megabit, per nanosecond of a second.
const BIT_NANOSECONDS: f64 = 1000.0;

/// The kernel's account of a NIC's abilities (`struct ethtool_ts_info`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
    /// `SOF_TIMESTAMPING_*`.
    pub flags: u32,
    /// The number of its clock, `/dev/ptpN`.
    pub clock: Option<u32>,
    /// A bit for each `HWTSTAMP_TX_*`.
    pub transmit: u32,
    /// A bit for each `HWTSTAMP_FILTER_*`.
    pub filters: u32,
}

/// Why a card does not stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsupported {
    /// It has no stamps, or not all that are needed.
    Stamps,
    /// Its clock cannot be read.
    Clock,
    /// It does not stamp what the configuration wants it to.
    Filter,
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stamps => "it does not stamp packets",
            Self::Clock => "its clock cannot be read",
            Self::Filter => "it does not stamp what `rxfilter` says",
        })
    }
}

impl std::error::Error for Unsupported {}

impl Abilities {
    /// The receive filter (`HWTSTAMP_FILTER_*`), and the number of its clock.
    ///
    /// # Errors
    ///
    /// It is of no use.
    pub fn choose(&self, wanted: ReceiveFilter) -> Result<(u8, u32), Unsupported> {
        if self.flags & NEEDED != NEEDED || self.transmit & 1 << TRANSMIT_ON == 0 {
            return Err(Unsupported::Stamps);
        }
        let has = |filter: &u8| self.filters & 1 << filter != 0;
        let filter = match wanted {
            ReceiveFilter::Any => [NTP, ALL].into_iter().find(has),
            ReceiveFilter::None => Some(NOTHING),
            ReceiveFilter::Ntp => Some(NTP).filter(has),
            ReceiveFilter::Ptp => PTP.into_iter().find(has),
            ReceiveFilter::All => Some(ALL).filter(has),
        };
        let filter = filter.ok_or(Unsupported::Filter)?;
        Ok((filter, self.clock.ok_or(Unsupported::Clock)?))
    }
}

/// How long a frame is on the wire. A card stamps the beginning of what comes, and NTP means its end: a server of the same speed
/// would otherwise seem to be late by this.
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    reason = "a frame of a card that counts megabits takes less than a second"
)]
pub fn on_the_wire(octets: u32, megabits: u32) -> Span {
    let bits = f64::from(octets.saturating_add(CHECK_SEQUENCE)) * 8.0;
    Span((bits * BIT_NANOSECONDS / f64::from(megabits.max(1))).round() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_is_used_if_it_can_all_that_is_needed() {
        use ReceiveFilter::{All, Any, None as Nothing, Ntp, Ptp};
        let bits = |bits: &[u8]| bits.iter().fold(0, |all, bit| all | 1 << bit);
        let card = |filters: &[u8]| Abilities {
            flags: NEEDED | 1 << 3,
            clock: Some(2),
            transmit: bits(&[0, 1]),
            filters: bits(filters),
        };
        let everything = card(&[0, 1, 6, 12, 15]);
        let ptp_alone = card(&[0, 12]);
        for (card, wanted, expected) in [
            (everything, Any, Ok((15, 2))),
            (everything, Nothing, Ok((0, 2))),
            (everything, Ntp, Ok((15, 2))),
            (everything, Ptp, Ok((6, 2))),
            (everything, All, Ok((1, 2))),
            (card(&[1]), Any, Ok((1, 2))),
            (card(&[1]), Ntp, Err(Unsupported::Filter)),
            // Most cards of the last decade: PTP and nothing else.
            (ptp_alone, Any, Err(Unsupported::Filter)),
            (ptp_alone, Ptp, Ok((12, 2))),
            (
                Abilities {
                    clock: None,
                    ..everything
                },
                Any,
                Err(Unsupported::Clock),
            ),
            (
                Abilities {
                    transmit: 1,
                    ..everything
                },
                Any,
                Err(Unsupported::Stamps),
            ),
            // What every interface can: stamps of the kernel.
            (
                Abilities {
                    flags: 0x1a,
                    ..everything
                },
                Any,
                Err(Unsupported::Stamps),
            ),
        ] {
            assert_eq!(card.choose(wanted), expected, "{card:?} {wanted:?}");
        }
    }

    #[test]
    fn a_frame_takes_as_long_as_its_octets() {
        // 48 octets of NTP, UDP, IPv4 and Ethernet, and the check sequence.
        assert_eq!(on_the_wire(90, 1000), Span(752));
        assert_eq!(on_the_wire(90, 100), Span(7520));
        assert_eq!(on_the_wire(90, 0), on_the_wire(90, 1));
    }
}
