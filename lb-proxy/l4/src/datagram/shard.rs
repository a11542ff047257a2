//! The state that one thread of the engine shares with the one that waits for answers: flows and their sockets.

mod state;

use std::io;
use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use balance::table::{Frontend, Route, Table};
use daemon::clock;
use daemon::latest::Reader;
use daemon::run::Heartbeat;
use daemon::udp::{Datagram, LONGEST, Outcome, Respond, merge};
use l4_core::flow::{Counts, FlowId, FlowInfo, Flows, Known, Settings};
use parking_lot::Mutex;
use rustix::event::EventfdFlags;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::time::Timespec;
use tracing::{debug, error};

use self::state::{Request, State};
use super::flow_handover::{IncomingFlow, OutgoingFlow};
use super::flow_socket::FlowSocket;
use super::lost::Lost;
use crate::relay::Report;

/// Sockets that are looked at after one wait.
const EVENTS: usize = 256;

/// The longest datagram of a server, or several that the kernel has merged.
const BUFFER: usize = LONGEST;

/// How long the thread sleeps at most before it looks whether it is to stop.
const WAKE: Duration = Duration::from_millis(250);

/// The token of the event that wakes the thread; there are never as many flows.
const WAKER: u64 = u64::MAX;

/// Flows and their sockets.
pub(super) struct Shard {
    epoll: OwnedFd,
    stop: AtomicBool,
    waker: OwnedFd,
    state: Mutex<State>,
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
            shard.state.lock().refresh(&shard.epoll);
        }
    }

    fn respond(&mut self, datagram: &Datagram<'_>, _: &mut [u8]) -> Outcome {
        if let Some(shard) = &self.shard {
            let mut state = shard.state.lock();
            let back = || datagram.return_path();
            let (client, local) = (datagram.peer(), datagram.local());
            state.deliver(
                &shard.epoll,
                &Request {
                    payload: datagram.payload(),
                    merged: datagram.merged(),
                    client,
                    local,
                    back: &back,
                },
            );
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
        let flows = Flows::new(settings, frontend, u64::from_ne_bytes(seed), clock::now());
        let mut state = State {
            backend: Arc::clone(&name),
            frontend: name,
            flows,
            flow_sockets: Vec::new(),
            kept: 0,
            merged: !settings.counts_datagrams(),
            lost: Lost::default(),
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

    pub(super) fn status(&self) -> (usize, Counts, Lost) {
        let state = self.state.lock();
        (state.flows.len(), state.flows.counts(), state.lost)
    }

    pub(super) fn list(&self, most: usize, is_wanted: impl Fn(&FlowInfo) -> bool) -> Vec<FlowInfo> {
        let state = self.state.lock();
        let time = clock::now();
        let flows = state.flows.list(time).filter(|flow| is_wanted(flow));
        flows.take(most).collect()
    }

    pub(super) fn kill(&self, is_meant: impl Fn(&FlowInfo) -> bool) -> usize {
        let meant = self.list(usize::MAX, is_meant);
        let mut state = self.state.lock();
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

    /// Every flow, for another balancer; call it while no thread serves. They stay here as they are.
    pub(super) fn give(&self, listener: u64) -> Vec<OutgoingFlow> {
        let state = self.state.lock();
        let time = clock::now();
        let flows = state.flows.list(time).filter_map(|flow| {
            let held = state.flow_sockets.get(flow.id.index())?.as_ref()?;
            // A successor of an earlier version does not know of it; the next balancer says what it wants.
            merge(&held.flow_socket.socket, false);
            Some(OutgoingFlow {
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
                flow_socket: Arc::clone(&held.flow_socket),
                kept: held.kept.clone(),
            })
        });
        flows.collect()
    }

    /// Continues flows whose clients send to `listener`; returns how many.
    pub(super) fn adopt(&self, flows: Vec<IncomingFlow>, listener: &Arc<UdpSocket>) -> usize {
        let mut state = self.state.lock();
        let known: Vec<Known> = flows.iter().map(|flow| flow.known.clone()).collect();
        let ids = state.flows.handle_adopted(&known, clock::now());
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
        let mut ready: Vec<Arc<FlowSocket>> = Vec::with_capacity(EVENTS);
        let mut arrivals = Vec::with_capacity(EVENTS);
        let mut buffer = vec![0; BUFFER];
        let mut timeout = WAKE;
        while !self.stop.load(Ordering::Acquire) {
            heartbeat.beat();
            self.wait(&mut events, timeout);
            let mut state = self.state.lock();
            state.refresh(&self.epoll);
            for event in events.drain(..) {
                ready.extend(state.flow_socket(FlowId::from_bits(event.data.u64())));
            }
            drop(state);
            for flow_socket in &ready {
                if let Some(arrival) = flow_socket.receive(&mut buffer) {
                    arrivals.push((Arc::clone(flow_socket), arrival));
                }
            }
            ready.clear();
            let mut state = self.state.lock();
            for (flow_socket, arrival) in arrivals.drain(..) {
                state.arrived(&self.epoll, &flow_socket, &arrival);
            }
            state.flows.handle_timeout(clock::now());
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
}
