//! Exchanges with a primary: its SOA record over UDP, and a transfer over TCP; signed if there is a key.

use daemon::random;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use dns_wire::header::{self, Flags};
use dns_wire::records::uncompressed_rdata;
use dns_wire::tsig::Responses;
use dns_wire::{Class, Key, Name, Opcode, Rcode, Records, Section, TsigError, Type};
use dns_zone::SoaTimes;
use dns_zone::incoming::{Base, Incoming, Progress, TransferError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

use crate::signed;

/// How long to wait for a response over UDP, each time.
const PATIENCE: [Duration; 3] = [
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
];
/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(10);
/// How long the next message of a transfer may take.
const NEXT_MESSAGE: Duration = Duration::from_secs(30);
/// The most octets that one transfer takes off the network: repeats count, too.
const MAX_RECEIVED: u64 = 4 << 30;

/// Why an exchange has no result.
#[derive(Debug, thiserror::Error)]
pub(super) enum ExchangeError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("no response in time")]
    Timeout,
    #[error("the response is none to the question")]
    NoResponse,
    #[error("the primary responds {0} to the question for the SOA record")]
    Rcode(Rcode),
    #[error("the primary is not authoritative for the zone, or has no SOA record")]
    NotAuthoritative,
    #[error("{0}")]
    Signature(#[from] TsigError),
    #[error("{0}")]
    Transfer(#[from] TransferError),
    #[error("the transfer ends without a signature")]
    Unsigned,
    #[error("the transfer is too long")]
    TooLong,
}

impl ExchangeError {
    /// Whether the differences are at fault, and the whole zone may come all the same.
    pub(super) const fn suggests_whole_zone(&self) -> bool {
        matches!(
            self,
            Self::Transfer(
                TransferError::NotOurVersion
                    | TransferError::Rcode(Rcode::FORMERR | Rcode::NOTIMP | Rcode::SERVFAIL)
            )
        )
    }
}

/// A request, and what checks its responses.
struct Request {
    id: u16,
    wire: Vec<u8>,
    responses: Option<Responses>,
}

impl Request {
    /// A question for this type; with the SOA record of this serial, for differences (RFC 1995 §3).
    fn new(zone: &Name, rtype: Type, known: Option<u32>, key: Option<&Key>) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "an identifier is sixteen of the random bits"
        )]
        let id = random::seed() as u16;
        let mut wire = vec![0; header::LENGTH];
        header::set_word(&mut wire, 0, id);
        header::set_word(&mut wire, 4, 1);
        wire.extend_from_slice(zone.as_wire());
        wire.extend(rtype.0.to_be_bytes());
        wire.extend(Class::IN.0.to_be_bytes());
        if let Some(serial) = known {
            header::set_word(&mut wire, 8, 1);
            wire.extend([0xc0, 0x0c]);
            wire.extend(Type::SOA.0.to_be_bytes());
            wire.extend(Class::IN.0.to_be_bytes());
            // TTL, the length of two root names and five numbers, and the names.
            wire.extend([0, 0, 0, 0, 0, 22, 0, 0]);
            wire.extend(serial.to_be_bytes());
            wire.extend([0; 16]);
        }
        let responses = key.and_then(|key| key.sign(&mut wire, signed::now()));
        Self {
            id,
            wire,
            responses,
        }
    }

    /// Checks the signature of a response.
    fn check(&mut self, message: &[u8]) -> Result<(), ExchangeError> {
        match &mut self.responses {
            Some(responses) => Ok(responses.check(message, signed::now())?),
            None => Ok(()),
        }
    }
}

/// The SOA record of a primary. If it refuses the question over UDP, it gets it over TCP: Knot answers from its catalogs there alone.
pub(super) async fn ask(
    primary: SocketAddr,
    zone: &Name,
    key: Option<&Key>,
) -> Result<SoaTimes, ExchangeError> {
    match ask_over_udp(primary, zone, key).await {
        Err(ExchangeError::Rcode(Rcode::REFUSED)) => ask_over_tcp(primary, zone, key).await,
        other => other,
    }
}

async fn ask_over_tcp(
    primary: SocketAddr,
    zone: &Name,
    key: Option<&Key>,
) -> Result<SoaTimes, ExchangeError> {
    let mut request = Request::new(zone, Type::SOA, None, key);
    let mut stream = connect(primary, &request).await?;
    let mut message = Vec::new();
    let next = timeout(CONNECT, read_message(&mut stream, &mut message)).await;
    next.map_err(|_| ExchangeError::Timeout)??;
    if header::id(&message) != Some(request.id) {
        return Err(ExchangeError::NoResponse);
    }
    request.check(&message)?;
    soa(&message, zone)
}

