//! What the old and the new process say to each other, octet by octet.
//!
//! One datagram of a `SOCK_SEQPACKET` socket is one message; descriptors travel beside it in the order
//! the message names them.
//!
//! ```text
//!  0        4        6      7
//!  ┌────────┬────────┬──────┬──────────────────────────────┐
//!  │ "OLBH" │ version│ kind │ fields: tag, length, octets …│   numbers in network order
//!  └────────┴────────┴──────┴──────────────────────────────┘
//! ```
//!
//! A reader passes over fields it does not know, and takes the default for those that are missing, so
//! that neighbouring releases understand each other: fields are added, and tags never used again.
//!
//! Never touches a descriptor, and never trusts a length.

mod datagrams;

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

pub use datagrams::DatagramFlow;

/// The version that is spoken here; a peer with a lower one is met there.
pub const VERSION: u16 = 2;

/// From this version on flows of datagrams are handed over.
pub const WITH_FLOWS: u16 = 2;

/// The lowest version that is understood.
pub const LOWEST_VERSION: u16 = 1;

/// The longest message: every part is bounded so that it fits, and a Unix socket's buffer holds some.
pub const LONGEST: usize = 64 << 10;

/// The most descriptors beside one message; the kernel takes 253 (`SCM_MAX_FD`).
pub const MOST_DESCRIPTORS: usize = 240;

/// The most octets of held data in one message.
pub const LONGEST_BYTES: usize = 32 << 10;

/// Longer names than this are cut; configured ones are far shorter.
const LONGEST_NAME: usize = 1024;

/// "Outpost load balancer hand-over".
const MAGIC: [u8; 4] = *b"OLBH";

/// One message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// Both: who speaks, before anything else.
    Hello(Hello),
    /// Old: sockets of frontends; one descriptor each.
    Sockets(Vec<Socket>),
    /// Old: that were all sockets.
    SocketsEnd,
    /// New: stop, and send every connection.
    Take,
    /// Old: connections; [`Connection::n_descriptors`] descriptors each.
    Connections(Vec<Connection>),
    /// Old: octets of a connection that wait to be sent.
    Bytes(Bytes),
    /// Old: flows of datagrams; one descriptor each.
    Flows(Vec<DatagramFlow>),
    /// Old: that was all.
    End {
        /// How many connections there were.
        connections: u32,
        /// How many octets were in messages of bytes.
        bytes: u64,
        /// How many flows of datagrams there were.
        flows: u32,
    },
    /// New: the last message has arrived.
    Acknowledged,
    /// New: everything has arrived, and this is how many connections it was.
    Received {
        /// How many there were.
        connections: u32,
    },
    /// Old: they are yours.
    Yours,
    /// Either: it is off; everything stays as it was.
    Abort {
        /// Why, for the log.
        reason: String,
    },
}

/// Who speaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// The lowest version it understands.
    pub lowest: u16,
    /// The highest.
    pub highest: u16,
    /// Its build, for the log.
    pub build: String,
}

impl Hello {
    /// The version both understand, if there is one.
    #[must_use]
    pub fn common(&self, other: &Self) -> Option<u16> {
        let version = self.highest.min(other.highest);
        (version >= self.lowest && version >= other.lowest).then_some(version)
    }
}

/// A socket of a frontend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Socket {
    /// What it is for.
    pub kind: SocketKind,
    /// The frontend's name, or another by which the successor knows it.
    pub name: String,
    /// The address it is bound to.
    pub address: Option<SocketAddr>,
}

/// What a socket is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SocketKind {
    /// Accepts connections of the data path.
    #[default]
    Listener,
    /// Receives datagrams of the data path.
    Datagram,
    /// Anything else, known by its name.
    Other,
}

