//! Datagrams with timestamps, own addresses and the numbers of the error queue.
//!
//! The socket is made by `socket` and `fcntl`, as a network simulator expects it.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::fs::OFlags;
use rustix::io::FdFlags;
use socket2::{Domain, SockRef, Socket, Type};
use sys::control::{Parsed, Room, messages, put_source, put_stamp_request};
use sys::message;

/// Three timestamps, the NIC's number, an extended error with an address, an own address, and their headers: 216 octets of these.
const CONTROL_LENGTH: usize = 512;

/// Makes a descriptor non-blocking, and closes it in programs that this one executes.
pub(super) fn set_flags(descriptor: &OwnedFd) -> io::Result<()> {
    rustix::io::fcntl_setfd(descriptor, FdFlags::CLOEXEC)?;
    rustix::fs::fcntl_setfl(descriptor, OFlags::NONBLOCK)?;
    Ok(())
}

/// Opens a datagram socket of the family of `address`.
pub(super) fn socket(address: SocketAddr) -> io::Result<OwnedFd> {
    let socket = Socket::new_raw(Domain::for_address(address), Type::DGRAM, None)?.into();
    set_flags(&socket)?;
    Ok(socket)
}

/// The own address of a socket.
pub(super) fn local_address(socket: &OwnedFd) -> Option<SocketAddr> {
    SockRef::from(socket).local_addr().ok()?.as_socket()
}

/// Sends to an address, and from an own address if one is given.
pub(super) fn send_to(
    socket: &OwnedFd,
    octets: &[u8],
    to: SocketAddr,
    from: Option<IpAddr>,
) -> io::Result<usize> {
    let mut control = Room::<CONTROL_LENGTH>::EMPTY;
    // Without an interface, the route decides.
    let length = from.map_or(0, |from| put_source(&mut control.0, 0, from, 0));
    let control = control.0.get(..length).unwrap_or_default();
    message::send(socket, octets, Some(to), control)
}

/// Sends to the other side of a connected socket, without the timestamp of departure that the socket asks for.
pub(super) fn send_unstamped(socket: &OwnedFd, octets: &[u8]) -> io::Result<()> {
    let mut control = Room::<CONTROL_LENGTH>::EMPTY;
    let length = put_stamp_request(&mut control.0, 0, 0);
    let control = control.0.get(..length).unwrap_or_default();
    message::send(socket, octets, None, control).map(drop)
}

/// A received datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Received {
    /// Octets of the datagram.
    pub(super) length: usize,
    /// Timestamp of the kernel, in nanoseconds on the wall clock.
    pub(super) software: Option<i64>,
    /// Timestamp of the NIC, in nanoseconds on its own clock.
    pub(super) hardware: Option<i64>,
    /// The interface that took the timestamp, or else the one that the datagram came to.
    pub(super) interface: Option<u32>,
    /// Length of the frame, of received datagrams only.
    pub(super) frame_length: Option<u32>,
    /// The timestamp is of the sent datagram with this number.
    pub(super) number: Option<u32>,
    /// The sender.
    pub(super) from: Option<SocketAddr>,
    /// The own address that the datagram came to.
    pub(super) to: Option<IpAddr>,
}

/// Receives a datagram, or with `MSG_ERRQUEUE` the timestamp of one that was sent.
pub(super) fn receive(socket: &OwnedFd, buffer: &mut [u8], flags: i32) -> io::Result<Received> {
    let mut control = Room::<CONTROL_LENGTH>::EMPTY;
    let message = message::receive(socket, buffer, &mut control.0, flags)?;
    let mut received = Received {
        length: message.length,
        from: message.from,
        ..Received::default()
    };
    let control = control.0.get(..message.control_length);
    for message in messages(control.unwrap_or_default()) {
        received.note(message.parsed());
    }
    Ok(received)
}

impl Received {
    fn note(&mut self, message: Parsed) {
        match message {
            Parsed::Stamps { software, hardware } => {
                self.software = software.or(self.software);
                self.hardware = hardware.or(self.hardware);
            }
            Parsed::Card {
                interface,
                frame_length,
            } => {
                self.interface = interface;
                self.frame_length = frame_length;
            }
            Parsed::Sent(number) => self.number = Some(number),
            Parsed::Destination { address, interface } => {
                self.to = Some(address);
                let interface = Some(interface).filter(|index| *index != 0);
                self.interface = self.interface.or(interface);
            }
            Parsed::HopLimit(_) | Parsed::TrafficClass(_) | Parsed::Merged(_) | Parsed::Other => {}
        }
    }
}
