//! The exchanges: the question for the SOA record, and the transfer.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use daemon::{clock, random};
use dns_wire::header::{self, Flags};
use dns_wire::records::uncompressed_rdata;
use dns_wire::tsig::Responses;
use dns_wire::{Class, Key, Name, Opcode, Rcode, Records, Section, TsigError, Type};
use dns_zone::SoaTimes;
use dns_zone::incoming::{Base, Incoming, Progress, TransferError};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

use crate::primary::Primary;

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
pub enum ExchangeError {
    /// The system or the connection failed, or the primary did not prove who it is.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// No response in time.
    #[error("no response in time")]
    Timeout,
    /// A response to another question.
    #[error("the response is none to the question")]
    NoResponse,
    /// The primary responds with this code.
    #[error("the primary responds {0} to the question for the SOA record")]
    Rcode(Rcode),
    /// The primary does not serve the zone.
    #[error("the primary is not authoritative for the zone, or has no SOA record")]
    NotAuthoritative,
    /// The signature of a response is wrong.
    #[error("{0}")]
    Signature(#[from] TsigError),
    /// The transfer cannot be taken.
    #[error("{0}")]
    Transfer(#[from] TransferError),
    /// The last message has no signature.
    #[error("the transfer ends without a signature")]
    Unsigned,
    /// More octets than a transfer may have.
    #[error("the transfer is too long")]
    TooLong,
}

impl ExchangeError {
    /// Whether the differences are at fault, and the whole zone may come all the same.
    #[must_use]
    pub const fn suggests_whole_zone(&self) -> bool {
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
        let responses = key.and_then(|key| key.sign(&mut wire, now()));
        Self {
            id,
            wire,
            responses,
        }
    }

    /// Checks the signature of a response.
    fn check(&mut self, message: &[u8]) -> Result<(), ExchangeError> {
        match &mut self.responses {
            Some(responses) => Ok(responses.check(message, now())?),
            None => Ok(()),
        }
    }
}

/// The time of signatures, in seconds since 1970.
fn now() -> u64 {
    clock::since_1970().as_secs()
}

/// The SOA record of a primary. If it refuses the question over UDP, it gets it over TCP: Knot answers from its catalogs there alone. A
/// primary over TLS gets every question over TLS.
///
/// # Errors
/// When there is none.
pub async fn ask(
    primary: &Primary,
    zone: &Name,
    key: Option<&Key>,
) -> Result<SoaTimes, ExchangeError> {
    if primary.tls().is_some() {
        return ask_over_stream(primary, zone, key).await;
    }
    match ask_over_udp(primary.address(), zone, key).await {
        Err(ExchangeError::Rcode(Rcode::REFUSED)) => ask_over_stream(primary, zone, key).await,
        other => other,
    }
}

async fn ask_over_stream(
    primary: &Primary,
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

/// A connection to a primary.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Connects to a primary and sends the request. Nothing is sent before the primary has proven who it is.
async fn connect(primary: &Primary, request: &Request) -> Result<Box<dyn Stream>, ExchangeError> {
    let length = u16::try_from(request.wire.len()).map_err(|_| ExchangeError::TooLong)?;
    let framed = [&length.to_be_bytes()[..], &request.wire].concat();
    let connected = async {
        let stream = TcpStream::connect(primary.address()).await?;
        let mut stream: Box<dyn Stream> = match primary.tls() {
            None => Box::new(stream),
            Some(tls) => Box::new(tls.connect(stream).await?),
        };
        stream.write_all(&framed).await?;
        stream.flush().await?;
        Ok::<_, io::Error>(stream)
    };
    let connected = timeout(CONNECT, connected).await;
    Ok(connected.map_err(|_| ExchangeError::Timeout)??)
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
///
/// # Errors
/// When the transfer does not come to its end, or its signatures are wrong.
pub async fn transfer(
    primary: &Primary,
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

async fn read_message(
    stream: &mut (impl AsyncRead + Unpin),
    message: &mut Vec<u8>,
) -> io::Result<()> {
    let length = stream.read_u16().await?;
    message.resize(usize::from(length), 0);
    stream.read_exact(message).await?;
    Ok(())
}
