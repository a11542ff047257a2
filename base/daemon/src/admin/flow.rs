//! A body that continues for as long as its client reads it.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

/// Sends what a channel has until its sender is dropped. A client that has left drops the receiver.
#[derive(Debug)]
pub struct Flow {
    parts: mpsc::Receiver<Bytes>,
    /// The client's room among those that follow.
    _permit: OwnedSemaphorePermit,
}

impl Flow {
    /// The parts of a channel, for a client that has room.
    #[must_use]
    pub const fn new(parts: mpsc::Receiver<Bytes>, permit: OwnedSemaphorePermit) -> Self {
        Self {
            parts,
            _permit: permit,
        }
    }
}

impl Body for Flow {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let polled = self.parts.poll_recv(context);
        polled.map(|part| part.map(|part| Ok(Frame::data(part))))
    }
}
