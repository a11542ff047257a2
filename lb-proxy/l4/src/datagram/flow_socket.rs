//! The way between a client and a server: the socket of one flow.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use balance::pool::Server;
use daemon::udp::ReturnPath;
use l4_core::flow::FlowId;
use socket2::Socket;
use sys::control::Room;
use sys::message;
use sys::source::Ancillary;
use tracing::debug;

/// The way between a client and a server.
#[derive(Debug)]
pub(super) struct FlowSocket {
    pub(super) flow: FlowId,
    pub(super) socket: Socket,
    pub(super) server: Arc<Server>,
    pub(super) local: Option<IpAddr>,
    pub(super) back: ReturnPath,
    /// Requests sent so far.
    pub(super) sent: AtomicU64,
}

/// The result of a read from a server's socket.
pub(super) enum Arrival {
    Answer {
        length: usize,
        /// The number of datagrams.
        datagrams: u64,
        /// Those that the kernel did not take for the client.
        undelivered: u64,
        /// Requests sent before it was received: later ones it does not answer.
        sent: u64,
    },
    /// ICMP says that no process listens there, or that a firewall rejects what is sent.
    Refused,
    /// ICMP says that a datagram was too long for the path.
    TooLong,
}

impl FlowSocket {
    /// Passes one answer on to the client, or as many as the kernel has merged.
    pub(super) fn receive(&self, buffer: &mut [u8]) -> Option<Arrival> {
        let sent = self.sent.load(Ordering::Relaxed);
        let mut control = Room::<64>::EMPTY;
        let received = message::receive(&self.socket, buffer, &mut control.0, libc::MSG_DONTWAIT);
        let received = match received {
            Ok(received) => received,
            Err(failure) if message::is_unreachable(&failure) => return Some(Arrival::Refused),
            Err(failure) if message::is_too_long(&failure) => return Some(Arrival::TooLong),
            Err(_) => return None,
        };
        let length = received.length;
        let control = control.0.get(..received.control_length);
        let merged = Ancillary::read(control.unwrap_or_default()).merged;
        let answer = buffer.get(..length).unwrap_or_default();
        let mut undelivered = 0;
        self.back
            .send_merged(answer, length_of_each(answer, merged), |failure| {
                debug!(error = %failure, client = %self.back.peer(), "An answer could not be sent");
                undelivered += 1;
            });
        Some(Arrival::Answer {
            length,
            datagrams: datagrams(answer, merged),
            undelivered,
            sent,
        })
    }
}

/// The number of datagrams in a payload; `merged` is the length of each, if the kernel has merged several.
pub(super) fn datagrams(payload: &[u8], merged: Option<u16>) -> u64 {
    let each = usize::from(length_of_each(payload, merged));
    u64::try_from(payload.len().div_ceil(each).max(1)).unwrap_or(1)
}

/// The length of each datagram in a payload; not zero.
pub(super) fn length_of_each(payload: &[u8], merged: Option<u16>) -> u16 {
    // No datagram is longer than such a number.
    let length = u16::try_from(payload.len()).unwrap_or(u16::MAX);
    merged.unwrap_or(length).max(1)
}