/// Connects to a primary and sends the request.
async fn connect(primary: SocketAddr, request: &Request) -> Result<TcpStream, ExchangeError> {
    let stream = timeout(CONNECT, TcpStream::connect(primary)).await;
    let mut stream = stream.map_err(|_| ExchangeError::Timeout)??;
    let length = u16::try_from(request.wire.len()).map_err(|_| ExchangeError::TooLong)?;
    let framed = [&length.to_be_bytes()[..], &request.wire].concat();
    stream.write_all(&framed).await?;
    Ok(stream)
}

async fn ask_over_udp(
    primary: SocketAddr,
    zone: &Name,
    key: Option<&Key>,
) -> Result<SoaTimes, ExchangeError> {
    let socket = match primary {
        SocketAddr::V4(_) => UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).await?,
        SocketAddr::V6(_) => UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)).await?,
    };
    socket.connect(primary).await?;
    let mut buffer = vec![0; usize::from(u16::MAX)];
    for patience in PATIENCE {
        let mut request = Request::new(zone, Type::SOA, None, key);
        socket.send(&request.wire).await?;
        let Ok(received) = timeout(patience, receive(&socket, &mut buffer, request.id)).await
        else {
            continue;
        };
        let message = buffer.get(..received?).unwrap_or_default();
        // A refusal may come without a signature. If it is forged, TCP says so.
        if Flags::read(message).is_some_and(|flags| flags.rcode() == Rcode::REFUSED) {
            return Err(ExchangeError::Rcode(Rcode::REFUSED));
        }
        request.check(message)?;
        return soa(message, zone);
    }
    Err(ExchangeError::Timeout)
}

/// Receives the next message that may be the response.
async fn receive(socket: &UdpSocket, buffer: &mut [u8], id: u16) -> io::Result<usize> {
    loop {
        let length = socket.recv(buffer).await?;
        let message = buffer.get(..length).unwrap_or_default();
        let is_response = Flags::read(message)
            .is_some_and(|flags| flags.has(Flags::QR) && flags.opcode() == Opcode::QUERY);
        if is_response && header::id(message) == Some(id) {
            return Ok(length);
        }
    }
}

/// Reads the SOA record of a response.
fn soa(message: &[u8], zone: &Name) -> Result<SoaTimes, ExchangeError> {
    let flags = Flags::read(message).ok_or(ExchangeError::NoResponse)?;
    if flags.rcode() != Rcode::NOERROR {
        return Err(ExchangeError::Rcode(flags.rcode()));
    }
    if !flags.has(Flags::AA) {
        return Err(ExchangeError::NotAuthoritative);
    }
    let records = Records::new(message).map_err(|_| ExchangeError::NoResponse)?;
    for record in records.flatten() {
        let owner = Name::read(message, record.name_offset);
        let is_ours = owner.is_ok_and(|(owner, _)| owner == *zone);
        if record.section == Section::Answer && record.rtype == Type::SOA && is_ours {
            let data = uncompressed_rdata(message, &record);
            let times = data.ok().and_then(|data| SoaTimes::of(&data));
            return times.ok_or(ExchangeError::NoResponse);
        }
    }
    Err(ExchangeError::NotAuthoritative)
}

/// Transfers the zone; with a base, its differences if the primary has them.
pub(super) async fn transfer(
    primary: SocketAddr,
    zone: &Name,
    key: Option<&Key>,
    base: Option<Base>,
) -> Result<Incoming, ExchangeError> {
    let (rtype, known) = match &base {
        Some((serial, _)) => (Type::IXFR, Some(*serial)),
        None => (Type::AXFR, None),
    };
    let mut request = Request::new(zone, rtype, known, key);
    let mut stream = connect(primary, &request).await?;
    let mut incoming = Incoming::new(zone, request.id, base);
    let mut message = Vec::new();
    let mut received = 0_u64;
    loop {
        let next = read_message(&mut stream, &mut message);
        let next = timeout(NEXT_MESSAGE, next).await;
        next.map_err(|_| ExchangeError::Timeout)??;
        received += message.len() as u64;
        if received > MAX_RECEIVED {
            return Err(ExchangeError::TooLong);
        }
        request.check(&message)?;
        match incoming.take(&message)? {
            Progress::More => {}
            // The primary answered the question for its SOA record otherwise; its other data is older.
            Progress::Current => return Err(TransferError::NotOurVersion.into()),
            Progress::Complete => break,
        }
    }
    match request
        .responses
        .is_none_or(|responses| responses.is_complete())
    {
        true => Ok(incoming),
        false => Err(ExchangeError::Unsigned),
    }
}

async fn read_message(stream: &mut TcpStream, message: &mut Vec<u8>) -> io::Result<()> {
    let length = stream.read_u16().await?;
    message.resize(usize::from(length), 0);
    stream.read_exact(message).await?;
    Ok(())
}
