//! Sessions as they are listed, and which of them are meant.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;

/// A filter of sessions: all conditions that are given must fit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// The number `sessions` shows.
    pub id: Option<u64>,
    /// Accepted by this frontend.
    pub frontend: Option<String>,
    /// Sent to this backend.
    pub backend: Option<String>,
    /// On this server.
    pub server: Option<String>,
    /// From an address in this network.
    pub client: Option<IpNet>,
}

impl Filter {
    /// Fits every session.
    #[must_use]
    pub fn all() -> Self {
        Self::default()
    }

    /// Fits none: numbers begin at one.
    #[must_use]
    pub fn nothing() -> Self {
        Self {
            id: Some(0),
            ..Self::default()
        }
    }
}

/// One session as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionInfo {
    /// Its number, unique in this process.
    pub id: u64,
    /// The frontend that accepted it.
    pub frontend: Arc<str>,
    /// The backend, once it is known.
    pub backend: Option<Arc<str>>,
    /// The server, once there is one.
    pub server: Option<Arc<str>>,
    /// The server's address.
    pub server_address: Option<SocketAddr>,
    /// The client's address, by the PROXY header if there was one.
    pub client: SocketAddr,
    /// The address it connected to.
    pub local: Option<SocketAddr>,
    /// How far it has come.
    pub state: SessionState,
    /// Since it was accepted.
    pub age: Duration,
    /// Bytes from the client that the server has taken.
    pub bytes_in: u64,
    /// Bytes from the server that the client has taken.
    pub bytes_out: u64,
}

/// How far a session has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionState {
    /// The client's first octets are inspected.
    Inspecting,
    /// It waits for a server with room.
    Queued,
    /// An attempt to connect is under way.
    Connecting,
    /// Bytes move both ways.
    Relaying,
    /// The client has closed its side.
    ClientClosed,
    /// The server has closed its side.
    ServerClosed,
}

impl SessionState {
    /// The state in a word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Inspecting => "inspecting",
            Self::Queued => "queued",
            Self::Connecting => "connecting",
            Self::Relaying => "relaying",
            Self::ClientClosed => "client-closed",
            Self::ServerClosed => "server-closed",
        }
    }
}
