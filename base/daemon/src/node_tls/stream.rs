//! A connection with another node, for as long as that node is trusted.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream that fails as soon as the node at its other end is not trusted any more. That is noticed by those who read, and
/// HTTP/2 always does.
pub struct NodeStream<S> {
    stream: S,
    untrusted: Pin<Box<dyn Future<Output = ()> + Send>>,
    is_over: bool,
}

impl<S> NodeStream<S> {
    pub(super) fn new(stream: S, untrusted: impl Future<Output = ()> + Send + 'static) -> Self {
        Self {
            stream,
            untrusted: Box::pin(untrusted),
            is_over: false,
        }
    }

    /// The stream itself.
    pub const fn get_mut(&mut self) -> &mut S {
        &mut self.stream
    }

    fn checked(&self) -> io::Result<()> {
        match self.is_over {
            false => Ok(()),
            true => Err(io::Error::new(
                io::ErrorKind::ConnectionAborted,
                "the certificate of the node is not trusted any more",
            )),
        }
    }
}

impl<S> fmt::Debug for NodeStream<S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_over = self.is_over;
        formatter
            .debug_struct("NodeStream")
            .field("is_over", &is_over)
            .finish_non_exhaustive()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for NodeStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.is_over {
            self.is_over = self.untrusted.as_mut().poll(context).is_ready();
        }
        self.checked()?;
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for NodeStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        octets: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.checked()?;
        Pin::new(&mut self.stream).poll_write(context, octets)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.checked()?;
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
