//! The thread that runs all connections of a server.

use std::io;
use std::net::{TcpListener, UdpSocket};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::accept::{self, Protocol};
use crate::quic;
use crate::service::Service;

/// How often the last connections are looked at.
const POLL: Duration = Duration::from_millis(2);

/// The listeners of one server, bound already.
#[derive(Debug, Default)]
pub struct Listeners {
    /// Listeners over TCP, and the protocol of each.
    pub tcp: Vec<(TcpListener, Protocol)>,
    /// Sockets of QUIC, and their TLS with the protocol [`crate::DOQ`].
    pub quic: Vec<(UdpSocket, Arc<rustls::ServerConfig>)>,
}

/// The thread that runs all connections. Dropping it ends them.
#[derive(Debug)]
pub struct Streams {
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Streams {
    /// Starts a thread of this name.
    ///
    /// # Errors
    /// When the system has no thread or event queue left, or the certificates do not fit QUIC.
    pub fn start<S: Service>(
        name: &str,
        listeners: Listeners,
        service: Arc<S>,
    ) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (stop, stopped) = watch::channel(false);
        let guard = runtime.enter();
        let mut tasks = JoinSet::new();
        for (listener, protocol) in listeners.tcp {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            let service = Arc::clone(&service);
            tasks.spawn(accept::serve(listener, protocol, service, stopped.clone()));
        }
        for (socket, tls) in listeners.quic {
            let endpoint = quic::endpoint(socket, tls, service.limits())?;
            tasks.spawn(quic::serve(endpoint, Arc::clone(&service), stopped.clone()));
        }
        drop(guard);
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                runtime.block_on(run(tasks, stopped, service));
                runtime.shutdown_background();
            })?;
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }

    /// Takes no more connections, and ends each one when its answers are written.
    pub fn ask_to_stop(&self) {
        self.stop.send_replace(true);
    }

    /// Whether every connection has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

async fn run<S: Service>(
    mut tasks: JoinSet<()>,
    mut stopped: watch::Receiver<bool>,
    service: Arc<S>,
) {
    // An error means that the sender is gone, which is a stop as well.
    drop(stopped.wait_for(|stop| *stop).await);
    while tasks.join_next().await.is_some() {}
    while service.counters().tcp.open() > 0 {
        sleep(POLL).await;
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        self.ask_to_stop();
        // Those that have not ended by now end with the process.
        if let Some(thread) = self.thread.take().filter(JoinHandle::is_finished)
            && thread.join().is_err()
        {
            tracing::error!("The thread of DNS over streams has panicked");
        }
    }
}
