//! The sockets of the NTP listeners: those that systemd hands over, else those of the configuration.

use std::io;
use std::net::{SocketAddr, UdpSocket};

use daemon::listen::{self, Inherited, ListenError, UdpOptions};
use daemon::run::StartError;

use crate::system::socket::has_ipv6;
use time_model::settings::ServerSettings;

/// The name of the sockets among inherited ones.
pub(super) const NAME: &str = "ntp";
const OPTIONS: UdpOptions = UdpOptions {
    per_address: 1,
    grows: true,
    receive_buffer: None,
    freebind: false,
};

/// Opens one for each address; more may [join]. Opens none if no client may ask.
///
/// # Errors
///
/// An address cannot be had.
pub(super) fn open(settings: &ServerSettings) -> Result<Vec<UdpSocket>, StartError> {
    let addresses = addresses(settings);
    let sockets = match listen::udp(&mut Inherited::none(), NAME, &addresses, OPTIONS) {
        // Sockets of peers came first: they share the port.
        Err(error) if is_own(&error) => listen::join_udp(&addresses, OPTIONS),
        opened => opened,
    }?;
    bind_devices(&sockets, settings)?;
    admit_peers(&sockets)?;
    Ok(sockets)
}

/// Whether it is this process that has the address.
fn is_own(error: &ListenError) -> bool {
    let owner = error.owner.as_ref();
    owner.is_some_and(|owner| owner.pid == Some(std::process::id()))
}

/// Packets to a peer leave from the same port, by a socket that is bound to it, too. It may be of another user than one that was
/// handed over, so that the two cannot share the port as a group does.
fn admit_peers(sockets: &[UdpSocket]) -> Result<(), StartError> {
    for socket in sockets {
        socket2::SockRef::from(socket)
            .set_reuse_address(true)
            .map_err(|error| StartError::io("share the port with peers", &error))?;
    }
    Ok(())
}

/// Opens one more for each address.
///
/// # Errors
///
/// An address cannot be had.
pub(super) fn join(settings: &ServerSettings) -> Result<Vec<UdpSocket>, StartError> {
    let sockets = listen::join_udp(&addresses(settings), OPTIONS)?;
    bind_devices(&sockets, settings)?;
    admit_peers(&sockets)?;
    Ok(sockets)
}

fn addresses(settings: &ServerSettings) -> Vec<SocketAddr> {
    match settings.is_open() {
        true => settings.addresses(has_ipv6()),
        false => Vec::new(),
    }
}

/// Binds them to the network interface of the settings, if there is one.
///
/// # Errors
///
/// The kernel refuses it.
pub(super) fn bind_devices(
    sockets: &[UdpSocket],
    settings: &ServerSettings,
) -> Result<(), StartError> {
    let Some(device) = &settings.bind_device else {
        return Ok(());
    };
    for socket in sockets {
        bind_device(socket, device)
            .map_err(|error| StartError::io(format_args!("binddevice {device}"), &error))?;
    }
    Ok(())
}

/// Those that were handed over.
///
/// # Errors
///
/// The kernel refuses an option.
pub(super) fn handed_over(inherited: &mut Inherited) -> Result<Vec<UdpSocket>, StartError> {
    let sockets = listen::udp(inherited, NAME, &[], UdpOptions::default())?;
    admit_peers(&sockets)?;
    Ok(sockets)
}

fn bind_device(socket: &UdpSocket, device: &str) -> io::Result<()> {
    socket2::SockRef::from(socket).bind_device(Some(device.as_bytes()))
}

/// The addresses of the sockets, as text.
pub(super) fn names(sockets: &[UdpSocket]) -> Vec<String> {
    let mut names: Vec<String> = sockets
        .iter()
        .filter_map(|socket| socket.local_addr().ok())
        .map(|address| format!("udp {address}"))
        .collect();
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use time_model::settings::{AccessRule, ClientMatch};

    fn settings(bind: &[&str]) -> ServerSettings {
        ServerSettings {
            port: 1123,
            bind_addresses: bind
                .iter()
                .map(|address| address.parse().unwrap())
                .collect(),
            access: vec![AccessRule {
                allow: true,
                all: false,
                clients: ClientMatch::Everybody,
            }],
            ..ServerSettings::default()
        }
    }

    #[test]
    fn nothing_is_opened_when_nobody_may_ask() {
        let closed = ServerSettings {
            access: Vec::new(),
            ..settings(&["127.0.0.1"])
        };
        assert!(open(&closed).unwrap().is_empty());
        let some = ServerSettings {
            port: 0,
            ..settings(&["127.0.0.1"])
        };
        assert!(open(&some).unwrap().is_empty(), "port 0 is none");
    }

    #[test]
    fn each_thread_gets_a_socket_of_each_address() {
        // Ports of the tests' own range are not known here: the kernel gives one.
        let free = UdpSocket::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let wanted = ServerSettings {
            port: free.port(),
            ..settings(&["127.0.0.1"])
        };
        let mut sockets = open(&wanted).unwrap();
        assert_eq!(sockets.len(), 1);
        // And later another one of the same address.
        sockets.extend(join(&wanted).unwrap());
        assert_eq!(names(&sockets), [format!("udp 127.0.0.1:{}", free.port())]);
    }
}
