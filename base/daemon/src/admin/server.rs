//! Serves the admin listener: bounded connections, time and bodies, so that it can never be what
//! brings a daemon down.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::Status;
use http_body_util::{BodyExt, Either, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::metrics::counter::Counter;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Semaphore, mpsc, oneshot};

use super::{Flow, Method, Reply, Request, Routes};
use crate::accept::{Acceptor, Listener, Peer};
use crate::caller::Role;
use crate::connections::{Answer, Answering, Connections, Opening, Placed, Policy, Table};
use crate::life::Life;
use crate::metrics::{Exposition, Metrics};
use crate::progress::Progress;
use crate::readiness::Readiness;

/// Scrapers, probes and people at once.
const MAX_CONNECTIONS: usize = 64;

/// Clients of streams, such as browsers that show a page. They leave room for scrapers and probes.
const MAX_STREAMS: usize = 16;

/// A client sends its request head within this time, or is cut off.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// A handler answers within this time, or the client gets an error.
const HANDLER_TIMEOUT: Duration = Duration::from_secs(60);

/// The service's own status comes within this time, or is left out.
const STATUS_TIMEOUT: Duration = Duration::from_secs(2);

/// Bodies are verbs' arguments, never data.
const MAX_BODY: usize = 256 << 10;

/// Request heads larger than this are refused.
const MAX_HEAD: usize = 16 << 10;

/// The paths of every daemon.
const BUILT_IN: [&str; 4] = ["/livez", "/readyz", "/metrics", "/status"];

/// The sources of the answers.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) service: &'static str,
    /// The slot of this process, if it has one.
    pub(crate) slot: Option<String>,
    /// The path of the socket of this very process, if it has one.
    pub(crate) socket: Option<String>,
    pub(crate) started: Instant,
    pub(crate) life: Life,
    pub(crate) readiness: Readiness,
    pub(crate) metrics: Metrics,
    pub(crate) progress: Progress,
    pub(crate) routes: Routes,
    /// Requests that the caller had no right to.
    pub(crate) refused: Counter<u64>,
    /// The connections of all listeners.
    pub(crate) connections: Table,
    /// Asks the service itself for its status.
    pub(crate) status: mpsc::Sender<oneshot::Sender<Value>>,
}

/// The client of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    /// A client of the admin address.
    Network(Peer),
    /// A process at the socket of this very process, and its role.
    Process(Role),
}

impl fmt::Display for Caller {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(peer) => peer.fmt(formatter),
            Self::Process(role) => write!(formatter, "a process of this node, role {role}"),
        }
    }
}

/// The listener of one daemon.
#[derive(Debug)]
pub(crate) struct Server {
    shared: Arc<Shared>,
    acceptor: Acceptor,
    streams: Arc<Semaphore>,
}

impl Server {
    /// The listener of this name.
    pub(crate) fn new(shared: Arc<Shared>, name: &'static str) -> Self {
        let policy = Policy::of(MAX_CONNECTIONS).with_idle(HEAD_TIMEOUT);
        let connections = Connections::new(name, policy);
        shared.connections.add(&connections);
        Self {
            shared,
            acceptor: Acceptor::new(connections, Opening::Request),
            streams: Arc::new(Semaphore::new(MAX_STREAMS)),
        }
    }

    /// Accepts until it is dropped; `identify` says who a connection is from.
    pub(crate) async fn serve<L: Listener>(
        self,
        listener: L,
        identify: impl Fn(&L::Stream, Peer) -> Caller,
    ) {
        loop {
            let (stream, peer) = self.acceptor.next(&listener).await;
            let caller = identify(stream.get_ref(), peer);
            let (shared, streams) = (Arc::clone(&self.shared), Arc::clone(&self.streams));
            tokio::spawn(serve_connection(shared, streams, stream, caller));
        }
    }
}

async fn serve_connection<S>(
    shared: Arc<Shared>,
    streams: Arc<Semaphore>,
    stream: Placed<S>,
    caller: Caller,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let place = stream.place().clone();
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let (shared, streams) = (Arc::clone(&shared), Arc::clone(&streams));
        let answer = place.answer();
        async move {
            let response = match flow(&shared, streams, &request, caller) {
                Some(response) => response,
                None => {
                    let response = respond(&shared, request, caller, &answer).await;
                    response.map(Either::Left)
                }
            };
            Ok::<_, Infallible>(response.map(|body| Answering::new(body, answer)))
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%caller, %error, "Admin connection ended early");
    }
}

