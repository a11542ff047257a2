//! Asks a running daemon: behind `status` and the verbs that change something.

use std::net::SocketAddr;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::Method;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, HOST, HeaderValue};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// The whole exchange takes no longer than this.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Larger answers are refused; a dump of a large cache is well below.
const MAX_BODY: usize = 1 << 30;

/// What a daemon answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The HTTP status.
    pub status: u16,
    /// The body.
    pub body: Vec<u8>,
}

impl Response {
    /// The body as text; what is not UTF-8 is replaced.
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
        /// Where it was looked for.
        address: SocketAddr,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The exchange failed.
    #[error("the daemon at {address} did not answer as expected")]
    Exchange {
        /// Where it was asked.
        address: SocketAddr,
        /// What went wrong.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// It took too long.
    #[error("the daemon at {address} gave no answer within {} s", TIMEOUT.as_secs())]
    TimedOut {
        /// Where it was asked.
        address: SocketAddr,
    },
}

/// Asks for `path`, which may carry a query.
///
/// # Errors
///
/// When nothing answers there, or not in HTTP, or not in time.
pub async fn get(address: SocketAddr, path: &str) -> Result<Response, ClientError> {
    exchange(address, Method::GET, path, Vec::new()).await
}

/// Asks `path` to change something.
///
/// # Errors
///
/// When nothing answers there, or not in HTTP, or not in time.
pub async fn post(
    address: SocketAddr,
    path: &str,
    body: impl Into<Vec<u8>>,
) -> Result<Response, ClientError> {
    exchange(address, Method::POST, path, body.into()).await
}

async fn exchange(
    address: SocketAddr,
    method: Method,
    path: &str,
    body: Vec<u8>,
) -> Result<Response, ClientError> {
    tokio::time::timeout(TIMEOUT, talk(address, method, path, body))
        .await
        .map_err(|_| ClientError::TimedOut { address })?
}

async fn talk(
    address: SocketAddr,
    method: Method,
    path: &str,
    body: Vec<u8>,
) -> Result<Response, ClientError> {
    let failed = |source| ClientError::Exchange { address, source };
    let stream = TcpStream::connect(address)
        .await
        .map_err(|source| ClientError::NotRunning { address, source })?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| failed(error.into()))?;
    let host = HeaderValue::from_str(&address.to_string()).map_err(|error| failed(error.into()))?;
    let request = hyper::Request::builder()
        .method(method)
        .uri(path)
        .header(HOST, host)
        .header(CONNECTION, "close")
        .body(Full::new(Bytes::from(body)))
        .map_err(|error| failed(error.into()))?;
    let ask = async {
        let response = sender
            .send_request(request)
            .await
            .map_err(|error| failed(error.into()))?;
        let status = response.status().as_u16();
        let body = Limited::new(response.into_body(), MAX_BODY)
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
