//! The old process's part.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use l4_core::handover::{
    Bytes, Connection, DatagramFlow, Direction, Hello, LONGEST, LONGEST_BYTES, LOWEST_VERSION,
    MOST_DESCRIPTORS, Message, Socket, SocketKind, VERSION, WITH_FLOWS, WITH_LAST_STATE,
};
use rustix::event::EventfdFlags;

use super::channel::{Channel, HandoverSocket};
use crate::datagram::OutgoingFlow;
use crate::relay::{Engine, FrozenSession};

/// The longest wait for a successor's next message between two checks whether the thread must stop.
const WAKE: Duration = Duration::from_millis(250);

/// How long a successor may take from its first word until it asks for the connections: it loads its
/// configuration and waits for its first probes meanwhile, and this process serves on.
const START_LIMIT: Duration = Duration::from_secs(60);

/// Sockets besides the listeners of the data path, by name; asked for when a successor comes.
pub type Others = Box<dyn Fn() -> Vec<(String, OwnedFd)> + Send>;

/// The state for a successor, in a descriptor with a name; made when one comes, and again when
/// it takes over: its start may take a while, and this process serves on meanwhile.
pub type State = Box<dyn Fn() -> Option<(String, OwnedFd)> + Send>;

/// Flows of datagrams, which leave together with connections.
pub trait Flows: Send {
    /// Stops them in their tracks: nothing is received any more.
    fn freeze(&self) -> Vec<OutgoingFlow>;

    /// They continue here after all.
    fn thaw(&self);
}

/// Waits for a successor and gives it everything.
#[derive(Debug)]
pub struct HandoverSender {
    stop: Arc<AtomicBool>,
    /// Wakes the thread.
    event: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

struct Office {
    door: HandoverSocket,
    engine: Arc<Engine>,
    others: Others,
    state: State,
    flows: Box<dyn Flows>,
    stop: Arc<AtomicBool>,
    event: Arc<OwnedFd>,
}

impl HandoverSender {
    /// Listens at `path`. Once every connection belongs to a successor `gone` is called, from a thread
    /// of its own: the process has nothing left to do, and exits at once.
    ///
    /// # Errors
    ///
    /// When the socket cannot be bound or the thread cannot be made.
    pub fn start(
        path: &Path,
        engine: Arc<Engine>,
        others: Others,
        state: State,
        flows: Box<dyn Flows>,
        gone: Box<dyn FnOnce() + Send>,
    ) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let event = Arc::new(rustix::event::eventfd(0, flags)?);
        let office = Office {
            door: HandoverSocket::open(path)?,
            engine,
            others,
            state,
            flows,
            stop: Arc::clone(&stop),
            event: Arc::clone(&event),
        };
        let thread = thread::Builder::new()
            .name("lb-handover".to_owned())
            .spawn(move || office.run(gone))?;
        Ok(Self {
            stop,
            event,
            thread: Some(thread),
        })
    }
}

impl Drop for HandoverSender {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        // This fails only when the counter is full, and then the thread is awake already.
        rustix::io::write(&self.event, &1_u64.to_ne_bytes()).ok();
        if let Some(thread) = self.thread.take()
            // `gone` may drop the giver itself.
            && thread.thread().id() != thread::current().id()
            && thread.join().is_err()
        {
            tracing::error!("The hand-over thread has panicked");
        }
    }
}

impl Office {
    fn run(mut self, gone: Box<dyn FnOnce() + Send>) {
        while !self.stop.load(Ordering::Acquire) {
            match self.door.accept(&self.event) {
                Ok(None) => {}
                Ok(Some(channel)) => match self.serve(channel) {
                    Ok(n_connections) => {
                        tracing::info!(connections = n_connections, "Handed over to a successor");
                        self.door.leave();
                        drop(self);
                        return gone();
                    }
                    Err(error) => tracing::warn!(%error, "Hand-over did not take place"),
                },
                Err(error) => {
                    tracing::warn!(%error, "A successor was turned away");
                    thread::sleep(WAKE);
                }
            }
        }
    }

