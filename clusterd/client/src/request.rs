//! One request over one connection: HTTP/1.1, so that a dead connection takes one watch with it and no other.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cluster_objects::answer::Refusal;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, HOST, RETRY_AFTER, USER_AGENT,
};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::access::Access;
use crate::address::ApiAddress;

/// Reaching an address, and the handshake of TLS. The API server is on this node, or a switch away.
const CONNECT: Duration = Duration::from_secs(2);
/// A request of [`call`] and its whole answer, at one address. Two of them are shorter than the right of an elected clusterd.
const WHOLE: Duration = Duration::from_secs(4);
/// The longest body of a refusal that is read.
const MAX_REFUSAL: usize = 64 << 10;
/// The longest line of a watch: a slice of 1,000 endpoints has 273 KB.
const MAX_LINE: usize = 8 << 20;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// No connection, or no TLS over it.
    #[error("cannot connect to {address}")]
    Connect {
        /// The address.
        address: String,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The connection failed after it was made.
    #[error("the connection to {address} failed")]
    Lost {
        /// The address.
        address: String,
        /// The cause.
        #[source]
        source: hyper::Error,
    },
    /// The answer ended too early.
    #[error("{0} ended in the middle of a line")]
    Torn(String),
    /// The answer is longer than the caller takes.
    #[error("{address} sent more than {most} bytes")]
    TooLong {
        /// The address.
        address: String,
        /// The bound.
        most: usize,
    },
    /// The server says no.
    #[error("{0}")]
    Refused(Refusal),
    /// A path or a header that HTTP does not have.
    #[error("the request cannot be written")]
    Request(#[from] hyper::http::Error),
    /// An answer whose content is not as it should be, in the words of the caller.
    #[error("{0}")]
    Unreadable(String),
}

/// An answer that has begun.
#[derive(Debug)]
pub struct Answer {
    body: Incoming,
    buffer: Vec<u8>,
    address: String,
    _connection: Connection,
}

/// The task of a connection, which ends with the answer.
#[derive(Debug)]
struct Connection(JoinHandle<()>);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A request.
#[derive(Debug, Clone)]
pub struct Call {
    /// The method.
    pub method: Method,
    /// The path, with its query.
    pub path: String,
    /// The body and its media type.
    pub body: Option<(&'static str, Bytes)>,
}

impl Call {
    /// A GET request.
    #[must_use]
    pub fn get(path: &str) -> Self {
        Self {
            method: Method::GET,
            path: path.to_owned(),
            body: None,
        }
    }
}

/// A value of a query (RFC 3986 §2.3).
#[must_use]
pub fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            true => escaped.push(char::from(byte)),
            false => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

/// Sends a GET request, and returns the whole body.
///
/// # Errors
/// When there is no answer, when the server refuses, or when the answer is torn or too long.
pub async fn get(
    access: &Access,
    address: &ApiAddress,
    path: &str,
    most: usize,
) -> Result<Vec<u8>, ApiError> {
    open(access, address, path).await?.whole(most).await
}

/// Sends a GET request, and returns when its answer begins.
///
/// # Errors
/// When there is no answer, when the server refuses, or when the answer is torn or too long.
pub async fn open(access: &Access, address: &ApiAddress, path: &str) -> Result<Answer, ApiError> {
    send(access, address, &Call::get(path)).await
}

/// Sends a request, and returns when its answer begins.
async fn send(access: &Access, address: &ApiAddress, call: &Call) -> Result<Answer, ApiError> {
    let failed = |source| ApiError::Connect {
        address: address.to_string(),
        source,
    };
    let place = (address.host.as_str(), address.port);
    let stream = within(TcpStream::connect(place)).await.map_err(failed)?;
    stream.set_nodelay(true).map_err(failed)?;
    match address.is_tls {
        false => exchange(access, address, call, stream).await,
        true => {
            let name = match &access.server_name {
                Some(name) => name.clone(),
                None => ServerName::try_from(address.host.clone())
                    .map_err(|error| failed(io::Error::other(error)))?,
            };
            let connector = TlsConnector::from(Arc::clone(&access.tls));
            let stream = within(connector.connect(name, stream))
                .await
                .map_err(failed)?;
            exchange(access, address, call, stream).await
        }
    }
}

/// Sends a request to the first address that answers, and returns the whole body.
///
/// # Errors
/// When there is no answer, when the server refuses, or when the answer is torn or too long.
pub async fn call(access: &Access, call: &Call, most: usize) -> Result<Vec<u8>, ApiError> {
    let mut failed = None;
    for address in &access.addresses {
        let answer = async { send(access, address, call).await?.whole(most).await };
        match timeout(WHOLE, answer).await {
            Ok(Ok(body)) => return Ok(body),
            Ok(Err(error @ (ApiError::Refused(_) | ApiError::Request(_)))) => return Err(error),
            Ok(Err(error)) => failed = Some(error),
            Err(_) => {
                failed = Some(ApiError::Connect {
                    address: address.to_string(),
                    source: io::ErrorKind::TimedOut.into(),
                });
            }
        }
    }
    Err(failed.unwrap_or_else(|| ApiError::Connect {
        address: "no address".to_owned(),
        source: io::ErrorKind::NotFound.into(),
    }))
}

async fn within<T>(connecting: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    match timeout(CONNECT, connecting).await {
        Ok(connected) => connected,
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

async fn exchange<S>(
    access: &Access,
    address: &ApiAddress,
    call: &Call,
    stream: S,
) -> Result<Answer, ApiError>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let lost = |source| ApiError::Lost {
        address: address.to_string(),
        source,
    };
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(lost)?;
    // Failures show in the request or in the body.
    let connection = Connection(tokio::spawn(async move { drop(connection.await) }));
    let mut request = Request::builder()
        .method(call.method.clone())
        .uri(&call.path)
        .header(HOST, address.authority())
        .header(USER_AGENT, access.agent)
        .header(ACCEPT, "application/json")
        // Some servers compress each event of a watch for itself.
        .header(ACCEPT_ENCODING, "identity");
    if let Some(authorization) = &access.authorization {
        request = request.header(AUTHORIZATION, authorization);
    }
    let body = call.body.clone();
    if let Some((kind, _)) = &body {
        request = request.header(CONTENT_TYPE, *kind);
    }
    let body = body.map(|(_, octets)| octets).unwrap_or_default();
    let request = request.body(Full::new(body))?;
    let response = sender.send_request(request).await.map_err(lost)?;
    let (status, wait) = (response.status(), retry_after(&response));
    let answer = Answer {
        body: response.into_body(),
        buffer: Vec::new(),
        address: address.to_string(),
        _connection: connection,
    };
    if status.is_success() {
        return Ok(answer);
    }
    let body = answer.whole(MAX_REFUSAL).await.unwrap_or_default();
    let mut refusal = Refusal::read(status.as_u16(), &body);
    refusal.retry_after = wait.or(refusal.retry_after);
    Err(ApiError::Refused(refusal))
}

/// The seconds of `Retry-After`; a date there is not read.
fn retry_after<B>(response: &Response<B>) -> Option<Duration> {
    let value = response.headers().get(RETRY_AFTER)?.to_str().ok()?;
    value.trim().parse().ok().map(Duration::from_secs)
}

impl Answer {
    /// The whole body.
    ///
    /// # Errors
    /// When there is no answer, when the server refuses, or when the answer is torn or too long.
    pub async fn whole(mut self, most: usize) -> Result<Vec<u8>, ApiError> {
        while self.read_more(most).await? {}
        Ok(self.buffer)
    }

    /// The next line; none when the answer has ended as it should. Cancel safe.
    ///
    /// # Errors
    /// When there is no answer, when the server refuses, or when the answer is torn or too long.
    pub async fn line(&mut self) -> Result<Option<Vec<u8>>, ApiError> {
        let mut searched = 0;
        loop {
            let rest = self.buffer.get(searched..).unwrap_or_default();
            if let Some(place) = rest.iter().position(|byte| *byte == b'\n') {
                let after = self.buffer.split_off(searched + place + 1);
                let line = std::mem::replace(&mut self.buffer, after);
                if line.iter().all(u8::is_ascii_whitespace) {
                    searched = 0;
                    continue;
                }
                return Ok(Some(line));
            }
            searched = self.buffer.len();
            if !self.read_more(MAX_LINE).await? {
                return match self.buffer.is_empty() {
                    true => Ok(None),
                    false => Err(ApiError::Torn(self.address.clone())),
                };
            }
        }
    }

    /// Reads what comes next into the buffer; false at the end.
    async fn read_more(&mut self, most: usize) -> Result<bool, ApiError> {
        let Some(frame) = self.body.frame().await else {
            return Ok(false);
        };
        let frame = frame.map_err(|source| ApiError::Lost {
            address: self.address.clone(),
            source,
        })?;
        if let Ok(data) = frame.into_data() {
            if self.buffer.len() + data.len() > most {
                return Err(ApiError::TooLong {
                    address: self.address.clone(),
                    most,
                });
            }
            self.buffer.extend_from_slice(&data);
        }
        Ok(true)
    }
}
