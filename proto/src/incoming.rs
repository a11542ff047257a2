//! Serves contracts at a listener, within a bound on connections.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use daemon::accept::{Acceptor, Listener};
use daemon::connections::Placed;
use daemon::drain::Guard;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::mpsc;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::{Connected, Router};

/// Serves at a listener, in a task, until the drain begins; the drain waits for the last connection. Needs a tokio runtime.
pub fn serve<L>(router: Router, listener: L, acceptor: Acceptor, guard: &Guard)
where
    L: Listener,
    L::Stream: Connected,
    <L::Stream as Connected>::ConnectInfo: Unpin,
{
    let incoming = accept(listener, acceptor);
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

/// A connection, and the information that its requests carry.
#[derive(Debug)]
pub struct Accepted<S, I> {
    /// The connection.
    pub stream: S,
    /// The value that tonic puts into the extensions of each request.
    pub info: I,
}

/// A connection of a service.
type Subscriber<S> = Accepted<Placed<S>, <S as Connected>::ConnectInfo>;

/// The connections of a listener, for tonic; the listener is closed when the stream is dropped.
fn accept<L>(
    listener: L,
    acceptor: Acceptor,
) -> impl Stream<Item = io::Result<Subscriber<L::Stream>>>
where
    L: Listener,
    L::Stream: Connected,
{
    let (accepted, connections) = mpsc::channel(1);
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = tokio::select! {
                () = accepted.closed() => return,
                next = acceptor.next(&listener) => next,
            };
            // A subscriber is a service of the node, which a stream of snapshots may keep waiting for long.
            stream.place().prove();
            stream.tell_nothing();
            let connection = Accepted {
                info: stream.get_ref().connect_info(),
                stream,
            };
            if accepted.send(Ok(connection)).await.is_err() {
                return;
            }
        }
    });
    ReceiverStream::new(connections)
}

impl<S, I: Clone + Send + Sync + 'static> Connected for Accepted<S, I> {
    type ConnectInfo = I;

    fn connect_info(&self) -> I {
        self.info.clone()
    }
}

impl<S: AsyncRead + Unpin, I: Unpin> AsyncRead for Accepted<S, I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin, I: Unpin> AsyncWrite for Accepted<S, I> {
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
