//! Tells the service manager how the process fares (`sd_notify(3)`).
//!
//! Without `NOTIFY_SOCKET` nothing is sent and nothing fails. A message that cannot be delivered is
//! dropped: a daemon serves on when its manager does not listen.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use crate::environment::Environment;

/// Start-up is complete.
pub fn ready() {
    send("READY=1");
}

/// The configuration is being read again; [`ready`] says when that is over.
///
/// Carries the monotonic clock, by which the manager tells this reload from an earlier one.
pub fn reloading() {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let micros = now.tv_sec * 1_000_000 + now.tv_nsec / 1_000;
    send(&format!("RELOADING=1\nMONOTONIC_USEC={micros}"));
}

/// The process has begun to end.
pub fn stopping() {
    send("STOPPING=1");
}

/// One line for `systemctl status`.
pub fn status(line: &str) {
    let line: String = line.chars().filter(|letter| *letter != '\n').collect();
    send(&format!("STATUS={line}"));
}

/// The process is alive and makes progress.
pub fn watchdog() {
    send("WATCHDOG=1");
}

/// How often [`watchdog`] has to be sent at least, if the manager watches.
#[must_use]
pub fn watchdog_interval() -> Option<Duration> {
    Environment::current().watchdog
}

fn send(message: &str) {
    static NOTIFIER: OnceLock<Option<Notifier>> = OnceLock::new();
    let notifier = NOTIFIER.get_or_init(|| {
        let address = Environment::current().notify_socket.as_deref()?;
        match Notifier::open(address) {
            Ok(notifier) => Some(notifier),
            Err(error) => {
                tracing::warn!(?address, %error, "Service manager cannot be notified");
                None
            }
        }
    });
    if let Some(notifier) = notifier {
        notifier.send(message);
    }
}

/// A socket to the service manager.
#[derive(Debug)]
struct Notifier {
    socket: UnixDatagram,
    address: SocketAddr,
}

impl Notifier {
    /// `address` is a path, or an abstract name when it begins with `@`.
    fn open(address: &OsStr) -> io::Result<Self> {
        let address = match address.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
            [b'/', ..] => SocketAddr::from_pathname(Path::new(address))?,
            _ => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    "neither a path nor an abstract name",
                ));
            }
        };
        let socket = UnixDatagram::unbound()?;
        // A manager that does not read must not stop the daemon.
        socket.set_nonblocking(true)?;
        Ok(Self { socket, address })
    }

    fn send(&self, message: &str) {
        if let Err(error) = self.socket.send_to_addr(message.as_bytes(), &self.address) {
            tracing::debug!(%error, message, "Notification was not delivered");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    fn receive(socket: &UnixDatagram) -> String {
        socket
            .set_read_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        let mut buffer = [0; 256];
        let length = socket.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    }

    #[test]
    fn messages_reach_a_path() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify.sock");
        let manager = UnixDatagram::bind(&path).unwrap();
        Notifier::open(path.as_os_str()).unwrap().send("READY=1");
        assert_eq!(receive(&manager), "READY=1");
    }

    #[test]
    fn messages_reach_an_abstract_name() {
        let name = format!("outpost-notify-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let manager = UnixDatagram::bind_addr(&address).unwrap();
        let written = OsString::from(format!("@{name}"));
        Notifier::open(&written).unwrap().send("STATUS=serving");
        assert_eq!(receive(&manager), "STATUS=serving");
    }

    #[test]
    fn a_manager_that_is_gone_is_survived() {
        let notifier = Notifier::open(OsStr::new("/nonexistent/notify.sock")).unwrap();
        notifier.send("READY=1");
        assert!(Notifier::open(OsStr::new("vsock:2:1234")).is_err());
    }
}