    /// Serves one successor; how many connections it has taken.
    fn serve(&self, mut channel: Channel) -> io::Result<usize> {
        let version = greet(&mut channel)?;
        self.send_sockets(&mut channel)?;
        self.await_take(&mut channel)?;
        let flows = match version {
            WITH_FLOWS.. => self.flows.freeze(),
            // It begins its own beside those that are here.
            _ => Vec::new(),
        };
        let parcels = self.engine.freeze().inspect_err(|_| self.flows.thaw())?;
        let n_parcels = parcels.len();
        match self.send_all(&mut channel, version, &parcels, &flows) {
            Ok(()) => {
                // The copies that are left here are closed without a trace: the successor has its own.
                drop(parcels);
                Ok(n_parcels)
            }
            Err(error) => {
                self.engine.adopt(parcels);
                drop(flows);
                self.flows.thaw();
                let reason = error.to_string();
                channel.send(&Message::Abort { reason }, &[]).ok();
                Err(error)
            }
        }
    }

    fn send_sockets(&self, channel: &mut Channel) -> io::Result<()> {
        let mut sockets = Vec::new();
        for (frontend, address, socket) in self.engine.listening_sockets()? {
            let description = Socket {
                kind: SocketKind::Listener,
                name: frontend.to_string(),
                address: Some(address),
            };
            sockets.push((description, socket));
        }
        for (name, socket) in (self.others)().into_iter().chain((self.state)()) {
            sockets.push((other(name), socket));
        }
        // A description is far below a hundredth of a message.
        for batch in sockets.chunks(MOST_DESCRIPTORS.min(64)) {
            let fds: Vec<_> = batch.iter().map(|(_, socket)| socket.as_fd()).collect();
            let descriptions = batch.iter().map(|(it, _)| it.clone()).collect();
            channel.send(&Message::Sockets(descriptions), &fds)?;
            expect(channel, &Message::Acknowledged)?;
        }
        channel.send(&Message::SocketsEnd, &[])
    }

