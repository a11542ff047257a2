//! What one thread of the engine and one that waits for answers share: flows and their sockets.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use daemon_base::run::Heartbeat;
use daemon_base::snapshot::Reader;
use daemon_base::udp::{Datagram, Outcome, Respond, ReturnPath};
use rustix::event::EventfdFlags;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::time::Timespec;
use socket2::{Domain, Socket, Type};
use tracing::{debug, error};

use super::flow::{Counts, FlowId, FlowInfo, Flows, Known, Output, Settings};
use super::now;
use super::parcel::{Arrived, Given};
use crate::pool::Server;
use crate::relay::Report;
use crate::table::{Frontend, Route, Table};

/// Sockets that are looked at after one wait.
const EVENTS: usize = 256;

/// The longest datagram of a server.
const BUFFER: usize = 65_536;

/// How long the thread sleeps at most before it looks whether it is to stop.
const WAKE: Duration = Duration::from_millis(250);

/// Servers tried for one datagram.
const ATTEMPTS: usize = 3;

/// The longest request that is kept until it is answered, in case its server refuses it: as much as a
/// DNS message that is not to be fragmented.
const MAX_KEPT: usize = 1232;

/// What all kept requests of a shard may take.
const MAX_KEPT_SUM: usize = 4 << 20;

/// Where the event that wakes the thread would have its flow; there are never as many flows.
const WAKER: u64 = u64::MAX;

/// Flows and their sockets.
pub(super) struct Shard {
    epoll: OwnedFd,
    stop: AtomicBool,
    waker: OwnedFd,
    state: Mutex<State>,
}

struct State {
    frontend: Arc<str>,
    flows: Flows,
    /// By the index of the flow.
    ways: Vec<Option<Held>>,
    kept: usize,
    source: Option<IpAddr>,
    backend: Arc<str>,
    table: Reader<Table>,
    report: Arc<dyn Report>,
}

/// A way, and what may have to be sent again.
struct Held {
    way: Arc<Way>,
    /// The last request, until there is an answer.
    kept: Option<Box<[u8]>>,
}

/// The way between a client and a server.
#[derive(Debug)]
pub(super) struct Way {
    flow: FlowId,
    pub(super) socket: Socket,
    server: Arc<Server>,
    local: Option<IpAddr>,
    back: ReturnPath,
    /// Requests sent so far.
    sent: AtomicU64,
}

/// What became of an attempt to send a datagram on.
#[derive(PartialEq, Eq)]
enum Attempt {
    /// It is sent, or dropped for good.
    Done,
    /// Another server may take it.
    Again,
}

/// What a server's socket had.
enum Arrival {
    Answer {
        length: usize,
        /// Requests sent before it was received: later ones it does not answer.
        sent: u64,
    },
    Refused,
}

//--- Requests

/// The engine's side.
pub(super) struct Requests {
    shard: Option<Arc<Shard>>,
}

impl Requests {
    pub(super) fn new(shard: Option<Arc<Shard>>) -> Self {
        Self { shard }
    }
}

impl Respond for Requests {
    fn refresh(&mut self) {
        if let Some(shard) = &self.shard {
            shard.lock().refresh(&shard.epoll);
        }
    }

    fn respond(&mut self, datagram: &Datagram<'_>, _: &mut [u8]) -> Outcome {
        if let Some(shard) = &self.shard {
            let mut state = shard.lock();
            let back = || datagram.return_path();
            let (client, local) = (datagram.peer(), datagram.local());
            state.deliver(&shard.epoll, datagram.payload(), client, local, &back);
        }
        Outcome::Silent
    }
}

//--- Shard

