//! Passing on requests of upload sessions to the node that has the session.
//!
//! A name with three addresses leads two requests of one push to two nodes. The session lives on
//! the disk of the node that began it; any other node forwards the request with its body, as it
//! streams, over the connection between the nodes. The first node has authenticated the client by
//! then. A forwarded request carries [`HOP`] and is never forwarded again: a session that its node
//! does not know is unknown, and the client starts over.

use bytes::Bytes;
use hyper::body::Body as HttpBody;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::{Request, Response, Uri, header};
use registry_facts::name::UploadId;
use tonic::body::Body;
use tower_service::Service as _;

use super::Cluster;

/// Marks a request that a peer passes on.
pub const HOP: HeaderName = HeaderName::from_static("x-outpost-hop");

/// Headers that are about one connection (RFC 9110 §7.6.1, RFC 9113 §8.2.2), and those that the
/// first node has acted on: it has answered `Expect: 100-continue` and has authenticated the
/// client.
const DROPPED: [HeaderName; 10] = [
    header::CONNECTION,
    header::HOST,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::EXPECT,
    header::AUTHORIZATION,
];

/// Why a request could not be passed on.
#[derive(Debug, thiserror::Error)]
pub enum ForwardError {
    /// No configured peer has the session: it is unknown.
    #[error("no peer has this session")]
    NoPeer,
    /// The peer cannot be reached: to the client the session is unknown, and it starts over.
    #[error("the node that has the session cannot be reached")]
    Unreachable(#[source] tonic::transport::Error),
}

impl Cluster {
    /// Whether a session is another node's.
    #[must_use]
    pub fn is_other(&self, id: &UploadId) -> bool {
        self.peer(id.node()).is_some()
    }

    /// Passes a request on to the node that has the session; bodies stream both ways.
    ///
    /// # Errors
    /// When there is no such node, or it cannot be reached.
    pub async fn forward<B>(
        &self,
        id: &UploadId,
        request: Request<B>,
    ) -> Result<Response<Body>, ForwardError>
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let peer = self.peer(id.node()).ok_or(ForwardError::NoPeer)?;
        let (mut head, body) = request.into_parts();
        strip(&mut head.headers);
        head.headers.insert(HOP, HeaderValue::from_static("1"));
        let path = head.uri.path_and_query().cloned();
        head.uri = path.map(Uri::from).unwrap_or_default();
        head.version = hyper::Version::HTTP_2;
        let request = Request::from_parts(head, Body::new(body));
        let mut channel = peer.channel();
        std::future::poll_fn(|context| channel.poll_ready(context))
            .await
            .map_err(ForwardError::Unreachable)?;
        let response = channel.call(request).await;
        let mut response = response.map_err(ForwardError::Unreachable)?;
        self.counters().forwarded.inc();
        strip(response.headers_mut());
        *response.version_mut() = hyper::Version::HTTP_11;
        Ok(response)
    }
}

/// Takes out what is about one connection, and what `Connection` names besides.
fn strip(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named.iter().chain(&DROPPED) {
        headers.remove(name);
    }
    headers.remove("keep-alive");
    headers.remove("proxy-connection");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_one_connection_are_not_passed_on() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "close, X-Private"),
            ("x-private", "1"),
            ("transfer-encoding", "chunked"),
            ("expect", "100-continue"),
            ("authorization", "Basic dTpw"),
            ("keep-alive", "timeout=5"),
            ("content-range", "0-9"),
            ("content-type", "application/octet-stream"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        strip(&mut headers);
        let mut left: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["content-range", "content-type"]);
    }
}