/// A connection, without its descriptors and its held octets.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Connection {
    /// The frontend that accepted it.
    pub frontend: String,
    /// The backend, once it is known.
    pub backend: String,
    /// The server, once there is one.
    pub server: String,
    /// The server's address.
    pub server_address: Option<SocketAddr>,
    /// The client's address, as the socket has it.
    pub peer: Option<SocketAddr>,
    /// The source a PROXY header has named.
    pub proxied_source: Option<SocketAddr>,
    /// The destination a PROXY header has named.
    pub proxied_destination: Option<SocketAddr>,
    /// The name in the ClientHello.
    pub server_name: String,
    /// How far it has come.
    pub stage: Stage,
    /// Client to server.
    pub up: Flow,
    /// Server to client.
    pub down: Flow,
    /// Lasting signs of the client's socket.
    pub client_signs: u8,
    /// Lasting signs of the server's socket.
    pub server_signs: u8,
    /// When it was accepted, since the epoch.
    pub accepted: Duration,
    /// How long it waited for a server.
    pub queued: Duration,
    /// How long it took until a server was connected.
    pub connected: Duration,
    /// Attempts to connect that failed.
    pub retries: u8,
    /// The socket of the server is among the descriptors.
    pub has_server: bool,
    /// The PROXY header was read, or none is expected.
    pub header_done: bool,
}

/// How far a connection has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stage {
    /// What the client has sent is looked into.
    #[default]
    Inspecting,
    /// Its backend is known, and no server.
    Choosing,
    /// An attempt is under way.
    Connecting,
    /// Bytes move.
    Relaying,
}

/// One direction of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flow {
    /// Octets moved so far.
    pub moved: u64,
    /// How it ended, as a number.
    pub end: u8,
    /// Octets that follow in messages of bytes.
    pub held: u32,
    /// Octets in the pipe whose two ends are among the descriptors; zero when there is none.
    pub in_pipe: u32,
}

impl Connection {
    /// How many descriptors it has: client, server, read and write end of each pipe, in this order.
    #[must_use]
    pub fn n_descriptors(&self) -> usize {
        let pipes = usize::from(self.up.in_pipe > 0) + usize::from(self.down.in_pipe > 0);
        1 + usize::from(self.has_server) + 2 * pipes
    }
}

/// Octets that wait to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bytes {
    /// The connection, counted from zero in the order they were sent.
    pub connection: u32,
    /// In which direction.
    pub direction: Direction,
    /// The octets.
    pub octets: Vec<u8>,
}

/// One of the two ways through a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Client to server.
    Up,
    /// Server to client.
    Down,
}

/// A message that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// It ends in the middle.
    #[error("the message is cut off")]
    Short,
    /// It is no message of this protocol.
    #[error("this is no hand-over message")]
    Foreign,
    /// A version that is not understood.
    #[error("version {0} is not understood")]
    Version(u16),
    /// A kind that this version does not have.
    #[error("kind {0} is unknown")]
    Kind(u8),
    /// A field says something impossible.
    #[error("field {0} is malformed")]
    Field(u8),
}

//--- Encode

mod kind {
    pub(super) const HELLO: u8 = 1;
    pub(super) const SOCKETS: u8 = 2;
    pub(super) const SOCKETS_END: u8 = 3;
    pub(super) const TAKE: u8 = 4;
    pub(super) const CONNECTIONS: u8 = 5;
    pub(super) const BYTES: u8 = 6;
    pub(super) const END: u8 = 7;
    pub(super) const ACKNOWLEDGED: u8 = 8;
    pub(super) const RECEIVED: u8 = 9;
    pub(super) const YOURS: u8 = 10;
    pub(super) const ABORT: u8 = 11;
    pub(super) const FLOWS: u8 = 12;
}

mod tag {
    pub(super) const LOWEST: u8 = 1;
    pub(super) const HIGHEST: u8 = 2;
    pub(super) const TEXT: u8 = 3;
    pub(super) const ITEM: u8 = 4;
    pub(super) const COUNT: u8 = 5;
    pub(super) const BYTES: u8 = 6;
    pub(super) const DIRECTION: u8 = 7;
    pub(super) const OCTETS: u8 = 8;
    pub(super) const KIND: u8 = 9;
    pub(super) const NAME: u8 = 10;
    pub(super) const ADDRESS: u8 = 11;
    pub(super) const FLOWS: u8 = 12;

