//! The way between a client and a server: the socket of one flow.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use balance::pool::Server;
use daemon::udp::ReturnPath;
use l4_core::flow::FlowId;
use rustix::io::Errno;
use socket2::Socket;
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
        /// Requests sent before it was received: later ones it does not answer.
        sent: u64,
    },
    Refused,
}

impl FlowSocket {
    /// Passes one answer on to the client.
    pub(super) fn receive(&self, buffer: &mut [u8]) -> Option<Arrival> {
        let sent = self.sent.load(Ordering::Relaxed);
        match rustix::net::recv(&self.socket, &mut *buffer, rustix::net::RecvFlags::DONTWAIT) {
            Ok((length, _)) => {
                let answer = buffer.get(..length).unwrap_or_default();
                if let Err(failure) = self.back.send(answer) {
                    debug!(error = %failure, client = %self.back.peer(), "An answer could not be sent");
                }
                Some(Arrival::Answer { length, sent })
            }
            Err(Errno::CONNREFUSED) => Some(Arrival::Refused),
            Err(_) => None,
        }
    }
}
