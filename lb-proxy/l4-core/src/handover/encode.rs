//! Messages into octets.

use std::net::SocketAddr;
use std::time::Duration;

use super::{
    Connection, DatagramFlow, Flow, LONGEST_NAME, MAGIC, Message, Socket, VERSION, kind, tag,
};

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
        put(
            &mut out,
            tag::CHOSEN_IN_SERVICE,
            &[u8::from(self.chosen_in_service)],
        );
        if !self.extensions.is_empty() {
            put(&mut out, tag::EXTENSIONS, &self.extensions);
        }
        out
    }
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
