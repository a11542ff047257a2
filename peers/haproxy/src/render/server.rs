//! Servers of HAProxy as the configuration of this proxy.

use std::net::{IpAddr, SocketAddr};

use config_text::toml::{duration, line, quoted};

use super::Site;
use crate::proxy::Proxy;
use crate::server::Server;
use crate::values::{Host, address};

impl Site<'_, '_> {
    pub(super) fn server(&mut self, proxy: &Proxy<'_>, server: &Server, text: &mut String) {
        let what = format!("server {} {}", server.name, server.address);
        if server.options.is_tls {
            let reason = "it speaks TLS to the server, and TLS is passed through, never begun here";
            self.remarks.not_carried(&server.at, &what, reason);
            return;
        }
        let (address, name) = match self.address(proxy, server) {
            Ok(found) => found,
            Err(reason) => {
                self.remarks.not_carried(&server.at, &what, reason);
                return;
            }
        };
        line(
            text,
            format_args!("\n[[backend.server]]\nname = {}", quoted(&server.name)),
        );
        match name {
            Some(name) => line(text, format_args!("address = \"{address}\"  # {name}")),
            None => line(text, format_args!("address = \"{address}\"")),
        }
        let options = &server.options;
        if let Some(weight) = options.weight {
            line(text, format_args!("weight = {weight}"));
        }
        if options.is_backup {
            line(text, format_args!("backup = true"));
        }
        if let Some(number) = options.max_connections.filter(|number| *number > 0) {
            line(text, format_args!("max-connections = {number}"));
        }
        if let Some(time) = options.slow_start.filter(|time| !time.is_zero()) {
            line(text, format_args!("slow-start = {}", duration(time)));
        }
        if !options.is_checked {
            line(text, format_args!("check = false"));
        } else if let Some(port) = options.check_port {
            line(text, format_args!("check-port = {port}"));
        }
        if options.is_disabled {
            line(text, format_args!("maintenance = true"));
        }
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
