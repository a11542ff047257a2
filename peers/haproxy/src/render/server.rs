//! Servers of HAProxy as servers of lb-proxy.

use std::net::SocketAddr;

use config::lb_proxy::{self as file, Port, ServerAddress};
use config::{Class, HumanDuration, Whole};

use super::{Site, positive};
use crate::proxy::Proxy;
use crate::server::Server;
use crate::values::{Host, address};

/// How many servers a name stands for.
type Limit = Whole<u16, 1, { file::MAX_FOUND as i64 }>;

impl Site<'_, '_> {
    /// A server; none when it cannot be reached from here as it is from HAProxy.
    pub(super) fn server(&mut self, proxy: &Proxy<'_>, server: &Server) -> Option<file::Server> {
        let what = format!("server {} {}", server.name, server.address);
        if server.options.is_tls {
            let reason = "it speaks TLS to the server, and TLS is passed through, never begun here";
            self.notes.lost(Class::Behaviour, &server.at, &what, reason);
            return None;
        }
        let address = match self.address(proxy, server) {
            Ok(found) => found,
            Err(reason) => {
                self.notes.lost(Class::Behaviour, &server.at, &what, reason);
                return None;
            }
        };
        let (address, servers) = self.resolved(server, &what, address)?;
        let options = &server.options;
        let default = file::Server {
            servers,
            resolve_prefer: options.prefers,
            ..file::Server::new(&server.name, address)
        };
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

    /// A server's address as lb-proxy has it: one with `resolvers` keeps its name, and another's name is resolved now, as
    /// HAProxy does at its start. None for a template of an address.
    fn resolved(
        &mut self,
        server: &Server,
        what: &str,
        address: ServerAddress,
    ) -> Option<(ServerAddress, Option<Limit>)> {
        let most = server.most.map(|most| Whole::clamped(most.into()));
        if server.most > Some(file::MAX_FOUND) {
            let how = format!("its name stands for {} servers at most", file::MAX_FOUND);
            self.notes.differs(Class::Behaviour, &server.at, what, how);
        }
        match (&address, most) {
            (ServerAddress::Ip(_), Some(_)) => {
                let reason = "an address is one server";
                self.notes.lost(Class::Behaviour, &server.at, what, reason);
                return None;
            }
            (ServerAddress::Ip(_), None) => return Some((address, None)),
            (ServerAddress::Host(..), Some(_)) => {
                let how = "its servers are called NAME-ADDRESS, and follow the name";
                self.notes.differs(Class::Cosmetic, &server.at, what, how);
            }
            (ServerAddress::Service(_), _) => {
                let how = "weights of SRV records are in proportion to the heaviest, where HAProxy divides them by 256, and \
                           records of a worse priority are backup servers; they are called NAME-ADDRESS:PORT if there are several";
                self.notes.differs(Class::Behaviour, &server.at, what, how);
            }
            (ServerAddress::Host(..), None) => {}
        }
        let (name, port) = match &address {
            ServerAddress::Host(name, port)
                if most.is_none() && server.options.resolvers.is_none() =>
            {
                (name.clone(), *port)
            }
            _ => return Some((address, most)),
        };
        let found = self.surroundings.resolve(&name);
        // As HAProxy does not, prefer what a site's network most likely has.
        let ip = found
            .iter()
            .find(|ip| ip.is_ipv4())
            .or_else(|| found.first())
            .copied();
        let (address, how) = match ip {
            Some(ip) => (
                SocketAddr::new(ip, port).into(),
                format!("{ip} is the address of {name} now; with `resolvers` it would be followed"),
            ),
            None => (
                address,
                format!("{name} has no address now; HAProxy would not start"),
            ),
        };
        self.notes.differs(Class::Behaviour, &server.at, what, how);
        Some((address, None))
    }

    /// A server's address as it is written, with its port.
    pub(super) fn address(
        &self,
        proxy: &Proxy<'_>,
        server: &Server,
    ) -> Result<ServerAddress, String> {
        let written = address(&server.address).ok_or("it is no address of the Internet")?;
        // As with HAProxy, a name that begins with `_` is that of a service where DNS resolves it.
        let is_service = server.address.starts_with('_')
            && written.port.is_none()
            && (server.options.resolvers.is_some() || server.most.is_some());
        if is_service {
            let service: ServerAddress = server
                .address
                .parse()
                .map_err(|_| "it is no name of a service")?;
            return Ok(service);
        }
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
            Host::Ip(ip) => Ok(SocketAddr::new(ip, port).into()),
            Host::Name(name) => {
                let address: Result<ServerAddress, _> = format!("{name}:{port}").parse();
                address.map_err(|_| "it is no address and no name of DNS".to_owned())
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
