//! Connections to other registries: HTTP/1.1 over TCP or TLS, kept for the next request.
//!
//! HTTP/1.1 on purpose: several blobs at once are several connections then, and so several cores of TLS.
//! A connection goes back when the whole of an answer has been read, and is closed otherwise.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{HOST, HeaderValue, USER_AGENT};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use parking_lot::{Mutex, MutexGuard};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_stream::Stream;

use crate::endpoint::{Endpoint, Scheme};

/// Reaching one address. In a site, what does not answer in this time is not there.
const CONNECT: Duration = Duration::from_secs(5);
/// Until an answer begins. A registry that verifies a blob of some gigabytes first takes its time.
const ANSWER: Duration = Duration::from_secs(120);
/// Between two pieces of an answer.
const PIECE: Duration = Duration::from_secs(60);
/// Connections kept for one registry: as many as copy at once, and some.
const MAX_IDLE: usize = 8;
/// Registries that connections are kept for.
const MAX_ENDPOINTS: usize = 64;
/// Addresses tried of one name.
const MAX_ADDRESSES: usize = 8;

/// The files in which systems keep the authorities they trust: Debian, Red Hat, SUSE.
const SYSTEM_BUNDLES: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
];

/// Connections to any number of registries. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Pool {
    tls: Arc<ClientConfig>,
    idle: Arc<Idle>,
}

#[derive(Debug, Default)]
struct Idle {
    by_endpoint: Mutex<BTreeMap<Endpoint, Vec<SendRequest<Sent>>>>,
}

/// Why authorities cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// A file cannot be read or has no certificate.
    #[error("cannot read the certificates of authorities in {path}", path = .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// How that failed.
        #[source]
        source: rustls::pki_types::pem::Error,
    },
    /// A certificate is none.
    #[error("a certificate in {path} is damaged", path = .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: rustls::Error,
    },
    /// The library refuses.
    #[error("TLS cannot be set up")]
    Tls(#[from] rustls::Error),
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// No connection.
    #[error("cannot connect to {endpoint}")]
    Connect {
        /// To what.
        endpoint: Box<Endpoint>,
        /// How that failed.
        #[source]
        source: io::Error,
    },
    /// The connection failed.
    #[error("the connection to {endpoint} failed")]
    Lost {
        /// To what.
        endpoint: Box<Endpoint>,
        /// How.
        #[source]
        source: hyper::Error,
    },
    /// No answer in time.
    #[error("{0} does not answer")]
    Silent(Box<Endpoint>),
}

impl Pool {
    /// Connections that trust the authorities in a file, or those that the system trusts.
    ///
    /// # Errors
    ///
    /// When the file cannot be read. A system without trusted authorities is no error: plain HTTP
    /// needs none.
    pub fn new(authorities: Option<&Path>) -> Result<Self, TrustError> {
        let mut roots = RootCertStore::empty();
        match authorities {
            Some(path) => add_roots(&mut roots, path)?,
            None => {
                if let Some(path) = system_bundle() {
                    // One odd certificate among hundreds is the system's business.
                    let read = CertificateDer::pem_file_iter(&path);
                    let certificates = read.into_iter().flatten().flatten();
                    roots.add_parsable_certificates(certificates);
                }
            }
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self {
            tls: Arc::new(tls),
            idle: Arc::default(),
        })
    }

    /// Sends a request, and returns when the answer begins.
    ///
    /// # Errors
    ///
    /// When there is no connection, or it fails first.
    pub async fn send(
        &self,
        endpoint: &Endpoint,
        mut request: Request<Sent>,
    ) -> Result<Response<Received>, ConnectionError> {
        let headers = request.headers_mut();
        if let Ok(host) = HeaderValue::try_from(endpoint.authority()) {
            headers.insert(HOST, host);
        }
        headers
            .entry(USER_AGENT)
            .or_insert(HeaderValue::from_static(AGENT));
        // One that was kept may have been closed at the other end; then the request comes back.
        while let Some(mut kept) = self.idle.take(endpoint) {
            if kept.ready().await.is_err() {
                continue;
            }
            let taken = request.body().taken();
            match answer(endpoint, &taken, kept.try_send_request(request)).await? {
                Ok(response) => return Ok(self.received(endpoint, response, kept)),
                Err((_, Some(unsent))) => request = unsent,
                Err((source, None)) => return Err(lost(endpoint, source)),
            }
        }
        let mut fresh = self.connect(endpoint).await?;
        let taken = request.body().taken();
        match answer(endpoint, &taken, fresh.try_send_request(request)).await? {
            Ok(response) => Ok(self.received(endpoint, response, fresh)),
            Err((source, _)) => Err(lost(endpoint, source)),
        }
    }

