//! DNS over HTTPS (RFC 8484), by HTTP/2 and HTTP/1.1: a connection is handed over once it has its place
//! among those of TCP, and hyper carries it.
//!
//! Decides no answer: [`Service`] does, and `exchange` maps it to HTTP.

mod exchange;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use daemon::connections::{Answer, Answering, Placed};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::http::request::Parts;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use self::exchange::{Place, Refusal};
use crate::service::{Client, Limits, MAX_QUERY, Service, Transport, ask};

/// The protocols offered in TLS, the preferred first (RFC 8484 §5.2).
pub const PROTOCOLS: [&[u8]; 2] = [H2, b"http/1.1"];

const H2: &[u8] = b"h2";

/// The longest head of a request: the longest query in a target, and whatever browsers add.
const MAX_HEAD: u16 = 16 << 10;

/// The window of a stream, and of a connection: some queries of the longest size.
const WINDOW: u32 = 64 << 10;

/// How much of a refused request is read before it is answered: a client that is answered while it still sends
/// may take the end of the stream (RFC 9113 §8.1), or a reset of the connection, for the answer.
const DISCARDED: usize = 64 << 10;

/// The time for a connection to end after it was asked to, unless a query is held for longer; also the
/// time to read the rest of a refused request.
const CLOSING: Duration = Duration::from_secs(2);

/// The settings of the HTTPS listener.
#[derive(Clone)]
pub struct Site {
    /// Makes the handshake, with [`PROTOCOLS`].
    pub tls: TlsAcceptor,
    /// The path at which queries are answered.
    pub path: Arc<str>,
}

impl std::fmt::Debug for Site {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Site")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

/// A connection as its requests see it.
struct Caller<S> {
    service: Arc<S>,
    path: Arc<str>,
    peer: SocketAddr,
    /// Requests that have come, and those that were answered or given up.
    begun: AtomicU64,
    ended: AtomicU64,
}

/// Serves a connection until it ends, is idle for too long, or `stop` is set.
pub(crate) async fn serve<S: Service>(
    stream: TlsStream<Placed<TcpStream>>,
    peer: SocketAddr,
    path: Arc<str>,
    service: Arc<S>,
    stop: watch::Receiver<bool>,
) {
    let limits = *service.limits();
    let place = stream.get_ref().0.place().clone();
    let is_h2 = stream.get_ref().1.alpn_protocol() == Some(H2);
    let caller = Arc::new(Caller {
        service,
        path,
        peer,
        begun: AtomicU64::new(0),
        ended: AtomicU64::new(0),
    });
    let requests = {
        let caller = Arc::clone(&caller);
        service_fn(move |request| {
            let (caller, answer) = (Arc::clone(&caller), place.answer());
            async move {
                let response = caller.handle(request, &answer).await;
                Ok::<_, Infallible>(response.map(|body| Answering::new(body, answer)))
            }
        })
    };
    let stream = TokioIo::new(stream);
    let served = if is_h2 {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW)
            .max_concurrent_streams(u32::try_from(limits.pipeline).unwrap_or(u32::MAX))
            .max_header_list_size(MAX_HEAD.into());
        let connection = pin!(builder.serve_connection(stream, requests));
        let end = http2::Connection::graceful_shutdown;
        caller.watch_over(connection, &limits, stop, end).await
    } else {
        let mut builder = http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(limits.idle)
            .max_header_size(MAX_HEAD.into());
        let connection = pin!(builder.serve_connection(stream, requests));
        let end = http1::Connection::graceful_shutdown;
        caller.watch_over(connection, &limits, stop, end).await
    };
    match served {
        Some(Ok(())) => {}
        Some(Err(error)) => tracing::debug!(%peer, %error, "Connection ended early"),
        None => tracing::debug!(%peer, "Connection does not end, and is closed"),
    }
}