/// The response of a stream, if the request is for one.
fn flow(
    shared: &Shared,
    streams: Arc<Semaphore>,
    request: &hyper::Request<Incoming>,
    caller: Caller,
) -> Option<hyper::Response<Either<Full<Bytes>, Flow>>> {
    let is_get = request.method() == hyper::Method::GET;
    if !is_get || caller == Caller::Process(Role::Other) {
        return None;
    }
    let (content_type, source) = shared.routes.source(request.uri().path())?;
    let Ok(permit) = streams.try_acquire_owned() else {
        let full = format!("{MAX_STREAMS} clients follow this already\n");
        return Some(response(Reply::text(503, full)).map(Either::Left));
    };
    let body = Either::Right(Flow::new(source(), permit));
    let mut response = hyper::Response::new(body);
    set_headers(response.headers_mut(), content_type);
    Some(response)
}

fn set_headers(headers: &mut HeaderMap, content_type: &'static str) {
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
}

fn response(reply: Reply) -> hyper::Response<Full<Bytes>> {
    let mut response = hyper::Response::new(Full::new(Bytes::from(reply.body)));
    *response.status_mut() = hyper::StatusCode::from_u16(reply.status)
        .unwrap_or(hyper::StatusCode::INTERNAL_SERVER_ERROR);
    set_headers(response.headers_mut(), reply.content_type);
    response
}

async fn respond(
    shared: &Shared,
    request: hyper::Request<Incoming>,
    caller: Caller,
    answer: &Answer,
) -> hyper::Response<Full<Bytes>> {
    let routed = route(shared, request, caller, answer);
    let (reply, allowed) = match tokio::time::timeout(HANDLER_TIMEOUT, routed).await {
        Ok(Ok(reply)) => (reply, None),
        Ok(Err(NotAllowed(methods))) => {
            let reply = Reply::text(405, format!("this path takes {methods}\n"));
            (reply, Some(HeaderValue::from_static(methods)))
        }
        Err(_) => (Reply::text(504, "no answer in time\n"), None),
    };
    let mut response = response(reply);
    if let Some(allowed) = allowed {
        response.headers_mut().insert(ALLOW, allowed);
    }
    response
}

/// The path is there, and takes these methods only (RFC 9110 §15.5.6).
#[derive(Debug)]
struct NotAllowed(&'static str);

async fn route(
    shared: &Shared,
    request: hyper::Request<Incoming>,
    caller: Caller,
    answer: &Answer,
) -> Result<Reply, NotAllowed> {
    if caller == Caller::Process(Role::Other) {
        return Ok(stranger(shared));
    }
    let method = match *request.method() {
        hyper::Method::GET | hyper::Method::HEAD => Some(Method::Get),
        hyper::Method::POST => Some(Method::Post),
        _ => None,
    };
    let (head, body) = request.into_parts();
    let path = head.uri.path();
    if let Some(method) = method
        && let Some((least, handler)) = shared.routes.handler(method, path)
    {
        if method == Method::Post
            && let Err(refusal) = may_change(shared, caller, least)
        {
            return Ok(refusal);
        }
        let body = Limited::new(body, MAX_BODY).collect();
        let body = match answer.reading(body).await {
            Ok(body) => body.to_bytes().to_vec(),
            Err(_) => {
                let refusal = Reply::text(413, format!("at most {MAX_BODY} bytes are read\n"));
                return Ok(refusal);
            }
        };
        let request = Request {
            path: path.to_owned(),
            query: head.uri.query().unwrap_or_default().to_owned(),
            body,
        };
        return Ok(handler(request).await);
    }
    if method == Some(Method::Get) {
        match path {
            "/livez" => return Ok(livez(shared)),
            "/readyz" => return Ok(readyz(shared)),
            "/metrics" => return Ok(metrics(shared, &head.headers)),
            "/status" => return Ok(Reply::json(200, &status(shared).await)),
            _ => {}
        }
    }
    match allowed(shared, path) {
        Some(methods) => Err(NotAllowed(methods)),
        None => Ok(not_found(shared)),
    }
}

/// The methods that a path takes, as `Allow` names them (RFC 9110 §10.2.1); none for a path that is not there.
fn allowed(shared: &Shared, path: &str) -> Option<&'static str> {
    let is_shown = BUILT_IN.contains(&path)
        || shared.routes.handler(Method::Get, path).is_some()
        || shared.routes.source(path).is_some();
    let is_changed = shared.routes.handler(Method::Post, path).is_some();
    match (is_shown, is_changed) {
        (true, true) => Some("GET, HEAD, POST"),
        (true, false) => Some("GET, HEAD"),
        (false, true) => Some("POST"),
        (false, false) => None,
    }
}

