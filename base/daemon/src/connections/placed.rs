//! A stream with its place.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{Place, Side};

/// A stream that tells of its first octet, of the beginnings of requests, and of a client that takes nothing. When its
/// place goes to another one, it fails.
#[derive(Debug)]
pub struct Placed<S> {
    stream: S,
    place: Place,
    /// The octets that the place hears of.
    tells: Tells,
    is_blocked: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tells {
    /// All that comes.
    All,
    /// The next octets, and then nothing.
    Next,
    Nothing,
}

impl<S> Placed<S> {
    pub(crate) const fn new(stream: S, place: Place) -> Self {
        Self {
            stream,
            place,
            tells: Tells::All,
            is_blocked: false,
        }
    }

    /// The stream itself.
    pub const fn get_ref(&self) -> &S {
        &self.stream
    }

    /// The place.
    pub const fn place(&self) -> &Place {
        &self.place
    }

    /// Octets do not begin requests: the protocol on the stream says itself when one begins.
    pub fn tell_first_octet_only(&mut self) {
        self.tells = Tells::Next;
    }

    /// The same, when the first octets have come already.
    pub fn tell_nothing(&mut self) {
        self.tells = Tells::Nothing;
    }

    fn told(&mut self, octets: usize) {
        match self.tells {
            Tells::All => self.place.received(octets),
            Tells::Next => {
                self.place.received(octets);
                self.tells = Tells::Nothing;
            }
            Tells::Nothing => {}
        }
    }

    fn written<T>(&mut self, polled: Poll<T>, context: &Context<'_>) -> Poll<io::Result<T>> {
        if polled.is_pending() != self.is_blocked {
            self.is_blocked = polled.is_pending();
            self.place.blocked(self.is_blocked);
        }
        match polled {
            Poll::Ready(written) => Poll::Ready(Ok(written)),
            Poll::Pending => match self.place.watch(Side::Write, context.waker()) {
                true => Poll::Ready(Err(ended())),
                false => Poll::Pending,
            },
        }
    }
}

fn ended() -> io::Error {
    io::Error::new(
        io::ErrorKind::ConnectionAborted,
        "the place of this connection was needed, or its time was over",
    )
}

impl<S: AsyncRead + Unpin> AsyncRead for Placed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.place.is_ended() {
            return Poll::Ready(Err(ended()));
        }
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        let octets = buffer.filled().len() - before;
        if octets > 0 {
            self.told(octets);
        }
        match polled {
            Poll::Pending if self.place.watch(Side::Read, context.waker()) => {
                Poll::Ready(Err(ended()))
            }
            polled => polled,
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Placed<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        octets: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, octets);
        self.written(polled, context).map(Result::flatten)
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
        octets: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, octets);
        self.written(polled, context).map(Result::flatten)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
