//! Servers of HAProxy as servers of lb-proxy.

use std::net::{IpAddr, SocketAddr};

use config::lb_proxy::{self as file, Port};
use config::{Class, HumanDuration, Whole};

use super::{Site, positive};
use crate::proxy::Proxy;
use crate::server::Server;
use crate::values::{Host, address};

impl Site<'_, '_> {
    /// A server; none when it cannot be reached from here as it is from HAProxy.
    pub(super) fn server(&mut self, proxy: &Proxy<'_>, server: &Server) -> Option<file::Server> {
        let what = format!("server {} {}", server.name, server.address);
        if server.options.is_tls {
            let reason = "it speaks TLS to the server, and TLS is passed through, never begun here";
            self.notes.lost(Class::Behaviour, &server.at, &what, reason);
            return None;
        }
        let (address, name) = match self.address(proxy, server) {
            Ok(found) => found,
            Err(reason) => {
                self.notes.lost(Class::Behaviour, &server.at, &what, reason);
                return None;
            }
        };
        if let Some(name) = name {
            let how = format!(
                "{} is the address of {name} now; the file has no names",
                address.ip()
            );
            self.notes.differs(Class::Behaviour, &server.at, &what, how);
        }
        let options = &server.options;
        let default = file::Server::new(&server.name, address);
        let weight = options.weight.map(|weight| Whole::clamped(weight.into()));
        let slow_start = options.slow_start.filter(|time| !time.is_zero());
        let port = options.check_port.filter(|_| options.is_checked);
        Some(file::Server {
            weight: weight.unwrap_or(default.weight),
            backup: options.is_backup,
            max_connections: options.max_connections.and_then(positive),
            slow_start: slow_start.map(HumanDuration),
            check: options.is_checked,
            check_port: port.and_then(|port| Port::new(port.into())),
            maintenance: options.is_disabled,
            ..default
        })
    }

    /// A server's address, and its name if it had one instead.
    pub(super) fn address(
        &self,
        proxy: &Proxy<'_>,
        server: &Server,
    ) -> Result<(SocketAddr, Option<String>), String> {
        let written = address(&server.address).ok_or("it is no address of the Internet")?;
        let port = match written.port {
            Some(port) if !port.starts_with(['+', '-']) => {
                let port: u16 = port.parse().map_err(|_| "its port is no number")?;
                port
            }
            relative => {
                let own = self
                    .own_port(proxy)
                    .ok_or("it has the port of the connection, of which there are several")?;
                let shift: i32 = relative
                    .map_or(Ok(0), str::parse)
                    .map_err(|_| "its port is no number")?;
                let port = i32::from(own)
                    .checked_add(shift)
                    .and_then(|port| u16::try_from(port).ok());
                port.ok_or("its port is out of range")?
            }
        };
        if port == 0 {
            return Err("its port is zero".to_owned());
        }
        match written.host {
            Host::Any => Err("it has no address".to_owned()),
            Host::Ip(ip) => Ok((SocketAddr::new(ip, port), None)),
            Host::Name(name) => {
                let found = self.surroundings.resolve(&name);
                // As HAProxy does not, prefer what a site's network most likely has.
                let ip = found
                    .iter()
                    .find(|ip| ip.is_ipv4())
                    .or_else(|| found.first())
                    .copied();
                let ip: IpAddr = ip.ok_or_else(|| format!("no address is known of {name}"))?;
                let name: String = name.chars().filter(|letter| !letter.is_control()).collect();
                Ok((SocketAddr::new(ip, port), Some(name)))
            }
        }
    }

    /// The port of all sockets that lead to a backend, if there is one.
    fn own_port(&self, proxy: &Proxy<'_>) -> Option<u16> {
        let mut ports = self
            .leading_to(proxy.name)
            .flat_map(|frontend| &frontend.binds)
            .flat_map(|bind| &bind.sockets)
            .map(SocketAddr::port);
        let first = ports.next()?;
        ports.all(|port| port == first).then_some(first)
    }
}