    pub(super) const FRONTEND: u8 = 33;
    pub(super) const BACKEND: u8 = 34;
    pub(super) const SERVER: u8 = 35;
    pub(super) const SERVER_ADDRESS: u8 = 36;
    pub(super) const PEER: u8 = 37;
    pub(super) const PROXIED_SOURCE: u8 = 38;
    pub(super) const PROXIED_DESTINATION: u8 = 39;
    pub(super) const SERVER_NAME: u8 = 40;
    pub(super) const STAGE: u8 = 41;
    pub(super) const UP: u8 = 42;
    pub(super) const DOWN: u8 = 43;
    pub(super) const CLIENT_SIGNS: u8 = 44;
    pub(super) const SERVER_SIGNS: u8 = 45;
    pub(super) const ACCEPTED: u8 = 46;
    pub(super) const QUEUED: u8 = 47;
    pub(super) const CONNECTED: u8 = 48;
    pub(super) const RETRIES: u8 = 49;
    pub(super) const HAS_SERVER: u8 = 50;
    pub(super) const HEADER_DONE: u8 = 51;

    pub(super) const MOVED: u8 = 64;
    pub(super) const FLOW_END: u8 = 65;
    pub(super) const HELD: u8 = 66;
    pub(super) const IN_PIPE: u8 = 67;

    pub(super) const LISTENER: u8 = 80;
    pub(super) const CLIENT: u8 = 81;
    pub(super) const LOCAL: u8 = 82;
    pub(super) const REQUESTS: u8 = 83;
    pub(super) const RESPONSES: u8 = 84;
    pub(super) const IDLE: u8 = 85;
    pub(super) const KEPT: u8 = 86;
}

impl Message {
    /// The message in octets.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&VERSION.to_be_bytes());
        out.push(self.kind());
        match self {
            Self::Hello(hello) => {
                put(&mut out, tag::LOWEST, &hello.lowest.to_be_bytes());
                put(&mut out, tag::HIGHEST, &hello.highest.to_be_bytes());
                put_text(&mut out, tag::TEXT, &hello.build);
            }
            Self::Sockets(sockets) => {
                for socket in sockets {
                    put(&mut out, tag::ITEM, &socket.encode());
                }
            }
            Self::Connections(connections) => {
                for connection in connections {
                    put(&mut out, tag::ITEM, &connection.encode());
                }
            }
            Self::Bytes(bytes) => {
                put(&mut out, tag::COUNT, &bytes.connection.to_be_bytes());
                put(&mut out, tag::DIRECTION, &[bytes.direction as u8]);
                put(&mut out, tag::OCTETS, &bytes.octets);
            }
            Self::Flows(flows) => {
                for flow in flows {
                    put(&mut out, tag::ITEM, &flow.encode());
                }
            }
            Self::End {
                connections,
                bytes,
                flows,
            } => {
                put(&mut out, tag::COUNT, &connections.to_be_bytes());
                put(&mut out, tag::BYTES, &bytes.to_be_bytes());
                put(&mut out, tag::FLOWS, &flows.to_be_bytes());
            }
            Self::Received { connections } => {
                put(&mut out, tag::COUNT, &connections.to_be_bytes());
            }
            Self::Abort { reason } => put_text(&mut out, tag::TEXT, reason),
            Self::SocketsEnd | Self::Take | Self::Acknowledged | Self::Yours => {}
        }
        out
    }

    fn kind(&self) -> u8 {
        match self {
            Self::Hello(_) => kind::HELLO,
            Self::Sockets(_) => kind::SOCKETS,
            Self::SocketsEnd => kind::SOCKETS_END,
            Self::Take => kind::TAKE,
            Self::Connections(_) => kind::CONNECTIONS,
            Self::Bytes(_) => kind::BYTES,
            Self::Flows(_) => kind::FLOWS,
            Self::End { .. } => kind::END,
            Self::Acknowledged => kind::ACKNOWLEDGED,
            Self::Received { .. } => kind::RECEIVED,
            Self::Yours => kind::YOURS,
            Self::Abort { .. } => kind::ABORT,
        }
    }
}

impl Socket {
    /// The socket in octets.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64);
        put(&mut out, tag::KIND, &[self.kind as u8]);
        put_text(&mut out, tag::NAME, &self.name);
        put_address(&mut out, tag::ADDRESS, self.address);
        out
    }
}