    fn received(
        &self,
        endpoint: &Endpoint,
        response: Response<Incoming>,
        sender: SendRequest<Sent>,
    ) -> Response<Received> {
        let back = Back {
            endpoint: endpoint.clone(),
            idle: Arc::clone(&self.idle),
            sender,
        };
        response.map(|body| Received {
            body,
            back: Some(back),
            patience: Box::pin(sleep(PIECE)),
        })
    }

    async fn connect(&self, endpoint: &Endpoint) -> Result<SendRequest<Sent>, ConnectionError> {
        let failed = |source| ConnectionError::Connect {
            endpoint: Box::new(endpoint.clone()),
            source,
        };
        let stream = reach(endpoint).await.map_err(failed)?;
        let handshaken = match endpoint.scheme {
            Scheme::Http => handshake(stream).await,
            Scheme::Https => {
                let name = ServerName::try_from(endpoint.host.clone())
                    .map_err(|error| failed(io::Error::other(error)))?;
                let connector = TlsConnector::from(Arc::clone(&self.tls));
                let connected = timeout(CONNECT, connector.connect(name, stream)).await;
                let stream = connected.map_err(|_| failed(io::ErrorKind::TimedOut.into()))?;
                handshake(stream.map_err(failed)?).await
            }
        };
        handshaken.map_err(|source| lost(endpoint, source))
    }
}

const AGENT: &str = concat!("registry-svc/", env!("CARGO_PKG_VERSION"));

fn lost(endpoint: &Endpoint, source: hyper::Error) -> ConnectionError {
    ConnectionError::Lost {
        endpoint: Box::new(endpoint.clone()),
        source,
    }
}

type Unsent = (hyper::Error, Option<Request<Sent>>);

/// Waits for an answer, or for the request to come back unsent. The time counts from when the last of
/// the request's body was taken.
async fn answer(
    endpoint: &Endpoint,
    taken: &AtomicU64,
    sent: impl Future<Output = Result<Response<Incoming>, TrySendError<Request<Sent>>>>,
) -> Result<Result<Response<Incoming>, Unsent>, ConnectionError> {
    let mut sent = pin!(sent);
    let mut before = 0;
    loop {
        match timeout(ANSWER, sent.as_mut()).await {
            Ok(Ok(response)) => return Ok(Ok(response)),
            Ok(Err(mut error)) => {
                let unsent = error.take_message();
                return Ok(Err((error.into_error(), unsent)));
            }
            Err(_) => {
                let so_far = taken.load(Ordering::Relaxed);
                if so_far == before {
                    return Err(ConnectionError::Silent(Box::new(endpoint.clone())));
                }
                before = so_far;
            }
        }
    }
}

