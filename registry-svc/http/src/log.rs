//! One event a request, told when the last octet of its answer is gone or its client is.

use std::net::SocketAddr;
use std::time::Instant;

use daemon::clock;
use hyper::{Method, StatusCode};

use crate::counts::InFlight;

/// A request and its answer.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) status: StatusCode,
    pub(super) user: Option<String>,
    pub(super) client: SocketAddr,
    /// The error in the response to a request that failed.
    pub(super) error: Option<String>,
    /// Octets of the request's body.
    pub(super) received: u64,
    /// Octets of the answer's body.
    pub(super) sent: u64,
    pub(super) begun: Instant,
    /// Whether it is worth seeing when nothing is wrong.
    pub(super) is_logged: bool,
    /// The counter of the request.
    pub(super) underway: Option<InFlight>,
}

impl Drop for Exchange {
    fn drop(&mut self) {
        let Self {
            method,
            path,
            status,
            client,
            received,
            sent,
            ..
        } = &*self;
        let ended = clock::now();
        let duration = ended.saturating_duration_since(self.begun);
        let status = status.as_u16();
        let (user, error) = (self.user.as_deref(), self.error.as_deref());
        if self.is_logged {
            tracing::info!(%method, path, status, received, sent, ?duration, user, %client, error, "Request");
        } else {
            tracing::debug!(%method, path, status, received, sent, ?duration, user, %client, error, "Request");
        }
        if let Some(underway) = self.underway.take() {
            underway.end(self.status, self.received, self.sent, ended);
        }
    }
}
