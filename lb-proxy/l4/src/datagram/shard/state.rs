//! Flows, the way of each, and what is done for them.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use balance::pool::Server;
use balance::table::Table;
use daemon::clock;
use daemon::latest::Reader;
use daemon::udp::{ReturnPath, merge};
use l4_core::flow::{FlowId, Flows, Known, Output};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use socket2::{Domain, Socket, Type};
use sys::message;
use sys::source::Source;
use tracing::debug;

use super::WAKE;
use crate::datagram::flow_handover::IncomingFlow;
use crate::datagram::flow_socket::{Arrival, FlowSocket, datagrams, length_of_each};
use crate::datagram::lost::Lost;
use crate::relay::Report;

/// Servers tried for one datagram.
const ATTEMPTS: usize = 3;

/// The longest request that is kept until it is answered, in case its server refuses it: as much as a
/// DNS message that is not to be fragmented.
const MAX_KEPT: usize = 1232;

/// The room for all kept requests of a shard.
const MAX_KEPT_SUM: usize = 4 << 20;

/// The state that both threads change, under one lock.
pub(super) struct State {
    pub(super) frontend: Arc<str>,
    pub(super) flows: Flows,
    /// By the index of the flow.
    pub(super) flow_sockets: Vec<Option<Held>>,
    pub(super) kept: usize,
    /// Whether the kernel may merge answers.
    pub(super) merged: bool,
    pub(super) lost: Lost,
    pub(super) source: Option<IpAddr>,
    pub(super) backend: Arc<str>,
    pub(super) table: Reader<Table>,
    pub(super) report: Arc<dyn Report>,
}

/// A way, and what may have to be sent again.
pub(super) struct Held {
    pub(super) flow_socket: Arc<FlowSocket>,
    /// The last request, until there is an answer.
    pub(super) kept: Option<Box<[u8]>>,
}

/// The result of an attempt to send a datagram on.
#[derive(PartialEq, Eq)]
pub(super) enum Attempt {
    /// It is sent, or dropped permanently.
    Done,
    /// Another server may take it.
    Again,
}

impl State {
    /// Takes up a new table.
    pub(super) fn refresh(&mut self, epoll: &OwnedFd) {
        if self.table.refresh() {
            self.take_up_table();
            self.perform(epoll, None);
        }
    }

    pub(super) fn take_up_table(&mut self) {
        let table = self.table.shared();
        let Some(frontend) = table.frontend(&self.frontend) else {
            // The frontend is about to be closed.
            return;
        };
        let backend = frontend
            .route
            .default
            .and_then(|index| table.backends.get(index));
        if let Some(backend) = backend {
            self.backend = Arc::clone(&backend.pool.name);
            self.source = backend.policy.source_address;
        }
        self.flows
            .handle_servers(Arc::clone(frontend), backend.map(|backend| &backend.pool));
    }

    /// Sends a client's datagram to a server, to the next if one refuses.
    pub(super) fn deliver(&mut self, epoll: &OwnedFd, request: &Request<'_>) {
        let n_datagrams = datagrams(request.payload, request.merged);
        let Request { client, local, .. } = *request;
        for _ in 0..ATTEMPTS {
            self.flows
                .handle_request(client, local, n_datagrams, clock::now());
            if self.perform(epoll, Some(request)) == Attempt::Done {
                return;
            }
        }
    }

    /// Does what the flows say. `request` is what was handled.
    pub(super) fn perform(&mut self, epoll: &OwnedFd, request: Option<&Request<'_>>) -> Attempt {
        let mut attempt = Attempt::Done;
        while let Some(output) = self.flows.poll_output() {
            match (output, request) {
                (Output::Open { flow, server }, Some(request)) => {
                    if let Err(failure) = self.open(epoll, flow, server, request) {
                        debug!(error = %failure, "No way to a server");
                        attempt = Attempt::Again;
                        if is_exhausted(&failure) {
                            self.flows.handle_exhausted(flow);
                        } else {
                            self.flows.handle_no_way(flow, clock::now());
                        }
                    }
                }
                (Output::Forward { flow }, Some(request)) => {
                    if self.forward(flow, request) == Attempt::Again {
                        attempt = Attempt::Again;
                    }
                }
                (Output::Close { flow, .. }, _) => self.close(flow),
                (Output::Refused { server }, _) => {
                    let refused = io::ErrorKind::ConnectionRefused.into();
                    self.report.connect_failed(&self.backend, &server, &refused);
                }
                (Output::Open { .. } | Output::Forward { .. } | Output::Drop(_), _) => {}
            }
        }
        attempt
    }

