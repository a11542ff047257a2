//! The client of a query, and its transport.

use std::net::{IpAddr, SocketAddr};

pub use dns_wire::Transport;
use dns_wire::{Name, Type};

/// The sender of a query.
#[derive(Clone, Copy, Debug)]
pub struct Client {
    /// The sender.
    pub peer: SocketAddr,
    /// The address that the query came to, where it is known.
    pub local: Option<IpAddr>,
    /// The port that the query came to.
    pub local_port: u16,
    /// How the query came.
    pub transport: Transport,
    /// Whether the caller can ask again later, so that the answer may be [`Wait`](crate::Verdict::Wait).
    pub can_wait: bool,
    /// Whether the access list admits the sender.
    pub may_ask: bool,
    /// The clock of cookies, in seconds since 1970 modulo 2³²: only a query with a cookie reads it.
    pub clock: fn() -> u32,
}

/// The client of a question, as access lists see it, and the type of the question.
pub(crate) struct Asker<'a> {
    pub(crate) qtype: Type,
    pub(crate) address: IpAddr,
    /// The key that the query is signed with.
    pub(crate) key: Option<&'a Name>,
}
