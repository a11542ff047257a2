//! Pages that say whether this proxy serves, with HAProxy's answers: OpenShift's probes and keepalived's scripts ask for
//! `/haproxy_ready` on port 9444.
//!
//! Each page has listeners of its own, and knows its path alone. An address that cannot be bound is tried again: a
//! predecessor has it until it has handed over.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ::config::lb_proxy::Monitor;
use daemon::accept::Acceptor;
use daemon::connections::{Connections, Opening, Placed, Policy, Table};
use daemon::life::{Life, State};
use daemon::listen::{self, Inherited};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::bind::until_bound;
use crate::table_builder::{TableBuilder, View};

/// Probes at all addresses at a time.
const MOST_CONNECTIONS: usize = 64;

/// A client sends its request head within this time.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Request heads larger than this are refused.
const MOST_HEAD: usize = 16 << 10;

/// How often an address that cannot be bound is tried again: probes come every second or two.
const RETRY: Duration = Duration::from_millis(200);

/// HAProxy's page of a service that is ready.
const READY: &str = "<html><body><h1>200 OK</h1>\nService ready.\n</body></html>\n";

/// HAProxy's page of one that is not, and of a path that is not there.
const UNAVAILABLE: &str = "<html><body><h1>503 Service Unavailable</h1>\nNo server is available to handle this request.\n</body></html>\n";

/// The sources of the answers.
#[derive(Debug)]
pub(crate) struct Sources {
    pub(crate) builder: Arc<TableBuilder>,
    pub(crate) life: Life,
}

/// Answers for the monitors of a configuration, until the tasks are aborted.
pub(crate) fn serve(monitors: &[Monitor], sources: Sources, table: &Table) -> Vec<JoinHandle<()>> {
    if monitors.is_empty() {
        return Vec::new();
    }
    let policy = Policy::of(MOST_CONNECTIONS).with_idle(HEAD_TIMEOUT);
    let connections = Connections::new("monitor", policy);
    table.add(&connections);
    let acceptor = Acceptor::new(connections, Opening::Request);
    let sources = Arc::new(sources);
    let mut tasks = Vec::new();
    for monitor in monitors {
        let monitor = Arc::new(monitor.clone());
        for address in &monitor.listen {
            let page = Page {
                monitor: Arc::clone(&monitor),
                sources: Arc::clone(&sources),
            };
            tasks.push(tokio::spawn(listen_at(address.0, page, acceptor.clone())));
        }
    }
    tasks
}

/// One monitor at one address.
#[derive(Clone)]
struct Page {
    monitor: Arc<Monitor>,
    sources: Arc<Sources>,
}

async fn listen_at(address: SocketAddr, page: Page, acceptor: Acceptor) {
    let report = |error| tracing::warn!(%address, error, "A monitor cannot listen yet");
    let listener = until_bound(RETRY, || bind(address), report).await;
    tracing::info!(%address, path = page.monitor.path, "Answering whether this proxy serves");
    loop {
        let (stream, _) = acceptor.next(&listener).await;
        tokio::spawn(serve_connection(stream, page.clone()));
    }
}

fn bind(address: SocketAddr) -> Result<TcpListener, String> {
    let bound = listen::tcp(&mut Inherited::default(), "", &[address]);
    let listener = bound.map_err(|error| error.to_string())?.pop();
    let listener = listener.ok_or_else(String::new)?;
    TcpListener::from_std(listener).map_err(|error| error.to_string())
}

async fn serve_connection(stream: Placed<TcpStream>, page: Page) {
    let place = stream.place().clone();
    let service = service_fn(move |request: Request<Incoming>| {
        let _answering = place.answer();
        let is_draining = page.sources.life.state() == State::Draining;
        let view = page.sources.builder.view();
        // HAProxy compares the query too.
        let asked = request
            .uri()
            .path_and_query()
            .map_or("", |asked| asked.as_str());
        let is_ready = !is_draining && is_ready(&page.monitor, asked, &view);
        async move { Ok::<_, Infallible>(response(is_ready)) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MOST_HEAD)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "A probe of a monitor ended early");
    }
}

/// Whether the page says that this proxy serves.
fn is_ready(monitor: &Monitor, path: &str, view: &View) -> bool {
    let has = |backend: &str, n_least: u16| {
        let known = view.table.backend(backend);
        known.is_some_and(|known| known.pool.n_usable() >= usize::from(n_least))
    };
    let mut needs = monitor.needs.iter();
    path == monitor.path && needs.all(|need| has(&need.backend, need.servers.get()))
}

fn response(is_ready: bool) -> Response<Full<Bytes>> {
    let (status, page) = match is_ready {
        true => (StatusCode::OK, READY),
        false => (StatusCode::SERVICE_UNAVAILABLE, UNAVAILABLE),
    };
    let mut response = Response::new(Full::new(Bytes::from_static(page.as_bytes())));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html"));
    response
}

#[cfg(test)]
mod tests {
    use ::config::Whole;
    use ::config::lb_proxy::Need;
    use daemon::config::Document;
    use proto::health::{AdminState, Terms};

    use super::*;
    use crate::config::Config;

    #[test]
    fn a_page_is_ready_while_its_backends_have_servers() {
        let text = "version = \"v1\"\n[[backend]]\nname = \"b\"\n[[backend.server]]\nname = \"s\"\n\
                    address = \"192.0.2.1:1\"\n[[backend.server]]\nname = \"t\"\naddress = \"192.0.2.2:1\"\n";
        let config = Config::from_document(&Document::inline("x.toml", text)).unwrap();
        let builder = TableBuilder::new(config, Arc::default(), 0);
        let page = |needs: &[(&str, i64)]| Monitor {
            listen: Vec::new(),
            path: "/x".to_owned(),
            needs: needs
                .iter()
                .map(|(backend, servers)| Need {
                    backend: (*backend).to_owned(),
                    servers: Whole::clamped(*servers),
                })
                .collect(),
        };
        let pages = [
            page(&[]),
            page(&[("b", 1)]),
            page(&[("b", 2)]),
            page(&[("b", 1), ("gone", 1)]),
        ];
        let ready = || {
            pages
                .each_ref()
                .map(|page| is_ready(page, "/x", &builder.view()))
        };
        assert_eq!(ready(), [true, true, true, false]);
        for (server, expected) in [
            ("s", [true, true, false, false]),
            ("t", [true, false, false, false]),
        ] {
            let set = builder.set_state("b", server, AdminState::Maintenance, Terms::default());
            set.unwrap();
            assert_eq!(ready(), expected, "{server}");
        }
        for path in ["", "/", "/x/", "/x?y", "/X"] {
            assert!(!is_ready(&page(&[]), path, &builder.view()), "{path}");
        }
    }
}
