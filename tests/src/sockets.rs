//! Sockets that another process than their daemon holds, as systemd does.

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};

/// A UDP and a TCP socket on one address that any number of processes may serve in turn.
#[derive(Debug)]
pub struct Held {
    udp: UdpSocket,
    tcp: TcpListener,
}

impl Held {
    /// Binds both.
    ///
    /// # Panics
    ///
    /// Panics if the address is taken.
    #[must_use]
    pub fn bind(address: SocketAddr) -> Self {
        Self {
            udp: UdpSocket::bind(address).unwrap_or_else(|error| panic!("{address}: {error}")),
            tcp: TcpListener::bind(address).unwrap_or_else(|error| panic!("{address}: {error}")),
        }
    }

    /// `command`, to be started with both sockets handed over under `name`, as by systemd.
    ///
    /// `LISTEN_PID` has to be the daemon's own process id, which only the process itself knows
    /// before it becomes the daemon: a shell says it and then turns into it. The sockets travel as
    /// the standard input and output of that shell, so no other child can inherit them by chance.
    ///
    /// # Panics
    ///
    /// Panics if a socket cannot be duplicated.
    #[must_use]
    pub fn hand_to(&self, name: &str, command: &Command) -> Command {
        let script = "exec 3<&0 4<&1 </dev/null >/dev/null; \
                      LISTEN_FDS=2 LISTEN_FDNAMES=\"$0:$0\" LISTEN_PID=$$ exec \"$@\"";
        let mut shell = Command::new("sh");
        shell
            .args(["-c", script, name])
            .arg(command.get_program())
            .args(command.get_args());
        for (key, value) in command.get_envs() {
            match value {
                Some(value) => shell.env(key, value),
                None => shell.env_remove(key),
            };
        }
        let udp: OwnedFd = self.udp.try_clone().expect("a descriptor is free").into();
        let tcp: OwnedFd = self.tcp.try_clone().expect("a descriptor is free").into();
        shell.stdin(Stdio::from(udp)).stdout(Stdio::from(tcp));
        shell
    }
}

/// A Unix socket at a path that any number of processes may serve in turn.
#[derive(Debug)]
pub struct HeldPath {
    listener: UnixListener,
}

impl HeldPath {
    /// Listens there.
    ///
    /// # Panics
    ///
    /// Panics if the path is taken.
    #[must_use]
    pub fn bind(path: &Path) -> Self {
        let listener = UnixListener::bind(path);
        let listener = listener.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self { listener }
    }

    /// `command`, to be started with the socket handed over under `name`; see [`Held::hand_to`].
    ///
    /// # Panics
    ///
    /// Panics if the socket cannot be duplicated.
    #[must_use]
    pub fn hand_to(&self, name: &str, command: &Command) -> Command {
        let script = "exec 3<&0 </dev/null >/dev/null; \
                      LISTEN_FDS=1 LISTEN_FDNAMES=\"$0\" LISTEN_PID=$$ exec \"$@\"";
        let mut shell = Command::new("sh");
        shell
            .args(["-c", script, name])
            .arg(command.get_program())
            .args(command.get_args());
        let listener = self.listener.try_clone().expect("a descriptor is free");
        shell.stdin(Stdio::from(OwnedFd::from(listener)));
        shell
    }
}
