//! One connection, from its handshake to its end.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use daemon::connections::{Answering, Place, Placed};
use daemon::drain::Guard;
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HOST, HeaderValue};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{StatusCode, Version};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use registry_auth::Peer;
use registry_auth::certificate;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use super::{Accepted, H2, SECOND_LOOK, Shared, proxy_header};
use crate::Body;

/// Heads larger than this are refused with 431: a token and some ten tags are far below.
const HEAD: usize = 64 << 10;

/// How much of a stream may be under way: a layer comes at the speed of the network.
const STREAM_WINDOW: u32 = 4 << 20;

/// How much of a connection may be under way.
const CONNECTION_WINDOW: u32 = 16 << 20;

/// Requests at once on one HTTP/2 connection: as many as RFC 9113 §6.5.2 wants, and some more.
const STREAMS: u32 = 128;

/// The interval of pings on a silent HTTP/2 connection.
const PING: Duration = Duration::from_secs(30);

/// How long it has for the answer.
const PONG: Duration = Duration::from_secs(20);

/// How a client that knows says that it speaks HTTP/2 (RFC 9113 §3.4).
const PREFACE: &[u8; 4] = b"PRI ";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Http1,
    Http2,
}

/// Serves a connection until it ends, or until the drain begins and its request is answered.
pub(super) async fn serve(shared: Arc<Shared>, accepted: Accepted, guard: Guard) {
    let Accepted {
        mut stream,
        address,
    } = accepted;
    let place = stream.place().clone();
    let Some(address) = proxy_header::client(&shared, address, &mut stream).await else {
        return;
    };
    if let Err(error) = stream.get_ref().set_nodelay(true) {
        tracing::debug!(client = %address, %error, "Connection is gone");
        return;
    }
    let mut peer = Peer::plain(address);
    let settings = &shared.settings;
    let Some(tls) = &shared.tls else {
        let first = tokio::time::timeout(settings.head, first_octets(stream.get_ref()));
        let protocol = tokio::select! {
            first = first => first.ok().flatten(),
            // Looking ahead reads nothing, and so does not fail.
            () = place.ended() => None,
        };
        let Some(protocol) = protocol else {
            return;
        };
        let stream = heard(stream, protocol);
        return speak(&shared, (stream, &place), protocol, peer, guard).await;
    };
    let acceptor = TlsAcceptor::from(tls.current());
    let handshake = acceptor.accept(stream);
    match tokio::time::timeout(settings.handshake, handshake).await {
        Ok(Ok(mut stream)) => {
            place.idle();
            let session = stream.get_ref().1;
            let shown = session.peer_certificates().and_then(<[_]>::first);
            peer.is_tls = true;
            peer.certificate = shown
                .and_then(|shown| certificate::subject(shown))
                .map(Arc::new);
            let protocol = match session.alpn_protocol() {
                Some(H2) => Protocol::Http2,
                _ => Protocol::Http1,
            };
            if protocol == Protocol::Http2 {
                stream.get_mut().0.tell_nothing();
            }
            speak(&shared, (stream, &place), protocol, peer, guard).await;
        }
        Ok(Err(error)) => tracing::debug!(client = %address, %error, "TLS handshake failed"),
        Err(_) => tracing::debug!(client = %address, "TLS handshake took too long"),
    }
}

/// The protocol of a client without TLS; none, if it is gone.
async fn first_octets(stream: &TcpStream) -> Option<Protocol> {
    let mut octets = [0; PREFACE.len()];
    loop {
        let n_seen = stream.peek(&mut octets).await.ok()?;
        let seen = octets.get(..n_seen).unwrap_or_default();
        match seen {
            [] => return None,
            _ if seen == PREFACE => return Some(Protocol::Http2),
            _ if !PREFACE.starts_with(seen) => return Some(Protocol::Http1),
            // A segment may end anywhere, and `P` begins `POST` too. Peeked bytes stay readable, so
            // only time can separate two looks.
            _ => tokio::time::sleep(SECOND_LOOK).await,
        }
    }
}

/// A stream without TLS. Frames of HTTP/2 do not each begin a request.
fn heard(mut stream: Placed<TcpStream>, protocol: Protocol) -> Placed<TcpStream> {
    if protocol == Protocol::Http2 {
        stream.place().idle();
        stream.tell_nothing();
    }
    stream
}

async fn speak<S>(
    shared: &Shared,
    (stream, place): (S, &Place),
    protocol: Protocol,
    peer: Peer,
    guard: Guard,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let client = peer.address;
    let (api, peer, place) = (Arc::clone(&shared.api), Arc::new(peer), place.clone());
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let (api, peer, answer) = (Arc::clone(&api), Arc::clone(&peer), place.answer());
        async move {
            let response = match names_a_host(&request) {
                true => api.handle(request, &peer).await,
                false => bad_request(),
            };
            Ok::<_, Infallible>(response.map(|body| Answering::new(body, answer)))
        }
    });
    let stream = TokioIo::new(stream);
    let served = match protocol {
        Protocol::Http1 => {
            let mut builder = http1::Builder::new();
            builder
                .timer(TokioTimer::new())
                .header_read_timeout(shared.settings.head)
                .max_header_size(HEAD)
                // As other registries write them, for scripts that look for `Docker-Content-Digest`.
                .title_case_headers(true);
            let connection = pin!(builder.serve_connection(stream, service));
            until_end(connection, guard, http1::Connection::graceful_shutdown).await
        }
        Protocol::Http2 => {
            let mut builder = http2::Builder::new(TokioExecutor::new());
            builder
                .timer(TokioTimer::new())
                .initial_stream_window_size(STREAM_WINDOW)
                .initial_connection_window_size(CONNECTION_WINDOW)
                .max_concurrent_streams(STREAMS)
                .max_header_list_size(HEAD_LIST)
                .keep_alive_interval(PING)
                .keep_alive_timeout(PONG);
            let connection = pin!(builder.serve_connection(stream, service));
            until_end(connection, guard, http2::Connection::graceful_shutdown).await
        }
    };
    if let Err(error) = served {
        tracing::debug!(%client, %error, "Connection ended early");
    }
}

/// Whether a request of HTTP/1.1 has the one `Host` that it must have (RFC 9112 §3.2).
fn names_a_host(request: &hyper::Request<Incoming>) -> bool {
    let n_hosts = request.headers().get_all(HOST).iter().count();
    n_hosts == 1 || (n_hosts == 0 && request.version() != Version::HTTP_11)
}

fn bad_request() -> hyper::Response<Body> {
    let mut answer = hyper::Response::new(Body::empty());
    *answer.status_mut() = StatusCode::BAD_REQUEST;
    let close = HeaderValue::from_static("close");
    answer.headers_mut().insert(CONNECTION, close);
    answer
}

/// [`HEAD`], as HTTP/2's settings have it.
const HEAD_LIST: u32 = 64 << 10;

/// How long after the end was asked for a connection takes requests that are on their way.
const ON_THE_WAY: Duration = Duration::from_millis(250);

/// Drives a connection; ends it once the drain begins.
async fn until_end<C: Future>(
    mut connection: Pin<&mut C>,
    mut guard: Guard,
    end: impl Fn(Pin<&mut C>),
) -> C::Output {
    tokio::select! {
        output = connection.as_mut() => return output,
        () = guard.asked() => {}
    }
    // A client that is already connected may have sent what has not been read yet.
    if let Ok(output) = tokio::time::timeout(ON_THE_WAY, connection.as_mut()).await {
        return output;
    }
    end(connection.as_mut());
    connection.await
}
