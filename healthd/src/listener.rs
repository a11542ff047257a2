//! Listeners of the gRPC services: those systemd hands over, else those configured.

use std::io;
use std::time::Duration;

use daemon::accept::Acceptor;
use daemon::connections::{Connections, Opening, Policy, Table};
use daemon::drain::Guard;
use daemon::listen::path::{self, Bound};
use daemon::listen::{self, Inherited};
use daemon::run::StartError;
use proto::incoming;
use proto::watch::MAX_MESSAGE;
use proto::wire::health_server::HealthServer;
use tonic::transport::Server;
use tonic::transport::server::Router;
use tonic_health::pb::health_server::HealthServer as StandardServer;

use crate::driver::Driver;
use crate::grpc::HealthApi;
use crate::grpc_health::StandardHealth;
use ::config::healthd::Listen;

/// The name of inherited sockets.
const SOCKET_NAME: &str = "healthd";

/// The interval of pings to a silent subscriber, and the time limit of its answer.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// Connections of all listeners at a time. Each of the 1,024 subscribers may have
/// one for its stream and one for its reports.
const MAX_CONNECTIONS: usize = 2048;

/// Open listeners, not yet served.
#[derive(Debug, Default)]
pub struct Listeners {
    unix: Vec<std::os::unix::net::UnixListener>,
    tcp: Vec<std::net::TcpListener>,
    bound: Vec<Bound>,
    names: Vec<String>,
}

impl Listeners {
    /// Takes the inherited sockets, or opens the configured ones if there are none.
    ///
    /// # Errors
    /// When one cannot be listened on.
    pub fn open(inherited: &mut Inherited, configured: &[Listen]) -> Result<Self, StartError> {
        let mut listeners = Self {
            unix: inherited.unix(SOCKET_NAME),
            tcp: inherited.tcp(SOCKET_NAME),
            ..Self::default()
        };
        let n_inherited = listeners.unix.len() + listeners.tcp.len();
        if n_inherited > 0 {
            listeners.names.push(format!("{n_inherited} inherited"));
            return Ok(listeners);
        }
        for listen in configured {
            match listen {
                Listen::Unix(path) => {
                    let (listener, bound) = path::listen(path)?;
                    listeners.unix.push(listener);
                    listeners.bound.push(bound);
                    listeners.names.push(listen.to_string());
                }
                Listen::Tcp(address) => {
                    let opened = listen::tcp(inherited, SOCKET_NAME, &[*address])?;
                    // The port may have been left to the system.
                    let local = opened.iter().filter_map(|one| one.local_addr().ok());
                    let names = local.map(|local| Listen::Tcp(local).to_string());
                    listeners.names.extend(names);
                    listeners.tcp.extend(opened);
                }
            }
        }
        Ok(listeners)
    }

    /// The addresses that subscribers connect to, for the log and the status.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.names.clone()
    }

    /// Serves until the drain begins; returns guards that remove the files of the sockets.
    ///
    /// # Errors
    /// When the runtime cannot take a listener.
    pub fn serve(self, driver: &Driver, table: &Table, guard: &Guard) -> io::Result<Vec<Bound>> {
        let connections = Connections::new("subscribers", Policy::of(MAX_CONNECTIONS));
        table.add(&connections);
        let acceptor = Acceptor::new(connections, Opening::Request);
        for listener in self.unix {
            let listener = tokio::net::UnixListener::from_std(listener)?;
            incoming::serve(router(driver, guard), listener, acceptor.clone(), guard);
        }
        for listener in self.tcp {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            incoming::serve(router(driver, guard), listener, acceptor.clone(), guard);
        }
        Ok(self.bound)
    }
}

fn router(driver: &Driver, guard: &Guard) -> Router {
    let api = HealthApi::new(driver.clone(), guard.clone());
    let standard = StandardHealth::new(driver.clone(), guard.clone());
    let api = HealthServer::new(api)
        .max_decoding_message_size(MAX_MESSAGE)
        .max_encoding_message_size(MAX_MESSAGE);
    Server::builder()
        .http2_keepalive_interval(Some(KEEP_ALIVE))
        .http2_keepalive_timeout(Some(KEEP_ALIVE))
        .add_service(api)
        .add_service(StandardServer::new(standard))
}
