//! The admin listener: how people, probes and scrapers look into a daemon.
//!
//! | path | answers |
//! | --- | --- |
//! | `GET /livez` | 200 while the process makes progress, else 503 and what does not |
//! | `GET /readyz` | 200 when ready, else 503 with each reason on a line; details follow |
//! | `GET /metrics` | `OpenMetrics` or Prometheus text, as `Accept` asks |
//! | `GET /status` | JSON: service, slot, version, state, uptime, readiness, and the service's own `detail` |
//! | `GET /self-check` | 200 when the process has done its own work once, else 503 and what does not work |
//!
//! A service adds its own paths to [`Routes`]. A request with a method that a path does not take gets 405, with the
//! right methods in `Allow`. A change is a `POST`. Over TCP, where no client has an identity, it gets 403; the
//! socket of the process (`--admin-socket`) takes it from processes with the right role ([`crate::caller`]).

mod client;
mod flow;
mod server;

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use config_text::web;
use hyper::body::Bytes;
use parking_lot::RwLock;
use serde::Serialize;
use tokio::sync::mpsc;

use crate::caller::Role;

pub use client::{ClientError, Place, Response, control, get, get_within, post};
pub use flow::Flow;
pub(crate) use server::{Caller, Server, Shared};

/// The path at which a process does its own work once.
pub const SELF_CHECK: &str = "/self-check";

/// How long that may take: a resolver's time-out for an outside server fits in.
const SELF_CHECK_TIME: Duration = Duration::from_secs(10);

/// The request that a handler gets.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Request {
    /// The path, as it was routed.
    pub path: String,
    /// The query without its `?`, still percent-encoded.
    pub query: String,
    /// The body of a `POST`.
    pub body: Vec<u8>,
}

impl Request {
    /// The decoded value of `name` in the query: the first of that name.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<String> {
        self.query.split('&').find_map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (web::parameter(key) == name).then(|| web::parameter(value))
        })
    }

    /// The body as text; bytes that are not UTF-8 are replaced.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// The reply of a handler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The HTTP status.
    pub status: u16,
    /// The `Content-Type`.
    pub content_type: &'static str,
    /// The body.
    pub body: Vec<u8>,
}

impl Reply {
    /// Plain text.
    pub fn text(status: u16, body: impl Into<String>) -> Self {
        Self {
            status,
            content_type: "text/plain; charset=utf-8",
            body: body.into().into_bytes(),
        }
    }

    /// JSON with a final newline; 500 and the reason when the value is no JSON.
    pub fn json(status: u16, value: &impl Serialize) -> Self {
        match serde_json::to_vec_pretty(value) {
            Ok(mut body) => {
                body.push(b'\n');
                Self {
                    status,
                    content_type: "application/json",
                    body,
                }
            }
            Err(error) => Self::text(500, format!("{error}\n")),
        }
    }

    /// A page.
    pub fn html(body: impl Into<String>) -> Self {
        Self {
            status: 200,
            content_type: "text/html; charset=utf-8",
            body: body.into().into_bytes(),
        }
    }
}

impl From<(u16, &'static str, Vec<u8>)> for Reply {
    fn from((status, content_type, body): (u16, &'static str, Vec<u8>)) -> Self {
        Self {
            status,
            content_type,
            body,
        }
    }
}

/// The methods of paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Method {
    /// Show something; `HEAD` too.
    Get,
    /// Change something.
    Post,
}

type Answer = Pin<Box<dyn Future<Output = Reply> + Send>>;
type Handler = Arc<dyn Fn(Request) -> Answer + Send + Sync>;

/// Makes what a client of a stream gets.
type Source = Arc<dyn Fn() -> mpsc::Receiver<Bytes> + Send + Sync>;

/// A handler, and the least role that it serves.
type Entry = (Role, Handler);

/// The paths a service adds; clones share them, and they may be added while the listener is up.
#[derive(Clone, Default)]
pub struct Routes {
    table: Arc<RwLock<Table>>,
}