impl Shard {
    pub(super) fn new(
        name: Arc<str>,
        settings: Settings,
        table: Reader<Table>,
        report: Arc<dyn Report>,
    ) -> io::Result<Self> {
        let frontend = table.get().frontend(&name).map_or_else(
            || {
                Arc::new(Frontend::new(
                    Arc::clone(&name),
                    Vec::new(),
                    Route::default(),
                ))
            },
            Arc::clone,
        );
        let mut seed = [0; 8];
        rustix::rand::getrandom(&mut seed, rustix::rand::GetRandomFlags::empty())?;
        let flows = Flows::new(settings, frontend, u64::from_ne_bytes(seed), now());
        let mut state = State {
            backend: Arc::clone(&name),
            frontend: name,
            flows,
            ways: Vec::new(),
            kept: 0,
            source: None,
            table,
            report,
        };
        state.take_up_table();
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let waker = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &waker, EventData::new_u64(WAKER), EventFlags::IN)?;
        Ok(Self {
            epoll,
            waker,
            stop: AtomicBool::new(false),
            state: Mutex::new(state),
        })
    }

    pub(super) fn status(&self) -> (usize, Counts) {
        let state = self.lock();
        (state.flows.len(), state.flows.counts())
    }

    pub(super) fn list(&self, most: usize, is_wanted: impl Fn(&FlowInfo) -> bool) -> Vec<FlowInfo> {
        let state = self.lock();
        let time = now();
        let flows = state.flows.list(time).filter(|flow| is_wanted(flow));
        flows.take(most).collect()
    }

    pub(super) fn kill(&self, is_meant: impl Fn(&FlowInfo) -> bool) -> usize {
        let meant = self.list(usize::MAX, is_meant);
        let mut state = self.lock();
        for flow in &meant {
            state.flows.handle_kill(flow.id);
        }
        state.perform(&self.epoll, None);
        meant.len()
    }

    pub(super) fn ask_to_stop(&self) {
        self.stop.store(true, Ordering::Release);
        // The one way this fails is a counter so full that the thread is awake already.
        rustix::io::write(&self.waker, &1_u64.to_ne_bytes()).ok();
    }

    /// [`Shard::run`] may be called again.
    pub(super) fn unstop(&self) {
        rustix::io::read(&self.waker, &mut [0; 8]).ok();
        self.stop.store(false, Ordering::Release);
    }

    /// Every flow, for another balancer; to be called while nobody serves. They stay here as they are.
    pub(super) fn give(&self, listener: u64) -> Vec<Given> {
        let state = self.lock();
        let time = now();
        let flows = state.flows.list(time).filter_map(|flow| {
            let held = state.ways.get(flow.id.index())?.as_ref()?;
            Some(Given {
                frontend: Arc::clone(&state.frontend),
                listener,
                known: Known {
                    client: flow.client,
                    local: flow.local,
                    server: Arc::clone(&flow.server.name),
                    server_address: flow.server.address,
                    requests: flow.requests,
                    responses: flow.responses,
                    idle: flow.idle,
                },
                way: Arc::clone(&held.way),
                kept: held.kept.clone(),
            })
        });
        flows.collect()
    }

    /// Goes on with flows whose clients send to `listener`; how many.
    pub(super) fn adopt(&self, flows: Vec<Arrived>, listener: &Arc<UdpSocket>) -> usize {
        let mut state = self.lock();
        let known: Vec<Known> = flows.iter().map(|flow| flow.known.clone()).collect();
        let ids = state.flows.handle_adopted(&known, now());
        state.perform(&self.epoll, None);
        let mut adopted = 0;
        for (flow, id) in flows.into_iter().zip(ids) {
            let Some(id) = id else { continue };
            match state.adopt(&self.epoll, flow, id, listener) {
                Ok(()) => adopted += 1,
                Err(failure) => {
                    debug!(error = %failure, "A flow cannot be gone on with");
                    state.flows.handle_kill(id);
                    state.perform(&self.epoll, None);
                }
            }
        }
        adopted
    }

    /// Waits for answers until it is to stop.
    pub(super) fn run(&self, heartbeat: &Heartbeat) {
        let mut events: Vec<Event> = Vec::with_capacity(EVENTS);
        let mut ready: Vec<Arc<Way>> = Vec::with_capacity(EVENTS);
        let mut arrivals = Vec::with_capacity(EVENTS);
        let mut buffer = vec![0; BUFFER];
        let mut timeout = WAKE;
        while !self.stop.load(Ordering::Acquire) {
            heartbeat.fetch_add(1, Ordering::Relaxed);
            self.wait(&mut events, timeout);
            let mut state = self.lock();
            state.refresh(&self.epoll);
            for event in events.drain(..) {
                ready.extend(state.way(FlowId::from_bits(event.data.u64())));
            }
            drop(state);
            for way in &ready {
                if let Some(arrival) = way.receive(&mut buffer) {
                    arrivals.push((Arc::clone(way), arrival));
                }
            }
            ready.clear();
            let mut state = self.lock();
            for (way, arrival) in arrivals.drain(..) {
                state.arrived(&self.epoll, &way, &arrival);
            }
            state.flows.handle_timeout(now());
            state.perform(&self.epoll, None);
            timeout = state.until_timeout();
        }
    }

    fn wait(&self, events: &mut Vec<Event>, timeout: Duration) {
        let timeout = Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(0),
            tv_nsec: timeout.subsec_nanos().into(),
        };
        let room = rustix::buffer::spare_capacity(events);
        match epoll::wait(&self.epoll, room, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(failure) => {
                error!(error = %failure, "Waiting for answers fails");
                thread::sleep(WAKE);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic of one thread is reported when it is joined; the flows are the other's until then.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Takes up a new table.
    fn refresh(&mut self, epoll: &OwnedFd) {
        if self.table.refresh() {
            self.take_up_table();
            self.perform(epoll, None);
        }
    }

    fn take_up_table(&mut self) {
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
    fn deliver(
        &mut self,
        epoll: &OwnedFd,
        payload: &[u8],
        client: SocketAddr,
        local: Option<IpAddr>,
        back: &dyn Fn() -> ReturnPath,
    ) {
        for _ in 0..ATTEMPTS {
            self.flows.handle_request(client, local, now());
            let request = Request {
                payload,
                local,
                back,
            };
            if self.perform(epoll, Some(&request)) == Attempt::Done {
                return;
            }
        }
    }

    /// Does what the flows say. `request` is what was handled.
    fn perform(&mut self, epoll: &OwnedFd, request: Option<&Request<'_>>) -> Attempt {
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
                            self.flows.handle_no_way(flow, now());
                        }
                    }
                }
                (Output::Forward { flow }, Some(request)) => {
                    if self.forward(flow, request.payload) == Attempt::Again {
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
        let way = Way {
            flow,
            socket,
            server,
            local: request.local,
            back: (request.back)(),
            sent: AtomicU64::new(0),
        };
        self.hold(epoll, way)
    }

    /// Makes the way of a flow that began elsewhere.
    fn adopt(
        &mut self,
        epoll: &OwnedFd,
        flow: Arrived,
        id: FlowId,
        listener: &Arc<UdpSocket>,
    ) -> io::Result<()> {
        let Known { client, local, .. } = flow.known;
        let server = self.flows.server(id).map(Arc::clone);
        let way = Way {
            flow: id,
            socket: Socket::from(flow.socket),
            server: server.ok_or(io::ErrorKind::NotFound)?,
            local,
            back: ReturnPath::restored(Arc::clone(listener), client, local)?,
            sent: AtomicU64::new(flow.known.requests),
        };
        self.hold(epoll, way)?;
        if let Some(request) = flow.kept {
            self.keep(id, &request);
        }
        Ok(())
    }

    /// Watches a way, and keeps it until its flow ends.
    fn hold(&mut self, epoll: &OwnedFd, way: Way) -> io::Result<()> {
        let flow = way.flow;
        let data = EventData::new_u64(flow.to_bits());
        epoll::add(epoll, &way.socket, data, EventFlags::IN)?;
        let index = flow.index();
        if self.ways.len() <= index {
            self.ways.resize_with(index + 1, || None);
        }
        if let Some(place) = self.ways.get_mut(index) {
            *place = Some(Held {
                way: Arc::new(way),
                kept: None,
            });
        }
        Ok(())
    }

    fn forward(&mut self, flow: FlowId, payload: &[u8]) -> Attempt {
        // Without a way it has ended already, and the caller knows.
        let Some(way) = self.way(flow) else {
            return Attempt::Done;
        };
        match way.socket.send(payload) {
            Ok(length) => {
                let length = u64::try_from(length).unwrap_or(0);
                let tally = &way.server.load.tally;
                tally.bytes_in.fetch_add(length, Ordering::Relaxed);
                let tally = &self.flows.frontend().tally;
                tally.bytes_in.fetch_add(length, Ordering::Relaxed);
                way.sent.fetch_add(1, Ordering::Relaxed);
                self.keep(flow, payload);
                Attempt::Done
            }
            Err(failure) => match failure.kind() {
                // Of an earlier datagram; this one is not sent yet.
                io::ErrorKind::ConnectionRefused => {
                    self.flows.handle_refused(flow, now());
                    Attempt::Again
                }
                io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
                    self.flows.handle_no_way(flow, now());
                    Attempt::Again
                }
                // No room on the way, or too long for it: datagrams get lost.
                _ => Attempt::Done,
            },
        }
    }

    fn arrived(&mut self, epoll: &OwnedFd, way: &Arc<Way>, arrival: &Arrival) {
        match arrival {
            Arrival::Answer { length, sent } => {
                if way.sent.load(Ordering::Relaxed) == *sent {
                    drop(self.take_kept(way.flow));
                }
                let length = u64::try_from(*length).unwrap_or(0);
                let tally = &way.server.load.tally;
                tally.bytes_out.fetch_add(length, Ordering::Relaxed);
                let tally = &self.flows.frontend().tally;
                tally.bytes_out.fetch_add(length, Ordering::Relaxed);
                self.flows.handle_response(way.flow, now());
                self.perform(epoll, None);
            }
            Arrival::Refused => {
                let kept = self.take_kept(way.flow);
                self.flows.handle_refused(way.flow, now());
                self.perform(epoll, None);
                if let Some(request) = kept {
                    let client = way.back.peer();
                    let back = || way.back.clone();
                    self.deliver(epoll, &request, client, way.local, &back);
                }
            }
        }
    }

    fn close(&mut self, flow: FlowId) {
        drop(self.take_kept(flow));
        let place = self.ways.get_mut(flow.index());
        if let Some(place) = place
            && place.as_ref().is_some_and(|held| held.way.flow == flow)
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
        if let Some(Some(held)) = self.ways.get_mut(flow.index()) {
            held.kept = Some(request.into());
            self.kept = sum;
        }
    }

    fn take_kept(&mut self, flow: FlowId) -> Option<Box<[u8]>> {
        let held = self.ways.get_mut(flow.index())?.as_mut()?;
        if held.way.flow != flow {
            return None;
        }
        let kept = held.kept.take()?;
        self.kept -= kept.len();
        Some(kept)
    }

    fn way(&self, flow: FlowId) -> Option<Arc<Way>> {
        let held = self.ways.get(flow.index())?.as_ref()?;
        (held.way.flow == flow).then(|| Arc::clone(&held.way))
    }

    fn until_timeout(&self) -> Duration {
        self.flows.poll_timeout().map_or(WAKE, |due| {
            let until = due.saturating_duration_since(now());
            // Never a busy wait over what the clock's grain leaves.
            until.clamp(Duration::from_millis(1), WAKE)
        })
    }
}

/// A client's datagram on its way.
struct Request<'a> {
    payload: &'a [u8],
    local: Option<IpAddr>,
    back: &'a dyn Fn() -> ReturnPath,
}

impl Way {
    /// Passes one answer on to the client.
    fn receive(&self, buffer: &mut [u8]) -> Option<Arrival> {
        let sent = self.sent.load(Ordering::Relaxed);
        match rustix::net::recv(&self.socket, &mut *buffer, rustix::net::RecvFlags::DONTWAIT) {
            Ok((length, _)) => {
                let answer = buffer.get(..length).unwrap_or_default();
                if let Err(failure) = self.back.send(answer) {
                    debug!(error = %failure, client = %self.back.peer(), "An answer could not be sent");
                }
                Some(Arrival::Answer { length, sent })
            }
            Err(Errno::CONNREFUSED) => Some(Arrival::Refused),
            Err(_) => None,
        }
    }
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
