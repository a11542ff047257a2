//! A connection whose other side takes nothing any more is ended.
//!
//! HTTP has no time limit for answers: a blob may take hours, as long as it moves.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// A stream that fails when nothing could be written for too long.
#[derive(Debug)]
pub(super) struct Stalling<S> {
    inner: S,
    limit: Duration,
    timer: Option<Pin<Box<Sleep>>>,
    is_waiting: bool,
}

impl<S> Stalling<S> {
    pub(super) fn new(inner: S, limit: Duration) -> Self {
        Self {
            inner,
            limit,
            timer: None,
            is_waiting: false,
        }
    }

    /// The result of a write that has come to `written`.
    fn watch<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.is_waiting = false;
            return written;
        }
        let limit = self.limit;
        let deadline = || Instant::now() + limit;
        let timer = match &mut self.timer {
            Some(timer) => {
                if !self.is_waiting {
                    timer.as_mut().reset(deadline());
                }
                timer
            }
            none => none.insert(Box::pin(tokio::time::sleep_until(deadline()))),
        };
        self.is_waiting = true;
        match timer.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Stalling<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Stalling<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        octets: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(cx, octets);
        self.watch(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write_vectored(cx, slices);
        self.watch(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.inner).poll_flush(cx);
        self.watch(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.inner).poll_shutdown(cx);
        self.watch(cx, shut)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    fn block_on<F: Future>(future: F) -> F::Output {
        tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap()
            .block_on(future)
    }

    #[test]
    fn a_side_that_takes_nothing_is_given_up() {
        block_on(async {
            let (near, _far) = tokio::io::duplex(8);
            let mut near = Stalling::new(near, Duration::from_millis(20));
            let error = near.write_all(&[0; 64]).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        });
    }

    #[test]
    fn a_side_that_takes_a_little_now_and_then_is_not() {
        block_on(async {
            let (near, mut far) = tokio::io::duplex(8);
            // A busy machine has each step take longer, but not fifty times as long.
            let mut near = Stalling::new(near, Duration::from_secs(5));
            let taking = tokio::spawn(async move {
                let mut taken = 0;
                while taken < 512 {
                    // Together longer than the other side waits.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    taken += far.read(&mut [0; 8]).await.unwrap();
                }
                far
            });
            near.write_all(&[0; 512]).await.unwrap();
            // A pause between two answers is not one within an answer.
            let mut far = taking.await.unwrap();
            tokio::time::sleep(Duration::from_millis(5_500)).await;
            near.write_all(&[0; 8]).await.unwrap();
            far.read_exact(&mut [0; 8]).await.unwrap();
        });
    }
}