impl Connection {
    /// The connection in octets.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(256);
        put_text(&mut out, tag::FRONTEND, &self.frontend);
        put_text(&mut out, tag::BACKEND, &self.backend);
        put_text(&mut out, tag::SERVER, &self.server);
        put_address(&mut out, tag::SERVER_ADDRESS, self.server_address);
        put_address(&mut out, tag::PEER, self.peer);
        put_address(&mut out, tag::PROXIED_SOURCE, self.proxied_source);
        put_address(&mut out, tag::PROXIED_DESTINATION, self.proxied_destination);
        put_text(&mut out, tag::SERVER_NAME, &self.server_name);
        put(&mut out, tag::STAGE, &[self.stage as u8]);
        put(&mut out, tag::UP, &self.up.encode());
        put(&mut out, tag::DOWN, &self.down.encode());
        put(&mut out, tag::CLIENT_SIGNS, &[self.client_signs]);
        put(&mut out, tag::SERVER_SIGNS, &[self.server_signs]);
        put(&mut out, tag::ACCEPTED, &micros(self.accepted));
        put(&mut out, tag::QUEUED, &micros(self.queued));
        put(&mut out, tag::CONNECTED, &micros(self.connected));
        put(&mut out, tag::RETRIES, &[self.retries]);
        put(&mut out, tag::HAS_SERVER, &[u8::from(self.has_server)]);
        put(&mut out, tag::HEADER_DONE, &[u8::from(self.header_done)]);
        out
    }
}

impl Flow {
    fn encode(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(32);
        put(&mut out, tag::MOVED, &self.moved.to_be_bytes());
        put(&mut out, tag::FLOW_END, &[self.end]);
        put(&mut out, tag::HELD, &self.held.to_be_bytes());
        put(&mut out, tag::IN_PIPE, &self.in_pipe.to_be_bytes());
        out
    }
}

fn put(out: &mut Vec<u8>, tag: u8, octets: &[u8]) {
    // No caller has more: the longest is a message's worth of held octets.
    let length = u16::try_from(octets.len()).unwrap_or(u16::MAX);
    out.push(tag);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend(octets.iter().take(usize::from(length)));
}

fn put_text(out: &mut Vec<u8>, tag: u8, text: &str) {
    if !text.is_empty() {
        let mut end = text.len().min(LONGEST_NAME);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        put(out, tag, text.as_bytes().get(..end).unwrap_or_default());
    }
}

fn put_address(out: &mut Vec<u8>, tag: u8, address: Option<SocketAddr>) {
    let Some(address) = address else { return };
    let mut octets = Vec::with_capacity(22);
    octets.extend_from_slice(&address.port().to_be_bytes());
    match address {
        SocketAddr::V4(v4) => octets.extend_from_slice(&v4.ip().octets()),
        SocketAddr::V6(v6) => {
            octets.extend_from_slice(&v6.ip().octets());
            octets.extend_from_slice(&v6.scope_id().to_be_bytes());
        }
    }
    put(out, tag, &octets);
}

fn micros(duration: Duration) -> [u8; 8] {
    u64::try_from(duration.as_micros())
        .unwrap_or(u64::MAX)
        .to_be_bytes()
}

//--- Decode

