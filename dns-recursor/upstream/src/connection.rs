//! One connection: a task that opens it, sends queries as they come, and reports.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dns_resolve::forward::Protocol;
use dns_resolve::resolver::Loss;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http2::{self, SendRequest};
use hyper::header::{ACCEPT, CONTENT_TYPE};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, Endpoint, VarInt};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::pool::{ConnectionId, Failure, PIPELINE};
use crate::server::{Place, Server};

/// How long it may take to open a connection: at least three round trips over the slowest links, and less than the time of
/// a question.
const OPENING: Duration = Duration::from_secs(3);
/// How long a request may take.
const REQUEST: Duration = Duration::from_secs(10);
/// The requests before the server has said how many it takes at once: it may refuse those beyond.
const FIRST_STREAMS: usize = 4;
/// The media type of messages (RFC 8484 §6).
const MEDIA_TYPE: &str = "application/dns-message";
/// The longest message.
const MAX_MESSAGE: usize = 65_535;
/// How much is sent in one write.
const BATCH: usize = 16 << 10;

/// The report of a connection.
#[derive(Debug)]
pub struct Report {
    pub(crate) place: Place,
    pub(crate) connection: ConnectionId,
    pub(crate) progress: Progress,
}

/// The progress of a connection.
#[derive(Debug)]
pub enum Progress {
    /// It is open.
    Opened,
    /// A message has come.
    Received(Vec<u8>),
    /// The query with this number has no response.
    Failed(u16, Failure),
    /// It has ended.
    Ended(Loss, String),
}

/// The way of the reports of one connection.
#[derive(Debug)]
pub(crate) struct Reporter<E> {
    pub(crate) place: Place,
    pub(crate) connection: ConnectionId,
    pub(crate) events: mpsc::Sender<E>,
}

impl<E> Clone for Reporter<E> {
    fn clone(&self) -> Self {
        Self {
            place: self.place,
            connection: self.connection,
            events: self.events.clone(),
        }
    }
}

impl<E: From<Report>> Reporter<E> {
    async fn report(&self, progress: Progress) {
        let report = Report {
            place: self.place,
            connection: self.connection,
            progress,
        };
        if self.events.send(report.into()).await.is_err() {
            tracing::debug!("A connection outlived the resolver");
        }
    }
}

/// The end of a connection.
struct End {
    loss: Loss,
    reason: String,
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        let inner = error.get_ref();
        let tls = inner.and_then(|error| error.downcast_ref::<rustls::Error>());
        let loss = match tls {
            Some(rustls::Error::InvalidCertificate(_)) => Loss::Untrusted,
            _ => loss(&error),
        };
        Self {
            loss,
            reason: error.to_string(),
        }
    }
}

impl End {
    /// The end by an error that tells nothing about the server.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "errors are mapped by its name"
    )]
    fn broken(reason: impl ToString) -> Self {
        Self {
            loss: Loss::Broken,
            reason: reason.to_string(),
        }
    }
}

/// The state of the server that an error points to.
#[must_use]
pub fn loss(error: &io::Error) -> Loss {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Loss::Refused,
        io::ErrorKind::NetworkUnreachable
        | io::ErrorKind::HostUnreachable
        | io::ErrorKind::AddrNotAvailable
        | io::ErrorKind::NetworkDown
        // A firewall on this node denies it.
        | io::ErrorKind::PermissionDenied => Loss::Unreachable,
        _ => Loss::Broken,
    }
}

/// Runs a connection until it ends, or until no further query can come.
pub(crate) async fn run<E: From<Report> + Send + 'static>(
    server: Arc<Server>,
    messages: mpsc::Receiver<Vec<u8>>,
    reporter: Reporter<E>,
) {
    let ended = match server.settings().protocol {
        Protocol::Quic => over_quic(&server, messages, &reporter).await,
        Protocol::Https => over_https(&server, messages, &reporter).await,
        Protocol::Tls => over_tls(&server, messages, &reporter).await,
        Protocol::Tcp | Protocol::Udp => over_tcp(&server, messages, &reporter).await,
    };
    if let Err(End { loss, reason }) = ended {
        reporter.report(Progress::Ended(loss, reason)).await;
    }
}

/// Bounds the opening of a connection.
async fn opening<T>(open: impl Future<Output = Result<T, End>>) -> Result<T, End> {
    let opened = timeout(OPENING, open).await;
    opened.unwrap_or_else(|_| Err(End::broken("it is not open in time")))
}

