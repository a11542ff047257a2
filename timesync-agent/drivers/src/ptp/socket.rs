//! The sockets of one interface: messages in and out, and when they came and left.
//!
//! Never decides what a message means.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;

use socket2::{Domain, InterfaceIndexOrAddress, Protocol, SockAddr, Socket, Type};

use super::on_raw;
use crate::nic;
use crate::phc_device::Phc;
use crate::reading;
use clocks::nic::{NEEDED, NicClock, Rules};
use sys::control::{Parsed, Room, messages};
use sys::{link as frames, message, option};
use time_model::settings::{PtpDelay, PtpSettings, PtpStamps, PtpTransport};
use time_model::time::{RawTime, SECOND, Span, UnixTime};

/// Event messages over UDP (IEEE 1588-2019 annex C.2).
const EVENT: u16 = 319;

/// General messages.
const GENERAL: u16 = 320;

/// All clocks.
const GROUP: Ipv4Addr = Ipv4Addr::new(224, 0, 1, 129);

/// Neighbours.
const PEERS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 107);

/// PTP over Ethernet (annex E).
const ETHERTYPE: u16 = 0x88f7;

/// All clocks.
const LINK_GROUP: [u8; 6] = [0x01, 0x1b, 0x19, 0, 0, 0];

/// Neighbours; no switch passes it on.
const LINK_PEERS: [u8; 6] = [0x01, 0x80, 0xc2, 0, 0, 0x0e];

/// Longest message that is read; an Ethernet frame has no more.
const LONGEST: usize = 1536;

/// Room for stamps and for what else a kernel may tell.
const CONTROL: usize = 512;

/// Messages taken before anything else is done.
const AT_ONCE: usize = 64;

/// The interval between two checks of the interface, and between two readings of the NIC's clock.
const KEEP: Span = Span(SECOND);

/// The kernel stamps what is sent and what comes, counts what is sent, and gives stamps without the message
/// (`SOF_TIMESTAMPING_*`: `TX_SOFTWARE`, `RX_SOFTWARE`, `SOFTWARE`, `OPT_ID`, `OPT_TSONLY`).
const SOFTWARE: u32 = 1 << 1 | 1 << 3 | 1 << 4 | 1 << 7 | 1 << 11;

/// The card does (`TX_HARDWARE`, `RX_HARDWARE`, `RAW_HARDWARE`, `OPT_ID`, `OPT_TSONLY`).
const HARDWARE: u32 = 1 | 1 << 2 | 1 << 6 | 1 << 7 | 1 << 11;

/// A card that a ptp4l beside us steers changes its rate from second to second.
const READINGS: Rules = Rules {
    min_readings: 1,
    max_readings: 4,
    precision: 0.0,
};

/// Filters of what a card stamps, the best first: PTP version 2 over anything, its event messages over UDP and over Ethernet,
/// and everything (`HWTSTAMP_FILTER_*`).
const FILTERS: [u8; 4] = [12, 6, 9, 1];

