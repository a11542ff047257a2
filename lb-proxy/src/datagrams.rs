//! Frontends for datagrams: their sockets, and the balancer that serves them.
//!
//! A reload that leaves the set of frontends as it is leaves the balancer alone: the table is enough.
//! Another set makes another balancer, which gets the sockets that stay and their flows.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use balance::table::Table;
use daemon::latest::Latest;
use daemon::listen::{self, Inherited, UdpOptions};
use daemon::run::{Progress, StartError};
use l4::datagram::{Balancer, IncomingFlow, Listener, OutgoingFlow, Status};
use l4::handover::Flows;
use l4::relay::Report;
use l4_core::flow::FlowInfo;
use parking_lot::Mutex;

use crate::config::{Config, Frontend, Protocol};
use crate::sockets::is_for;

/// The name of a frontend's sockets when a successor gets them.
const PREFIX: &str = "udp:";

/// Everything for datagrams; clones share it.
#[derive(Clone)]
pub(crate) struct Datagrams {
    inner: Arc<Mutex<Inner>>,
    cell: Arc<Latest<Table>>,
    report: Arc<dyn Report>,
    progress: Progress,
}

#[derive(Default)]
struct Inner {
    balancer: Option<Balancer>,
    /// Copies of the sockets that are served, by frontend and address.
    sockets: Vec<Bound>,
    /// The configured sockets, to tell whether a reload changes them.
    served: Vec<(Arc<str>, Vec<SocketAddr>, l4_core::flow::Settings)>,
    hearts: Vec<String>,
    /// A successor is about to take everything.
    is_frozen: bool,
}

/// The sockets of one address of one frontend.
struct Bound {
    frontend: Arc<str>,
    address: SocketAddr,
    sockets: Vec<UdpSocket>,
    /// Given by systemd, whatever the configuration says.
    is_given: bool,
}

impl std::fmt::Debug for Datagrams {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Datagrams").finish_non_exhaustive()
    }
}

impl Datagrams {
    pub(crate) fn new(
        cell: Arc<Latest<Table>>,
        report: Arc<dyn Report>,
        progress: Progress,
    ) -> Self {
        Self {
            inner: Arc::default(),
            cell,
            report,
            progress,
        }
    }

    /// Takes sockets that systemd gives, or a predecessor's, and binds the rest; none is served yet.
    pub(crate) fn bind(
        &self,
        config: &Config,
        inherited: &mut Inherited,
        left: Vec<(String, OwnedFd)>,
    ) -> Result<(), StartError> {
        let mut inner = self.inner.lock();
        for frontend in config.user_frontends(Protocol::Udp) {
            for socket in inherited.udp(&frontend.name) {
                inner.keep(&frontend.name, socket, true)?;
            }
        }
        for (name, socket) in left {
            let Some(name) = name.strip_prefix(PREFIX) else {
                continue;
            };
            let is_given = inner
                .sockets
                .iter()
                .any(|it| it.is_given && *it.frontend == *name);
            if !is_given {
                inner.keep(&name.into(), UdpSocket::from(socket), false)?;
            }
        }
        self.make(&mut inner, config).map(drop)
    }

    /// Starts to serve, and continues the flows of a predecessor.
    pub(crate) fn run(&self, flows: Vec<IncomingFlow>) -> Result<(), StartError> {
        let mut inner = self.inner.lock();
        let n_flows = flows.len();
        if let Some(balancer) = &mut inner.balancer {
            let adopted = balancer.adopt(flows);
            if n_flows > 0 {
                tracing::info!(
                    flows = adopted,
                    of = n_flows,
                    "Flows of datagrams continue here"
                );
            }
            balancer.run().map_err(|error| cannot(&error))?;
        }
        self.show_hearts(&mut inner);
        Ok(())
    }

    /// Whether the sockets of another configuration could be bound.
    pub(crate) fn try_to_listen(&self, config: &Config) -> Result<(), StartError> {
        let inner = self.inner.lock();
        if served(config) == inner.served {
            return Ok(());
        }
        for frontend in config.user_frontends(Protocol::Udp) {
            drop(inner.bound(frontend, options(config))?);
        }
        Ok(())
    }

