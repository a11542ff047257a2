//! Unix sockets that clients find by a path.
//!
//! A socket file that a killed process left behind is replaced; one that another process answers on is not.
//! A file goes with its socket, unless a successor has put another in its place.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use socket2::{Domain, SockAddr, Socket, Type};

/// Owner and group: services of the node run in one group.
const MODE: u32 = 0o660;

/// Connections the kernel may hold until they are accepted.
const BACKLOG: i32 = 128;

/// A socket that was bound here, and whose file goes when it does.
#[derive(Debug)]
pub struct Bound {
    path: PathBuf,
    identity: Identity,
}

/// Why a socket cannot be listened on.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Another process answers there.
    #[error("cannot listen on {}: another process answers there", .0.display())]
    Taken(PathBuf),
    /// There is a file of another kind.
    #[error("cannot listen on {}: there is a file that is no socket", .0.display())]
    Foreign(PathBuf),
    /// The system refused.
    #[error("cannot listen on {}", path.display())]
    Refused {
        /// The socket.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
}

/// Listens on a path, with owner and group allowed to connect.
///
/// # Errors
/// When another process answers there, or the system refuses.
pub fn listen(path: &Path) -> Result<(UnixListener, Bound), SocketError> {
    remove_stale(path)?;
    let refused = |source| SocketError::Refused {
        path: path.to_owned(),
        source,
    };
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory).map_err(refused)?;
    }
    let listener = bind(path).map_err(refused)?;
    let bound = Bound {
        path: path.to_owned(),
        identity: identity(&fs::symlink_metadata(path).map_err(refused)?),
    };
    Ok((listener, bound))
}

impl SocketError {
    /// The exit code for this error: 77 when the system refused, 70 otherwise.
    #[must_use]
    pub fn code(&self) -> u8 {
        match self {
            Self::Refused { source, .. } => crate::exit::code_of_io(source),
            Self::Taken(_) | Self::Foreign(_) => crate::exit::SOFTWARE,
        }
    }
}

fn bind(path: &Path) -> io::Result<UnixListener> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.bind(&SockAddr::unix(path)?)?;
    // No client can connect before `listen`, so none can before the mode is right.
    fs::set_permissions(path, fs::Permissions::from_mode(MODE))?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

fn remove_stale(path: &Path) -> Result<(), SocketError> {
    let Ok(found) = fs::symlink_metadata(path) else {
        return Ok(());
    };
    if !found.file_type().is_socket() {
        return Err(SocketError::Foreign(path.to_owned()));
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            tracing::info!(path = %path.display(), "Replacing a socket that no process answers on");
            fs::remove_file(path).map_err(|source| SocketError::Refused {
                path: path.to_owned(),
                source,
            })
        }
        // A full backlog, or a socket we may not connect to, belongs to another process.
        Ok(_) | Err(_) => Err(SocketError::Taken(path.to_owned())),
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        // A successor may have replaced the file since.
        let ours =
            fs::symlink_metadata(&self.path).is_ok_and(|found| identity(&found) == self.identity);
        if ours {
            drop(fs::remove_file(&self.path));
        }
    }
}

/// Tells a file from another of its name: numbers of inodes are used again.
type Identity = (u64, i64, i64);

fn identity(found: &fs::Metadata) -> Identity {
    (found.ino(), found.ctime(), found.ctime_nsec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owner_and_group_may_connect_and_the_file_goes_with_the_socket() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("deeper/healthd.sock");
        let (listener, bound) = listen(&path).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o660);
        assert!(UnixStream::connect(&path).is_ok());
        drop((listener, bound));
        assert!(!path.exists());
    }

    #[test]
    fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("healthd.sock");
        let (listener, bound) = listen(&path).unwrap();
        assert!(matches!(listen(&path), Err(SocketError::Taken(_))));
        assert!(path.exists());
        // Killed: the listener is closed and the file stays.
        drop(listener);
        let away = directory.path().join("away");
        fs::rename(&path, &away).unwrap();
        drop(bound);
        fs::rename(&away, &path).unwrap();
        let again = listen(&path).unwrap();
        drop(again);
        fs::write(&path, "a file").unwrap();
        assert!(matches!(listen(&path), Err(SocketError::Foreign(_))));
        assert!(path.exists());
    }

    #[test]
    fn the_file_of_a_successor_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("healthd.sock");
        let (listener, bound) = listen(&path).unwrap();
        drop(listener);
        let (_successor, _its) = listen(&path).unwrap();
        drop(bound);
        assert!(path.exists());
    }
}