/// Connects.
///
/// # Errors
/// When the server does not take the connection.
pub async fn connect(to: SocketAddr, from: Option<IpAddr>) -> io::Result<TcpStream> {
    let socket = match to {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    if let Some(from) = from {
        socket.bind(SocketAddr::new(from, 0))?;
    }
    let stream = socket.connect(to).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn connect_tls(server: &Server) -> Result<TlsStream<TcpStream>, End> {
    let settings = server.settings();
    let stream = connect(settings.address, settings.source).await?;
    let connector = TlsConnector::from(Arc::clone(&server.tls));
    Ok(connector.connect(server.name.clone(), stream).await?)
}

//--- TCP and TLS

async fn over_tcp<E: From<Report>>(
    server: &Server,
    messages: mpsc::Receiver<Vec<u8>>,
    reporter: &Reporter<E>,
) -> Result<(), End> {
    let settings = server.settings();
    let connecting = async { Ok(connect(settings.address, settings.source).await?) };
    converse(opening(connecting).await?, messages, reporter).await
}

async fn over_tls<E: From<Report>>(
    server: &Server,
    messages: mpsc::Receiver<Vec<u8>>,
    reporter: &Reporter<E>,
) -> Result<(), End> {
    let stream = opening(connect_tls(server)).await?;
    converse(stream, messages, reporter).await
}

/// Sends queries and reads responses, each behind its length (RFC 7766 §8).
async fn converse<E: From<Report>>(
    stream: impl AsyncRead + AsyncWrite,
    mut messages: mpsc::Receiver<Vec<u8>>,
    reporter: &Reporter<E>,
) -> Result<(), End> {
    reporter.report(Progress::Opened).await;
    let (mut reader, mut writer) = tokio::io::split(stream);
    let reading = async {
        loop {
            let length = reader.read_u16().await?;
            let mut message = vec![0; length.into()];
            reader.read_exact(&mut message).await?;
            reporter.report(Progress::Received(message)).await;
        }
    };
    let writing = async {
        let mut framed = Vec::new();
        while let Some(message) = messages.recv().await {
            frame(&message, &mut framed)?;
            while framed.len() < BATCH
                && let Ok(message) = messages.try_recv()
            {
                frame(&message, &mut framed)?;
            }
            writer.write_all(&framed).await?;
            writer.flush().await?;
            framed.clear();
        }
        // The server need not learn why.
        let _ended = writer.shutdown().await;
        Ok::<(), End>(())
    };
    tokio::select! {
        read = reading => read,
        written = writing => written,
    }
}

fn frame(message: &[u8], framed: &mut Vec<u8>) -> Result<(), End> {
    let length = u16::try_from(message.len()).map_err(End::broken)?;
    framed.extend_from_slice(&length.to_be_bytes());
    framed.extend_from_slice(message);
    Ok(())
}

//--- HTTPS and QUIC: a stream for each query

/// Queries have the id zero there (RFC 8484 §4.1, RFC 9250 §4.2.1); the number on the connection is put in its place.
fn take_number(message: &mut [u8]) -> u16 {
    let own = message.first_chunk_mut::<2>();
    own.map_or(0, |own| u16::from_be_bytes(std::mem::take(own)))
}

fn put_number(message: &mut [u8], number: u16) {
    if let Some(own) = message.first_chunk_mut() {
        *own = number.to_be_bytes();
    }
}

/// Reports the outcome of one query.
async fn report_outcome<E: From<Report>>(
    reporter: Reporter<E>,
    number: u16,
    asking: impl Future<Output = Result<Vec<u8>, Failure>>,
) {
    let outcome = timeout(REQUEST, asking).await;
    let progress = match outcome.unwrap_or(Err(Failure::Refused)) {
        Ok(mut message) => {
            put_number(&mut message, number);
            Progress::Received(message)
        }
        Err(failure) => Progress::Failed(number, failure),
    };
    reporter.report(progress).await;
}

async fn over_https<E: From<Report> + Send + 'static>(
    server: &Server,
    mut messages: mpsc::Receiver<Vec<u8>>,
    reporter: &Reporter<E>,
) -> Result<(), End> {
    let opened = async {
        let stream = TokioIo::new(connect_tls(server).await?);
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .initial_max_send_streams(FIRST_STREAMS);
        builder.handshake(stream).await.map_err(End::broken)
    };
    let (sender, connection) = opening(opened).await?;
    let mut connection = std::pin::pin!(connection);
    reporter.report(Progress::Opened).await;
    let url: Arc<str> = format!("https://{}{}", server.authority(), server.settings().path).into();
    let mut requests = JoinSet::new();
    loop {
        tokio::select! {
            ended = &mut connection => {
                // Requests that were cut off end with the connection.
                return Err(match ended {
                    Ok(()) => End::broken("the server has closed it"),
                    Err(error) => End::broken(error),
                });
            }
            message = messages.recv() => match message {
                None => return Ok(()),
                Some(mut message) => {
                    let number = take_number(&mut message);
                    let asking = request(sender.clone(), Arc::clone(&url), message);
                    requests.spawn(report_outcome(reporter.clone(), number, asking));
                }
            },
            Some(_) = requests.join_next(), if !requests.is_empty() => {}
        }
    }
}

async fn request(
    mut sender: SendRequest<Full<Bytes>>,
    url: Arc<str>,
    message: Vec<u8>,
) -> Result<Vec<u8>, Failure> {
    let request = Request::builder()
        .method(Method::POST)
        .uri(&*url)
        .header(CONTENT_TYPE, MEDIA_TYPE)
        .header(ACCEPT, MEDIA_TYPE)
        .body(Full::new(Bytes::from(message)))
        .map_err(|_| Failure::Refused)?;
    let cut_off = |_| Failure::CutOff;
    sender.ready().await.map_err(cut_off)?;
    let response = sender.send_request(request).await.map_err(cut_off)?;
    let media_type = response.headers().get(CONTENT_TYPE);
    let is_dns = media_type.is_some_and(|it| it.as_bytes().starts_with(MEDIA_TYPE.as_bytes()));
    if response.status() != StatusCode::OK || !is_dns {
        tracing::debug!(status = %response.status(), "The upstream answers a query with an HTTP error");
        return Err(Failure::Refused);
    }
    let body = Limited::new(response.into_body(), MAX_MESSAGE);
    let body = body.collect().await.map_err(|_| Failure::Refused)?;
    Ok(body.to_bytes().to_vec())
}

async fn over_quic<E: From<Report> + Send + 'static>(
    server: &Server,
    mut messages: mpsc::Receiver<Vec<u8>>,
    reporter: &Reporter<E>,
) -> Result<(), End> {
    let settings = server.settings();
    let own = settings.source.unwrap_or_else(|| match settings.address {
        SocketAddr::V4(_) => IpAddr::from([0; 4]),
        SocketAddr::V6(_) => IpAddr::from([0; 16]),
    });
    let endpoint = Endpoint::client(SocketAddr::new(own, 0))?;
    let tls = QuicClientConfig::try_from(Arc::clone(&server.tls)).map_err(End::broken)?;
    let config = ClientConfig::new(Arc::new(tls));
    let name = server.name.to_str();
    let opened = async {
        let connecting = endpoint.connect_with(config, settings.address, &name);
        let connecting = connecting.map_err(End::broken)?;
        connecting.await.map_err(|error| quic_end(&error))
    };
    let connection = opening(opened).await?;
    reporter.report(Progress::Opened).await;
    let mut queries = JoinSet::new();
    loop {
        tokio::select! {
            error = connection.closed() => return Err(quic_end(&error)),
            message = messages.recv() => match message {
                None => {
                    // DOQ_NO_ERROR (RFC 9250 §8.4).
                    connection.close(VarInt::from_u32(0), b"");
                    endpoint.wait_idle().await;
                    return Ok(());
                }
                Some(mut message) => {
                    let number = take_number(&mut message);
                    let asking = exchange(connection.clone(), message);
                    queries.spawn(report_outcome(reporter.clone(), number, asking));
                }
            },
            Some(_) = queries.join_next(), if !queries.is_empty() => {}
        }
    }
}

