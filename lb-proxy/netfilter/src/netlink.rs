//! Asks the kernel over netlink, and waits for what it says.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

/// The kernel sends parts of a listing in pieces up to this long.
const BUFFER: usize = 64 * 1024;

/// How long the kernel may take to answer; it answers at once.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// A socket for one request after the other.
pub(super) struct Netlink {
    socket: Socket,
    buffer: Vec<u8>,
}

impl Netlink {
    /// Opens one to a part of the kernel, such as `NETLINK_ROUTE`.
    pub(super) fn open(part: i32) -> io::Result<Self> {
        let family = Domain::from(libc::AF_NETLINK);
        let socket = Socket::new(family, Type::RAW, Some(Protocol::from(part)))?;
        socket.set_read_timeout(Some(ANSWER_LIMIT))?;
        Ok(Self {
            socket,
            buffer: vec![0; BUFFER],
        })
    }

    pub(super) fn send(&self, request: &[u8]) -> io::Result<()> {
        (&self.socket).write_all(request)
    }

    /// The next piece of the answer.
    ///
    /// A signal to the process may come to this thread: one to reload, or of a program that has ended. A
    /// call with a time limit ends with it and is not begun again by the system (signal(7)).
    pub(super) fn receive(&mut self) -> io::Result<&[u8]> {
        loop {
            match (&self.socket).read(&mut self.buffer) {
                Ok(length) => return Ok(self.buffer.get(..length).unwrap_or_default()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}
