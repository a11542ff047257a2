//! The cards that stamp packets: told to, their clocks read now and then, and their stamps put on the raw clock.
//!
//! Decides nothing of stamps; that is [`card`](clocks::nic)'s.

use std::fs;
use std::io;
use std::path::PathBuf;

use crate::system::clock;
use crate::system::socket::{self, NicStamp};
use clock_drivers::nic;
use clock_drivers::phc_device::Phc;
use clocks::nic::{NicClock, Pace, Rules, on_the_wire};
use time_model::sample::Stamp;
use time_model::settings::HardwareStamps;
use time_model::time::{RawTime, Reading, SECOND, Span};
use time_model::view::StampSource;

/// `hwtimestamp *`.
const EVERY: &str = "*";
/// The assumed speed of a link that does not report one; chrony's.
const MEGABITS: u32 = 1000;
/// A stamp of a card that is so far from that of the kernel is not of the same packet.
const FURTHEST: Span = Span(SECOND);
/// All cards that stamp.
#[derive(Debug, Default)]
pub(super) struct Nics {
    cards: Vec<Nic>,
}

#[derive(Debug)]
struct Nic {
    /// The number of its interface.
    index: u32,
    settings: HardwareStamps,
    device: Phc,
    clock: NicClock,
    pace: Pace,
    megabits: u32,
}

/// The choice between the two timestamps of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// When it left.
    Out,
    /// When it came.
    In,
}

impl Nics {
    /// Tells cards to stamp. The log tells once of each that was named and does not; packets are stamped by the kernel there.
    pub(super) fn open(wanted: &[HardwareStamps], now: Reading) -> Self {
        let mut cards = Self::default();
        for settings in wanted {
            let names = match settings.interface.as_str() {
                EVERY => nic::interfaces().unwrap_or_default(),
                name => [name.to_owned()].into(),
            };
            for name in names {
                // `*` leaves out interfaces that have a line of their own.
                let is_named = wanted.iter().any(|other| other.interface == name);
                if settings.interface == EVERY && is_named {
                    continue;
                }
                match Nic::open(&name, settings, now) {
                    Ok(card) => {
                        tracing::info!(interface = name, "The NIC timestamps packets");
                        cards.cards.push(card);
                    }
                    Err(error) if settings.interface == EVERY => {
                        tracing::debug!(interface = name, %error, "The kernel timestamps packets");
                    }
                    Err(error) => {
                        tracing::warn!(interface = name, %error, "The kernel timestamps packets, not the NIC");
                    }
                }
            }
        }
        cards
    }

    /// Whether there is any.
    pub(super) fn is_any(&self) -> bool {
        !self.cards.is_empty()
    }

    /// When [`Self::handle_timeout`] is to be called.
    pub(super) fn poll_timeout(&self) -> Option<RawTime> {
        self.cards.iter().map(|card| card.pace.next()).min()
    }

    /// Reads the clocks that are due.
    pub(super) fn handle_timeout(&mut self, now: Reading) {
        for card in &mut self.cards {
            if card.pace.next() <= now.raw {
                card.read(now.raw);
            }
        }
    }

    /// A card's stamp as one of this machine's clocks; nothing if it cannot be of the packet that the kernel stamped.
    pub(super) fn stamp(
        &mut self,
        stamp: &NicStamp,
        way: Direction,
        by_kernel: &Stamp,
    ) -> Option<Stamp> {
        let is_alone = self.cards.len() == 1;
        let mut cards = self.cards.iter_mut();
        let card = match stamp.interface {
            Some(index) => cards.find(|card| card.index == index)?,
            // One alone has stamped whatever is stamped.
            None => cards.next().filter(|_| is_alone)?,
        };
        card.pace.stamped();
        let compensation = match way {
            Direction::Out => Span::from_seconds(card.settings.transmit_compensation),
            Direction::In => {
                on_the_wire(stamp.frame_length, card.megabits)
                    - Span::from_seconds(card.settings.receive_compensation)
            }
        };
        let (raw, error) = card.clock.raw(stamp.at + compensation)?;
        let now = clock::read();
        let wall = now.wall - (now.raw - raw);
        let apart = wall - by_kernel.wall;
        (apart.0.saturating_abs() < FURTHEST.0).then_some(Stamp {
            wall,
            raw: Some(raw),
            by: StampSource::Hardware,
            error,
        })
    }
}

impl Nic {
    fn open(interface: &str, settings: &HardwareStamps, now: Reading) -> io::Result<Self> {
        let socket = socket::plain()?;
        let index = nic::index(&socket, interface)?;
        let abilities = nic::abilities(&socket, interface)?;
        let (filter, number) = abilities
            .choose(settings.filter)
            .map_err(|lack| io::Error::new(io::ErrorKind::Unsupported, lack))?;
        let path = PathBuf::from(format!("/dev/ptp{number}"));
        let device = Phc::open(&path, settings.no_cross)?;
        nic::make_stamp(&socket, interface, filter)?;
        let mut card = Self {
            index,
            settings: settings.clone(),
            device,
            clock: NicClock::new(Rules {
                min_readings: usize::try_from(settings.min_samples).unwrap_or(usize::MAX),
                max_readings: usize::try_from(settings.max_samples).unwrap_or(usize::MAX),
                precision: settings.precision,
            }),
            pace: Pace::new(settings.minpoll, settings.maxpoll, now.raw),
            megabits: megabits(interface),
        };
        card.read(now.raw);
        Ok(card)
    }

    fn read(&mut self, now: RawTime) {
        self.pace.read(now);
        if let Some((card, raw, took)) = self.device.both() {
            self.clock.put(card, raw, took);
        }
    }
}

/// How fast a link is.
fn megabits(interface: &str) -> u32 {
    let path = format!("/sys/class/net/{interface}/speed");
    let text = fs::read_to_string(path).unwrap_or_default();
    // A link that is down says -1.
    text.trim().parse().unwrap_or(MEGABITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_stamp_is_left_to_the_kernel() {
        let now = clock::read();
        let wanted = ["lo", "no-such-if", "*"].map(HardwareStamps::new);
        let mut cards = Nics::open(&wanted, now);
        assert!(!cards.is_any());
        assert_eq!(cards.poll_timeout(), None);
        cards.handle_timeout(now);
        let stamp = NicStamp {
            interface: None,
            at: now.wall,
            frame_length: 90,
        };
        let by_kernel = Stamp {
            wall: now.wall,
            ..Stamp::default()
        };
        assert_eq!(cards.stamp(&stamp, Direction::In, &by_kernel), None);
    }
}