    /// Serves what another configuration says; on an error everything is as it was.
    pub(crate) fn adopt(&self, config: &Config) -> Result<(), StartError> {
        let mut inner = self.inner.lock();
        if served(config) == inner.served {
            return Ok(());
        }
        // The old one waits only for its threads to wake up, and serves meanwhile.
        let old = self.make(&mut inner, config)?;
        if let Some(balancer) = &mut inner.balancer {
            if let Some(old) = old {
                old.move_to(balancer);
            }
            balancer.run().map_err(|error| cannot(&error))?;
        }
        self.show_hearts(&mut inner);
        Ok(())
    }

    /// Makes the balancer for another configuration; gives back the one before it, which serves on.
    fn make(&self, inner: &mut Inner, config: &Config) -> Result<Option<Balancer>, StartError> {
        let options = options(config);
        let mut wanted = Vec::new();
        let mut listeners = Vec::new();
        for frontend in config.user_frontends(Protocol::Udp) {
            let bound = inner.bound(frontend, options)?;
            let mut sockets = Vec::new();
            for bound in &bound {
                for socket in &bound.sockets {
                    sockets.push(socket.try_clone()?);
                }
            }
            for bound in &bound {
                tracing::info!(frontend = &*frontend.name, address = %bound.address, "Listening for datagrams");
            }
            listeners.push(Listener {
                frontend: Arc::clone(&frontend.name),
                sockets,
                settings: frontend.flows,
            });
            wanted.extend(bound);
        }
        let balancer = match listeners.is_empty() {
            true => None,
            false => Some(
                Balancer::new(listeners, &self.cell, &self.report)
                    .map_err(|error| cannot(&error))?,
            ),
        };
        inner.sockets = wanted;
        inner.served = served(config);
        Ok(std::mem::replace(&mut inner.balancer, balancer))
    }

    /// The watchdog looks after the threads there are now.
    fn show_hearts(&self, inner: &mut Inner) {
        for name in inner.hearts.drain(..) {
            self.progress.forget(&name);
        }
        let hearts = inner.balancer.iter().flat_map(Balancer::heartbeats);
        let hearts = hearts
            .enumerate()
            .map(|(n, (name, beat))| (format!("{name}/{n}"), beat));
        let hearts: Vec<_> = hearts.collect();
        inner.hearts = hearts.iter().map(|(name, _)| name.clone()).collect();
        self.progress.register_all(hearts);
    }

    /// How each frontend stands.
    pub(crate) fn status(&self) -> Vec<Status> {
        self.inner
            .lock()
            .balancer
            .as_ref()
            .map(Balancer::status)
            .unwrap_or_default()
    }

    /// The addresses of a frontend.
    pub(crate) fn listening(&self, frontend: &str) -> Vec<SocketAddr> {
        let inner = self.inner.lock();
        let own = inner
            .sockets
            .iter()
            .filter(|bound| *bound.frontend == *frontend);
        own.map(|bound| bound.address).collect()
    }

    /// Flows that `is_wanted` picks, at most `most`, each with its frontend.
    pub(crate) fn flows(
        &self,
        most: usize,
        is_wanted: impl Fn(&str, &FlowInfo) -> bool,
    ) -> Vec<(Arc<str>, FlowInfo)> {
        let inner = self.inner.lock();
        let balancer = inner.balancer.as_ref();
        balancer.map_or_else(Vec::new, |balancer| balancer.flows(most, is_wanted))
    }

    /// Ends the flows that `is_meant` picks; how many there were.
    pub(crate) fn kill(&self, is_meant: impl Fn(&str, &FlowInfo) -> bool) -> usize {
        let inner = self.inner.lock();
        let balancer = inner.balancer.as_ref();
        balancer.map_or(0, |balancer| balancer.kill(is_meant))
    }

    /// The sockets, for a successor.
    pub(crate) fn for_successor(&self) -> Vec<(String, OwnedFd)> {
        let inner = self.inner.lock();
        let mut all = Vec::new();
        for bound in &inner.sockets {
            for socket in &bound.sockets {
                if let Ok(copy) = socket.try_clone() {
                    all.push((format!("{PREFIX}{}", bound.frontend), copy.into()));
                }
            }
        }
        all
    }

