//! Datagram sockets of this machine (`AF_UNIX`), which never wait.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::net::RecvFlags;
use socket2::{Domain, SockAddr, SockRef, Socket, Type};

/// Opens a socket at a path; without one, at a name that the kernel chooses.
pub(crate) fn bind(path: Option<&Path>) -> io::Result<OwnedFd> {
    let socket = Socket::new_raw(Domain::UNIX, Type::DGRAM, None)?;
    socket.set_cloexec(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address(path.unwrap_or_else(|| Path::new("")))?)?;
    Ok(socket.into())
}

/// Sends a datagram to the socket at a path.
pub(crate) fn send(socket: &OwnedFd, datagram: &[u8], path: &Path) -> io::Result<()> {
    let sent = SockRef::from(socket).send_to(datagram, &address(path)?);
    sent.map(drop)
}

/// Receives a datagram if there is one, cut to the length of the buffer.
pub(crate) fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> io::Result<usize> {
    let (length, _) = rustix::net::recv(socket, buffer, RecvFlags::DONTWAIT)?;
    Ok(length)
}

/// The address of a path. The kernel chooses a name for the empty one.
fn address(path: &Path) -> io::Result<SockAddr> {
    if path.as_os_str().as_bytes().contains(&0) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    SockAddr::unix(path)
}
