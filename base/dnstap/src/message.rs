//! The messages: `dnstap.proto` of dnstap.info.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use dns_wire::Transport;
use prost::Message as _;

/// The content type of streams of these messages.
pub const CONTENT_TYPE: &[u8] = b"protobuf:dnstap.Dnstap";

/// `Dnstap`: the one type of message in a stream.
#[derive(Clone, PartialEq, Eq, prost::Message)]
struct Dnstap {
    #[prost(bytes = "vec", optional, tag = "1")]
    identity: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "2")]
    version: Option<Vec<u8>>,
    #[prost(message, optional, tag = "14")]
    message: Option<Message>,
    /// `MESSAGE`.
    #[prost(int32, required, tag = "15")]
    kind: i32,
}

/// `Message`: one message of DNS.
#[derive(Clone, PartialEq, Eq, prost::Message)]
struct Message {
    #[prost(int32, required, tag = "1")]
    kind: i32,
    #[prost(int32, optional, tag = "2")]
    socket_family: Option<i32>,
    #[prost(int32, optional, tag = "3")]
    socket_protocol: Option<i32>,
    #[prost(bytes = "vec", optional, tag = "4")]
    query_address: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "5")]
    response_address: Option<Vec<u8>>,
    #[prost(uint32, optional, tag = "6")]
    query_port: Option<u32>,
    #[prost(uint32, optional, tag = "7")]
    response_port: Option<u32>,
    #[prost(uint64, optional, tag = "8")]
    query_time_sec: Option<u64>,
    #[prost(fixed32, optional, tag = "9")]
    query_time_nsec: Option<u32>,
    #[prost(bytes = "vec", optional, tag = "10")]
    query_message: Option<Vec<u8>>,
    #[prost(uint64, optional, tag = "12")]
    response_time_sec: Option<u64>,
    #[prost(fixed32, optional, tag = "13")]
    response_time_nsec: Option<u32>,
    #[prost(bytes = "vec", optional, tag = "14")]
    response_message: Option<Vec<u8>>,
}

/// `Dnstap.Type` of messages of DNS.
const MESSAGE: i32 = 1;

/// The role of the server and the direction of a message (`Message.Type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A query to an authoritative server, as that has received it.
    AuthQuery,
    /// Its response.
    AuthResponse,
    /// A query that a resolver sends to an authoritative server.
    ResolverQuery,
    /// The response to it.
    ResolverResponse,
    /// A query from a client.
    ClientQuery,
    /// The response to it.
    ClientResponse,
    /// A query that a forwarder sends to another resolver.
    ForwarderQuery,
    /// The response to it.
    ForwarderResponse,
}

impl Kind {
    const fn number(self) -> i32 {
        match self {
            Self::AuthQuery => 1,
            Self::AuthResponse => 2,
            Self::ResolverQuery => 3,
            Self::ResolverResponse => 4,
            Self::ClientQuery => 5,
            Self::ClientResponse => 6,
            Self::ForwarderQuery => 7,
            Self::ForwarderResponse => 8,
        }
    }

    const fn is_response(self) -> bool {
        matches!(
            self,
            Self::AuthResponse
                | Self::ResolverResponse
                | Self::ClientResponse
                | Self::ForwarderResponse
        )
    }
}

/// The number of a transport (`SocketProtocol`).
const fn protocol(transport: Transport) -> i32 {
    match transport {
        Transport::Udp => 1,
        Transport::Tcp => 2,
        Transport::Tls => 3,
        Transport::Https => 4,
        Transport::Quic => 7,
    }
}

/// One end of an exchange: an address, and a port where it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The address.
    pub address: IpAddr,
    /// The port.
    pub port: Option<u16>,
}

impl From<SocketAddr> for Peer {
    fn from(address: SocketAddr) -> Self {
        Self {
            address: address.ip(),
            port: Some(address.port()),
        }
    }
}

/// One message of DNS, with its circumstances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'m> {
    /// The role and the direction.
    pub kind: Kind,
    /// The transport.
    pub transport: Transport,
    /// The end that has sent the query.
    pub querier: Option<Peer>,
    /// The end that responds.
    pub responder: Option<Peer>,
    /// The time of the query, since 1970.
    pub asked: Duration,
    /// The time of the response, since 1970; that of the query for a query.
    pub answered: Duration,
    /// The message of DNS itself.
    pub message: &'m [u8],
}

