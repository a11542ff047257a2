//! Counts of requests: fixed tables of atomics, so that counting neither allocates nor waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use hyper::{Method, StatusCode};
use registry_histogram::{Distribution, Histogram};

/// The kind of a request, under the names that distribution's `handler` label has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handler {
    /// `/v2/`
    Base,
    /// `/v2/NAME/blobs/DIGEST`
    Blob,
    /// `/v2/NAME/blobs/uploads/`
    BlobUpload,
    /// `/v2/NAME/blobs/uploads/SESSION`
    BlobUploadChunk,
    /// `/v2/_catalog`
    Catalog,
    /// `/v2/NAME/manifests/REFERENCE`
    Manifest,
    /// `/v2/NAME/tags/list`
    Tags,
    /// `/v2/NAME/referrers/DIGEST`
    Referrers,
    /// `/token`
    Token,
    /// Anything else.
    Other,
}

impl Handler {
    /// Every one, in the order of the tables.
    pub const ALL: [Self; 10] = [
        Self::Base,
        Self::Blob,
        Self::BlobUpload,
        Self::BlobUploadChunk,
        Self::Catalog,
        Self::Manifest,
        Self::Tags,
        Self::Referrers,
        Self::Token,
        Self::Other,
    ];

    /// The value of the label.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::Blob => "blob",
            Self::BlobUpload => "blob_upload",
            Self::BlobUploadChunk => "blob_upload_chunk",
            Self::Catalog => "catalog",
            Self::Manifest => "manifest",
            Self::Tags => "tags",
            Self::Referrers => "referrers",
            Self::Token => "token",
            Self::Other => "other",
        }
    }
}

/// Values of the `method` label, as distribution writes them.
const METHODS: [&str; 7] = ["get", "head", "put", "post", "patch", "delete", "other"];

/// Values of the `code` label; any other code counts as the first of its class.
const CODES: [u16; 22] = [
    200, 201, 202, 204, 206, 300, 304, 307, 400, 401, 403, 404, 405, 409, 413, 414, 416, 429, 431,
    500, 503, 507,
];

/// Requests with one handler.
#[derive(Debug, Default)]
struct OfHandler {
    in_flight: AtomicU64,
    codes: [[AtomicU64; CODES.len()]; METHODS.len()],
    durations: [Histogram; METHODS.len()],
    received: Histogram,
    sent: Histogram,
}

/// Counts of all requests; clones share them.
#[derive(Clone, Debug, Default)]
pub struct Http(Arc<Tables>);

#[derive(Debug, Default)]
struct Tables {
    handlers: [OfHandler; Handler::ALL.len()],
    proxy_headers_refused: AtomicU64,
}

/// A request under way; it is in flight until this is dropped.
#[derive(Debug)]
pub struct InFlight {
    counts: Http,
    handler: Handler,
    method: usize,
    begun: Instant,
}

/// One sample of each family that has a handler and a method.
#[derive(Clone, Debug)]
pub struct OfMethod {
    /// The handler.
    pub handler: &'static str,
    /// The method.
    pub method: &'static str,
    /// Status codes and how often each was answered.
    pub codes: Vec<(u16, u64)>,
    /// How long it took.
    pub durations: Distribution,
}

/// One sample of each family that has a handler alone.
#[derive(Clone, Debug)]
pub struct Sizes {
    /// The handler.
    pub handler: &'static str,
    /// Requests under way.
    pub in_flight: u64,
    /// Octets of requests' bodies.
    pub received: Distribution,
    /// Octets of responses' bodies.
    pub sent: Distribution,
}

impl Http {
    /// A request begins at `now`.
    #[must_use]
    pub fn begin(&self, handler: Handler, method: &Method, now: Instant) -> InFlight {
        if let Some(counts) = self.of(handler) {
            counts.in_flight.fetch_add(1, Ordering::Relaxed);
        }
        let method = match *method {
            Method::GET => 0,
            Method::HEAD => 1,
            Method::PUT => 2,
            Method::POST => 3,
            Method::PATCH => 4,
            Method::DELETE => 5,
            _ => 6,
        };
        InFlight {
            counts: self.clone(),
            handler,
            method,
            begun: now,
        }
    }

    /// A connection was closed because of its PROXY header, or for want of one.
    pub fn proxy_header_refused(&self) {
        self.0.proxy_headers_refused.fetch_add(1, Ordering::Relaxed);
    }

