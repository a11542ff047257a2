//! The listeners of frontends: inherited by name, else bound.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use daemon_base::listen::{Inherited, ListenError};

use crate::config::{Config, Protocol};
use crate::relay::{self, BindOptions, Listener};

/// Where the listeners of frontends are from.
#[derive(Debug)]
pub(super) struct Sockets {
    /// Those that systemd gave: they stay what they are until a restart.
    given: BTreeMap<Arc<str>, Vec<SocketAddr>>,
}

impl Sockets {
    pub(super) fn new(_: &Config) -> Self {
        Self {
            given: BTreeMap::new(),
        }
    }

    /// How sockets are bound.
    pub(super) fn options(config: &Config) -> BindOptions {
        BindOptions {
            per_address: config.workers,
            freebind: config.freebind,
        }
    }

    /// The listeners of every frontend for connections.
    pub(super) fn open(
        &mut self,
        config: &Config,
        inherited: &mut Inherited,
    ) -> Result<Vec<Listener>, ListenError> {
        let options = Self::options(config);
        let mut listeners = Vec::new();
        for frontend in config.user_frontends(Protocol::Tcp) {
            let mut given = Vec::new();
            for socket in inherited.tcp(&frontend.name) {
                let Ok(address) = socket.local_addr() else {
                    continue;
                };
                given.push(address);
                listeners.push(Listener {
                    frontend: Arc::clone(&frontend.name),
                    address,
                    sockets: vec![socket],
                });
            }
            if !given.is_empty() {
                self.given.insert(Arc::clone(&frontend.name), given);
                continue;
            }
            for address in &frontend.listen {
                listeners.push(relay::bind(&frontend.name, *address, options)?);
            }
        }
        Ok(listeners)
    }

    /// Where each frontend of a configuration is to listen. What was given stays; an address with port 0
    /// is the one that was bound for it.
    pub(super) fn wanted(
        &self,
        config: &Config,
        listening: &[(Arc<str>, SocketAddr)],
    ) -> Vec<(Arc<str>, SocketAddr)> {
        let mut wanted: Vec<(Arc<str>, SocketAddr)> = Vec::new();
        for frontend in config.user_frontends(Protocol::Tcp) {
            let name = &frontend.name;
            let addresses = self.given.get(name).unwrap_or(&frontend.listen);
            for address in addresses {
                let bound = listening.iter().find(|(known, bound)| {
                    let is_free = !wanted.iter().any(|(_, taken)| taken == bound);
                    known == name && bound.ip() == address.ip() && is_free
                });
                let address = match bound {
                    Some((_, bound)) if address.port() == 0 => *bound,
                    _ => *address,
                };
                wanted.push((Arc::clone(name), address));
            }
        }
        wanted
    }
}
