//! chronyc's protocol.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use super::{AccessRule, RateLimit};

/// chronyc's protocol.
#[derive(Clone, Debug, PartialEq)]
pub struct CommandSettings {
    /// `cmdport`; 0 is none.
    pub port: u16,
    /// `bindcmdaddress` with an address, one of each family in chrony; loopback if there is none.
    pub bind_addresses: Vec<IpAddr>,
    /// `bindcmdaddress` with a path: the socket where commands are taken; `None` is none.
    pub socket: Option<PathBuf>,
    /// `bindcmddevice`.
    pub bind_device: Option<String>,
    /// `cmdallow` and `cmddeny`, in order; the own node always may.
    pub access: Vec<AccessRule>,
    /// `cmdratelimit`.
    pub rate_limit: Option<RateLimit>,
    /// `opencommands`: the reports that are given over UDP, by chronyc's names; chrony 4.7.
    pub open: Vec<String>,
    /// `manual`: chronyc's `settime` is allowed.
    pub manual: bool,
}

impl CommandSettings {
    /// The addresses of the datagram sockets.
    #[must_use]
    pub fn listen(&self) -> Vec<SocketAddr> {
        if self.port == 0 {
            return Vec::new();
        }
        let of_family = |is_v4: bool, default: IpAddr| {
            let given = self.bind_addresses.iter().copied();
            let given: Vec<IpAddr> = given.filter(|a| a.is_ipv4() == is_v4).collect();
            if given.is_empty() {
                vec![default]
            } else {
                given
            }
        };
        let v4 = of_family(true, std::net::Ipv4Addr::LOCALHOST.into());
        let v6 = of_family(false, std::net::Ipv6Addr::LOCALHOST.into());
        v4.into_iter()
            .chain(v6)
            .map(|address| SocketAddr::new(address, self.port))
            .collect()
    }
}

/// The reports that are given over UDP unless the configuration says otherwise: those of chrony 4.3.
pub const OPEN_COMMANDS: [&str; 8] = [
    "activity",
    "manual",
    "rtcdata",
    "smoothing",
    "sourcename",
    "sources",
    "sourcestats",
    "tracking",
];

/// The path at which chronyc looks for the socket.
pub const DEFAULT_COMMAND_SOCKET: &str = "/run/chrony/chronyd.sock";

impl Default for CommandSettings {
    fn default() -> Self {
        Self {
            port: 323,
            bind_addresses: Vec::new(),
            socket: Some(DEFAULT_COMMAND_SOCKET.into()),
            bind_device: None,
            access: Vec::new(),
            rate_limit: None,
            open: OPEN_COMMANDS.map(str::to_owned).to_vec(),
            manual: false,
        }
    }
}
