//! Counts of requests: fixed tables of atomics, so that counting neither allocates nor waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hyper::{Method, StatusCode};

/// What a request was for, under the names that distribution's `handler` label has.
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

/// Values of the `code` label; what is not among them is counted as the first of its class.
const CODES: [u16; 22] = [
    200, 201, 202, 204, 206, 300, 304, 307, 400, 401, 403, 404, 405, 409, 413, 414, 416, 429, 431,
    500, 503, 507,
];

/// Upper bounds of durations in seconds; those of distribution.
pub const SECONDS: [f64; 13] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 60.0,
];

/// Sizes are told apart from 1 KiB on by powers of two up to 2 GiB; those of distribution.
pub const SIZES: usize = 22;

/// One more than the largest table of bounds, for what is beyond.
const BUCKETS: usize = SIZES + 1;

/// A histogram.
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    sum: AtomicU64,
}

/// What a histogram holds at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Distribution {
    /// How many fell between a bound and the one before.
    pub buckets: [u64; BUCKETS],
    /// Their sum: octets, or microseconds.
    pub sum: u64,
}

impl Histogram {
    /// Counts a duration.
    pub fn time(&self, took: Duration) {
        let seconds = took.as_secs_f64();
        let at = SECONDS.iter().position(|bound| seconds <= *bound);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.add(at.unwrap_or(SECONDS.len()), micros);
    }

    /// Counts a size.
    pub fn size(&self, octets: u64) {
        // The bound of bucket n is 2^(10 + n).
        let bits = 64 - octets.saturating_sub(1).leading_zeros();
        let at = usize::try_from(bits.saturating_sub(10)).unwrap_or(SIZES);
        self.add(at.min(SIZES), octets);
    }

    fn add(&self, at: usize, value: u64) {
        if let Some(bucket) = self.buckets.get(at) {
            bucket.fetch_add(1, Ordering::Relaxed);
            self.sum.fetch_add(value, Ordering::Relaxed);
        }
    }

    /// What it holds.
    #[must_use]
    pub fn read(&self) -> Distribution {
        let mut distribution = Distribution {
            sum: self.sum.load(Ordering::Relaxed),
            ..Distribution::default()
        };
        for (to, from) in distribution.buckets.iter_mut().zip(&self.buckets) {
            *to = from.load(Ordering::Relaxed);
        }
        distribution
    }
}

impl Distribution {
    /// How many there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

/// What is done to the disk, under the names that distribution's `action` label has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A file is deleted.
    Delete,
    /// A directory is listed.
    List,
    /// A file gets another name.
    Move,
    /// A file is opened to be read.
    Reader,
    /// A file is looked at.
    Stat,
    /// A directory is made durable, which distribution does not do.
    Sync,
    /// A file is made, or opened to be written.
    Writer,
}

impl Action {
    /// Every one, in the order of the table.
    pub const ALL: [Self; 7] = [
        Self::Delete,
        Self::List,
        Self::Move,
        Self::Reader,
        Self::Stat,
        Self::Sync,
        Self::Writer,
    ];

    /// The value of the label.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Delete => "Delete",
            Self::List => "List",
            Self::Move => "Move",
            Self::Reader => "Reader",
            Self::Stat => "Stat",
            Self::Sync => "Sync",
            Self::Writer => "Writer",
        }
    }
}

/// How long each action took; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Actions(Arc<[Histogram; Action::ALL.len()]>);

impl Actions {
    /// Counts one.
    pub fn took(&self, action: Action, duration: Duration) {
        let at = Action::ALL.iter().position(|one| *one == action);
        if let Some(histogram) = at.and_then(|at| self.0.get(at)) {
            histogram.time(duration);
        }
    }

    /// What was counted of each.
    pub fn read(&self) -> impl Iterator<Item = (Action, Distribution)> {
        Action::ALL
            .into_iter()
            .zip(self.0.iter().map(Histogram::read))
    }
}

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
pub struct Http(Arc<[OfHandler; Handler::ALL.len()]>);

/// A request under way; it is in flight until this is dropped.
#[derive(Debug)]
pub struct Underway {
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
    pub fn begin(&self, handler: Handler, method: &Method, now: Instant) -> Underway {
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
        Underway {
            counts: self.clone(),
            handler,
            method,
            begun: now,
        }
    }

    fn of(&self, handler: Handler) -> Option<&OfHandler> {
        self.0.get(handler as usize)
    }

    /// What there is of each handler and method that was asked for.
    #[must_use]
    pub fn methods(&self) -> Vec<OfMethod> {
        let mut all = Vec::new();
        for (handler, counts) in Handler::ALL.iter().zip(self.0.iter()) {
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

    /// What there is of each handler.
    #[must_use]
    pub fn sizes(&self) -> Vec<Sizes> {
        let all = Handler::ALL.iter().zip(self.0.iter());
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
        self.0.iter().fold((0, 0, 0), |(n, received, sent), one| {
            let (of_received, of_sent) = (one.received.read(), one.sent.read());
            (
                n + of_received.count(),
                received + of_received.sum,
                sent + of_sent.sum,
            )
        })
    }
}

impl Underway {
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

impl Drop for Underway {
    fn drop(&mut self) {
        if let Some(counts) = self.counts.of(self.handler) {
            counts.in_flight.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::disallowed_methods, reason = "any moment will do")]
    fn moment() -> Instant {
        Instant::now()
    }

    #[test]
    fn a_request_is_in_flight_until_it_has_ended() {
        let http = Http::default();
        let start = moment();
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
        let start = moment();
        for code in [200, 299, 418, 404, 502] {
            let underway = http.begin(Handler::Base, &Method::TRACE, start);
            underway.end(StatusCode::from_u16(code).unwrap(), 0, 0, start);
        }
        let methods = http.methods();
        assert_eq!(methods[0].method, "other");
        assert_eq!(methods[0].codes, [(200, 2), (400, 1), (404, 1), (500, 1)]);
    }

    #[test]
    fn sizes_fall_below_their_bound() {
        for (octets, bucket) in [
            (0, 0),
            (1, 0),
            (1024, 0),
            (1025, 1),
            (2048, 1),
            (1 << 31, 21),
            ((1 << 31) + 1, 22),
            (u64::MAX, 22),
        ] {
            let histogram = Histogram::default();
            histogram.size(octets);
            assert_eq!(histogram.read().buckets[bucket], 1, "{octets}");
        }
        let histogram = Histogram::default();
        histogram.time(Duration::from_secs(61));
        histogram.time(Duration::from_millis(5));
        let read = histogram.read();
        assert_eq!((read.buckets[SECONDS.len()], read.buckets[0]), (1, 1));
    }
}