/// The server, as each message of a stream names it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Server {
    /// Its name.
    pub identity: Option<Vec<u8>>,
    /// Its software.
    pub version: Option<Vec<u8>>,
}

impl Event<'_> {
    /// The protobuf form: the content of a data frame.
    #[must_use]
    pub fn encode(&self, server: &Server) -> Vec<u8> {
        let octets = |peer: Option<Peer>| {
            peer.map(|peer| match peer.address {
                IpAddr::V4(address) => address.octets().to_vec(),
                IpAddr::V6(address) => address.octets().to_vec(),
            })
        };
        let port = |peer: Option<Peer>| peer.and_then(|peer| peer.port).map(u32::from);
        let family = self
            .querier
            .or(self.responder)
            .map(|peer| match peer.address {
                IpAddr::V4(_) => 1,
                IpAddr::V6(_) => 2,
            });
        let is_response = self.kind.is_response();
        let response = is_response.then_some(self.answered);
        let message = Message {
            kind: self.kind.number(),
            socket_family: family,
            socket_protocol: Some(protocol(self.transport)),
            query_address: octets(self.querier),
            response_address: octets(self.responder),
            query_port: port(self.querier),
            response_port: port(self.responder),
            query_time_sec: Some(self.asked.as_secs()),
            query_time_nsec: Some(self.asked.subsec_nanos()),
            query_message: (!is_response).then(|| self.message.to_vec()),
            response_time_sec: response.map(|time| time.as_secs()),
            response_time_nsec: response.map(|time| time.subsec_nanos()),
            response_message: is_response.then(|| self.message.to_vec()),
        };
        let whole = Dnstap {
            identity: server.identity.clone(),
            version: server.version.clone(),
            message: Some(message),
            kind: MESSAGE,
        };
        whole.encode_to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: Kind) -> Event<'static> {
        Event {
            kind,
            transport: Transport::Udp,
            querier: Some(SocketAddr::from(([192, 0, 2, 1], 4000)).into()),
            responder: Some(Peer {
                address: IpAddr::from([192, 0, 2, 53]),
                port: None,
            }),
            asked: Duration::new(10, 5),
            answered: Duration::new(11, 6),
            message: b"dns",
        }
    }

    #[test]
    fn a_query_has_its_message_as_a_query_and_no_time_of_a_response() {
        let server = Server {
            identity: Some(b"me".to_vec()),
            version: None,
        };
        let octets = event(Kind::ClientQuery).encode(&server);
        // By hand from dnstap.proto: field 1, length 2; field 14, the message; field 15, 1.
        let inner: &[u8] = &[
            0x08, 5, 0x10, 1, 0x18, 1, 0x22, 4, 192, 0, 2, 1, 0x2a, 4, 192, 0, 2, 53, 0x30, 0xa0,
            0x1f, 0x40, 10, 0x4d, 5, 0, 0, 0, 0x52, 3, b'd', b'n', b's',
        ];
        let length = u8::try_from(inner.len()).unwrap();
        let expected = [&[0x0a, 2, b'm', b'e', 0x72, length], inner, &[0x78, 1]].concat();
        assert_eq!(octets, expected);
    }

    #[test]
    fn a_response_has_both_times_and_its_message_as_a_response() {
        for (kind, number) in [
            (Kind::AuthResponse, 2),
            (Kind::ResolverResponse, 4),
            (Kind::ClientResponse, 6),
            (Kind::ForwarderResponse, 8),
        ] {
            let octets = event(kind).encode(&Server::default());
            let whole = Dnstap::decode(&*octets).unwrap();
            let message = whole.message.unwrap();
            assert_eq!(message.kind, number);
            assert_eq!(message.query_message, None);
            assert_eq!(message.response_message.as_deref(), Some(&b"dns"[..]));
            assert_eq!(message.response_time_sec, Some(11));
            assert_eq!(message.response_time_nsec, Some(6));
            assert_eq!(
                (message.query_port, message.response_port),
                (Some(4000), None)
            );
            assert_eq!((whole.identity, whole.version), (None, None));
        }
    }
}
