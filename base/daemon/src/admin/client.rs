//! Asks a running daemon: behind `status` and the verbs that change something.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::Method;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, HOST};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use crate::exit;

/// The whole exchange takes no longer than this.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Larger answers are refused; a dump of a large cache is well below.
const MAX_BODY: usize = 1 << 30;

/// The response of a daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The HTTP status.
    pub status: u16,
    /// The body.
    pub body: Vec<u8>,
}

impl Response {
    /// The body as text; bytes that are not UTF-8 are replaced.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// True for statuses that mean success.
    #[must_use]
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

/// Why a daemon could not be asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// Nothing listens there.
    #[error("no daemon answers at {address}")]
    NotRunning {
        /// The admin address.
        address: Place,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
    /// The user of this process may not connect to the socket.
    #[error("this user may not connect to {address}: be root or in the socket's group")]
    NotAllowed {
        /// The socket.
        address: Place,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
    /// The exchange failed.
    #[error("the daemon at {address} did not answer as expected")]
    Exchange {
        /// The admin address.
        address: Place,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// It took too long.
    #[error("the daemon at {address} gave no answer within {} s", limit.as_secs())]
    TimedOut {
        /// The admin address.
        address: Place,
        /// The time that it had.
        limit: Duration,
    },
}

impl ClientError {
    /// The exit code for this error: 77 when the system refused, 69 otherwise.
    #[must_use]
    pub const fn code(&self) -> u8 {
        match self {
            Self::NotAllowed { .. } => exit::NO_PERMISSION,
            Self::NotRunning { .. } | Self::Exchange { .. } | Self::TimedOut { .. } => {
                exit::UNAVAILABLE
            }
        }
    }
}

/// The admin address of a daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Its admin address.
    Address(SocketAddr),
    /// The socket of one process (`--admin-socket`).
    Socket(PathBuf),
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(formatter),
            Self::Socket(path) => path.display().fmt(formatter),
        }
    }
}

impl From<SocketAddr> for Place {
    fn from(address: SocketAddr) -> Self {
        Self::Address(address)
    }
}

impl From<&Path> for Place {
    fn from(path: &Path) -> Self {
        Self::Socket(path.to_owned())
    }
}

/// Asks for `path`, which may carry a query.
///
/// # Errors
///
/// When nothing answers there, or not in HTTP, or not in time.
pub async fn get(address: impl Into<Place>, path: &str) -> Result<Response, ClientError> {
    exchange(
        address.into(),
        Method::GET,
        path,
        Vec::new(),
        TIMEOUT,
        MAX_BODY,
    )
    .await
}

/// As [`get`], for an answer of at most `most` bytes that comes within `limit`.
///
/// # Errors
///
/// When nothing answers there, or not in HTTP, or not in time, or with more.
pub async fn get_within(
    address: impl Into<Place>,
    path: &str,
    limit: Duration,
    most: usize,
) -> Result<Response, ClientError> {
    exchange(address.into(), Method::GET, path, Vec::new(), limit, most).await
}

/// Asks `path` to change something.
///
/// # Errors
///
/// When nothing answers there, or not in HTTP, or not in time.
pub async fn post(
    address: impl Into<Place>,
    path: &str,
    body: impl Into<Vec<u8>>,
) -> Result<Response, ClientError> {
    let body = body.into();
    exchange(address.into(), Method::POST, path, body, TIMEOUT, MAX_BODY).await
}

/// Finds the place at which the daemon at `address` takes changes: the socket that its status names, or the
/// address itself where it names none.
///
/// # Errors
///
/// When nothing answers there, or not with a status, or not in time.
pub async fn control(address: SocketAddr) -> Result<Place, ClientError> {
    #[derive(Deserialize)]
    struct Named {
        #[serde(default)]
        admin_socket: Option<PathBuf>,
    }
    let answer = get(address, "/status").await?;
    let named: Named =
        serde_json::from_slice(&answer.body).map_err(|error| ClientError::Exchange {
            address: address.into(),
            source: error.into(),
        })?;
    Ok(named
        .admin_socket
        .map_or(Place::Address(address), Place::Socket))
}

async fn exchange(
    place: Place,
    method: Method,
    path: &str,
    body: Vec<u8>,
    limit: Duration,
    most: usize,
) -> Result<Response, ClientError> {
    let talk = async {
        let not_running = |source: std::io::Error| {
            let address = place.clone();
            match source.kind() {
                std::io::ErrorKind::PermissionDenied => ClientError::NotAllowed { address, source },
                _ => ClientError::NotRunning { address, source },
            }
        };
        match &place {
            Place::Address(address) => {
                let stream = TcpStream::connect(address).await.map_err(not_running)?;
                let request = request(&address.to_string(), method, path, body);
                talk(stream, &place, request, most).await
            }
            Place::Socket(socket) => {
                let stream = UnixStream::connect(socket).await.map_err(not_running)?;
                let request = request("localhost", method, path, body);
                talk(stream, &place, request, most).await
            }
        }
    };
    let talked = tokio::time::timeout(limit, talk).await;
    talked.map_err(|_| ClientError::TimedOut {
        address: place.clone(),
        limit,
    })?
}

fn request(
    host: &str,
    method: Method,
    path: &str,
    body: Vec<u8>,
) -> hyper::http::Result<hyper::Request<Full<Bytes>>> {
    hyper::Request::builder()
        .method(method)
        .uri(path)
        .header(HOST, host)
        .header(CONNECTION, "close")
        .body(Full::new(Bytes::from(body)))
}

async fn talk(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    place: &Place,
    request: hyper::http::Result<hyper::Request<Full<Bytes>>>,
    most: usize,
) -> Result<Response, ClientError> {
    let failed = |source| ClientError::Exchange {
        address: place.clone(),
        source,
    };
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| failed(error.into()))?;
    let request = request.map_err(|error| failed(error.into()))?;
    let ask = async {
        let response = sender
            .send_request(request)
            .await
            .map_err(|error| failed(error.into()))?;
        let status = response.status().as_u16();
        let body = Limited::new(response.into_body(), most)
            .collect()
            .await
            .map_err(failed)?;
        Ok(Response {
            status,
            body: body.to_bytes().to_vec(),
        })
    };
    // The connection moves the bytes; it ends by itself once the answer is read.
    tokio::pin!(ask);
    tokio::select! {
        answer = &mut ask => answer,
        ended = connection => match ended {
            Ok(()) => ask.await,
            Err(error) => Err(failed(error.into())),
        },
    }
}
