//! The listeners of frontends: inherited by name, else a predecessor's, else bound.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use daemon::listen::{Inherited, ListenError};
use l4::relay::{self, BindOptions, Listener};

use crate::config::{Config, Protocol};

/// The sources of the frontends' listeners.
#[derive(Debug, Default)]
pub(crate) struct Sockets {
    /// Those that systemd gave: they stay what they are until a restart.
    given: BTreeMap<Arc<str>, Vec<SocketAddr>>,
}

impl Sockets {
    /// How sockets are bound.
    pub(crate) fn options(config: &Config) -> BindOptions {
        BindOptions {
            per_address: config.workers(),
            freebind: config.freebind(),
        }
    }

    /// The listeners of every frontend for connections.
    pub(crate) fn open(
        &mut self,
        config: &Config,
        inherited: &mut Inherited,
        mut left: Vec<Listener>,
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
                let same = left.iter().position(|listener| {
                    let is_own = listener.frontend == frontend.name;
                    is_for(*address, listener.address, is_own)
                });
                let mut listener = match same {
                    Some(place) => left.swap_remove(place),
                    None => relay::bind(&frontend.name, *address, options)?,
                };
                listener.frontend = Arc::clone(&frontend.name);
                listeners.push(listener);
            }
        }
        Ok(listeners)
    }

    /// The addresses of each frontend of a configuration. A given address stays; one with port 0
    /// is the one that was bound for it.
    pub(crate) fn wanted(
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
                    is_for(*address, *bound, known == name) && is_free
                });
                let address = bound.map_or(*address, |(_, bound)| *bound);
                wanted.push((Arc::clone(name), address));
            }
        }
        wanted
    }
}

/// Whether a socket that is bound is what a configured address asks for; with port 0 only one of the
/// same frontend is.
pub(crate) fn is_for(wanted: SocketAddr, bound: SocketAddr, is_own: bool) -> bool {
    match wanted.port() {
        0 => is_own && wanted.ip() == bound.ip(),
        _ => wanted == bound,
    }
}