impl<S: Service> Caller<S> {
    /// Drives a connection; asks it to end when it has been idle, or is to stop. `None` when it does not.
    async fn watch_over<C: Future>(
        &self,
        mut connection: Pin<&mut C>,
        limits: &Limits,
        mut stop: watch::Receiver<bool>,
        end: impl Fn(Pin<&mut C>),
    ) -> Option<C::Output> {
        let mut begun = 0;
        loop {
            tokio::select! {
                output = connection.as_mut() => return Some(output),
                // An error means that the service is gone.
                () = async { drop(stop.wait_for(|stop| *stop).await) } => {
                    // Queries that are on their way are still answered.
                    if let Ok(output) = timeout(limits.last, connection.as_mut()).await {
                        return Some(output);
                    }
                    break;
                }
                () = tokio::time::sleep(limits.idle) => {
                    let before = std::mem::replace(&mut begun, self.begun.load(Ordering::Relaxed));
                    if begun == before && begun == self.ended.load(Ordering::Relaxed) {
                        break;
                    }
                }
            }
        }
        end(connection.as_mut());
        let closing = CLOSING.max(limits.answer);
        timeout(closing, connection).await.ok()
    }

    async fn handle(&self, request: Request<Incoming>, place: &Answer) -> Response<Full<Bytes>> {
        let _under_way = InFlight::new(&self.begun, &self.ended);
        let (head, mut body) = request.into_parts();
        match self.answer(&head, &mut body, place).await {
            Ok(octets) => message(octets),
            Err(reason) => {
                discard(body).await;
                refusal(reason)
            }
        }
    }

    async fn answer(
        &self,
        head: &Parts,
        body: &mut Incoming,
        place: &Answer,
    ) -> Result<Vec<u8>, Refusal> {
        let asked = (&head.method, &head.uri, &head.headers);
        let query = match exchange::place(asked, &self.path, MAX_QUERY)? {
            Place::Target(query) => query.into(),
            Place::Body => {
                let body = Limited::new(body, MAX_QUERY).collect();
                match place
                    .reading(timeout(self.service.limits().idle, body))
                    .await
                {
                    Ok(Ok(body)) => body.to_bytes(),
                    Ok(Err(error)) if error.is::<LengthLimitError>() => return Err(Refusal::LONG),
                    Ok(Err(_)) => return Err(Refusal::BROKEN),
                    Err(_) => return Err(Refusal::SLOW),
                }
            }
        };
        let client = Client {
            peer: self.peer,
            local: None,
            transport: Transport::Https,
        };
        let answer = ask(&self.service, &query, &client);
        answer.await.ok_or(Refusal::NO_QUERY)
    }
}

/// Reads the rest of a refused request, within [`DISCARDED`] and [`CLOSING`].
async fn discard(mut body: Incoming) {
    let mut left = DISCARDED;
    let read = async {
        while let Some(Ok(frame)) = body.frame().await {
            left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
            if left == 0 {
                break;
            }
        }
    };
    // A client that sends more, or slower, may not see the reason of the refusal.
    drop(timeout(CLOSING, read).await);
}

/// Counts a request, and counts it out when it is answered or given up.
struct InFlight<'a>(&'a AtomicU64);

impl<'a> InFlight<'a> {
    fn new(begun: &AtomicU64, ended: &'a AtomicU64) -> Self {
        begun.fetch_add(1, Ordering::Relaxed);
        Self(ended)
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn message(octets: Vec<u8>) -> Response<Full<Bytes>> {
    let age = format!("max-age={}", exchange::freshness(&octets));
    let mut response = Response::new(Full::from(octets));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(exchange::MESSAGE));
    if let Ok(age) = HeaderValue::try_from(age) {
        headers.insert(CACHE_CONTROL, age);
    }
    response
}

fn refusal(refusal: Refusal) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(format!("{}\n", refusal.reason)));
    *response.status_mut() = refusal.status;
    let headers = response.headers_mut();
    let text = HeaderValue::from_static("text/plain; charset=utf-8");
    headers.insert(CONTENT_TYPE, text);
    if refusal.status == StatusCode::METHOD_NOT_ALLOWED {
        headers.insert(ALLOW, HeaderValue::from_static("GET, POST"));
    }
    response
}
