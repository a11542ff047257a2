//! Messages and descriptors over a Unix socket.

use std::fs;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use l4_core::handover::{LONGEST, MOST_DESCRIPTORS, Message};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use rustix::time::Timespec;

/// How long a peer may take for one message: it does nothing else meanwhile.
const LIMIT: Duration = Duration::from_secs(5);

/// Successors that wait for their turn; there is one.
const BACKLOG: i32 = 4;

/// Room for the descriptors of one message.
const CONTROL: usize = rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS));

/// One end of the conversation.
#[derive(Debug)]
pub(super) struct Channel {
    socket: OwnedFd,
    buffer: Vec<u8>,
}

/// The socket for successors.
#[derive(Debug)]
pub(super) struct HandoverSocket {
    socket: OwnedFd,
    path: PathBuf,
    /// Device and inode of what was bound; `None` when the path is a successor's.
    identity: Option<(u64, u64)>,
}

impl Channel {
    fn new(socket: OwnedFd) -> io::Result<Self> {
        for timeout in [Timeout::Recv, Timeout::Send] {
            sockopt::set_socket_timeout(&socket, timeout, Some(LIMIT))?;
        }
        Ok(Self {
            socket,
            buffer: vec![0; LONGEST],
        })
    }

    /// Connects to `path`; none when no process is there.
    pub(super) fn open(path: &Path) -> io::Result<Option<Self>> {
        let socket = socket()?;
        match rustix::net::connect(&socket, &SocketAddrUnix::new(path)?) {
            Ok(()) => {}
            Err(Errno::NOENT | Errno::CONNREFUSED) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        // A process that gives connections can forge their contents. The owner of the name identifies it,
        // and not the peer's credentials: those of a process in another container have the process id 0,
        // which rustix's type for them cannot hold.
        let owner = fs::symlink_metadata(path)?.uid();
        if owner != rustix::process::geteuid().as_raw() && owner != 0 {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!("the socket belongs to user {owner}"),
            ));
        }
        Self::new(socket).map(Some)
    }

    /// Sends a message with descriptors beside it.
    pub(super) fn send(&self, message: &Message, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let octets = message.encode();
        if octets.len() > LONGEST || fds.len() > MOST_DESCRIPTORS {
            return Err(io::Error::other("a message is too long"));
        }
        let mut space = [MaybeUninit::uninit(); CONTROL];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
            return Err(io::Error::other("too many descriptors"));
        }
        loop {
            let vectors = [IoSlice::new(&octets)];
            match rustix::net::sendmsg(&self.socket, &vectors, &mut control, SendFlags::NOSIGNAL) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                // Too many descriptors are on their way: the kernel waits for the reader.
                Err(Errno::TOOMANYREFS) => std::thread::yield_now(),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Receives a message and its descriptors.
    pub(super) fn receive(&mut self) -> io::Result<(Message, Vec<OwnedFd>)> {
        let mut space = [MaybeUninit::uninit(); CONTROL];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = loop {
            let mut vectors = [IoSliceMut::new(&mut self.buffer)];
            let flags = RecvFlags::CMSG_CLOEXEC;
            match rustix::net::recvmsg(&self.socket, &mut vectors, &mut control, flags) {
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Err(io::ErrorKind::TimedOut.into()),
                other => break other?,
            }
        };
        let mut fds = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                fds.extend(rights);
            }
        }
        if received.flags.contains(ReturnFlags::CTRUNC) {
            return Err(io::Error::other("descriptors were lost; raise LimitNOFILE"));
        }
        if received.bytes == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let octets = self.buffer.get(..received.bytes).unwrap_or_default();
        let message = Message::decode(octets).map_err(io::Error::other)?;
        Ok((message, fds))
    }

    /// Waits at most that long for a message to come, or the peer to go.
    pub(super) fn wait(&self, limit: Duration) -> io::Result<bool> {
        wait(&self.socket, limit)
    }
}

impl HandoverSocket {
    /// Binds beside `path` and renames over it: successors that connect there meet this process from then on.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let beside = beside(path);
        fs::remove_file(&beside).ok();
        let socket = socket()?;
        rustix::net::bind(&socket, &SocketAddrUnix::new(&beside)?)?;
        let opened = (|| {
            // No process can connect before it listens, and then those alone who may write there: this user, and
            // root. A process that receives the connections can read their contents.
            fs::set_permissions(&beside, fs::Permissions::from_mode(0o600))?;
            rustix::net::listen(&socket, BACKLOG)?;
            let identity = identity(&beside)?;
            fs::rename(&beside, path)?;
            Ok(identity)
        })();
        match opened {
            Ok(identity) => Ok(Self {
                socket,
                path: path.to_owned(),
                identity: Some(identity),
            }),
            Err(error) => {
                fs::remove_file(&beside).ok();
                Err(error)
            }
        }
    }

    /// Leaves the path to the successor. That one puts its own socket there at any moment, also between a look at the path
    /// and its removal.
    pub(super) fn leave(&mut self) {
        self.identity = None;
    }

    /// Accepts the next successor; `None` when `end` is readable first.
    pub(super) fn accept(&self, end: impl AsFd) -> io::Result<Option<Channel>> {
        let mut polled = [
            PollFd::new(&self.socket, PollFlags::IN),
            PollFd::new(&end, PollFlags::IN),
        ];
        match rustix::event::poll(&mut polled, None) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        let [asked, _] = polled;
        if asked.revents().is_empty() {
            return Ok(None);
        }
        match rustix::net::accept_with(&self.socket, SocketFlags::CLOEXEC) {
            Ok(socket) => Channel::new(socket).map(Some),
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for HandoverSocket {
    fn drop(&mut self) {
        // Another process may have put its own there.
        if identity(&self.path).is_ok_and(|identity| Some(identity) == self.identity) {
            fs::remove_file(&self.path).ok();
        }
    }
}

fn socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    Ok(rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        flags,
        None,
    )?)
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let metadata = fs::symlink_metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}

/// A name of this process's own in the same directory.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}", std::process::id()));
    name.into()
}

fn wait(socket: impl AsFd, limit: Duration) -> io::Result<bool> {
    let timeout = Timespec::try_from(limit).map_err(io::Error::other)?;
    let mut polled = [PollFd::new(&socket, PollFlags::IN)];
    match rustix::event::poll(&mut polled, Some(&timeout)) {
        Ok(n) => Ok(n > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
