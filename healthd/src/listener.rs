//! Listeners of the gRPC services: those systemd hands over, else those configured.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use daemon::accept::{Acceptor, Listener, Permit};
use daemon::drain::Guard;
use daemon::listen::path::{self, Bound};
use daemon::listen::{self, Inherited};
use daemon::run::StartError;
use proto::watch::MAX_MESSAGE;
use proto::wire::health_server::HealthServer;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::mpsc;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Server;
use tonic::transport::server::{Connected, Router};
use tonic_health::pb::health_server::HealthServer as StandardServer;

use crate::driver::Driver;
use crate::grpc::HealthApi;
use crate::grpc_health::StandardHealth;
use ::config::healthd::Listen;

/// The name of inherited sockets.
const SOCKET_NAME: &str = "healthd";

/// The interval of pings to a silent subscriber, and the time limit of its answer.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// Connections of all listeners at a time; more wait in the kernel's queue. Each of the 1,024 subscribers may have
/// one for its stream and one for its reports.
const MAX_CONNECTIONS: usize = 2048;

/// Open listeners, not yet served.
#[derive(Debug, Default)]
pub struct Listeners {
    unix: Vec<std::os::unix::net::UnixListener>,
    tcp: Vec<std::net::TcpListener>,
    bound: Vec<Bound>,
    names: Vec<String>,
}

impl Listeners {
    /// Takes the inherited sockets, or opens the configured ones if there are none.
    ///
    /// # Errors
    /// When one cannot be listened on.
    pub fn open(inherited: &mut Inherited, configured: &[Listen]) -> Result<Self, StartError> {
        let mut listeners = Self {
            unix: inherited.unix(SOCKET_NAME),
            tcp: inherited.tcp(SOCKET_NAME),
            ..Self::default()
        };
        let n_inherited = listeners.unix.len() + listeners.tcp.len();
        if n_inherited > 0 {
            listeners.names.push(format!("{n_inherited} inherited"));
            return Ok(listeners);
        }
        for listen in configured {
            match listen {
                Listen::Unix(path) => {
                    let (listener, bound) = path::listen(path)?;
                    listeners.unix.push(listener);
                    listeners.bound.push(bound);
                    listeners.names.push(listen.to_string());
                }
                Listen::Tcp(address) => {
                    let opened = listen::tcp(inherited, SOCKET_NAME, &[*address])?;
                    // The port may have been left to the system.
                    let local = opened.iter().filter_map(|one| one.local_addr().ok());
                    let names = local.map(|local| Listen::Tcp(local).to_string());
                    listeners.names.extend(names);
                    listeners.tcp.extend(opened);
                }
            }
        }
        Ok(listeners)
    }

    /// The addresses that subscribers connect to, for the log and the status.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.names.clone()
    }

    /// Serves until the drain begins; returns guards that remove the files of the sockets.
    ///
    /// # Errors
    /// When the runtime cannot take a listener.
    pub fn serve(self, driver: &Driver, guard: &Guard) -> io::Result<Vec<Bound>> {
        let acceptor = Acceptor::waiting(MAX_CONNECTIONS);
        for listener in self.unix {
            let listener = tokio::net::UnixListener::from_std(listener)?;
            spawn(accept(listener, acceptor.clone()), driver, guard);
        }
        for listener in self.tcp {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            spawn(accept(listener, acceptor.clone()), driver, guard);
        }
        Ok(self.bound)
    }
}

/// A connection with what ends with it: its room within the bound.
pub(crate) struct Accepted<S, H = Permit> {
    pub(crate) stream: S,
    pub(crate) held: H,
}

/// The connections of a listener, for tonic; the listener is closed when the stream is dropped.
fn accept<L: Listener>(
    listener: L,
    acceptor: Acceptor,
) -> impl Stream<Item = io::Result<Accepted<L::Stream>>> {
    let (accepted, connections) = mpsc::channel(1);
    tokio::spawn(async move {
        loop {
            let (stream, _, permit) = tokio::select! {
                () = accepted.closed() => return,
                next = acceptor.next(&listener) => next,
            };
            let connection = Accepted {
                stream,
                held: permit,
            };
            if accepted.send(Ok(connection)).await.is_err() {
                return;
            }
        }
    });
    ReceiverStream::new(connections)
}

impl<S: Connected> Connected for Accepted<S> {
    type ConnectInfo = S::ConnectInfo;

    fn connect_info(&self) -> S::ConnectInfo {
        self.stream.connect_info()
    }
}

impl<S: AsyncRead + Unpin, H: Unpin> AsyncRead for Accepted<S, H> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin, H: Unpin> AsyncWrite for Accepted<S, H> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        octets: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, octets)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

fn spawn<S, C>(incoming: S, driver: &Driver, guard: &Guard)
where
    S: Stream<Item = io::Result<C>> + Send + 'static,
    C: AsyncRead + AsyncWrite + Connected + Unpin + Send + 'static,
{
    let router = router(driver, guard);
    let mut guard = guard.clone();
    tokio::spawn(async move {
        let mut stop = guard.clone();
        let served = router
            .serve_with_incoming_shutdown(incoming, async move { stop.asked().await })
            .await;
        if let Err(error) = served {
            tracing::error!(%error, "A listener has failed");
        } else if !guard.is_asked() {
            tracing::error!("A listener has ended");
        }
        // Held until the last connection is closed, so that the drain waits for it.
        guard.asked().await;
    });
}

fn router(driver: &Driver, guard: &Guard) -> Router {
    let api = HealthApi::new(driver.clone(), guard.clone());
    let standard = StandardHealth::new(driver.clone(), guard.clone());
    let api = HealthServer::new(api)
        .max_decoding_message_size(MAX_MESSAGE)
        .max_encoding_message_size(MAX_MESSAGE);
    Server::builder()
        .http2_keepalive_interval(Some(KEEP_ALIVE))
        .http2_keepalive_timeout(Some(KEEP_ALIVE))
        .add_service(api)
        .add_service(StandardServer::new(standard))
}