    fn open(
        &mut self,
        epoll: &OwnedFd,
        flow: FlowId,
        server: Arc<Server>,
        request: &Request<'_>,
    ) -> io::Result<()> {
        let address = server.address;
        let socket = Socket::new(
            Domain::for_address(address),
            Type::DGRAM.nonblocking(),
            None,
        )?;
        if let Some(source) = self.source
            && source.is_ipv4() == address.is_ipv4()
        {
            socket.bind(&SocketAddr::new(source, 0).into())?;
        }
        socket.connect(&address.into())?;
        let flow_socket = FlowSocket {
            flow,
            socket,
            server,
            local: request.local,
            back: (request.back)(),
            sent: AtomicU64::new(0),
        };
        self.hold(epoll, flow_socket)
    }

    /// Makes the way of a flow that began elsewhere.
    pub(super) fn adopt(
        &mut self,
        epoll: &OwnedFd,
        flow: IncomingFlow,
        id: FlowId,
        listener: &Arc<UdpSocket>,
    ) -> io::Result<()> {
        let Known { client, local, .. } = flow.known;
        let server = self.flows.server(id).map(Arc::clone);
        let flow_socket = FlowSocket {
            flow: id,
            socket: Socket::from(flow.socket),
            server: server.ok_or(io::ErrorKind::NotFound)?,
            local,
            back: ReturnPath::restored(Arc::clone(listener), client, local)?,
            sent: AtomicU64::new(flow.known.requests),
        };
        self.hold(epoll, flow_socket)?;
        if let Some(request) = flow.kept {
            self.keep(id, &request);
        }
        Ok(())
    }

    /// Watches a way, and keeps it until its flow ends.
    fn hold(&mut self, epoll: &OwnedFd, flow_socket: FlowSocket) -> io::Result<()> {
        let flow = flow_socket.flow;
        if self.merged {
            merge(&flow_socket.socket, true);
        }
        let data = EventData::new_u64(flow.to_bits());
        epoll::add(epoll, &flow_socket.socket, data, EventFlags::IN)?;
        let index = flow.index();
        if self.flow_sockets.len() <= index {
            self.flow_sockets.resize_with(index + 1, || None);
        }
        if let Some(place) = self.flow_sockets.get_mut(index) {
            *place = Some(Held {
                flow_socket: Arc::new(flow_socket),
                kept: None,
            });
        }
        Ok(())
    }

    fn forward(&mut self, flow: FlowId, request: &Request<'_>) -> Attempt {
        // Without a way it has ended already, and the caller knows.
        let Some(flow_socket) = self.flow_socket(flow) else {
            return Attempt::Done;
        };
        let Request {
            payload, merged, ..
        } = *request;
        let each = length_of_each(payload, merged);
        let (mut length, lost) = (0, &mut self.lost);
        let socket = &flow_socket.socket;
        let sent = message::send_merged(socket, payload, each, None, &Source::Bound, |sent| {
            match sent {
                Ok(octets) => length += u64::try_from(octets).unwrap_or(0),
                Err(failure) if message::is_too_long(&failure) => lost.too_long += 1,
                // No room on the way: datagrams get lost.
                Err(_) => lost.unsent += 1,
            }
        });
        if let Err(failure) = sent {
            // Earlier datagrams caused it; this one is not sent yet.
            if failure.kind() == io::ErrorKind::ConnectionRefused {
                self.flows.handle_refused(flow, clock::now());
            } else {
                self.flows.handle_no_way(flow, clock::now());
            }
            return Attempt::Again;
        }
        let tally = &flow_socket.server.load.tally;
        tally.bytes_in.fetch_add(length, Ordering::Relaxed);
        let tally = &self.flows.frontend().tally;
        tally.bytes_in.fetch_add(length, Ordering::Relaxed);
        flow_socket
            .sent
            .fetch_add(datagrams(payload, merged), Ordering::Relaxed);
        if let Some(last) = payload.chunks(each.into()).next_back() {
            self.keep(flow, last);
        }
        Attempt::Done
    }