    /// How many connections were closed so.
    #[must_use]
    pub fn proxy_headers_refused(&self) -> u64 {
        self.0.proxy_headers_refused.load(Ordering::Relaxed)
    }

    fn of(&self, handler: Handler) -> Option<&OfHandler> {
        self.0.handlers.get(handler as usize)
    }

    /// The counts of each handler and method with requests.
    #[must_use]
    pub fn methods(&self) -> Vec<OfMethod> {
        let mut all = Vec::new();
        for (handler, counts) in Handler::ALL.iter().zip(&self.0.handlers) {
            let per_method = METHODS.iter().zip(&counts.codes).zip(&counts.durations);
            for ((method, codes), durations) in per_method {
                let codes = CODES.iter().zip(codes);
                let codes = codes.map(|(code, count)| (*code, count.load(Ordering::Relaxed)));
                let codes: Vec<_> = codes.filter(|(_, count)| *count > 0).collect();
                if !codes.is_empty() {
                    all.push(OfMethod {
                        handler: handler.name(),
                        method,
                        codes,
                        durations: durations.read(),
                    });
                }
            }
        }
        all
    }

    /// The counts of each handler.
    #[must_use]
    pub fn sizes(&self) -> Vec<Sizes> {
        let all = Handler::ALL.iter().zip(&self.0.handlers);
        all.map(|(handler, counts)| Sizes {
            handler: handler.name(),
            in_flight: counts.in_flight.load(Ordering::Relaxed),
            received: counts.received.read(),
            sent: counts.sent.read(),
        })
        .collect()
    }

    /// Requests that were answered, and octets received and sent.
    #[must_use]
    pub fn totals(&self) -> (u64, u64, u64) {
        let handlers = self.0.handlers.iter();
        handlers.fold((0, 0, 0), |(n, received, sent), one| {
            let (of_received, of_sent) = (one.received.read(), one.sent.read());
            (
                n + of_received.count(),
                received + of_received.sum,
                sent + of_sent.sum,
            )
        })
    }
}

impl InFlight {
    /// The request has ended: it was answered with `status` after this many octets each way.
    pub fn end(self, status: StatusCode, received: u64, sent: u64, now: Instant) {
        let Some(counts) = self.counts.of(self.handler) else {
            return;
        };
        let known = CODES.binary_search(&status.as_u16());
        let class = || CODES.binary_search(&(status.as_u16() / 100 * 100));
        let of_method = counts.codes.get(self.method);
        let code = known.or_else(|_| class()).ok();
        if let Some(count) = of_method
            .zip(code)
            .and_then(|(codes, code)| codes.get(code))
        {
            count.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(durations) = counts.durations.get(self.method) {
            durations.time(now.saturating_duration_since(self.begun));
        }
        counts.received.size(received);
        counts.sent.size(sent);
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if let Some(counts) = self.counts.of(self.handler) {
            counts.in_flight.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use daemon::clock;

    use super::*;

    #[test]
    fn a_request_is_in_flight_until_it_has_ended() {
        let http = Http::default();
        let start = clock::now();
        let underway = http.begin(Handler::Manifest, &Method::GET, start);
        let in_flight = |http: &Http| http.sizes()[5].in_flight;
        assert_eq!(in_flight(&http), 1);
        underway.end(StatusCode::OK, 0, 2000, start + Duration::from_millis(20));
        assert_eq!(in_flight(&http), 0);
        let methods = http.methods();
        assert_eq!(methods.len(), 1);
        assert_eq!((methods[0].handler, methods[0].method), ("manifest", "get"));
        assert_eq!(methods[0].codes, [(200, 1)]);
        assert_eq!(methods[0].durations.buckets[2], 1, "25 ms");
        assert_eq!(methods[0].durations.sum, 20_000);
        assert_eq!(http.totals(), (1, 0, 2000));
        // A client that has gone is no answer.
        drop(http.begin(Handler::Blob, &Method::GET, start));
        assert_eq!(http.totals().0, 1);
    }

    #[test]
    fn codes_that_have_no_place_count_as_their_class() {
        assert!(CODES.is_sorted());
        let http = Http::default();
        let start = clock::now();
        for code in [200, 299, 418, 404, 502] {
            let underway = http.begin(Handler::Base, &Method::TRACE, start);
            underway.end(StatusCode::from_u16(code).unwrap(), 0, 0, start);
        }
        let methods = http.methods();
        assert_eq!(methods[0].method, "other");
        assert_eq!(methods[0].codes, [(200, 2), (400, 1), (404, 1), (500, 1)]);
    }
}