async fn exchange(connection: quinn::Connection, message: Vec<u8>) -> Result<Vec<u8>, Failure> {
    let (mut sending, mut receiving) = connection.open_bi().await.map_err(|_| Failure::CutOff)?;
    let mut framed = Vec::with_capacity(message.len() + 2);
    frame(&message, &mut framed).map_err(|_| Failure::Refused)?;
    sending
        .write_all(&framed)
        .await
        .map_err(|_| Failure::CutOff)?;
    sending.finish().map_err(|_| Failure::CutOff)?;
    let read = receiving.read_to_end(MAX_MESSAGE + 2).await;
    let read = read.map_err(|error| match error {
        quinn::ReadToEndError::Read(quinn::ReadError::ConnectionLost(_)) => Failure::CutOff,
        _ => Failure::Refused,
    })?;
    match read.split_first_chunk::<2>() {
        Some((length, message)) if usize::from(u16::from_be_bytes(*length)) == message.len() => {
            Ok(message.to_vec())
        }
        _ => Err(Failure::Refused),
    }
}

/// TLS alerts are among the codes of QUIC's errors (RFC 9001 §4.8): from `bad_certificate` to `decrypt_error`.
fn quic_end(error: &quinn::ConnectionError) -> End {
    let is_untrusted = match error {
        quinn::ConnectionError::TransportError(error) => {
            let code = u64::from(error.code);
            matches!(code.checked_sub(0x100), Some(42..=51))
        }
        _ => false,
    };
    End {
        loss: match is_untrusted {
            true => Loss::Untrusted,
            false => Loss::Broken,
        },
        reason: error.to_string(),
    }
}

/// The room for queries on their way to a connection: as many as it may owe responses.
pub(crate) const QUEUE: usize = PIPELINE + 1;