/// Allows changes to a process with the right to them. One that comes over a network has no identity.
fn may_change(shared: &Shared, caller: Caller, least: Role) -> Result<(), Reply> {
    match caller {
        Caller::Process(role) if role >= least => Ok(()),
        Caller::Process(_) => Err(refused(shared, caller, OWNERS_ONLY)),
        Caller::Network(_) => Err(refused(shared, caller, elsewhere(shared))),
    }
}

/// Says where changes are taken.
fn elsewhere(shared: &Shared) -> String {
    match &shared.socket {
        Some(socket) => format!(
            "changes are taken at the socket {socket} only: use the verbs of {}, or curl --unix-socket {socket}\n",
            shared.service
        ),
        None => format!(
            "changes are taken at a Unix socket only: start {} with serve --admin-socket PATH\n",
            shared.service
        ),
    }
}

/// Nothing is for a process that the socket's mode should have kept out.
fn stranger(shared: &Shared) -> Reply {
    refused(shared, Caller::Process(Role::Other), STRANGER)
}

const STRANGER: &str =
    "this socket is for root, the service's own user and the group of the socket's file\n";

const OWNERS_ONLY: &str = "only root and the service's own user may do this\n";

/// Counts a refusal, and gives its reason to the caller.
fn refused(shared: &Shared, caller: Caller, reason: impl Into<String>) -> Reply {
    shared.refused.inc();
    let reason = reason.into();
    tracing::debug!(%caller, reason = reason.trim_end(), "Request refused");
    Reply::text(403, reason)
}

fn not_found(shared: &Shared) -> Reply {
    let mut known = "no such path; known are:\n".to_owned();
    let built_in = BUILT_IN.iter().map(|path| format!("GET {path}"));
    for path in built_in.chain(shared.routes.paths()) {
        known.push_str(&path);
        known.push('\n');
    }
    Reply::text(404, known)
}

fn livez(shared: &Shared) -> Reply {
    shared.progress.ask();
    let stalled = shared.progress.stalled();
    if stalled.is_empty() {
        return Reply::text(200, "ok\n");
    }
    let lines: String = stalled
        .iter()
        .map(|name| format!("{name} makes no progress\n"))
        .collect();
    Reply::text(503, lines)
}

fn readyz(shared: &Shared) -> Reply {
    shared.progress.ask();
    let reasons = shared.readiness.unready_reasons();
    let details = shared.readiness.details();
    let (status, first) = if reasons.is_empty() {
        (200, "ok\n")
    } else {
        (503, "")
    };
    let lines: String = reasons
        .iter()
        .chain(&details)
        .flat_map(|line| [line.as_str(), "\n"])
        .collect();
    Reply::text(status, format!("{first}{lines}"))
}

fn metrics(shared: &Shared, headers: &HeaderMap) -> Reply {
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    let exposition = Exposition::accepted(accept);
    Reply {
        status: 200,
        content_type: exposition.content_type(),
        body: shared.metrics.encode(exposition).into_bytes(),
    }
}

async fn status(shared: &Shared) -> Status<Value> {
    let reasons = shared.readiness.unready_reasons();
    Status {
        service: shared.service.to_owned(),
        slot: shared.slot.clone(),
        admin_socket: shared.socket.clone(),
        version: crate::args::PACKAGE_VERSION.to_owned(),
        revision: crate::args::REVISION.to_owned(),
        pid: std::process::id(),
        state: shared.life.state(),
        uptime_seconds: shared.started.elapsed().as_secs_f64(),
        ready: reasons.is_empty(),
        reasons,
        notes: shared.readiness.details(),
        streams: shared.connections.status(),
        detail: detail(shared).await,
    }
}

/// The service's own part; none while it starts or is too busy to say.
async fn detail(shared: &Shared) -> Option<Value> {
    let (sender, receiver) = oneshot::channel();
    let asked = async {
        shared.status.send(sender).await.ok()?;
        receiver.await.ok()
    };
    tokio::time::timeout(STATUS_TIMEOUT, asked)
        .await
        .ok()
        .flatten()
}