impl Message {
    /// Reads a message.
    ///
    /// # Errors
    ///
    /// When it is not one, or not whole.
    pub fn decode(octets: &[u8]) -> Result<Self, DecodeError> {
        let (magic, rest) = octets.split_first_chunk::<4>().ok_or(DecodeError::Short)?;
        if *magic != MAGIC {
            return Err(DecodeError::Foreign);
        }
        let (version, rest) = rest.split_first_chunk::<2>().ok_or(DecodeError::Short)?;
        let version = u16::from_be_bytes(*version);
        let (kind, fields) = rest.split_first().ok_or(DecodeError::Short)?;
        // A hello of any version can be read: it is how versions are agreed upon.
        if version < LOWEST_VERSION && *kind != kind::HELLO {
            return Err(DecodeError::Version(version));
        }
        Ok(match *kind {
            kind::HELLO => Self::Hello(Hello::decode(fields)?),
            kind::SOCKETS => Self::Sockets(items(fields, Socket::decode)?),
            kind::SOCKETS_END => Self::SocketsEnd,
            kind::TAKE => Self::Take,
            kind::CONNECTIONS => Self::Connections(items(fields, Connection::decode)?),
            kind::BYTES => Self::Bytes(Bytes::decode(fields)?),
            kind::FLOWS => Self::Flows(items(fields, DatagramFlow::decode)?),
            kind::END => {
                let (mut connections, mut bytes, mut flows) = (0, 0, 0);
                each(fields, |tag, octets| {
                    match tag {
                        tag::COUNT => connections = u32::from_be_bytes(exact(tag, octets)?),
                        tag::BYTES => bytes = u64::from_be_bytes(exact(tag, octets)?),
                        tag::FLOWS => flows = u32::from_be_bytes(exact(tag, octets)?),
                        _ => {}
                    }
                    Ok(())
                })?;
                Self::End {
                    connections,
                    bytes,
                    flows,
                }
            }
            kind::ACKNOWLEDGED => Self::Acknowledged,
            kind::RECEIVED => {
                let mut connections = 0;
                each(fields, |tag, octets| {
                    if tag == tag::COUNT {
                        connections = u32::from_be_bytes(exact(tag, octets)?);
                    }
                    Ok(())
                })?;
                Self::Received { connections }
            }
            kind::YOURS => Self::Yours,
            kind::ABORT => {
                let mut reason = String::new();
                each(fields, |tag, octets| {
                    if tag == tag::TEXT {
                        reason = text(tag, octets)?;
                    }
                    Ok(())
                })?;
                Self::Abort { reason }
            }
            kind => return Err(DecodeError::Kind(kind)),
        })
    }
}

impl Hello {
    fn decode(fields: &[u8]) -> Result<Self, DecodeError> {
        let mut hello = Self {
            lowest: 0,
            highest: 0,
            build: String::new(),
        };
        each(fields, |tag, octets| {
            match tag {
                tag::LOWEST => hello.lowest = u16::from_be_bytes(exact(tag, octets)?),
                tag::HIGHEST => hello.highest = u16::from_be_bytes(exact(tag, octets)?),
                tag::TEXT => hello.build = text(tag, octets)?,
                _ => {}
            }
            Ok(())
        })?;
        Ok(hello)
    }
}

impl Socket {
    fn decode(fields: &[u8]) -> Result<Self, DecodeError> {
        let mut socket = Self {
            kind: SocketKind::default(),
            name: String::new(),
            address: None,
        };
        each(fields, |tag, octets| {
            match tag {
                tag::KIND => {
                    socket.kind = match exact::<1>(tag, octets)? {
                        [0] => SocketKind::Listener,
                        [1] => SocketKind::Datagram,
                        _ => SocketKind::Other,
                    }
                }
                tag::NAME => socket.name = text(tag, octets)?,
                tag::ADDRESS => socket.address = Some(address(tag, octets)?),
                _ => {}
            }
            Ok(())
        })?;
        Ok(socket)
    }
}

impl Connection {
    fn decode(fields: &[u8]) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        each(fields, |tag, octets| {
            match tag {
                tag::FRONTEND => it.frontend = text(tag, octets)?,
                tag::BACKEND => it.backend = text(tag, octets)?,
                tag::SERVER => it.server = text(tag, octets)?,
                tag::SERVER_ADDRESS => it.server_address = Some(address(tag, octets)?),
                tag::PEER => it.peer = Some(address(tag, octets)?),
                tag::PROXIED_SOURCE => it.proxied_source = Some(address(tag, octets)?),
                tag::PROXIED_DESTINATION => it.proxied_destination = Some(address(tag, octets)?),
                tag::SERVER_NAME => it.server_name = text(tag, octets)?,
                tag::STAGE => it.stage = stage(octets)?,
                tag::UP => it.up = Flow::decode(octets)?,
                tag::DOWN => it.down = Flow::decode(octets)?,
                tag::CLIENT_SIGNS => [it.client_signs] = exact(tag, octets)?,
                tag::SERVER_SIGNS => [it.server_signs] = exact(tag, octets)?,
                tag::ACCEPTED => it.accepted = duration(tag, octets)?,
                tag::QUEUED => it.queued = duration(tag, octets)?,
                tag::CONNECTED => it.connected = duration(tag, octets)?,
                tag::RETRIES => [it.retries] = exact(tag, octets)?,
                tag::HAS_SERVER => it.has_server = exact::<1>(tag, octets)? != [0],
                tag::HEADER_DONE => it.header_done = exact::<1>(tag, octets)? != [0],
                _ => {}
            }
            Ok(())
        })?;
        Ok(it)
    }
}