/// A received event.
pub(super) enum Event<'a> {
    /// A message with a stamp.
    Received { octets: &'a [u8], at: RawTime },
    /// A message that needs none.
    General { octets: &'a [u8] },
    /// The stamp of a message that was sent.
    Sent { key: u32, at: RawTime },
}

/// Open sockets.
#[derive(Debug)]
pub(super) struct Sockets {
    transport: PtpTransport,
    interface: String,
    index: u32,
    identity: [u8; 8],
    event: Socket,
    general: Socket,
    /// Messages sent since stamps were asked for: how the kernel counts them.
    n_sent: u32,
    card: Option<Nic>,
    next_look: RawTime,
    is_there: bool,
}

/// The clock of the card.
#[derive(Debug)]
struct Nic {
    clock: Phc,
    beside: NicClock,
}

impl Sockets {
    /// Opens them.
    pub(super) fn open(settings: &PtpSettings) -> io::Result<Self> {
        let interface = &settings.interface;
        let probe = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
        let index = nic::index(&probe, interface)?;
        let [a, b, c, d, e, f] = nic::hardware_address(&probe, interface)?;
        let card = choose_card(settings, &probe)?;
        let peers = settings.delay == PtpDelay::PeerToPeer;
        let (event, general) = match settings.transport {
            PtpTransport::Ipv4 => (
                udp(interface, index, EVENT, peers)?,
                udp(interface, index, GENERAL, peers)?,
            ),
            PtpTransport::Ethernet => {
                let event = link(index, Some(ETHERTYPE), peers)?;
                (event, link(index, None, false)?)
            }
        };
        let mut sockets = Self {
            transport: settings.transport,
            interface: interface.clone(),
            index,
            // An EUI-64 of an EUI-48 (§7.5.2.2.2).
            identity: [a, b, c, 0xff, 0xfe, d, e, f],
            event,
            general,
            n_sent: 0,
            card,
            next_look: reading().raw,
            is_there: true,
        };
        sockets.ask_for_stamps()?;
        sockets.keep_stamps();
        Ok(sockets)
    }

    /// clockIdentity.
    pub(super) const fn identity(&self) -> [u8; 8] {
        self.identity
    }

    /// Whether the card stamps.
    pub(super) const fn is_hardware(&self) -> bool {
        self.card.is_some()
    }

    /// The descriptors to wait for: event and general messages.
    pub(super) fn descriptors(&self) -> [BorrowedFd<'_>; 2] {
        [self.event.as_fd(), self.general.as_fd()]
    }

    /// Whether the interface is still the one that was opened.
    pub(super) const fn is_there(&self) -> bool {
        self.is_there
    }

    /// Sends a message; gives the key of its stamp if it will have one.
    pub(super) fn send(
        &mut self,
        message: &[u8],
        is_event: bool,
        is_peer: bool,
    ) -> io::Result<Option<u32>> {
        let to = self.address(is_event, is_peer);
        let socket = if is_event { &self.event } else { &self.general };
        let sent = socket.send_to(message, &to);
        if !is_event {
            return sent.map(|_| None);
        }
        if let Err(error) = sent {
            // The kernel may have counted it or not.
            self.ask_for_stamps()?;
            return Err(error);
        }
        let key = self.n_sent;
        self.n_sent = key.wrapping_add(1);
        Ok(Some(key))
    }

    fn address(&self, is_event: bool, is_peer: bool) -> SockAddr {
        match self.transport {
            PtpTransport::Ipv4 => {
                let group = if is_peer { PEERS } else { GROUP };
                let port = if is_event { EVENT } else { GENERAL };
                SocketAddrV4::new(group, port).into()
            }
            PtpTransport::Ethernet => {
                let group = if is_peer { LINK_PEERS } else { LINK_GROUP };
                frames::address(self.index, ETHERTYPE, Some(group))
            }
        }
    }

    /// Asks for stamps, whose keys begin at 0.
    fn ask_for_stamps(&mut self) -> io::Result<()> {
        let flags = if self.card.is_some() {
            HARDWARE
        } else {
            SOFTWARE
        };
        // The kernel counts from 0 when counting is switched on.
        option::ask_for_stamps(&self.event, 0)?;
        option::ask_for_stamps(&self.event, flags)?;
        self.n_sent = 0;
        Ok(())
    }

    /// Looks for the interface, and reads the clock of the card beside the raw clock, now and then.
    pub(super) fn keep_stamps(&mut self) {
        let now = reading().raw;
        if now < self.next_look {
            return;
        }
        self.next_look = now + KEEP;
        self.is_there = nic::index(&self.general, &self.interface).ok() == Some(self.index);
        if let Some(card) = &mut self.card
            && let Some((card_time, raw, took)) = card.clock.both()
        {
            card.beside.put(card_time, raw, took);
        }
    }

    /// Takes what has come.
    pub(super) fn receive(&self, mut event: impl FnMut(Event<'_>)) {
        let mut buffer = [0; LONGEST];
        let mut control = Room::<CONTROL>::EMPTY;
        // Stamps first: an answer may be here already to what was sent.
        for flags in [libc::MSG_ERRQUEUE, 0] {
            for _ in 0..AT_ONCE {
                let flags_now = flags | libc::MSG_DONTWAIT;
                let Ok(received) =
                    message::receive(&self.event, &mut buffer, &mut control.0, flags_now)
                else {
                    break;
                };
                let control = control.0.get(..received.control_length);
                let stamped = control.map(stamps).unwrap_or_default();
                let Some(at) = self.raw(&stamped) else {
                    continue;
                };
                match (flags, stamped.key, buffer.get(..received.length)) {
                    (0, _, Some(octets)) => event(Event::Received { octets, at }),
                    (_, Some(key), _) => event(Event::Sent { key, at }),
                    _ => {}
                }
            }
        }
        for _ in 0..AT_ONCE {
            let flags = libc::MSG_DONTWAIT;
            let Ok(received) = message::receive(&self.general, &mut buffer, &mut [], flags) else {
                break;
            };
            if let Some(octets) = buffer.get(..received.length) {
                event(Event::General { octets });
            }
        }
    }

    /// On the raw clock.
    fn raw(&self, stamped: &Stamped) -> Option<RawTime> {
        match &self.card {
            Some(card) => card.beside.raw(stamped.hardware?).map(|(raw, _)| raw),
            None => on_raw(stamped.software?),
        }
    }
}

/// The card's clock, if it is to stamp and can.
fn choose_card(settings: &PtpSettings, probe: &Socket) -> io::Result<Option<Nic>> {
    let opened = match settings.stamps {
        PtpStamps::Software => return Ok(None),
        PtpStamps::Best | PtpStamps::Hardware => open_card(&settings.interface, probe),
    };
    match (opened, settings.stamps) {
        (Ok(card), _) => Ok(Some(card)),
        (Err(error), PtpStamps::Hardware) => Err(error),
        (Err(_), _) => Ok(None),
    }
}

fn open_card(interface: &str, probe: &Socket) -> io::Result<Nic> {
    let info = nic::abilities(probe, interface)?;
    let filter = FILTERS
        .into_iter()
        .find(|filter| info.filters & 1 << filter != 0);
    // HWTSTAMP_TX_ON.
    let can = info.flags & NEEDED == NEEDED && info.transmit & 1 << 1 != 0;
    let chosen = filter.filter(|_| can).zip(info.clock);
    let (filter, number) = chosen.ok_or(io::ErrorKind::Unsupported)?;
    let clock = Phc::open(&PathBuf::from(format!("/dev/ptp{number}")), false)?;
    nic::make_stamp(probe, interface, filter)?;
    Ok(Nic {
        clock,
        beside: NicClock::new(READINGS),
    })
}

/// A socket for messages to one port.
fn udp(interface: &str, index: u32, port: u16, peers: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_reuse_address(true)?;
    socket.bind_device(Some(interface.as_bytes()))?;
    socket.set_multicast_loop_v4(false)?;
    // Routers do not pass it on (annex C.3).
    socket.set_multicast_ttl_v4(1)?;
    socket.bind(&SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port).into())?;
    let interface = InterfaceIndexOrAddress::Index(index);
    socket.join_multicast_v4_n(&GROUP, &interface)?;
    if peers {
        socket.join_multicast_v4_n(&PEERS, &interface)?;
    }
    Ok(socket)
}

/// A socket for frames; without a type it hears none.
fn link(index: u32, ethertype: Option<u16>, peers: bool) -> io::Result<Socket> {
    // Until it is bound it hears nothing.
    let socket = Socket::new(Domain::PACKET, Type::DGRAM, None)?;
    if let Some(ethertype) = ethertype {
        socket.bind(&frames::address(index, ethertype, None))?;
        frames::join(&socket, index, LINK_GROUP)?;
        if peers {
            frames::join(&socket, index, LINK_PEERS)?;
        }
    }
    Ok(socket)
}

//--- Stamps

/// The contents of control messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Stamped {
    software: Option<UnixTime>,
    hardware: Option<UnixTime>,
    /// The number of the sent message.
    key: Option<u32>,
}

