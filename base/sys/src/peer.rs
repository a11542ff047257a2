//! The process at the other end of a Unix socket.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use crate::{checked, length_of};

/// Groups that are read at the first try; a user of more has the call made again.
const USUAL: usize = 32;

/// The kernel's bound on the groups of a process (`NGROUPS_MAX`).
const MOST: usize = 65_536;

/// The identity that a process had when it connected, or began to listen.
///
/// A user or a group that the namespace of this process does not map is the overflow id (65534).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// The effective user.
    pub uid: u32,
    /// The effective group.
    pub gid: u32,
    /// The supplementary groups.
    pub groups: Vec<u32>,
}

impl Credentials {
    /// Whether the process is in a group.
    #[must_use]
    pub fn is_in(&self, group: u32) -> bool {
        self.gid == group || self.groups.contains(&group)
    }
}

/// Reads the identity of the peer of a connected Unix socket (`SO_PEERCRED`, `SO_PEERGROUPS`).
pub fn credentials(socket: impl AsFd) -> io::Result<Credentials> {
    // Not rustix's: its process id is never 0, and that of a process in another PID namespace is.
    let mut peer = libc::ucred {
        pid: 0,
        uid: u32::MAX,
        gid: u32::MAX,
    };
    let mut length = length_of(size_of::<libc::ucred>());
    // SAFETY: The descriptor is borrowed; the call writes no more than the length says, which is that of
    // the structure of three numbers, and the length.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut length,
        )
    };
    checked(result)?;
    Ok(Credentials {
        uid: peer.uid,
        gid: peer.gid,
        groups: groups(socket)?,
    })
}

fn groups(socket: impl AsFd) -> io::Result<Vec<u32>> {
    let mut groups: Vec<u32> = vec![0; USUAL];
    loop {
        let room = groups.len();
        let mut length = length_of(room * size_of::<u32>());
        // SAFETY: The descriptor is borrowed; the call writes no more than the length says, which is that
        // of the vector, and the length.
        let result = unsafe {
            libc::getsockopt(
                socket.as_fd().as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERGROUPS,
                groups.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        let needed = usize::try_from(length).unwrap_or(0) / size_of::<u32>();
        match checked(result) {
            Ok(_) => {
                groups.truncate(needed);
                return Ok(groups);
            }
            // The length is then that of all of them.
            Err(error)
                if error.raw_os_error() == Some(libc::ERANGE)
                    && (room + 1..=MOST).contains(&needed) =>
            {
                groups.resize(needed, 0);
            }
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn the_peer_is_this_process() {
        let (near, _far) = UnixStream::pair().unwrap();
        let peer = credentials(&near).unwrap();
        assert_eq!(peer.uid, rustix::process::geteuid().as_raw());
        assert_eq!(peer.gid, rustix::process::getegid().as_raw());
        let groups = rustix::process::getgroups().unwrap();
        let groups: Vec<u32> = groups.iter().map(|group| group.as_raw()).collect();
        assert_eq!(peer.groups, groups);
        assert!(peer.is_in(peer.gid));
    }

    #[test]
    fn a_socket_without_a_peer_has_no_credentials() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let groups = credentials(&socket).map(|peer| peer.groups);
        assert!(groups.is_err(), "{groups:?}");
    }
}
