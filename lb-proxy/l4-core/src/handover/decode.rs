//! Messages out of octets. No length is trusted.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::{
    Bytes, Connection, DatagramFlow, DecodeError, Direction, Flow, Hello, LOWEST_VERSION, MAGIC,
    Message, Socket, SocketKind, Stage, kind, tag,
};

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
                tag::EXTENSIONS => it.extensions = octets.to_vec(),
                tag::CHOSEN_IN_SERVICE => {
                    it.chosen_in_service = exact::<1>(tag, octets)? != [0];
                }
                _ => {}
            }
            Ok(())
        })?;
        Ok(it)
    }
}

impl DatagramFlow {
    fn decode(fields: &[u8]) -> Result<Self, DecodeError> {
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
