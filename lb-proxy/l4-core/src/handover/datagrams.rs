//! A flow of datagrams in octets.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::decode::{address, duration, each, exact, text};
use super::encode::{micros, put, put_address, put_text};
use super::{DecodeError, tag};

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

impl DatagramFlow {
    /// The flow in octets.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(128 + self.kept.len());
        put_text(&mut out, tag::FRONTEND, &self.frontend);
        put(&mut out, tag::LISTENER, &self.listener.to_be_bytes());
        put_address(&mut out, tag::CLIENT, self.client);
        let local = self.local.map(|local| SocketAddr::new(local, 0));
        put_address(&mut out, tag::LOCAL, local);
        put_text(&mut out, tag::SERVER, &self.server);
        put_address(&mut out, tag::SERVER_ADDRESS, self.server_address);
        put(&mut out, tag::REQUESTS, &self.requests.to_be_bytes());
        put(&mut out, tag::RESPONSES, &self.responses.to_be_bytes());
        put(&mut out, tag::IDLE, &micros(self.idle));
        if !self.kept.is_empty() {
            put(&mut out, tag::KEPT, &self.kept);
        }
        out
    }

    pub(super) fn decode(fields: &[u8]) -> Result<Self, DecodeError> {
        let mut it = Self::default();
        each(fields, |tag, octets| {
            match tag {
                tag::FRONTEND => it.frontend = text(tag, octets)?,
                tag::LISTENER => it.listener = u64::from_be_bytes(exact(tag, octets)?),
                tag::CLIENT => it.client = Some(address(tag, octets)?),
                tag::LOCAL => it.local = Some(address(tag, octets)?.ip()),
                tag::SERVER => it.server = text(tag, octets)?,
                tag::SERVER_ADDRESS => it.server_address = Some(address(tag, octets)?),
                tag::REQUESTS => it.requests = u64::from_be_bytes(exact(tag, octets)?),
                tag::RESPONSES => it.responses = u64::from_be_bytes(exact(tag, octets)?),
                tag::IDLE => it.idle = duration(tag, octets)?,
                tag::KEPT => it.kept = octets.to_vec(),
                _ => {}
            }
            Ok(())
        })?;
        Ok(it)
    }
}