    /// Takes no more, and delivers answers for at most `grace`. Blocks.
    pub(crate) fn stop(&self, grace: Duration) {
        let balancer = self.inner.lock().balancer.take();
        if let Some(balancer) = balancer {
            balancer.stop(grace);
        }
    }
}

impl Flows for Datagrams {
    fn freeze(&self) -> Vec<OutgoingFlow> {
        let mut inner = self.inner.lock();
        let Some(balancer) = &mut inner.balancer else {
            return Vec::new();
        };
        balancer.pause();
        let flows = balancer.give();
        inner.is_frozen = true;
        // Threads that have ended do not hang.
        for name in inner.hearts.drain(..) {
            self.progress.forget(&name);
        }
        flows
    }

    fn thaw(&self) {
        let mut inner = self.inner.lock();
        if !std::mem::take(&mut inner.is_frozen) {
            return;
        }
        let Some(balancer) = &mut inner.balancer else {
            return;
        };
        if let Err(error) = balancer.run() {
            tracing::error!(%error, "Datagrams are not balanced any more");
        }
        self.show_hearts(&mut inner);
    }
}

impl Inner {
    fn keep(&mut self, frontend: &Arc<str>, socket: UdpSocket, is_given: bool) -> io::Result<()> {
        let address = socket.local_addr()?;
        let same = self
            .sockets
            .iter_mut()
            .find(|bound| bound.frontend == *frontend && bound.address == address);
        match same {
            Some(same) => same.sockets.push(socket),
            None => self.sockets.push(Bound {
                frontend: Arc::clone(frontend),
                address,
                sockets: vec![socket],
                is_given,
            }),
        }
        Ok(())
    }

    /// The sockets of a frontend: those there are, else new ones.
    fn bound(&self, frontend: &Frontend, options: UdpOptions) -> Result<Vec<Bound>, StartError> {
        let copy = |bound: &Bound| -> io::Result<Bound> {
            let sockets: io::Result<Vec<_>> =
                bound.sockets.iter().map(UdpSocket::try_clone).collect();
            Ok(Bound {
                frontend: Arc::clone(&frontend.name),
                address: bound.address,
                sockets: sockets?,
                is_given: bound.is_given,
            })
        };
        let given = self
            .sockets
            .iter()
            .filter(|it| it.is_given && it.frontend == frontend.name);
        let given: io::Result<Vec<Bound>> = given.map(copy).collect();
        let given = given?;
        if !given.is_empty() {
            return Ok(given);
        }
        let mut all: Vec<Bound> = Vec::new();
        for address in &frontend.listen {
            let same = self.sockets.iter().find(|bound| {
                let is_free = !all.iter().any(|taken| taken.address == bound.address);
                is_for(*address, bound.address, bound.frontend == frontend.name) && is_free
            });
            let bound = match same {
                Some(same) => copy(same)?,
                None => {
                    let none = &mut Inherited::none();
                    let sockets = listen::udp(none, &frontend.name, &[*address], options)?;
                    let first = sockets.first().map(UdpSocket::local_addr).transpose()?;
                    Bound {
                        frontend: Arc::clone(&frontend.name),
                        address: first.unwrap_or(*address),
                        sockets,
                        is_given: false,
                    }
                }
            };
            all.push(bound);
        }
        Ok(all)
    }
}

fn cannot(error: &io::Error) -> StartError {
    StartError::io("datagrams cannot be balanced", error)
}

fn options(config: &Config) -> UdpOptions {
    UdpOptions {
        per_address: config.workers(),
        freebind: config.freebind(),
        ..UdpOptions::default()
    }
}

fn served(config: &Config) -> Vec<(Arc<str>, Vec<SocketAddr>, l4_core::flow::Settings)> {
    let all = config.user_frontends(Protocol::Udp);
    let all = all.map(|f| (Arc::clone(&f.name), f.listen.clone(), f.flows));
    let mut all: Vec<_> = all.collect();
    all.sort_by(|one, other| one.0.cmp(&other.0));
    all
}
