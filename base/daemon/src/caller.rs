//! The role of a process that connects to a Unix socket of this daemon.
//!
//! The file's mode decides first, in the kernel: its owner and its group may connect. The identity that the
//! process had when it connected decides then (`SO_PEERCRED`, `SO_PEERGROUPS`), so that a loosened mode lets no
//! other user in.
//!
//! | role | is | may |
//! | --- | --- | --- |
//! | [`Role::Owner`] | root, or the daemon's own user: the slot manager, a successor | everything |
//! | [`Role::Operator`] | a member of the group of the socket's file | everything but to ask for a handover |
//! | [`Role::Other`] | any other process | nothing |

use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use rustix::process::geteuid;
use sys::peer::{Credentials, credentials};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// The user that may do everything on a system.
const ROOT: u32 = 0;

/// The most octets of a refused process that are read, and not looked at.
const MOST_DISCARDED: u64 = 64 << 10;

/// The longest time that a refused process has to read the refusal.
const CLOSING: Duration = Duration::from_secs(2);

/// The role of a process; a later one may do all that an earlier one may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Neither of the others.
    Other,
    /// A member of the operators' group.
    Operator,
    /// The daemon's own user, or root.
    Owner,
}

impl fmt::Display for Role {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Other => "other",
            Self::Operator => "operator",
            Self::Owner => "owner",
        })
    }
}

/// The access to one socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    owner: u32,
    operators: u32,
}

impl Access {
    /// The access to the socket at `path`, which this process has bound: the group of the file is the operators'.
    ///
    /// In a directory with the set-group-ID bit a file has the group of the directory. A user namespace of this
    /// process that does not map that group (`PrivateUsers=` of a unit) shows it as the overflow group, and the groups
    /// of operators too: the mode alone keeps others out then.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn to(path: &Path) -> io::Result<Self> {
        Ok(Self {
            owner: geteuid().as_raw(),
            operators: std::fs::symlink_metadata(path)?.gid(),
        })
    }

    /// The role of the process at the other end of a connection. One that the kernel does not identify has none.
    pub fn role(&self, stream: impl AsFd) -> Role {
        match credentials(stream) {
            Ok(peer) => self.role_of(&peer),
            Err(error) => {
                tracing::warn!(%error, "A process at the admin socket cannot be identified");
                Role::Other
            }
        }
    }

    fn role_of(&self, peer: &Credentials) -> Role {
        if peer.uid == ROOT || peer.uid == self.owner {
            Role::Owner
        } else if peer.is_in(self.operators) {
            Role::Operator
        } else {
            Role::Other
        }
    }
}

/// Ends the connection of a process without a role so that it can read why.
///
/// A client that still writes its commands gets an error from a closed socket before it reads the reason. So the socket is read,
/// up to 64 KiB and for two seconds, and is closed by the caller after that.
///
/// # Errors
///
/// When the client is gone, or takes longer than `timeout` to let the text be written.
pub async fn refuse<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    text: &str,
    timeout: Duration,
) -> io::Result<()> {
    tokio::time::timeout(timeout, stream.write_all(text.as_bytes())).await??;
    stream.shutdown().await?;
    let (mut rest, mut nowhere) = (stream.take(MOST_DISCARDED), tokio::io::sink());
    let reading = tokio::io::copy(&mut rest, &mut nowhere);
    match tokio::time::timeout(CLOSING, reading).await {
        Ok(read) => read.map(drop),
        Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn user_and_groups_decide_on_the_role() {
        let access = Access {
            owner: 65_532,
            operators: 990,
        };
        for (uid, gid, groups, role) in [
            (0, 0, vec![], Role::Owner),
            (65_532, 65_532, vec![], Role::Owner),
            (1000, 1000, vec![4, 990], Role::Operator),
            (1000, 990, vec![], Role::Operator),
            (1000, 1000, vec![], Role::Other),
            // The services' group is not the operators', and neither is root's.
            (1000, 65_532, vec![0], Role::Other),
            (65_534, 65_534, vec![65_534], Role::Other),
        ] {
            let peer = Credentials { uid, gid, groups };
            assert_eq!(access.role_of(&peer), role, "{peer:?}");
        }
        assert!(Role::Owner > Role::Operator && Role::Operator > Role::Other);
    }

    #[test]
    fn this_process_owns_its_sockets() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.sock");
        let (listener, _bound) = crate::listen::path::listen(&path).unwrap();
        let access = Access::to(&path).unwrap();
        let _client = UnixStream::connect(&path).unwrap();
        listener.set_nonblocking(false).unwrap();
        let (stream, _) = listener.accept().unwrap();
        assert_eq!(access.role(&stream), Role::Owner);
        assert!(Access::to(&directory.path().join("y.sock")).is_err());
    }
}