    pub(super) fn arrived(
        &mut self,
        epoll: &OwnedFd,
        flow_socket: &Arc<FlowSocket>,
        arrival: &Arrival,
    ) {
        match arrival {
            Arrival::Answer {
                length,
                datagrams,
                undelivered,
                sent,
            } => {
                self.lost.undelivered += undelivered;
                if flow_socket.sent.load(Ordering::Relaxed) == *sent {
                    drop(self.take_kept(flow_socket.flow));
                }
                let length = u64::try_from(*length).unwrap_or(0);
                let tally = &flow_socket.server.load.tally;
                tally.bytes_out.fetch_add(length, Ordering::Relaxed);
                let tally = &self.flows.frontend().tally;
                tally.bytes_out.fetch_add(length, Ordering::Relaxed);
                self.flows
                    .handle_response(flow_socket.flow, *datagrams, clock::now());
                self.perform(epoll, None);
            }
            Arrival::TooLong => self.lost.too_long += 1,
            Arrival::Refused => {
                let kept = self.take_kept(flow_socket.flow);
                self.flows.handle_refused(flow_socket.flow, clock::now());
                self.perform(epoll, None);
                if let Some(request) = kept {
                    let request = Request {
                        payload: &request,
                        merged: None,
                        client: flow_socket.back.peer(),
                        local: flow_socket.local,
                        back: &|| flow_socket.back.clone(),
                    };
                    self.deliver(epoll, &request);
                }
            }
        }
    }

    fn close(&mut self, flow: FlowId) {
        drop(self.take_kept(flow));
        let place = self.flow_sockets.get_mut(flow.index());
        if let Some(place) = place
            && place
                .as_ref()
                .is_some_and(|held| held.flow_socket.flow == flow)
        {
            *place = None;
        }
    }

    fn keep(&mut self, flow: FlowId, request: &[u8]) {
        drop(self.take_kept(flow));
        let sum = self.kept + request.len();
        if request.len() > MAX_KEPT || sum > MAX_KEPT_SUM {
            return;
        }
        if let Some(Some(held)) = self.flow_sockets.get_mut(flow.index()) {
            held.kept = Some(request.into());
            self.kept = sum;
        }
    }

    fn take_kept(&mut self, flow: FlowId) -> Option<Box<[u8]>> {
        let held = self.flow_sockets.get_mut(flow.index())?.as_mut()?;
        if held.flow_socket.flow != flow {
            return None;
        }
        let kept = held.kept.take()?;
        self.kept -= kept.len();
        Some(kept)
    }

    pub(super) fn flow_socket(&self, flow: FlowId) -> Option<Arc<FlowSocket>> {
        let held = self.flow_sockets.get(flow.index())?.as_ref()?;
        (held.flow_socket.flow == flow).then(|| Arc::clone(&held.flow_socket))
    }

    pub(super) fn until_timeout(&self) -> Duration {
        self.flows.poll_timeout().map_or(WAKE, |due| {
            let until = due.saturating_duration_since(clock::now());
            // Never a busy wait over what the clock's grain leaves.
            until.clamp(Duration::from_millis(1), WAKE)
        })
    }
}

/// A client's datagram on its way.
pub(super) struct Request<'a> {
    pub(super) payload: &'a [u8],
    /// The length of each datagram, if the kernel has merged several.
    pub(super) merged: Option<u16>,
    pub(super) client: SocketAddr,
    pub(super) local: Option<IpAddr>,
    pub(super) back: &'a dyn Fn() -> ReturnPath,
}

fn is_exhausted(failure: &io::Error) -> bool {
    let exhausted = [
        Errno::MFILE,
        Errno::NFILE,
        Errno::NOBUFS,
        Errno::NOMEM,
        Errno::NOSPC,
    ];
    let code = failure.raw_os_error();
    exhausted
        .iter()
        .any(|errno| code == Some(errno.raw_os_error()))
}