    fn await_take(&self, channel: &mut Channel) -> io::Result<()> {
        let mut left = START_LIMIT;
        while !channel.wait(WAKE)? {
            left = left.saturating_sub(WAKE);
            if left.is_zero() || self.stop.load(Ordering::Acquire) {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
        expect(channel, &Message::Take)
    }

    fn send_all(
        &self,
        channel: &mut Channel,
        version: u16,
        parcels: &[FrozenSession],
        flows: &[OutgoingFlow],
    ) -> io::Result<()> {
        let n_bytes = send_connections(channel, parcels, &self.engine)?;
        send_flows(channel, flows)?;
        if version >= WITH_LAST_STATE
            && let Some((name, state)) = (self.state)()
        {
            channel.send(&Message::Sockets(vec![other(name)]), &[state.as_fd()])?;
            expect(channel, &Message::Acknowledged)?;
        }
        let connections = u32::try_from(parcels.len()).unwrap_or(u32::MAX);
        let end = Message::End {
            connections,
            bytes: n_bytes,
            flows: u32::try_from(flows.len()).unwrap_or(u32::MAX),
        };
        channel.send(&end, &[])?;
        expect(channel, &Message::Received { connections })?;
        channel.send(&Message::Yours, &[])
    }
}

/// A descriptor that is known by its name.
fn other(name: String) -> Socket {
    Socket {
        kind: SocketKind::Other,
        name,
        address: None,
    }
}

/// This process's identity, in a hello.
pub(super) fn hello() -> Hello {
    Hello {
        lowest: LOWEST_VERSION,
        highest: VERSION,
        build: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

/// The version to speak.
fn greet(channel: &mut Channel) -> io::Result<u16> {
    let (message, _) = channel.receive()?;
    let Message::Hello(theirs) = message else {
        return Err(unexpected(&message));
    };
    let ours = hello();
    let Some(version) = ours.common(&theirs) else {
        let reason = format!("no common version with {}", theirs.build);
        let abort = Message::Abort {
            reason: reason.clone(),
        };
        channel.send(&abort, &[])?;
        return Err(io::Error::other(reason));
    };
    channel.send(&Message::Hello(ours), &[])?;
    Ok(version)
}

pub(super) fn expect(channel: &mut Channel, wanted: &Message) -> io::Result<()> {
    let (message, _) = channel.receive()?;
    if message == *wanted {
        Ok(())
    } else {
        Err(unexpected(&message))
    }
}

pub(super) fn unexpected(message: &Message) -> io::Error {
    match message {
        Message::Abort { reason } => io::Error::other(format!("the peer gives up: {reason}")),
        _ => io::Error::other("the peer says something out of turn"),
    }
}

//--- Connections

/// Sends every connection; how many octets of held data there were.
fn send_connections(
    channel: &mut Channel,
    parcels: &[FrozenSession],
    engine: &Engine,
) -> io::Result<u64> {
    let epoch = engine.epoch();
    let mut n_bytes = 0;
    let mut batch = Batch::default();
    for (number, parcel) in (0_u32..).zip(parcels) {
        let description = parcel.describe(epoch);
        if !batch.has_room(&description) {
            n_bytes += batch.send(channel)?;
        }
        batch.add(number, description, parcel);
    }
    n_bytes += batch.send(channel)?;
    Ok(n_bytes)
}

fn send_flows(channel: &mut Channel, flows: &[OutgoingFlow]) -> io::Result<()> {
    let mut descriptions: Vec<DatagramFlow> = Vec::new();
    let mut descriptors = Vec::new();
    let mut octets = 0;
    let mut send = |descriptions: &mut Vec<DatagramFlow>, descriptors: &mut Vec<_>| {
        if descriptions.is_empty() {
            return Ok(());
        }
        channel.send(&Message::Flows(std::mem::take(descriptions)), descriptors)?;
        descriptors.clear();
        expect(channel, &Message::Acknowledged)
    };
    for flow in flows {
        let description = flow.describe();
        let size = description.encode().len() + 3;
        if octets + size > LONGEST / 2 || descriptors.len() >= MOST_DESCRIPTORS {
            send(&mut descriptions, &mut descriptors)?;
            octets = 0;
        }
        octets += size;
        descriptions.push(description);
        descriptors.push(flow.descriptor());
    }
    send(&mut descriptions, &mut descriptors)
}

/// Connections that go in one message.
#[derive(Default)]
struct Batch<'a> {
    descriptions: Vec<Connection>,
    octets: usize,
    descriptors: Vec<BorrowedFd<'a>>,
    held: Vec<(u32, Direction, &'a [u8])>,
}

impl<'a> Batch<'a> {
    fn has_room(&self, description: &Connection) -> bool {
        self.octets + size(description) <= LONGEST / 2
            && self.descriptors.len() + description.n_descriptors() <= MOST_DESCRIPTORS
    }

    fn add(&mut self, number: u32, description: Connection, parcel: &'a FrozenSession) {
        self.octets += size(&description);
        self.descriptions.push(description);
        self.descriptors.extend(parcel.descriptors());
        let (up, down) = parcel.held();
        for (direction, octets) in [(Direction::Up, up), (Direction::Down, down)] {
            if !octets.is_empty() {
                self.held.push((number, direction, octets));
            }
        }
    }

    /// Sends what is gathered; how many octets of held data that was.
    fn send(&mut self, channel: &mut Channel) -> io::Result<u64> {
        let batch = std::mem::take(self);
        if batch.descriptions.is_empty() {
            return Ok(0);
        }
        channel.send(
            &Message::Connections(batch.descriptions),
            &batch.descriptors,
        )?;
        expect(channel, &Message::Acknowledged)?;
        let mut n_bytes = 0;
        for (connection, direction, octets) in batch.held {
            for part in octets.chunks(LONGEST_BYTES) {
                n_bytes += part.len() as u64;
                let bytes = Bytes {
                    connection,
                    direction,
                    octets: part.to_vec(),
                };
                channel.send(&Message::Bytes(bytes), &[])?;
            }
        }
        Ok(n_bytes)
    }
}

/// The size of a description in a message.
fn size(description: &Connection) -> usize {
    description.encode().len() + 3
}
