//! One record for every session, in the fields of HAProxy's tcplog.

mod line;
mod termination;

use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use config::lb_proxy::{AccessLog as Settings, LogTarget as Target, RecordFormat as Format};
pub use termination::{Cause, Phase, Termination};

/// The known facts about a session when it ends.
#[derive(Clone, Debug)]
pub struct Record {
    /// When it was accepted.
    pub accepted: SystemTime,
    /// The client's address: the one that a PROXY header named, if there was one.
    pub client: SocketAddr,
    /// The address that was connected to; as `client`.
    pub local: Option<SocketAddr>,
    /// The frontend.
    pub frontend: Arc<str>,
    /// The backend; none when no route led to one.
    pub backend: Option<Arc<str>>,
    /// The server; none when none was chosen.
    pub server: Option<Arc<str>>,
    /// The server's address.
    pub server_address: Option<SocketAddr>,
    /// The host name that the client asked for in its ClientHello.
    pub name: Option<Arc<str>>,
    /// How long things took.
    pub timers: Timers,
    /// Bytes from the client.
    pub bytes_in: u64,
    /// Bytes to the client.
    pub bytes_out: u64,
    /// How it ended.
    pub termination: Termination,
    /// The generation of healthd's liveness by which the server was chosen: the last one that concerned a server here.
    /// None without healthd, and for a session that another process accepted.
    pub generation: Option<NonZeroU64>,
    /// How much else was going on.
    pub counts: Counts,
}

impl Record {
    /// Time since 1970-01-01 UTC.
    fn since_epoch(&self) -> Duration {
        self.accepted.duration_since(UNIX_EPOCH).unwrap_or_default()
    }
}

/// How long the parts of a session took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timers {
    /// `Tw`: from accept until a server had room; none when it did not come to that.
    pub queue: Option<Duration>,
    /// `Tc`: until the server's side was connected, repeated attempts included; none when it never was.
    pub connect: Option<Duration>,
    /// `Tt`: from accept until both sides were closed.
    pub total: Duration,
}

/// How much else was going on when a session ended, itself included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// `actconn`: sessions of the process.
    pub process: u64,
    /// `feconn`: sessions of the frontend.
    pub frontend: u64,
    /// `beconn`: sessions of the backend.
    pub backend: u64,
    /// `srv_conn`: sessions of the server.
    pub server: u64,
    /// `retries`: attempts to connect after the first.
    pub retries: u32,
    /// The session went to another server than the one it was first sent to.
    pub is_redispatched: bool,
    /// `srv_queue`: sessions that were before it in the server's queue.
    pub server_queue: u64,
    /// `backend_queue`: sessions that were before it in the backend's queue.
    pub backend_queue: u64,
}

/// Appends a record as a line.
pub fn write(format: Format, record: &Record, out: &mut Vec<u8>) {
    match format {
        Format::Json => line::json(record, out),
        Format::Text => line::text(record, out),
    }
}
