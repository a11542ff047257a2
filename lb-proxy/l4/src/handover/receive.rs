//! The new process's part.

use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::path::Path;

use l4_core::handover::{Bytes, Connection, DatagramFlow, Direction, Message, Socket, SocketKind};

use super::channel::Channel;
use super::send::{expect, hello, unexpected};
use crate::datagram::IncomingFlow;
use crate::relay::{Assembler, Engine, FrozenSession, Listener};

/// A process that is ready to give everything to this one.
#[derive(Debug)]
pub struct Predecessor {
    channel: Channel,
    listeners: Vec<Listener>,
    others: Vec<(String, OwnedFd)>,
}

/// The sockets and the state that were taken over.
#[derive(Debug)]
pub struct Taken {
    /// How many connections; they continue already.
    pub sessions: usize,
    /// Flows of datagrams, which wait to be gone on with.
    pub flows: Vec<IncomingFlow>,
    /// The predecessor's last state, by name; nothing when it has not sent it again.
    pub state: Vec<(String, OwnedFd)>,
}

/// Why connections stayed where they were.
#[derive(Debug, thiserror::Error)]
pub enum TakeError {
    /// The conversation broke off; the predecessor serves on, if it is alive.
    #[error("cannot take connections over")]
    Io(#[from] io::Error),
    /// A message that was not announced arrived.
    #[error("{announced} connections were announced, and {received} arrived")]
    Incomplete {
        /// How many were announced.
        announced: usize,
        /// How many arrived.
        received: usize,
    },
}

/// Looks for a predecessor at `path` and takes copies of its sockets; none when no process is there. Both
/// accept from then on.
///
/// # Errors
///
/// When a process is there and does not answer as expected.
pub fn ask(path: &Path) -> io::Result<Option<Predecessor>> {
    let Some(mut channel) = Channel::open(path)? else {
        return Ok(None);
    };
    channel.send(&Message::Hello(hello()), &[])?;
    let (message, _) = channel.receive()?;
    let Message::Hello(theirs) = message else {
        return Err(unexpected(&message));
    };
    if hello().common(&theirs).is_none() {
        return Err(io::Error::other("no common version"));
    }
    tracing::info!(build = theirs.build, "A predecessor is there");
    let mut predecessor = Predecessor {
        channel,
        listeners: Vec::new(),
        others: Vec::new(),
    };
    loop {
        match predecessor.channel.receive()? {
            (Message::Sockets(sockets), fds) => {
                if sockets.len() != fds.len() {
                    return Err(io::Error::other("a socket is missing"));
                }
                for (socket, fd) in sockets.into_iter().zip(fds) {
                    predecessor.keep(socket, fd);
                }
                predecessor.channel.send(&Message::Acknowledged, &[])?;
            }
            (Message::SocketsEnd, _) => return Ok(Some(predecessor)),
            (message, _) => return Err(unexpected(&message)),
        }
    }
}

impl Predecessor {
    fn keep(&mut self, socket: Socket, fd: OwnedFd) {
        match (socket.kind, socket.address) {
            (SocketKind::Listener, Some(address)) => {
                let listener = TcpListener::from(fd);
                let same = self
                    .listeners
                    .iter_mut()
                    .find(|it| it.address == address && *it.frontend == *socket.name);
                match same {
                    Some(same) => same.sockets.push(listener),
                    None => self.listeners.push(Listener {
                        frontend: socket.name.into(),
                        address,
                        sockets: vec![listener],
                    }),
                }
            }
            _ => self.others.push((socket.name, fd)),
        }
    }

    /// Its listeners, to start an engine with.
    pub fn take_listeners(&mut self) -> Vec<Listener> {
        std::mem::take(&mut self.listeners)
    }

    /// Its other sockets, by name.
    pub fn take_others(&mut self) -> Vec<(String, OwnedFd)> {
        std::mem::take(&mut self.others)
    }

    /// Takes every connection and every flow of datagrams over. After an error none was, and the
    /// predecessor continues.
    ///
    /// # Errors
    ///
    /// When anything does not come as announced.
    pub fn take(mut self, engine: &Engine) -> Result<Taken, TakeError> {
        self.channel.send(&Message::Take, &[])?;
        let mut arrivals = Arrivals::default();
        let announced = match arrivals.receive(&mut self.channel) {
            Ok(announced) => announced,
            Err(error) => {
                self.abort(&error);
                return Err(error.into());
            }
        };
        let received = arrivals.connections.len();
        if announced != received {
            let error = TakeError::Incomplete {
                announced,
                received,
            };
            self.abort(&error);
            return Err(error);
        }
        let flows: Vec<IncomingFlow> = arrivals
            .flows
            .into_iter()
            // One without addresses cannot be gone on with: its client begins another.
            .filter_map(|(description, socket)| IncomingFlow::assemble(description, socket))
            .collect();
        // Everything that can fail is done before the predecessor lets go.
        let mut assembler = engine.assembler();
        let parcels: io::Result<Vec<FrozenSession>> = arrivals
            .connections
            .into_iter()
            .map(|arrival| arrival.assemble(&mut assembler))
            .collect();
        let parcels = match parcels {
            Ok(parcels) => parcels,
            Err(error) => {
                self.abort(&error);
                return Err(error.into());
            }
        };
        let connections = u32::try_from(received).unwrap_or(u32::MAX);
        self.channel.send(&Message::Received { connections }, &[])?;
        expect(&mut self.channel, &Message::Yours)?;
        engine.take_over(parcels);
        Ok(Taken {
            sessions: received,
            flows,
            state: arrivals.state,
        })
    }