/// Takes control messages apart.
fn stamps(control: &[u8]) -> Stamped {
    let mut stamped = Stamped::default();
    for message in messages(control) {
        match (message.level, message.kind, message.parsed()) {
            (_, _, Parsed::Stamps { software, hardware }) => {
                stamped.software = software.map(UnixTime);
                stamped.hardware = hardware.map(UnixTime);
            }
            (_, _, Parsed::Sent(number)) => stamped.key = Some(number),
            (libc::SOL_PACKET, TRANSMIT_STAMP, _) => stamped.key = key(message.data),
            _ => {}
        }
    }
    stamped
}

/// `PACKET_TX_TIMESTAMP`.
const TRANSMIT_STAMP: i32 = 16;

/// The key out of a `sock_extended_err` of a stamp (linux/errqueue.h).
fn key(body: &[u8]) -> Option<u32> {
    // SO_EE_ORIGIN_TIMESTAMPING.
    if *body.get(4)? != 4 {
        return None;
    }
    body.get(12..)?
        .first_chunk()
        .copied()
        .map(u32::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(level: i32, kind: i32, body: &[u8]) -> Vec<u8> {
        let mut room = [0; 128];
        let length = sys::control::put(&mut room, 0, level, kind, body);
        room[..length].to_vec()
    }

    fn times(times: [(i64, i64); 3]) -> Vec<u8> {
        times
            .iter()
            .flat_map(|(seconds, nanoseconds)| [seconds.to_ne_bytes(), nanoseconds.to_ne_bytes()])
            .flatten()
            .collect()
    }

    #[test]
    fn stamps_are_found_among_control_messages() {
        let other = message(libc::SOL_SOCKET, libc::SO_PRIORITY, &[7; 5]);
        let software = times([(5, 7), (0, 0), (0, 0)]);
        let hardware = times([(0, 0), (0, 0), (9, 11)]);
        let stamp = |body: &[u8]| message(libc::SOL_SOCKET, libc::SO_TIMESTAMPING, body);
        let came = [&other[..], &stamp(&software)].concat();
        let expected = Stamped {
            software: Some(UnixTime(5_000_000_007)),
            ..Stamped::default()
        };
        assert_eq!(stamps(&came), expected);
        let mut error = [0; 16];
        error[4] = 4;
        error[12..].copy_from_slice(&77_u32.to_ne_bytes());
        for (level, kind) in [
            (libc::SOL_IP, libc::IP_RECVERR),
            (libc::SOL_PACKET, TRANSMIT_STAMP),
        ] {
            let sent = [stamp(&hardware), message(level, kind, &error)].concat();
            let expected = Stamped {
                software: None,
                hardware: Some(UnixTime(9_000_000_011)),
                key: Some(77),
            };
            assert_eq!(stamps(&sent), expected);
        }
        // An error of another kind, such as a port that is not there.
        error[4] = 2;
        let sent = message(libc::SOL_IP, libc::IP_RECVERR, &error);
        assert_eq!(stamps(&sent), Stamped::default());
        for length in 0..came.len() {
            stamps(&came[..length]);
        }
        stamps(&[0; 64]);
        stamps(&[0xff; 64]);
    }
}
