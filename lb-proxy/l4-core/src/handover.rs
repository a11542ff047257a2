//! The messages between the old and the new process, octet by octet.
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

mod decode;
mod encode;

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// The version that is spoken here; a peer with a lower one is met there.
pub const VERSION: u16 = 3;

/// From this version on flows of datagrams are handed over.
pub const WITH_FLOWS: u16 = 2;

/// From this version on the state is sent again, as it is once nothing moves any more.
pub const WITH_LAST_STATE: u16 = 3;

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
    /// Both: the sender's identity, before anything else.
    Hello(Hello),
    /// Old: sockets of frontends, and what else the successor knows by its name; one descriptor each.
    /// Before [`Self::End`] once more the state alone.
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

/// The sender.
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
    /// The purpose of the descriptor.
    pub kind: SocketKind,
    /// The frontend's name, or another by which the successor knows it.
    pub name: String,
    /// The address it is bound to.
    pub address: Option<SocketAddr>,
}

/// The purpose of a socket.
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
    /// The other facts of the PROXY header, as they are on the wire.
    pub extensions: Vec<u8>,
    /// The server was neither down nor in maintenance when it was chosen.
    pub chosen_in_service: bool,
}

/// How far a connection has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stage {
    /// The client's first octets are inspected.
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

/// A flow of datagrams, without its descriptor: the socket that is connected to its server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DatagramFlow {
    /// The frontend it came through.
    pub frontend: String,
    /// The socket it came to, by its inode: the same in both processes.
    pub listener: u64,
    /// The client's address.
    pub client: Option<SocketAddr>,
    /// The address the client sends to, if it is known.
    pub local: Option<IpAddr>,
    /// The server.
    pub server: String,
    /// The server's address.
    pub server_address: Option<SocketAddr>,
    /// Datagrams from the client.
    pub requests: u64,
    /// Datagrams to the client.
    pub responses: u64,
    /// How long nothing has moved.
    pub idle: Duration,
    /// The last request while it is not answered, in case the server refuses it.
    pub kept: Vec<u8>,
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

//--- Numbers

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
    pub(super) const CHOSEN_IN_SERVICE: u8 = 52;
    pub(super) const EXTENSIONS: u8 = 53;

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

#[cfg(test)]
mod tests;