    fn abort(&self, error: &dyn std::error::Error) {
        let reason = error.to_string();
        // One that is gone needs no word.
        self.channel.send(&Message::Abort { reason }, &[]).ok();
    }
}

/// Connections as they arrive.
#[derive(Default)]
struct Arrivals {
    connections: Vec<Arrival>,
    flows: Vec<(DatagramFlow, OwnedFd)>,
    state: Vec<(String, OwnedFd)>,
}

struct Arrival {
    description: Connection,
    descriptors: Vec<OwnedFd>,
    up: Vec<u8>,
    down: Vec<u8>,
}

impl Arrivals {
    /// Receives all; how many were announced.
    fn receive(&mut self, channel: &mut Channel) -> io::Result<usize> {
        let mut n_bytes = 0;
        loop {
            match channel.receive()? {
                (Message::Connections(descriptions), fds) => {
                    self.add(descriptions, fds)?;
                    channel.send(&Message::Acknowledged, &[])?;
                }
                (Message::Bytes(bytes), _) => {
                    n_bytes += bytes.octets.len() as u64;
                    self.hold(bytes)?;
                }
                (Message::Flows(flows), fds) => {
                    if flows.len() != fds.len() {
                        return Err(io::Error::other("a socket of a flow is missing"));
                    }
                    self.flows.extend(flows.into_iter().zip(fds));
                    channel.send(&Message::Acknowledged, &[])?;
                }
                (Message::Sockets(sockets), fds) => {
                    let names = sockets.into_iter().map(|socket| socket.name);
                    self.state.extend(names.zip(fds));
                    channel.send(&Message::Acknowledged, &[])?;
                }
                (
                    Message::End {
                        connections,
                        bytes,
                        flows,
                    },
                    _,
                ) => {
                    if bytes != n_bytes {
                        return Err(io::Error::other("bytes are missing"));
                    }
                    if flows as usize != self.flows.len() {
                        return Err(io::Error::other("flows are missing"));
                    }
                    return Ok(connections as usize);
                }
                (message, _) => return Err(unexpected(&message)),
            }
        }
    }

    fn add(&mut self, descriptions: Vec<Connection>, fds: Vec<OwnedFd>) -> io::Result<()> {
        let mut fds = fds.into_iter();
        for description in descriptions {
            let wanted = description.n_descriptors();
            let descriptors: Vec<OwnedFd> = fds.by_ref().take(wanted).collect();
            if descriptors.len() != wanted {
                return Err(io::Error::other("a descriptor is missing"));
            }
            self.connections.push(Arrival {
                description,
                descriptors,
                up: Vec::new(),
                down: Vec::new(),
            });
        }
        if fds.next().is_some() {
            return Err(io::Error::other("a descriptor has no owner"));
        }
        Ok(())
    }

    fn hold(&mut self, bytes: Bytes) -> io::Result<()> {
        let Bytes {
            connection,
            direction,
            octets,
        } = bytes;
        let arrival = self
            .connections
            .get_mut(connection as usize)
            .ok_or_else(|| io::Error::other("bytes of no connection"))?;
        let (held, announced) = match direction {
            Direction::Up => (&mut arrival.up, arrival.description.up.held),
            Direction::Down => (&mut arrival.down, arrival.description.down.held),
        };
        if held.len() + octets.len() > announced as usize {
            return Err(io::Error::other("more bytes than announced"));
        }
        held.extend_from_slice(&octets);
        Ok(())
    }
}

impl Arrival {
    fn assemble(self, assembler: &mut Assembler) -> io::Result<FrozenSession> {
        let flows = [
            (&self.up, self.description.up.held),
            (&self.down, self.description.down.held),
        ];
        if flows
            .iter()
            .any(|(held, wanted)| held.len() != *wanted as usize)
        {
            return Err(io::Error::other("bytes are missing"));
        }
        assembler
            .assemble(self.description, self.descriptors, self.up, self.down)
            .ok_or_else(|| io::Error::other("a connection makes no sense"))
    }
}
