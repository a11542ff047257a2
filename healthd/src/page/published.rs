//! Publishes the page: a listener of its own, over TLS and with a login.
//!
//! ```text
//! connection → place? → TLS handshake → login (certificate, or name and password) → the page, its stream, the last changes
//! ```
//!
//! It only shows. It takes no method but GET and HEAD, and has none of the other paths of the admin listener. Connections end
//! when the users or the authority change, so that a user who was taken out sees nothing more.
//!
//! Files that cannot be read at the start are read again until they can; healthd serves its subscribers meanwhile.

mod login;

use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use ::config::healthd::PageTls;
use ::config::renewal::Renewal;
use daemon::accept::{Acceptor, Peer};
use daemon::admin::{Flow, Reply};
use daemon::connections::{Answering, Connections, Opening, Placed, Policy};
use daemon::disk::Stamp;
use daemon::drain::Guard;
use daemon::exit;
use daemon::latest::Latest;
use daemon::listen;
use daemon::readiness::Readiness;
use daemon::run::{Context, StartError};
use daemon::tls::{CertificateFiles, Certificates, verify_clients};
use http_body_util::{Either, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

use self::login::{Login, Refusal};
use super::{Page, STREAM_TYPE, script, style};
use crate::metrics::Counters;

/// The name of inherited sockets.
const SOCKET_NAME: &str = "page";

/// The key of the reason on `/readyz`.
const DETAIL: &str = "page";

/// Connections at a time. One address may have an eighth: a few browsers, each with its stream and what it fetches beside it.
const CONNECTIONS: usize = 136;

/// Browsers that follow the page at a time.
const STREAMS: usize = 32;

/// The time limit of a handshake.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// A client sends its request head within this time, or is cut off.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Request heads larger than this are refused.
const MAX_HEAD: usize = 16 << 10;

/// The time for a request under way when a connection is to end.
const LAST: Duration = Duration::from_secs(1);

/// How long to wait before files are read again that could not be.
const AGAIN: Duration = Duration::from_secs(5);

/// The interval between two looks at the authority of clients.
const LOOK: Duration = Duration::from_secs(60);

/// Everything that a page may load and do: its own style, script and stream, and the empty picture in its head.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The listener, with its sockets open.
#[derive(Debug)]
pub(crate) struct Published {
    config: PageTls,
    renewal: Option<Renewal>,
    listeners: Vec<TcpListener>,
}

impl Published {
    /// Opens the sockets, or takes those that systemd hands over.
    ///
    /// # Errors
    /// When one cannot be listened on.
    pub(crate) fn open(
        config: PageTls,
        renewal: Option<Renewal>,
        context: &mut Context,
    ) -> Result<Self, StartError> {
        let addresses: Vec<SocketAddr> = config.listen.iter().map(|address| address.0).collect();
        let listeners = listen::tcp(&mut context.inherited, SOCKET_NAME, &addresses)?;
        Ok(Self {
            config,
            renewal,
            listeners,
        })
    }

    /// Publishes the page until the drain begins.
    pub(crate) fn start(self, page: Page, counters: Counters, context: &Context, guard: &Guard) {
        let (readiness, expiries) = (context.readiness.clone(), context.expiries.clone());
        let mut guard = guard.clone();
        let policy = Policy::of(CONNECTIONS).with_idle(HEAD_TIMEOUT);
        let connections = Connections::new("page", policy);
        context.connections.add(&connections);
        tokio::spawn(async move {
            let files = tokio::select! {
                files = wait_files(&self.config, self.renewal.as_ref(), &readiness) => files,
                () = guard.asked() => return,
            };
            let address = self.listeners.iter().find_map(|one| one.local_addr().ok());
            let server = Arc::new(Server {
                page: page.published_on(address.map(|address| address.port())),
                counters,
                tls: files.tls,
                login: files.login,
                ended: watch::channel(()).0,
                streams: Arc::new(Semaphore::new(STREAMS)),
            });
            expiries.set("page", Arc::new(files.certificates.clone()));
            tracing::info!("The page is published");
            let acceptor = Acceptor::new(connections, Opening::Handshake);
            for listener in self.listeners {
                let accepting =
                    Arc::clone(&server).accept(listener, acceptor.clone(), guard.clone());
                tokio::spawn(accepting);
            }
            tokio::select! {
                () = follow(&server, &self.config, files.certificates) => {}
                () = guard.asked() => {}
            }
        });
    }
}

/// The content of a listener's files.
pub(crate) struct Files {
    certificates: Certificates,
    tls: Arc<Latest<ServerConfig>>,
    login: Login,
}

impl Files {
    /// Reads them.
    ///
    /// # Errors
    /// The problem, in words.
    pub(crate) fn read(config: &PageTls, renewal: Option<&Renewal>) -> Result<Self, String> {
        let pair = CertificateFiles::new(&config.certificate, &config.key).renewed_by(renewal);
        let certificates = Certificates::read(&[pair]).map_err(|error| exit::chain(&error))?;
        let users = config.users.as_deref().map(passwords::read).transpose();
        let users = users.map_err(|problems| problems.to_string())?;
        let tls = server_config(&certificates, config)?;
        Ok(Self {
            certificates,
            tls: Latest::new(tls),
            login: Login::new(users, config.open),
        })
    }
}

fn server_config(certificates: &Certificates, config: &PageTls) -> Result<ServerConfig, String> {
    let protocols: [&[u8]; 1] = [b"http/1.1"];
    let made = match &config.client_ca {
        None => certificates.server_config(&protocols),
        Some(ca) => {
            // With users, a client without a certificate logs in by its password.
            let is_required = config.users.is_none();
            let verified = verify_clients(ca, is_required).map_err(|error| exit::chain(&error))?;
            certificates.server_config_for(verified, &protocols)
        }
    };
    made.map_err(|error| format!("TLS cannot be set up: {error}"))
}

async fn wait_files(config: &PageTls, renewal: Option<&Renewal>, readiness: &Readiness) -> Files {
    let mut said = String::new();
    loop {
        match Files::read(config, renewal) {
            Ok(files) => {
                readiness.set_reason(DETAIL, None);
                return files;
            }
            Err(error) if error == said => {}
            Err(error) => {
                tracing::error!(error, "The page is not published");
                let reason = format!("the page is not published: {error}");
                readiness.set_reason(DETAIL, Some(reason));
                said = error;
            }
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// Takes files up when they have changed; one that cannot be used changes nothing.
async fn follow(server: &Server, config: &PageTls, certificates: Certificates) {
    let users = async {
        match (&server.login, config.users.clone()) {
            (Login::Users { users, .. }, Some(path)) => {
                passwords::follow(path, |changed| {
                    users.publish(changed);
                    server.ended.send_replace(());
                })
                .await;
            }
            _ => std::future::pending().await,
        }
    };
    let authority = async {
        match config.client_ca.clone() {
            Some(ca) => follow_authority(server, config, &certificates, ca).await,
            None => std::future::pending().await,
        }
    };
    tokio::join!(certificates.clone().follow(), users, authority);
}

async fn follow_authority(server: &Server, config: &PageTls, shown: &Certificates, ca: PathBuf) {
    let mut seen = Stamp::of(&ca);
    loop {
        tokio::time::sleep(LOOK).await;
        let stamp = Stamp::of(&ca);
        if stamp == seen {
            continue;
        }
        seen = stamp;
        match server_config(shown, config) {
            Ok(changed) => {
                tracing::info!(path = %ca.display(), "The authority of the page's clients is taken up");
                server.tls.publish(changed);
                server.ended.send_replace(());
            }
            Err(error) => {
                tracing::error!(error, "The authority of the page's clients stays as it was");
            }
        }
    }
}

/// Serves connections.
struct Server {
    page: Page,
    counters: Counters,
    tls: Arc<Latest<ServerConfig>>,
    login: Login,
    /// Ends the connections that there are.
    ended: watch::Sender<()>,
    streams: Arc<Semaphore>,
}

type Body = Either<Full<Bytes>, Flow>;

impl Server {
    /// Accepts until the drain begins.
    async fn accept(self: Arc<Self>, listener: TcpListener, acceptor: Acceptor, guard: Guard) {
        let listener = match tokio::net::TcpListener::from_std(listener) {
            Ok(listener) => listener,
            Err(error) => {
                tracing::error!(%error, "The page's listener has failed");
                return;
            }
        };
        let mut ending = guard.clone();
        loop {
            let (stream, peer) = tokio::select! {
                accepted = acceptor.next(&listener) => accepted,
                () = ending.asked() => return,
            };
            let Peer::Network(client) = peer else {
                continue;
            };
            let (server, guard) = (Arc::clone(&self), guard.clone());
            tokio::spawn(server.serve(stream, client, guard));
        }
    }

    async fn serve(
        self: Arc<Self>,
        stream: Placed<TcpStream>,
        client: SocketAddr,
        mut guard: Guard,
    ) {
        let place = stream.place().clone();
        let mut ended = self.ended.subscribe();
        let accepting = TlsAcceptor::from(self.tls.current()).accept(stream);
        let stream = match tokio::time::timeout(HANDSHAKE, accepting).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                self.counters.page_refused("handshake");
                tracing::debug!(%client, %error, "TLS handshake failed");
                return;
            }
            Err(_) => {
                self.counters.page_refused("handshake");
                tracing::debug!(%client, "TLS handshake took too long");
                return;
            }
        };
        place.idle();
        // TLS has verified a certificate that was shown.
        let certified = stream.get_ref().1.peer_certificates().is_some();
        let server = Arc::clone(&self);
        let service = service_fn(move |request: Request<Incoming>| {
            let (server, answer) = (Arc::clone(&server), place.answer());
            async move {
                let mut response = server.answer(&request, client, certified).await;
                set_headers(response.headers_mut());
                Ok::<_, Infallible>(response.map(|body| Answering::new(body, answer)))
            }
        });
        let mut builder = http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            .max_buf_size(MAX_HEAD);
        let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
        tokio::select! {
            served = connection.as_mut() => {
                if let Err(error) = served {
                    tracing::debug!(%client, %error, "Connection ended early");
                }
                return;
            }
            _ = ended.changed() => {}
            () = guard.asked() => {}
        }
        connection.as_mut().graceful_shutdown();
        // A stream does not end by itself: its browser connects again.
        drop(tokio::time::timeout(LAST, connection).await);
    }

    async fn answer(
        &self,
        request: &Request<Incoming>,
        client: SocketAddr,
        certified: bool,
    ) -> Response<Body> {
        let authorization = request.headers().get(header::AUTHORIZATION);
        let admitted = self
            .login
            .admit(authorization, client.ip(), certified)
            .await;
        if let Err(refusal) = admitted {
            return self.refused(refusal, client);
        }
        let is_get = request.method() == Method::GET;
        if !is_get && request.method() != Method::HEAD {
            let mut response = plain(Reply::text(405, "this page only shows: GET or HEAD\n"));
            let allowed = HeaderValue::from_static("GET, HEAD");
            response.headers_mut().insert(header::ALLOW, allowed);
            return response;
        }
        match request.uri().path() {
            "/" => plain(self.page.whole().await),
            "/events" => plain(self.page.events()),
            "/page.css" => plain(style()),
            "/page.js" => plain(script()),
            "/stream" if is_get => self.stream(),
            "/stream" => plain(Reply::from((200, STREAM_TYPE, Vec::new()))),
            _ => plain(Reply::text(404, "no such path; the page is at /\n")),
        }
    }

    fn stream(&self) -> Response<Body> {
        let Ok(permit) = Arc::clone(&self.streams).try_acquire_owned() else {
            let full = format!("{STREAMS} clients follow this already\n");
            return plain(Reply::text(503, full));
        };
        let body = Either::Right(Flow::new(self.page.stream(), permit));
        let mut response = Response::new(body);
        let kind = HeaderValue::from_static(STREAM_TYPE);
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        response
    }

    fn refused(&self, refusal: Refusal, client: SocketAddr) -> Response<Body> {
        match refusal {
            // A browser asks its user after this.
            Refusal::Anonymous => unauthorized("log in with your name and password\n"),
            Refusal::Wrong => {
                self.counters.page_refused("login");
                tracing::info!(client = %client.ip(), "A wrong login for the page was refused");
                unauthorized("the name or the password is wrong\n")
            }
            Refusal::Later(wait) => {
                self.counters.page_refused("wait");
                let words = "too many logins from this address were wrong, or are being verified; \
                             try again later\n";
                let mut response = plain(Reply::text(429, words));
                let seconds = HeaderValue::from(wait.as_secs().max(1));
                response.headers_mut().insert(header::RETRY_AFTER, seconds);
                response
            }
        }
    }
}

fn unauthorized(words: &str) -> Response<Body> {
    let mut response = plain(Reply::text(401, words));
    let challenge = HeaderValue::from_static("Basic realm=\"Outpost\", charset=\"UTF-8\"");
    let headers = response.headers_mut();
    headers.insert(header::WWW_AUTHENTICATE, challenge);
    response
}

fn plain(reply: Reply) -> Response<Body> {
    let mut response = Response::new(Either::Left(Full::new(Bytes::from(reply.body))));
    *response.status_mut() =
        StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let kind = HeaderValue::from_static(reply.content_type);
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// The headers of every response: no cache keeps it, no other page frames it, and it loads nothing from elsewhere.
fn set_headers(headers: &mut HeaderMap) {
    let each = [
        (header::CACHE_CONTROL, "no-store"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    for (name, value) in each {
        headers.insert(name, HeaderValue::from_static(value));
    }
}