#[derive(Default)]
struct Table {
    handlers: BTreeMap<(String, Method), Entry>,
    streams: BTreeMap<String, (&'static str, Source)>,
}

impl Routes {
    /// No paths beyond the built-in ones.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn add<H, F>(&self, (method, role): (Method, Role), path: impl Into<String>, handler: H)
    where
        H: Fn(Request) -> F + Send + Sync + 'static,
        F: Future<Output = Reply> + Send + 'static,
    {
        let handler: Handler = Arc::new(move |request| Box::pin(handler(request)));
        self.write(|table| {
            let entry = (role, handler);
            table.handlers.insert((path.into(), method), entry);
        });
    }

    /// Answers `GET path`.
    pub fn get<H, F>(&self, path: impl Into<String>, handler: H)
    where
        H: Fn(Request) -> F + Send + Sync + 'static,
        F: Future<Output = Reply> + Send + 'static,
    {
        self.add((Method::Get, Role::Operator), path, handler);
    }

    /// Answers `GET path` with a body that continues for as long as the client reads it and `source` has something to
    /// send. There are few such clients at a time; more get 503.
    pub fn stream(
        &self,
        path: impl Into<String>,
        content_type: &'static str,
        source: impl Fn() -> mpsc::Receiver<Bytes> + Send + Sync + 'static,
    ) {
        self.write(|table| {
            let entry: (_, Source) = (content_type, Arc::new(source));
            table.streams.insert(path.into(), entry);
        });
    }

    /// Answers `POST path`, to operators.
    pub fn post<H, F>(&self, path: impl Into<String>, handler: H)
    where
        H: Fn(Request) -> F + Send + Sync + 'static,
        F: Future<Output = Reply> + Send + 'static,
    {
        self.add((Method::Post, Role::Operator), path, handler);
    }

    /// Answers `POST path`, to root and the daemon's own user alone.
    pub fn post_for_owner<H, F>(&self, path: impl Into<String>, handler: H)
    where
        H: Fn(Request) -> F + Send + Sync + 'static,
        F: Future<Output = Reply> + Send + 'static,
    {
        self.add((Method::Post, Role::Owner), path, handler);
    }

    /// Answers `GET /self-check` with what `check` says: the process does its own work once, inside
    /// itself, and says whether that worked. `Ok` holds a line about what was done.
    pub fn self_check<C, F>(&self, check: C)
    where
        C: Fn() -> F + Send + Sync + 'static,
        F: Future<Output = Result<String, String>> + Send + 'static,
    {
        self.get(SELF_CHECK, move |_| {
            let checking = check();
            async move {
                match tokio::time::timeout(SELF_CHECK_TIME, checking).await {
                    Ok(Ok(done)) => Reply::text(200, format!("ok\n{done}\n")),
                    Ok(Err(reason)) => Reply::text(503, format!("{reason}\n")),
                    Err(_) => Reply::text(503, "the self-check does not end\n"),
                }
            }
        });
    }

    fn write(&self, change: impl FnOnce(&mut Table)) {
        change(&mut self.table.write());
    }

    fn handler(&self, method: Method, path: &str) -> Option<Entry> {
        let table = self.table.read();
        table.handlers.get(&(path.to_owned(), method)).cloned()
    }

    fn source(&self, path: &str) -> Option<(&'static str, Source)> {
        self.table.read().streams.get(path).cloned()
    }

    fn paths(&self) -> Vec<String> {
        let table = self.table.read();
        let line = |(path, method): &(String, Method)| match method {
            Method::Get => format!("GET {path}"),
            Method::Post => format!("POST {path}"),
        };
        let streams = table.streams.keys().map(|path| format!("GET {path}"));
        table.handlers.keys().map(line).chain(streams).collect()
    }
}

impl fmt::Debug for Routes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.paths()).finish()
    }
}

#[cfg(test)]
mod tests;