impl Flow {
    fn decode(fields: &[u8]) -> Result<Self, DecodeError> {
        let mut flow = Self::default();
        each(fields, |tag, octets| {
            match tag {
                tag::MOVED => flow.moved = u64::from_be_bytes(exact(tag, octets)?),
                tag::FLOW_END => [flow.end] = exact(tag, octets)?,
                tag::HELD => flow.held = u32::from_be_bytes(exact(tag, octets)?),
                tag::IN_PIPE => flow.in_pipe = u32::from_be_bytes(exact(tag, octets)?),
                _ => {}
            }
            Ok(())
        })?;
        Ok(flow)
    }
}

impl Bytes {
    fn decode(fields: &[u8]) -> Result<Self, DecodeError> {
        let mut bytes = Self {
            connection: u32::MAX,
            direction: Direction::Up,
            octets: Vec::new(),
        };
        each(fields, |tag, octets| {
            match tag {
                tag::COUNT => bytes.connection = u32::from_be_bytes(exact(tag, octets)?),
                tag::DIRECTION => {
                    bytes.direction = match exact::<1>(tag, octets)? {
                        [0] => Direction::Up,
                        [1] => Direction::Down,
                        _ => return Err(DecodeError::Field(tag)),
                    }
                }
                tag::OCTETS => bytes.octets = octets.to_vec(),
                _ => {}
            }
            Ok(())
        })?;
        Ok(bytes)
    }
}

fn each(
    mut fields: &[u8],
    mut take: impl FnMut(u8, &[u8]) -> Result<(), DecodeError>,
) -> Result<(), DecodeError> {
    while let Some((tag, rest)) = fields.split_first() {
        let (length, rest) = rest.split_first_chunk::<2>().ok_or(DecodeError::Short)?;
        let length = usize::from(u16::from_be_bytes(*length));
        let (octets, rest) = rest.split_at_checked(length).ok_or(DecodeError::Short)?;
        take(*tag, octets)?;
        fields = rest;
    }
    Ok(())
}

fn items<T>(
    fields: &[u8],
    decode: impl Fn(&[u8]) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    let mut items = Vec::new();
    each(fields, |tag, octets| {
        if tag == tag::ITEM {
            items.push(decode(octets)?);
        }
        Ok(())
    })?;
    Ok(items)
}

fn exact<const N: usize>(tag: u8, octets: &[u8]) -> Result<[u8; N], DecodeError> {
    octets.try_into().map_err(|_| DecodeError::Field(tag))
}

fn text(tag: u8, octets: &[u8]) -> Result<String, DecodeError> {
    String::from_utf8(octets.to_vec()).map_err(|_| DecodeError::Field(tag))
}

fn duration(tag: u8, octets: &[u8]) -> Result<Duration, DecodeError> {
    exact(tag, octets).map(|octets| Duration::from_micros(u64::from_be_bytes(octets)))
}

fn stage(octets: &[u8]) -> Result<Stage, DecodeError> {
    match octets {
        [0] => Ok(Stage::Inspecting),
        [1] => Ok(Stage::Choosing),
        [2] => Ok(Stage::Connecting),
        [3] => Ok(Stage::Relaying),
        _ => Err(DecodeError::Field(tag::STAGE)),
    }
}

fn address(tag: u8, octets: &[u8]) -> Result<SocketAddr, DecodeError> {
    let malformed = DecodeError::Field(tag);
    let (port, rest) = octets.split_first_chunk::<2>().ok_or(malformed)?;
    let port = u16::from_be_bytes(*port);
    if let Ok(v4) = <[u8; 4]>::try_from(rest) {
        return Ok(SocketAddr::new(IpAddr::from(v4), port));
    }
    let (v6, scope) = rest.split_first_chunk::<16>().ok_or(malformed)?;
    let scope = u32::from_be_bytes(exact(tag, scope)?);
    let v6 = std::net::SocketAddrV6::new((*v6).into(), port, 0, scope);
    Ok(SocketAddr::V6(v6))
}

#[cfg(test)]
mod tests;
