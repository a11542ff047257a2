//! Whether everything that the site listens on is free, asked before anything is started.

use std::fmt::Write as _;
use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};

use daemon::listen::{Transport, owner};

/// An address that the site needs, and what for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PortRequest {
    /// The service that will listen.
    pub(crate) what: String,
    /// UDP or TCP.
    pub(crate) transport: Transport,
    /// The address.
    pub(crate) address: SocketAddr,
}

impl PortRequest {
    /// Something that listens for TCP.
    pub(crate) fn tcp(what: &str, address: SocketAddr) -> Self {
        Self {
            what: what.to_owned(),
            transport: Transport::Tcp,
            address,
        }
    }

    /// Something that listens for UDP.
    pub(crate) fn udp(what: &str, address: SocketAddr) -> Self {
        Self {
            what: what.to_owned(),
            transport: Transport::Udp,
            address,
        }
    }
}

/// Tries every address for a moment.
///
/// # Errors
///
/// When some cannot be had: all of them, each with its reason and, if it is taken, by which process.
pub(crate) fn check(wanted: &[PortRequest]) -> Result<(), Refusal> {
    let mut refusal = Refusal {
        lines: String::new(),
        permission: true,
    };
    for one in wanted {
        let tried = match one.transport {
            Transport::Tcp => TcpListener::bind(one.address).map(drop),
            Transport::Udp => UdpSocket::bind(one.address).map(drop),
        };
        if let Err(error) = tried {
            refusal.add(one, &error);
        }
    }
    if refusal.lines.is_empty() {
        Ok(())
    } else {
        Err(refusal)
    }
}

/// Addresses that cannot be had.
#[derive(Debug, thiserror::Error)]
#[error("cannot start the site:{lines}")]
pub(crate) struct Refusal {
    lines: String,
    /// Whether privileges are all that is missing.
    pub(crate) permission: bool,
}

impl Refusal {
    fn add(&mut self, wanted: &PortRequest, error: &io::Error) {
        let PortRequest {
            what,
            transport,
            address,
        } = wanted;
        let protocol = match transport {
            Transport::Udp => "UDP",
            Transport::Tcp => "TCP",
        };
        self.permission &= error.kind() == io::ErrorKind::PermissionDenied;
        let reason = if error.kind() == io::ErrorKind::AddrInUse {
            match owner(*transport, *address) {
                Some(owner) if owner.address == *address => format!("taken by {owner}"),
                Some(owner) => format!("taken by {owner}, which listens on {}", owner.address),
                None => "taken by a process that cannot be seen from here".to_owned(),
            }
        } else {
            error.to_string()
        };
        // Writing to a `String` cannot fail.
        let _infallible = write!(
            self.lines,
            "\n  {protocol} {address}, wanted for {what}: {reason}"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_ports_are_no_trouble() {
        let any: SocketAddr = ([127, 62, 0, 1], 0).into();
        check(&[PortRequest::tcp("x", any), PortRequest::udp("y", any)]).unwrap();
    }

    #[test]
    fn every_taken_port_is_named_with_its_owner() {
        let any: SocketAddr = ([127, 62, 0, 2], 0).into();
        let tcp = TcpListener::bind(any).unwrap();
        let udp = UdpSocket::bind(any).unwrap();
        let tcp_at = tcp.local_addr().unwrap();
        let udp_at = udp.local_addr().unwrap();
        let refusal = check(&[
            PortRequest::tcp("the API", tcp_at),
            PortRequest::udp("dns-authd", udp_at),
        ])
        .unwrap_err();
        let text = refusal.to_string();
        let pid = std::process::id();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(lines[1].starts_with(&format!("  TCP {tcp_at}, wanted for the API: taken by ")));
        assert!(lines[2].starts_with(&format!("  UDP {udp_at}, wanted for dns-authd: taken by ")));
        assert!(lines[1].ends_with(&format!("(pid {pid})")), "{text}");
        assert!(!refusal.permission);
    }

    #[test]
    fn a_wildcard_listener_is_found_too() {
        let wildcard = TcpListener::bind("0.0.0.0:0").unwrap();
        let port = wildcard.local_addr().unwrap().port();
        let refusal = check(&[PortRequest::tcp("x", ([127, 62, 0, 3], port).into())])
            .unwrap_err()
            .to_string();
        assert!(
            refusal.ends_with(&format!("which listens on 0.0.0.0:{port}")),
            "{refusal}"
        );
    }
}
