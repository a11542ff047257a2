//! HTTP/1.1 (RFC 9112): up when the response has the expected status, and text if one is expected.
//!
//! Redirects are not followed: a redirect is a status like any other.

use std::net::SocketAddr;

use health::HttpProbe;
use http_body_util::{BodyExt as _, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, CONNECTION, HOST, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use hyper::{Method, Request, Response, Uri};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use super::{Outcome, root_cause};

/// How much of a body is searched for the expected text, unless the target says.
const BODY_LIMIT: u64 = 1 << 20;

/// The `User-Agent`, unless the target has one.
const AGENT: &str = concat!("outpost-healthd/", env!("CARGO_PKG_VERSION"));

pub(super) async fn probe<S>(stream: S, probe: &HttpProbe, address: SocketAddr) -> Outcome
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let request = request(probe, address)?;
    let handshake = http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|error| root_cause(&error))?;
    let exchange = async {
        let response = sender.send_request(request).await;
        let response = response.map_err(|error| root_cause(&error))?;
        judge(response, probe).await
    };
    let mut exchange = std::pin::pin!(exchange);
    tokio::select! {
        biased;
        outcome = &mut exchange => outcome,
        // The connection has ended, and what it brought waits for the exchange.
        _ = connection => exchange.await,
    }
}

/// Builds the request; fails when no valid request is possible.
pub(super) fn request(
    probe: &HttpProbe,
    address: SocketAddr,
) -> Result<Request<Empty<Bytes>>, String> {
    let method = Method::from_bytes(probe.method.as_bytes());
    let method = method.map_err(|_| format!("{:?} is no method", probe.method))?;
    let uri: Uri = probe
        .path
        .parse()
        .map_err(|_| format!("{:?} is no path", probe.path))?;
    let value = |text: &str| {
        HeaderValue::from_str(text).map_err(|_| format!("{text:?} cannot be in a header"))
    };
    let host = match probe.host.as_str() {
        "" => address.to_string(),
        host => host.to_owned(),
    };
    let agent = match probe.user_agent.as_str() {
        "" => AGENT,
        agent => agent,
    };
    let mut headers = HeaderMap::new();
    headers.insert(HOST, value(&host)?);
    headers.insert(USER_AGENT, value(agent)?);
    headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    for (name, text) in &probe.headers {
        let name = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| format!("{name:?} is no header"))?;
        headers.insert(name, value(text)?);
    }
    let mut request = Request::new(Empty::new());
    *request.method_mut() = method;
    *request.uri_mut() = uri;
    *request.headers_mut() = headers;
    Ok(request)
}

async fn judge(response: Response<Incoming>, probe: &HttpProbe) -> Outcome {
    let status = response.status().as_u16();
    if status != probe.status {
        return Err(format!("status {status}, not {}", probe.status));
    }
    let Some(expected) = &probe.body else {
        return Ok(format!("status {status}"));
    };
    let limit = probe.byte_limit.unwrap_or(BODY_LIMIT).min(BODY_LIMIT);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut body = response.into_body();
    let mut read = Vec::new();
    while read.len() < limit {
        let Some(frame) = body.frame().await else {
            break;
        };
        let frame = frame.map_err(|error| root_cause(&error))?;
        if let Some(data) = frame.data_ref() {
            read.extend(data.iter().take(limit - read.len()));
        }
        if contains(&read, expected.as_bytes()) {
            return Ok(format!("status {status}, text found"));
        }
    }
    Err(format!("status {status}, text not found"))
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    part.is_empty() || text.windows(part.len()).any(|window| window == part)
}