/// Tries the addresses of a name one after the other.
async fn reach(endpoint: &Endpoint) -> io::Result<TcpStream> {
    let name = (endpoint.host.as_str(), endpoint.port);
    let found = timeout(CONNECT, tokio::net::lookup_host(name)).await;
    let found = found.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    let addresses: Vec<SocketAddr> = found.take(MAX_ADDRESSES).collect();
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in addresses {
        match timeout(CONNECT, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Ok(Err(error)) => last = error,
            Err(_) => last = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(last)
}

async fn handshake<S>(stream: S) -> hyper::Result<SendRequest<Sent>>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin + 'static,
{
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // Failures show in the request or in the response's body.
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}

fn add_roots(roots: &mut RootCertStore, path: &Path) -> Result<(), TrustError> {
    let unreadable = |source| TrustError::Read {
        path: path.to_owned(),
        source,
    };
    let mut certificates = CertificateDer::pem_file_iter(path)
        .map_err(unreadable)?
        .peekable();
    if certificates.peek().is_none() {
        return Err(unreadable(rustls::pki_types::pem::Error::NoItemsFound));
    }
    for certificate in certificates {
        let certificate = certificate.map_err(unreadable)?;
        roots
            .add(certificate)
            .map_err(|source| TrustError::Damaged {
                path: path.to_owned(),
                source,
            })?;
    }
    Ok(())
}

fn system_bundle() -> Option<PathBuf> {
    let given = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    let mut places = given
        .into_iter()
        .chain(SYSTEM_BUNDLES.into_iter().map(PathBuf::from));
    places.find(|path| path.is_file())
}

impl Idle {
    fn take(&self, endpoint: &Endpoint) -> Option<SendRequest<Sent>> {
        let mut by_endpoint = self.lock();
        let kept = by_endpoint.get_mut(endpoint)?;
        while let Some(sender) = kept.pop() {
            if !sender.is_closed() {
                return Some(sender);
            }
        }
        None
    }

    fn keep(&self, endpoint: Endpoint, sender: SendRequest<Sent>) {
        if sender.is_closed() {
            return;
        }
        let mut by_endpoint = self.lock();
        if by_endpoint.len() >= MAX_ENDPOINTS && !by_endpoint.contains_key(&endpoint) {
            by_endpoint.clear();
        }
        let kept = by_endpoint.entry(endpoint).or_default();
        kept.retain(|sender| !sender.is_closed());
        if kept.len() < MAX_IDLE {
            kept.push(sender);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Endpoint, Vec<SendRequest<Sent>>>> {
        self.by_endpoint.lock()
    }
}

//--- Bodies

/// Bytes from anywhere.
pub type ByteStream = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>;

/// The body of a request: nothing, bytes, or a stream of a known length.
pub struct Sent {
    from: From,
    left: u64,
    taken: Arc<AtomicU64>,
}

enum From {
    Bytes(Bytes),
    Stream(ByteStream),
}

impl Sent {
    /// Nothing.
    #[must_use]
    pub fn nothing() -> Self {
        Self::bytes(Bytes::new())
    }

    /// Bytes at hand.
    #[must_use]
    pub fn bytes(bytes: Bytes) -> Self {
        Self {
            left: u64::try_from(bytes.len()).unwrap_or(u64::MAX),
            from: From::Bytes(bytes),
            taken: Arc::default(),
        }
    }

    /// A stream of exactly `length` bytes.
    #[must_use]
    pub fn stream(length: u64, stream: ByteStream) -> Self {
        Self {
            left: length,
            from: From::Stream(stream),
            taken: Arc::default(),
        }
    }

    /// How many octets have been sent, and will be while the request is under way.
    fn taken(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.taken)
    }
}

impl std::fmt::Debug for Sent {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("Sent")
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}

impl Body for Sent {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let piece = match &mut self.from {
            From::Bytes(bytes) => Some(Ok(std::mem::take(bytes))),
            From::Stream(stream) => match stream.as_mut().poll_next(context) {
                Poll::Ready(piece) => piece,
                Poll::Pending => return Poll::Pending,
            },
        };
        let piece = match piece {
            Some(Ok(piece)) => piece,
            Some(Err(error)) => return Poll::Ready(Some(Err(error))),
            // The length has been told: a body that ends early must not look whole.
            None => return Poll::Ready(Some(Err(io::ErrorKind::UnexpectedEof.into()))),
        };
        let length = u64::try_from(piece.len()).unwrap_or(u64::MAX);
        match self.left.checked_sub(length) {
            Some(left) => {
                self.left = left;
                self.taken.fetch_add(length, Ordering::Relaxed);
                Poll::Ready(Some(Ok(Frame::data(piece))))
            }
            None => Poll::Ready(Some(Err(io::Error::other("longer than announced")))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

/// The body of an answer. Its connection is kept when it has been read to its end.
#[derive(Debug)]
pub struct Received {
    body: Incoming,
    back: Option<Back>,
    patience: Pin<Box<Sleep>>,
}

#[derive(Debug)]
struct Back {
    endpoint: Endpoint,
    idle: Arc<Idle>,
    sender: SendRequest<Sent>,
}

impl Received {
    /// The whole body, if it has at most `limit` bytes; none if it has more.
    ///
    /// # Errors
    ///
    /// When the connection fails first.
    pub async fn whole(mut self, limit: usize) -> io::Result<Option<Bytes>> {
        let mut octets = Vec::new();
        while let Some(piece) = std::future::poll_fn(|context| self.poll_piece(context)).await {
            let piece = piece?;
            if octets.len() + piece.len() > limit {
                return Ok(None);
            }
            octets.extend_from_slice(&piece);
        }
        Ok(Some(octets.into()))
    }

    /// The length that the answer's head says.
    #[must_use]
    pub fn length(&self) -> Option<u64> {
        self.body.size_hint().exact()
    }

    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        loop {
            match Pin::new(&mut self.body).poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => {
                    self.patience
                        .as_mut()
                        .reset(tokio::time::Instant::now() + PIECE);
                    // Trailers say nothing that is wanted.
                    if let Ok(piece) = frame.into_data() {
                        return Poll::Ready(Some(Ok(piece)));
                    }
                }
                Poll::Ready(Some(Err(error))) => {
                    self.back = None;
                    return Poll::Ready(Some(Err(io::Error::other(error))));
                }
                Poll::Ready(None) => {
                    if let Some(back) = self.back.take() {
                        back.idle.keep(back.endpoint, back.sender);
                    }
                    return Poll::Ready(None);
                }
                Poll::Pending => {
                    return match self.patience.as_mut().poll(context) {
                        Poll::Ready(()) => {
                            self.back = None;
                            Poll::Ready(Some(Err(io::ErrorKind::TimedOut.into())))
                        }
                        Poll::Pending => Poll::Pending,
                    };
                }
            }
        }
    }
}

impl Stream for Received {
    type Item = io::Result<Bytes>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Bytes>>> {
        self.poll_piece(context)
    }
}
